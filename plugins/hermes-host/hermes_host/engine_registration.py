"""Who registered a context engine, and how to have its plugin register another one.

Hermes keeps one engine for all its agents, and gives each of them a copy. An engine with a database or a lock has none
to give. Its plugin's `register` is run once more then, in this process and so in this agent's home; of all that it
registers only the engine is taken, because everything else is there already. That holds, too, for what it puts into
Hermes' plugin manager by itself, past its context: hermes-lcm adds a hook that way, and would be told of each turn once
for every session.

Absent: engines of Hermes' own directory. Hermes makes those anew each time it is asked.
"""

import contextlib
import threading

_contexts = {}
_registering = threading.Lock()


def watch(context_class):
    """Notes each engine with the context that it was registered in. Once is enough; before Hermes finds its plugins."""
    original = context_class.register_context_engine
    if getattr(original, "noted_by_host", False):
        return

    def register_context_engine(context, engine):
        result = original(context, engine)
        _contexts.setdefault(id(engine), (engine, context))  # it lives as long as the process: its number stays its own
        return result

    register_context_engine.noted_by_host = True
    context_class.register_context_engine = register_context_engine


def anew(engine):
    """Another engine of the same plugin; None if the plugin is not known, or registered none."""
    _, context = _contexts.get(id(engine), (None, None))
    register = getattr(_module(context), "register", None)
    if register is None:
        return None
    again = _Once(context)
    with _registering, _unchanged(getattr(context, "_manager", None)):
        register(again)
    return again.engine


@contextlib.contextmanager
def _unchanged(manager):
    """Takes out again what is added to the manager's collections, and to the lists in them, meanwhile."""
    kept = [(each, _copied(each)) for each in vars(manager).values()] if manager is not None else []
    try:
        yield
    finally:
        for each, before in kept:
            _put_back(each, before)


def _copied(collection):
    if isinstance(collection, dict):
        return {name: list(value) if isinstance(value, list) else value for name, value in collection.items()}
    return collection.copy() if isinstance(collection, (list, set)) else None


def _put_back(collection, before):
    if isinstance(collection, dict):
        for name in [name for name in collection if name not in before]:
            del collection[name]
        for name, value in before.items():
            if isinstance(value, list) and isinstance(collection.get(name), list):
                collection[name][:] = value
            else:
                collection[name] = value
    elif isinstance(collection, list):
        collection[:] = before
    elif isinstance(collection, set):
        collection.intersection_update(before)


def _module(context):
    plugins = getattr(getattr(context, "_manager", None), "_plugins", {})
    for plugin in plugins.values():
        if plugin.manifest is context.manifest:
            return plugin.module
    return None


class _Once:
    """The plugin's context as it was, but that nothing is registered a second time."""

    def __init__(self, context):
        self._context = context
        self.engine = None

    def register_context_engine(self, engine):
        self.engine = self.engine or engine

    def __getattr__(self, name):
        found = getattr(self._context, name)
        return _ignored if name.startswith("register_") else found


def _ignored(*arguments, **named):
    return None
