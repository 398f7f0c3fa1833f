"""Helpers for the scheduler's tests: compact logs, graphs, and broken copies of the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import loopspec.scheduler
from loopspec.kernel.explore import explore
from loopspec.kernel.graph import Graph, digest_edges, mapped
from loopspec.kernel.machine import Machine
from loopspec.profile import Law
from loopspec.scheduler import MACHINE, Batch
from loopspec.worlds.scheduler_world import Freedom, Scene, Scheduling, without_law

SOURCE = Path(loopspec.scheduler.__file__).read_text(encoding="utf-8")
SHORT = {"aborted-before-dispatch": "unentered", "never-started": "synthetic"}


def log_of(labels: Any) -> str:
    """The durable side of a run: `c1 c2 r1:success r2:synthetic, continue`."""
    records = []
    end = ""
    for label in labels:
        if label[:2] == ("append", "tool/call"):
            records.append(f"c{label[2]}")
        elif label[:2] == ("append", "tool/result"):
            records.append(f"r{label[2]}:{SHORT.get(label[3], label[3])}")
        elif label[0] == "leave" and label[1] in ("continue", "concluded", "throws"):
            end = ", " + " ".join([label[1], *map(str, label[2] if len(label) > 2 else ())])
    return " ".join(records) + end


def graph_of_machine(law: Law, freedom: Freedom, machine: Machine[Batch] = MACHINE) -> Graph[Scene]:
    """The complete graph of a batch without budgets: any number of failures, an abort anywhere."""
    found = explore(Scheduling(law, freedom, machine), is_final=lambda scene: True, keep_edges=True)
    assert found.complete
    assert found.graph is not None
    return found.graph


def digest_of(graph: Graph[Scene]) -> str:
    """The digest of the labelled edges, with the law by name."""
    return digest_edges(mapped(graph, without_law, lambda label: label))


def broken(original: str, replacement: str) -> Machine[Batch]:
    """A copy of the scheduler in which one text became another. Fails when the text is not there exactly once."""
    assert SOURCE.count(original) == 1, f"{SOURCE.count(original)} times in the scheduler: {original!r}"
    scope: dict[str, Any] = {"__name__": "broken_scheduler"}
    exec(compile(SOURCE.replace(original, replacement), "broken_scheduler", "exec"), scope)
    machine: Machine[Batch] = scope["MACHINE"]
    return machine
