"""Which counterexamples anybody can play over the protocol, and why the others are not: a table for `tla/README.md`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from loopconform.replays.program import ALONE, case_of
from loopconform.replays.streams import Untranslatable
from loopconform.tla.instances import Instance, comes_in_the_end, instances
from loopconform.tla.origin import machine_of
from loopconform.tla.replay import Replay, read
from loopconform.tla.runs import kept
from loopconform.tla.story import words

ENDLESS = "what must come in the end does not: no finite run shows that"
PLAYED = "played"


def rows(directory: Path) -> Iterator[str]:
    """The rows of the table, one for each instance that must fail."""
    yield "| counterexample | machine | why it is not played |"
    yield "|---|---|---|"
    for one in instances(directory):
        if one.expect == "violates":
            yield f"| `{one.name}` | {machine_of(one.module)} | {reason(one)} |"


def is_seen(run: Replay) -> bool:
    """Whether what a run does last, which is what its law forbids, is seen from outside."""
    verb: str = run.labels[-1][0]
    return verb != "note"


def reason(one: Instance) -> str:
    """`played`, or why not."""
    if comes_in_the_end(one.home, one.target):
        return ENDLESS
    if kept(one).is_file():
        run = read(kept(one))
        try:
            case_of(run)
        except Untranslatable as error:
            return str(error)
        return PLAYED if is_seen(run) else f"it ends with `{words(run.labels[-1])}`, which nobody outside sees"
    return ALONE.get(machine_of(one.module), "its run is not kept")
