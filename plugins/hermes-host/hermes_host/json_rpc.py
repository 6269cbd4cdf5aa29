"""JSON-RPC 2.0 over two file descriptors, one message a line.

Standard output belongs to the protocol alone: `claim` takes it before anything else is imported, and what
Hermes or a plugin prints goes to standard error. Standard input is taken likewise, so that no code that asks the
user a question eats a message. A line is written whole or not at all.
"""

import json
import os
import queue
import sys
import threading

LINE_MAX = 32 << 20
# So many lines wait for those who answer them; the rest waits in the pipe.
_AHEAD = 16
# After the end of the input: for what was begun to end, and for the parts to come to rest (`app`, `server`).
_LEAVING_SECONDS = 15.0

UNKNOWN_PARAMETERS = -32602
NO_SUCH_METHOD = -32601
NOT_JSON = -32700
FAILED = -32000
MAYBE_DONE = -32001
REFUSED = -32002
NOTHING = -32003


class Failure(Exception):
    """What the host is told instead of an answer."""

    def __init__(self, message, code=FAILED):
        super().__init__(message)
        self.code = code


def claim():
    """The protocol's two streams. From now on descriptor 1 is standard error and 0 is empty."""
    incoming = os.fdopen(os.dup(0), "rb", buffering=1 << 16)
    outgoing = os.fdopen(os.dup(1), "wb", buffering=0)
    sys.stdout.flush()
    os.dup2(2, 1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    sys.stdout = sys.stderr
    sys.stdin = open(os.devnull)
    return incoming, outgoing


class Wire:
    def __init__(self, incoming, outgoing):
        self.incoming = incoming
        self.outgoing = outgoing
        self.writing = threading.Lock()

    def messages(self):
        """Every message until the host closes its end."""
        lines = queue.Queue(_AHEAD)
        threading.Thread(target=self._read, args=(lines,), name="host-reader", daemon=True).start()
        while True:
            line = lines.get()
            if not line:
                return
            if not line.strip():
                continue
            try:
                message = json.loads(line)
            except ValueError as error:
                self.refuse(None, NOT_JSON, f"A line was not JSON: {error}")
                continue
            if isinstance(message, dict):
                yield message

    def _read(self, lines):
        """Reads in a thread of its own. A host that was killed says nothing but closes its end; a plugin that hangs in a
        plugin's code then, the hand-shake included, must not outlive it."""
        while True:
            line = self.incoming.readline(LINE_MAX + 1)
            if len(line) > LINE_MAX:
                line = b""  # there is no telling where the next message begins
            if not line:
                leaving = threading.Timer(_LEAVING_SECONDS, os._exit, args=(0,))
                leaving.daemon = True
                leaving.start()
            lines.put(line)
            if not line:
                return

    def answer(self, identity, result):
        try:
            line = self._line({"jsonrpc": "2.0", "id": identity, "result": result})
        except (ValueError, TypeError, RecursionError) as error:
            line = self._line(_refusal(identity, FAILED, f"The answer cannot be written as JSON: {error}"))
        if len(line) > LINE_MAX:
            line = self._line(_refusal(identity, FAILED, f"The answer is longer than {LINE_MAX} bytes."))
        self._write(line)

    def refuse(self, identity, code, message):
        self._write(self._line(_refusal(identity, code, message)))

    def log(self, level, message):
        self._write(self._line({"jsonrpc": "2.0", "method": "log", "params": {"level": level, "message": message}}))

    @staticmethod
    def _line(message):
        # `default`: a plugin may put anything into a result; half an answer beats none.
        text = json.dumps(message, ensure_ascii=False, separators=(",", ":"), default=str, allow_nan=False)
        return text.encode("utf-8", "replace") + b"\n"

    def _write(self, line):
        with self.writing:
            view = memoryview(line)
            try:
                while view:
                    view = view[self.outgoing.write(view) :]
            except (BrokenPipeError, ValueError):
                pass  # no one reads any more; the end of the input says so, too


def _refusal(identity, code, message):
    return {"jsonrpc": "2.0", "id": identity, "error": {"code": code, "message": message[:4000]}}
