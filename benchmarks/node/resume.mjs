// One resume of a stored session on the published packages, in a fresh process, through their public API.
//
//   node resume.mjs PEER ROOT SESSION
//
// PEER is a directory in whose node_modules the packages are installed. Prints one line of JSON: the CPU seconds that
// all threads used for the resume, the peak of the process before and behind it in MiB, and the events loaded.

import { createRequire } from 'node:module'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

const [peer, place, session] = process.argv.slice(2)
const require = createRequire(join(resolve(peer), 'package.json'))
const load = async (name) => import(pathToFileURL(require.resolve(`@deepseek-ai/${name}`)).href)

const { Context } = await load('cordis')
const { default: Llm, LlmAdapter } = await load('dsh-llm')
const { default: Sessions } = await load('dsh-session')
const { default: SystemPrompt } = await load('dsh-system-prompt')
const { default: Tools } = await load('dsh-tools')
const { default: Agents } = await load('dsh-agent')
const { default: AgentLoop } = await load('dsh-agent-loop')
const { default: Persistence } = await load('dsh-session-persistence-jsonl')

class Silent extends LlmAdapter {
  async *stream() {}
}

const root = new Context()
await root.plugin(Llm)
await root.plugin(Sessions)
await root.plugin(SystemPrompt, { includeHarnessIdentity: false, persona: 'You are a benchmark agent.' })
await root.plugin(Tools, {})
await root.plugin(Agents)
await root.plugin(Persistence, { root: place, compression: 'zstd' })
let made
await root.plugin(
  {
    name: 'bench',
    inject: ['llm', 'agents'],
    apply(ctx) {
      made = ctx
      ctx.llm.registerAdapter(['mock'], new Silent())
    },
  },
  {},
)
await root.plugin(AgentLoop, { agents: [] })

const spent = () => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6
}
const peak = () => process.resourceUsage().maxRSS / 1024
const before = peak()
const start = spent()
const { agent } = await made.agents.resume({
  resumeSessionId: session,
  agentOptions: { provider: 'mock', model: 'm1' },
})
const used = spent() - start
const events = agent.session.events.length
process.stdout.write(JSON.stringify({ used, before, peak: peak(), events }) + '\n', () => process.exit(0))
