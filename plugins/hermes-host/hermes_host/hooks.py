"""A home's `hooks/<name>` directories: `HOOK.yaml` says which events, `handle(event_type, context)` hears them.

Hermes' own loader finds and loads them. A handler that raises is logged and changes nothing, as under Hermes. Orders
(`command:*`) are told when they have been accepted: what a handler answers then is passed back, and changes nothing.
"""

import logging
import sys

from . import event_loop

PREFIX = "hooks/"


class Hooks:
    def __init__(self):
        self.notes = []
        self.handlers = {}

    def ability(self):
        from gateway.hooks import HookRegistry

        registry = HookRegistry()
        registry.discover_and_load()
        declared = []
        for hook in registry.loaded_hooks:
            module = sys.modules.get(f"hermes_hook_{hook['name']}")
            handle = getattr(module, "handle", None)
            if handle is None:
                continue
            name = PREFIX + str(hook["name"])
            self.handlers[name] = handle
            declared += [{"event": str(event), "name": name} for event in hook["events"]]
            if any(str(event).startswith("command:") for event in hook["events"]):
                self.notes.append(f"The hook {hook['name']} is told of orders, and cannot refuse or replace them here.")
        return declared

    def knows(self, name):
        return name in self.handlers

    def run(self, params):
        handle = self.handlers.get(params.get("name"))
        event = params["event"]
        if handle is None:
            return {}
        try:
            answer = event_loop.result(handle(event, dict(params.get("facts") or {})))
        except Exception:
            logging.getLogger("hermes_host").exception("%s at %s", params.get("name"), event)
            return {}
        if isinstance(answer, dict) and str(answer.get("decision", "")).strip().lower() == "deny":
            return {"block": answer.get("message") or f"{event} was refused by {params.get('name')}."}
        return {}
