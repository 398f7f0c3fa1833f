"""Side by side with the published loop on Node: the same conversations in one run, CPU time against CPU time.

Both sides hold one agent without further listeners; a turn is one followup and the wait for idleness, and the model
answers without waiting. The runs alternate, so that a busy machine slows both sides. Sessions have format 0 on both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import anyio

from benchmarks import peer
from benchmarks.bench_loop import WINDOW, converse
from benchmarks.measure import RUNS, Figure, Status
from loopharness.agent import AgentOptions
from loopharness.harness import open_harness
from loopharness.model.scripted import ScriptedAdapter, text, tool_calls
from loopharness.tools.registry import define_tool

MARKS = (100, 5000)
"""The turns whose cost is compared."""

PAR = {"type": "object", "properties": {"i": {"type": "number"}}, "required": ["i"]}


async def converse_with_tools(turns: int, tools: int) -> float:
    """CPU seconds of `turns` turns that call a parallel-safe tool `tools` times each and then answer."""
    async with open_harness(session_format=0, persona="You are a benchmark agent.") as harness:
        responses = []
        for turn in range(turns):
            calls = [(f"c{turn}.{index}", "par", {"i": index}) for index in range(tools)]
            responses += [tool_calls(*calls, usage=(10, tools)), text("tok ", usage=(10, 1))]
        harness.llm.register_adapter(["mock"], ScriptedAdapter(responses))

        async def body(arguments: dict[str, Any]) -> str:
            return "ok"

        tool = define_tool("par", "Runs beside others.", PAR, body, concurrent=True)
        harness.tools.register(tool, harness.context)
        agent = await harness.create_agent("bench", AgentOptions(provider="mock", model="m1"))
        start = time.thread_time()
        for _ in range(turns):
            agent.followup("hello world")
            await agent.when_idle()
        return time.thread_time() - start


def side_by_side(
    what: str, count: int, unit: str, ours: Callable[[], float], theirs: Callable[[], float]
) -> list[Figure]:
    """Alternating runs of both sides, given as CPU seconds of a run; two rates and their ratio."""
    pairs = [(count / ours(), count / theirs()) for _ in range(RUNS)]
    return [
        Figure(f"{what}: reference", tuple(a for a, _ in pairs), unit),
        Figure(f"{what}: published", tuple(b for _, b in pairs), unit),
        Figure(f"{what}: reference ÷ published", tuple(a / b for a, b in pairs), "ratio"),
    ]


def growth(runs: int = 3) -> list[Figure]:
    """What a turn costs at the start and at the end of a long session, on both sides."""
    marks = tuple(turn for n in MARKS for turn in (n - WINDOW, n + WINDOW))
    last = max(marks)

    def costs(used: dict[int, float]) -> list[float]:
        return [(used[n + WINDOW] - used[n - WINDOW]) / (2 * WINDOW) * 1000 for n in MARKS]

    figures = []
    measured: dict[str, list[list[float]]] = {"reference": [], "published": []}
    for _ in range(runs):
        measured["reference"].append(costs(anyio.run(converse, last, 1, 0, marks)))
        measured["published"].append(costs(peer.converse(last, 1, marks=marks)))
    for side, rows in measured.items():
        for index, turn in enumerate(MARKS):
            figures.append(Figure(f"turn {turn:,}: {side}", tuple(row[index] for row in rows), "ms CPU"))
        first, final = f"{MARKS[0]:,}", f"{MARKS[-1]:,}"
        ratios = tuple(row[-1] / row[0] for row in rows)
        figures.append(Figure(f"turn {final} ÷ turn {first}: {side}", ratios, "ratio"))
    return figures


def workloads(status: Status) -> list[Figure]:
    """All figures of this file; none, with a message, where the published packages are not installed."""
    try:
        peer.home()
    except peer.Absent as absent:
        print(f"Skipped: {absent}.")
        return []
    figures = []
    for what, turns, deltas in (("2,000 turns, 1 delta each", 2000, 1), ("2,000 turns, 50 deltas each", 2000, 50)):
        with status(what):
            figures += side_by_side(
                what,
                turns,
                "turns / CPU s",
                lambda t=turns, d=deltas: anyio.run(converse, t, d, 0)[t],  # type: ignore[misc]
                lambda t=turns, d=deltas: peer.converse(t, d)[t],  # type: ignore[misc]
            )
    what = "200 turns of 10 parallel tools"
    with status(what):
        figures += side_by_side(
            what,
            2000,
            "calls / CPU s",
            lambda: anyio.run(converse_with_tools, 200, 10),
            lambda: peer.converse(200, 1, 10)[200],
        )
    with status("the cost of a turn in a session of 5,050"):
        figures += growth()
    return figures
