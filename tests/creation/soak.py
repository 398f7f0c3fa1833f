"""Thousands of agents created, driven and disposed, with failures in between: nothing may grow.

python -m tests.creation.soak 10000
"""

from __future__ import annotations

import gc
import random
import sys
import tracemalloc
from typing import Any, NamedTuple

import anyio
from tests.creation.stage import MODEL, Veto

from loopharness.agent import Agent
from loopharness.creation.transaction import Transaction
from loopharness.harness import Harness, open_harness
from loopharness.model.scripted import ScriptedAdapter, text
from loopharness.session import Session
from loopharness.signal import AbortController


class Left(NamedTuple):
    """What is there at a moment when no agent lives."""

    memory: int
    """Bytes."""
    objects: int
    """Agents, sessions and transactions."""
    tasks: int
    listeners: int
    effects: int
    machine: int
    """Numbers, ids, fibers and routines that the engine remembers."""


def look(harness: Harness) -> Left:
    """Count what is left."""
    gc.collect()
    kinds = (Agent, Session, Transaction)
    engine = harness.engine
    return Left(
        tracemalloc.get_traced_memory()[0],
        sum(isinstance(found, kinds) for found in gc.get_objects()),
        len(anyio.get_running_tasks()),
        sum(len(found) for found in harness.bus._listeners.values()),
        len(harness.context.effects) + len(harness.agents._transactions._scopes.effects),
        len(engine.items) + len(engine._ids) + len(engine.core.fibers) + len(engine.interpreter.config.parked),
    )


async def cycle(harness: Harness, number: int, dice: random.Random) -> None:
    """One agent's life, or its failure to come to life."""
    owner = harness.context.child("owner")
    controller = AbortController()
    fate = dice.choice(["live", "live", "live", "setup", "veto", "abort", "unload", "resume"])

    def setup(ctx: Any) -> None:
        ctx.on("session/event", lambda *_: None)
        ctx.effect(lambda: None, "something")
        if fate == "setup":
            raise Veto("setup")
        if fate == "abort":
            controller.abort("enough")

    def veto(_: object) -> None:
        raise Veto("veto")

    stop = harness.on("agent/created", veto) if fate == "veto" else None
    try:
        call: Any
        if fate == "resume":
            header = {"type": "session", "version": 4, "id": f"s{number}", "createdAt": 0}
            call = harness.agents.take_up({**header, "isSeeded": False, "delegationDepth": 0}, owner=owner)
        else:
            call = harness.agents.create(f"s{number}", MODEL, setup=setup, owner=owner, signal=controller.signal)
        handle = await call
        if fate == "live":
            handle.agent.followup("x")
            if dice.random() < 0.7:
                await handle.agent.when_idle()
        if fate != "unload":
            await handle.dispose()
    except (Veto, RuntimeError):
        pass
    finally:
        if stop is not None:
            stop()
        await owner.dispose()


async def _quiet(adapter: ScriptedAdapter) -> None:
    """Wait until nobody runs, and forget what the scripted adapter has noted: that is no memory of the harness."""
    adapter.requests.clear()
    adapter.resolved.clear()
    await anyio.wait_all_tasks_blocked()


async def soak(cycles: int, seed: int = 1) -> tuple[Left, Left]:
    """What is there after a tenth of the cycles, and at the end."""
    dice = random.Random(seed)
    async with open_harness(now=lambda: 1000) as harness:
        adapter = ScriptedAdapter([], always=text("ok"))
        harness.llm.register_adapter(["mock"], adapter)
        tracemalloc.start()
        try:
            warm = cycles // 10
            for number in range(warm):
                await cycle(harness, number, dice)
            await _quiet(adapter)
            first = look(harness)
            for number in range(warm, cycles):
                await cycle(harness, number, dice)
            await _quiet(adapter)
            return first, look(harness)
        finally:
            tracemalloc.stop()


def grown(first: Left, last: Left) -> list[str]:
    """What has grown. Memory may differ by 150 kB, because caches of the interpreter fill up.

    Over 10,000 cycles that is less than one small object for every second cycle.
    """
    found = [name for name in Left._fields[1:] if getattr(last, name) > getattr(first, name)]
    if last.memory - first.memory > 150_000:
        found.append(f"memory by {last.memory - first.memory} bytes")
    return found


if __name__ == "__main__":
    amount = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    for backend in ("asyncio", "trio"):
        early, late = anyio.run(soak, amount, backend=backend)
        print(backend, early, late, sep="\n  ")
        faults = grown(early, late)
        print("  grown:", ", ".join(faults) or "nothing")
        if faults:
            raise SystemExit(1)
