// One world: the packages mounted in their documented order, and our hooks at every public extension point.
//
// A hook asks its gate: a planned outcome is used up at once, a gate that holds waits for its release, any other hook
// answers as if it were not there. Reactions run inside the dispatch that they wait for.

import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { isDeepStrictEqual } from 'node:util'
import { defineStorage } from './storage.mjs'

export const GATES = [
  'setup', 'load', 'assembly', 'pre-step', 'request', 'prepare', 'chunk', 'close', 'request-error', 'tool-pre', 'tool',
  'tool-post', 'turn-stopping', 'maintenance', 'flush', 'unwind',
]

export const OPS = [
  'create', 'create-now', 'resume', 'fork', 'send', 'followup', 'steer', 'inject', 'splice', 'replace', 'remove', 'clear',
  'maintenance', 'when-idle', 'dispose', 'log', 'cancel', 'append', 'unload', 'abort', 'cap', 'tool', 'drop-tool', 'restart',
]

const OF_SESSIONS = ['session/created', 'session/disposed']
const OF_AGENTS = [
  'agent/created', 'agent/session-start', 'agent/disposed', 'agent/status', 'agent/inbox/inserted',
  'agent/inbox/discarded', 'agent/inbox/claimed', 'agent/error',
]
export const EVENTS = [...OF_SESSIONS, ...OF_AGENTS, 'tools/result', 'signal/abort', 'llm/stream']

// Hooks that are given the very signal of the agent's activity.
const OF_ACTIVITIES = new Set(['assembly', 'pre-step', 'request', 'maintenance', 'turn-stopping'])

const USUAL = [
  { type: 'block-start', index: 0, blockType: 'text' },
  { type: 'text-delta', index: 0, text: 'ok' },
  { type: 'block-end', index: 0, block: { type: 'text', text: 'ok' } },
  { type: 'usage', usage: { inputTokens: 1, outputTokens: 1 } },
  { type: 'finish', reason: { kind: 'stop' } },
]

const ROUTE = { provider: 'mock', model: 'm1' }
const NAMED_NUMBERS = { Infinity, '-Infinity': -Infinity, NaN, '-0': -0 }
const MOST_HOPS = 24

class Planned extends Error {}

// The packages of one directory, by short name.
export async function load(home) {
  const require = createRequire(join(home, 'package.json'))
  const take = async (name) => import(pathToFileURL(require.resolve(`@deepseek-ai/${name}`)).href)
  const { dependencies } = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8'))
  const names = { cordis: 'cordis', llm: 'dsh-llm', session: 'dsh-session', prompt: 'dsh-system-prompt' }
  Object.assign(names, { tools: 'dsh-tools', agent: 'dsh-agent', loop: 'dsh-agent-loop', settings: 'dsh-settings' })
  Object.assign(names, { persistence: 'dsh-session-persistence', checkpoints: 'dsh-session-checkpoint-policy' })
  const packages = { version: dependencies['@deepseek-ai/dsh-agent-loop'] }
  for (const [short, name] of Object.entries(names)) packages[short] = await take(name)
  return packages
}

export async function openWorld(packages, opening, say, delays, disk = new Map()) {
  const world = new World(packages, opening, say, delays, disk)
  await world.mount()
  return world
}

function message(id) {
  return { id, role: 'user', content: [{ type: 'text', text: id }], source: { kind: 'user' } }
}

function problem(error) {
  if (!(error instanceof Error)) return { name: typeof error, message: String(error?.message ?? error) }
  const { name, message, code } = error
  return code === undefined ? { name, message } : { name, message, code: String(code) }
}

class World {
  constructor(packages, opening, say, delays, disk) {
    Object.assign(this, { packages, opening, delays, disk, tell: say })
    this.alive = true
    this.say = (reply) => this.alive && say(reply)
    this.holds = new Map((opening.hold ?? []).map(({ gate, honour }) => [gate, { honour }]))
    this.plans = []
    this.vetoes = []
    this.reactions = []
    this.parked = []
    this.agents = new Map() // every agent that was ever seen, by its session id
    this.composing = new Map() // agents whose setup runs, by the name of the attempt
    this.handles = new Map()
    this.signals = new Map()
    this.fibers = new Map()
    this.unloading = new Map()
    this.owners = new Map()
    this.unwinding = new WeakSet()
    this.tools = new Map()
    this.watched = new WeakSet()
    this.resuming = new Map() // session ids that are being resumed, and the names of the attempts that have not loaded
  }

