"""The SDK in one file, by way of its examples: real processes, no Hermes."""

import json
import pathlib
import shutil
import sys
import tempfile
import unittest

from harness import ROOT, Peer, Refused, retain, scope

EXAMPLES = ROOT / "plugins" / "examples"
SDK = ROOT / "plugins" / "sdk" / "python"


class SdkCase(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="sdk-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def start(self, program, offers=(), protocol=1):
        peer = Peer([sys.executable, "-B", str(program)])
        self.addCleanup(peer.end)
        hello = {"protocol": protocol, "host": {"name": "test", "version": "0"}, "agent": "main", "home": self.directory}
        hello.update(directory=self.directory, settings={}, offers=list(offers), something_new={"of": "tomorrow"})
        peer.ability = peer.call("initialize", hello)
        return peer

    def written(self, text):
        path = pathlib.Path(self.directory, "plugin.py")
        path.write_text(f"import sys\nsys.path.append({str(SDK)!r})\nimport throughline_plugin as throughline\n{text}")
        return path


class Examples(SdkCase):
    def test_they_are_short(self):
        for example in EXAMPLES.glob("*.py"):
            self.assertLess(len(example.read_text().splitlines()), 100, example)

    def test_the_provider_keeps_a_turn_once_and_finds_it_after_a_kill(self):
        peer = self.start(EXAMPLES / "provider.py")
        self.assertEqual(peer.ability["provider"]["methods"], ["recall", "retain"])
        for _ in range(2):
            peer.call("provider/retain", retain(scope(), 1, "the bees live in Turin", "Noted."))
        peer.kill()
        peer = self.start(EXAMPLES / "provider.py")
        recalled = peer.call("provider/recall", {"scope": scope(), "query": "where are the bees?"})["text"]
        self.assertEqual(recalled.count("Turin"), 1)
        self.assertEqual(peer.call("provider/recall", {"scope": scope(user="7"), "query": "bees"}), {"text": ""})
        found = peer.call("tool/call", {"scope": scope(), "key": "k", "name": "diary_search", "arguments": {"words": "turin"}})
        self.assertIn("bees", found["content"])
        odd = peer.call("tool/call", {"scope": scope(), "key": "k", "name": "diary_search", "arguments": {"nothing": 1}})
        self.assertIn("error", json.loads(odd["content"]))

    def test_p24_an_end_is_told_once_to_the_part_that_it_is_meant_for(self):
        peer = self.start(
            self.written(
                "plugin = throughline.Plugin('both')\n"
                "class Ear:\n"
                "    def closed(self, scope, reason, following, messages):\n"
                "        self.plugin.log(f'{self.name} {reason}')\n"
                "class E(Ear, throughline.Engine):\n    name = 'engine'\n"
                "    def compress(self, scope, messages, tokens, window):\n        return messages\n"
                "class P(Ear, throughline.Provider):\n    name = 'provider'\n"
                "plugin.engine, plugin.provider = E(), P()\n"
                "plugin.serve()\n"
            )
        )
        peer.call("scope/close", {"scope": scope(), "part": "engine"})
        peer.call("scope/close", {"scope": scope(), "part": "provider", "reason": "new"})
        self.assertEqual(peer.logged, ["engine ", "provider new"])

    def test_the_engine_keeps_both_ends_and_says_what_it_lacked(self):
        peer = self.start(EXAMPLES / "engine.py")
        self.assertEqual(peer.ability["engine"]["options"], ["focus", "keep_last"])
        messages = [{"role": role, "content": f"{role} {n}"} for n in range(10) for role in ("user", "assistant")]
        asked = {"scope": scope(), "messages": messages, "tokens": 5, "window": 9, "options": {"focus": "bees", "odd": 1}}
        answer = peer.call("engine/compress", asked)
        self.assertEqual(answer["messages"][:2] + answer["messages"][3:], messages[:2] + messages[-6:])
        self.assertIn("No model", answer["remark"])
        self.assertTrue(peer.call("engine/has_content", asked)["has_content"])
        with self.assertRaises(Refused) as refused:
            peer.call("engine/compress", dict(asked, messages=messages[:4]))
        self.assertEqual(refused.exception.code, -32003)
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "expected_tokens": 80}
        self.assertTrue(peer.call("engine/should_compress", {"scope": scope(), "usage": usage, "window": 100})["compress"])
        self.assertIn("1 compression", peer.call("engine/status", {"scope": scope()})["text"])

    def test_the_engine_asks_the_hosts_model(self):
        peer = self.start(EXAMPLES / "engine.py", offers=["model/ask"])
        asked_by_plugin = []

        def answer(message):
            asked_by_plugin.append(message["params"]["prompt"])
            peer.send({"jsonrpc": "2.0", "id": message["id"], "result": {"text": "About bees.", "model": "m"}})

        peer.asked = answer
        messages = [{"role": role, "content": f"{role} {n}"} for n in range(10) for role in ("user", "assistant")]
        given = peer.call("engine/compress", {"scope": scope(), "messages": messages, "options": {"focus": "the queen"}})
        self.assertIn("About bees.", given["messages"][2]["content"])
        self.assertIn("the queen", asked_by_plugin[0])


