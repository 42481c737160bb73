// Runs the steps of every client and prints the results as one JSON document.
export async function use(client, transport, watch) {
  await client.connect(transport);
  const { tools } = await client.listTools();
  const place = tools.some((tool) => tool.name === 'inbox_check') ? {} : { target: '@team' };
  const call = (name, args) => client.callTool({ name, arguments: { ...place, ...args } });
  const sent = await call('channel_send', { message: 'said by a client' });
  const refused = await call('proposal_status', { proposal: 99 });
  const { resources } = await client.listResources();
  const uri = 'aw://team/main/channel';
  const read = await client.readResource({ uri });
  const { prompts } = await client.listPrompts();
  const notes = 'aw://team/main/document/notes.md';
  const told = await watch?.(notes, () => call('document_append', { content: 'one line more\n' }));
  console.log(
    JSON.stringify({
      tools: tools.map((tool) => tool.name),
      sent: sent.structuredContent,
      refused: refused.isError === true && refused.structuredContent.code,
      resources: resources.map((resource) => resource.uri),
      read: read.contents[0].text.includes('said by a client'),
      prompts: prompts.map((prompt) => prompt.name),
      told,
    }),
  );
  await client.close();
}