  // -- mounting

  async mount() {
    const { packages } = this
    const root = (this.root = new packages.cordis.Context())
    await root.plugin(packages.llm.default)
    await root.plugin(packages.session.default)
    const prompt = { includeHarnessIdentity: false, includeRuntimeContext: false, persona: 'conformance' }
    await root.plugin(packages.prompt.default, prompt)
    await root.plugin(packages.tools.default, {})
    this.fibers.set('agents', await root.plugin(packages.agent.default))
    await root.plugin(this.settings())
    if (this.opening.storage) await root.plugin(defineStorage(packages, this))
    if (this.opening.storage && this.holds.has('flush')) await root.plugin(packages.checkpoints)
    this.listen(root)
    const visit = (name, inject) => root.plugin({ name, inject, apply: (ctx) => void (this[name] = ctx) })
    await visit('models', ['llm'])
    await visit('pool', ['tools'])
    await visit('caller', ['agents'])
    this.registry = this.caller.agents
    this.sessions = root.get('sessions')
    this.models.llm.registerAdapter(['mock'], this.model())
    for (const name of this.opening.owners ?? []) await this.addOwner(name)
    const loop = root.plugin(packages.loop.default, { agents: [], maxParallelToolCalls: this.opening.cap ?? 10 })
    this.fibers.set('provider', await loop)
    await visit('direct', ['agentLoop'])
    for (const { name, parallel } of this.opening.tools ?? []) this.addTool(name, parallel ?? true)
  }

  async addOwner(name) {
    const apply = (ctx) => void this.owners.set(name, ctx)
    this.fibers.set(name, await this.root.plugin({ name, inject: ['agents'], apply }))
  }

  // A settings document in memory: the way to change the size of the tool pool.
  settings() {
    return class Settings extends this.packages.settings.default {
      writable = true
      async load() {
        return {}
      }
      async persist() {}
    }
  }

  model() {
    const world = this
    return new (class extends this.packages.llm.LlmAdapter {
      async resolveModel(provider, model, signal) {
        await world.pass('prepare', world.initiator(), { signal })
        return super.resolveModel(provider, model, signal)
      }
      stream() {
        throw new Error('every stream is served by a listener')
      }
    })()
  }

  // Our hooks hang on the root, so that no unload takes them away.
  listen(root) {
    const on = (name, listener) => root.on(name, listener, { global: true })
    on('internal/dispatch', (mode, name, args) => this.onDispatch(name, args))
    on('session/event', (session, event) => this.onRecord(session.id, event))
    for (const name of OF_SESSIONS) on(name, (session) => this.live(session.id, name, {}))
    for (const name of OF_AGENTS) on(name, (payload) => this.onAgent(name, payload))
    on('tools/result', (exec, result) => {
      this.live(exec.agent?.id, 'tools/result', { callId: exec.callId, isError: result.isError })
    })
    on('system-prompt/assemble', async (assembly, { agent, signal }, next) => {
      await this.pass('assembly', agent?.id, { signal })
      return next()
    })
    on('agent/pre-step', (payload, next) => this.preStep(payload, next))
    on('agent/request', async ({ agent, signal }, next) => {
      const outcome = await this.pass('request', agent.id, { signal })
      const config = await next()
      return outcome.kind === 'config' ? { ...config, model: outcome.model } : config
    })
    on('llm/stream', (request) => this.stream(request))
    on('agent/request-error', async ({ agent, signal }, next) => {
      const outcome = await this.pass('request-error', agent.id, { signal })
      return outcome.kind === 'retry' ? { kind: 'retry' } : next()
    })
    on('agent/turn-stopping', async ({ agent, signal }) => void (await this.pass('turn-stopping', agent.id, { signal })))
    on('tools/pre-execute', async (exec, next) => {
      const outcome = await this.pass('tool-pre', exec.agent?.id, { key: exec.callId, signal: exec.signal })
      return outcome.kind === 'deny' ? { kind: 'deny', reason: 'planned' } : next()
    })
    on('tools/post-execute', async (exec, result, next) => {
      const outcome = await this.pass('tool-post', exec.agent?.id, { key: exec.callId, signal: exec.signal })
      if (outcome.kind === 'done') return next()
      const additionalContexts = (outcome.contexts ?? []).map(message)
      if (outcome.kind === 'accept') return { kind: 'accept', additionalContexts }
      return { kind: 'block', feedback: [{ type: 'text', text: 'planned' }], additionalContexts }
    })
  }

