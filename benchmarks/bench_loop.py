"""The harness: turns per CPU second with an instant scripted model, and what a turn costs in a long session.

The workloads are those of the published loop's own measurements: one agent, no other listener; a turn is one
followup and the wait for idleness; the model answers without waiting.
"""

from __future__ import annotations

import time

import anyio

from benchmarks.measure import RUNS, Figure, Status, repeated
from loopharness.agent import AgentOptions
from loopharness.harness import open_harness
from loopharness.model.scripted import ScriptedAdapter, text

WINDOW = 50
"""The cost of turn n is the mean over the turns from n - WINDOW to n + WINDOW."""


async def converse(turns: int, deltas: int, session_format: int, marks: tuple[int, ...] = ()) -> dict[int, float]:
    """Run `turns` turns; the CPU seconds used when each marked turn was over, and at the end."""
    async with open_harness(session_format=session_format, persona="You are a benchmark agent.") as harness:
        answer = text(*["tok "] * deltas, usage=(10, deltas))
        harness.llm.register_adapter(["mock"], ScriptedAdapter([], always=answer))
        agent = await harness.create_agent("bench", AgentOptions(provider="mock", model="m1"))
        used: dict[int, float] = {}
        start = time.thread_time()
        for turn in range(1, turns + 1):
            agent.followup("hello world")
            await agent.when_idle()
            if turn in marks:
                used[turn] = time.thread_time() - start
        used[turns] = time.thread_time() - start
        return used


def turns_per_second(turns: int, deltas: int, session_format: int, backend: str = "asyncio") -> float:
    """Turns per CPU second of a whole conversation."""
    used = anyio.run(converse, turns, deltas, session_format, backend=backend)
    return turns / used[turns]


def cost_of_turn(at: tuple[int, ...]) -> list[float]:
    """Milliseconds of CPU that the turns around each of `at` cost, in one session."""
    marks = tuple(turn for n in at for turn in (n - WINDOW, n + WINDOW))
    used = anyio.run(converse, max(marks), 1, 0, marks)
    return [(used[n + WINDOW] - used[n - WINDOW]) / (2 * WINDOW) * 1000 for n in at]


def workloads(status: Status) -> list[Figure]:
    """All figures of this file."""
    figures = []
    for what, deltas, turns, session_format, backend in (
        ("2,000 turns, 1 delta each, format 0", 1, 2000, 0, "asyncio"),
        ("2,000 turns, 1 delta each, format 4", 1, 2000, 4, "asyncio"),
        ("2,000 turns, 1 delta each, format 0, trio", 1, 2000, 0, "trio"),
        ("2,000 turns, 50 deltas each, format 0", 50, 2000, 0, "asyncio"),
    ):
        with status(what):
            runs = RUNS if deltas == 1 else 3
            figures.append(
                repeated(
                    what,
                    "turns / CPU s",
                    lambda t=turns, d=deltas, f=session_format, b=backend: turns_per_second(t, d, f, b),  # type: ignore[misc]
                    runs,
                )
            )
    with status("the cost of a turn in a session of 5,050"):
        at = (100, 1000, 5000)
        runs_of_cost = [cost_of_turn(at) for _ in range(3)]
    for index, turn in enumerate(at):
        figures.append(Figure(f"turn {turn:,}", tuple(run[index] for run in runs_of_cost), "ms CPU"))
    ratios = tuple(run[2] / run[0] for run in runs_of_cost)
    figures.append(Figure("turn 5,000 ÷ turn 100", ratios, "ratio"))
    return figures
