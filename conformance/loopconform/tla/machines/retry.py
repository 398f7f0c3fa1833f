"""The retries of failed model requests, stated twice."""

from __future__ import annotations

from typing import Any

from loopconform.tla.machines.shared import constants_of, core, left_named, prose
from loopconform.tla.subjects import Field, Subject
from loopconform.tla.values import Value, from_python
from loopspec.profile import Law
from loopspec.worlds import retry_world
from loopspec.worlds.retry_world import bound

TINY = bound("tiny", failures=1, steps=1, cancels=1, ends=1, refusals=1)
FULL = bound("full", failures=3, steps=2, cancels=1, ends=1, refusals=1, doubles=1)
BOUNDS = {one.name: one for one in (TINY, FULL, *retry_world.BOUNDS.values())}


def _system(law: Law, name: str) -> Any:
    return retry_world.bare_world(law, BOUNDS[name])


def _chains(chains: tuple[tuple[Any, ...], ...]) -> Value:
    return tuple((number, provider, tuple(policy), retries) for number, provider, policy, retries in chains)


def _course(name: str, domain: str, meaning: str) -> Field:
    return Field(
        f"Course.{name}",
        f"course{name.title().replace('_', '')}",
        domain,
        meaning,
        "",
        (),
        lambda node: from_python(getattr(node.memory, name)),
    )


SUBJECT = Subject(
    name="retry",
    module="Retry",
    sentence="Whether, when and how often a failed model request is tried again.",
    system=_system,
    bounds={name: constants_of(one) for name, one in BOUNDS.items()},
    quick="chains",
    deep="full",
    fields=(
        core("over", "boolean", "The plugin has ended.", "", "M-621"),
        core("active", "boolean", "A recovery is under way.", "", "M-621"),
        core("aborted", "boolean", "The signal of its turn is aborted; `FALSE` when none is under way.", "", "M-611"),
        core("waiting", "boolean", "Its timer runs.", "", "INV-R10"),
        core(
            "place",
            "`<<turn, step>>`, first `<<0, 0>>`",
            "What the chains belong to: the step of the last failure.",
            "`llm/retry`",
            "M-612",
        ),
        core(
            "chains",
            "sequence of `<<number, provider, policy, retries>>`, by number",
            "The chains of that step, each with the number of retries that were recorded.",
            "`llm/retry`",
            "M-612",
            "INV-R1",
            read=_chains,
        ),
        core("opened", "number", "How many chains have ever had a record.", "`llm/retry`", "INV-R1"),
        _course("place", "`<<turn, step>>`, first `<<0, 0>>`", "The step of the last failure."),
        _course("active", "boolean", "Its recovery is under way."),
        _course("cancelled", "boolean", "Its turn was cancelled; `FALSE` again when the recovery has ended."),
        _course("said", 'string: "", "retry", "none", "throws"', "What the listeners behind said in this recovery."),
        _course("goes_on", "boolean", "The last recovery has led to another attempt."),
        left_named(tuple(name for name, _ in retry_world.QUICK.budgets)),
    ),
    switches=("cancel_wins_backoff_tie",),
    environment=prose("retry"),
    extra={
        "alphabet": "chains quick",
        "ci": "tiny",
        "by command": "full deep quick chains small tiny/dsh-0.1",
    },
)
