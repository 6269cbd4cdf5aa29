"""Hermes' own Python plugins, unmodified, under a host that speaks the plugin protocol.

Runs in the user's Hermes environment and needs nothing but it and the standard library. One process serves
one agent; what it carries is chosen by `initialize.settings`:

    engine    the name of a context engine: `compressor`, one of Hermes' directory, or one that a plugin registers
    provider  the name of a memory provider, bundled or in the home
    tools     a list of toolsets, or true for all of them; `native` names those the host has itself, and `approvals`
              is `host` if it asks people for consent before it calls
    hooks     true: `hooks/<name>/HOOK.yaml` with `handler.py`
    plugins   true: general plugins, as the home's configuration enables them

Absent on purpose: a version test. What Hermes can do is read from its signatures, so that one that is not
known yet works as well. Nothing here writes to the home or to Hermes' installation; what is kept beside a call
lies in `initialize.directory`.
"""
