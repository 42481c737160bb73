// The TypeScript SDK's client of the older revisions, with the elicitation capability: it gets a session and a stream.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { use } from './use.mjs';

const [how, first, ...rest] = process.argv.slice(2);
const transport =
  how === 'http'
    ? new StreamableHTTPClientTransport(new URL(first), { requestInit: { headers: { Authorization: `Bearer ${rest[0]}` } } })
    : new StdioClientTransport({ command: first, args: rest, env: process.env });
const client = new Client({ name: 'legacy', version: '1' }, { capabilities: { elicitation: {} } });
client.fallbackNotificationHandler = async (notification) => client.heard?.(notification);
await use(client, transport, async (uri, write) => {
  const updated = new Promise((heard) => {
    client.heard = (note) => note.method === 'notifications/resources/updated' && heard(note.params.uri);
  });
  await client.subscribeResource({ uri });
  await write();
  return await updated;
});
