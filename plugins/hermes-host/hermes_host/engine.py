"""Hermes' context engines: the built-in compressor, those of its directory, and those that plugins register.

- one instance per session, told of its beginning and its end as Hermes tells it; one that cannot be copied is
  registered anew by its plugin, which gives it this agent's home, as at the first time
- an engine gets the options that its signature names; if one that takes anything still refuses them, it is asked
  once more without, and the user is told
- messages that an engine leaves alone come back as they came, to the last field, even if it returns copies
- a summary that could not be written is an error here and never a marker in its place: the conversation stays whole

`keep_last` is kept here for every engine: the end is not shown to it. Absent: the session's rows in `state.db`, which
Hermes lets its own compressor read for its cool-downs; and the messages that Hermes passes along with a tool call.
"""

import copy
import json

from . import hermes, engine_registration
from .scopes import Scopes
from .json_rpc import NOTHING, Failure

_OPTIONS = {"focus": "focus_topic", "force": "force", "memory_context": "memory_context"}
_WINDOW_UNKNOWN = 128_000


class Engine:
    def __init__(self, name, initialize, log):
        self.name = name
        self.home = initialize["home"]
        self.log = log
        self.notes = []
        self.runtime = {}
        self.prototype = None
        self.scopes = Scopes(self._make, self._let_go)

    def ability(self):
        self.runtime = _runtime()
        prototype = self.prototype = self._load(0)
        if prototype is None:
            return None
        named, anything = hermes.accepts(prototype.compress)
        options = [ours for ours, theirs in _OPTIONS.items() if anything or theirs in named]
        methods = ["should_compress", "status", "scope"]
        if hasattr(prototype, "has_content_to_compress"):
            methods.append("has_content")
        return {
            "name": self.name,
            "options": options + ["keep_last"],
            "methods": methods,
            "tools": hermes.tools_of(prototype.get_tool_schemas(), "context_engine"),
        }

    # ------------------------------------------------------------------------------------ calls

    def should_compress(self, params):
        usage = params.get("usage") or {}
        prompt, completion = int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0)
        with self._at(params) as engine:
            engine.update_from_response(
                {
                    "prompt_tokens": prompt,
                    "completion_tokens": completion,
                    "total_tokens": prompt + completion,
                    "input_tokens": prompt,
                    "output_tokens": completion,
                }
            )
            expected = int(usage.get("expected_tokens") or 0)
            return {"compress": bool(engine.should_compress(expected or prompt))}

    def has_content(self, params):
        with self._at(params) as engine:
            handed = [_bare(message) for message in params.get("messages") or []]
            return {"has_content": bool(engine.has_content_to_compress(handed))}

    def compress(self, params):
        originals, kept = _split(params.get("messages") or [], (params.get("options") or {}).get("keep_last"))
        with self._at(params) as engine:
            returned, handed, remark = self._compress(engine, originals, params)
            _complain(engine)
            messages = _restore(returned, handed, originals)
            if messages == originals:
                raise Failure("There is nothing to compress yet.", NOTHING)
            if not messages:
                raise Failure(f"The context engine {self.name} gave back nothing at all.")
            self._boundary(engine, params["scope"])
            answer = {"messages": messages + kept}
            writer = getattr(engine, "summary_model", "") or getattr(engine, "model", "")
            if isinstance(writer, str) and writer:
                answer["model"] = writer
            if remark:
                answer["remark"] = remark
            return answer

    def _compress(self, engine, originals, params):
        tokens = {"current_tokens": int(params.get("tokens") or 0) or None}
        asked = params.get("options") or {}
        options = {theirs: asked[ours] for ours, theirs in _OPTIONS.items() if asked.get(ours)}
        named, anything = hermes.accepts(engine.compress)
        if not anything:
            tokens = {name: value for name, value in tokens.items() if name in named}
            options = {name: value for name, value in options.items() if name in named}
        handed = [_bare(message) for message in originals]
        try:
            return engine.compress(list(handed), **tokens, **options), handed, None
        except TypeError as error:
            if not options:
                raise
            self.log("warning", f"The context engine {self.name} refused {', '.join(sorted(options))}: {error}")
        # It may have had its hands on the first copies.
        handed = [_bare(message) for message in originals]
        # Being forced is part of every order; an engine that was not asked for anything else misses nothing.
        missed = [theirs for theirs in options if theirs != "force"]
        remark = f"The context engine {self.name} takes no options: it compressed without {_listed(missed)}." if missed else None
        return engine.compress(list(handed), **tokens), handed, remark

    def status(self, params):
        with self._at(params) as engine:
            status = engine.get_status()
            if isinstance(status, dict):
                return {"text": "\n".join(f"{name}: {value}" for name, value in status.items())}
            return {"text": str(status or "")}

    def tool(self, params):
        arguments = params.get("arguments")
        with self._at(params) as engine:
            result = hermes.call(
                engine.handle_tool_call,
                params["name"],
                arguments if isinstance(arguments, dict) else {},
                session_id=params["scope"]["session"],
            )
        return {"content": result if isinstance(result, (str, list)) else json.dumps(result, ensure_ascii=False)}

    def close(self, params):
        scope, messages = params["scope"], params.get("messages") or []
        entry = self.scopes.known(scope.get("session") or "")
        if params.get("reason") in ("undo", "deleted"):
            if entry is not None:
                self.scopes.forget(entry)  # what it knows of the session is no longer so
            return
        if entry is None and not messages:
            return
        entry = entry or self.scopes.of(scope)
        with entry.writing:
            if entry.instance is None:
                return
            entry.instance.on_session_end(entry.session, [_bare(message) for message in messages])
            self.scopes.forget(entry)
            self._let_go(entry)

    # ------------------------------------------------------------------------------- instances

    def _at(self, params):
        return _Held(self, self.scopes.of(params["scope"]), int(params.get("window") or 0))

    def _make(self, scope, entry):
        engine = self._load(entry.window)
        if engine is None:
            raise Failure(f"Hermes could not load the context engine {self.name}.")
        engine = self._own(engine)
        entry.window = 0
        hermes.call(
            engine.on_session_start,
            scope["session"],
            hermes_home=self.home,
            platform=scope.get("platform") or "cli",
            model=self.runtime.get("model") or "",
            context_length=getattr(engine, "context_length", 0),
            conversation_id=scope.get("chat_key"),
        )
        return engine

    def _own(self, engine):
        """An instance of this session alone. One that a plugin registers for all is copied, and never used itself."""
        if engine is not self.prototype:
            return engine
        try:
            # Later versions of Hermes ask the engine itself.
            clone = getattr(engine, "clone_for_agent", None)
            return copy.deepcopy(engine) if clone is None else clone()
        except Exception:
            pass  # it holds what cannot be copied: a lock, a connection
        # Only its plugin knows what it is made of. Made without that, an engine would open what its defaults name:
        # a database that all agents of this user share.
        try:
            made = engine_registration.anew(engine)
        except Exception as error:
            raise Failure(
                f"The context engine {self.name} can neither be copied nor made anew for a session: "
                f"{type(error).__name__}: {error}"
            ) from error
        if made is None or made is engine or made.name != self.name:
            raise Failure(
                f"The context engine {self.name} cannot be copied, and its plugin registers no other one for a second "
                "session: `register` has to make an engine each time, or the engine has to have `__deepcopy__`."
            )
        return made

    @staticmethod
    def _let_go(entry):
        entry.instance = None

    def _boundary(self, engine, scope):
        """Hermes tells of a compression this way, under one id since it no longer changes it."""
        hermes.call(
            engine.on_session_start,
            scope["session"],
            boundary_reason="compression",
            old_session_id=scope["session"],
            platform=scope.get("platform") or "cli",
            conversation_id=scope.get("chat_key"),
        )

    def _load(self, window):
        if self.name == "compressor":
            return _compressor(self.runtime, window or self.runtime.get("context_length") or _WINDOW_UNKNOWN)
        found = None
        try:
            from plugins.context_engine import load_context_engine

            found = load_context_engine(self.name)
        except ImportError:
            pass
        if found is None:
            from hermes_cli import plugins

            engine_registration.watch(plugins.PluginContext)
            plugins.discover_plugins()
            candidate = plugins.get_plugin_context_engine()
            found = candidate if candidate is not None and candidate.name == self.name else None
        if found is None:
            self.notes.append(
                f"Hermes finds no context engine named {self.name}: if a plugin brings it, is it in `plugins.enabled`?"
            )
        return found

    def fit(self, engine, entry, window):
        """Tells the engine how large the window is, when that is news."""
        if window and window != entry.window:
            runtime = self.runtime
            hermes.call(
                engine.update_model,
                model=runtime.get("model") or "",
                context_length=window,
                base_url=runtime.get("base_url") or "",
                api_key=runtime.get("api_key") or "",
                provider=runtime.get("provider") or "",
                api_mode=runtime.get("api_mode") or "",
            )
            entry.window = window


