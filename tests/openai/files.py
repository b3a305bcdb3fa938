"""Files by OpenAI's library for Python; prints what the library makes of the answers, as a line of JSON.

Usage: files.py URL KEY
"""

import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key=sys.argv[2], max_retries=0, timeout=60)

file = client.files.create(
    file=("in.jsonl", b"{}\n"), purpose="batch", expires_after={"anchor": "created_at", "seconds": 3600}
)
for number in range(24):
    client.files.create(file=(f"{number}.txt", str(number).encode()), purpose="user_data")
listed = list(client.files.list(limit=10))
oldest = [found.id for found in client.files.list(order="asc", limit=7)]
content = client.files.content(file.id).text
assert client.files.retrieve(file.id) == file
batches = [found.id for found in client.files.list(purpose="batch")]
deleted = client.files.delete(file.id).deleted
try:
    client.files.retrieve(file.id)
except openai.NotFoundError as error:
    missing = error.status_code
try:
    client.files.create(file=b"x", purpose="nothing")
except openai.BadRequestError as error:
    param = error.param
print(json.dumps({
    "id": file.id, "purpose": file.purpose, "filename": file.filename, "bytes": file.bytes, "status": file.status,
    "kept": file.expires_at - file.created_at, "content": content, "listed": len(listed),
    "ascending": oldest == [found.id for found in reversed(listed)], "batches": len(batches),
    "deleted": deleted, "missing": missing, "param": param,
}))
