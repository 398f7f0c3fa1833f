"""Creation and the end of agents, stated twice.

The Python world takes a move together with the small steps that have no alternative. Here every small step is a move
of its own, and nothing is remembered of the past.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from loopconform.tla.machines.shared import constants_of, core, left_named, prose
from loopconform.tla.subjects import Subject
from loopconform.tla.values import Value, from_python
from loopspec.kernel.machine import Config, Operation
from loopspec.kernel.system import Label
from loopspec.profile import Law
from loopspec.properties.creation_explorations import PLANS
from loopspec.transaction import Creation, Numbers
from loopspec.worlds.creation_past import Past, Small
from loopspec.worlds.creation_world import BUDGETS, Choices, CreationEnvironment, CreationWorld, bound
from loopspec.worlds.world import Bound, Left, Node, Price


class LateWakes(CreationEnvironment):
    """The same surroundings; without a memory of the dead, they wake an agent that is about to go (N-7)."""

    def requests(self, core: Creation, ended: Numbers) -> Iterator[tuple[Operation, Price]]:
        """Aborts and requests for a teardown, and wakes of agents that were drained for their disposal."""
        yield from super().requests(core, ended)
        for t in core.members:
            if t.driver == "drained":
                yield ("wake", t.number), ("wakes", "stale")


class SmallSteps(CreationWorld):
    """The same world in its smallest steps, without a memory."""

    def __init__(self, law: Law, choices: Choices, limits: Bound) -> None:
        super().__init__(law, choices, limits)
        self.environment = LateWakes(choices)

    def moves(self, node: Node) -> Iterator[tuple[Label, Node]]:
        """Every small step is a move."""
        return self.small_moves(node)

    def _to(
        self, before: Config[Creation], label: Small, after: Config[Creation], left: Left, past: Past
    ) -> tuple[Small, Node]:
        if len(after.parked) > 1:
            after = after._replace(parked=tuple(sorted(after.parked)))
        return label, Node(after, left, past)


ONE = (
    Choices(verbs=("create", "create_now"), fibers=("caller", "provider")),
    bound("one", 1, creates=1, ids=1, callers=1, aborts=1, disposals=1, unloads=1, wakes=1, escapes=1, inner=1),
)
TWO = (
    Choices(requests=("dispose",), fibers=("caller", "provider")),
    bound("two", 0, creates=2, ids=1, callers=1, aborts=1, disposals=1, unloads=1),
)
LOADED = (
    Choices(verbs=("resume",), flaws=("", "aborted", "no-persistence"), requests=("release",)),
    bound("loaded", 0, creates=2, ids=1, callers=1, aborts=1, disposals=1),
)
ENDS = (
    Choices(
        fibers=("caller", "provider", "agents"), requests=("dispose",), setups=("settles",), kinds=(),
        events=("agent/disposed", "agent/session-start"),
    ),
    bound("ends", 0, creates=1, ids=1, callers=1, disposals=1, unloads=1, wakes=1, escapes=1, stale=1),
)  # fmt: skip
"""Wherever published loops end otherwise than the seed (N-1 to N-4, N-7, N-8), without calls from listeners."""
CHOSEN: dict[str, tuple[Choices, Bound]] = {
    "deep": (PLANS["refusals"].choices, PLANS["refusals"].bound.changed(disposals=2)),
    "one": ONE,
    "two": TWO,
    "loaded": LOADED,
    "ends": ENDS,
    **{name: (plan.choices, plan.bound) for name, plan in PLANS.items()},
}


def _system(law: Law, name: str) -> Any:
    return SmallSteps(law, *CHOSEN[name])


def _constants(choices: Choices, limits: Bound) -> Mapping[str, Any]:
    chosen = {name[:1].upper() + name[1:]: frozenset(names) for name, names in choices._asdict().items()}
    return {**chosen, **constants_of(limits)}


def _members(members: Any) -> Value:
    return frozenset(from_python(member) for member in members)


SUBJECT = Subject(
    name="creation",
    module="Creation",
    sentence="Create and resume as transactions, the registries, announcement, owners, and the one teardown.",
    system=_system,
    bounds={name: _constants(*one) for name, one in CHOSEN.items()},
    quick="loaded",
    deep="deep",
    fields=(
        core(
            "fibers",
            'sequence of `"active"`, `"unloading"`, `"gone"`; fiber 0 is the first',
            "The agents service, the provider, and the callers' fibers.",
            "",
            "C-DSP-8",
        ),
        core(
            "members",
            "set of records `[number, id, owner, verb, reason, begun, cancelled, scope, driver, awaits, public, gone]`",
            'The transactions that have not ended. `reason`: why it was deactivated, `"caller"`, `"owner"`, '
            '`"provider"`, `"teardown"` or `""`; the first one stays. `begun`: somebody has asked for the teardown (a '
            "caller's abort alone does not). `cancelled`: the agent was cancelled with cause `disposed`. `scope`: "
            '`"none"`, `"open"`, `"unwinding"`, `"gone"`. `driver`: `"absent"` (not built), `"shut"` (not started), '
            '`"latched"` (a wake is kept for the start), `"idle"`, `"busy"`, `"hung"` (never idle again), `"drained"` '
            '(idle for good), `"loose"` (its cancel was refused, and nobody follows it any more). '
            '`awaits`: what the running activity waits for, `<<"agent", n>>`, `<<"fiber", f>>` or '
            '`<<>>`. `public`: `"pending"`, `"resolved"`, `"rejected"`. `gone`: the teardown has settled.',
            "",
            "C-ABT-3",
            "C-TDN-10",
            "C-TXN-A7",
            read=_members,
        ),
        core(
            "sessions",
            "sequence of records `[object, id, owner, phase, leaving, appending]`, in order of entry",
            'The session registry: `owner` is 0 here. `phase`: `"entered"`, `"announcing"`, `"announced"`. `leaving`: '
            "a detach was asked for while a dispatch about this object ran. `appending`: a record is being published.",
            "",
            "C-REGS-1",
        ),
        core(
            "agents",
            "the same for agents; `owner` is the owner agent or 0",
            "The agents registry.",
            "",
            "C-REGA-1",
            "C-REGA-10",
        ),
        core(
            "threw",
            "boolean",
            "An error came out of the dispatch whose window is open.",
            "",
            "C-DSP-2",
        ),
        left_named(BUDGETS),
    ),
    switches=(
        "driver_waits_for_publication",
        "every_owner_joins",
        "provider_keeps_order",
        "detaches_are_unconditional",
        "disposal_outlives_refusal",
        "closing_wake_is_refused_whole",
        "disposed_agent_is_silent",
        "start_notice_is_contained",
        "created_is_awaited",
    ),
    extra={
        "alphabet": "one two loaded refusals strangers family ends/dsh-0.1 observed/dsh-0.1",
        "ci": "loaded ends/dsh-0.1",
        "by command": "deep two ends observed/dsh-0.1 strangers shutdown/dsh-0.1 two/dsh-0.1 strangers/dsh-0.1 "
        "ends/dsh-0.1.7 observed/dsh-0.1.7",
    },
    environment=prose("creation"),
)
