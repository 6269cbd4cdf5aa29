"""How long Hermes' own compressor takes with a summariser that answers after a fixed time.

    PYTHON bench/hermes_compression.py [SECONDS]

PYTHON is an interpreter that has hermes-agent (tests/peers/install makes one). The conversation is that of
`throughline-bench --only compression`: 194 messages of about 146,000 tokens in all. The first round imports
what Hermes needs and does not count.
"""

import http.server
import json
import os
import sys
import tempfile
import threading
import time

LATENCY = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
SUMMARY = (
    "## Goal\nMeasure what a compression costs.\n\n## Completed Actions\nMany long messages were sent and "
    "answered.\n\n## Critical Context\nThey are filler."
)


class Model(http.server.BaseHTTPRequestHandler):
    calls = 0

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        Model.calls += 1
        time.sleep(LATENCY)
        message = {"role": "assistant", "content": SUMMARY}
        answer = {
            "id": "one",
            "object": "chat.completion",
            "created": 0,
            "model": "slow",
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
base = f"http://127.0.0.1:{server.server_port}/v1"
home = tempfile.mkdtemp()
with open(os.path.join(home, "config.yaml"), "w") as config:
    config.write(f"model:\n  default: slow\n  provider: custom\n  base_url: {base}\n  api_key: none\n")
os.environ.update(HERMES_HOME=home, OPENAI_API_KEY="none", OPENAI_BASE_URL=base)

from agent.context_compressor import ContextCompressor  # noqa: E402

messages = [{"role": ("user", "assistant")[turn % 2], "content": "box " * 750} for turn in range(194)]
for _ in range(4):
    compressor = ContextCompressor(
        model="slow",
        base_url=base,
        api_key="none",
        provider="custom",
        config_context_length=230_000,
        quiet_mode=True,
    )
    before, wall, cpu = Model.calls, time.monotonic(), time.process_time()
    left = compressor.compress(list(messages), current_tokens=146_000)
    wall, cpu = (time.monotonic() - wall) * 1e3, (time.process_time() - cpu) * 1e3
    print(f"{len(messages)} -> {len(left)} messages, {Model.calls - before} call, wall {wall:.0f} ms, CPU {cpu:.0f} ms")
