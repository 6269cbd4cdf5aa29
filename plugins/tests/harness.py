"""The host's side of the protocol, as far as tests need it: a real process, real pipes, real Hermes.

Which Hermes: THROUGHLINE_HERMES_PYTHON names its Python; without it `.cache/peers/hermes-0.19.0/bin/python` of the
repository (`tests/peers/install` puts it there). Without either, tests are skipped and say so.
"""

import json
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOST = ROOT / "plugins" / "hermes-host" / "hermes_host"
FIXTURES = pathlib.Path(__file__).resolve().parent / "fixtures"


def hermes_python():
    named = os.environ.get("THROUGHLINE_HERMES_PYTHON")
    return named or str(ROOT / ".cache" / "peers" / "hermes-0.19.0" / "bin" / "python")


def need(path, how):
    """Skips where something is missing; where peers are required, that is a failure."""
    if not os.path.exists(path):
        missing = f"{path} is missing: run {how}"
        if os.environ.get("THROUGHLINE_PEERS") == "required":
            raise AssertionError(missing)
        raise unittest.SkipTest(missing)


class Refused(Exception):
    def __init__(self, error):
        super().__init__(error["message"])
        self.code = error["code"]


class Peer:
    """A plugin process and the calls to it."""

    def __init__(self, command, environment=None):
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("SHOW") else subprocess.DEVNULL,
            env=environment,
        )
        self.number = 0
        self.answers = {}
        self.logged = []
        self.guard = threading.Lock()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                self._break(f"the plugin wrote what is not a message: {line!r}")
                return
            if message.get("method") == "log":
                self.logged.append(message["params"]["message"])
            elif "method" in message:
                self.asked(message)
            elif "id" in message:
                with self.guard:
                    waiting = self.answers.get(message["id"])
                if waiting:
                    waiting.put(message)

    def _break(self, why):
        with self.guard:
            for waiting in self.answers.values():
                waiting.put({"error": {"code": 0, "message": why}})

    def asked(self, message):
        """The plugin asks the host; a test that offered something replaces this."""

    def begin(self, method, params=None):
        with self.guard:
            self.number += 1
            number = self.number
            self.answers[number] = queue.Queue()
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}})
        return number

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def result(self, number, seconds=120):
        message = self.answers[number].get(timeout=seconds)
        if "error" in message:
            raise Refused(message["error"])
        return message["result"]

    def call(self, method, params=None, seconds=120):
        return self.result(self.begin(method, params), seconds)

    def end(self):
        if self.process.poll() is None:
            try:
                self.call("shutdown", seconds=30)
                self.process.stdin.close()
                self.process.wait(10)
            except Exception:
                self.process.kill()
        self.process.wait(10)
        self.process.stdout.close()
        if not self.process.stdin.closed:
            self.process.stdin.close()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)


def scope(session="20261116_120000_aabbccdd", **more):
    given = {
        "session": session,
        "chat_key": "agent:main:telegram:dm:42",
        "platform": "telegram",
        "chat": {"id": "42", "name": "Ada", "kind": "dm"},
        "user": "42",
        "user_name": "Ada",
        "generation": 0,
    }
    given.update(more)
    return given


class HermesCase(unittest.TestCase):
    """A home of its own, and hosts that are ended with the test."""

    settings = {}

    def setUp(self):
        need(hermes_python(), "tests/peers/install")
        self.place = tempfile.mkdtemp(prefix="hermes-host-")
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        self.home = os.path.join(self.place, "home")
        self.directory = os.path.join(self.place, "own")
        os.makedirs(self.home)
        os.makedirs(self.directory)
        self.configure("{}\n")

    def configure(self, text):
        pathlib.Path(self.home, "config.yaml").write_text(text)

    def plugin(self, fixture, name=None):
        """Puts a fixture into the home's plugins."""
        shutil.copytree(FIXTURES / fixture, os.path.join(self.home, "plugins", name or fixture))

    def environment(self):
        """Little more than what the gateway lets through."""
        return {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": self.place,
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def start(self, **settings):
        peer = Peer([hermes_python(), str(HOST)], self.environment())
        self.addCleanup(peer.end)
        peer.ability = peer.call(
            "initialize",
            {
                "protocol": 1,
                "host": {"name": "test", "version": "0"},
                "agent": "main",
                "home": self.home,
                "directory": self.directory,
                "settings": settings or self.settings,
                "offers": [],
            },
        )
        return peer


def retain(scope, index, said, replied, tried=False):
    return {
        "scope": scope,
        "key": f"{scope['session']}/{index}",
        "document": scope["session"],
        "turn": index,
        "index": index,
        "message_count": index * 2,
        "at": 1794830400.0 + index,
        "said": [said],
        "replied": replied,
        "tried": tried,
    }
