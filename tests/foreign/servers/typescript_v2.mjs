// A server on the official TypeScript SDK v2, behind the tools that ../server_kinds.py names. Copied beside its node_modules and
// run there; the argument is the upstream's URL.

import { McpServer, acceptedContent, inputRequired } from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { z } from 'zod'

const upstream = process.argv[2]
const text = said => ({ content: [{ type: 'text', text: said }] })
const slow = async (tag, signal) => text(await (await fetch(`${upstream}/slow?tag=${encodeURIComponent(tag)}`, { signal })).text())
const tagged = { inputSchema: z.object({ tag: z.string() }) }

serveStdio(() => {
  const server = new McpServer({ name: 'typescript-v2', version: '1' })
  server.registerTool('echo', { inputSchema: z.object({ message: z.string() }) }, async ({ message }) => text(`Echo: ${message}`))
  server.registerTool('slow', tagged, async ({ tag }, { mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken
    if (progressToken !== undefined) {
      const params = { progressToken, progress: 1, total: 3, message: `asking for ${tag}` }
      await mcpReq.notify({ method: 'notifications/progress', params })
    }
    return slow(tag, mcpReq.signal)
  })
  // What it has begun it ends, whatever its caller says meanwhile.
  server.registerTool('deaf', tagged, async ({ tag }) => slow(tag))
  server.registerTool('ask', {}, async ({ mcpReq }) => {
    const answer = acceptedContent(mcpReq.inputResponses, 'who')
    if (answer) return text(`You are ${answer.name}`)
    const requestedSchema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] }
    return inputRequired({ inputRequests: { who: inputRequired.elicit({ message: 'Who are you?', requestedSchema }) } })
  })
  server.registerPrompt('greeting', {}, async () => ({ messages: [{ role: 'user', content: { type: 'text', text: 'Hello' } }] }))
  server.registerResource('note', 'note://one', {}, async uri => ({ contents: [{ uri: uri.href, text: 'One note' }] }))
  return server
})
