// One resume of a stored session on the published packages, in a fresh process, through their public API.
//
//   node resume.mjs PEER ROOT SESSION
//
// PEER is a directory in whose node_modules the packages are installed. Prints one line of JSON: the CPU seconds that
// all threads used for the resume, and for the resume and one look at every event; the peak of the process before and
// behind the resume in MiB, and the events loaded.

import { existsSync, readFileSync } from 'node:fs'

import { mount } from './published.mjs'

const [peer, place, session] = process.argv.slice(2)
const { scope } = await mount(peer, {
  persona: 'You are a benchmark agent.',
  store: { root: place, compression: 'zstd' },
  apply(context, { LlmAdapter }) {
    class Silent extends LlmAdapter {
      async *stream() {}
    }
    context.llm.registerAdapter(['mock'], new Silent())
  },
})

const spent = () => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6
}
// What resourceUsage says begins with the memory of whoever started this process.
const peak = () =>
  existsSync('/proc/self/status')
    ? Number(/VmHWM:\s*(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))[1]) / 1024
    : process.resourceUsage().maxRSS / 1024
const before = peak()
const start = spent()
const { agent } = await scope.agents.resume({
  resumeSessionId: session,
  agentOptions: { provider: 'mock', model: 'm1' },
})
const used = spent() - start
const most = peak()
let events = 0
for (const event of agent.session.events) if (event.data !== null) events++
const walked = spent() - start
process.stdout.write(JSON.stringify({ used, walked, before, peak: most, events }) + '\n', () => process.exit(0))
