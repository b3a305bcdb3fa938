"""Batches by OpenAI's library for Python; prints what the library makes of the answers, as a line of JSON.

Usage: batch.py URL KEY
"""

import json
import sys
import time

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key=sys.argv[2], max_retries=0, timeout=60)


def begin(lines, **more):
    file = client.files.create(file=("in.jsonl", "\n".join(lines).encode()), purpose="batch")
    return client.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", **more
    )


def line(number, prompt, model="m"):
    body = {"model": model, "messages": [{"role": "user", "content": prompt}]}
    return json.dumps(
        {"custom_id": f"r-{number}", "method": "POST", "url": "/v1/chat/completions", "body": body}
    )


def ended(batch):
    while batch.status not in ("completed", "failed", "expired", "cancelled"):
        time.sleep(0.2)
        batch = client.batches.retrieve(batch.id)
    return batch


def answers(file):
    return [json.loads(line) for line in client.files.content(file).text.splitlines()]


texts = ["hello", "again", "fail"]
done = ended(begin([line(at, text) for at, text in enumerate(texts)], metadata={"team": "a"}))
outputs = {
    answer["custom_id"]: answer["response"]["body"]["choices"][0]["message"]["content"]
    for answer in answers(done.output_file_id)
}
errors = {
    answer["custom_id"]: answer["response"]["body"]["error"]["code"] for answer in answers(done.error_file_id)
}
faulty = ended(begin([line(0, "x"), "not JSON"]))
# Nobody runs the model, so the task waits.
waiting = begin([line(0, "x", "nobody-s-model")])
stopped = ended(client.batches.cancel(waiting.id))
others = [ended(begin([line(0, "x")])) for _ in range(2)]
listed = [batch.id for batch in client.batches.list(limit=2)]
try:
    client.batches.cancel(done.id)
except openai.ConflictError as error:
    conflict = error.code
print(json.dumps({
    "status": done.status,
    "counts": [done.request_counts.total, done.request_counts.completed, done.request_counts.failed],
    "window": done.completion_window, "metadata": done.metadata, "outputs": outputs, "errors": errors,
    "faults": [[fault.code, fault.line] for fault in faulty.errors.data],
    "cancelled": [stopped.status, answers(stopped.error_file_id)[0]["error"]["code"]],
    "listed": len(listed), "same": len(set(listed)) == 5 and listed[0] == others[1].id, "conflict": conflict,
}))
