"""pydantic-ai streams a turn in which the agent uses its tools, runs a tool of its own, and gets a structured output."""

import asyncio

from pydantic import BaseModel
from pydantic_ai import Agent


class Place(BaseModel):
    city: str


async def main():
    async with Agent("openai-chat:m").run_stream("files?") as result:
        text = await result.get_output()
    assert text.endswith("There is one file."), text
    agent = Agent("openai-chat:m")
    asked = []

    @agent.tool_plain
    def weather(city: str) -> str:
        asked.append(city)
        return "sunny"

    result = await agent.run("weather?")
    assert result.output == "It is sunny in Graz." and asked == ["Graz"], (result, asked)
    placed = await Agent("openai-chat:m", output_type=Place).run("structured?")
    assert placed.output == Place(city="Graz"), placed


asyncio.run(main())
