// One conversation on the published packages, through their public API only.
//
//   node converse.mjs PEER < job.json
//
// PEER is a directory in whose node_modules the packages are installed. The job:
//
//   { root, compression, session, cwd?, verb: "create" | "resume" | "read",
//     turns: [text], responses: [[chunk]], checkpoints?: true,
//     stop: "dispose" | "flush" | "tool" }
//
// "dispose" ends in an orderly way. "flush" makes everything durable and exits without disposing; "tool" exits inside
// the body of the tool, which hangs. Prints one line of JSON: what the session derived when it was opened, and at the end.

import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { join, resolve } from 'node:path'
import { readFileSync } from 'node:fs'
import { randomUUID } from 'node:crypto'

const require = createRequire(join(resolve(process.argv[2]), 'package.json'))
const load = async (name) => import(pathToFileURL(require.resolve(`@deepseek-ai/${name}`)).href)
const job = JSON.parse(readFileSync(0, 'utf8'))

const { Context } = await load('cordis')
const { default: Llm, LlmAdapter } = await load('dsh-llm')
const { default: Sessions } = await load('dsh-session')
const { default: SystemPrompt } = await load('dsh-system-prompt')
const { default: Tools, defineTool } = await load('dsh-tools')
const { default: Agents } = await load('dsh-agent')
const { default: AgentLoop } = await load('dsh-agent-loop')
const { default: Persistence } = await load('dsh-session-persistence-jsonl')

class Script extends LlmAdapter {
  played = 0

  async *stream() {
    const response = job.responses[this.played++]
    if (!response) throw new Error('the script has no further response')
    for (const chunk of response) yield chunk
  }
}

const say = (record) => new Promise((done) => process.stdout.write(JSON.stringify(record) + '\n', done))
const plain = (value) => JSON.parse(JSON.stringify(value))
const stopped = Promise.withResolvers()

const root = new Context()
await root.plugin(Llm)
await root.plugin(Sessions)
await root.plugin(SystemPrompt, { includeHarnessIdentity: false, persona: 'You are a test agent.' })
await root.plugin(Tools, {})
await root.plugin(Agents)
await root.plugin(Persistence, { root: job.root, compression: job.compression ?? 'zstd' })
if (job.checkpoints) {
  const policy = await load('dsh-session-checkpoint-policy')
  await root.plugin(policy.default ?? policy)
}

let made
await root.plugin(
  {
    name: 'conversation',
    inject: ['llm', 'tools', 'agents', 'sessions'],
    apply(ctx) {
      ctx.llm.registerAdapter(['mock'], new Script())
      ctx.tools.register(
        defineTool({
          name: 'look',
          description: 'Looks something up.',
          parameters: { what: { type: 'string', description: 'What.' } },
          output: { schema: { type: 'string' } },
          execute: async ({ what }) => {
            if (job.stop === 'tool') {
              stopped.resolve()
              await new Promise(() => {})
            }
            return `found ${what}`
          },
        }),
      )
      made = ctx
    },
  },
  {},
)
await root.plugin(AgentLoop, { agents: [] })

if (job.verb === 'read') {
  const stored = await root.get('sessionPersistence').load(job.session)
  await say({ events: plain(stored.events ?? stored) })
  process.exit(0)
}

const agentOptions = { provider: 'mock', model: 'm1' }
const handle =
  job.verb === 'create'
    ? await made.agents.create({ sessionId: job.session, meta: job.cwd ? { cwd: job.cwd } : {}, agentOptions })
    : await made.agents.resume({ resumeSessionId: job.session, agentOptions })
const { agent } = handle
const { session } = agent
const opened = plain(session.deriveMessages())
const openedEvents = session.events.length

for (const text of job.turns) {
  agent.followup({ id: randomUUID(), role: 'user', content: [{ type: 'text', text }], source: { kind: 'user' } })
  if (job.stop === 'tool') await Promise.race([stopped.promise, agent.whenIdle()])
  else await agent.whenIdle()
}
if (job.stop !== 'tool') await made.sessions.flush(session)
const result = {
  opened,
  openedEvents,
  messages: plain(session.deriveMessages()),
  events: session.events.length,
  lastTurn: Math.max(0, ...session.events.filter((e) => e.type === 'turn/start').map((e) => e.data.turn)),
}
if (job.stop === 'dispose') {
  await handle.dispose()
  await root.fiber.dispose() // waits until the store has written everything
}
await say(result)
process.exit(0)
