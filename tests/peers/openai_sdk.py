"""The official OpenAI SDK holds conversations with a gateway that is killed and restarted meanwhile.

Speaks to the test that started it, a line at a time: `kill` and `stop` ask for a restart (after
`kill -9`, after a clean stop) and wait until it is done; `cut TEXT` announces a message, and the
gateway is killed and restarted once its model has been asked about it. Everything that is checked is
checked here with plain assertions; the exit code is the verdict.
"""

import json
import os
import sys
import urllib.request

from openai import NotFoundError, OpenAI, UnprocessableEntityError

# Restarts take milliseconds; the SDK's own pauses between its tries are what takes time.
client = OpenAI(max_retries=5, timeout=30)
once = client.with_options(max_retries=0)
MODEL = "rehearsal"
SESSION = "X-Hermes-Session-Id"


# ---------------------------------------------------------------------------------------- helpers


def ask(line):
    print(line, flush=True)
    assert sys.stdin.readline() == "done\n"


def announce(text):
    print(f"cut {text}", flush=True)
    return text


def api(path):
    url = os.environ["OPENAI_BASE_URL"].removesuffix("/v1") + path
    request = urllib.request.Request(url, headers={"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def transcript(session):
    return [(row["role"], row["content"]) for row in api(f"/api/sessions/{session}/messages")["data"]]


def echo(text):
    """What the rehearsal model says to a message."""
    return f"This is the rehearsal model: it answers offline, and only repeats what it heard. You said: “{text}”"


def told(*texts):
    """A transcript in which each of these was said and answered, once and in order."""
    return [row for text in texts for row in (("user", text), ("assistant", echo(text)))]


def same(found, expected):
    assert found == expected, f"found {found!r}, expected {expected!r}"


def plain(messages, using=client, **named):
    """A completion, and the session it was given in."""
    raw = using.chat.completions.with_raw_response.create(model=MODEL, messages=messages, **named)
    completion = raw.parse()
    choice = completion.choices[0]
    same(choice.finish_reason, "stop")
    assert completion.usage.prompt_tokens > 0 and completion.id.startswith("chatcmpl-")
    return choice.message.content, raw.headers[SESSION], raw


def streamed(messages, using=client, **named):
    text = ""
    finish = None
    with using.chat.completions.create(model=MODEL, messages=messages, stream=True, **named) as stream:
        session = stream.response.headers[SESSION]
        for chunk in stream:
            for choice in chunk.choices:
                text += choice.delta.content or ""
                finish = choice.finish_reason or finish
    same(finish, "stop")
    return text, session


def breaks_off(stream):
    try:
        stream()
    except AssertionError:
        raise
    except Exception as error:  # each transport below the SDK has a name of its own for it
        print(f"broke off: {type(error).__name__}: {error}", flush=True)
        return True
    return False


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


# ------------------------------------------------------------------------------------ conversations


def a_named_session_goes_on_through_restarts():
    named = {"extra_headers": {SESSION: "sdk-named"}}
    same(plain([user("one")], **named)[:2], (echo("one"), "sdk-named"))
    ask("kill")
    same(streamed([user("two")], **named), (echo("two"), "sdk-named"))
    ask("stop")
    same(plain([user("three")], **named)[:2], (echo("three"), "sdk-named"))
    same(transcript("sdk-named"), told("one", "two", "three"))


def a_client_that_keeps_the_history_itself_stays_in_one_session():
    history = [{"role": "system", "content": "Be brief."}]
    sessions = set()
    for nth, (text, restart) in enumerate([("a", "kill"), ("b", None), ("c", "stop"), ("d", "kill"), ("e", None)]):
        history.append(user(text))
        speak = plain if nth % 2 else streamed
        answer, session = speak(history)[:2]
        same(answer, echo(text))
        history.append(assistant(answer))
        sessions.add(session)
        if restart:
            ask(restart)
    same(len(sessions), 1)
    same(transcript(sessions.pop()), told("a", "b", "c", "d", "e"))


def an_older_point_of_a_history_is_another_session():
    history = [user("fork root")]
    answer, trunk, _ = plain(history)
    history += [assistant(answer), user("fork left")]
    same(plain(history)[1], trunk)
    ask("kill")
    history[-1] = user("fork right")
    answer, branch, _ = plain(history)
    assert branch != trunk
    same(transcript(trunk), told("fork root", "fork left"))
    same(transcript(branch), told("fork root", "fork right"))


def two_who_say_the_same_do_not_share():
    one, other = plain([user("hello there")], user="ada"), plain([user("hello there")], user="bob")
    assert one[1] != other[1]
    history = [user("hello there"), assistant(one[0])]
    same(plain(history + [user("it is ada")], user="ada")[1], one[1])
    same(plain(history + [user("it is bob")], user="bob")[1], other[1])
    same(transcript(other[1]), told("hello there", "it is bob"))


# ----------------------------------------------------------------------------------------- retries


def the_sdks_own_retry_does_not_double_a_message():
    """Cut in the middle of a plain request: the SDK sends it again by itself, without any key."""
    text = announce("retried slowly, without a session")
    answer, session, raw = plain([user(text)])
    same(answer, echo(text))
    assert raw.retries_taken >= 1, "the request was not cut"
    same(transcript(session), told(text))

    text = announce("retried slowly, in a session")
    answer, session, raw = plain([user(text)], extra_headers={SESSION: "sdk-retried"})
    same((answer, session), (echo(text), "sdk-retried"))
    assert raw.retries_taken >= 1, "the request was not cut"
    same(transcript("sdk-retried"), told(text))

    history = [user("before"), assistant(plain([user("before")])[0])]
    text = announce("retried slowly, with a history")
    answer, session, raw = plain(history + [user(text)])
    assert raw.retries_taken >= 1, "the request was not cut"
    same(transcript(session), told("before", text))


def a_stream_that_was_cut_is_asked_for_again():
    """The SDK does not repeat a stream that had begun: its caller does."""
    for name, headers in (
        ("sdk-cut", {SESSION: "sdk-cut"}),
        ("sdk-cut-key", {SESSION: "sdk-cut-key", "Idempotency-Key": "cut-1"}),
        (None, {"Idempotency-Key": "cut-2"}),
    ):
        text = announce(f"streamed slowly: {name}.")  # none of them is part of another
        assert breaks_off(lambda: streamed([user(text)], using=once, extra_headers=headers)), "the stream was not cut"
        answer, session = streamed([user(text)], extra_headers=headers)
        same(answer, echo(text))
        assert name in (None, session)
        same(transcript(session), told(text))


def a_replay_with_a_key_is_identical():
    headers = {"Idempotency-Key": "replayed-1"}
    first = plain([user("only once")], extra_headers=headers)
    again = plain([user("only once")], extra_headers=headers)
    ask("kill")
    after = plain([user("only once")], extra_headers=headers)
    for other in (again, after):
        same(other[2].content, first[2].content)
        same(other[2].headers["x-request-id"], first[2].headers["x-request-id"])
    same(transcript(first[1]), told("only once"))
    try:
        plain([user("something else")], extra_headers=headers)
        raise AssertionError("a key was used for two requests")
    except UnprocessableEntityError as error:
        assert "idempotency key" in error.message, error.message

    response = once.responses.with_raw_response.create(model=MODEL, input="respond once", extra_headers={"Idempotency-Key": "r"})
    ask("kill")
    again = once.responses.with_raw_response.create(model=MODEL, input="respond once", extra_headers={"Idempotency-Key": "r"})
    same(again.content, response.content)


def the_same_words_again_are_a_new_message():
    """An answer that arrived is no reason to swallow a second "yes"."""
    named = {"extra_headers": {SESSION: "sdk-yes"}}
    plain([user("yes")], **named)
    plain([user("yes")], **named)
    same(transcript("sdk-yes"), told("yes", "yes"))


# --------------------------------------------------------------------------------------- responses


def responses_go_on_and_branch():
    first = client.responses.create(model=MODEL, input="response one", instructions="Be brief.")
    same((first.status, first.output_text), ("completed", echo("response one")))
    ask("kill")
    text = ""
    with client.responses.stream(model=MODEL, input="response two", previous_response_id=first.id) as stream:
        for event in stream:
            if event.type == "response.output_text.delta":
                text += event.delta
        second = stream.get_final_response()
    same((text, second.output_text), (echo("response two"), echo("response two")))
    same(second.previous_response_id, first.id)
    ask("stop")

    raw = client.responses.with_raw_response.create(model=MODEL, input="response three", previous_response_id=second.id)
    trunk, third = raw.headers[SESSION], raw.parse()
    same(transcript(trunk), told("response one", "response two", "response three"))

    raw = client.responses.with_raw_response.create(model=MODEL, input="response other", previous_response_id=first.id)
    branch = raw.headers[SESSION]
    assert branch != trunk
    same(transcript(branch), told("response one", "response other"))
    same(transcript(trunk), told("response one", "response two", "response three"))
    same(client.responses.retrieve(third.id).output_text, echo("response three"))

    text = announce("response slowly cut")
    raw = client.responses.with_raw_response.create(model=MODEL, input=text, previous_response_id=third.id)
    assert raw.retries_taken >= 1, "the request was not cut"
    same((raw.parse().output_text, raw.headers[SESSION]), (echo(text), trunk))
    same(transcript(trunk), told("response one", "response two", "response three", text))
    try:
        client.responses.create(model=MODEL, input="lost", previous_response_id="resp_of_somebody_else")
        raise AssertionError("a response that was never given was continued")
    except NotFoundError as error:
        assert "resp_of_somebody_else" in error.message


def models_are_listed():
    assert MODEL in [model.id for model in client.models.list()]


STORY = [
    models_are_listed,
    a_named_session_goes_on_through_restarts,
    a_client_that_keeps_the_history_itself_stays_in_one_session,
    an_older_point_of_a_history_is_another_session,
    two_who_say_the_same_do_not_share,
    the_sdks_own_retry_does_not_double_a_message,
    a_stream_that_was_cut_is_asked_for_again,
    a_replay_with_a_key_is_identical,
    the_same_words_again_are_a_new_message,
    responses_go_on_and_branch,
]

for chapter in STORY:
    print(f"now {chapter.__name__}", flush=True)
    chapter()
