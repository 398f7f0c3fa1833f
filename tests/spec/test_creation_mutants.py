"""Every guard of creation is removed or turned once; each time the named claim or witness must notice."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from tests.spec.creation_runs import broken

from loopspec.kernel.claims import Verdict
from loopspec.kernel.explore import ExplorationError, explore
from loopspec.kernel.graph import digest_edges
from loopspec.properties import creation_explorations
from loopspec.worlds.world import named_law

SMALL: dict[str, tuple[dict[str, Any], dict[str, int], str]] = {
    "one": (
        {"verbs": ("create",), "requests": ("release",)},
        {"depth": 1, "creates": 1, "ids": 1, "callers": 1, "aborts": 1, "disposals": 1, "escapes": 1, "inner": 1},
        "F11 F12 F13 F14 F15 F16 F19 F20 F21 F22 F24",
    ),
    "woken": (
        {"verbs": ("create",), "requests": ("release",), "fibers": ("provider", "agents"), "setups": ("settles",)},
        {"depth": 1, "creates": 1, "ids": 1, "callers": 1, "disposals": 1, "unloads": 1, "wakes": 1, "inner": 1},
        "R-38 R-57",
    ),
    "late": (
        {"requests": ("dispose",), "fibers": ()},
        {"depth": 1, "creates": 1, "ids": 1, "callers": 1, "aborts": 2, "disposals": 1, "stale": 2},
        "",
    ),
    "pair": (
        {"requests": ("dispose",), "fibers": ()},
        {"depth": 1, "creates": 2, "ids": 1, "callers": 1, "disposals": 1},
        "F2 F17 R-02 R-55",
    ),
    "calls": (
        {"verbs": ("create",), "flaws": ("", "seed", "options", "aborted"), "setups": ("deactivated",)},
        {"depth": 1, "creates": 2, "ids": 2, "callers": 1, "unloads": 1},
        "F1 F3 F5 F6 F7 F8",
    ),
    "resumes": (
        {"verbs": ("resume",), "flaws": ("", "options"), "fibers": (), "requests": ()},
        {"depth": 1, "creates": 2, "ids": 1, "callers": 1},
        "R-62 R-63 C-INP-5",
    ),
    "family": (
        {"owners": ("caller", "agent"), "requests": ("dispose",), "setups": ("settles",)},
        {"depth": 1, "creates": 2, "ids": 2, "callers": 1, "disposals": 1, "unloads": 1},
        "F6 R-60",
    ),
    "orphans": (
        {"owners": ("caller", "agent"), "fibers": (), "requests": ("dispose",), "setups": ("settles",)},
        {"depth": 1, "creates": 2, "ids": 2, "callers": 1, "disposals": 1, "stale": 1},
        "F6",
    ),
    "strangers": (
        {"setups": ("settles",), "fibers": (), "requests": ()},
        {"depth": 2, "creates": 1, "ids": 1, "callers": 1, "registrations": 1, "detaches": 1, "appends": 2}
        | {"escapes": 1, "inner": 2},
        "F17 F18 R-50 R-52",
    ),
}  # fmt: skip
"""Bounds for mutants: choices, budgets and witnesses."""


class Mutant(NamedTuple):
    """A fault, the module and text that becomes another, who notices, and where to look."""

    fault: str
    module: str
    original: str
    replacement: str
    killer: str
    bound: str = "one"


REG, ROAD, WAY, SET = "registry", "teardown", "creation", "transaction"
CRASH = "a rule is asked what cannot be"

MUTANTS = (
    # registries
    Mutant(
        "enters over an occupant",
        REG,
        "return not holder(s, kind, id)",
        "return True",
        "INV-4 registry content",
        "pair",
    ),
    Mutant(
        "leaves during its announcement",
        REG,
        'entry.phase == "announcing" or entry.appending',
        "entry.appending",
        CRASH,
        "strangers",
    ),
    Mutant(
        "leaves during an append",
        REG,
        'entry.phase == "announcing" or entry.appending',
        'entry.phase == "announcing"',
        CRASH,
        "strangers",
    ),
    Mutant(
        "takes everybody out",
        REG,
        "if kept is not entry))",
        "if kept.phase == 'entered'))",
        "INV-12 stale detach",
        "family",
    ),
    Mutant("does not listen to a veto", REG, "failed if s.threw else then", "then", "INV-8 veto"),
    Mutant(
        "forgets a detach that waited",
        REG,
        'return go(after, ("detach", kind, object, next_frame)) if entry.leaving else go(after, next_frame)',
        "return go(after, next_frame)",
        "LIV-1, LIV-2 at rest",
        "strangers",
    ),
    Mutant(
        "forgets a detach that waited for an append",
        REG,
        'if entry.leaving and entry.phase != "announcing":',
        "if False:",
        "LIV-1, LIV-2 at rest",
        "strangers",
    ),
    Mutant(
        "tells the end of what was never announced",
        REG,
        'if entry.phase == "announced" else then\n',
        "\n",
        "INV-2 no orphan disposal",
        "strangers",
    ),
    Mutant(
        "never tells an end",
        REG,
        '("tell_disposed", kind, object, then) if entry.phase == "announced" else then',
        "then",
        "INV-3 closure",
    ),
    Mutant(
        "lets a failed disposal stop the rest", REG, "not s.law.detaches_are_unconditional", "True", "INV-3 closure"
    ),
    Mutant("appends inside an append", REG, "if entry.appending:", "if False:", CRASH, "strangers"),
    Mutant(
        "announces again",
        REG,
        '"not-live" if entry_of(s, kind, object) is None else "already-announced"',
        '"not-live"',
        "raise already-announced",
        "strangers",
    ),
    # the call
    Mutant("keeps the factory of a gone provider", WAY, 'return "no-factory" if', 'return "" if', "F1", "calls"),
    Mutant(
        "does not look at the session store",
        WAY,
        '        return "session-exists"\n',
        '        return ""\n',
        "id reusable",
        "pair",
    ),
    Mutant("takes any seed", WAY, 'flaw in ("seed", "options")', 'flaw in ("options",)', "F3", "calls"),
    Mutant("takes any options", WAY, 'flaw in ("seed", "options")', 'flaw in ("seed",)', "F5", "calls"),
    Mutant("takes an aborted signal", WAY, 'or ("caller" if flaw == "aborted" else "")', "", "F8", "calls"),
    Mutant(
        "takes a gone owner", WAY, 'if owner_state(s, owner) == "gone" else', "if False else", "owner alive", "calls"
    ),
    Mutant(
        "takes an unloading owner",
        WAY,
        'if owner_state(s, owner) == "unloading" else',
        "if False else",
        "owner alive",
        "calls",
    ),
    Mutant(
        "takes an unloading provider",
        WAY,
        'if s.fibers[PROVIDER] != "active" else',
        "if False else",
        "owner alive",
        "calls",
    ),
    Mutant(
        "takes a child while unwinding",
        SET,
        'return "active" if t.scope == "open" else "unloading"',
        'return "active"',
        "INV-28 scope validity",
        "family",
    ),
    Mutant(
        "takes a child of a gone agent",
        SET,
        'if t is None or t.scope in ("none", "gone"):\n        return "gone"',
        'if t is None:\n        return "active"',
        "INV-28 scope validity",
        "orphans",
    ),
    Mutant(
        "resumes a live id",
        WAY,
        'if verb == "resume" and not is_free(s, "session", id) else',
        "if False else",
        "R-62",
        "resumes",
    ),
    Mutant("resumes with any options", WAY, "if has_bad_options:", "if False:", "C-INP-5", "resumes"),
    Mutant(
        "goes on with a load of a live id",
        WAY,
        '    if not is_free(s, "session", t.id):\n        return go(s, ("fail", number, "live"))\n',
        "",
        "id reusable",
        "resumes",
    ),
    Mutant(
        "reserves nothing",
        WAY,
        "if holds_reservation(s, t.number, t.id):",
        "if False:",
        "C-RES-7 one reservation",
        "resumes",
    ),
    Mutant("goes on with what is not stored", WAY, 'if answer[0] == "missing":', "if False:", "INV-8 veto", "resumes"),
    # composition and publication
    Mutant(
        "builds on a failed scope",
        WAY,
        '        return go(s.put(threw=False), ("fail", number, "mint"))',
        "        pass",
        "INV-8 veto",
    ),
    Mutant(
        "sets up in vain",
        WAY,
        '    if t.reason:\n        return go(s, ("fail", number, t.reason))\n    if t.verb',
        "    if t.verb",
        "C-TXN-A9 no setup in vain",
    ),
    Mutant(
        "goes on after a failed setup",
        WAY,
        '    if answer[0] == "throws":\n        return go(s, ("fail", number, "setup"))\n',
        "",
        "INV-8 veto",
    ),
    Mutant(
        "waits for a setup that never settles",
        WAY,
        'late: tuple[Answer, ...] = (("deactivated",),) if',
        "late: tuple[Answer, ...] = () if",
        "no deadlock",
        "calls",
    ),
    Mutant(
        "skips commit",
        WAY,
        'return notify(s, ("commit", number), ("committed", number))',
        'return go(s, ("committed", number))',
        "INV-7 unpublished until composed",
        "pair",
    ),
    Mutant(
        "goes on after a failed commit",
        WAY,
        '        return go(s.put(threw=False), ("fail", number, "commit"))',
        "        pass",
        "INV-8 veto",
    ),
    Mutant(
        "publishes without a check",
        WAY,
        'return check(s, number, ("enter_session", number))',
        'return go(s, ("enter_session", number))',
        "INV-7 unpublished until composed",
    ),
    Mutant(
        "announces the agent without a check",
        WAY,
        'return check(s, number, ("announce_agent", number))',
        'return go(s, ("announce_agent", number))',
        "INV-9 liveness barrier",
    ),
    Mutant(
        "tells the start without a check",
        WAY,
        'return check(s, number, ("announce_start", number))',
        'return go(s, ("announce_start", number))',
        "INV-9 liveness barrier",
    ),
    Mutant(
        "resolves without a check",
        WAY,
        'return check(calm, number, ("resolve", number))',
        'return go(calm, ("resolve", number))',
        "INV-9 liveness barrier",
    ),
    Mutant(
        "skips the start notice",
        WAY,
        'return check(s, number, ("announce_start", number))',
        'return check(s, number, ("resolve", number))',
        "C-TXN-C10 resolved last",
    ),
    Mutant("lets the notice veto", WAY, "not s.law.start_notice_is_contained", "True", "F23 no veto by notice"),
    Mutant(
        "announces the agent first",
        WAY,
        '("announce", "session", number, ("session_announced", number)',
        '("announce", "agent", number, ("session_announced", number)',
        "INV-6 order",
    ),
    Mutant("forgets the owner agent", WAY, "t.id, owner_agent(t), (", "t.id, 0, (", "INV-22 ownership", "family"),
    # the driver
    Mutant(
        "starts before publication",
        WAY,
        '"shut" if s.law.driver_waits_for_publication else "idle"',
        '"idle"',
        "INV-19 driver gate",
        "woken",
    ),
    Mutant(
        "loses a kept wake",
        WAY,
        '("run", number, ("live", number)) if t.driver == "latched" else ("live", number)',
        '("live", number)',
        "LIV-1, LIV-2 at rest",
        "woken",
    ),
    Mutant(
        "keeps a wake after the cancel",
        WAY,
        'if t.driver == "shut" and not t.cancelled:',
        'if t.driver == "shut":',
        "C-TDN-6 no latch after the end was asked",
        "woken",
    ),
    Mutant(
        "opens a boundary while closing",
        WAY,
        'return s.fibers[AGENTS] != "active"',
        "return False",
        "INV-30 initiator",
        "woken",
    ),
    Mutant(
        "hangs on a refused boundary",
        WAY,
        "if s.law.closing_wake_is_refused_whole:",
        "if False:",
        "N-8 no hang",
        "woken",
    ),
    Mutant("runs ghosts", WAY, "if s.law.disposed_agent_is_silent:", "if False:", "N-7 silent after the end", "late"),
    # the way out
    Mutant(
        "aborts after the promise",
        ROAD,
        't.public == "pending" and not t.reason',
        "not t.reason",
        "INV-18 handle gate",
        "late",
    ),
    Mutant(
        "keeps the last reason",
        ROAD,
        '    if t.reason:\n        return go(with_member(s, t, begun=True), ("stop", number, then))\n',
        "",
        "INV-10 first reason",
    ),
    Mutant(
        "cancels again and again",
        ROAD,
        't.driver != "absent" and not t.cancelled',
        't.driver != "absent"',
        "INV-17 single teardown",
    ),
    Mutant(
        "cancels what was never built",
        ROAD,
        't.driver != "absent" and not t.cancelled',
        "not t.cancelled",
        "INV-17 single teardown",
    ),
    Mutant("never cancels", ROAD, 't.driver != "absent" and not t.cancelled', "False", "INV-17 single teardown"),
    Mutant(
        "rejects before the rollback", ROAD, 'if t.verb == "create_now":', "if True:", "INV-11 rejection after rollback"
    ),
    Mutant(
        "does not drain", ROAD, 'if member(s, number).driver == "absent":', "if True:", "INV-14 drained before unwound"
    ),
    Mutant(
        "drains a running agent",
        ROAD,
        "return not is_busy(member(s, point[1]))",
        "return True",
        "INV-16 closing published",
        "woken",
    ),
    Mutant("does not unwind", ROAD, 'if t.scope == "none":', "if True:", "INV-14 unwound before detached"),
    Mutant(
        "leaves children behind",
        ROAD,
        'following = ("orphan", children, ("await_scope", number, joined(s, children), why))',
        'following = ("await_scope", number, joined(s, children), why)',
        "no deadlock",
        "family",
    ),
    Mutant(
        "does not wait for children",
        ROAD,
        'following = ("orphan", children, ("await_scope", number, joined(s, children), why))',
        'following = ("orphan", children, ("await_scope", number, (), why))',
        "INV-21 child first",
        "family",
    ),
    Mutant(
        "unwinds without waiting",
        ROAD,
        '    if name == "scope":\n        return have_ended(s, point[2])',
        '    if name == "scope":\n        return True',
        "INV-21 child first",
        "family",
    ),
    Mutant("does not join", ROAD, "if s.law.every_owner_joins:", "if False:", "INV-20 owner join", "family"),
    Mutant(
        "detaches the session first",
        ROAD,
        '("detach", "agent", number, ("agent_left", number, why))',
        '("detach", "session", number, ("agent_left", number, why))',
        "INV-5 agent implies session",
    ),
    Mutant(
        "keeps the session",
        ROAD,
        'return go(s, ("detach", "session", number, ("end", number, why, "fulfilled")))',
        'return go(s, ("end", number, why, "fulfilled"))',
        "INV-3 closure",
    ),
    Mutant(
        "unwinds at once with the provider",
        ROAD,
        "if not s.law.provider_keeps_order:",
        "if True:",
        "INV-14 drained before unwound",
        "family",
    ),
    Mutant(
        "asks only some of the provider's",
        ROAD,
        "everything = tuple(t.number for t in reversed(s.members))",
        "everything = tuple(t.number for t in reversed(s.members))[:1]",
        "INV-20 owner join",
        "calls",
    ),
    Mutant(
        "does not wait for promises",
        ROAD,
        "return all(find(s, number) is None for number in point[2])",
        "return all(is_gone(s, number) for number in point[2])",
        "INV-20 owner join",
        "calls",
    ),
    Mutant(
        "lets an owner go early",
        ROAD,
        '        return have_ended(s, point[2])\n    if name == "boundaries"',
        '        return True\n    if name == "boundaries"',
        "INV-20 owner join",
        "family",
    ),
)


def found_by(module: Any, name: str) -> set[str]:
    """The claims that are broken and the witnesses that are missing, in one small bound, by the given explorations."""
    choices, budgets, reaches = SMALL[name]
    bound = module.bound(name, **budgets)
    more = ("raise append-reenters", "raise already-announced") if name == "strangers" else ()
    plan = module.Plan(module.Choices(**choices), bound, (*reaches.split(), *more))
    system, claims, told = module.exploring(plan)
    try:
        found = explore(system, **claims._asdict(), bound=told, max_states=20_000)
    except (ExplorationError, AssertionError, KeyError):
        return {CRASH}
    assert found.complete
    return {claim for claim, verdict in found.verdicts.items() if verdict is Verdict.FAIL}


@pytest.mark.parametrize("name", SMALL)
def test_the_machine_itself_passes_where_the_mutants_fail(name: str) -> None:
    """Without this, a claim that always fails would kill everything."""
    assert found_by(creation_explorations, name) == set()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.fault)
def test_each_fault_is_seen_by_its_claim(mutant: Mutant) -> None:
    with broken(mutant.module, mutant.original, mutant.replacement) as module:
        assert mutant.killer in found_by(module, mutant.bound)


EQUIVALENT = (
    (
        "the provider is gone by then, and every agent with it: no run is left to wait for",
        ROAD,
        "return not any(is_busy(t) for t in s.members)",
        "return True",
        "woken",
    ),
)


def digest_of(module: Any, name: str) -> str:
    """The edges of one small bound."""
    choices, budgets, _ = SMALL[name]
    plan = module.Plan(module.Choices(**choices), module.bound(name, **budgets), ())
    system, claims, _ = module.exploring(plan)
    graph = explore(system, is_final=claims.is_final, keep_edges=True).graph
    assert graph is not None
    return digest_edges(named_law(graph))


@pytest.mark.parametrize(("why", "module", "original", "replacement", "bound"), EQUIVALENT)
def test_these_changes_are_equivalent(why: str, module: str, original: str, replacement: str, bound: str) -> None:
    """No claim can kill them, because the complete graph is the same."""
    with broken(module, original, replacement) as changed:
        assert digest_of(changed, bound) == digest_of(creation_explorations, bound), why
