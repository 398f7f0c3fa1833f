// What the worlds of the past leave behind: asynchronous contexts, each of which Node looks at whenever a promise is made.

import { AsyncLocalStorage } from 'node:async_hooks'

const used = new Set()
for (const name of ['run', 'enterWith']) {
  const method = AsyncLocalStorage.prototype[name]
  AsyncLocalStorage.prototype[name] = function (...given) {
    used.add(this)
    return method.apply(this, given)
  }
}

// Switch off every context that was used so far. One that is used again switches itself on.
export function forgetContexts() {
  for (const storage of used) storage.disable()
  used.clear()
}
