// The TypeScript client that @hey-api/openapi-ts generates: writes, then reads by every GET route, with a token on the port.
// Arguments: ADDRESS, TOKEN, PROJECT. Prints the routes that it called. The compiler checks that the types are usable.

import { readFileSync } from "node:fs";
import * as sdk from "./ts";
import type { AgentView, RunView } from "./ts";
import { client } from "./ts/client.gen";

const [address, token, project] = process.argv.slice(2);
client.setConfig({ baseUrl: address, auth: () => token });
const called: string[] = [];

/** Returns the reply, which must not be an error. */
async function ok<T>(route: string, reply: Promise<{ data?: T; error?: unknown }>): Promise<T> {
  const { data, error } = await reply;
  if (data === undefined) throw new Error(`${route}: ${JSON.stringify(error)}`);
  called.push(route);
  return data;
}

/** Describes a run: each field that depends on the state has the type of that state. */
function describe(run: RunView): string {
  if (run.state === "paused") return run.cause?.cause === "limit" ? `limit ${run.cause.limit}` : "paused";
  return run.state === "ended" ? `ended ${run.outcome}` : run.state;
}

async function main() {
  const team = { target: "@team", project };
  const request = { file: `${project}/team.yaml`, cwd: project };
  const served = await ok("POST /serve", sdk.postServe({ body: request }));
  if (served.outcome !== "done") throw new Error(JSON.stringify(served));
  const { run } = await ok("POST /runs", sdk.postRuns({ body: { ...request, mode: "start" } }));
  const sent = await ok("POST /messages", sdk.postMessages({ body: { ...team, message: "@coder hello" } }));
  const file = { ...team, mode: "create" as const, content: "One." };
  await ok("POST /documents/{path}", sdk.postDocumentsPath({ path: { path: "plans/first.md" }, body: file }));
  await ok("POST /documents/{path}", sdk.postDocumentsPath({ path: { path: "notes.md" }, body: file }));
  const resource = await ok("POST /resources", sdk.postResources({ body: { ...team, content: "A log." } }));
  const vote = { ...team, title: "Ship?", electorate: ["user"] };
  const { proposal } = await ok("POST /proposals", sdk.postProposals({ body: vote }));
  await ok("POST /feedback", sdk.postFeedback({ body: { message: "clear" } }));
  const paused = await ok("POST /runs/{id}/pause", sdk.postRunsIdPause({ path: { id: run } }));
  const resumed = await ok("POST /runs/{id}/resume", sdk.postRunsIdResume({ path: { id: run }, body: {} }));
  if (describe(paused) !== "paused" || describe(resumed) !== "running") throw new Error(JSON.stringify([paused, resumed]));

  const paths = JSON.parse(readFileSync("openapi.json", "utf8")).paths as Record<string, { get?: { operationId: string; description: string } }>;
  const values: Record<string, object> = {
    "/agents/{target}": { path: { target: "coder@team" }, query: { project } },
    "/agents/{target}/tools": { path: { target: "coder@team" }, query: { project } },
    "/inbox": { query: { target: "coder@team", project } },
    "/proposals/{id}": { path: { id: proposal }, query: team },
    "/runs/{id}": { path: { id: run } },
    "/messages/{seq}/receipts": { path: { seq: sent.seq }, query: team },
    "/resources/{id}": { path: { id: resource.id }, query: team },
    "/health": {},
    "/openapi.json": {},
  };
  for (const [path, { get }] of Object.entries(paths)) {
    // Streams are tested below; some routes are open to the user alone.
    if (!get || path === "/events" || path === "/mcp" || get.description.includes("only to the user")) continue;
    const name = get.operationId.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
    const call = sdk[name as "getHealth"];
    const options = values[path] ?? { path: { path: "plans/first.md" }, query: team };
    await ok(`GET ${path}`, call(options as Parameters<typeof call>[0]));
  }
  const { stream } = await sdk.getEvents({ query: { run: served.run } });
  const kinds = new Set<string>();
  for await (const event of stream) kinds.add((event as unknown as { kind: string }).kind);
  called.push("GET /events");
  if (!kinds.has("run.ended")) throw new Error([...kinds].join(" "));
  const agent: AgentView = await ok("GET /agents/{target}", sdk.getAgentsTarget({ path: { target: "coder@team" }, query: { project } }));
  if (agent.state === "stopped" && !agent.why) throw new Error(JSON.stringify(agent));
  await ok("POST /runs/{id}/stop", sdk.postRunsIdStop({ path: { id: run }, query: { now: true } }));
  console.log(JSON.stringify(called));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