  // -- what happened

  onDispatch(name, args) {
    if (!this.alive || name !== 'session/event') return
    const [session, event] = args
    const fitting = this.vetoes.filter(({ record, agent }) => record === event.type && (agent ?? session.id) === session.id)
    const due = fitting.find(({ nth }) => nth === 1)
    if (due === undefined) return fitting.forEach((veto) => veto.nth--)
    this.vetoes.splice(this.vetoes.indexOf(due), 1)
    throw new Planned('planned')
  }

  onRecord(agent, event) {
    const { time, ...reported } = event
    this.say({ type: 'record', agent, event: reported })
    this.respond('record', event.type, agent, event.data)
  }

  onAgent(name, payload) {
    const { agent, ...rest } = payload
    this.agents.set(agent.id, agent)
    if (name === 'agent/created' && this.holds.has('unwind')) this.holdUnwind(agent.ctx, agent.id)
    if (rest.message) rest.message = { id: rest.message.id }
    if ('error' in rest) rest.error = problem(rest.error)
    this.live(agent.id, name, rest)
  }

  live(agent, name, data) {
    if (agent === undefined) return
    this.say({ type: 'live', agent, name, data })
    this.respond('live', name, agent, data)
  }

  respond(kind, name, agent, data) {
    if (!this.alive) return
    const fired = this.reactions.filter((reaction) => {
      const { on } = reaction
      if (on[kind] !== name || (on.agent ?? agent) !== agent) return false
      if (!Object.entries(on.where ?? {}).every(([field, value]) => isDeepStrictEqual(data?.[field], value))) return false
      return ++reaction.seen === (on.nth ?? 1)
    })
    this.reactions = this.reactions.filter((reaction) => !fired.includes(reaction))
    for (const { id, ops, queued } of fired) {
      if (queued) queueMicrotask(() => this.alive && this.run(id, ops))
      else this.run(id, ops)
    }
  }

  watch(agent, signal) {
    if (signal === undefined || this.watched.has(signal)) return
    this.watched.add(signal)
    signal.addEventListener('abort', () => this.live(agent, 'signal/abort', { kind: signal.reason?.kind }))
  }

  snapshot() {
    const ids = (list) => list.map(({ id }) => id)
    const views = this.registry.list().map((agent) => {
      const { status, inbox, session } = agent
      const view = { status, nextTurn: ids(inbox.nextTurn), nextStep: ids(inbox.nextStep), length: session.seq }
      return [agent.id, view]
    })
    return {
      parked: this.parked.map(({ gate, agent, key }) => ({ gate, agent, key })),
      agents: Object.fromEntries(views),
      sessions: this.sessions.list().map(({ id }) => id),
    }
  }

  // -- gates

  async delay() {
    if (this.delays) for (let hops = Math.floor(this.delays() * MOST_HOPS); hops > 0; hops--) await null
  }

  // What the hook at this gate is to do. Throws for the outcome `throws`, and when an honoured signal is aborted.
  async pass(gate, agent, { key = '', signal, usual = 'done', messages } = {}) {
    if (!this.alive) return new Promise(() => {})
    if (OF_ACTIVITIES.has(gate)) this.watch(agent, signal)
    await this.delay()
    const outcome = this.planned(gate, agent, key) ?? (await this.hold(gate, agent, key, signal, messages))
    await this.delay()
    if (outcome?.kind === 'throws') throw new Planned(outcome.message ?? 'planned')
    return outcome ?? { kind: usual }
  }

  planned(gate, agent, key) {
    const fits = (plan) => plan.gate === gate && (plan.agent ?? agent) === agent && (plan.key ?? key) === key
    const at = this.plans.findIndex(fits)
    return at < 0 ? undefined : this.plans.splice(at, 1)[0].outcome
  }

  async hold(gate, agent, key, signal, messages) {
    const held = this.holds.get(gate)
    if (held === undefined) return undefined
    const { promise, resolve, reject } = Promise.withResolvers()
    const place = { gate, agent, key, resolve }
    this.parked.push(place)
    const leave = () => this.parked.splice(this.parked.indexOf(place), 1)
    const abort = () => {
      leave()
      reject(signal.reason)
    }
    this.say({ type: 'gate', gate, agent, key, ...(messages && { messages }) })
    if (gate === 'setup') this.agents.set(agent, this.composing.get(key)) // from here on it can be driven
    if (held.honour) {
      if (signal?.aborted) abort()
      signal?.addEventListener('abort', abort)
    }
    const { id, outcome, ops } = await promise
    signal?.removeEventListener('abort', abort)
    this.run(id, ops ?? [])
    return outcome
  }

