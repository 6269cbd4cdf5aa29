"""Who answers what, and in which thread.

The reader never waits for Hermes: every call runs in a worker thread, so that a slow provider does not keep an
engine, a `ping` or a `cancel` from being heard. Threads are daemons: what hangs does not keep the process alive.
A cancelled call that has not begun is not begun; one that has is left to end, and its answer is dropped.
"""

import queue
import threading
import time
import traceback

from .json_rpc import NO_SUCH_METHOD, UNKNOWN_PARAMETERS, Failure

WORKERS = 16
DRAIN_SECONDS = 5.0


class Server:
    def __init__(self, wire, methods):
        self.wire = wire
        self.methods = methods
        self.waiting = queue.Queue()
        self.workers = 0
        self.idle = 0
        self.guard = threading.Lock()
        self.open = set()
        self.cancelled = set()

    def run(self):
        """Serves until the host says `shutdown` or closes its end."""
        for message in self.wire.messages():
            method = message.get("method")
            if not isinstance(method, str):
                continue  # an answer; nothing was asked
            if method == "cancel":
                self._cancel(message.get("params"))
            elif method in ("initialize", "ping"):
                self._serve(message)
            elif method == "shutdown":
                self._drain()
                self._serve(message)
                return
            else:
                self._hand_over(message)

    def _drain(self):
        """What was begun is answered first, as far as there is time."""
        deadline = time.monotonic() + DRAIN_SECONDS
        while time.monotonic() < deadline:
            with self.guard:
                if self.open <= self.cancelled:
                    return
            time.sleep(0.01)

    def _cancel(self, params):
        identity = (params or {}).get("id")
        with self.guard:
            if identity in self.open:
                self.cancelled.add(identity)

    def _hand_over(self, message):
        with self.guard:
            if "id" in message:
                self.open.add(message["id"])
            if self.workers < WORKERS and self.idle <= self.waiting.qsize():
                self.workers += 1
                threading.Thread(target=self._work, name=f"host-{self.workers}", daemon=True).start()
        self.waiting.put(message)

    def _work(self):
        while True:
            with self.guard:
                self.idle += 1
            message = self.waiting.get()
            with self.guard:
                self.idle -= 1
            self._serve(message)

    def _serve(self, message):
        identity = message.get("id")
        try:
            if self._dropped(identity):
                return
            result = self._result(message)
        except Failure as failure:
            if not self._dropped(identity) and "id" in message:
                self.wire.refuse(identity, failure.code, str(failure))
        except Exception as error:  # a plugin may raise anything; the host is told and the process lives
            traceback.print_exc()
            if not self._dropped(identity) and "id" in message:
                self.wire.refuse(identity, Failure("").code, f"{type(error).__name__}: {error}")
        else:
            if not self._dropped(identity) and "id" in message:
                self.wire.answer(identity, result)
        finally:
            with self.guard:
                self.open.discard(identity)
                self.cancelled.discard(identity)

    def _dropped(self, identity):
        with self.guard:
            return identity is not None and identity in self.cancelled

    def _result(self, message):
        method = message["method"]
        handler = self.methods.get(method)
        if handler is None:
            raise Failure(f"There is no method {method} here.", NO_SUCH_METHOD)
        params = message.get("params")
        if params is None:
            params = {}
        if not isinstance(params, dict):
            raise Failure(f"The parameters of {method} are not an object.", UNKNOWN_PARAMETERS)
        result = handler(params)
        return {} if result is None else result
