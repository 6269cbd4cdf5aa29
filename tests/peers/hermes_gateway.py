"""A real Hermes gateway, with everything outside it played here, so that its log shows what it does.

Fills the home that HERMES_HOME names with chats, starts the gateway of the Hermes in whose environment
this runs, is its model and its Signal daemon on one loopback port, and speaks in one chat after the other.
Standard input is `{"config": {...}, "chats": [{"number", "messages", "characters", "turns"}]}`: a chat that
already has so many messages of so many characters each, and gets so many turns. Prints `{"replies": {number: [...]}, "asked": n}`
when every chat was answered and the gateway has ended.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HOME = Path(os.environ["HERMES_HOME"])
ACCOUNT = "+15550000000"
PATIENCE = 60  # seconds for one answer; the first takes about ten

told = json.load(sys.stdin)
envelopes = queue.Queue()  # to the gateway
listening = threading.Event()
replies = {}
replied = threading.Condition()
asked = 0


class World(BaseHTTPRequestHandler):
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

    def stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.close_connection = True
        self.end_headers()

    def event(self, data):
        self.wfile.write(f"data: {data}\n\n".encode())
        self.wfile.flush()

    def do_GET(self):
        if self.path.startswith("/api/v1/events"):
            self.stream()
            self.wfile.write(b":\n")
            self.wfile.flush()
            listening.set()
            while (envelope := envelopes.get()) is not None:
                self.event(json.dumps({"envelope": envelope}))
        elif self.path.startswith("/v1/models"):
            self.answer({"object": "list", "data": [{"id": "fake-model", "object": "model"}]})
        else:
            self.answer({})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        if self.path.startswith("/api/v1/rpc"):
            return self.signal_daemon(body)
        global asked
        asked += 1
        said = "## Goal\nTo be remembered." if "tools" not in body else "Understood."
        usage = {"prompt_tokens": 1000, "completion_tokens": 5, "total_tokens": 1005}
        common = {"id": f"c{asked}", "model": "fake-model", "created": int(time.time())}
        if not body.get("stream"):
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": said}}
            return self.answer({**common, "object": "chat.completion", "choices": [choice], "usage": usage})
        self.stream()
        common["object"] = "chat.completion.chunk"
        delta = {"index": 0, "delta": {"role": "assistant", "content": said}, "finish_reason": None}
        self.event(json.dumps({**common, "choices": [delta]}))
        end = {"index": 0, "delta": {}, "finish_reason": "stop"}
        self.event(json.dumps({**common, "choices": [end], "usage": usage}))
        self.event("[DONE]")

    def signal_daemon(self, call):
        if call.get("method") == "send":
            text = call["params"].get("message", "")
            with replied:
                for number in call["params"].get("recipient", []):
                    replies.setdefault(number, []).append(text)
                replied.notify_all()
        self.answer({"jsonrpc": "2.0", "id": call.get("id"), "result": {"timestamp": int(time.time() * 1000)}})


def fill(chat):
    """What was said in this chat before, as Hermes' own gateway would have written it."""
    from gateway.config import GatewayConfig, Platform
    from gateway.session import SessionSource, SessionStore

    store = SessionStore(HOME / "sessions", GatewayConfig())
    number = chat["number"]
    source = SessionSource(
        platform=Platform.SIGNAL, chat_id=number, chat_name=number, chat_type="dm", user_id=number, user_name=number
    )
    session = store.get_or_create_session(source).session_id
    for nth in range(chat["messages"]):
        text = f"{nth}: " + "all work and no play " * (chat["characters"] // 21)
        store.append_to_transcript(session, {"role": ("user", "assistant")[nth % 2], "content": text})


def give_up(why):
    print((HOME / "console").read_text()[-4000:], file=sys.stderr)
    sys.exit(why)


def say(number):
    now = int(time.time() * 1000)
    before = replies.get(number, []).count("Understood.")
    envelopes.put(
        {
            "source": number,
            "sourceNumber": number,
            "sourceName": number,
            "timestamp": now,
            "dataMessage": {"message": "Are you there?", "timestamp": now},
        }
    )
    with replied:
        if not replied.wait_for(lambda: replies.get(number, []).count("Understood.") > before, PATIENCE):
            give_up(f"no answer to {number}; said was {replies}")


def main():
    world = ThreadingHTTPServer(("127.0.0.1", 0), World)
    world.daemon_threads = True
    threading.Thread(target=world.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{world.server_port}"
    (HOME / "work").mkdir(parents=True)
    model = {"default": "fake-model", "provider": "custom", "base_url": f"{address}/v1", "api_key": "sk-fake"}
    config = {
        "terminal": {"backend": "local", "cwd": str(HOME / "work")},
        "kanban": {"dispatch_in_gateway": False},
        "security": {"allow_lazy_installs": False, "tirith_enabled": False},  # nothing leaves this machine
        **told["config"],
    }
    config["model"] = {**model, **config.get("model", {})}
    (HOME / "config.yaml").write_text(json.dumps(config))
    for chat in told["chats"]:
        fill(chat)
    (HOME / ".clean_shutdown").touch()  # or it goes on with every chat by itself
    signal_daemon = {"SIGNAL_HTTP_URL": address, "SIGNAL_ACCOUNT": ACCOUNT, "SIGNAL_ALLOWED_USERS": "*"}
    alone = {"PIP_NO_INDEX": "1", "UV_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    environment = {**os.environ, **signal_daemon, **alone, "GATEWAY_ALLOW_ALL_USERS": "true"}
    hermes = Path(sys.executable).with_name("hermes")
    said = (HOME / "console").open("w")
    gateway = subprocess.Popen(
        [hermes, "gateway", "run"], env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said
    )
    try:
        if not listening.wait(PATIENCE):
            give_up("the gateway did not connect to Signal")
        for chat in told["chats"]:
            for _ in range(chat["turns"]):
                say(chat["number"])
    finally:
        gateway.send_signal(signal.SIGTERM)
        try:
            gateway.wait(15)
        except subprocess.TimeoutExpired:
            gateway.kill()
            gateway.wait()
    json.dump({"replies": replies, "asked": asked}, sys.stdout)


main()
