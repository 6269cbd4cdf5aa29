"""Which threads, and which log lines, belong to which call.

Hermes' providers hand work to threads and tell of a failure in their log alone. So every thread remembers on whose
behalf it was started: what a call began can be waited for, and what it logged can be heard, without knowing how the
provider is built. A thread without an owner belongs to the host.

- `settle` is over when every thread of the owner has ended or waits for work, and its queues are empty
- a thread that runs an event loop serves others, who wait for it themselves: it is not waited for
- a thread that never rests, say because it looks every second whether there is something to do, is waited for in vain
  once, and then no more (`tolerate`); unless the owner has a queue, whose thread may only have been stuck
- what a provider starts outside Python's `threading` is not seen
"""

import contextlib
import logging
import queue
import re
import sys
import threading
import time
import weakref

_here = threading.local()
_owners = weakref.WeakKeyDictionary()
_watches = []
# Re-entrant: collecting garbage may log while it is held.
_guard = threading.RLock()
_services = weakref.WeakSet()
_PAUSE = 0.004
# What makes a failure good that was told before: the request went through in the end.
_GOOD = re.compile(r"\b(succeeded|success(ful|fully)?|stored|saved|synced|retained|recovered)\b", re.IGNORECASE)
_DONE = re.compile(r'"HTTP/[\d.]+ 2\d\d\b')
_SIGNS = re.compile(r"\b(fail(s|ed|ure)?|errors?|could not|cannot|unable|timed out|abandoning|refused)\b", re.IGNORECASE)


def install():
    """From now on threads inherit. Once, before Hermes is imported."""
    start = threading.Thread.start

    def inheriting(thread):
        owner = current()
        if owner is not None:
            with _guard:
                _owners[thread] = owner
        return start(thread)

    threading.Thread.start = inheriting
    logging.getLogger().addHandler(_Listener(level=logging.DEBUG))


def current():
    """(owner, deed) of the running thread, or None."""
    owner = getattr(_here, "owner", None)
    if owner is None:
        with _guard:
            owner = _owners.get(threading.current_thread())
    return owner


@contextlib.contextmanager
def acting(owner, deed):
    """What is started in here is started for `owner`, as part of `deed`."""
    before = getattr(_here, "owner", None)
    _here.owner = (owner, deed)
    try:
        yield
    finally:
        _here.owner = before


@contextlib.contextmanager
def heard(owner, apart_from=()):
    """Collects what sounds like a failure in the owner's threads, other than in those deeds."""
    watch = _Watch(owner, frozenset(apart_from))
    with _guard:
        _watches.append(watch)
    try:
        yield watch.failures
    finally:
        with _guard:
            _watches.remove(watch)


def settle(owner, seconds, deeds=None, holder=None):
    """Waits until nothing the owner started is at work. False if it still is after so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        # Queues first: a thread that waits for work after its queue was empty has nothing in its hands.
        if all(each.empty() for each in queues(holder)) and not any(map(_busy, _threads(owner, deeds))):
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(_PAUSE)


def tolerate(owner, deeds=None, holder=None):
    """What is at work now is not waited for again."""
    if not queues(holder):
        with _guard:
            _services.update(filter(_busy, _threads(owner, deeds)))


def queues(holder, depth=2):
    """The queues that an object holds, or an object of the same package that it holds."""
    found = []
    package = type(holder).__module__.split(".")[:3]

    def look(thing, left):
        for value in list(getattr(thing, "__dict__", {}).values()):
            if isinstance(value, queue.Queue):
                found.append(value)
            elif left > 1 and type(value).__module__.split(".")[:3] == package:
                look(value, left - 1)

    if holder is not None:
        look(holder, depth)
    return found


def _threads(owner, deeds):
    with _guard:
        return [
            thread
            for thread, (whose, deed) in list(_owners.items())
            if whose == owner and (deeds is None or deed in deeds) and thread.is_alive()
        ]


def _frames(thread):
    """From the innermost outwards."""
    frame = sys._current_frames().get(thread.ident)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _busy(thread):
    inner = None
    for frame in _frames(thread):
        code = frame.f_code
        where = code.co_filename.replace("\\", "/")
        if where.endswith("/queue.py") and code.co_name == "get" and inner == "wait":
            return False
        if where.endswith("/concurrent/futures/thread.py") and code.co_name == "_worker" and inner is None:
            return False
        if where.endswith("/asyncio/base_events.py") and code.co_name == "run_forever":
            # `asyncio.run` ends by itself and is at work until then; a loop that runs for ever serves.
            return frame.f_back is not None and frame.f_back.f_code.co_name == "run_until_complete"
        inner = code.co_name
    return inner is not None and thread not in _services


class _Watch:
    def __init__(self, owner, apart_from):
        self.owner = owner
        self.apart_from = apart_from
        self.failures = []
        self.sources = set()


class _Listener(logging.Handler):
    def emit(self, record):
        if not _watches:
            return
        owner = current()
        if owner is None:
            return
        is_bad = _sounds_bad(record)
        if not is_bad and not _sounds_good(record):
            return
        with _guard:
            for watch in _watches:
                if watch.owner != owner[0] or owner[1] in watch.apart_from:
                    continue
                if is_bad and len(watch.failures) < 20:
                    watch.failures.append(record.getMessage())
                    watch.sources.add(record.name)
                elif not is_bad and (record.name == "httpx" or record.name in watch.sources):
                    watch.failures.clear()  # the last word counts


def _sounds_bad(record):
    if record.levelno >= logging.ERROR or record.exc_info:
        return True
    # The words of the provider's author, not those of the people who talk to it.
    return isinstance(record.msg, str) and _SIGNS.search(record.msg) is not None


def _sounds_good(record):
    if record.levelno >= logging.WARNING or not isinstance(record.msg, str):
        return False
    if record.name == "httpx":
        return _DONE.search(record.getMessage()) is not None
    return _GOOD.search(record.msg) is not None
