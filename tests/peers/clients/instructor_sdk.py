"""instructor extracts a structure by a tool that it names, whole and piece by piece."""

import instructor
from openai import OpenAI
from pydantic import BaseModel


class Person(BaseModel):
    name: str
    age: int


client = instructor.from_openai(OpenAI(max_retries=0, timeout=30))
asked = {"model": "m", "messages": [{"role": "user", "content": "Ada is 36."}], "response_model": Person}
person = client.chat.completions.create(**asked, max_retries=0)
assert (person.name, person.age) == ("Ada", 36), person
asked["messages"] = [{"role": "user", "content": "Ada is 36, piece by piece."}]
*_, last = client.chat.completions.create_partial(**asked)  # by a tool that it calls PartialPerson
assert (last.name, last.age) == ("Ada", 36), last