class _Held:
    """An engine, for as long as one call needs it."""

    def __init__(self, part, entry, window):
        self.part, self.entry, self.window = part, entry, window

    def __enter__(self):
        self.entry.writing.acquire()
        try:
            engine = self.entry.live()
            self.part.fit(engine, self.entry, self.window)
            return engine
        except BaseException:
            self.entry.writing.release()
            raise

    def __exit__(self, *ignored):
        self.entry.writing.release()


def _compressor(runtime, window):
    from agent.context_compressor import ContextCompressor

    wanted = hermes.section(hermes.configuration(), "compression")
    return hermes.call(
        ContextCompressor,
        model=runtime.get("model") or "",
        threshold_percent=float(wanted.get("threshold") or 0.5),
        protect_first_n=max(0, int(wanted.get("protect_first_n", 3))),
        protect_last_n=int(wanted.get("protect_last_n") or 20),
        summary_target_ratio=float(wanted.get("target_ratio") or 0.2),
        quiet_mode=True,
        base_url=runtime.get("base_url") or "",
        api_key=runtime.get("api_key") or "",
        config_context_length=window,
        provider=runtime.get("provider") or "",
        api_mode=runtime.get("api_mode") or "",
        abort_on_summary_failure=True,
    )


def _runtime():
    """Which model the home speaks to, as Hermes resolves it."""
    config = hermes.configuration()
    model = config.get("model")
    written = model if isinstance(model, dict) else {"default": model}
    runtime = {
        "model": written.get("default") or written.get("model") or "",
        "provider": written.get("provider") or "",
        "base_url": written.get("base_url") or "",
        "api_key": written.get("api_key") or "",
        "context_length": int(written.get("context_length") or 0),
    }
    try:
        from hermes_cli.runtime_provider import resolve_runtime_provider

        found = resolve_runtime_provider()
        for name in ("provider", "base_url", "api_key", "api_mode"):
            if isinstance(found.get(name), str) and found[name]:
                runtime[name] = found[name]
    except Exception:
        pass  # no model is set up; an engine that needs none works all the same
    return runtime


