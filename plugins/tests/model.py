"""A model server in the manner of OpenAI's, as small as it can be: it says what it is told to say, and remembers."""

import http.server
import json
import threading


class Model:
    def __init__(self, reply="## Goal\nAda wants to keep bees in Turin. BEES-SUMMARY."):
        self.reply = reply
        self.failing = False
        self.asked = []
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self._answer({"object": "list", "data": [{"id": "tiny", "object": "model", "context_length": 131072}]})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if not self.path.endswith("/chat/completions"):
                    return self._answer({"error": {"message": "no such path"}}, 404)
                model.asked.append(body)
                if model.failing:
                    return self._answer({"error": {"message": "the model is out"}}, 500)
                if body.get("stream"):
                    return self._stream()
                message = {"role": "assistant", "content": model.reply}
                choice = {"index": 0, "message": message, "finish_reason": "stop"}
                usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
                said = {"id": "c", "object": "chat.completion", "created": 1, "model": "tiny"}
                self._answer({**said, "choices": [choice], "usage": usage})

            def _stream(self):
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                for delta, reason in (({"role": "assistant", "content": model.reply}, None), ({}, "stop")):
                    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "tiny"}
                    chunk["choices"] = [{"index": 0, "delta": delta, "finish_reason": reason}]
                    self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
                self.wfile.write(b"data: [DONE]\n\n")
                self.close_connection = True

            def _answer(self, body, status=200):
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *ignored):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
