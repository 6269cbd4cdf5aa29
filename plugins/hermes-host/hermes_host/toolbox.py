"""Hermes' registered tools: listed by toolset, run as Hermes runs them, answered as it answers.

What a tool needs is asked of the tool (`check_fn`), so one without its key or its program is not offered. Tools that
only Hermes' own agent loop can run, and those the host has itself, are left out. Hooks around a call are the host's:
it tells them before and after, so they are not told again from here.

Consent: a call counts as one from a chat, so Hermes finds what people must be asked about (`approvals.mode`) and does not
run it. That is handed back as a question (`ask`); the host puts it to them, and calls again with `consent: true`. Then
what was asked about is allowed for this one call, and nothing else: a script that was agreed to and wants a command that
Hermes would ask about still does not get it. `approvals: host` says that the host asks before it calls at all.

`execute_code` lets a script call other tools, of Hermes and in this process: Hermes' own plugins hear of those calls,
the host's guards do not. So it is declared (`calls_tools`), and the host decides whether that may be.
"""

import itertools
import json

from . import hermes
from .json_rpc import Failure

# Without the agent loop around them these can only answer that they need it.
_LOOP = {"todo", "memory", "session_search", "delegate_task", "clarify"}

_ASKING = "Asking the user for approval"

# They run what calls other tools.
_CALLING = {"execute_code"}

_numbers = itertools.count(1)


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
            if tool["name"] in _CALLING:
                tool["calls_tools"] = True
        self._name_what_is_missing(toolsets, definitions)
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
        consents = self.host_asks or params.get("consent") is True
        return run(params["scope"], params["name"], params.get("arguments"), self.host_asks, consents)


def run(scope, name, arguments, host_asks, consents):
    """Runs a registered tool, for a session. Where people must be asked first, it was not run, and the question is there."""
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
        with Leave() as given:
            result = _text(registry.dispatch(name, arguments, **context))
            question = given.question(result)
            if question and consents and given.allow(question):
                # It was refused before anything was done, so this is the first time that something is.
                result = _text(registry.dispatch(name, arguments, **context))
                question = given.question(result)
    finally:
        leave()
    if question is None:
        return {"content": result}
    return {"content": _unasked(name, result), "ask": question}


def _text(result):
    if isinstance(result, dict) and isinstance(result.get("content"), list):
        return result["content"]  # parts: text and images
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)


class Leave:
    """What one call is allowed, under a name of its own: Hermes keeps consents by session, and would keep this one."""

    def __init__(self):
        try:
            from tools import approval
        except ImportError:
            approval = None
        known = ("set_current_session_key", "reset_current_session_key", "approve_session", "clear_session", "_pending")
        # A Hermes without them asks in another way, or not at all; then it is as before: what it asks about is not run.
        self.approval = approval if all(hasattr(approval, name) for name in known) else None
        self.name = f"throughline-call-{next(_numbers)}"

    def __enter__(self):
        if self.approval:
            self.token = self.approval.set_current_session_key(self.name)
        return self

    def __exit__(self, *_):
        if self.approval:
            self.approval.clear_session(self.name)
            self.approval.reset_current_session_key(self.token)

    def question(self, result):
        """What Hermes wants to ask before it runs the call itself; None if it ran, or has nothing to ask."""
        try:
            error = json.loads(result).get("error") if isinstance(result, str) else None
        except (ValueError, AttributeError):
            return None
        if not isinstance(error, str) or _ASKING not in error:
            return None
        pending = self.approval._pending.get(self.name) if self.approval else None
        # What a script wanted and did not get is no question about the script: that has run.
        if pending and not error.startswith(f"\u26a0\ufe0f {pending.get('description')}. {_ASKING}"):
            return None
        pending = pending or {"command": "", "description": error.split(_ASKING)[0]}
        lasting = pending.get("pattern_keys") if pending.get("allow_permanent", True) else None
        return {
            "what": str(pending.get("command") or ""),
            "why": str(pending.get("description") or "").strip(),
            "patterns": [str(key) for key in lasting or ()],
        }

    def allow(self, question):
        pending = self.approval._pending.pop(self.name, None) if self.approval else None
        keys = (pending or {}).get("pattern_keys") or ()
        for key in keys:
            self.approval.approve_session(self.name, key)
        return bool(keys)


def _unasked(name, result):
    """Hermes says that it asks the user, and leaves that to its own gateway. Where the host asks no person, the model is told so."""
    said = json.loads(result)
    said["error"] = (
        f"{name} was not run. Hermes wants a person's consent to it, and nobody was asked, because there is no way to ask "
        "from here. It runs if `approvals.mode` is `off` in config.yaml; tell the user so if it is needed."
    )
    return json.dumps(said, ensure_ascii=False)


def _enter(scope, host_asks):
    """Tells Hermes' tools whose turn this is. Returns what takes it back."""
    if host_asks:
        return lambda: None  # without a platform Hermes takes it for a local call, which needs no consent
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
