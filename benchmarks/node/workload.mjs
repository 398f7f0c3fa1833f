// One workload on the published packages, through their public API: the same conversation as `benchmarks/bench_peer.py`.
//
//   node workload.mjs PEER '{"turns": 2000, "deltas": 1, "tools": 0, "marks": [50, 150]}'
//
// PEER is a directory in whose node_modules the packages are installed. Prints one line of JSON: the CPU seconds of the
// main thread that were used when each marked turn was over. The main thread only, as on the other side: helpers of the
// garbage collector and of the file system are not counted.

import { mount } from './published.mjs'

const [peer, job] = process.argv.slice(2)
const { turns, deltas, tools, marks } = JSON.parse(job)

function answer() {
  const text = 'tok '.repeat(deltas)
  return [
    { type: 'block-start', index: 0, blockType: 'text' },
    ...Array.from({ length: deltas }, () => ({ type: 'text-delta', index: 0, text: 'tok ' })),
    { type: 'block-end', index: 0, block: { type: 'text', text } },
    { type: 'usage', usage: { inputTokens: 10, outputTokens: deltas } },
    { type: 'finish', reason: { kind: 'stop' } },
  ]
}

function calls(turn) {
  const chunks = Array.from({ length: tools }, (_, index) => {
    const id = `c${turn}.${index}`
    const text = JSON.stringify({ i: index })
    return [
      { type: 'block-start', index, blockType: 'tool-call' },
      { type: 'tool-call-delta', index, id, name: 'par', argumentsDelta: text },
      { type: 'block-end', index, block: { type: 'tool-call', id, name: 'par', arguments: text } },
    ]
  }).flat()
  return [
    ...chunks,
    { type: 'usage', usage: { inputTokens: 10, outputTokens: tools } },
    { type: 'finish', reason: { kind: 'tool-calls' } },
  ]
}

const { scope } = await mount(peer, {
  persona: 'You are a benchmark agent.',
  apply(context, { LlmAdapter, defineTool }) {
    class Script extends LlmAdapter {
      played = 0

      async *stream() {
        const call = this.played++
        yield* tools && call % 2 === 0 ? calls(call / 2) : answer()
      }
    }
    context.llm.registerAdapter(['mock'], new Script())
    if (!tools) return
    context.tools.register(
      defineTool({
        name: 'par',
        description: 'Runs beside others.',
        parameters: { i: { type: 'number', description: 'A number.' } },
        output: { schema: { type: 'string' }, render: (_, value) => [{ type: 'text', text: value }] },
        isConcurrencySafe: () => true,
        execute: async () => 'ok',
      }),
    )
  },
})
const { agent } = await scope.agents.create({ sessionId: 'bench', agentOptions: { provider: 'mock', model: 'm1' } })

const spent = () => {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1e6
}
const used = {}
const start = spent()
for (let turn = 1; turn <= turns; turn++) {
  const content = [{ type: 'text', text: 'hello world' }]
  agent.followup({ id: `m${turn}`, role: 'user', content, source: { kind: 'user' } })
  await agent.whenIdle()
  if (turn === turns || marks.includes(turn)) used[turn] = spent() - start
}
process.stdout.write(JSON.stringify({ used, events: agent.session.seq }) + '\n', () => process.exit(0))
