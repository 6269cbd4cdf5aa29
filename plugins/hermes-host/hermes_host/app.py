"""The program: from the hand-shake to the last answer.

Parts are made by `initialize`, from what the settings ask for. One that cannot be had is left out and named in the
notes: a mistake in one does not take the others along. Methods of parts that are not there do not exist.
"""

import logging
import os
import sys
import threading
import time

from . import json_rpc as protocol
from .json_rpc import Failure

VERSION = 1
_REST_SECONDS = 5.0


class Host:
    def __init__(self, wire):
        self.wire = wire
        self.parts = []
        self.closing = {}
        self.notes = []
        self.tools = {}
        self.methods = {"initialize": self.initialize, "ping": lambda params: {}, "shutdown": self.shutdown}

    def initialize(self, params):
        from . import hermes

        if len(self.methods) > 3:
            raise Failure("The hand-shake was made already.")
        spoken = int(params.get("protocol") or VERSION)
        for needed in ("home", "directory"):
            if not isinstance(params.get(needed), str):
                raise Failure(f"initialize lacks `{needed}`.", protocol.UNKNOWN_PARAMETERS)
        settings = params.get("settings")
        params["settings"] = settings = settings if isinstance(settings, dict) else {}
        trouble = hermes.prepare(params["home"])
        if trouble:
            raise Failure(trouble)
        answer = {"protocol": min(spoken, VERSION), "name": "hermes", "version": hermes.version(), "notes": []}
        if settings.get("plugins"):
            self._plugins(params, answer)
        if settings.get("provider"):
            self._provider(str(settings["provider"]), params, answer)
        if settings.get("engine"):
            self._engine(str(settings["engine"]), params, answer)
        if settings.get("tools"):
            self._tools(settings, answer)
        if settings.get("hooks"):
            self._hooks(answer)
        if "provider" in answer or "engine" in answer:
            self.methods["scope/close"] = self._close
            self.methods["scope/opened"] = lambda params: {}
        if self.tools:
            self.methods["tool/call"] = self._tool
        answer["notes"] += self.notes
        return answer

    def _provider(self, name, params, answer):
        from .provider import Provider

        part = Provider(name, params, self.wire.log)
        ability = self._try(part, f"The memory provider {name}")
        if ability:
            self.closing["provider"] = part
            answer["provider"] = ability
            self.methods["provider/recall"] = part.recall
            self.methods["provider/retain"] = part.retain
            if "before_compression" in ability["methods"]:
                self.methods["provider/before_compression"] = part.before_compression
            if "memory_written" in ability["methods"]:
                self.methods["provider/memory_written"] = part.memory_written
            if part.hooks:
                answer.setdefault("hooks", []).extend(part.hooks)
            self._answer_hooks(part, part.hooks)
            self._own(ability["tools"], part)

    def _engine(self, name, params, answer):
        from .engine import Engine

        part = Engine(name, params, self.wire.log)
        ability = self._try(part, f"The context engine {name}")
        if ability:
            self.closing["engine"] = part
            answer["engine"] = ability
            self.methods["engine/compress"] = part.compress
            self.methods["engine/should_compress"] = part.should_compress
            self.methods["engine/has_content"] = part.has_content
            self.methods["engine/status"] = part.status
            self._own(ability["tools"], part)

    def _tools(self, settings, answer):
        from .toolbox import Toolbox

        part = Toolbox(settings)
        tools = self._try(part, "Hermes' tools") or []
        tools = [tool for tool in tools if tool["name"] not in self.tools]
        answer.setdefault("tools", []).extend(tools)
        self._own(tools, part)

    def _plugins(self, params, answer):
        from .extensions import Extensions

        part = Extensions(params["settings"])
        ability = self._try(part, "Hermes' plugins")
        if ability:
            answer.setdefault("tools", []).extend(ability["tools"])
            answer.setdefault("hooks", []).extend(ability["hooks"])
            answer["commands"] = ability["commands"]
            self._own(ability["tools"], part)
            self._answer_hooks(part, ability["hooks"])
            if ability["commands"]:
                self.methods["command/run"] = part.command

    def _hooks(self, answer):
        from .hooks import Hooks

        part = Hooks()
        hooks = self._try(part, "The home's hooks") or []
        answer.setdefault("hooks", []).extend(hooks)
        self._answer_hooks(part, hooks)

    def _answer_hooks(self, part, hooks):
        if hooks:
            earlier = self.methods.get("hook/run")
            self.methods["hook/run"] = lambda params: (
                part.run(params) if part.knows(params.get("name")) or earlier is None else earlier(params)
            )

    def _try(self, part, what):
        ability = None
        try:
            ability = part.ability()
        except Exception as error:
            logging.getLogger("hermes_host").exception("%s", what)
            part.notes.append(f"{what} could not be loaded: {type(error).__name__}: {error}")
        self.notes += part.notes
        if ability is not None:
            self.parts.append(part)  # one that was not loaded is told nothing
        return ability

    def _own(self, tools, part):
        for tool in tools:
            self.tools.setdefault(tool["name"], part)

    def _tool(self, params):
        part = self.tools.get(params.get("name"))
        if part is None:
            raise Failure(f"There is no tool {params.get('name')} here.", protocol.REFUSED)
        return part.tool(params)

    def _close(self, params):
        failures = []
        told = params.get("part")  # engine and provider hear of an end at different times, each once
        for name, part in self.closing.items():
            if told in (None, name):
                try:
                    part.close(params)
                except Exception as error:  # of one; the others are told all the same
                    failures.append(error)
        if failures:
            raise failures[0]
        return {}

    def shutdown(self, params):
        """Lets every part come to rest, within the time there is."""
        stopping = [threading.Thread(target=self._stop, args=(part,), daemon=True) for part in self.parts]
        deadline = time.monotonic() + _REST_SECONDS
        for thread in stopping:
            thread.start()
        for thread in stopping:
            thread.join(max(0.0, deadline - time.monotonic()))
        return {}

    def _stop(self, part):
        try:
            getattr(part, "stop", lambda: None)()
        except Exception as error:
            self.wire.log("warning", f"A part did not stop: {error}")


def main():
    incoming, outgoing = protocol.claim()
    # Only now: what is printed while it loads goes to standard error.
    from . import thread_owners
    from .server import Server

    shown = logging.StreamHandler(sys.stderr)
    shown.setLevel(logging.WARNING)
    logging.getLogger().addHandler(shown)
    thread_owners.install()
    wire = protocol.Wire(incoming, outgoing)
    host = Host(wire)
    Server(wire, host.methods).run()
    host.shutdown({})
    sys.stderr.flush()
    # Threads of plugins may hang, and `atexit` would wait for them.
    os._exit(0)
