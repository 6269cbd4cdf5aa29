"""Which turns were handed over, and which of them are known to be kept.

One small database in the plugin's own directory, with two columns that matter. A key is `begun` before a provider
sees the turn and `done` after it is kept, each in a transaction of its own that is on the disk before the next step:

    crash before `begun`                  nothing was sent; a retry sends it
    crash between `begun` and `done`      unknown; see `retention`
    crash between `done` and the answer   a retry is answered from here, and nothing is sent

Entries are forgotten after ninety days: no host retries that late.
"""

import sqlite3
import threading
import time

_KEPT_FOR = 90 * 24 * 3600


class Ledger:
    def __init__(self, path):
        self.guard = threading.Lock()
        self.database = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=10)
        self.database.execute("PRAGMA journal_mode=WAL")
        self.database.execute("PRAGMA synchronous=FULL")
        self.database.execute(
            "CREATE TABLE IF NOT EXISTS handed (key TEXT PRIMARY KEY, done INTEGER NOT NULL, at REAL NOT NULL)"
        )
        columns = [row[1] for row in self.database.execute("PRAGMA table_info(handed)")]
        if "tries" not in columns:
            self.database.execute("ALTER TABLE handed ADD COLUMN tries INTEGER NOT NULL DEFAULT 0")
        self.database.execute("DELETE FROM handed WHERE at < ?", (time.time() - _KEPT_FOR,))

    def state(self, key):
        """None, `begun` or `done`."""
        with self.guard:
            row = self.database.execute("SELECT done FROM handed WHERE key = ?", (key,)).fetchone()
        return None if row is None else "done" if row[0] else "begun"

    def tries(self, key):
        """How often it was handed over, as far as it may have been heard."""
        with self.guard:
            row = self.database.execute("SELECT tries FROM handed WHERE key = ?", (key,)).fetchone()
        return row[0] if row else 0

    def begin(self, key):
        self._put(key, 0, 1)

    def finish(self, key):
        self._put(key, 1, 0)

    def unheard(self, key):
        """The last try did not reach the provider."""
        self._put(key, 0, -1)

    def forget(self, key):
        with self.guard:
            self.database.execute("DELETE FROM handed WHERE key = ?", (key,))

    def _put(self, key, done, tries):
        with self.guard:
            self.database.execute(
                "INSERT INTO handed (key, done, at, tries) VALUES (?, ?, ?, ?) ON CONFLICT (key) DO UPDATE"
                " SET done = excluded.done, at = excluded.at, tries = max(0, tries + excluded.tries)",
                (key, done, time.time(), tries),
            )

    def close(self):
        with self.guard:
            self.database.close()
