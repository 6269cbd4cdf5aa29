"""Tools, hooks and general plugins."""

import json
import os
import pathlib
import time
import unittest

from harness import HOST, HermesCase, Peer, hermes_python, scope


class Tools(HermesCase):
    def call(self, peer, name, **arguments):
        call = {"scope": scope(), "key": "k", "name": name, "arguments": arguments}
        return json.loads(peer.call("tool/call", call)["content"])

    def test_code_is_executed(self):
        self.configure("approvals:\n  mode: 'off'\n")
        peer = self.start(tools=["code_execution"])
        self.assertEqual([tool["name"] for tool in peer.ability["tools"]], ["execute_code"])
        self.assertEqual(peer.ability["tools"][0]["toolset"], "code_execution")
        done = self.call(peer, "execute_code", code="print(6 * 7)")
        self.assertEqual(done["status"], "success", done)
        self.assertIn("42", done["output"])

    def test_native_ones_win_and_what_lacks_its_key_is_not_offered(self):
        peer = self.start(tools=True, native=["terminal", "read_file", "write_file", "execute_code"])
        names = {tool["name"] for tool in peer.ability["tools"]}
        self.assertTrue(names)
        self.assertFalse(names & {"terminal", "read_file", "write_file", "execute_code", "memory", "todo", "delegate_task"})
        self.assertNotIn("ha_call_service", names)

    def test_a_toolset_that_is_not_there_is_named(self):
        peer = self.start(tools=["code_execution", "time_travel"])
        self.assertTrue(any("time_travel" in note for note in peer.ability["notes"]), peer.ability["notes"])

    def test_what_needs_consent_is_not_run_unless_the_host_asks(self):
        path = os.path.join(self.place, "ran")
        self.configure("approvals:\n  mode: manual\n")
        peer = self.start(tools=["code_execution"])
        self.assertTrue(peer.ability["tools"][0]["calls_tools"])
        if peer.ability["version"].startswith("0.14."):
            self.skipTest("this Hermes asks nobody about code")
        code = f"open({path!r}, 'a').write('x')"
        call = {"scope": scope(), "key": "k", "name": "execute_code", "arguments": {"code": code}}
        answer = peer.call("tool/call", call)
        self.assertFalse(os.path.exists(path))
        said = json.loads(answer["content"])
        self.assertIn("nobody was asked", said["error"])
        self.assertIn("approvals.mode", said["error"])
        self.assertEqual(answer["ask"]["patterns"], ["execute_code"])
        self.assertIn(code, answer["ask"]["what"])
        self.assertIn("script", answer["ask"]["why"])
        # Once a person has agreed it runs, once; and the next one is asked about again.
        answer = peer.call("tool/call", {**call, "consent": True})
        self.assertNotIn("ask", answer)
        self.assertEqual(pathlib.Path(path).read_text(), "x")
        self.assertIn("ask", peer.call("tool/call", call))
        self.assertEqual(pathlib.Path(path).read_text(), "x")
        # What the script wants beside that is not agreed to.
        beside = "from hermes_tools import terminal\nprint(terminal('rm -rf /tmp/throughline-not-there'))"
        call["arguments"] = {"code": beside}
        answer = peer.call("tool/call", {**call, "consent": True})
        self.assertNotIn("ask", answer)
        self.assertIn("approval", answer["content"])
        os.remove(path)
        peer = self.start(tools=["code_execution"], approvals="host")
        self.call(peer, "execute_code", code=f"open({path!r}, 'w').write('x')")
        self.assertTrue(os.path.exists(path))

    def test_two_calls_at_once(self):
        peer = self.start(tools=["code_execution"], approvals="host")
        calls = []
        for number in range(2):
            arguments = {"code": f"import time; time.sleep(0.5); print('answer', {number})"}
            call = {"scope": scope(f"s-{number}"), "key": "k", "name": "execute_code", "arguments": arguments}
            calls.append(peer.begin("tool/call", call))
        for number, call in enumerate(calls):
            self.assertIn(f"answer {number}", peer.result(call)["content"])


class Orphaned(HermesCase):
    def test_p31_a_host_whose_gateway_is_gone_goes_though_a_plugin_hangs_in_it(self):
        directory = pathlib.Path(self.home, "hooks", "sleeper")
        directory.mkdir(parents=True)
        (directory / "HOOK.yaml").write_text("name: sleeper\nevents: [agent:end]\n")
        there = os.path.join(self.place, "there")
        (directory / "handler.py").write_text(
            f"import time\nopen({there!r}, 'w').close()\ntime.sleep(3600)\ndef handle(event_type, context):\n    pass\n"
        )
        peer = Peer([hermes_python(), str(HOST)], self.environment())
        self.addCleanup(peer.process.kill)
        settings = {"hooks": True}
        peer.begin("initialize", {"protocol": 1, "home": self.home, "directory": self.directory, "settings": settings})
        while not os.path.exists(there):
            self.assertIsNone(peer.process.poll())
            time.sleep(0.05)
        peer.process.stdin.close()
        self.assertEqual(peer.process.wait(timeout=120), 0)


