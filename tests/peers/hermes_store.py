"""Hermes' own hands, moved from a test.

Reads a list of calls from standard input, each `[method, arguments, named arguments]`, runs them one
after the other on the conversation store of the Hermes in whose environment this runs, on the home
that HERMES_HOME names, and prints the list of what they returned. A method is one of Hermes' own
`SessionDB`; or, after `gateway.`, one of the `SessionStore` of its gateway; or, after `pairing.`, one of
its `PairingStore`; or one of the few defined here for what those cannot do alone.
"""

import functools
import json
import os
import sqlite3
import sys
import time
from pathlib import Path

HOME = Path(os.environ["HERMES_HOME"])
DATABASE = HOME / "state.db"


def schema():
    """The text of everything in the database, and its version, read without Hermes."""
    connection = sqlite3.connect(f"file:{DATABASE}?mode=ro", uri=True)
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name").fetchall()
    version = connection.execute("SELECT version FROM schema_version").fetchall()
    connection.close()
    return {"objects": rows, "version": version}


def routes():
    """The routing index as Hermes' gateway loads it: chat key to session."""
    return {entry.session_key: entry.session_id for entry in gateway().list_sessions()}


def route(chat_id, user_name="Ada"):
    """What Hermes' gateway does when a person writes on Telegram: the entry of that chat."""
    from gateway.config import Platform
    from gateway.session import SessionSource

    source = SessionSource(
        platform=Platform.TELEGRAM, chat_id=chat_id, chat_type="dm", user_id=chat_id, user_name=user_name
    )
    return gateway().get_or_create_session(source)


def resolve(source):
    """The same for a message from anywhere: `source` has the fields of Hermes' own `SessionSource`."""
    from gateway.config import Platform
    from gateway.session import SessionSource

    return gateway().get_or_create_session(SessionSource(**{**source, "platform": Platform(source["platform"])}))


def can(method):
    """Whether this Hermes has it."""
    return hasattr(database(), method)


@functools.cache
def database():
    from hermes_state import SessionDB

    return SessionDB(DATABASE)


@functools.cache
def gateway():
    from gateway.config import GatewayConfig, SessionResetPolicy
    from gateway.session import SessionStore

    config = GatewayConfig(default_reset_policy=SessionResetPolicy(mode="none"))
    return SessionStore(HOME / "sessions", config)


@functools.cache
def pairing():
    from gateway.pairing import PairingStore

    return PairingStore()


def check():
    """SQLite's own opinion of the file, and of both full-text indexes."""
    connection = sqlite3.connect(DATABASE)
    found = [row[0] for row in connection.execute("PRAGMA integrity_check")]
    for index in ("messages_fts", "messages_fts_trigram"):
        connection.execute(f"INSERT INTO {index}({index}, rank) VALUES ('integrity-check', 1)")
    connection.close()
    return found


def wait_for(path):
    """Until the test has written this file."""
    deadline = time.monotonic() + 120
    while not os.path.exists(path):
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.005)


OURS = {
    "schema": schema,
    "routes": routes,
    "route": route,
    "resolve": resolve,
    "can": can,
    "check": check,
    "pause": time.sleep,
    "wait_for": wait_for,
}


def called(method, arguments, named):
    if method in OURS:
        return OURS[method](*arguments, **named)
    owner, _, name = method.rpartition(".")
    owner = {"gateway": gateway, "pairing": pairing, "": database}[owner]()
    return getattr(owner, name)(*arguments, **named)


results = [called(*call) for call in json.load(sys.stdin)]
if database.cache_info().currsize:
    database().close()
json.dump(results, sys.stdout, default=lambda entry: entry.to_dict())