def _complain(engine):
    reason = getattr(engine, "_last_summary_error", None) or "no reason was given"
    if getattr(engine, "_last_compress_aborted", False) or getattr(engine, "_last_summary_fallback_used", False):
        raise Failure(f"The compressor's model wrote no summary: {reason}")


def _bare(message):
    """A copy for the engine. Names that begin with an underscore are the gateway's own."""
    return copy.deepcopy({name: value for name, value in message.items() if not name.startswith("_")})


def _text(message):
    message = {name: value for name, value in message.items() if not str(name).startswith("_")}
    return json.dumps(message, sort_keys=True, ensure_ascii=False, default=str)


def _restore(returned, handed, originals):
    """What the engine gave back, with the originals in place of what it left alone."""
    if not isinstance(returned, list) or not all(isinstance(message, dict) for message in returned):
        raise Failure("The context engine did not give back a list of messages.")
    places = {}
    for index, original in enumerate(originals):
        places.setdefault(_text(original), []).append(index)
    same = {id(message): index for index, message in enumerate(handed)}
    restored, last = [], -1
    for message in returned:
        text = _text(message)
        candidates = places.get(text, ())
        index = same.get(id(message))
        if index not in candidates:
            # A copy: of several equal ones it is the next, since engines keep the order.
            index = next((place for place in candidates if place > last), None)
        if index is None:
            restored.append({name: value for name, value in message.items() if not str(name).startswith("_")})
        else:
            restored.append(originals[index])
            last = index
    return restored


def _split(messages, keep_last):
    """What is shown to the engine, and the end that is not. A result is never torn from its call."""
    cut = len(messages) - min(len(messages), int(keep_last or 0))
    while 0 < cut < len(messages) and messages[cut].get("role") == "tool":
        cut -= 1
    return messages[:cut], messages[cut:]


def _listed(options):
    ours = {theirs: name.replace("_", " ") for name, theirs in _OPTIONS.items()}
    return " and ".join(f"the {ours[name]}" for name in sorted(options))
