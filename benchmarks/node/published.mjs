// The published packages, mounted in their documented order through their public API.

import { createRequire } from 'node:module'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

// Mount the packages in whose node_modules `home` is, with one plugin of ours. Answers the root and that plugin's scope.
//
// `persona` begins the system prompt. `store` configures the persistence, which is left out without it; with
// `checkpoints` the log is made durable before steps, requests and tools. `apply(scope, { LlmAdapter, defineTool })` is
// the plugin.
export async function mount(home, { persona, store, checkpoints, apply }) {
  const require = createRequire(join(resolve(home), 'package.json'))
  const load = async (name) => import(pathToFileURL(require.resolve(`@deepseek-ai/${name}`)).href)
  const { Context } = await load('cordis')
  const { default: Llm, LlmAdapter } = await load('dsh-llm')
  const { default: Sessions } = await load('dsh-session')
  const { default: SystemPrompt } = await load('dsh-system-prompt')
  const { default: Tools, defineTool } = await load('dsh-tools')
  const { default: Agents } = await load('dsh-agent')
  const { default: AgentLoop } = await load('dsh-agent-loop')

  const root = new Context()
  await root.plugin(Llm)
  await root.plugin(Sessions)
  await root.plugin(SystemPrompt, { includeHarnessIdentity: false, persona })
  await root.plugin(Tools, {})
  await root.plugin(Agents)
  if (store) {
    const { default: Persistence } = await load('dsh-session-persistence-jsonl')
    await root.plugin(Persistence, store)
  }
  if (checkpoints) {
    const policy = await load('dsh-session-checkpoint-policy')
    await root.plugin(policy.default ?? policy)
  }
  let scope
  const plugin = {
    name: 'conversation',
    inject: ['llm', 'tools', 'agents', 'sessions'],
    apply(context) {
      scope = context
      apply(context, { LlmAdapter, defineTool })
    },
  }
  await root.plugin(plugin, {})
  await root.plugin(AgentLoop, { agents: [] })
  return { root, scope }
}
