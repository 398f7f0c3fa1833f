"""The bounds within which creation is explored completely, and what each of them must reach.

To be mixed are three transactions, two ids, two owners, a parent with a child, and listeners that throw, dispose and
re-enter. The bound `product` mixes all of it at once, in one piece: one state is visited of those that differ in names
alone (`creation_symmetry`), and one of the orders that nobody can tell apart (`creation_orders`). The other bounds
visit every state, and go further in single directions: deeper calls, resumes, wakes, fibers, objects of somebody
else. Every one of them is explored completely.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from loopspec.creation import is_quiet
from loopspec.kernel.claims import SometimesStep
from loopspec.kernel.system import Label
from loopspec.profile import PROFILES, Profile, law
from loopspec.properties.creation import INVARIANTS
from loopspec.properties.exploring import Claims
from loopspec.worlds.creation_orders import FewOrders
from loopspec.worlds.creation_past import Small, Story, story
from loopspec.worlds.creation_world import Choices, CreationWorld, bound
from loopspec.worlds.world import Bound, Node


class Exploring(NamedTuple):
    """One exploration: the system, what is claimed about it, and its bound."""

    system: CreationWorld
    claims: Claims[Node]
    bound: Mapping[str, object]


class Plan(NamedTuple):
    """One exploration before its law is chosen."""

    choices: Choices
    bound: Bound
    reaches: tuple[str, ...]
    """Names of `WITNESSES` that it must reach under `seed`."""
    folds: bool = False
    """Whether one state stands for all that differ in names or unnoticed orders only."""


def rests(node: Node) -> bool:
    """Where a run may stop: nothing runs, no agent is busy, and only live agents wait for their end."""
    return is_quiet(node.config)


# --- what should be reachable --------------------------------------------------------------------------------

Seen = Callable[[Small, Story | None, Node], bool]
WITNESSES: dict[str, SometimesStep[Node]] = {}


def witness(name: str, sentence: str, effect: str, seen: Seen) -> None:
    """Enter a witness: some move contains a small step with this effect for which `seen` is true.

    `seen` gets the label of the small step, the story of its object before the move, and the node before it.
    """

    def predicate(before: Node, label: Label, after: Node) -> bool:
        for small in label:
            if small[1] == effect and small[0] != "call":  # type: ignore[index]
                object = small[3] if effect in ("enter", "detach") else small[2]  # type: ignore[index]
                if seen(small, story(before.memory, object), before):  # type: ignore[arg-type]
                    return True
        return False

    WITNESSES[name] = SometimesStep(name, sentence, predicate)


def failure(row: str, sentence: str, *whys: str, has: str = "", lacks: str = "", at_call: bool = False) -> None:
    """A row of the failure table: a rejection for one of these reasons, with and without these milestones before it."""

    def seen(small: Small, told: Story | None, before: Node) -> bool:
        marks = told.marks if told else ()
        fits = all(mark in marks for mark in has.split()) and not any(mark in marks for mark in lacks.split())
        return small[3] in whys and fits and (told is None or told.marks == ()) == at_call

    witness(row, sentence, "reject", seen)


ABORTS = ("caller", "owner", "provider")
failure("F1", "No factory any more.", "no-factory", at_call=True)
failure("F2", "The id is live at the call.", "session-exists", at_call=True)
failure("F3", "The seed is refused.", "seed", at_call=True)
failure("F5", "The options are refused.", "options", at_call=True)
failure("C-INP-5", "The options of a resume are refused behind its load.", "options")
failure("F6", "The owner takes nothing any more.", "inactive-owner", at_call=True)
failure("F7", "The provider is unloading.", "provider", at_call=True)
failure("F8", "The signal was aborted before the call.", "caller", at_call=True)
failure("F11", "Minting the scope failed.", "mint", has="mint", lacks="build setup")
failure("F12", "Deactivated while the scope was minted.", *ABORTS, has="mint", lacks="setup")
failure("F13", "Setup failed.", "setup", has="setup", lacks="commit")
failure("F14", "Deactivated during setup.", *ABORTS, has="setup", lacks="commit")
failure("F15", "Commit failed.", "commit", has="commit")
failure(
    "F16", "Deactivated after setup settled: commit ran, and nothing was entered.", *ABORTS, has="commit", lacks="s+"
)
failure("F17", "Another session took the id during setup.", "session-exists", has="commit", lacks="s+")
failure("F18", "Somebody's agent holds the id.", "agent-exists", has="commit", lacks="s+")
failure("F19", "A listener of session/created threw.", "created", has="s+ s-", lacks="a+")
failure("F20", "Deactivated during session/created.", *ABORTS, has="s+ s-", lacks="a+")
failure("F21", "A listener of agent/created threw.", "created", has="s+ a+ a- s-", lacks="ss")
failure("F22", "Deactivated during agent/created.", *ABORTS, has="s+ a+ a- s-", lacks="ss")
failure("F24", "Deactivated during agent/session-start.", *ABORTS, has="s+ a+ ss a- s-")
failure("not found", "A resume of an unknown id.", "not-found")
failure("R-62", "A resume of a live id.", "live", at_call=True)
failure("R-63", "A resume that waited for another, which published.", "live")
witness("resolved", "A transaction resolves.", "resolve", lambda small, told, before: True)
witness(
    "R-02", "The later of two calls for one id wins.", "enter",
    lambda small, told, before: any(
        told is not None and other.id == told.id and other.object < told.object and "commit" not in other.marks
        for other in before.memory.stories
    ),
)  # fmt: skip
witness(
    "R-55", "An id is used again after its session was detached.", "enter",
    lambda small, told, before: small[2] == "session" and small[3] > 1 and small[4] == 1 and not before.memory.closing,
)  # fmt: skip
witness(
    "R-54", "A call for an id inside agent/disposed is refused.", "reject",
    lambda small, told, before: small[3] == "session-exists"
    and any("detach agent" in t.marks and "detach session" not in t.marks for t in before.memory.stories),
)  # fmt: skip
witness(
    "R-60", "A child is gone before the end of its parent is told.", "gone",
    lambda small, told, before: told is not None and any(
        told.owner == ("agent", other.object) and "unwind" in other.marks and "a+" in other.marks
        and "a-" not in other.marks
        for other in before.memory.stories
    ),
)  # fmt: skip
witness(
    "R-57", "A wake during publication runs after the promise has resolved.", "running",
    lambda small, told, before: told is not None and "resolve" not in told.marks,
)  # fmt: skip
witness(
    "R-38", "A run ends while its agent is being drained.", "idle",
    lambda small, told, before: told is not None and "cancel" in told.marks,
)  # fmt: skip
witness(
    "R-50", "A detach waits for the dispatch that it was asked for in.", "detach",
    lambda small, told, before: any(
        activation.frame[0] == "heard" and activation.frame[2] == small[3] for activation in before.config.stack
    ),
)  # fmt: skip
witness(
    "LR-228", "An observer of a session's record asks for the end of its agent.", "cancel",
    lambda small, told, before: any(
        activation.frame == ("appended", small[2]) for activation in before.config.stack
    ),
)  # fmt: skip
witness(
    "R-52", "A detach waits for a record that is being published.", "detach",
    lambda small, told, before: any(
        activation.frame == ("appended", small[3]) for activation in before.config.stack
    ),
)  # fmt: skip
witness("raise already-announced", "A second announcement is refused.", "raise",
        lambda small, told, before: small[2] == "already-announced")  # fmt: skip
witness("raise append-reenters", "An append inside an append of the same session is refused.", "raise",
        lambda small, told, before: small[2] == "append-reenters")  # fmt: skip
witness("raise initiator-closed", "A wake in the closing window is refused.", "raise",
        lambda small, told, before: small[2] == "initiator-closed")  # fmt: skip
witness("raise disposed", "A wake after the end is refused.", "raise",
        lambda small, told, before: small[2] == "disposed")  # fmt: skip
witness("unloaded caller", "An owner's unload ends.", "unloaded", lambda small, told, before: small[2] > 1)
witness("unloaded provider", "The provider's unload ends.", "unloaded", lambda small, told, before: small[2] == 1)
witness("unloaded agents", "The agents service's unload ends.", "unloaded", lambda small, told, before: small[2] == 0)


# --- the bounds ----------------------------------------------------------------------------------------------

PLANS: dict[str, Plan] = {
    "single": Plan(
        Choices(verbs=("create", "create_now"), fibers=("caller", "provider")),
        bound("single", 2, creates=1, ids=1, callers=1, aborts=1, disposals=1, unloads=1, wakes=1, escapes=1, inner=2),
        ("F11", "F12", "F13", "F14", "F15", "F16", "F19", "F20", "F21", "F22", "F24", "R-38", "R-57", "resolved"),
    ),
    "refusals": Plan(
        Choices(
            verbs=("create", "create_now", "resume"), flaws=("", "seed", "options", "aborted", "no-persistence"),
            fibers=("caller", "provider", "agents"), requests=("release",),
        ),
        bound("refusals", 1, creates=2, ids=1, callers=1, unloads=1, disposals=1),
        ("F1", "F2", "F3", "F5", "C-INP-5", "F6", "F7", "F8", "R-62", "R-63", "not found", "resolved"),
    ),
    "arbitration": Plan(
        Choices(),
        bound("arbitration", 1, creates=3, ids=2, callers=2),
        ("F2", "F13", "F17", "R-02", "resolved"),
    ),
    "owners": Plan(
        Choices(requests=("dispose",), fibers=("caller", "provider")),
        bound("owners", 1, creates=2, ids=2, callers=2, disposals=1, unloads=1),
        ("F14", "F16", "F17", "R-55", "unloaded caller", "unloaded provider"),
    ),
    "family": Plan(
        Choices(owners=("caller", "agent"), fibers=("caller", "provider"), requests=("dispose",)),
        bound("family", 1, creates=2, ids=2, callers=1, disposals=1, unloads=1),
        ("F6", "R-60", "unloaded caller", "unloaded provider"),
    ),
    "listeners": Plan(
        Choices(verbs=("create", "create_now"), fibers=(), requests=("release",), setups=("settles", "deactivated")),
        bound("listeners", 1, creates=2, ids=2, callers=2, disposals=1, escapes=1, inner=1),
        ("F17", "F19", "F20", "F21", "F22", "F24", "R-54", "R-55"),
    ),
    "strangers": Plan(
        Choices(setups=("settles",), fibers=(), requests=()),
        bound("strangers", 2, creates=1, ids=1, callers=1, registrations=1, detaches=2, appends=2, escapes=1, inner=2),
        ("F17", "F18", "R-50", "R-52", "raise already-announced", "raise append-reenters"),
    ),
    "shutdown": Plan(
        Choices(fibers=("caller", "provider", "agents"), requests=("dispose",)),
        bound("shutdown", 1, creates=1, ids=1, callers=1, disposals=1, unloads=2, wakes=2, stale=1),
        ("F14", "R-38", "raise initiator-closed", "raise disposed", "unloaded agents", "unloaded provider"),
    ),
}  # fmt: skip
"""The bounds that every run of the tests explores."""

CLAN = Choices(owners=("caller", "agent"), fibers=(), requests=("dispose",), setups=("settles", "deactivated"))
CREATION_DISPATCHES = ("session/created", "agent/created")

PLANS["observed"] = Plan(
    Choices(requests=("dispose",), fibers=(), setups=("settles",), kinds=(), events=("cancel",)),
    bound("observed", 1, creates=1, ids=1, callers=1, disposals=1, wakes=1, appends=1, escapes=1, inner=1),
    ("LR-228",),
)
PLANS["clan"] = Plan(
    CLAN,
    bound("clan", 1, creates=3, ids=2, callers=2, disposals=1),
    ("F17", "R-02", "R-60"),
    folds=True,
)

MIXED = CLAN._replace(requests=("release",), events=CREATION_DISPATCHES)
MIXED_REACHES = ("F17", "F19", "F20", "F21", "F22", "F24", "R-02", "R-54", "R-60", "resolved")

LARGE: dict[str, Plan] = {
    "product": Plan(
        MIXED,
        bound("product", 1, creates=3, ids=2, callers=2, disposals=1, escapes=1, inner=1),
        MIXED_REACHES,
        folds=True,
    ),
    "product unloads": Plan(
        MIXED._replace(fibers=("caller",)),
        bound("product unloads", 1, creates=3, ids=2, callers=2, disposals=1, unloads=1, escapes=1, inner=1),
        (*MIXED_REACHES, "F6", "unloaded caller"),
        folds=True,
    ),
}
"""Bounds that take minutes; explored on demand. In the second, one of the two owners may be unloaded at any time."""


def ingredients(plan: Plan) -> frozenset[str]:
    """What a bound mixes, of the things that are to be mixed."""
    amounts = dict(plan.bound.budgets)
    listening = amounts["inner"] > 0 and plan.bound.depth > 0
    found = {
        "3 transactions": amounts["creates"] >= 3,
        "2 ids": amounts["ids"] >= 2,
        "2 owners": amounts["callers"] >= 2,
        "parent and child": "agent" in plan.choices.owners,
        "throwing listener": amounts["escapes"] > 0,
        "disposing listener": listening and amounts["disposals"] > 0 and "release" in plan.choices.requests,
        "re-entering listener": listening and amounts["creates"] >= 2,
    }
    return frozenset(name for name, mixed in found.items() if mixed)


DEFECTS: dict[str, tuple[str, str]] = {
    "INV-14 unwound before detached": (
        "observed",
        "Disposed of by an observer of its own record, an agent leaves at once and its scope stays (LR-228).",
    ),
    "INV-16 closing published": ("observed", "And nobody hears of the end of its run (LR-228)."),
    "INV-19 driver gate": ("single", "A turn opens on an agent that is in no registry (R-57, R-59)."),
    "INV-20 owner join": ("owners", "An owner's unload ends while its agent is still being torn down (R-34, R-35)."),
    "INV-14 drained before unwound": ("owners", "The provider's unload unwinds scopes before the drains (C-OWN-10)."),
    "INV-16 heard by its scope": ("shutdown", "Scoped listeners miss the closing of the open turn (R-28)."),
    "INV-21 child first": ("family", "A parent is gone before a child that somebody else tears down."),
    "INV-3 closure": (
        "single",
        "A session is left in its registry when the dispatch of agent/disposed fails (R-75).",
    ),
    "INV-11 rejection after rollback": ("single", "The same, during a rollback."),
    "LIV-1, LIV-2 at rest": ("single", "The leaked session is still there at rest."),
    "F23 no veto by notice": ("single", "A failed dispatch of agent/session-start refuses a creation (F25)."),
    "N-7 silent after the end": ("shutdown", "A disposed agent runs a ghost turn (R-76)."),
    "N-8 no hang": ("shutdown", "An idle agent woken in the closing window runs for ever (R-72)."),
    "no deadlock": (
        "shutdown",
        "And the unload of the service waits for it for ever (C-REE-6).",
    ),
}
"""Claims that published loops (`dsh-0.1`) break: the bound with a shortest run, and what it shows."""


def is_known(name: str, plan: Plan) -> bool:
    """Published loops may break this claim within this bound. What LR-228 breaks holds where nobody observes."""
    observed = plan.bound.as_mapping()["appends"] and plan.choices.requests
    return name in DEFECTS and (DEFECTS[name][0] != "observed" or bool(observed))


def is_final(profile: Profile) -> Callable[[Node], bool]:
    """Where a run may stop; under published loops also where a hung agent holds everything up (a known defect)."""
    if law(profile).closing_wake_is_refused_whole:
        return rests
    return lambda node: rests(node) or any(t.driver == "hung" for t in node.config.core.members)


def exploring(plan: Plan, profile: Profile = "seed", everything: bool = False) -> Exploring:
    """One exploration under the law of a profile.

    Under another law than `seed`, the claims that published loops break are left out unless `everything` is asked,
    and no witness is asked for.
    """
    chosen = law(profile)
    strict = everything or profile == "seed"
    claims = Claims(
        tuple(claim for claim in INVARIANTS if strict or not is_known(claim.name, plan)),
        (),
        tuple(WITNESSES[reached] for reached in plan.reaches) if profile == "seed" else (),
        rests if strict else is_final(profile),
    )
    bound = {"law": repr(chosen), **plan.bound.as_mapping(), **plan.choices._asdict()}
    if not plan.folds:
        return Exploring(CreationWorld(chosen, plan.choices, plan.bound), claims, bound)
    known = frozenset() if strict else frozenset(name for name in DEFECTS if is_known(name, plan))
    return Exploring(FewOrders(chosen, plan.choices, plan.bound, known=known), claims, bound)


def explorations(wide: bool = False) -> dict[str, Exploring]:
    """Every exploration by name, about a minute in all; with `wide` also those that take many minutes each."""
    plans = PLANS | LARGE if wide else PLANS
    return {f"{name} {profile}": exploring(plan, profile) for profile in PROFILES for name, plan in plans.items()}
