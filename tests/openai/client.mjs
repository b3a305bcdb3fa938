// One request by OpenAI's library for Node; as client.py. Run in the directory that holds node_modules.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(process.cwd() + "/");
const { default: OpenAI } = await import(pathToFileURL(require.resolve("openai")));
const { zodResponseFormat } = await import(pathToFileURL(require.resolve("openai/helpers/zod")));
const { z } = await import(pathToFileURL(require.resolve("zod")));
const person = zodResponseFormat(z.object({ name: z.string(), age: z.int() }), "person");
const [url, key, text] = process.argv.slice(2);
const request = JSON.parse(text);
const tell = (what) => console.log(JSON.stringify(what));
const usage = (found) => found && [found.prompt_tokens, found.completion_tokens, found.total_tokens];

async function run(client) {
  if (request.do === "models") {
    const models = [];
    for await (const model of client.models.list()) models.push(model.id);
    return tell({ models });
  }
  if (request.do === "retrieve") return tell({ model: (await client.models.retrieve(request.model)).id });
  const body = { model: "m", ...request.body };
  const options = { headers: request.headers ?? {} };
  tell({ sent: true });
  if (request.do === "parse") {
    const answer = await client.chat.completions.parse({ ...body, response_format: person }, options);
    return tell({ parsed: answer.choices[0].message.parsed });
  }
  if (request.do === "parse_stream") {
    const stream = client.chat.completions.stream({ ...body, response_format: person }, options);
    stream.on("content", (piece) => piece && tell({ piece }));
    const answer = await stream.finalChatCompletion();
    return tell({ parsed: answer.choices[0].message.parsed });
  }
  if (request.do === "create") {
    const answer = await client.chat.completions.create(body, options);
    const [choice] = answer.choices;
    return tell({
      id: answer.id, object: answer.object, model: answer.model, role: choice.message.role,
      content: choice.message.content, finish: choice.finish_reason, usage: usage(answer.usage),
    });
  }
  const stream = await client.chat.completions.create({ ...body, stream: true }, options);
  let [last, id, whole] = [null, null, ""];
  for await (const chunk of stream) {
    id = chunk.id;
    const [choice] = chunk.choices;
    if (!choice) return tell({ id, text: whole, finish: last, usage: usage(chunk.usage) });
    last = choice.finish_reason;
    if (choice.delta.content) {
      whole += choice.delta.content;
      tell({ id, piece: choice.delta.content });
      if (request.do === "cancel") return;
    }
  }
  tell({ id, text: whole, finish: last, usage: null });
}

const client = new OpenAI({ baseURL: url + "/v1", apiKey: key, maxRetries: request.retries ?? 2, timeout: 60_000 });
try {
  await run(client);
} catch (error) {
  if (!(error instanceof OpenAI.APIError)) {
    // A stream that has begun fails with the error of fetch.
    if (error.message !== "terminated") throw error;
    tell({ error: "terminated" });
    process.exit();
  }
  const body = error.error ?? {};
  const name = error.constructor.name;
  if (error.status === undefined) {
    tell({ error: name, code: body.code ?? null, task: body.taskId ?? null });
  } else {
    tell({
      error: name, status: error.status, code: error.code, param: error.param, type: error.type,
      task: body.taskId ?? null, location: error.headers?.get("location") ?? null,
    });
  }
}
