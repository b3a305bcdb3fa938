"""One request by OpenAI's library for Python; prints what the library makes of the answer, as JSON lines.

Usage: client.py URL KEY REQUEST, a JSON object: do ("create", "stream", "cancel", "parse", "parse_stream",
"models", "retrieve"), body, headers, retries. A line "sent" comes first, and "piece" with each piece of a stream.
"""

import json
import sys

import openai
from pydantic import BaseModel

url, key, request = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])


class Person(BaseModel):
    name: str
    age: int


def tell(**what):
    print(json.dumps(what), flush=True)


def usage(found):
    return found and [found.prompt_tokens, found.completion_tokens, found.total_tokens]


def run(client):
    if request["do"] == "models":
        return tell(models=[model.id for model in client.models.list()])
    if request["do"] == "retrieve":
        return tell(model=client.models.retrieve(request["model"]).id)
    body, headers = request.get("body", {}), request.get("headers", {})
    known = ("messages", "model", "stream", "stream_options", "max_tokens", "temperature", "metadata", "user", "n", "tools")
    extra = {name: value for name, value in body.items() if name not in known}
    body = {name: value for name, value in body.items() if name in known}
    body.setdefault("model", "m")
    tell(sent=True)
    if request["do"] == "parse":
        answer = client.chat.completions.parse(**body, extra_body=extra, response_format=Person)
        return tell(parsed=answer.choices[0].message.parsed.model_dump())
    if request["do"] == "parse_stream":
        with client.chat.completions.stream(**body, extra_body=extra, response_format=Person) as stream:
            for event in stream:
                if event.type == "content.delta" and event.delta:
                    tell(piece=event.delta)
            answer = stream.get_final_completion()
        return tell(parsed=answer.choices[0].message.parsed.model_dump())
    if request["do"] == "create":
        answer = client.chat.completions.create(**body, extra_body=extra, extra_headers=headers)
        [choice] = answer.choices
        return tell(
            id=answer.id, object=answer.object, model=answer.model, role=choice.message.role,
            content=choice.message.content, finish=choice.finish_reason, usage=usage(answer.usage),
        )
    last, text = None, ""
    with client.chat.completions.create(**body, stream=True, extra_body=extra, extra_headers=headers) as stream:
        for chunk in stream:
            if not chunk.choices:
                return tell(id=chunk.id, text=text, finish=last, usage=usage(chunk.usage))
            [choice] = chunk.choices
            last = choice.finish_reason
            if choice.delta.content:
                text += choice.delta.content
                tell(id=chunk.id, piece=choice.delta.content)
                if request["do"] == "cancel":
                    return
    tell(id=chunk.id, text=text, finish=last, usage=None)


client = openai.OpenAI(base_url=url + "/v1", api_key=key, max_retries=request.get("retries", 2), timeout=60)
try:
    run(client)
except openai.APIStatusError as error:
    body = error.body or {}
    tell(
        error=type(error).__name__, status=error.status_code, code=error.code, param=error.param, type=error.type,
        task=body.get("taskId"), location=error.response.headers.get("location"),
    )
except openai.APIError as error:
    body = error.body or {}
    tell(error=type(error).__name__, code=body.get("code"), task=body.get("taskId"))
