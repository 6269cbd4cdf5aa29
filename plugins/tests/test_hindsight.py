"""Hermes' Hindsight provider, unmodified: each turn is stored once.

Against a stand-in for its client library, which says and loses what it is told to; and against the real server, with
the Python that has Hermes and the real client (`tests/peers/install hermes-hindsight`, THROUGHLINE_HINDSIGHT_PYTHON).
The real one starts only where it is asked for (THROUGHLINE_HINDSIGHT=1), since that takes minutes; or where one runs
already, THROUGHLINE_HINDSIGHT_URL says where.
"""

import collections
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.parse
import urllib.request

import harness
from harness import FIXTURES, ROOT, HermesCase, Refused, retain, scope


class Version(http.server.BaseHTTPRequestHandler):
    """The server says that it can append, so that the provider would."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"version": "1.1.0"}')

    def log_message(self, *ignored):
        pass


class StandIn(HermesCase):
    settings = {"provider": "hindsight"}
    every = 1

    def setUp(self):
        super().setUp()
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Version)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.write({"retain_every_n_turns": self.every}, f"http://127.0.0.1:{server.server_address[1]}")

    def write(self, more, address):
        pathlib.Path(self.home, "hindsight").mkdir()
        config = {"mode": "local_external", "api_url": address, "timeout": 20, **more}
        pathlib.Path(self.home, "hindsight", "config.json").write_text(json.dumps(config))

    def environment(self):
        stand_in = {"PYTHONPATH": str(FIXTURES / "client"), "HINDSIGHT_STAND_IN": os.path.join(self.place, "server.json")}
        return {**super().environment(), **stand_in}

    def stored(self):
        state = json.loads(pathlib.Path(self.place, "server.json").read_text())
        said = [
            message["content"] for document in state["documents"].values() for turn in document for message in turn
            if message["role"] == "user"
        ]
        return state, collections.Counter(said)

    def turns(self, peer, session, numbers, words="turn"):
        for number in numbers:
            peer.call("provider/retain", retain(scope(session), number, f"{words} {number} of {session}", "yes"))

    def close(self, peer, session, following, reason="new"):
        messages = [{"role": "user", "content": "turn"}, {"role": "assistant", "content": "yes"}]
        peer.call("scope/close", {"scope": scope(session), "reason": reason, "next": following, "messages": messages})

    def once(self, *expected):
        _, said = self.stored()
        self.assertEqual(said, collections.Counter(f"User: {text}" for text in expected))

    def test_each_turn_is_stored_once_through_switches_and_shutdown(self):
        peer = self.start()
        self.turns(peer, "s-1", range(1, 8))
        self.close(peer, "s-1", "s-2")
        self.turns(peer, "s-2", range(1, 4))
        self.close(peer, "s-2", "s-1", reason="resume")
        self.turns(peer, "s-1", range(8, 10))
        peer.end()
        self.once(*[f"turn {n} of s-1" for n in range(1, 10)], *[f"turn {n} of s-2" for n in range(1, 4)])
        state, _ = self.stored()
        self.assertEqual(state["requests"], 12)
        self.assertIs(state["async"], False)
        self.assertEqual((state["metadata"]["turn_index"], state["metadata"]["session_id"]), ("9", "s-1"))

    def test_a_lost_answer_is_tried_again_and_stands_once(self):
        peer = self.start()
        turn = retain(scope("s-1"), 1, "lose the answer", "yes")
        with self.assertRaises(Refused) as refused:
            peer.call("provider/retain", turn)
        self.assertEqual(refused.exception.code, -32001)
        peer.call("provider/retain", dict(turn, tried=True))
        self.close(peer, "s-1", "s-2")
        self.once("lose the answer")

    def test_a_server_that_is_away_is_certainly_not_reached(self):
        peer = self.start()
        turn = retain(scope("s-1"), 1, "no server", "yes")
        with self.assertRaises(Refused) as refused:
            peer.call("provider/retain", turn)
        self.assertEqual(refused.exception.code, -32000)
        peer.call("provider/retain", turn)
        self.once("no server")

    def test_a_kill_at_any_moment_leaves_each_turn_once(self):
        moments = (0.0, 0.1, 0.2, 0.3, 0.35, 0.4, 0.5)
        for index, moment in enumerate(moments, 1):
            peer = self.start()
            peer.call("provider/recall", {"scope": scope("s-1"), "query": "warm"})
            turn = retain(scope("s-1"), index, f"slow turn {index}", "yes")
            peer.begin("provider/retain", turn)
            time.sleep(moment)
            peer.kill()
            peer = self.start()
            peer.call("provider/retain", dict(turn, tried=True))
            peer.end()
        self.once(*[f"slow turn {index}" for index in range(1, len(moments) + 1)])

    def test_recall_is_about_this_question(self):
        peer = self.start()
        for question in ("bees", "honey"):
            recalled = peer.call("provider/recall", {"scope": scope("s-1"), "query": question})["text"]
            self.assertIn(f"about {question}", recalled)

    def test_compression_is_not_a_switch(self):
        peer = self.start()
        self.turns(peer, "s-1", range(1, 4))
        for _ in range(3):
            if "before_compression" in peer.ability["provider"]["methods"]:
                peer.call("provider/before_compression", {"scope": scope("s-1"), "messages": []})
            peer.call("provider/recall", {"scope": scope("s-1", generation=1), "query": "x"})
        self.turns(peer, "s-1", range(4, 6))
        self.once(*[f"turn {n} of s-1" for n in range(1, 6)])


class Buffering(StandIn):
    """The same, with a home that asks for every third turn: under Hermes the rest would be lost on shutdown."""

    every = 3


class Real(HermesCase):
    settings = {"provider": "hindsight"}

    @classmethod
    def setUpClass(cls):
        cls.python = os.environ.get("THROUGHLINE_HINDSIGHT_PYTHON") or str(
            ROOT / ".cache" / "peers" / "hermes-hindsight" / "bin" / "python"
        )
        cls.address = os.environ.get("THROUGHLINE_HINDSIGHT_URL")
        if not cls.address and not os.environ.get("THROUGHLINE_HINDSIGHT"):
            raise unittest.SkipTest("the real Hindsight is started with THROUGHLINE_HINDSIGHT=1")
        harness.need(cls.python, "tests/peers/install hermes-hindsight")
        if cls.address:
            return
        script, directory = str(ROOT / "tests" / "peers" / "hindsight"), tempfile.mkdtemp(prefix="hindsight-")
        cls.addClassCleanup(shutil.rmtree, directory, ignore_errors=True)
        cls.addClassCleanup(subprocess.run, [script, "stop", directory], check=False)
        started = subprocess.run([script, "start", directory], check=True, timeout=1000, stdout=subprocess.PIPE)
        cls.address = started.stdout.decode().strip()

    def setUp(self):
        super().setUp()
        self.bank = f"bank-{os.getpid()}-{time.time_ns()}"
        pathlib.Path(self.home, "hindsight").mkdir()
        config = {
            "mode": "local_external",
            "api_url": self.address,
            "bank_id": self.bank,
            "recall_types": "world,experience,observation",
            "retain_every_n_turns": 2,
        }
        pathlib.Path(self.home, "hindsight", "config.json").write_text(json.dumps(config))

    def start(self, **settings):
        named, harness.hermes_python = harness.hermes_python, lambda: self.python
        try:
            return super().start(**settings)
        finally:
            harness.hermes_python = named

    def get(self, path):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.address}/v1/default/banks/{self.bank}{path}", timeout=30) as answer:
            return json.load(answer)

    def test_each_turn_is_stored_once(self):
        peer = self.start()
        first, second = scope("s-1"), scope("s-2", parent="s-1")
        for number in range(1, 6):
            peer.call("provider/retain", retain(first, number, f"Ada keeps hive number {number} in Turin", "Noted."))
        messages = [{"role": "user", "content": "hive"}, {"role": "assistant", "content": "Noted."}]
        peer.call("scope/close", {"scope": first, "reason": "new", "next": "s-2", "messages": messages})
        begun = retain(second, 1, "Ada sold hive number nine", "Noted.")
        peer.begin("provider/retain", begun)
        time.sleep(0.4)
        peer.kill()
        peer = self.start()
        peer.call("provider/retain", dict(begun, tried=True))
        peer.call("provider/retain", dict(begun, tried=True))
        documents = self.get("/documents?limit=100")
        keys = sorted(document["id"] for document in documents["items"])
        self.assertEqual(keys, [f"s-1/{number}" for number in range(1, 6)] + ["s-2/1"])
        for key in keys:
            text = self.get("/documents/" + urllib.parse.quote(key, safe=""))["original_text"]
            self.assertEqual(text.count('"role": "user"'), 1, text)
        recalled = peer.call("provider/recall", {"scope": second, "query": "hive number nine"})["text"]
        self.assertIn("hive", recalled)
        peer.end()
        self.assertEqual(self.get("/documents?limit=100")["total"], 6)


if __name__ == "__main__":
    unittest.main()