class Protocol(SdkCase):
    def test_hooks_commands_tools_and_unknown_methods(self):
        peer = self.start(
            self.written(
                "plugin = throughline.Plugin('p')\n"
                "@plugin.hook('pre_tool_call')\ndef guard(scope, facts):\n    print('not protocol')\n"
                "    return 'no' if facts['tool_name'] == 'terminal' else None\n"
                "@plugin.hook('command:*', name='any')\ndef heard(scope, facts):\n    plugin.log('heard it')\n"
                "@plugin.command('hi', 'Says hi.')\ndef hi(scope, arguments):\n    return 'hi ' + arguments\n"
                "@plugin.tool('fail')\ndef fail(scope):\n    raise throughline.MaybeDone('who knows')\n"
                "@plugin.tool('odd')\ndef odd(scope, what):\n    return [float('nan')] if what == 'nan' else {1, 2}\n"
                "plugin.serve()\n"
            )
        )
        self.assertEqual(peer.ability["commands"], [{"name": "hi", "description": "Says hi."}])
        self.assertNotIn("engine", peer.ability)
        run = {"scope": scope(), "event": "pre_tool_call", "name": "guard", "key": "k", "facts": {"tool_name": "terminal"}}
        self.assertEqual(peer.call("hook/run", run), {"block": "no"})
        self.assertEqual(peer.call("hook/run", dict(run, facts={"tool_name": "other"})), {})
        self.assertEqual(peer.call("hook/run", dict(run, event="command:new", name="any")), {})
        self.assertEqual(peer.call("command/run", {"scope": scope(), "name": "hi", "arguments": "you"}), {"text": "hi you"})
        for call, code in (
            (("tool/call", {"scope": scope(), "key": "k", "name": "fail", "arguments": {}}), -32001),
            (("tool/call", {"scope": scope(), "key": "k", "name": "odd", "arguments": {"what": "nan"}}), -32000),
            (("tool/call", {"scope": scope(), "key": "k", "name": "odd", "arguments": {"what": "set"}}), -32000),
            (("engine/compress", {"scope": scope(), "messages": []}), -32601),
            (("not/known", {}), -32601),
        ):
            with self.assertRaises(Refused) as refused:
                peer.call(*call)
            self.assertEqual(refused.exception.code, code, call)
        self.assertEqual(peer.logged, ["heard it"])

    def test_a_newer_host_is_answered_in_the_older_version(self):
        peer = self.start(self.written("throughline.Plugin('p').serve()\n"), protocol=9)
        self.assertEqual(peer.ability["protocol"], 1)


if __name__ == "__main__":
    unittest.main()
