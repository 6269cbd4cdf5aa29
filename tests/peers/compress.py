"""Hermes' own compressor, for comparison.

Speaks in lines of JSON. Each line from standard input is a conversation, `{"messages": [...],
"window": n, "tokens": n}`; the answer is `{"messages": [...]}`, as Hermes' `ContextCompressor` leaves
it, or `{"error": "..."}`. Where Hermes would ask a model for a summary, `{"ask": "<the request>"}` is
printed instead, and the next line read is what the model says: `{"answer": "..."}`, or
`{"failed": "..."}` for a model that cannot be reached. Everything else is Hermes as it is installed,
with its defaults.
"""

import json
import logging
import sys
from types import SimpleNamespace

# Standard output is the wire: all other output goes to standard error.
wire, sys.stdout = sys.stdout, sys.stderr
logging.disable(logging.CRITICAL)

from agent import context_compressor  # noqa: E402

MODEL = "scripted"


def say(value):
    wire.write(json.dumps(value, ensure_ascii=False) + "\n")
    wire.flush()


def hear():
    line = sys.stdin.readline()
    if not line:
        raise SystemExit(0)
    return json.loads(line)


def call_llm(**request):
    """In place of the network: the request goes out over the wire, whole and unchanged."""
    (message,) = request["messages"]
    say({"ask": message["content"]})
    told = hear()
    if "answer" not in told:
        raise ValueError(told.get("failed", "no answer"))
    message = SimpleNamespace(content=told["answer"])
    return SimpleNamespace(choices=[SimpleNamespace(message=message)])


context_compressor.call_llm = call_llm


def compress(conversation):
    compressor = context_compressor.ContextCompressor(
        MODEL, quiet_mode=True, config_context_length=conversation["window"]
    )
    if not compressor.should_compress(conversation["tokens"]):
        raise ValueError("sees no need to compress")
    messages = compressor.compress(conversation["messages"], current_tokens=conversation["tokens"])
    shown = ("role", "content", "tool_calls", "tool_call_id", "tool_name")
    return [{key: message[key] for key in shown if message.get(key) is not None} for message in messages]


while True:
    conversation = hear()
    try:
        say({"messages": compress(conversation)})
    except Exception as error:
        say({"error": f"{type(error).__name__}: {error}"})
