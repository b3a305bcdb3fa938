// Receives webhooks of Callboard and verifies them.
//
// Usage: CALLBOARD_WEBHOOK_SECRET=whsec_… node receiver.cjs [PORT]
// Needs: npm install standardwebhooks

const { createHmac, timingSafeEqual } = require("node:crypto");
const { createServer } = require("node:http");
const { Webhook } = require("standardwebhooks");

const secret = process.env.CALLBOARD_WEBHOOK_SECRET;
const seen = new Set();

/** Checks the member `signature` without any package. */
function signatureIsRight(body) {
  const given = body.subarray(-73, -2);
  const hmac = createHmac("sha256", secret);
  hmac.update(body.subarray(0, -87)).update("}");
  const expected = Buffer.from(`sha256=${hmac.digest("hex")}`);
  return given.length === expected.length && timingSafeEqual(given, expected);
}

function handle(event) {
  console.log(JSON.stringify(event));
}

async function receive(request, response) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  try {
    // Checks the headers: the time, too, so that nobody replays an old webhook.
    new Webhook(secret).verify(body, request.headers);
  } catch {
    return response.writeHead(401).end();
  }
  if (!signatureIsRight(body)) return response.writeHead(401).end();
  // A webhook may arrive more than once, always with the same identifier. It is handled, then remembered, then
  // acknowledged: if this program ends in between, the webhook comes again. A real receiver handles and remembers it in
  // one transaction, or handles it so that a second time does no harm.
  if (!seen.has(request.headers["webhook-id"])) {
    handle(JSON.parse(body));
    seen.add(request.headers["webhook-id"]);
  }
  response.writeHead(204).end();
}

// A request that breaks off ends nothing but itself.
const server = createServer((request, response) => {
  receive(request, response).catch(() => response.destroy());
});
server.listen(Number(process.argv[2] ?? 9000), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}`);
});
