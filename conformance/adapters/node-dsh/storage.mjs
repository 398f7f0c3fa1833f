// Session storage in memory: a backend for the published coordinator, with gates where it loads and where it writes.

// A disk that holds these sessions already.
export function diskWith(stored) {
  return new Map(stored.map(({ header, events }) => [header.id, { meta: header, events, revision: 0 }]))
}

// What is stored survives a restart: `world.disk` maps a session id to its header, its events and a revision.
export function defineStorage(packages, world) {
  const { PersistenceCoordinator, SessionPersistence, SessionPersistenceRevision } = packages.persistence
  const { disk } = world
  const copy = (value) => JSON.parse(JSON.stringify(value))
  const revision = (stored) => SessionPersistenceRevision(`memory:${stored.revision}`)
  const write = (meta, events) => {
    const stored = disk.get(meta.id) ?? { meta: copy(meta), events: [], revision: 0 }
    if (events.some(({ seq }, at) => seq !== stored.events.length + at)) {
      throw new Error(`session "${meta.id}" already has a persisted log that does not match this live session (id collision)`)
    }
    stored.events.push(...copy(events))
    stored.revision++
    disk.set(meta.id, stored)
  }

  return class Memory extends SessionPersistence {
    static inject = ['sessions']
    name = 'memory'
    supportsRawArtifacts = false
    repaired = new Set()

    constructor(ctx) {
      super(ctx)
      this.coordinator = new PersistenceCoordinator(ctx, this, { preparedSessionCacheSize: 5, writeBatchMaxDelayMs: 1 })
    }

    // -- the backend of the coordinator

    async loadStored(id) {
      const attempt = this.repaired.delete(id) ? undefined : world.resuming.get(id)?.shift()
      if (attempt !== undefined) await world.pass('load', id, { key: attempt })
      const stored = disk.get(id)
      return stored && { meta: copy(stored.meta), events: copy(stored.events), revision: revision(stored) }
    }

    async readStoredRevision(id) {
      const stored = disk.get(id)
      return stored && revision(stored)
    }

    async appendBatch(meta, events) {
      await world.pass('flush', meta.id)
      write(meta, events)
    }

    // What has been repaired is read once more, which is no load of its own.
    async commitRepair(meta, torn, closers) {
      this.repaired.add(meta.id)
      write(meta, closers)
    }

    async list() {
      return [...disk.values()].map(({ meta }) => copy(meta))
    }

    // -- the service

    locate() {
      return undefined
    }

    create(meta) {
      return this.coordinator.create(meta)
    }

    append(id, events) {
      return this.coordinator.append(id, events)
    }

    prepare(id, signal) {
      return this.coordinator.prepare(id, signal)
    }

    load(id) {
      return this.coordinator.load(id)
    }

    inspect(id, signal) {
      return this.coordinator.inspect(id, signal)
    }

    readFrom(id, from, signal) {
      return this.coordinator.readFrom(id, from, signal)
    }

    async listSnapshots() {
      return [...disk.values()].map((stored) => ({ header: copy(stored.meta), revision: revision(stored) }))
    }
  }
}