class Hooks(HermesCase):
    def hook(self, name, events, handler):
        directory = pathlib.Path(self.home, "hooks", name)
        directory.mkdir(parents=True)
        (directory / "HOOK.yaml").write_text(f"name: {name}\nevents: {json.dumps(events)}\n")
        (directory / "handler.py").write_text(handler)

    def run_hook(self, peer, event, name, **facts):
        return peer.call("hook/run", {"scope": scope(), "event": event, "name": name, "key": "k", "facts": facts})

    def test_sync_and_async_handlers_hear_what_they_asked_for(self):
        write = "open(context['path'], 'a').write(event_type + ' ' + context.get('message', '') + '\\n')\n"
        self.hook("plain", ["agent:end"], f"print('loaded')\ndef handle(event_type, context):\n    {write}")
        self.hook(
            "later",
            ["command:*", "session:end"],
            f"import asyncio\nasync def handle(event_type, context):\n    await asyncio.sleep(0.01)\n    {write}"
            "    if event_type == 'command:secret':\n        return {'decision': 'deny', 'message': 'not for you'}\n",
        )
        self.hook("broken", ["agent:end"], "def handle(event_type, context):\n    raise ValueError('no')\n")
        peer = self.start(hooks=True)
        self.assertEqual(
            sorted((hook["event"], hook["name"]) for hook in peer.ability["hooks"]),
            [
                ("agent:end", "hooks/broken"),
                ("agent:end", "hooks/plain"),
                ("command:*", "hooks/later"),
                ("session:end", "hooks/later"),
            ],
        )
        self.assertTrue(any("later" in note and "orders" in note for note in peer.ability["notes"]), peer.ability["notes"])
        path = os.path.join(self.place, "heard")
        self.assertEqual(self.run_hook(peer, "agent:end", "hooks/plain", path=path, message="hi"), {})
        self.assertEqual(self.run_hook(peer, "agent:end", "hooks/broken", path=path), {})
        self.assertEqual(self.run_hook(peer, "command:new", "hooks/later", path=path), {})
        self.assertEqual(self.run_hook(peer, "command:secret", "hooks/later", path=path), {"block": "not for you"})
        self.assertEqual(pathlib.Path(path).read_text(), "agent:end hi\ncommand:new \ncommand:secret \n")


class Plugins(HermesCase):
    def setUp(self):
        super().setUp()
        self.plugin("garden")

    def run_hook(self, peer, **facts):
        facts = {"tool_name": "terminal", "args": {}, "task_id": "", "session_id": "s", "tool_call_id": "c", **facts}
        run = {"scope": scope(), "event": "pre_tool_call", "name": "plugins/garden", "key": "k", "facts": facts}
        return peer.call("hook/run", run)

    def test_tool_hook_command_and_what_is_not_carried(self):
        self.configure("plugins:\n  enabled: [garden]\n")
        peer = self.start(plugins=True, hooks=True)
        self.assertEqual([(tool["name"], tool["toolset"]) for tool in peer.ability["tools"]], [("garden_water", "garden")])
        self.assertEqual(peer.ability["commands"], [{"name": "harvest", "description": "What is ripe."}])
        self.assertIn({"event": "pre_tool_call", "name": "plugins/garden"}, peer.ability["hooks"])
        notes = " ".join(peer.ability["notes"])
        self.assertIn("register_cli_command", notes)
        self.assertIn("pre_llm_call", notes)
        call = {"scope": scope(), "key": "k", "name": "garden_water", "arguments": {"bed": "roses"}}
        self.assertEqual(json.loads(peer.call("tool/call", call)["content"]), {"watered": "roses"})
        self.assertEqual(self.run_hook(peer), {})
        self.assertEqual(self.run_hook(peer, args={"command": "rm -rf garden"}), {"block": "The garden stays."})
        self.assertIn("consent", self.run_hook(peer, args={"command": "sudo dig"})["block"])
        run = {"scope": scope(), "name": "harvest", "arguments": "two beans"}
        self.assertEqual(peer.call("command/run", run), {"text": "harvested two beans"})

    def test_one_that_is_not_enabled_brings_nothing(self):
        peer = self.start(plugins=True)
        self.assertFalse(peer.ability.get("tools") or peer.ability.get("hooks") or peer.ability.get("commands"))

    def test_p31_one_that_is_enabled_and_not_there_is_named(self):
        self.configure("plugins:\n  enabled: [garden, watchman]\n")
        peer = self.start(plugins=["garden", "watchman"])
        named = [note for note in peer.ability["notes"] if "watchman" in note and "off" in note]
        self.assertEqual(len(named), 1, peer.ability["notes"])
        self.assertTrue(peer.ability["tools"])

    def test_disabled_wins(self):
        self.configure("plugins:\n  enabled: [garden]\n  disabled: [garden]\n")
        self.assertFalse(self.start(plugins=True).ability.get("tools"))

    def test_one_that_breaks_is_named_and_the_others_work(self):
        self.configure("plugins:\n  enabled: [garden, weeds]\n")
        broken = pathlib.Path(self.home, "plugins", "weeds")
        broken.mkdir()
        (broken / "plugin.yaml").write_text("name: weeds\n")
        (broken / "__init__.py").write_text("def register(ctx):\n    ctx.register_time_machine()\n")
        peer = self.start(plugins=True)
        named = [note for note in peer.ability["notes"] if "weeds" in note and "register_time_machine" in note]
        self.assertTrue(named, peer.ability["notes"])
        self.assertTrue(peer.ability["tools"])


class Together(HermesCase):
    def test_one_process_carries_all_of_it(self):
        self.plugin("garden")
        self.plugin("strict")
        self.configure("plugins:\n  enabled: [garden, strict]\n")
        peer = self.start(provider="holographic", engine="strict", tools=["code_execution"], hooks=True, plugins=True)
        names = {tool["name"] for tool in peer.ability["tools"]}
        self.assertEqual(names, {"execute_code", "garden_water"})
        self.assertEqual(peer.ability["engine"]["name"], "strict")
        self.assertEqual(peer.ability["provider"]["name"], "holographic")
        self.assertFalse(any("register_context_engine" in note for note in peer.ability["notes"]))


if __name__ == "__main__":
    unittest.main()
