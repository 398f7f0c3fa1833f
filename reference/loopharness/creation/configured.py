"""Agents that a configuration asks for: read and checked as a whole, then started one by one (C-CFG-*).

maxParallelToolCalls: 4
agents:
  - id: main                 # a label; the session gets a fresh id at each start …
    provider: deepseek
    model: deepseek-chat
    sessionId: main-1        # … or exactly this one: resumed if it is stored, else created
    cwd: /workspace          # for a fresh session only
"""

from __future__ import annotations

import difflib
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import anyio

from loopharness.agent import AgentOptions
from loopharness.creation.promise import Promise
from loopharness.errors import error_chain
from loopharness.settings import LoopSettings
from loopharness.store.errors import SessionPersistenceNotFoundError

if TYPE_CHECKING:
    from loopharness.agents import Agents
    from loopharness.harness import Harness

__all__ = ["AgentEntry", "Composition", "ConfigError", "read", "start"]

_log = logging.getLogger("loopharness")

FAILED: Final = "agent-loop/config-start-failed"
KEYS: Final = ("id", "sessionId", "provider", "model", "maxTokens", "cwd", "resumeSessionId")
TOP: Final = ("maxParallelToolCalls", "agents")


class ConfigError(ValueError):
    """A configuration cannot be used. Nothing of it has been started."""


@dataclass(frozen=True)
class AgentEntry:
    """One agent to start. `label` names it in messages; it is not a session's id (C-CFG-2)."""

    label: str
    options: AgentOptions
    session_id: str | None = None
    resume_id: str | None = None
    cwd: str | None = None


@dataclass(frozen=True)
class Composition:
    """A whole configuration; `cap` is `None` when it does not speak of parallel calls."""

    entries: tuple[AgentEntry, ...]
    cap: int | None = None


def read(config: Mapping[str, Any], identities: Mapping[str, Mapping[str, Any]] | None = None) -> Composition:
    """Check a configuration as a whole. `identities` are a launcher's: label to `{id, resume}` (C-CFG-5).

    Raises `ConfigError` with the place, what is wrong, and for an unknown key the nearest one (G18).
    """
    _known(config, TOP, "the configuration")
    cap = config.get("maxParallelToolCalls")
    if cap is not None:
        try:
            LoopSettings(cap)
        except ValueError as error:
            raise ConfigError(str(error)) from None
    rows = config.get("agents", ())
    if not isinstance(rows, list | tuple):
        raise ConfigError("agents must be a list")
    entries = tuple(_entry(row, f"agents[{at}]", identities or {}) for at, row in enumerate(rows))
    taken: dict[str, str] = {}
    for entry in entries:
        if entry.session_id is not None and entry.resume_id is not None:
            raise ConfigError(f'agent "{entry.label}": sessionId and resumeSessionId are mutually exclusive')
    for entry in entries:
        exact = entry.session_id if entry.session_id is not None else entry.resume_id
        if exact is None:
            continue
        if exact in taken:
            labels = f'agents "{taken[exact]}" and "{entry.label}"'
            raise ConfigError(f'{labels} use duplicate exact session identity "{exact}"')
        taken[exact] = entry.label
    return Composition(entries, cap)


def _known(row: Mapping[str, Any], keys: Iterable[str], where: str) -> None:
    for key in row:
        if key not in keys:
            near = difflib.get_close_matches(str(key), list(keys), n=1, cutoff=0.5)
            advice = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(keys)}"
            raise ConfigError(f"{where}: unknown key {key!r}{advice}")


