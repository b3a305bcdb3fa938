// As client.py, by the published client for TypeScript. Run in the directory that holds node_modules.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(process.cwd() + "/");
const load = (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/client/${name}.js`)));
const [{ Client }, { StdioClientTransport }, { StreamableHTTPClientTransport }] = await Promise.all(
  ["index", "stdio", "streamableHttp"].map(load),
);

const [target, calls, ...rest] = process.argv.slice(2);
const transport = target.startsWith("http")
  ? new StreamableHTTPClientTransport(new URL(target), { requestInit: { headers: JSON.parse(rest[0]) } })
  : new StdioClientTransport({ command: target, args: ["mcp", ...rest], env: process.env });
const client = new Client({ name: "test", version: "1" });
const tell = (line) => console.log(JSON.stringify(line));
const METHODS = {
  list_tools: "listTools", list_resources: "listResources", list_resource_templates: "listResourceTemplates",
};

await client.connect(transport);
const version = transport.protocolVersion;
tell({ name: client.getServerVersion()?.name, instructions: client.getInstructions(), version });
for (const [method, given] of JSON.parse(calls)) {
  const progress = [];
  let answer;
  try {
    if (method === "call_tool") {
      answer = await client.callTool(given, undefined, { onprogress: ({ message }) => progress.push(message) });
    } else if (method === "read_resource") {
      answer = await client.readResource({ uri: given });
    } else {
      answer = await client[METHODS[method]]();
    }
  } catch (error) {
    answer = { raised: String(error) };
  }
  tell({ answer, progress });
}
await client.close();
