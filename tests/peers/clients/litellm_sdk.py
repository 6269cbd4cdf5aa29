"""litellm streams a turn in which the agent uses its tools, and runs a tool of its own; it knows a wrong key for one."""

import os

import litellm

litellm.suppress_debug_info = True
how = {"model": "openai/m", "api_base": os.environ["OPENAI_BASE_URL"], "api_key": os.environ["OPENAI_API_KEY"]}


def chat(messages, **more):
    chunks = list(litellm.completion(messages=messages, stream=True, **how, **more))
    return litellm.stream_chunk_builder(chunks, messages=messages).choices[0]


choice = chat([{"role": "user", "content": "files?"}])
assert choice.message.content.endswith("There is one file."), choice
function = {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
tools = [{"type": "function", "function": function}]
messages = [{"role": "user", "content": "weather?"}]
choice = chat(messages, tools=tools, tool_choice="auto")
assert choice.finish_reason == "tool_calls", choice
call = choice.message.tool_calls[0]
messages += [choice.message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
choice = chat(messages, tools=tools)
assert choice.message.content == "It is sunny in Graz.", choice
try:
    litellm.completion(messages=[{"role": "user", "content": "hi"}], **{**how, "api_key": "wrong"})
    raise SystemExit("a wrong key was accepted")
except litellm.AuthenticationError:
    pass
