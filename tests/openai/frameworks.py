"""Requests by frameworks around OpenAI's library; prints what they make of the answers, as JSON lines.

Usage: frameworks.py URL KEY WHAT ("instructor", "instructor-json", "instructor-tools", "langchain",
"langchain-stream").
"""

import json
import sys

import instructor
import openai
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, field_validator

url, key, what = sys.argv[1:]
url += "/v1"


class Person(BaseModel):
    name: str
    age: int

    @field_validator("age")
    @classmethod
    def is_alive(cls, age):
        assert age < 150, "nobody is so old"
        return age


def tell(**what):
    print(json.dumps(what), flush=True)


if what.startswith("instructor"):
    modes = {"instructor": instructor.Mode.JSON_SCHEMA, "instructor-json": instructor.Mode.JSON}
    mode = modes.get(what, instructor.Mode.TOOLS)
    client = instructor.from_openai(openai.OpenAI(base_url=url, api_key=key), mode=mode)
    messages = [{"role": "user", "content": "Who?", "name": "ann"}]
    try:
        person = client.chat.completions.create(
            model="m", messages=messages, response_model=Person, max_retries=2, seed=7
        )
        tell(parsed=person.model_dump())
    except Exception as error:
        tell(error=str(error))
else:
    chat = ChatOpenAI(model="m", base_url=url, api_key=key, temperature=0, seed=7, top_p=0.5, stop=["END"])
    if what == "langchain":
        tell(parsed=chat.with_structured_output(Person).invoke("Who?").model_dump())
    else:
        for piece in chat.stream("Who?"):
            if piece.content:
                tell(piece=piece.content)
