// The official TypeScript SDKs, v1 and v2, behind the commands of ../parts.py. They differ in names and in what they can be
// told about revisions. Copied beside their node_modules and run there; the argument says which.

import { createInterface } from 'node:readline'

// What the libraries have to say is not for our reader.
for (const level of ['debug', 'info', 'log']) console[level] = console.error

const say = event => process.stdout.write(JSON.stringify(event) + '\n')
const now = () => Number(process.hrtime.bigint()) / 1e6

async function sdk(which) {
  if (which.startsWith('v1')) {
    const root = '@modelcontextprotocol/sdk'
    const [{ Client }, { StdioClientTransport }, { StreamableHTTPClientTransport }, types] = await Promise.all(
      ['client/index.js', 'client/stdio.js', 'client/streamableHttp.js', 'types.js'].map(path => import(`${root}/${path}`))
    )
    const schemas = { 'sampling/createMessage': types.CreateMessageRequestSchema, 'elicitation/create': types.ElicitRequestSchema }
    const callTool = (client, params, options) => client.callTool(params, undefined, options)
    const on = (client, method, handler) => client.setRequestHandler(schemas[method], handler)
    return { Client, StdioClientTransport, StreamableHTTPClientTransport, callTool, on, options: () => ({}) }
  }
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client')
  const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio')
  const callTool = (client, params, options) => client.callTool(params, options)
  const options = revision =>
    revision < '2026'
      ? { versionNegotiation: { mode: 'legacy' }, supportedProtocolVersions: [revision] }
      : { versionNegotiation: { mode: { pin: revision } } }
  const on = (client, method, handler) => client.setRequestHandler(method, handler)
  return { Client, StdioClientTransport, StreamableHTTPClientTransport, callTool, on, options }
}

const lib = await sdk(process.argv[2])
const calls = new Map()
let client, transport

const commands = {
  // `answers`: its user answers what servers ask.
  async connect({ command, url, revision, session, answers }) {
    const capabilities = answers ? { sampling: {}, elicitation: {} } : {}
    client = new lib.Client({ name: 'foreign', version: '1' }, { capabilities, ...lib.options(revision) })
    if (answers) {
      const said = { model: 'none', role: 'assistant', content: { type: 'text', text: 'Ada' } }
      lib.on(client, 'sampling/createMessage', async () => said)
      lib.on(client, 'elicitation/create', async () => ({ action: 'accept', content: { name: 'Ada', value: 'Ada' } }))
    }
    client.onerror = error => say({ noted: String(error) })
    transport = url
      ? new lib.StreamableHTTPClientTransport(new URL(url), session ? { sessionId: session } : {})
      : new lib.StdioClientTransport({ command: command[0], args: command.slice(1), stderr: 'ignore' })
    await client.connect(transport)
    // Who comes back to a session says itself what it had agreed on.
    if (session) transport.setProtocolVersion?.(revision)
    say({ connected: true, session: transport.sessionId, revision: transport.protocolVersion })
  },
  async list() {
    say({ listed: (await client.listTools()).tools.map(tool => tool.name) })
  },
  async prompts() {
    await client.listPrompts().then(
      ({ prompts }) => say({ asked: `${prompts.length} prompts` }),
      error => say({ asked: String(error) })
    )
  },
  async offers({ resource }) {
    const prompts = (await client.listPrompts()).prompts.map(prompt => prompt.name)
    const { contents } = await client.readResource({ uri: resource })
    say({ offered: prompts, text: contents[0].text })
  },
  async call({ id, tool, arguments: args, timeout_ms, token }) {
    const stop = new AbortController()
    calls.set(id, stop)
    const options = {
      signal: stop.signal,
      timeout: timeout_ms ?? 600_000,
      onprogress: ({ progress, message }) => say({ progress, message, id }),
      onresumptiontoken: token => say({ token, id }),
      ...(token ? { resumptionToken: token } : {})
    }
    const answer = lib.callTool(client, { name: tool, arguments: args }, options)
    say({ calling: id, pid: process.pid })
    answer.then(
      result => say({ ended: id, at: now(), result }),
      error => say({ ended: id, at: now(), error: String(error) })
    )
  },
  async stop({ id }) {
    const at = now()
    calls.get(id).abort('the user pressed stop')
    say({ stopping: id, at })
  },
  async terminate() {
    const at = now()
    await transport.terminateSession()
    say({ terminated: true, at })
  },
  async close() {
    const at = now()
    await client.close()
    say({ closed: true, at })
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const { do: name, ...rest } = JSON.parse(line)
  commands[name](rest).catch(error => say({ failed: name, error: String(error?.stack ?? error) }))
}
process.exit(0)
