// The TypeScript SDK's client: lists tools and resources and sends a message. `stdio COMMAND…` or `http URL TOKEN`.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { use } from './use.mjs';

const [how, first, ...rest] = process.argv.slice(2);
const transport =
  how === 'http'
    ? new StreamableHTTPClientTransport(new URL(first), { requestInit: { headers: { Authorization: `Bearer ${rest[0]}` } } })
    : new StdioClientTransport({ command: first, args: rest, env: process.env });
await use(new Client({ name: 'typescript', version: '1' }), transport);
