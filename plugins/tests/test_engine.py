"""Context engines: Hermes' own compressor, the oldest signature there is, one that takes anything, and a graph."""

import json
import os
import shutil
import sqlite3
import unittest

from harness import FIXTURES, HermesCase, Refused, scope
from model import Model


def conversation(turns, size=1200):
    """Turns with the fields the gateway sends along, and a tool call in the middle."""
    messages = []
    for index in range(turns):
        messages.append(
            {
                "role": "user",
                "content": f"Question {index}: " + "bees and honey " * (size // 15),
                "timestamp": 1794830400.0 + index,
                "message_id": f"m{index}",
            }
        )
        if index == turns // 2:
            call = {"id": "call_1", "type": "function", "function": {"name": "web_search", "arguments": "{}"}}
            messages.append({"role": "assistant", "content": "", "tool_calls": [call], "timestamp": 1794830400.2 + index})
            messages.append({"role": "tool", "content": "found", "tool_call_id": "call_1", "tool_name": "web_search"})
        answer = {"role": "assistant", "content": f"Answer {index}: " + "yes " * 40, "finish_reason": "stop"}
        messages.append({**answer, "timestamp": 1794830400.5 + index})
    return messages


def common_end(old, new):
    count = 0
    while count < min(len(old), len(new)) and old[-1 - count] == new[-1 - count]:
        count += 1
    return count


class Compressor(HermesCase):
    settings = {"engine": "compressor"}

    def setUp(self):
        super().setUp()
        self.model = Model()
        self.addCleanup(self.model.close)
        self.configure(
            "model:\n  default: tiny\n  provider: custom\n"
            f"  base_url: {self.model.address}\n  api_key: none\n  context_length: 131072\n"
            "auxiliary:\n  compression:\n    provider: custom\n    model: tiny\n"
            f"    base_url: {self.model.address}\n    api_key: none\n"
            "compression:\n  protect_last_n: 4\n  protect_first_n: 2\n"
        )

    def asked(self, messages, **options):
        return {"scope": scope(), "messages": messages, "tokens": 60000, "window": 131072, "options": options}

    def test_it_summarises_and_leaves_both_ends_as_they_were(self):
        peer = self.start()
        engine = peer.ability["engine"]
        self.assertEqual(engine["name"], "compressor")
        self.assertIn("focus", engine["options"])
        messages = conversation(40, size=9000)
        self.assertTrue(peer.call("engine/has_content", self.asked(messages))["has_content"])
        compressed = peer.call("engine/compress", self.asked(messages))["messages"]
        self.assertLess(len(compressed), len(messages))
        self.assertIn("BEES-SUMMARY", json.dumps(compressed))
        self.assertEqual(compressed[0], messages[0])
        self.assertGreaterEqual(common_end(messages, compressed), 3)

    def test_a_focus_reaches_the_model(self):
        peer = self.start()
        peer.call("engine/compress", self.asked(conversation(40, size=9000), focus="the queen of hive seven"))
        self.assertIn("the queen of hive seven", json.dumps(self.model.asked))

    def test_a_model_that_fails_leaves_the_conversation_whole(self):
        peer = self.start()
        self.model.failing = True
        with self.assertRaises(Refused) as refused:
            peer.call("engine/compress", self.asked(conversation(40, size=9000)), seconds=180)
        self.assertEqual(refused.exception.code, -32000)

    def test_it_decides_by_the_window(self):
        peer = self.start()
        little = {"prompt_tokens": 1000, "completion_tokens": 10, "expected_tokens": 1010}
        much = {"prompt_tokens": 120000, "completion_tokens": 10, "expected_tokens": 120010}
        ask = {"scope": scope(), "window": 131072}
        self.assertFalse(peer.call("engine/should_compress", dict(ask, usage=little))["compress"])
        self.assertTrue(peer.call("engine/should_compress", dict(ask, usage=much))["compress"])
        self.assertFalse(peer.call("engine/should_compress", dict(ask, usage=much, window=1048576))["compress"])
        self.assertIn("context_length", peer.call("engine/status", {"scope": scope()})["text"])

    def test_a_short_conversation_is_nothing_to_compress(self):
        peer = self.start()
        with self.assertRaises(Refused) as refused:
            peer.call("engine/compress", self.asked(conversation(1, size=15)))
        self.assertEqual(refused.exception.code, -32003)


class Written(HermesCase):
    """Engines that a home's plugins register."""

    def begin(self, name, **settings):
        self.plugin(name)
        self.configure(f"plugins:\n  enabled: [{name}]\ncontext:\n  engine: {name}\n")
        return self.start(engine=name, **settings)

    def compress(self, peer, messages, session="s-1", **options):
        asked = {"scope": scope(session), "messages": messages, "tokens": 9000, "window": 100000, "options": options}
        return peer.call("engine/compress", asked)

    def test_the_strict_old_signature(self):
        peer = self.begin("strict")
        self.assertEqual(peer.ability["engine"]["options"], ["keep_last"])
        messages = conversation(10)
        for options in ({}, {"focus": "bees", "force": True}):
            answer = self.compress(peer, messages, **options)
            self.assertEqual(answer["messages"][1:], messages[-4:])
            self.assertNotIn("remark", answer)
        usage = {"prompt_tokens": 10, "completion_tokens": 1}
        self.assertFalse(peer.call("engine/should_compress", {"scope": scope("s-1"), "usage": usage, "window": 100000})["compress"])

    def test_one_that_takes_anything_and_then_refuses_it(self):
        peer = self.begin("moody")
        self.assertEqual(peer.ability["engine"]["options"], ["focus", "force", "memory_context", "keep_last"])
        messages = conversation(10)
        self.assertNotIn("remark", self.compress(peer, messages))
        answer = self.compress(peer, messages, focus="bees")
        self.assertEqual(answer["messages"][1:], messages[-4:])
        self.assertIn("focus", answer["remark"])
        self.assertIn("Question 0", answer["messages"][0]["content"])

    def test_the_end_that_is_to_stay_is_not_shown(self):
        peer = self.begin("strict")
        messages = conversation(10)
        answer = self.compress(peer, messages, keep_last=3)["messages"]
        self.assertEqual(answer[-3:], messages[-3:])
        self.assertEqual(len(answer), 1 + 4 + 3)

    def test_a_graph_keeps_its_lineage_across_ten_compressions(self):
        peer = self.begin("graph")
        self.assertEqual([tool["name"] for tool in peer.ability["engine"]["tools"]], ["graph_describe", "graph_expand"])
        messages = conversation(6)
        for round in range(10):
            if round == 5:
                peer.kill()
                peer = self.start(engine="graph")
            if round == 7:
                self.compress(peer, conversation(8), session="s-other")
            messages = self.compress(peer, messages)["messages"] + conversation(3)
        described = json.loads(self.tool(peer, "graph_describe", {}))
        self.assertEqual([node["parent"] for node in described], [None] + [node["id"] for node in described[:-1]])
        self.assertEqual(len(described), 10)
        self.assertEqual({node["session"] for node in described}, {"s-1"})
        oldest = json.loads(self.tool(peer, "graph_expand", {"id": described[0]["id"]}))
        self.assertEqual(oldest[0]["content"], conversation(6)[0]["content"])

    def test_copies_are_recognised(self):
        peer = self.begin("graph")
        messages = conversation(6) + [{"role": "user", "content": "same"}, {"role": "assistant", "content": "same"}] * 2
        answer = self.compress(peer, messages)["messages"]
        self.assertEqual(answer[1:], messages[-4:])

    def test_the_end_of_a_session_is_told(self):
        peer = self.begin("graph")
        self.compress(peer, conversation(6))
        peer.call("scope/close", {"scope": scope("s-1"), "reason": "new", "next": "s-2", "messages": conversation(1)})
        with open(os.path.join(self.home, "graph.log")) as log:
            told = [line.split() for line in log]
        self.assertEqual(told, [["start", "s-1", "None"], ["start", "s-1", "compression"], ["end", "s-1", "4"]])

    def tool(self, peer, name, arguments):
        return peer.call("tool/call", {"scope": scope("s-1"), "key": name, "name": name, "arguments": arguments})["content"]


class Lcm(HermesCase):
    """One that cannot be copied, and that opens `~/.hermes/lcm.db` if it is made without a home."""

    settings = {"engine": "lcm", "plugins": ["lcm"]}

    def setUp(self):
        super().setUp()
        self.settle(self.home)

    def settle(self, home):
        """Puts the engine into a home."""
        os.makedirs(home, exist_ok=True)
        with open(os.path.join(home, "config.yaml"), "w") as config:
            config.write("plugins:\n  enabled: [lcm]\ncontext:\n  engine: lcm\n")
        shutil.copytree(FIXTURES / "lcm", os.path.join(home, "plugins", "lcm"))

    def compress(self, peer, word, **about):
        messages = conversation(12)
        messages[0]["content"] = word
        asked = {"scope": scope(**about), "messages": messages, "tokens": 60000, "window": 131072, "options": {}}
        return peer.call("engine/compress", asked)["messages"]

    def grep(self, peer, query, **about):
        asked = {"scope": scope(**about), "key": "k/1", "name": "lcm_grep", "arguments": {"query": query}}
        return json.loads(peer.call("tool/call", asked)["content"])["matches"]

    def test_p31_each_agent_has_its_own_database_and_finds_nothing_of_the_other(self):
        ada = self.start()
        self.home = os.path.join(self.place, "other")
        self.directory = os.path.join(self.place, "other-own")
        os.makedirs(self.directory)
        self.settle(self.home)
        bob = self.start()
        self.compress(ada, "the heron stands in the reeds")
        self.compress(bob, "the ferry leaves at nine")
        self.assertEqual(len(self.grep(ada, "heron")), 1)
        self.assertEqual(self.grep(bob, "heron"), [])
        self.assertEqual(self.grep(ada, "ferry"), [])
        for home in ("home", "other"):
            self.assertTrue(os.path.exists(os.path.join(self.place, home, "lcm.db")), home)
        self.assertFalse(os.path.exists(os.path.join(self.place, ".hermes")))

    def test_p31_what_hermes_kept_in_the_home_is_found(self):
        with sqlite3.connect(os.path.join(self.home, "lcm.db")) as database:
            database.execute("CREATE TABLE messages (session_id TEXT, role TEXT, content TEXT)")
            database.execute("INSERT INTO messages VALUES ('earlier', 'user', 'the kingfisher came at dawn')")
        database.close()
        self.assertEqual(self.grep(self.start(), "kingfisher"), ["the kingfisher came at dawn"])

    def test_each_session_has_an_engine_of_its_own_that_its_plugin_made(self):
        peer = self.start()
        self.compress(peer, "one", session="s1")
        self.compress(peer, "two", session="s2")
        with sqlite3.connect(os.path.join(self.home, "lcm.db")) as database:
            sessions = [row[0] for row in database.execute("SELECT DISTINCT session_id FROM messages ORDER BY 1")]
        database.close()
        self.assertEqual(sessions, ["s1", "s2"])
        self.assertIn("settings: register", peer.call("engine/status", {"scope": scope("s1")})["text"])
        # Nothing but the engine was registered a second time, not even past the plugin's context.
        self.assertEqual([each["name"] for each in peer.ability["commands"]], ["lcm"])
        self.assertIn("hooks: 1", peer.call("engine/status", {"scope": scope("s2")})["text"])

    def test_an_engine_that_makes_its_own_copies_is_asked_for_one(self):
        plugin = os.path.join(self.home, "plugins", "lcm", "__init__.py")
        with open(plugin, "a") as text:
            text.write(
                "\n\nLcm.clone_for_agent = lambda self: "
                'Lcm(config={"from": "clone"}, hermes_home=str(self.path.parent))\n'
            )
        peer = self.start()
        self.assertIn("settings: clone", peer.call("engine/status", {"scope": scope("s1")})["text"])

    def test_one_that_its_plugin_does_not_make_anew_is_refused_and_not_guessed(self):
        plugin = os.path.join(self.home, "plugins", "lcm", "__init__.py")
        with open(plugin) as text:
            written = text.read()
        with open(plugin, "w") as text:
            made = 'Lcm(config={"from": "register"}, hermes_home=str(get_hermes_home()))'
            self.assertIn(made, written)
            once = f"\n\nfrom hermes_cli.config import get_hermes_home\nONE = {made}\n\n\ndef register(ctx):"
            text.write(written.replace(made, "ONE").replace("\n\ndef register(ctx):", once))
        peer = self.start()
        with self.assertRaises(Refused) as refused:
            self.compress(peer, "one")
        self.assertIn("registers no other one", str(refused.exception))
        self.assertFalse(os.path.exists(os.path.join(self.place, ".hermes")))


if __name__ == "__main__":
    unittest.main()
