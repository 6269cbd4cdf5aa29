"""The bundled `holographic` provider (local SQLite, no network), and one written to misbehave."""

import json
import os
import sqlite3
import time
import unittest

from harness import HermesCase, Refused, retain, scope


class Silent(HermesCase):
    """`dormant`: takes turns and does nothing with them if its server was away when it began."""

    settings = {"provider": "dormant"}

    def setUp(self):
        super().setUp()
        self.plugin("dormant")

    def kept(self):
        path = os.path.join(self.home, "dormant.txt")
        if not os.path.exists(path):
            return []
        with open(path) as lines:
            return [line.rstrip("\n") for line in lines]

    def test_p26_a_turn_that_nobody_took_is_not_kept_and_goes_out_when_somebody_does(self):
        peer = self.start()
        away = os.path.join(self.home, "away")
        open(away, "w").close()
        turn = retain(scope(), 1, "hello", "yes")
        for _ in range(4):  # more often than what may have been kept is tried
            with self.assertRaises(Refused) as refused:
                peer.call("provider/retain", turn)
            self.assertEqual(refused.exception.code, -32000)
        os.remove(away)
        peer.call("provider/retain", turn)
        self.assertEqual(self.kept(), ["hello"])

    def test_p26_a_failure_that_was_made_good_sends_nothing_twice(self):
        peer = self.start()
        peer.call("provider/retain", retain(scope(), 1, "stumbles", "yes"))
        self.assertEqual(self.kept(), ["stumbles"])

    def test_p26_a_turn_in_doubt_is_not_sent_for_ever(self):
        peer = self.start()
        codes = []
        for _ in range(4):
            with self.assertRaises(Refused) as refused:
                peer.call("provider/retain", retain(scope(), 1, "complains", "yes", tried=bool(codes)))
            codes.append(refused.exception.code)
        self.assertEqual(codes, [-32001, -32001, -32001, -32002])
        self.assertEqual(self.kept(), ["complains"] * 3)


class Holographic(HermesCase):
    settings = {"provider": "holographic"}

    def configure(self, text):
        super().configure("memory:\n  provider: holographic\nplugins:\n  hermes-memory-store:\n    auto_extract: true\n")

    def facts(self):
        store = os.path.join(self.home, "memory_store.db")
        with sqlite3.connect(store) as database:
            return [row[0] for row in database.execute("SELECT content FROM facts ORDER BY fact_id")]

    def test_what_it_is(self):
        peer = self.start()
        provider = peer.ability["provider"]
        self.assertEqual(provider["name"], "holographic")
        self.assertIn("Holographic", provider["prompt"])
        self.assertEqual([tool["name"] for tool in provider["tools"]], ["fact_store", "fact_feedback"])
        self.assertIn("memory_written", provider["methods"])

    def test_what_is_written_to_the_memory_is_a_fact(self):
        peer = self.start()
        written = {"scope": scope(), "key": "k/0", "action": "add", "target": "user", "content": "Prefers tea in the morning."}
        peer.call("provider/memory_written", written)
        peer.call("provider/memory_written", {**written, "key": "k/1", "action": "remove", "old_text": "tea", "content": ""})
        self.assertEqual(self.facts(), ["Prefers tea in the morning."])

    def test_a_fact_is_kept_found_and_survives_a_kill(self):
        peer = self.start()
        call = {
            "scope": scope(),
            "key": "k1",
            "name": "fact_store",
            "arguments": {"action": "add", "content": "Ada keeps bees in Turin"},
        }
        added = json.loads(peer.call("tool/call", call)["content"])
        self.assertEqual(added["status"], "added")
        self.assertEqual(peer.call("provider/retain", retain(scope(), 1, "hello there", "hello")), {})
        peer.kill()
        peer = self.start()
        self.assertIn("Turin", peer.call("provider/recall", {"scope": scope(), "query": "bees Turin"})["text"])
        self.assertEqual(self.facts(), ["Ada keeps bees in Turin"])

    def test_the_end_of_a_session_is_kept_once_however_often_it_is_told(self):
        peer = self.start()
        close = {
            "scope": scope(),
            "reason": "new",
            "next": "20261116_130000_00000000",
            "messages": [{"role": "user", "content": "I prefer tea to coffee"}, {"role": "assistant", "content": "Noted."}],
        }
        peer.call("provider/recall", {"scope": scope(), "query": "tea"})
        peer.call("scope/close", close)
        peer.call("scope/close", close)
        peer.kill()
        peer = self.start()
        peer.call("scope/close", close)
        self.assertEqual(self.facts(), ["I prefer tea to coffee"])

    def test_a_session_that_was_never_asked_is_ended_all_the_same(self):
        peer = self.start()
        said = [{"role": "user", "content": "I always walk to work"}]
        peer.call("scope/close", {"scope": scope(), "reason": "expired", "messages": said})
        self.assertEqual(self.facts(), ["I always walk to work"])


    def test_one_that_could_not_be_loaded_is_told_nothing(self):
        peer = self.start(provider="nobody", engine="compressor")
        self.assertEqual(peer.call("scope/close", {"scope": scope(), "reason": "new"}), {})


