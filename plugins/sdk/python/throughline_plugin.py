"""Everything a plugin in Python needs, in one file without dependencies: copy it beside your own.

    import throughline_plugin as throughline

    plugin = throughline.Plugin("bees")

    @plugin.tool("count_bees", "Counts them.", {"type": "object", "properties": {"hive": {"type": "string"}}})
    def count_bees(scope, hive=""):
        return "many"

    plugin.serve()

An engine is a subclass of `Engine` and a memory provider one of `Provider`; what a subclass does not define is not
declared, and never asked for. Calls come in worker threads, several at once. Whatever is printed goes to the log:
standard output belongs to the protocol. Raise `Failed`, `MaybeDone`, `Refused` or `Nothing` to say what became of a
call; any other exception is a failure.
"""

import inspect
import json
import os
import queue
import sys
import threading
import time
import traceback

PROTOCOL = 1
LINE_MAX = 32 << 20
WORKERS = 8


class Failed(Exception):
    """It did not work. Of a retention: it has certainly not been kept, and is tried again."""

    code = -32000


class MaybeDone(Failed):
    """Of a retention: it may have been kept. It is tried again, marked as tried."""

    code = -32001


class Refused(Failed):
    """Of a retention: never, as it is."""

    code = -32002


class Nothing(Failed):
    """There is nothing to compress."""

    code = -32003


class _NoSuchMethod(Failed):
    code = -32601


class Scoped:
    """What engines and providers have in common. `scope` is a dictionary: `session`, `chat_key`, `platform` …"""

    name = ""
    plugin = None
    tools = ()  # of `Tool`

    def start(self):
        """Once, after the hand-shake: `self.plugin` knows the directory, the settings and what the host offers."""

    def opened(self, scope):
        """A session began, or goes on after a start."""

    def closed(self, scope, reason, following, messages):
        """A session is over, or `following` goes on in its place."""

    def stop(self):
        """Once, when the process is to end. No session is over because of it."""


class Engine(Scoped):
    """Replaces part of a conversation by less. `options`: of `focus`, `force`, `memory_context`, `keep_last`."""

    options = ()

    def compress(self, scope, messages, tokens, window, **options):
        """The whole list as it shall be from now on; or that, and what the user should know about it."""
        raise NotImplementedError

    def should_compress(self, scope, usage, window):
        """Without this the user's thresholds decide."""

    def has_content(self, scope, messages):
        """Whether there is anything to compress."""

    def status(self, scope):
        """A text for people."""


class Provider(Scoped):
    """Remembers. `every`: after how many turns they are handed over; `documents`: `session` or `chat`."""

    every = 1
    documents = "session"
    prompt = ""

    def recall(self, scope, query):
        """What bears on the question, as a text. It creates nothing."""

    def retain(self, turn):
        """One turn, a dictionary. Return when it is kept, under `turn["key"]`: the same key comes again if in doubt."""

    def before_compression(self, scope, messages):
        """A text for the summariser of these."""

    def memory_written(self, write):
        """The built-in memory was changed, a dictionary: `action` (add, replace, remove), `target`, `content`, `old_text`."""


class Tool:
    def __init__(self, name, description, parameters, function, toolset=None, repeatable=False):
        self.name, self.function = name, function
        self.declared = {"name": name, "description": description, "parameters": parameters, "repeatable": repeatable}
        if toolset:
            self.declared["toolset"] = toolset


