"""Hands one turn to a provider, and answers only when it is kept.

Hermes' contract lets `sync_turn` return at once and work in the background, and its providers tell of a failure in
their log alone. Here a turn is kept when all of this holds: `sync_turn` returned, all that it started has come to
rest (`thread_owners.settle`), and nothing of that logged a failure (`thread_owners.heard`) that was not made good afterwards.
Otherwise the host is told that it may have been kept, or, where the provider cannot have heard it, that it was not. A provider
that has switched itself off, because its server was away when it began, keeps nothing and says nothing: it is known by
what it holds (`asleep`), and is made anew.

What goes wrong with the bundled Hindsight provider under Hermes, and why it does not here:

- *It sends everything again on a switch or a compression*: `on_session_switch` flushes all of `_session_turns`, sent
  or not, and appends. `OneDocumentEach` empties that list around every turn, so that there is nothing to flush; and
  compression is not told to providers as a switch at all, because the session's id does not change.
- *It loses what it buffered when it is shut down* (`retain_every_n_turns` > 1): every turn is sent when it comes.
  Which turns wait, and for how long, is the host's business, and survives a crash there.
- *It counts a turn as sent when it is queued*: the turn is counted in the ledger, after the queue is empty and the
  writer rests without having complained.
- *It appends, and an append that is repeated stands twice*: each turn is a document of its own, named by the
  retention's key and replaced when it is sent again; so a retry is harmless after every outcome of the first try, and the
  gateway's own Hindsight provider, which names documents likewise, goes on where this one stopped.
- *The server's "accepted" is not "kept"* (`retain_async`): it is asked to answer afterwards.

A crash, at each point (the ledger is `ledger.Ledger`):

1. before `begun`: the provider has seen nothing. The retry sends it: once.
2. after `begun`, before, while or after the provider sends: unknown. The retry finds `begun`. With one document
   each it is sent again under the same name: once. With any other provider it is sent again as well, and may stand
   twice there: none of them lets itself be asked whether it has a turn. After a few tries it is set aside for a person
   to see. A user who would rather lose one than have it twice sets `unsure` to `leave`.
   The same holds for a provider with a thread that never rests: a session's first turn is in doubt, and is sent
   again; then that thread is known.
3. after `done`, before the answer: the retry finds `done` and sends nothing: once.

Nothing here edits a provider: attributes of the one instance are set, by the names that were found on it, and
where a name is missing the provider is treated like any other.
"""

import contextlib

from . import thread_owners
from .hermes import call
from .json_rpc import FAILED, MAYBE_DONE, REFUSED, Failure

_UNHEARD = ("connection refused", "cannot connect", "connect call failed", "name or service not known", "no module named")

# A turn that may have been kept this often is not sent again: more would be as many copies.
_TRIES_MAX = 3


class Asleep(Failure):
    """The instance keeps nothing, and will not: it has to be made anew."""


class OneDocumentEach:
    """For providers built like Hermes' Hindsight: one document per turn, replaced rather than appended to."""

    names = ("_session_turns", "_document_id", "_retain_queue", "_resolve_retain_target", "_retain_every_n_turns")

    @classmethod
    def fits(cls, provider):
        return all(hasattr(provider, name) for name in cls.names)

    @classmethod
    @contextlib.contextmanager
    def around(cls, provider, retain):
        key = retain["key"]
        cls._empty(provider, turns=max(0, int(retain.get("index") or 1) - 1))
        provider._retain_every_n_turns = 1
        provider._retain_async = False
        provider._document_id = key
        provider._resolve_retain_target = lambda fallback: (key, None)
        try:
            yield
        finally:
            # Kept or not, it is the host's again: a buffer that is empty cannot be flushed a second time.
            cls._empty(provider, turns=0)

    @staticmethod
    def _empty(provider, turns):
        provider._session_turns = []
        provider._turn_counter = turns
        if hasattr(provider, "_last_retained_turn_count"):
            provider._last_retained_turn_count = 0


class AsItIs:
    """For every other provider."""

    @classmethod
    @contextlib.contextmanager
    def around(cls, provider, retain):
        yield