  async preStep(payload, next) {
    const { agent, messages, signal } = payload
    const ids = messages.map(({ id }) => id)
    const outcome = await this.pass('pre-step', agent.id, { signal, messages: ids })
    if (outcome.kind === 'reject') return { kind: 'reject' }
    if (outcome.kind !== 'enter') return next()
    return { kind: 'enter', messages: outcome.messages.map((id) => messages[ids.indexOf(id)]) }
  }

  stream(request) {
    const { signal, sessionId: agent, ...fields } = request
    if (this.opening.requests) this.live(agent, 'llm/stream', fields)
    let rest // of the usual stream, when this is one
    const next = async () => {
      if (rest === undefined) {
        const planned = this.plans.some((plan) => plan.gate === 'chunk' && (plan.agent ?? agent) === agent)
        rest = planned || this.holds.has('chunk') ? null : USUAL
      }
      if (rest !== null) {
        await this.delay()
        const [value, ...after] = rest
        rest = after
        return value ? { done: false, value } : { done: true, value: undefined }
      }
      const outcome = await this.pass('chunk', agent, { signal, usual: 'end' })
      return outcome.kind === 'chunk' ? { done: false, value: outcome.chunk } : { done: true, value: undefined }
    }
    const close = async () => {
      await this.pass('close', agent)
      return { done: true, value: undefined }
    }
    return { [Symbol.asyncIterator]: () => ({ next, return: close }) }
  }

  holdUnwind(ctx, agent) {
    if (this.unwinding.has(ctx)) return
    this.unwinding.add(ctx)
    ctx.effect(() => async () => void (await this.pass('unwind', agent)))
  }

  // -- requests

  react({ id, on, ops, queued = false }) {
    this.reactions.push({ id, on, ops, queued, seen: 0 })
  }

  plan({ gate, agent, key, outcome }) {
    this.plans.push({ gate, agent: agent ?? undefined, key: key ?? undefined, outcome })
  }

  veto({ record, agent, nth }) {
    this.vetoes.push({ record, agent: agent ?? undefined, nth: nth ?? 1 })
  }

  release({ id, gate, agent = 'a', key = '', outcome, ops }) {
    const at = this.parked.findIndex((place) => place.gate === gate && place.agent === agent && place.key === key)
    if (at < 0) return false
    this.parked.splice(at, 1)[0].resolve({ id, outcome, ops })
    return true
  }

  run(id, ops) {
    ops.forEach((operation, op) => {
      try {
        const answer = this.operate(operation)
        const promised = typeof answer?.then === 'function'
        this.say({ type: 'returned', id, op, ...(!promised && answer !== undefined && { value: answer }) })
        if (!promised) return
        answer.then(
          () => this.say({ type: 'fulfilled', id, op }),
          (error) => this.say({ type: 'rejected', id, op, error: problem(error) }),
        )
      } catch (error) {
        this.say({ type: 'raised', id, op, error: problem(error) })
      }
    })
  }

  abandon() {
    this.alive = false
    this.parked = []
  }

  // A crash: this world is left where it stands, and another opens over what its storage has.
  restart() {
    this.abandon()
    const { packages, opening, delays, disk, tell } = this
    return openWorld(packages, opening, tell, delays, disk)
  }

  // -- operations

  agent(id) {
    const agent = this.registry.get(id) ?? this.agents.get(id)
    if (agent === undefined) throw new Error(`there is no agent ${id}`)
    return agent
  }

  initiator() {
    return this.registry.currentInitiator()?.id
  }

  signal(name) {
    if (name === undefined || name === null) return undefined
    if (!this.signals.has(name)) this.signals.set(name, new AbortController())
    return this.signals.get(name).signal
  }

