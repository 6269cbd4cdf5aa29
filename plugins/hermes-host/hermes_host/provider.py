"""Hermes' memory providers: one instance per session, asked and told in the protocol's words.

- a recall is about the question that is asked: providers that look things up for the *next* turn are made to look
  up this one, and are waited for
- a retention is answered when it is kept; `retention` tells how, and why no turn stands twice
- a session that ends is told so once, under its own identity; a process that ends tells nothing
- tools that a provider brings along are declared once, from an instance that stands for no session

- what is written to the built-in memory is told as Hermes tells it: once at most, and the host does not wait for it

- what a subagent was given and brought back is told the same way, by the hook `subagent_stop`: `on_delegation`

Not carried: the callbacks that only Hermes' terminal offers.
"""

import hashlib
import json
import logging
import os

from . import hermes, thread_owners
from .ledger import Ledger
from .retention import Asleep, keep
from .scopes import Entry, Scopes
from .json_rpc import FAILED, Failure

_DELEGATED = "subagent_stop"
# The session goes on, with less of it than before.
_REWOUND = "undo"
# It is to leave nothing behind: its end is not told.
_NO_END = {"deleted"}


class Provider:
    def __init__(self, name, initialize, log):
        self.name = name
        self.home = initialize["home"]
        self.agent = initialize.get("agent") or ""
        self.settings = initialize.get("settings") or {}
        self.log = log
        self.notes = []
        self.hooks = []
        self.ledger = None
        self.directory = initialize["directory"]
        self.scopes = Scopes(self._make, self._let_go)

    def ability(self):
        """What it can do, or None with the reason in the notes."""
        from agent.memory_provider import MemoryProvider

        entry = Entry("")
        with thread_owners.acting(entry.token, "initialize"):
            provider = self._load()
            if provider is None:
                return None
            if not provider.is_available():
                self.notes.append(
                    f"The memory provider {self.name} says that it is not set up: `hermes memory setup` does that."
                )
                return None
            logging.getLogger(type(provider).__module__).setLevel(logging.DEBUG)
            before = _schemas(provider)
            # `flush` is Hermes' word for "not a conversation": nothing is opened on a server for it.
            hermes.call(provider.initialize, "", **self._identity({"platform": "cli"}, context="flush"))
            skipped = getattr(provider, "_cron_skipped", False)
            ability = {
                "name": self.name,
                "methods": ["recall", "retain"],
                "every": 1,
                "documents": "session",
                "tools": hermes.tools_of(before if skipped else _schemas(provider), "memory"),
                "prompt": provider.system_prompt_block() or "",
            }
            provider.shutdown()
        if hermes.overrides(provider, MemoryProvider, "on_pre_compress"):
            ability["methods"].append("before_compression")
        if hermes.overrides(provider, MemoryProvider, "on_memory_write"):
            ability["methods"].append("memory_written")
        ability["methods"].append("scope")
        if hermes.overrides(provider, MemoryProvider, "on_delegation"):
            self.hooks = [{"event": _DELEGATED, "name": f"memory/{self.name}"}]
        self.ledger = Ledger(os.path.join(self.directory, f"{_file_name(self.name)}.ledger.db"))
        self.looks_ahead = hermes.overrides(provider, MemoryProvider, "queue_prefetch")
        self.counts_turns = hermes.overrides(provider, MemoryProvider, "on_turn_start")
        return ability

    # ------------------------------------------------------------------------------------ calls

    def recall(self, params):
        entry = self.scopes.of(params["scope"])
        query = params.get("query") or ""
        seconds = float(self.settings.get("recall_seconds") or 8)
        with entry.reading:
            entry.turns += 1
            provider = entry.live()
            with thread_owners.heard(entry.token, apart_from=("retain", "initialize", "tool", "close")) as failures:
                with thread_owners.acting(entry.token, "recall"):
                    text = self._recall(entry, provider, query, seconds, params["scope"])
            if not text and failures:
                raise Failure(f"The memory could not be asked: {failures[0]}")
            return {"text": text}

    def _recall(self, entry, provider, query, seconds, scope):
        if not thread_owners.settle(entry.token, seconds, deeds=("recall",)):
            raise Failure("An earlier question to the memory is still open.")
        if self.counts_turns:
            hermes.call(provider.on_turn_start, entry.turns, query, platform=scope.get("platform") or "cli")
        if self.looks_ahead:
            if entry.late:
                provider.prefetch(query, session_id=entry.session)  # the answer to another question
                entry.late = False
            hermes.call(provider.queue_prefetch, query, session_id=entry.session)
            if not thread_owners.settle(entry.token, seconds, deeds=("recall",)):
                entry.late = True
                raise Failure(f"The memory did not answer within {seconds:.0f} s.")
        return hermes.call(provider.prefetch, query, session_id=entry.session) or ""

    def retain(self, params):
        entry = self.scopes.of(params["scope"])
        try:
            keep(entry, params, self.ledger, self.settings, self.log)
        except Asleep:
            # It has given up for as long as it lives. The next try makes another.
            self.scopes.forget(entry)
            self._let_go(entry)
            raise

    def before_compression(self, params):
        entry = self.scopes.of(params["scope"])
        with entry.writing, thread_owners.acting(entry.token, "close"):
            return {"text": entry.live().on_pre_compress(params.get("messages") or []) or ""}

    def memory_written(self, params):
        entry = self.scopes.of(params["scope"])
        told = {"session_id": entry.session, "platform": params["scope"].get("platform") or "cli", "tool_name": "memory"}
        if params.get("old_text"):
            told["old_text"] = params["old_text"]
        with entry.writing, thread_owners.acting(entry.token, "tool"):
            write = entry.live().on_memory_write
            given = [params.get("action") or "", params.get("target") or "memory", params.get("content") or ""]
            named, anything = hermes.accepts(write)
            if not anything and "metadata" not in named and len(named) > len(given):
                given.append(told)  # by another name, as Hermes lets it
            hermes.call(write, *given, metadata=told)
        return {}

    def knows(self, name):
        return any(hook["name"] == name for hook in self.hooks)

    def run(self, params):
        """A subagent is done: its parent's provider hears of it, as in Hermes."""
        facts = params.get("facts") or {}
        entry = self.scopes.of(params["scope"])
        with entry.writing, thread_owners.acting(entry.token, "tool"):
            hermes.call(
                entry.live().on_delegation,
                facts.get("child_goal") or "",
                facts.get("child_summary") or "",
                child_session_id=facts.get("child_session_id") or "",
            )
        return {}

    def close(self, params):
        scope, reason, following = params["scope"], params.get("reason") or "", params.get("next")
        key = _close_key(params)
        if self.ledger.state(key) == "done":
            return
        messages = params.get("messages") or []
        entry = self.scopes.known(scope.get("session") or "")
        if reason == _REWOUND:
            self._rewind(entry)
            return
        if entry is None and (reason in _NO_END or not messages):
            return  # nothing was buffered, and there is nothing to tell
        entry = entry or self.scopes.of(scope)
        with entry.writing, entry.reading:
            if entry.instance is None:
                return
            self.ledger.begin(key)
            with thread_owners.heard(entry.token, apart_from=("recall", "tool")) as failures:
                with thread_owners.acting(entry.token, "close"):
                    self._end(entry, reason, following, messages)
            if failures:
                raise Failure(f"The end of the session was not kept: {failures[0]}")
            self.scopes.forget(entry)
            self._let_go(entry)
        self.ledger.finish(key)

    def _rewind(self, entry):
        """As Hermes' terminal tells it: the same session, which has forgotten its latest turns. No instance has to be made for it."""
        if entry is None:
            return
        with entry.writing, thread_owners.acting(entry.token, "close"):
            if entry.instance is not None:
                hermes.call(
                    entry.instance.on_session_switch, entry.session, parent_session_id="", reset=False, rewound=True
                )
                self._rest(entry, float(self.settings.get("close_seconds") or 60))

    def _end(self, entry, reason, following, messages):
        provider, seconds = entry.instance, float(self.settings.get("close_seconds") or 60)
        if reason not in _NO_END:
            provider.on_session_end(messages)
        self._rest(entry, seconds)
        if following and following != entry.session:
            # On the old instance, which never serves the new session: what it had not sent goes out under its own name.
            hermes.call(
                provider.on_session_switch, following, parent_session_id=entry.session, reset=reason == "new", reason=reason
            )
            self._rest(entry, seconds)

    def _rest(self, entry, seconds):
        if not thread_owners.settle(entry.token, seconds, holder=entry.instance):
            thread_owners.tolerate(entry.token, holder=entry.instance)
            raise Failure(f"After {seconds:.0f} s the end of the session was still being kept.", FAILED)

    def tool(self, params):
        entry = self.scopes.of(params["scope"])
        arguments = params.get("arguments")
        with thread_owners.acting(entry.token, "tool"):
            result = hermes.call(
                entry.live().handle_tool_call,
                params["name"],
                arguments if isinstance(arguments, dict) else {},
                session_id=entry.session,
            )
        return {"content": result if isinstance(result, (str, list)) else json.dumps(result, ensure_ascii=False)}

    def stop(self):
        for entry in self.scopes.all():
            self.scopes.forget(entry)
            self._let_go(entry)
        if self.ledger is not None:
            self.ledger.close()

    # ------------------------------------------------------------------------------- instances

    def _load(self):
        try:
            from plugins.memory import load_memory_provider
        except ImportError as error:
            self.notes.append(f"This Hermes has no memory providers: {error}")
            return None
        provider = load_memory_provider(self.name)
        if provider is None:
            self.notes.append(f"Hermes finds no memory provider named {self.name}, or could not load it.")
        return provider

    def _make(self, scope, entry):
        with thread_owners.acting(entry.token, "initialize"):
            provider = self._load()
            if provider is None:
                raise Failure(f"Hermes could not load the memory provider {self.name}.")
            if any(other.instance is provider for other in self.scopes.all()):
                raise Failure(f"The memory provider {self.name} gives everybody the same instance.")
            hermes.call(provider.initialize, scope["session"], **self._identity(scope))
        return provider

    def _let_go(self, entry):
        if entry.instance is None:
            return
        with entry.writing, thread_owners.acting(entry.token, "close"):
            try:
                thread_owners.settle(entry.token, 4, holder=entry.instance)
                entry.instance.shutdown()
            except Exception as error:
                self.log("warning", f"The memory provider {self.name} did not shut down: {error}")
            entry.instance = None

    def _identity(self, scope, context="primary"):
        """What Hermes tells a provider about a session; what is not known is left out, as it does."""
        chat = scope.get("chat") or {}
        known = {
            "session_title": scope.get("title"),
            "user_id": scope.get("user"),
            "user_name": scope.get("user_name"),
            "chat_id": chat.get("id"),
            "chat_name": chat.get("name"),
            "chat_type": chat.get("kind"),
            "thread_id": chat.get("thread"),
            "gateway_session_key": scope.get("chat_key"),
            "parent_session_id": scope.get("parent"),
            "agent_identity": self._profile(),
            "agent_workspace": "hermes",
        }
        identity = {name: value for name, value in known.items() if value}
        identity.update(platform=scope.get("platform") or "cli", hermes_home=self.home, agent_context=context)
        return identity

    def _profile(self):
        try:
            from hermes_cli.profiles import get_active_profile_name

            return get_active_profile_name()
        except Exception:
            return self.agent


def _schemas(provider):
    return list(provider.get_tool_schemas() or [])


def _file_name(name):
    return "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in name)


def _close_key(params):
    """The same for a repeated close; another as soon as the session went on in between."""
    if params.get("key"):
        return f"close:{params['key']}"
    scope = params["scope"]
    told = [scope.get("session"), scope.get("generation"), params.get("reason"), params.get("next"), params.get("messages")]
    digest = hashlib.sha256(json.dumps(told, sort_keys=True, ensure_ascii=True).encode()).hexdigest()
    return f"close:{digest}"
