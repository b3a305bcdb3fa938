"""Asks once, then once more with the answer in pieces: python chat.py "a question"."""

import os
import sys
import uuid

from openai import OpenAI

client = OpenAI(
    base_url=os.environ["CALLBOARD_URL"] + "/v1",
    api_key=os.environ["CALLBOARD_API_KEY"],
    timeout=600,
)
messages = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": sys.argv[1]},
]

# With the key, a request that is repeated gets the same task.
once = {"Idempotency-Key": str(uuid.uuid4()), "X-Callboard-Priority": "7"}
answer = client.chat.completions.create(
    model="smollm2-135m", messages=messages, metadata={"team": "docs"}, extra_headers=once
)
print(answer.id, answer.choices[0].message.content)

messages += [
    {"role": "assistant", "content": answer.choices[0].message.content},
    {"role": "user", "content": "Why?"},
]
stream = client.chat.completions.create(
    model="smollm2-135m",
    messages=messages,
    stream=True,
    stream_options={"include_usage": True},
)
for chunk in stream:
    for choice in chunk.choices:
        print(choice.delta.content or "", end="", flush=True)
    if chunk.usage:
        print(f"\n{chunk.usage.total_tokens} tokens")