  operate(operation) {
    const { op, agent: id = 'a' } = operation
    switch (op) {
      case 'create':
      case 'resume':
      case 'fork':
        return this.create(operation, id)
      case 'create-now':
        return this.createNow(id, operation.owner)
      case 'send':
        return this.agent(id).send(message(operation.message), operation.target, operation.wakeup)
      case 'followup':
      case 'steer':
      case 'inject':
        return this.agent(id)[op](message(operation.message))
      case 'splice': {
        const { target, start, deleteCount = 0, messages = [] } = operation
        const number = (value) => NAMED_NUMBERS[value] ?? value
        const { inbox } = this.agent(id)
        return inbox.splice(target, number(start), number(deleteCount), messages.map(message)).map((each) => each.id)
      }
      case 'replace':
        return this.agent(id).inbox.replace(operation.message, message(operation.by))
      case 'remove':
        return this.agent(id).inbox.remove(operation.message)
      case 'clear':
        return this.agent(id).inbox.clear()
      case 'cancel': {
        const { cause = 'user', keepInbox = false } = operation
        const typed = cause === 'hook' ? { kind: 'hook', reason: 'planned' } : { kind: cause }
        return this.agent(id).cancel(typed, { keepInbox })
      }
      case 'maintenance':
        return this.agent(id).runMaintenance(async (signal) => void (await this.pass('maintenance', id, { signal })))
      case 'when-idle':
        return this.agent(id).whenIdle()
      case 'dispose': {
        const handle = this.handles.get(id)
        if (handle === undefined) throw new Error(`there is no handle of ${id}`)
        return handle.dispose()
      }
      case 'log':
        return [...this.agent(id).session.events]
      case 'append':
        return void this.agent(id).session.append(operation.type, operation.data ?? {})
      case 'unload':
        return this.unload(operation.fiber)
      case 'abort': {
        this.signal(operation.signal)
        return this.signals.get(operation.signal).abort(new Planned(operation.reason ?? 'planned'))
      }
      case 'cap':
        return void this.root.get('settings').update('agent-loop', { maxParallelToolCalls: operation.size }).catch(() => {})
      case 'tool':
        return this.addTool(operation.name, operation.parallel ?? true)
      case 'drop-tool':
        return this.dropTool(operation.name)
    }
    throw new Error(`unknown operation ${op}`)
  }

  create(operation, id) {
    const { op, name, as = name ?? id, owner, parent, signal, setup = false } = operation
    const agentOptions = ROUTE
    const compose = async (ctx) => {
      this.composing.set(as, ctx.agent)
      await this.pass('setup', id, { key: as, signal: this.signal(signal) })
    }
    const options = { agentOptions, signal: this.signal(signal), ...(setup && { setup: compose }) }
    const context = parent ? this.agent(parent).ctx : owner ? this.owners.get(owner) : this.caller
    let promise
    if (op === 'resume') {
      const waiting = this.resuming.get(id) ?? this.resuming.set(id, []).get(id)
      waiting.push(as)
      const over = () => waiting.includes(as) && waiting.splice(waiting.indexOf(as), 1)
      promise = context.agents.resume({ resumeSessionId: id, ...options })
      promise.then(over, over)
    } else if (op === 'fork') {
      const { id: source, events } = this.agent(operation.source).session
      const seed = events.slice(0, (operation.boundary ?? events.length) + 1)
      const meta = { parentSession: source, seedLength: seed.length }
      promise = context.agents.create({ sessionId: id, seed, meta, ...options })
    } else promise = context.agents.create({ sessionId: id, ...options })
    return promise.then((handle) => {
      this.handles.set(id, handle)
      this.agents.set(id, handle.agent)
    })
  }

  createNow(id, owner) {
    const loop = owner ? this.owners.get(owner).get('agentLoop') : this.direct.agentLoop
    loop.create(id, ROUTE)
  }

  // A fiber gives its promise to the first who asks; whoever asks again waits for the same one.
  unload(name) {
    const promise = this.fibers.get(name).dispose()
    if (!this.unloading.has(name)) this.unloading.set(name, promise)
    return this.unloading.get(name)
  }

  addTool(name, parallel) {
    this.dropTool(name)
    const world = this
    const tool = this.packages.tools.defineTool({
      name,
      description: name,
      parameters: {},
      output: { schema: { type: 'string' }, render: (_, value) => [{ type: 'text', text: value }] },
      isConcurrencySafe: () => parallel,
      async execute(_, exec) {
        const { callId: key, agent, signal } = exec
        const outcome = await world.pass('tool', agent?.id, { key, signal, usual: 'success' })
        if (outcome.concludes) exec.concludeTurn()
        return outcome.text ?? 'ok'
      },
    })
    this.tools.set(name, this.pool.tools.register(tool))
  }

  dropTool(name) {
    this.tools.get(name)?.()
    this.tools.delete(name)
  }
}
