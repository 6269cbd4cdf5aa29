"""One instance per session, made on first need.

A provider or an engine that thinks in a "current session" has one for life, and is never asked to switch. Instances
that were not asked for in a while are let go of when there are many; that is not the end of their session, and the
next call makes another.
"""

import collections
import itertools
import threading
import time

from .json_rpc import Failure

LIMIT = 256
_RESTING_FOR = 600.0
_numbers = itertools.count(1)


class Entry:
    """An instance and who may use it: `writing` for what changes it, `reading` for what asks it."""

    def __init__(self, session):
        self.session = session
        self.token = f"instance-{next(_numbers)}"
        self.writing = threading.RLock()
        self.reading = threading.RLock()
        self.instance = None
        self.turns = 0
        self.window = 0
        self.late = False
        self.used = time.monotonic()

    def live(self):
        """The instance, for the holder of one of the locks."""
        if self.instance is None:
            raise Failure("The session was closed meanwhile.")
        return self.instance


class Scopes:
    def __init__(self, make, let_go):
        self.make = make
        self.let_go = let_go
        self.entries = collections.OrderedDict()
        self.guard = threading.Lock()

    def of(self, scope):
        """The scope's entry, with its instance."""
        session = scope.get("session") or ""
        with self.guard:
            entry = self.entries.get(session)
            if entry is None:
                entry = self.entries[session] = Entry(session)
            self.entries.move_to_end(session)
            entry.used = time.monotonic()
            resting = self._resting()
        for old in resting:
            self.let_go(old)
        if entry.instance is None:  # asked first, since a turn that is being kept holds the lock
            with entry.writing:
                self._fill(entry, scope)
        return entry

    def _fill(self, entry, scope):
        if entry.instance is None:
            try:
                entry.instance = self.make(scope, entry)
            except BaseException:
                self.forget(entry)
                raise

    def known(self, session):
        with self.guard:
            return self.entries.get(session)

    def forget(self, entry):
        with self.guard:
            if self.entries.get(entry.session) is entry:
                del self.entries[entry.session]

    def all(self):
        with self.guard:
            return list(self.entries.values())

    def _resting(self):
        resting = []
        for session, entry in list(self.entries.items()):
            if len(self.entries) <= LIMIT or time.monotonic() - entry.used < _RESTING_FOR:
                break
            resting.append(self.entries.pop(session))
        return resting
