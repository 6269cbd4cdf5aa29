"""The OpenAI SDK for Python streams turns in which the agent uses its tools, and runs tools of its own, on both APIs."""

from openai import AuthenticationError, BadRequestError, OpenAI

client = OpenAI(max_retries=0, timeout=30)
TOOL = {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}


def chat(messages, **more):
    text, calls, finish = "", {}, None
    for chunk in client.chat.completions.create(model="m", messages=messages, stream=True, **more):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            for piece in choice.delta.tool_calls or []:
                call = calls.setdefault(piece.index, {"id": piece.id, "name": piece.function.name, "arguments": ""})
                call["arguments"] += piece.function.arguments
            finish = choice.finish_reason or finish
    return text, list(calls.values()), finish


text, calls, finish = chat([{"role": "user", "content": "files?"}])
assert text.endswith("There is one file.") and not calls and finish == "stop", (text, calls, finish)

tools = [{"type": "function", "function": TOOL}]
for words in ["weather?", "files and weather?"]:
    messages = [{"role": "user", "content": words}]
    text, calls, finish = chat(messages, tools=tools)
    assert finish == "tool_calls" and [call["name"] for call in calls] == ["weather"], (text, calls, finish)
    call = calls[0]
    function = {"name": call["name"], "arguments": call["arguments"]}
    said = {"role": "assistant", "content": text or None, "tool_calls": [{"id": call["id"], "type": "function", "function": function}]}
    messages += [said, {"role": "tool", "tool_call_id": call["id"], "content": "sunny"}]
    text, calls, finish = chat(messages, tools=tools)
    assert text == "It is sunny in Graz." and finish == "stop", (text, calls, finish)

whole = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "weather?"}], tools=tools)
assert whole.choices[0].finish_reason == "tool_calls" and whole.choices[0].message.content is None, whole

with client.responses.stream(model="m", input="files?") as stream:
    for _ in stream:
        pass
    assert stream.get_final_response().output_text == "There is one file.", stream.get_final_response()
tools = [{"type": "function", "strict": False, **TOOL}]
with client.responses.stream(model="m", input="weather?", tools=tools) as stream:
    for _ in stream:
        pass
    response = stream.get_final_response()
call = response.output[0]
assert (call.type, call.name, call.arguments) == ("function_call", "weather", '{"city":"Graz"}'), call
output = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
after = client.responses.create(model="m", input=[output], previous_response_id=response.id, tools=tools)
assert after.output_text == "It is sunny in Graz.", after
forgotten = client.responses.create(model="m", input="hi", store=False)
assert forgotten.store is False and forgotten.status == "completed", forgotten

for more in [{"n": 2}, {"logprobs": True}, {"extra_body": {"frobnicate": 1}}]:
    try:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}], **more)
        raise SystemExit(f"{more} was accepted")
    except BadRequestError as error:
        assert error.param and error.code, error
try:
    client.with_options(api_key="wrong").models.list()
    raise SystemExit("a wrong key was accepted")
except AuthenticationError as error:
    assert error.code == "invalid_api_key", error
