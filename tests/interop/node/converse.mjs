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

import { readFileSync } from 'node:fs'
import { randomUUID } from 'node:crypto'
import { mount } from '../../../benchmarks/node/published.mjs'

const job = JSON.parse(readFileSync(0, 'utf8'))
const say = (record) => new Promise((done) => process.stdout.write(JSON.stringify(record) + '\n', done))
const plain = (value) => JSON.parse(JSON.stringify(value))
const stopped = Promise.withResolvers()

const { root, scope } = await mount(process.argv[2], {
  persona: 'You are a test agent.',
  store: { root: job.root, compression: job.compression ?? 'zstd' },
  checkpoints: job.checkpoints,
  apply(context, { LlmAdapter, defineTool }) {
    class Script extends LlmAdapter {
      played = 0

      async *stream() {
        const response = job.responses[this.played++]
        if (!response) throw new Error('the script has no further response')
        for (const chunk of response) yield chunk
      }
    }
    context.llm.registerAdapter(['mock'], new Script())
    context.tools.register(
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
  },
})

if (job.verb === 'read') {
  const stored = await root.get('sessionPersistence').load(job.session)
  await say({ events: plain(stored.events ?? stored) })
  process.exit(0)
}

const agentOptions = { provider: 'mock', model: 'm1' }
const handle =
  job.verb === 'create'
    ? await scope.agents.create({ sessionId: job.session, meta: job.cwd ? { cwd: job.cwd } : {}, agentOptions })
    : await scope.agents.resume({ resumeSessionId: job.session, agentOptions })
const { agent } = handle
const { session } = agent
const opened = plain(session.deriveMessages())
const openedEvents = session.events.length

for (const text of job.turns) {
  agent.followup({ id: randomUUID(), role: 'user', content: [{ type: 'text', text }], source: { kind: 'user' } })
  if (job.stop === 'tool') await Promise.race([stopped.promise, agent.whenIdle()])
  else await agent.whenIdle()
}
if (job.stop !== 'tool') await scope.sessions.flush(session)
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
