"""One event loop for everything asynchronous that plugins bring along, in a thread of its own.

It lives as long as the process: what a handler opened on it (a client, a session) is still good at the next event.
"""

import asyncio
import inspect
import threading

_guard = threading.Lock()
_loop = None


def result(value, seconds=60.0):
    """The value, or what it comes to if it must be waited for."""
    if not inspect.isawaitable(value):
        return value

    async def wait():
        return await value

    return asyncio.run_coroutine_threadsafe(wait(), _running()).result(seconds)


def _running():
    global _loop
    with _guard:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="host-loop", daemon=True).start()
    return _loop
