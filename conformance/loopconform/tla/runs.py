"""Runs of instances that are kept as replay files in `tla/runs/`: the conformance runner plays them without TLC."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from loopconform.tla.instances import Instance
from loopconform.tla.origin import origin
from loopconform.tla.story import labels_of, replay
from loopconform.tla.tlc import Run


def text_of(one: Instance, run: Run) -> str:
    """The replay file of the run of an instance."""
    return replay(labels=labels_of(run), **origin(one)) + "\n"


def kept(one: Instance) -> Path:
    """Where the run of an instance is kept, if it is."""
    return one.home / "runs" / f"{one.name}.json"


def keep(one: Instance, run: Run) -> None:
    """Write the run of an instance anew, where one is kept."""
    if kept(one).is_file() and run.trace:
        kept(one).write_text(text_of(one, run))


def run_faults(one: Instance, run: Run) -> Iterator[str]:
    """What is wrong with a run that is kept: it is not the one that TLC finds."""
    if kept(one).is_file() and (not run.trace or kept(one).read_text() != text_of(one, run)):
        yield f"its run is not the one in runs/{one.name}.json: run it with --record"
