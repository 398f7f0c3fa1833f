"""The invariants of creation, each judged at the small steps that it is about.

`RULES` holds one rule per claim: its name, one sentence, the labels it looks at, and a function of the moment (the
configuration and the memory before the step, its label, the configuration after it). The answer is True or the reason
why the claim is broken. The world judges every small step and writes broken claims into its memory, so that a whole
segment can be one move of the exploration; `INVARIANTS` reads them there.

`ELSEWHERE` names the invariants of the sheet that are about logs, prompts or configuration, and who judges them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from loopspec.creation import is_quiet
from loopspec.kernel.claims import Invariant
from loopspec.kernel.machine import Config
from loopspec.transaction import AGENTS, PROVIDER, Creation
from loopspec.worlds.creation_past import MARKS, Past, Small, Story, is_attached, is_balanced, story
from loopspec.worlds.world import Node


class Moment(NamedTuple):
    """One small step."""

    before: Config[Creation]
    past: Past
    label: Small
    after: Config[Creation]

    def told(self, position: int = 2) -> Story | None:
        """The story of the object that the label names."""
        return story(self.past, self.label[position])


Judge = Callable[[Moment], bool | str]


class Rule(NamedTuple):
    """One claim about small steps. `keys` are effect names, `call <name>`, `answer <point>`; empty for every step."""

    name: str
    sentence: str
    keys: tuple[str, ...]
    judge: Judge


RULES: list[Rule] = []


def claim(name: str, sentence: str, *keys: str) -> Callable[[Judge], Judge]:
    """Enter a claim into `RULES`."""

    def enter(judge: Judge) -> Judge:
        RULES.append(Rule(name, sentence, keys, judge))
        return judge

    return enter


ELSEWHERE: dict[str, str] = {
    "INV-23": "numbering of records, turns and steps: the log rules and the driver",
    "INV-24": "the seed boundary: the log rules",
    "INV-25": "snapshots and immutability: the harness, which owns payloads",
    "INV-26": "pending input is the fold of splices: the inbox",
    "INV-29": "who hears a scoped dispatch: the harness's bus",
    "INV-31": "configured identities: the harness's configuration",
}


def key_of(label: Small) -> str:
    """The key under which claims about a label are found."""
    if label[0] == "call":
        return f"call {label[1]}"
    return f"answer {label[1][0]}" if label[0] == "answer" else str(label[1])


# --- created and disposed ------------------------------------------------------------------------------------

TOLD = ("session/created", "agent/created", "agent/session-start", "agent/disposed", "session/disposed")


@claim("INV-1 pairing", "Each object is announced at most once and told of its end at most once.", *TOLD)
def pairing(m: Moment) -> bool | str:
    told, mark = m.told(), MARKS[m.label[1]]
    return told is not None and mark not in told.marks


@claim("INV-2 no orphan disposal", "An end is told only of objects whose creation had begun to be told.", *TOLD[3:])
def no_orphan(m: Moment) -> bool | str:
    told = m.told()
    return told is not None and ("a+" if m.label[1] == "agent/disposed" else "s+") in told.marks


@claim(
    "INV-3 closure", "When a teardown settles, everything it entered is detached and everything told is paired.", "gone"
)
def closure(m: Moment) -> bool | str:
    told = m.told()
    return told is not None and (is_balanced(told.marks) or f"left open: {told.marks}")


@claim(
    "INV-4 registry content",
    "A registry holds exactly the entered and not yet detached, one per id.",
    "enter",
    "detach",
)
def content(m: Moment) -> bool | str:
    kind, object = m.label[2], m.label[3]
    before = {e.object for e in (m.before.core.sessions if kind == "session" else m.before.core.agents)}
    kept = m.after.core.sessions if kind == "session" else m.after.core.agents
    expected = before | {object} if m.label[1] == "enter" else before - {object}
    ids = [entry.id for entry in kept]
    return {entry.object for entry in kept} == expected and len(ids) == len(set(ids))


@claim("INV-5 agent implies session", "A factory agent is live only while its session is.", "enter", "detach")
def agents_have_sessions(m: Moment) -> bool | str:
    stored = {(entry.object, entry.id) for entry in m.after.core.sessions}
    others = {told.object for told in m.past.stories if told.verb == "agent"}
    return all((entry.object, entry.id) in stored or entry.object in others for entry in m.after.core.agents)


LEGAL = {
    (),
    ("s+",),
    ("s+", "s-"),
    ("s+", "a+"),
    ("s+", "a+", "a-"),
    ("s+", "a+", "a-", "s-"),
    ("s+", "a+", "ss"),
    ("s+", "a+", "ss", "a-"),
    ("s+", "a+", "ss", "a-", "s-"),
    ("a+",),
    ("a+", "a-"),
}


@claim(
    "INV-6 order", "An object's events are in order: s+ a+ ss a- s-, or a beginning or an unwound part of it.", *TOLD
)
def order(m: Moment) -> bool | str:
    told = m.told()
    if told is None:
        return False
    seen = (*(mark for mark in told.marks if mark in ("s+", "a+", "ss", "a-", "s-")), MARKS[m.label[1]])
    return (seen in LEGAL and (seen[0] == "s+" or told.verb == "agent")) or f"{seen}"


# --- the way in ----------------------------------------------------------------------------------------------


@claim(
    "INV-7 unpublished until composed", "A session enters only after setup and commit, and not deactivated.", "enter"
)
def composed(m: Moment) -> bool | str:
    told = m.told(3)
    if told is None or told.verb in ("session", "agent"):
        return told is not None
    done = told.verb == "create_now" or ("setup" in told.marks and "commit" in told.marks)
    return (done and not told.reason and "build" in told.marks) or f"{told}"


@claim("INV-8 veto", "After a failed setup, commit or creation dispatch nothing more is announced or resolved.",
       "enter", "session/created", "agent/created", "agent/session-start", "resolve")  # fmt: skip
def veto(m: Moment) -> bool | str:
    told = m.told(3 if m.label[1] == "enter" else 2)
    vetoes = ("veto mint", "veto setup", "veto load", "veto commit", "veto session/created", "veto agent/created")
    return told is not None and not any(mark in vetoes for mark in told.marks)


@claim("INV-9 liveness barrier", "A deactivated transaction announces no agent, starts nothing and does not resolve.",
       "agent/created", "agent/session-start", "resolve")  # fmt: skip
def barrier(m: Moment) -> bool | str:
    told = m.told()
    return told is not None and (not told.reason or f"deactivated: {told.reason}")


@claim("C-TXN-A9 no setup in vain", "Setup is not called for a transaction that has been deactivated.", "setup")
def no_setup_in_vain(m: Moment) -> bool | str:
    told = m.told()
    return told is not None and (m.label[0] == "park" or not told.reason)


@claim("C-TXN-C10 resolved last", "A promise resolves when everything has been told.", "resolve")
def resolved_last(m: Moment) -> bool | str:
    told = m.told()
    return told is not None and {"s+", "a+"} <= set(told.marks) and ("ss" in told.marks or "heard" in told.marks)


@claim("F23 no veto by notice", "A creation is vetoed by nothing but a creation dispatch.", "reject")
def no_veto_by_notice(m: Moment) -> bool | str:
    told = m.told()
    if told is None or m.label[3] != "created":
        return told is not None
    return "veto session/created" in told.marks or "veto agent/created" in told.marks


@claim("C-RES-7 one reservation", "A resume goes on only while no other holds the same stored session.", "prepare")
def one_reservation(m: Moment) -> bool | str:
    told = m.told()
    if told is None or told.verb != "resume":
        return told is not None
    open_ones = [o for o in m.past.stories if o.id == told.id and o.verb == "resume" and o.object != told.object]
    return not any("mint" in o.marks and not {"resolve", "gone"} & set(o.marks) for o in open_ones)


@claim("C-TDN-6 no latch after the end was asked", "No wake is kept for an agent that has been cancelled.", "latch")
def no_late_latch(m: Moment) -> bool | str:
    told = m.told()
    return told is not None and "cancel" not in told.marks


@claim("INV-10 first reason", "The first deactivation is the only one.", "deactivate")
def first_reason(m: Moment) -> bool | str:
    told = m.told()
    return told is not None and not told.reason


@claim("INV-10 rejected with it", "A rejection by deactivation names its first reason.", "reject")
def rejected_with_it(m: Moment) -> bool | str:
    told = m.told()
    if told is None or told.marks == () or m.label[3] not in ("caller", "owner", "provider", "teardown"):
        return True
    return bool(told.reason == m.label[3])


@claim("INV-11 rejection after rollback", "A promise is rejected when no registry holds anything of it.", "reject")
def after_rollback(m: Moment) -> bool | str:
    told, core = m.told(), m.after.core
    if told is None or told.verb == "create_now":
        return told is not None
    return not any(entry.object == told.object for entry in (*core.sessions, *core.agents))


@claim("refused without a trace", "A call that is refused before anything is built changes nothing.", "reject")
def without_a_trace(m: Moment) -> bool | str:
    told = m.told()
    return told is not None and (told.marks != () or told.reason != "" or m.before.core == m.after.core)


@claim("refused for a reason", "An id is refused at the call only while a session holds it.", "reject")
def for_a_reason(m: Moment) -> bool | str:
    told = m.told()
    if told is None or told.marks != () or m.label[3] not in ("session-exists", "live"):
        return True
    return any(other.id == told.id and is_attached(other, "session") for other in m.past.stories)


@claim("id reusable", "A call goes on only when no session holds its id.", "prepare")
def reusable(m: Moment) -> bool | str:
    return not any(other.id == m.label[3] and is_attached(other, "session") for other in m.past.stories)


@claim("owner alive", "A call goes on only while its owner and the provider take new work.", "prepare", "own")
def owner_alive(m: Moment) -> bool | str:
    told = m.told()
    if told is None or (told.verb == "resume" and m.label[1] == "prepare"):
        return told is not None
    return PROVIDER not in m.past.closing and not (told.owner[0] == "fiber" and told.owner[1] in m.past.closing)


@claim(
    "INV-28 scope validity",
    "A scope takes an owned agent exactly while it is minted and not unwinding.",
    "prepare",
    "own",
    "reject",
)
def scope_validity(m: Moment) -> bool | str:
    told = m.told()
    if told is None or told.marks != () or told.owner[0] != "agent":
        return True
    if m.label[1] == "prepare" and told.verb == "resume":
        return True
    parent = story(m.past, told.owner[1])
    valid = parent is not None and "mint" in parent.marks and "unwind" not in parent.marks
    return (m.label[3] != "inactive-owner" or not valid) if m.label[1] == "reject" else valid


# --- the way out ---------------------------------------------------------------------------------------------


@claim("INV-12 stale detach", "A step takes nothing out of a registry but the object that it detaches.")
def stale_detach(m: Moment) -> bool | str:
    before, after = m.before.core, m.after.core
    if before.sessions is after.sessions and before.agents is after.agents:
        return True
    for kind, old, new in (("session", before.sessions, after.sessions), ("agent", before.agents, after.agents)):
        lost = {entry.object for entry in old} - {entry.object for entry in new}
        if lost and (m.label[1] != "detach" or m.label[2] != kind or lost != {m.label[3]}):
            return f"{kind} lost {sorted(lost)}"
    return True


@claim("INV-13 deferral", "No object leaves while a dispatch about it runs.", "detach")
def deferral(m: Moment) -> bool | str:
    kind, object = m.label[2], m.label[3]
    running = [activation.frame for activation in m.before.stack[:-1]]
    talked = any(
        frame[:3] == ("heard", kind, object) or (kind == "session" and frame == ("appended", object))
        for frame in running
    )
    waiting = any(point == (f"{kind}/created", object) for point, _ in m.before.parked)
    return not talked and not waiting


@claim("INV-14 drained before unwound", "A scope begins to unwind only when its agent has been drained.", "unwind")
def drained_first(m: Moment) -> bool | str:
    told = m.told()
    return told is not None and ("build" not in told.marks or "drained" in told.marks)


@claim(
    "INV-14 unwound before detached",
    "Neither object leaves before the scope has unwound, and the agent goes first.",
    "detach",
)
def unwound_first(m: Moment) -> bool | str:
    told = m.told(3)
    if told is None or told.verb in ("session", "agent"):
        return told is not None
    agent_first = m.label[2] == "agent" or "enter agent" not in told.marks or "detach agent" in told.marks
    return "unscoped" in told.marks and agent_first


@claim("INV-15 no work after drain", "No driver runs once its agent has been drained.", "running")
def no_work(m: Moment) -> bool | str:
    told = m.told()
    return told is not None and "drained" not in told.marks


@claim(
    "INV-16 closing published",
    "An agent's end is told only when its run has been closed.",
    "agent/disposed",
    "answer drain",
)
def closing_published(m: Moment) -> bool | str:
    told = m.told() if m.label[0] != "answer" else story(m.past, m.label[1][1])
    return told is not None and told.status != "running"


@claim("INV-16 heard by its scope", "A scope does not begin to unwind while a run of its agent is open.", "unwind")
def heard_by_its_scope(m: Moment) -> bool | str:
    told = m.told()
    return told is not None and told.status != "running"


@claim("INV-17 single teardown", "Each step of a teardown happens at most once, and it is cancelled before it drains.",
       "cancel", "unwind", "gone", "answer drain", "answer scope")  # fmt: skip
def single(m: Moment) -> bool | str:
    if m.label[0] == "answer":
        told, mark = story(m.past, m.label[1][1]), {"drain": "drained", "scope": "unscoped"}[m.label[1][0]]
    else:
        told, mark = m.told(), MARKS[m.label[1]]
    needs = {"drained": "cancel", "cancel": "build"}.get(mark)
    return told is not None and mark not in told.marks and (needs is None or needs in told.marks)


@claim("INV-18 handle gate", "A promise settles once, and after it resolved the caller's signal means nothing.",
       "resolve", "reject", "deactivate")  # fmt: skip
def handle_gate(m: Moment) -> bool | str:
    told = m.told()
    if m.label[1] == "deactivate":
        return told is not None and (m.label[3] != "caller" or "resolve" not in told.marks)
    return told is not None and "resolve" not in told.marks and "reject" not in told.marks


@claim("INV-19 driver gate", "No run starts before `agent/session-start` has been told.", "running", "hang")
def driver_gate(m: Moment) -> bool | str:
    told = m.told()
    return told is not None and ("ss" in told.marks or "resolve" in told.marks)


@claim(
    "INV-20 owner join",
    "A fiber ends when everything of it is gone; the provider also when every promise settled.",
    "unloaded",
)
def owner_join(m: Moment) -> bool | str:
    fiber = m.label[2]
    for told in m.past.stories:
        if told.verb in ("session", "agent"):
            continue
        settled = "gone" in told.marks and ("reject" in told.marks or "resolve" in told.marks)
        if fiber == PROVIDER and not settled:
            return f"{told.object} is left"
        if told.owner == ("fiber", fiber) and "gone" not in told.marks:
            return f"{told.object} is left"
    return True


@claim("INV-21 child first", "An agent leaves only when every agent that it owns is gone.", "detach", "agent/disposed")
def child_first(m: Moment) -> bool | str:
    parent = m.label[3] if m.label[1] == "detach" else m.label[2]
    return all(told.owner != ("agent", parent) or "gone" in told.marks for told in m.past.stories)


@claim("INV-22 ownership", "An agent enters with the agent whose scope owns its transaction.", "enter")
def ownership(m: Moment) -> bool | str:
    told = m.told(3)
    if told is None or m.label[2] != "agent":
        return told is not None
    owner = told.owner[1] if told.owner and told.owner[0] == "agent" else 0
    return [entry.owner for entry in m.after.core.agents if entry.object == told.object] == [owner]


@claim("INV-27 status", "An agent's status goes running, idle, running, …", "running", "idle")
def status(m: Moment) -> bool | str:
    told = m.told()
    return told is not None and (told.status == "running") == (m.label[1] == "idle")


@claim(
    "INV-30 initiator",
    "No run starts while the agents service closes, and it ends when none is left.",
    "running",
    "unloaded",
)
def initiator(m: Moment) -> bool | str:
    if m.label[1] == "running":
        return AGENTS not in m.past.closing
    return m.label[2] != AGENTS or not any(told.status == "running" for told in m.past.stories)


@claim("N-7 silent after the end", "An agent that has been drained does nothing any more.", "ghost")
def silent(m: Moment) -> bool | str:
    return False


@claim("N-8 no hang", "A refused wake leaves an idle agent idle.", "hang")
def no_hang(m: Moment) -> bool | str:
    return False


BY_KEY: dict[str, tuple[Rule, ...]] = {
    key: tuple(rule for rule in RULES if key in rule.keys) for key in {key for rule in RULES for key in rule.keys}
}
ALWAYS = tuple(rule for rule in RULES if not rule.keys)


def broken(before: Config[Creation], past: Past, label: Small, after: Config[Creation]) -> list[tuple[str, str]]:
    """The claims that a small step breaks, each with a reason."""
    found = []
    moment = Moment(before, past, label, after)
    for rule in (*ALWAYS, *BY_KEY.get(key_of(label), ())):
        answer = rule.judge(moment)
        if answer is not True:
            found.append((rule.name, answer or f"at {label}"))
    return found


# --- claims about states -------------------------------------------------------------------------------------


def unbroken(name: str) -> Callable[[Node], bool | str]:
    """The claim that no step so far has broken the claim of that name."""

    def holds(node: Node) -> bool | str:
        faults = node.memory.faults
        return True if not faults else next((reason for kept, reason in faults if kept == name), True)

    return holds


def registries_match(node: Node) -> bool | str:
    """INV-4 wherever a run pauses: the registries are what was entered and not detached."""
    past: Past = node.memory
    core: Creation = node.config.core
    for kind, kept in (("session", core.sessions), ("agent", core.agents)):
        expected = {(told.object, told.id) for told in past.stories if is_attached(told, kind)}
        if {(entry.object, entry.id) for entry in kept} != expected:
            return f"{kind} registry is {kept}, expected {sorted(expected)}"
    return True


def quiet_is_closed(node: Node) -> bool | str:
    """At rest every story is that of a live, undisturbed agent, or of somebody else's object that is attached."""
    if not is_quiet(node.config):
        return True
    for told in node.memory.stories:
        if told.verb in ("session", "agent"):
            if not is_attached(told, told.verb) or "asked" in told.marks:
                return f"{told} is not attached, or should have left"
        elif "resolve" not in told.marks or "gone" in told.marks or told.reason:
            return f"{told} is left"
        elif "latch" in told.marks and not told.status and AGENTS not in node.memory.closing:
            return f"the kept wake of {told} was lost"
    return True


INVARIANTS: tuple[Invariant[Node], ...] = (
    *(Invariant(rule.name, rule.sentence, unbroken(rule.name)) for rule in RULES),
    Invariant("INV-4 at rest", "The registries are what was entered and not detached.", registries_match),
    Invariant("LIV-1, LIV-2 at rest", "A quiet state holds live agents only: all else has settled.", quiet_is_closed),
)
