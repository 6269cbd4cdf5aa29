"""What every part needs to know of Hermes: where it lives, and how to call it at any version.

The home is set before Hermes is imported, since some of its modules read it as they load. Signatures decide which
arguments are given; nothing here asks for a version.
"""

import inspect
import logging
import os
import sys


def prepare(home):
    """Sets the home, and reads its `.env` as Hermes does. Nothing of Hermes may be imported before."""
    os.environ["HERMES_HOME"] = home
    try:
        import hermes_constants  # noqa: F401
    except ImportError:
        return (
            f"Hermes is not installed in the environment of {sys.executable}: start the host with the Python of "
            "the environment that Hermes is installed in."
        )
    try:
        from hermes_cli.env_loader import load_hermes_dotenv

        call(load_hermes_dotenv, hermes_home=home)
    except Exception as error:
        logging.getLogger("hermes_host").warning("%s/.env could not be read: %s", home, error)
    return None


def version():
    try:
        from importlib.metadata import version as installed

        return installed("hermes-agent")
    except Exception:
        return ""


def configuration():
    """The home's configuration with Hermes' defaults; empty where it cannot be read."""
    try:
        from hermes_cli.config import load_config

        return load_config() or {}
    except Exception as error:
        logging.getLogger("hermes_host").warning("config.yaml could not be read: %s", error)
        return {}


def section(config, *names):
    """A part of the configuration, or an empty one."""
    for name in names:
        config = config.get(name) if isinstance(config, dict) else None
    return config if isinstance(config, dict) else {}


def accepts(function):
    """(the names it takes, whether it takes any other). An opaque function takes nothing that is optional."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return frozenset(), False
    named = frozenset(
        each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    )
    return named, any(each.kind is each.VAR_KEYWORD for each in parameters)


def call(function, *arguments, **optional):
    """Calls with those of the optional arguments that the function takes."""
    named, anything = accepts(function)
    return function(*arguments, **{name: value for name, value in optional.items() if anything or name in named})


def overrides(instance, base, name):
    """Whether a class does more there than Hermes' base class."""
    mine = getattr(type(instance), name, None)
    return mine is not None and mine is not getattr(base, name, None)


def tools_of(schemas, toolset, native=()):
    """Hermes' tool schemas in the protocol's words. Wrapped or bare; what has no name is left out."""
    found = []
    for schema in schemas or []:
        if isinstance(schema, dict) and isinstance(schema.get("function"), dict):
            schema = schema["function"]
        name = schema.get("name") if isinstance(schema, dict) else None
        if not isinstance(name, str) or not name or name in native:
            continue
        found.append(
            {
                "name": name,
                "description": schema.get("description") or "",
                "parameters": schema.get("parameters") or {"type": "object", "properties": {}},
                "toolset": toolset,
            }
        )
    return found