class Written(HermesCase):
    """`witness`: keeps what it is told in a file, from a thread of its own, and fails on demand."""

    settings = {"provider": "witness"}

    def setUp(self):
        super().setUp()
        self.plugin("witness")

    def told(self):
        path = os.path.join(self.home, "witness.jsonl")
        if not os.path.exists(path):
            return []
        with open(path) as lines:
            return [json.loads(line) for line in lines]

    def heard(self, what):
        return [line for line in self.told() if line["what"] == what]

    def turns(self):
        return [line["said"] for line in self.told() if line["what"] == "turn"]

    def test_what_a_subagent_brought_back_is_told_to_its_parents_provider(self):
        peer = self.start()
        self.assertIn({"event": "subagent_stop", "name": "memory/witness"}, peer.ability["hooks"])
        facts = {"child_goal": "count the bees", "child_summary": "many", "child_session_id": "child"}
        told = {"scope": scope(), "event": "subagent_stop", "name": "memory/witness", "key": "k/1", "facts": facts}
        peer.call("hook/run", told)
        [heard] = self.heard("delegation")
        self.assertEqual((heard["task"], heard["result"], heard["child"]), ("count the bees", "many", "child"))
        self.assertEqual(heard["session"], scope()["session"])

    def test_an_answer_means_that_it_is_kept(self):
        peer = self.start()
        for index in range(1, 6):
            peer.call("provider/retain", retain(scope(), index, f"turn {index}", "yes"))
            self.assertEqual(len(self.turns()), index)

    def test_a_turn_that_is_done_is_not_sent_again(self):
        peer = self.start()
        turn = retain(scope(), 1, "only once", "yes")
        peer.call("provider/retain", turn)
        peer.kill()
        peer = self.start()
        peer.call("provider/retain", dict(turn, tried=True))
        self.assertEqual(self.turns(), ["only once"])

    def test_a_failure_that_is_only_logged_is_an_error_and_is_tried_again(self):
        peer = self.start()
        with self.assertRaises(Refused) as refused:
            peer.call("provider/retain", retain(scope(), 1, "drop the first", "yes"))
        self.assertEqual(refused.exception.code, -32001)
        self.assertIn("the disk is full", str(refused.exception))
        peer.call("provider/retain", retain(scope(), 1, "drop the first", "yes", tried=True))
        self.assertEqual(self.turns(), ["drop the first"])

    def test_nobody_heard_it(self):
        peer = self.start()
        with self.assertRaises(Refused) as refused:
            peer.call("provider/retain", retain(scope(), 1, "no server", "yes"))
        self.assertEqual(refused.exception.code, -32000)

    def test_recall_is_about_this_question(self):
        peer = self.start()
        for question in ("one", "two", "three"):
            recalled = peer.call("provider/recall", {"scope": scope(), "query": question})
            self.assertEqual(recalled["text"], f"about {question}")

    def test_whoever_would_rather_lose_a_turn_than_have_it_twice(self):
        peer = self.start(provider="witness", unsure="leave")
        turn = retain(scope(), 1, "drop the first", "yes")
        with self.assertRaises(Refused):
            peer.call("provider/retain", turn)
        peer.call("provider/retain", dict(turn, tried=True))
        self.assertEqual(self.turns(), [])

    def test_a_question_does_not_wait_for_a_turn_that_is_being_kept(self):
        peer = self.start()
        peer.call("provider/recall", {"scope": scope(), "query": "warm"})
        kept = peer.begin("provider/retain", retain(scope(), 1, "slow", "yes"))
        began = time.monotonic()
        peer.call("provider/recall", {"scope": scope(), "query": "quick"})
        self.assertLess(time.monotonic() - began, 1)
        peer.result(kept)
        self.assertEqual(self.turns(), ["slow"])

    def test_sessions_do_not_meet(self):
        peer = self.start()
        first, second = scope("s-first"), scope("s-second", user="7")
        calls = []
        for index in range(1, 11):
            calls.append(peer.begin("provider/retain", retain(first, index, f"first {index}", "yes")))
            calls.append(peer.begin("provider/retain", retain(second, index, f"second {index}", "yes")))
        for call in calls:
            peer.result(call)
        for line in self.told():
            if line["what"] == "turn":
                self.assertEqual(line["session"], "s-" + line["said"].split()[0])
        self.assertEqual(len(self.turns()), 20)

    def test_what_it_is_told_about_itself(self):
        peer = self.start()
        peer.call("provider/recall", {"scope": scope(title="Bees", parent="older"), "query": "x"})
        begun = [line for line in self.told() if line["what"] == "initialize" and line["session"]][0]["about"]
        self.assertEqual(begun["gateway_session_key"], "agent:main:telegram:dm:42")
        self.assertEqual(begun["hermes_home"], self.home)
        self.assertEqual(
            (begun["platform"], begun["user_id"], begun["user_name"], begun["chat_id"], begun["chat_type"]),
            ("telegram", "42", "Ada", "42", "dm"),
        )
        self.assertEqual((begun["session_title"], begun["parent_session_id"]), ("Bees", "older"))
        self.assertEqual((begun["agent_context"], begun["agent_workspace"]), ("primary", "hermes"))
        self.assertNotIn("thread_id", begun)

    def test_the_chat_key_is_the_same_across_new_and_restart(self):
        peer = self.start()
        peer.call("provider/retain", retain(scope("s-1"), 1, "a", "b"))
        peer.call("scope/close", {"scope": scope("s-1"), "reason": "new", "next": "s-2", "messages": []})
        peer.call("provider/retain", retain(scope("s-2", parent="s-1"), 1, "c", "d"))
        peer.kill()
        peer = self.start()
        peer.call("provider/retain", retain(scope("s-2", parent="s-1"), 2, "e", "f"))
        begun = [line for line in self.told() if line["what"] == "initialize" and line["session"]]
        keys = {line["about"].get("gateway_session_key") for line in begun}
        self.assertEqual(keys, {"agent:main:telegram:dm:42"})

    def test_closing_ends_then_switches_then_shuts_down_under_the_old_name(self):
        peer = self.start()
        peer.call("provider/retain", retain(scope("s-1"), 1, "a", "b"))
        messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        close = {"scope": scope("s-1"), "reason": "new", "next": "s-2", "messages": messages}
        peer.call("scope/close", close)
        peer.call("scope/close", close)
        order = [(line["what"], line.get("session")) for line in self.told() if line["what"] in ("end", "switch", "shutdown")]
        self.assertEqual(order[1:], [("end", "s-1"), ("switch", "s-1"), ("shutdown", "s-1")])
        switched = [line for line in self.told() if line["what"] == "switch"][0]
        self.assertEqual((switched["to"], switched["parent"], switched["reset"]), ("s-2", "s-1", True))

    def test_p24_an_end_is_told_once_to_the_part_that_it_is_meant_for(self):
        peer = self.start(provider="witness", engine="compressor")
        peer.call("provider/retain", retain(scope(), 1, "hello", "yes"))
        said = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "yes"}]
        peer.call("scope/close", {"scope": scope(), "part": "engine"})
        peer.call("scope/close", {"scope": scope(), "part": "provider", "key": "s/1", "reason": "new", "messages": said})
        self.assertEqual([line["count"] for line in self.told() if line["what"] == "end"], [2])

    def test_what_was_taken_back_is_told_and_the_session_goes_on(self):
        peer = self.start()
        undo = {"scope": scope(), "part": "provider", "key": "s/rewound/2", "reason": "undo", "next": scope()["session"]}
        peer.call("scope/close", undo)
        self.assertEqual(self.heard("switch"), [], "nobody kept anything in mind")
        peer.call("provider/recall", {"scope": scope(), "query": "tea"})
        peer.call("scope/close", undo)
        told = {"what": "switch", "session": scope()["session"], "to": scope()["session"], "parent": "", "reset": False}
        self.assertEqual(self.heard("switch"), [{**told, "rewound": True}])
        peer.call("provider/recall", {"scope": scope(), "query": "tea"})
        made = [each for each in self.heard("initialize") if each["session"]]
        self.assertEqual((len(made), self.heard("end")), (1, []), "it is the same instance, and nothing has ended")

    def test_a_process_that_ends_ends_no_session(self):
        peer = self.start()
        peer.call("provider/retain", retain(scope("s-1"), 1, "a", "b"))
        peer.end()
        whats = [line["what"] for line in self.told()]
        self.assertNotIn("end", whats)
        self.assertEqual(whats[-1], "shutdown")

    def test_what_was_begun_is_answered_before_the_end(self):
        peer = self.start()
        calls = [peer.begin("provider/retain", retain(scope("s-1"), index, f"turn {index}", "yes")) for index in range(1, 9)]
        peer.end()
        for call in calls:
            self.assertEqual(peer.result(call), {})
        self.assertEqual(len(self.turns()), 8)

    def test_before_compression_and_prints_do_not_disturb(self):
        peer = self.start()
        self.assertIn("before_compression", peer.ability["provider"]["methods"])
        said = [{"role": "user", "content": "remember the bees"}]
        self.assertEqual(peer.call("provider/before_compression", {"scope": scope(), "messages": said})["text"], "1 message")

    def test_unknown_methods_and_cancelled_calls(self):
        peer = self.start()
        with self.assertRaises(Refused) as refused:
            peer.call("engine/compress", {"scope": scope(), "messages": []})
        self.assertEqual(refused.exception.code, -32601)
        number = peer.begin("provider/recall", {"scope": scope(), "query": "slow"})
        peer.send({"jsonrpc": "2.0", "method": "cancel", "params": {"id": number}})
        self.assertEqual(peer.call("ping"), {})
        peer.send({"jsonrpc": "2.0", "method": "nobody/knows", "params": {}})
        self.assertEqual(peer.call("ping"), {})


class Restless(HermesCase):
    def test_a_thread_that_never_rests_costs_one_doubt_and_no_more(self):
        self.plugin("restless")
        peer = self.start(provider="restless", retain_seconds=1)
        turn = retain(scope(), 1, "first", "yes")
        with self.assertRaises(Refused) as refused:
            peer.call("provider/retain", turn)
        self.assertEqual(refused.exception.code, -32001)
        peer.call("provider/retain", dict(turn, tried=True))
        peer.call("provider/retain", retain(scope(), 2, "second", "yes"))
        self.assertTrue(any("sent again" in line for line in peer.logged), peer.logged)


class Missing(HermesCase):
    def test_a_provider_that_is_not_there_is_named_and_nothing_else_suffers(self):
        peer = self.start(provider="nobody", hooks=True)
        self.assertNotIn("provider", peer.ability)
        self.assertTrue(any("nobody" in note for note in peer.ability["notes"]))
        self.assertEqual(peer.call("ping"), {})


if __name__ == "__main__":
    unittest.main()
