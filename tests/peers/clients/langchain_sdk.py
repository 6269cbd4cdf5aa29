"""LangChain streams a turn in which the agent uses its tools, and runs a tool of its own."""

from functools import reduce

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI


@tool
def weather(city: str) -> str:
    """How the weather is."""
    return "sunny"


def streamed(model, messages):
    return reduce(lambda one, other: one + other, model.stream(messages))


model = ChatOpenAI(model="m", max_retries=0, timeout=30)
said = streamed(model, [HumanMessage("files?")])
assert said.text.endswith("There is one file."), said
model = model.bind_tools([weather])
messages = [HumanMessage("weather?")]
said = streamed(model, messages)
assert [call["args"] for call in said.tool_calls] == [{"city": "Graz"}], said
call = said.tool_calls[0]
messages += [said, ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"])]
said = streamed(model, messages)
assert said.text == "It is sunny in Graz.", said
