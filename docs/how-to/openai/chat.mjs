// Asks once, then once more with the answer in pieces: node chat.mjs "a question".

import { randomUUID } from "node:crypto";
import OpenAI from "openai";

const client = new OpenAI({
  baseURL: process.env.CALLBOARD_URL + "/v1",
  apiKey: process.env.CALLBOARD_API_KEY,
  timeout: 600_000,
});
const messages = [
  { role: "system", content: "Be brief." },
  { role: "user", content: process.argv[2] },
];

// With the key, a request that is repeated gets the same task.
const headers = { "Idempotency-Key": randomUUID(), "X-Callboard-Priority": "7" };
const answer = await client.chat.completions.create(
  { model: "smollm2-135m", messages, metadata: { team: "docs" } },
  { headers },
);
console.log(answer.id, answer.choices[0].message.content);

messages.push(
  { role: "assistant", content: answer.choices[0].message.content },
  { role: "user", content: "Why?" },
);
const stream = await client.chat.completions.create({
  model: "smollm2-135m",
  messages,
  stream: true,
  stream_options: { include_usage: true },
});
for await (const chunk of stream) {
  process.stdout.write(chunk.choices[0]?.delta.content ?? "");
  if (chunk.usage) console.log(`\n${chunk.usage.total_tokens} tokens`);
}
