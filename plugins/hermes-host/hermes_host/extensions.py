"""General plugins: what their `register(ctx)` registers, as far as the protocol has words for it.

Hermes finds, enables and loads them by its own rules (`plugins.enabled`, `plugins.disabled`, manifests, entry
points). Each registration is noted as it is made, so that tools, hooks and commands are carried and everything else
is named: a plugin that would do more than it can here says so at the start, not by doing nothing.

A `pre_tool_call` that asks for a person's consent refuses the call: there is no person to ask from here.
"""

import functools
import logging

from . import hermes, event_loop, engine_registration, toolbox
from .json_rpc import Failure

PREFIX = "plugins/"
_CARRIED = {"register_tool", "register_hook", "register_command"}
# They serve Hermes' own tools, which run in this process.
_FOR_TOOLS = {
    "register_image_gen_provider",
    "register_video_gen_provider",
    "register_web_search_provider",
    "register_browser_provider",
    "register_tts_provider",
    "register_transcription_provider",
    "register_auxiliary_task",
    "register_secret_source",
}
# Their answers would change something; only that of `pre_tool_call` has a way back.
_ANSWERING = {
    "pre_llm_call",
    "pre_verify",
    "pre_gateway_dispatch",
    "transform_llm_output",
    "transform_terminal_output",
    "transform_tool_result",
}


class Extensions:
    def __init__(self, settings):
        self.settings = settings
        self.native = set(settings.get("native") or ())
        self.notes = []
        self.registered = []
        self.callbacks = {}
        self.handlers = {}

    def ability(self):
        from hermes_cli import plugins

        engine_registration.watch(plugins.PluginContext)
        self._listen(plugins.PluginContext)
        plugins.discover_plugins()
        manager = plugins.get_plugin_manager()
        self._name_failures(manager)
        self._name_missing(manager)
        mine = [each for each in self.registered if not _part_of_hermes(each[0])]
        ability = {"tools": self._tools(mine), "hooks": self._hooks(mine), "commands": self._commands(manager)}
        self._name_the_rest(mine)
        return ability

    def _listen(self, context):
        for method in [name for name in dir(context) if name.startswith("register_")]:
            setattr(context, method, self._noting(method, getattr(context, method)))

    def _noting(self, method, original):
        @functools.wraps(original)
        def register(context, *arguments, **named):
            result = original(context, *arguments, **named)
            self.registered.append((context.manifest, method, arguments, named))
            return result

        return register

    def _tools(self, registered):
        from tools.registry import registry

        names = {_first(arguments, named, "name") for _, method, arguments, named in registered if method == "register_tool"}
        tools = hermes.tools_of(registry.get_definitions(names, quiet=True), None, native=self.native)
        for tool in tools:
            tool["toolset"] = registry.get_toolset_for_tool(tool["name"]) or "plugins"
        for name in sorted(names & self.native):
            self.notes.append(f"The tool {name} of a plugin is not used: there is one of that name already.")
        return tools

    def _hooks(self, registered):
        declared = []
        for manifest, method, arguments, named in registered:
            if method != "register_hook":
                continue
            event = _first(arguments, named, "hook_name")
            callback = arguments[1] if len(arguments) > 1 else named.get("callback")
            name = PREFIX + _key(manifest)
            if (name, event) not in self.callbacks:
                declared.append({"event": event, "name": name})
            self.callbacks.setdefault((name, event), []).append(callback)
            if event in _ANSWERING:
                self.notes.append(f"The plugin {_key(manifest)} hears {event}; what it answers there changes nothing.")
        return declared

    def _commands(self, manager):
        declared = []
        for name, command in sorted(getattr(manager, "_plugin_commands", {}).items()):
            self.handlers[name] = command["handler"]
            declared.append({"name": name, "description": command.get("description") or ""})
        return declared

    def _name_the_rest(self, registered):
        lost = {}
        for manifest, method, arguments, named in registered:
            if method in _CARRIED or (method in _FOR_TOOLS and self.settings.get("tools")):
                continue
            if method == "register_context_engine":
                engine = arguments[0] if arguments else named.get("engine")
                if getattr(engine, "name", None) == self.settings.get("engine"):
                    continue
            lost.setdefault(_key(manifest), set()).add(method)
        for plugin, methods in sorted(lost.items()):
            self.notes.append(f"The plugin {plugin} also calls {', '.join(sorted(methods))}, which has no effect here.")

    def _name_failures(self, manager):
        for plugin in getattr(manager, "_plugins", {}).values():
            error = getattr(plugin, "error", None) or ""
            told = error.startswith(("disabled", "not enabled", "exclusive"))
            if error and not told and not _part_of_hermes(plugin.manifest):
                self.notes.append(f"The plugin {_key(plugin.manifest)} could not be loaded: {error}")

    def _name_missing(self, manager):
        """Enabled, and not there: a guard that was not found guards nothing, and says so."""
        wanted = self.settings.get("plugins")
        there = set()
        for plugin in getattr(manager, "_plugins", {}).values():
            there |= {_key(plugin.manifest), plugin.manifest.name}
        for name in wanted if isinstance(wanted, list) else ():
            if name not in there:
                self.notes.append(f"The plugin {name} is enabled, and Hermes found none of that name: it is off.")

    # ------------------------------------------------------------------------------------ calls

    def tool(self, params):
        return toolbox.Toolbox(self.settings).tool(params)

    def knows(self, name):
        return any(plugin == name for plugin, _ in self.callbacks)

    def run(self, params):
        event, name = params["event"], params["name"]
        facts = dict(params.get("facts") or {})
        block = None
        for callback in self.callbacks.get((name, event), ()):
            try:
                answer = event_loop.result(hermes.call(callback, **facts))
            except Exception:
                logging.getLogger("hermes_host").exception("%s at %s", name, event)
                continue
            if event == "pre_tool_call" and block is None:
                block = _refusal(answer)
        return {"block": block} if block else {}

    def command(self, params):
        handler = self.handlers.get(params.get("name"))
        if handler is None:
            raise Failure(f"There is no command /{params.get('name')} here.")
        said = event_loop.result(handler(params.get("arguments") or ""))
        return {"text": "" if said is None else str(said)}


def _refusal(answer):
    if not isinstance(answer, dict):
        return None
    message = answer.get("message")
    message = message if isinstance(message, str) else ""
    if answer.get("action") == "block":
        return message or None
    if answer.get("action") == "approve":
        return f"{message or 'This call needs consent.'} (A plugin asks for a person's consent, which it cannot get here.)"
    return None


def _key(manifest):
    return getattr(manifest, "key", "") or manifest.name


def _part_of_hermes(manifest):
    return manifest.source == "bundled" and getattr(manifest, "kind", "") in ("backend", "platform", "model-provider")


def _first(arguments, named, name):
    return arguments[0] if arguments else named.get(name)