class Plugin:
    def __init__(self, name, version="", engine=None, provider=None):
        self.name, self.version = name, version
        self.engine, self.provider = engine, provider
        self.tools, self.hooks, self.commands = {}, {}, {}
        self.notes = []
        self.home = self.directory = self.agent = ""
        self.settings, self.offers = {}, []
        self._answers, self._number, self._guard = {}, 0, threading.Lock()
        self._waiting, self._cancelled, self._idle, self._workers = queue.Queue(), set(), 0, 0

    # ------------------------------------------------------------------------------- declaring

    def tool(self, name, description="", parameters=None, toolset=None, repeatable=False):
        """Decorates `function(scope, **arguments)`, which returns a text, or parts as the OpenAI API writes them."""

        def keep(function):
            schema = parameters or {"type": "object", "properties": {}}
            self.tools[name] = Tool(name, description, schema, function, toolset, repeatable)
            return function

        return keep

    def hook(self, event, name=None):
        """Decorates `function(scope, facts)`. What it returns to `pre_tool_call` is why the tool is not to be called."""

        def keep(function):
            self.hooks[(event, name or function.__name__)] = function
            return function

        return keep

    def command(self, name, description=""):
        """Decorates `function(scope, arguments)`, which returns a text."""

        def keep(function):
            self.commands[name] = (description, function)
            return function

        return keep

    # ---------------------------------------------------------------------------- the host's side

    def ask_model(self, prompt, max_tokens=None, seconds=120):
        """The user's summariser reads one message and answers. Only if `model/ask` is among `offers`."""
        if "model/ask" not in self.offers:
            raise Failed("The host offers no model.")
        with self._guard:
            self._number += 1
            number, answer = self._number, queue.Queue()
            self._answers[number] = answer
        params = {"prompt": prompt}
        if max_tokens:
            params["max_tokens"] = max_tokens
        self._send({"id": number, "method": "model/ask", "params": params})
        try:
            message = answer.get(timeout=seconds)
        except queue.Empty:
            raise Failed("The host's model did not answer.") from None
        finally:
            self._answers.pop(number, None)
        if "error" in message:
            raise Failed(message["error"].get("message", "The host's model failed."))
        return message["result"]["text"]

    def log(self, message, level="info"):
        self._send({"method": "log", "params": {"level": level, "message": str(message)}})

    # --------------------------------------------------------------------------------- serving

    def serve(self):
        """Answers until the host says `shutdown` or closes its end."""
        incoming = os.fdopen(os.dup(0), "rb")
        self._outgoing = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)
        sys.stdout = sys.stderr
        while True:
            line = incoming.readline(LINE_MAX + 1)
            if not line or len(line) > LINE_MAX:
                break
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if not isinstance(message, dict):
                continue
            method = message.get("method")
            if method is None:
                waiting = self._answers.get(message.get("id"))
                if waiting:
                    waiting.put(message)
            elif method == "cancel":
                self._cancelled.add((message.get("params") or {}).get("id"))
            elif method in ("initialize", "ping", "shutdown"):
                self._serve(message)
                if method == "shutdown":
                    break
            else:
                with self._guard:
                    if self._idle <= self._waiting.qsize() and self._workers < WORKERS:
                        self._workers += 1
                        threading.Thread(target=self._work, daemon=True).start()
                self._waiting.put(message)
        sys.stderr.flush()
        os._exit(0)

    def _work(self):
        while True:
            with self._guard:
                self._idle += 1
            message = self._waiting.get()
            with self._guard:
                self._idle -= 1
            self._serve(message)

    def _serve(self, message):
        number, answer = message.get("id"), {}
        if number in self._cancelled:
            return self._cancelled.discard(number)
        try:
            params = message.get("params") or {}
            answer["result"] = getattr(self, "_on_" + message["method"].replace("/", "_"), self._unknown)(params) or {}
        except Exception as error:
            if not isinstance(error, Failed):
                traceback.print_exc()
            answer["error"] = {"code": getattr(error, "code", Failed.code), "message": str(error) or type(error).__name__}
        if number is None:
            return
        try:
            self._send({"id": number, **answer})
        except (ValueError, TypeError) as error:
            self._send({"id": number, "error": {"code": Failed.code, "message": f"The answer is not JSON: {error}"}})

    def _send(self, message):
        text = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        line = text.encode("utf-8", "replace") + b"\n"
        if len(line) > LINE_MAX:
            raise ValueError(f"it is longer than {LINE_MAX} bytes")
        with self._guard:
            view = memoryview(line)
            try:
                while view:
                    view = view[self._outgoing.write(view) :]
            except BrokenPipeError:
                pass  # the end of the input says it, too

    def _unknown(self, params):
        raise _NoSuchMethod("There is no such method here.")

    def _on_initialize(self, params):
        self.home, self.directory = params.get("home", ""), params.get("directory", "")
        self.agent, self.offers = params.get("agent", ""), params.get("offers") or []
        self.settings = params.get("settings") or {}
        answer = {"protocol": min(PROTOCOL, params.get("protocol", PROTOCOL)), "name": self.name, "version": self.version}
        for kind, part in (("engine", self.engine), ("provider", self.provider)):
            if part is not None:
                part.plugin = self
                part.start()
                answer[kind] = self._ability(kind, part)
        answer["tools"] = [tool.declared for tool in self.tools.values()]
        answer["hooks"] = [{"event": event, "name": name} for event, name in self.hooks]
        answer["commands"] = [{"name": name, "description": about} for name, (about, _) in self.commands.items()]
        answer["notes"] = self.notes
        return answer

    def _ability(self, kind, part):
        base = Engine if kind == "engine" else Provider
        optional = ("should_compress", "has_content", "status") if kind == "engine" else ("recall", "retain", "before_compression", "memory_written")
        methods = [name for name in optional if _defines(part, base, name)]
        if _defines(part, Scoped, "opened") or _defines(part, Scoped, "closed"):
            methods.append("scope")
        ability = {"name": part.name or self.name, "methods": methods, "tools": [tool.declared for tool in part.tools]}
        if kind == "engine":
            ability["options"] = list(part.options)
        else:
            ability.update(every=part.every, documents=part.documents, prompt=part.prompt)
        return ability

    def _on_ping(self, params):
        return {}

    def _on_shutdown(self, params):
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and (self._idle < self._workers or not self._waiting.empty()):
            time.sleep(0.01)  # what was begun is answered first
        for part in self._parts():
            part.stop()

    def _on_engine_compress(self, params):
        engine = self._the(self.engine)
        options = {name: value for name, value in (params.get("options") or {}).items() if name in engine.options}
        given = engine.compress(params["scope"], params["messages"], params.get("tokens", 0), params.get("window", 0), **options)
        messages, remark = given if isinstance(given, tuple) else (given, None)
        return {"messages": messages, **({"remark": remark} if remark else {})}

    def _on_engine_should_compress(self, params):
        verdict = self._the(self.engine).should_compress(params["scope"], params["usage"], params.get("window", 0))
        return {"compress": bool(verdict)}

    def _on_engine_has_content(self, params):
        return {"has_content": bool(self._the(self.engine).has_content(params["scope"], params["messages"]))}

    def _on_engine_status(self, params):
        return {"text": self._the(self.engine).status(params["scope"]) or ""}

    def _on_provider_recall(self, params):
        return {"text": self._the(self.provider).recall(params["scope"], params["query"]) or ""}

    def _on_provider_retain(self, params):
        self._the(self.provider).retain(params)

    def _on_provider_before_compression(self, params):
        return {"text": self._the(self.provider).before_compression(params["scope"], params["messages"]) or ""}

    def _on_provider_memory_written(self, params):
        self._the(self.provider).memory_written(params)

    def _on_scope_opened(self, params):
        for part in self._parts():
            part.opened(params["scope"])

    def _on_scope_close(self, params):
        told = params.get("part")  # engine and provider hear of an end at different times, each once
        parts = {"engine": [self.engine], "provider": [self.provider]}.get(told, self._parts())
        for part in filter(None, parts):
            part.closed(params["scope"], params.get("reason", ""), params.get("next"), params.get("messages") or [])

    def _on_tool_call(self, params):
        tools = dict(self.tools)
        for part in self._parts():
            tools.update((tool.name, tool) for tool in part.tools)
        if params["name"] not in tools:
            raise Refused(f"There is no tool {params['name']} here.")
        arguments, function = params.get("arguments"), tools[params["name"]].function
        try:
            inspect.signature(function).bind(params["scope"], **arguments)
        except TypeError as error:  # the model's mistake: it is told, and may try again
            return {"content": json.dumps({"error": f"The arguments do not fit: {error}"})}
        return {"content": function(params["scope"], **arguments)}

    def _on_hook_run(self, params):
        function = self.hooks.get((params["event"], params["name"]))
        if function is None:  # `command:*` is any of them
            function = self.hooks.get((params["event"].split(":")[0] + ":*", params["name"]), lambda scope, facts: None)
        block = function(params["scope"], params.get("facts") or {})
        return {"block": str(block)} if block and params["event"] == "pre_tool_call" else {}

    def _on_command_run(self, params):
        return {"text": str(self.commands[params["name"]][1](params["scope"], params.get("arguments", "")) or "")}

    def _parts(self):
        return [part for part in (self.engine, self.provider) if part is not None]

    def _the(self, part):
        return part if part is not None else self._unknown({})


def _defines(part, base, name):
    return getattr(type(part), name) is not getattr(base, name)
