"""A real Hermes gateway behind its API server, asked several things at once.

Fills a session of the home that HERMES_HOME names, starts the gateway of the Hermes in whose environment this
runs, is its model on a loopback port, and sends it requests on that one session. Standard input is
`{"config": {...}, "session": id, "messages": n, "characters": n, "summary_seconds": s, "rounds": [[text, ...], ...],
"pause": s}`: the texts of a round are sent one after the other, `pause` seconds apart, without waiting for answers; a
summary takes `summary_seconds`. Prints `{"answers": [...], "summaries": n}` when all were answered and the gateway has
ended.
"""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HOME = Path(os.environ["HERMES_HOME"])
KEY = "a-key-for-tests-that-is-long-enough-0123456789"
PATIENCE = 120

told = json.load(sys.stdin)
summaries = 0


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer({"object": "list", "data": [{"id": "fake-model", "object": "model"}]})

    def do_POST(self):
        global summaries
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        said = "Understood."
        if "tools" not in body:
            summaries += 1
            time.sleep(told["summary_seconds"])
            said = "## Goal\nTo be remembered."
        usage = {"prompt_tokens": 1000, "completion_tokens": 5, "total_tokens": 1005}
        common = {"id": "c", "model": "fake-model", "created": int(time.time())}
        if not body.get("stream"):
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": said}}
            return self.answer({**common, "object": "chat.completion", "choices": [choice], "usage": usage})
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.close_connection = True
        self.end_headers()
        common["object"] = "chat.completion.chunk"
        delta = {"index": 0, "delta": {"role": "assistant", "content": said}, "finish_reason": None}
        end = {"index": 0, "delta": {}, "finish_reason": "stop"}
        for chunk in ({**common, "choices": [delta]}, {**common, "choices": [end], "usage": usage}):
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")


def fill():
    from hermes_state import SessionDB

    database = SessionDB(HOME / "state.db")
    database.create_session(told["session"], "api_server")
    for nth in range(told["messages"]):
        text = f"{nth}: " + "all work and no play " * (told["characters"] // 21)
        database.append_message(told["session"], ("user", "assistant")[nth % 2], text)
    database.close()


def free_port():
    """Below those that the system assigns itself: Hermes takes seconds until it listens."""
    while True:
        port = random.randrange(12000, 32000)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def ask(port, text, answers):
    body = json.dumps({"model": "hermes-agent", "messages": [{"role": "user", "content": text}]}).encode()
    headers = {
        "Authorization": f"Bearer {KEY}",
        "Content-Type": "application/json",
        "X-Hermes-Session-Id": told["session"],
    }
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", body, headers)
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:
        answers.append([text, json.load(response)["choices"][0]["message"]["content"]])


def main():
    world = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    world.daemon_threads = True
    threading.Thread(target=world.serve_forever, daemon=True).start()
    (HOME / "work").mkdir(parents=True)
    address = f"http://127.0.0.1:{world.server_port}/v1"
    model = {"default": "fake-model", "provider": "custom", "base_url": address, "api_key": "sk-fake"}
    config = {
        "terminal": {"backend": "local", "cwd": str(HOME / "work")},
        "kanban": {"dispatch_in_gateway": False},
        "security": {"allow_lazy_installs": False, "tirith_enabled": False},  # nothing leaves this machine
        **told["config"],
    }
    config["model"] = {**model, **config.get("model", {})}
    (HOME / "config.yaml").write_text(json.dumps(config))
    fill()
    port = free_port()
    server = {
        "API_SERVER_ENABLED": "true",
        "API_SERVER_KEY": KEY,
        "API_SERVER_HOST": "127.0.0.1",
        "API_SERVER_PORT": str(port),
    }
    alone = {"PIP_NO_INDEX": "1", "UV_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    hermes = Path(sys.executable).with_name("hermes")
    said = (HOME / "console").open("w")
    gateway = subprocess.Popen(
        [hermes, "gateway", "run"],
        env={**os.environ, **server, **alone},
        stdin=subprocess.DEVNULL,
        stdout=said,
        stderr=said,
    )
    answers = []
    try:
        deadline = time.time() + PATIENCE
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).close()
                break
            except OSError:
                if time.time() > deadline or gateway.poll() is not None:
                    print((HOME / "console").read_text()[-4000:], file=sys.stderr)
                    sys.exit("the gateway does not answer")
                time.sleep(0.2)
        for texts in told["rounds"]:
            threads = []
            for text in texts:
                threads.append(threading.Thread(target=ask, args=(port, text, answers)))
                threads[-1].start()
                time.sleep(told["pause"])
            for thread in threads:
                thread.join()
    finally:
        gateway.send_signal(signal.SIGTERM)
        try:
            gateway.wait(15)
        except subprocess.TimeoutExpired:
            gateway.kill()
            gateway.wait()
    json.dump({"answers": answers, "summaries": summaries}, sys.stdout)


main()
