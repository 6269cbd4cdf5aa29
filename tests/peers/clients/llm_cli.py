"""`llm` streams a turn in which the agent uses its tools, and runs a tool of its own."""

import os

import llm
from llm.default_plugins.openai_models import Chat

model = Chat(
    model_id="gateway",
    model_name="m",
    api_base=os.environ["OPENAI_BASE_URL"],
    supports_tools=True,
)
model.key = os.environ["OPENAI_API_KEY"]

text = "".join(model.prompt("files?", stream=True))
assert text.endswith("There is one file."), text


def weather(city: str) -> str:
    """How the weather is."""
    asked.append(city)
    return "sunny"


asked = []
text = "".join(model.chain("weather?", tools=[weather]))
assert text.endswith("It is sunny in Graz.") and asked == ["Graz"], (text, asked)
