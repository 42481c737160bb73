// Starts a team over HTTP and prints its messages as they arrive. Needs Node.js 22.18 or newer, and no package.
//
//   export AGENT_WORKER_TOKEN=$(agent-worker token create app --allow read,run)
//   node examples/client.ts http://127.0.0.1:5099 examples/hello.yaml
//
// `agent-worker daemon status` prints the address. docs/reference/api.md describes every route and every event.
import { resolve } from "node:path";

const [address, file] = process.argv.slice(2);
const headers = { "Content-Type": "application/json", Authorization: `Bearer ${process.env.AGENT_WORKER_TOKEN}` };

type Event = { pos: string; kind: string; data?: { from?: string; body?: string; outcome?: string } };

async function call(route: string, body?: object): Promise<Response> {
  const method = body ? "POST" : "GET";
  const reply = await fetch(address + route, { method, headers, body: body && JSON.stringify(body) });
  if (reply.ok) return reply;
  const problem = (await reply.json()) as { message: string; hint?: string };
  throw new Error([problem.message, problem.hint].filter(Boolean).join("\n"));
}

/** Reads server-sent events. The `data` of each is one line of JSON. */
async function* events(reply: Response): AsyncGenerator<Event> {
  let rest = "";
  for await (const piece of reply.body!.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + piece).split("\n");
    rest = lines.pop()!;
    for (const line of lines) if (line.startsWith("data: {")) yield JSON.parse(line.slice("data: ".length));
  }
}

const started = await call("/runs", { file: resolve(file), cwd: process.cwd() });
const { run } = (await started.json()) as { run: string };
for await (const { kind, data } of events(await call(`/events?run=${run}`))) {
  if (kind === "message") console.log(`${data?.from}: ${data?.body}`);
  if (kind === "run.ended") {
    console.log(data?.outcome);
    process.exitCode = data?.outcome === "done" ? 0 : 1;
  }
}
