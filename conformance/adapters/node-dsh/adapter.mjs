// The published packages behind the conformance protocol (`conformance/PROTOCOL.md`), through their public API only.
//
//   node adapter.mjs [--home DIR] [--jitter SEED]
//
// DIR has the packages in its node_modules (see install.sh). With --jitter every hook is delayed by a random number of
// extra microtasks, at its arrival and after its release: the verdicts must not hang on them.

import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { forgetContexts } from './contexts.mjs'
import { diskWith } from './storage.mjs'
import { EVENTS, GATES, OPS, load, openWorld } from './world.mjs'

const { values: options } = parseArgs({ options: { home: { type: 'string' }, jitter: { type: 'string' } } })
const cache = process.env.XDG_CACHE_HOME || join(homedir(), '.cache')
const home = options.home ?? process.env.LOOPSPEC_DSH_HOME ?? join(cache, 'loopspec', 'dsh-0.1.0-rc.8')
const packages = await load(resolve(home))
const delays = options.jitter === undefined ? undefined : random(Number(options.jitter))

// Numbers in [0, 1) that depend on the seed alone.
function random(seed) {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
}

let activity = 0
let lines = []
function say(reply) {
  activity++
  lines.push(JSON.stringify(reply))
}
function flush() {
  if (lines.length === 0) return
  process.stdout.write(lines.join('\n') + '\n')
  lines = []
}

// Nothing is runnable when three turns of the event loop brought nothing and no timer or file operation is under way.
async function settle() {
  const busy = (kind) => kind === 'Timeout' || kind.startsWith('FS')
  for (let quiet = 0; quiet < 3; ) {
    const before = activity
    await new Promise((turn) => setImmediate(turn))
    quiet = activity === before && !process.getActiveResourcesInfo().some(busy) ? quiet + 1 : 0
  }
}

function hello({ id, protocol }) {
  const version = packages.version
  say({
    type: 'hello',
    id,
    protocol,
    implementation: { name: 'node-dsh', version, language: `JavaScript, Node ${process.versions.node}` },
    level: 'L2',
    profiles: ['dsh-0.1'],
    sessionFormats: [0],
    gates: GATES,
    ops: OPS,
    events: EVENTS,
    partial: ['signal/abort'], // before its first hook nobody has been given the signal
    vetoes: true,
    storage: true,
  })
}

let world
async function handle(request) {
  const { id, verb } = request
  if (verb === 'hello') return hello(request)
  if (verb === 'open') {
    world?.abandon()
    forgetContexts()
    if ((request.sessionFormat ?? 0) !== 0) return say({ type: 'unsupported', id, reason: 'only session format 0' })
    world = await openWorld(packages, request, say, delays, diskWith(request.stored ?? []))
  } else if (verb === 'settle') {
    await settle()
    return say({ type: 'settled', id, ...world.snapshot() })
  } else if (verb === 'do') {
    if (request.ops.some(({ op }) => op === 'restart')) {
      if (request.ops.length > 1) return say({ type: 'unsupported', id, reason: 'a restart stands alone in its tick' })
      world = await world.restart()
      say({ type: 'returned', id, op: 0 })
    } else world.run(id, request.ops)
  } else if (verb === 'react') world.react(request)
  else if (verb === 'plan') world.plan(request)
  else if (verb === 'veto') world.veto(request)
  else if (verb === 'release') {
    world.release(request) // where nobody stands, nothing happens
  } else if (verb !== 'bye') return say({ type: 'unsupported', id, reason: `unknown verb ${verb}` })
  say({ type: 'ok', id })
}

// What nobody awaits any more, such as the promises of a world that was thrown away.
process.on('unhandledRejection', (reason) => process.stderr.write(`unhandled: ${reason?.stack ?? reason}\n`))

let rest = ''
process.stdin.setEncoding('utf8')
for await (const piece of process.stdin) {
  const requests = (rest + piece).split('\n')
  rest = requests.pop()
  for (const line of requests) {
    const request = JSON.parse(line)
    await handle(request)
    flush()
    if (request.verb === 'bye') process.exit(0)
  }
}
