"""L-MNT-4  In whatever order tasks run, whoever waits for a job hears of it behind the agent's own end of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
from tests.harness.orders import transcripts

from loopconform.mutants.named import named
from loopconform.mutants.patch import Fault, Switch
from loopharness.harness import open_harness

SETTLES_FIRST = next(fault for fault in named() if fault.id == "loops/jobs-settle-too-early")
A_TICK_BETWEEN = SETTLES_FIRST._replace(
    new=SETTLES_FIRST.new.replace("\n", "\n    await anyio.lowlevel.checkpoint()\n", 1)
)
"""The fault that it would be if anybody could run between the two."""
MOST = 500


async def one_job(choose: Callable[[bool], None], told: list[Any]) -> None:
    """A job that comes to its end while somebody waits for it, and somebody for the idleness of its agent."""
    async with open_harness(persona="") as harness:
        agent = await harness.create_agent("a")
        go_on = anyio.Event()

        async def job(signal: object) -> str:
            await go_on.wait()
            told.append("job")
            return "done"

        ticket = agent.run_maintenance(job)

        async def wait(name: str, what: Any) -> None:
            await what
            told.append((name, agent.at_rest))

        async with anyio.create_task_group() as group:
            group.start_soon(wait, "job", ticket)
            group.start_soon(wait, "idle", agent.when_idle())
            await anyio.wait_all_tasks_blocked()
            choose(True)
            go_on.set()
        choose(False)


def outcomes(fault: Fault | None) -> set[tuple[Any, ...]]:
    switch = Switch()
    switch.to(fault)
    try:
        return set(transcripts(one_job, MOST))
    finally:
        switch.to(None)


def test_who_hears_first_of_a_job_hangs_on_no_order_of_its_last_two_lines() -> None:
    """The two lines are one segment: nobody runs between them, and so their order shows in no order of tasks."""
    lawful = outcomes(None)
    assert all(("job", True) in told for told in lawful)
    assert len(lawful) == 2
    assert outcomes(SETTLES_FIRST) == lawful
    assert outcomes(A_TICK_BETWEEN) != lawful