def manner(provider):
    return OneDocumentEach if OneDocumentEach.fits(provider) else AsItIs


def keep(entry, retain, ledger, settings, log):
    """Answers when the turn is kept; raises what the host is to make of it otherwise."""
    key = retain["key"]
    said = "\n\n".join(text for text in retain.get("said") or [] if text.strip())
    replied = retain.get("replied") or ""
    with entry.writing:
        provider = entry.live()
        how = manner(provider)
        state = ledger.state(key)
        if state == "done":
            return
        if not said.strip() or not replied.strip():
            ledger.finish(key)  # Hermes keeps no turn that lacks a side
            return
        if (state == "begun" or retain.get("tried")) and how is AsItIs:
            if settings.get("unsure") == "leave":
                log("warning", f"Turn {key} may or may not have been kept; it is not sent again.")
                ledger.finish(key)
                return
            log("warning", f"Turn {key} may have been kept already; it is sent again.")
        if how is AsItIs and ledger.tries(key) >= _TRIES_MAX:
            ledger.forget(key)  # a caller that tries again all the same, may
            raise Failure(
                f"The turn was handed over {_TRIES_MAX} times, and the provider complained each time. It may stand there "
                "several times or not at all, so it is not sent again.",
                REFUSED,
            )
        ledger.begin(key)
        try:
            _hand_over(entry, how, provider, retain, said, replied, float(settings.get("retain_seconds") or 110))
        except Failure as failure:
            if failure.code == FAILED:
                ledger.unheard(key)
            raise
        ledger.finish(key)


def _hand_over(entry, how, provider, retain, said, replied, seconds):
    with thread_owners.heard(entry.token, apart_from=("recall", "tool")) as failures, how.around(provider, retain):
        try:
            with thread_owners.acting(entry.token, "retain"):
                # Some drop a turn that comes before they are ready. What is not ready by then is not getting ready.
                if not thread_owners.settle(entry.token, min(seconds, 20), deeds=("initialize",)):
                    thread_owners.tolerate(entry.token, deeds=("initialize",), holder=provider)
                slept = how is AsItIs and asleep(provider)
                if slept and not slept.may_wake:
                    raise Asleep(f"The turn was not kept: {slept.why}.", FAILED)
                call(
                    provider.sync_turn,
                    said,
                    replied,
                    session_id=entry.session,
                    messages=[{"role": "user", "content": said}, {"role": "assistant", "content": replied}],
                )
        except Asleep:
            raise
        except Exception as error:
            raise Failure(f"The turn was not kept: {type(error).__name__}: {error}", _code([str(error)])) from error
        rests = thread_owners.settle(entry.token, seconds, deeds=("retain", "initialize"), holder=provider)
    if failures:
        raise Failure(f"The turn was not kept: {failures[0]}", _code(failures))
    if not rests:
        thread_owners.tolerate(entry.token, deeds=("retain", "initialize"), holder=provider)
        raise Failure(f"After {seconds:.0f} s it was still being kept.", MAYBE_DONE)
    if slept and asleep(provider):
        raise Asleep(f"The turn was not kept: {slept.why}.", FAILED)


class _Sleep:
    def __init__(self, why, may_wake):
        self.why = why
        self.may_wake = may_wake


def asleep(provider):
    """Why a provider takes turns and does nothing with them, by what Hermes' own ones hold then; or None."""
    if getattr(provider, "_active", None) is False:
        return _Sleep("the provider has switched itself off when it began", may_wake=False)
    is_ready = getattr(provider, "_session_ready", None)
    if callable(is_ready) and getattr(provider, "_recall_mode", "") != "tools" and not is_ready():
        return _Sleep("the provider has no session at its server", may_wake=False)
    if getattr(provider, "_client", provider) is None:
        # Some make it when they first need it.
        return _Sleep("the provider has no connection to its server", may_wake=True)
    return None


def _code(failures):
    unheard = all(any(sign in failure.lower() for sign in _UNHEARD) for failure in failures)
    return FAILED if unheard else MAYBE_DONE
