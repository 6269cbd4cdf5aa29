"""Hermes' registered tools: listed by toolset, run as Hermes runs them, answered as it answers.

What a tool needs is asked of the tool (`check_fn`), so one without its key or its program is not offered. Tools that
only Hermes' own agent loop can run, and those the host has itself, are left out. Hooks around a call are the host's:
it tells them before and after, so they are not told again from here.

Consent: a call counts as one from a chat, so that what Hermes asks people about (`approvals.mode`) is refused, since
there is nobody to ask from here. A host that asks them itself, before it calls, says so with `approvals: host`.
"""

import json

from . import hermes
from .wire import Failure

# Without the agent loop around them these can only answer that they need it.
_LOOP = {"todo", "memory", "session_search", "delegate_task", "clarify"}

_ASKING = "Asking the user for approval"


class Toolbox:
    def __init__(self, settings):
        self.wanted = settings.get("tools")
        self.native = set(settings.get("native") or ())
        self.host_asks = settings.get("approvals") == "host"
        self.notes = []

    def ability(self):
        import model_tools
        from tools.registry import registry

        toolsets = None if self.wanted is True else [str(name) for name in self.wanted]
        definitions = hermes.call(
            model_tools.get_tool_definitions,
            enabled_toolsets=toolsets,
            quiet_mode=True,
            skip_tool_search_assembly=True,
        )
        loop = _LOOP | set(getattr(model_tools, "_AGENT_LOOP_TOOLS", ()))
        tools = hermes.tools_of(definitions, None, native=self.native | loop)
        for tool in tools:
            tool["toolset"] = registry.get_toolset_for_tool(tool["name"]) or "hermes"
        self._name_what_is_missing(toolsets, definitions)
        mode = hermes.section(hermes.configuration(), "approvals").get("mode")
        if any(tool["name"] == "execute_code" for tool in tools) and not self.host_asks and mode not in ("off", False):
            self.notes.append(
                "execute_code may ask for consent, which nobody can give here: then it answers that it was not run."
            )
        return tools

    def _name_what_is_missing(self, toolsets, definitions):
        from toolsets import resolve_toolset

        offered = {definition["function"]["name"] for definition in definitions}
        for toolset in toolsets or ():
            try:
                names = set(resolve_toolset(toolset))
            except Exception:
                names = set()
            if not names:
                self.notes.append(f"Hermes has no toolset named {toolset}.")
            elif not names & offered:
                self.notes.append(f"No tool of {toolset} can run here: `hermes tools` says what it lacks.")

    def tool(self, params):
        return {"content": run(params["scope"], params["name"], params.get("arguments"), self.host_asks)}


def run(scope, name, arguments, host_asks):
    """Runs a registered tool, for a session."""
    import model_tools
    from tools.registry import registry

    if registry.get_entry(name) is None:
        raise Failure(f"Hermes no longer has a tool {name}.")
    if not isinstance(arguments, dict):
        arguments = {}
    arguments = model_tools.coerce_tool_args(name, arguments)
    session = scope.get("session") or ""
    context = {"task_id": session, "session_id": session}
    if name == "execute_code":
        context["enabled_tools"] = list(getattr(model_tools, "_last_resolved_tool_names", ()))
    leave = _enter(scope, host_asks)
    try:
        result = registry.dispatch(name, arguments, **context)
    finally:
        leave()
    if isinstance(result, dict) and isinstance(result.get("content"), list):
        return result["content"]  # parts: text and images
    result = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)
    return result if host_asks else _truly(name, result)


def _truly(name, result):
    """Hermes says that it asks the user, and leaves that to its own gateway. Here nobody is asked, and the model is told so."""
    try:
        said = json.loads(result)
    except ValueError:
        return result
    if not isinstance(said, dict) or _ASKING not in str(said.get("error") or ""):
        return result
    said["error"] = (
        f"{name} was not run. Hermes wants a person's consent to it, and nobody was asked, because there is no way to ask "
        "from here. It runs if `approvals.mode` is `off` in config.yaml; tell the user so if it is needed."
    )
    return json.dumps(said, ensure_ascii=False)


def _enter(scope, host_asks):
    """Tells Hermes' tools whose turn this is. Returns what takes it back."""
    if host_asks:
        return lambda: None  # without a platform Hermes takes it for a local call, about which it asks nobody
    try:
        from gateway import session_context
    except ImportError:
        return lambda: None
    chat = scope.get("chat") or {}
    tokens = hermes.call(
        session_context.set_session_vars,
        platform=scope.get("platform") or "",
        chat_id=chat.get("id") or "",
        chat_name=chat.get("name") or "",
        thread_id=chat.get("thread") or "",
        user_id=scope.get("user") or "",
        user_name=scope.get("user_name") or "",
        session_key=scope.get("chat_key") or "",
        session_id=scope.get("session") or "",
        async_delivery=False,
    )
    return lambda: session_context.clear_session_vars(tokens)