def _entry(row: Any, where: str, identities: Mapping[str, Mapping[str, Any]]) -> AgentEntry:
    if not isinstance(row, Mapping):
        raise ConfigError(f"{where} must be a mapping with at least an id")
    _known(row, KEYS, where)
    for key in KEYS:
        value = row.get(key)
        if key != "maxTokens" and value is not None and not isinstance(value, str):
            raise ConfigError(f"{where}.{key} must be a string, not {value!r}")
    label = row.get("id")
    if not label:
        raise ConfigError(f"{where}.id is missing: give the agent a label")
    if row.get("sessionId") == "":
        raise ConfigError(f"{where}.sessionId must not be empty; leave it out for a fresh session at each start")
    cwd = row.get("cwd")
    if cwd is not None and not cwd.startswith("/"):
        raise ConfigError(f'{where}.cwd must be an absolute path, got "{cwd}"')
    try:
        options = AgentOptions(row.get("provider") or "", row.get("model") or "", row.get("maxTokens"))
    except TypeError:
        raise ConfigError(f"{where}.maxTokens must be an integer from 1, not {row['maxTokens']!r}") from None
    entry = AgentEntry(label, options, row.get("sessionId"), row.get("resumeSessionId") or None, cwd)
    given = identities.get(label)
    if given is None:
        return entry
    if given.get("resume"):
        return replace(entry, session_id=None, resume_id=given["id"])
    return replace(entry, session_id=given["id"], resume_id=None)


def start(harness: Harness, composition: Composition) -> Promise[None]:
    """Start every agent of a configuration beside the caller; the answer settles when each has started or failed.

    They belong to the loop and end with it. A failure is a warning and an `agent-loop/config-start-failed
    {sessionId, error}`, and is kept quiet once the loop is ending (C-CFG-11). The unload of the loop waits for the
    starts, which wait for nobody any more then (C-CFG-13).
    """
    if composition.cap is not None:
        harness.settings.max_parallel_tool_calls = composition.cap
    done: Promise[None] = Promise()
    agents = harness.agents

    async def run() -> None:
        async with anyio.create_task_group() as group:
            for entry in composition.entries:
                group.start_soon(_start, harness, agents, entry)
        done.resolve(None)

    agents.provider.effect(lambda: done, "agentLoop.configured()")
    agents.spawn(run)
    return done


async def _start(harness: Harness, agents: Agents, entry: AgentEntry) -> None:
    exact = entry.session_id or entry.resume_id
    verb = "resume" if entry.resume_id else "restore" if entry.session_id else "start"
    id = exact or f"{entry.label}-session-{uuid.uuid4()}"
    try:
        if entry.resume_id is not None:
            await agents.resume(id, entry.options, owner=agents.provider)
        elif entry.session_id is not None and harness.persistence is not None:
            await _restore(agents, entry, id)
        else:
            await _create(agents, entry, id)
    except Exception as error:
        if agents.provider.active:
            _log.warning('agent "%s": config-driven %s of "%s" failed: %s', entry.label, verb, id, error_chain(error))
            harness.bus.emit(FAILED, {"sessionId": id, "error": error})


async def _create(agents: Agents, entry: AgentEntry, id: str) -> None:
    if entry.cwd is None:
        await agents.create(id, entry.options, owner=agents.provider)
    else:
        await agents.create(id, entry.options, meta={"cwd": entry.cwd}, owner=agents.provider)


async def _restore(agents: Agents, entry: AgentEntry, id: str) -> None:
    """An exact id where sessions are stored: wait for a predecessor, resume, or create what is not there (C-CFG-7)."""
    await _released(agents, id)
    if not agents.provider.active:
        return
    try:
        await agents.resume(id, entry.options, owner=agents.provider)
    except SessionPersistenceNotFoundError:
        await _create(agents, entry, id)


async def _released(agents: Agents, id: str) -> None:
    """Wait until neither registry holds the id, or the loop ends. A healthy occupant is waited for too (C-CFG-8)."""
    told = False
    while agents.provider.active and agents.is_taken(id):
        if not told:
            _log.info("the configured session %s is in use; its start waits for its release", id)
            told = True
        changed = anyio.Event()
        stops: list[Callable[[], None]] = [
            agents.on_any(name, lambda *_, changed=changed: changed.set())
            for name in ("session/disposed", "agent/disposed")
        ]
        agents.provider.on_closing(changed.set)
        try:
            await changed.wait()
        finally:
            for stop in stops:
                stop()
