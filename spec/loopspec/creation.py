"""Creation: the create and resume transactions, from the call to a live agent or to nothing.

    refuse?  →  (load)  →  prepare  →  mint the scope, build the agent  →  setup, commit
    →  enter session, enter agent  →  session/created  →  agent/created  →  agent/session-start
    →  resolve  →  start the driver  →  live  →  teardown (`loopspec.teardown`)

From outside come the operations

| operation | rules |
|---|---|
| `create`, `create_now`, `resume` `<number> <id> <owner> <flaw>` | C-TXN-*, C-SYN-*, C-RES-* |
| `abort`, `dispose`, `release` `<number>`; `unload <fiber>` | C-ABT-*, C-HND-*, C-OWN-* (`loopspec.teardown`) |
| `join` | C-OWN-1 (`loopspec.fibers`) |
| `wake`, `rest` `<number>`; `await <number> <owner>` | C-TXN-15, C-TDN-5, C-REE-2 |
| `register`, `withdraw`, `announce_again`, `append`, `escape` | C-REGA-*, C-REGS-* (`loopspec.registry`) |

and answers to the await points; `answers` tells which of them are possible at a moment.

| await point | answers |
|---|---|
| `load <number>` | `loaded`, `missing`, `deactivated` |
| `setup <number>` | `settles`, `throws`, `deactivated` |
| `agent/created <number>` | `done`, `throws` (only where the law awaits it) |
| `live <number>` | `teardown` |
| `drain`, `scope`, `rollback`, `tick`, `unload`, `boundaries` | `done`, when `teardown.is_over` says so |

`flaw` is what is wrong with the inputs, as far as the machine needs to know: `seed` (the seed or the header is
refused), `options`, `aborted` (the signal was, before the call), `no-persistence`; or empty.

After `notify` of `mint`, `commit`, `session/created` and `agent/created`, and of any other event whose dispatch
itself failed, the operation `escape` tells that an error came out.
"""

from __future__ import annotations

from loopspec import registry, teardown
from loopspec.kernel.machine import (
    Answer,
    Config,
    Effect,
    Frame,
    Machine,
    Outcome,
    Rules,
    go,
    leave,
    note,
    notify,
    park,
)
from loopspec.profile import Law
from loopspec.registry import is_free
from loopspec.transaction import (
    AGENTS,
    PROVIDER,
    Creation,
    FiberState,
    Owner,
    Transaction,
    Verb,
    find,
    is_busy,
    is_gone,
    member,
    owner_agent,
    owner_state,
    with_member,
)

rules = Rules(teardown.rules)

TEXTS: dict[str, str] = {
    "no-factory": "no agent factory registered (load an agent-loop plugin)",
    "no-persistence": "cannot resume: session persistence is not configured (load a dsh-session-persistence backend)",
    "inactive-owner": "cannot create effect on inactive context",
    "provider": "agent loop is not active",
    "owner": 'agent "<id>" setup aborted: owner disposed during setup',
    "teardown": 'agent "<id>" lifecycle disposed',
    "caller": 'agent "<id>" creation aborted',
    "session-exists": 'session "<id>" already exists',
    "agent-exists": 'agent "<id>" is already registered',
    "not-found": 'session "<id>" not found',
    "live": 'cannot prepare session "<id>" while it is live',
    "not-live": '<kind> "<id>" is not live in this <registry>',
    "already-announced": '<kind> "<id>" was already announced',
    "append-reenters": "session append cannot reenter while another append is being published",
    "initiator-closed": "agent initiator scope is disposed",
    "disposed": 'agent "<id>" is disposed',
    "disposal": 'agent "<id>" disposal failed',
}
"""The text of each refusal that has one (section 22.2). The others pass an error on: `seed`, `options`, `mint`,
`setup`, `commit`, `created` and `vetoed`. `caller` is the text only for an abort whose reason is no error (C-ABT-1)."""


# --- guards --------------------------------------------------------------------------------------------------


def refusal(s: Creation, verb: Verb, id: int, owner: Owner, flaw: str) -> str:
    """Why a call is refused before anything is built, in the order of the checks; empty when it is not.

    C-RES-3, C-RES-4: a live id is found by the load, after the owners were looked at. C-SYN-1: A1 to C10, no A0.
    """
    return (
        (refusal_by_factory(s) if verb != "create_now" else "")
        or (refusal_by_inputs(s, id, flaw) if verb != "resume" else refusal_of_resume(flaw))
        or ("inactive-owner" if owner_state(s, owner) == "gone" else "")
        or ("provider" if s.fibers[PROVIDER] != "active" else "")
        or ("caller" if flaw == "aborted" else "")
        or ("inactive-owner" if owner_state(s, owner) == "unloading" else "")
        or ("live" if verb == "resume" and not is_free(s, "session", id) else "")
    )


def refusal_by_factory(s: Creation) -> str:
    """C-TXN-A0, C-FAC-2, C-FAC-6  F1: the slot clears when the provider is gone, or the service itself."""
    return "no-factory" if s.fibers[PROVIDER] == "gone" or s.fibers[AGENTS] == "gone" else ""


def refusal_by_inputs(s: Creation, id: int, flaw: str) -> str:
    """C-TXN-A1, C-TXN-A3  F2 to F5: the session store alone is asked for the id, before anything else."""
    if not is_free(s, "session", id):
        return "session-exists"
    return flaw if flaw in ("seed", "options") else ""


def refusal_of_resume(flaw: str) -> str:
    """C-RES-2, C-ABT-2  No backend; else an aborted signal, which keeps it untouched."""
    return {"no-persistence": flaw, "aborted": "caller"}.get(flaw, "")


def holds_reservation(s: Creation, number: int, id: int) -> bool:
    """C-RES-7  Another resume has loaded this id and its outcome is open: the backend lets nobody else have it."""
    return any(
        t.id == id and t.verb == "resume" and t.number != number and t.scope != "none" and t.public == "pending"
        for t in s.members
    )


def is_gated(s: Creation, t: Transaction) -> bool:
    """N-1, INV-19  The driver has not been started yet, so that a wake must be kept."""
    return t.driver in ("shut", "latched")


def refuses_boundary(s: Creation) -> bool:
    """C-INI-7  The agents service is closing: no new initiator boundary opens, so no driver starts."""
    return s.fibers[AGENTS] != "active"


def answers(s: Creation, point: Effect) -> tuple[Answer, ...]:
    """What an await point may be answered with now. Empty while what it waits for has not happened.

    A setup or load that settled before the deactivation may still be answered after it (C-TXN-B2, F16).
    """
    name = point[0]
    if name == "setup":
        late: tuple[Answer, ...] = (("deactivated",),) if member(s, point[1]).reason else ()
        return (("settles",), ("throws",), *late)
    if name == "load":
        t = member(s, point[1])
        late = (("deactivated",),) if t.reason else ()
        if holds_reservation(s, t.number, t.id):
            return late
        return (("loaded",), ("missing",), *late)
    if name == "agent/created":
        return (("done",), ("throws",))
    if name == "live":
        return (("teardown",),) if member(s, point[1]).reason else ()
    return (("done",),) if teardown.is_over(s, point) else ()


# --- from the call to the scope ------------------------------------------------------------------------------


@rules("create")
def create(s: Creation, number: int, id: int, owner: Owner, flaw: str) -> Outcome[Creation]:
    """C-TXN-A0 to C-TXN-A7  Refused without a trace, or on its way with its teardown and owner effect installed."""
    return go(s, ("begin", "create", number, id, owner, flaw))


@rules("create_now")
def create_now(s: Creation, number: int, id: int, owner: Owner, flaw: str) -> Outcome[Creation]:
    """C-SYN-1  The synchronous create: the same, without setup, commit and signal, in one segment."""
    return go(s, ("begin", "create_now", number, id, owner, flaw))


@rules("resume")
def resume(s: Creation, number: int, id: int, owner: Owner, flaw: str) -> Outcome[Creation]:
    """C-RES-1  The same, with the session from storage."""
    return go(s, ("begin", "resume", number, id, owner, flaw))


@rules("begin")
def begin(s: Creation, verb: Verb, number: int, id: int, owner: Owner, flaw: str) -> Outcome[Creation]:
    """C-INP-6, C-TXN-A7  A refused call never was; an accepted one can be torn down before it has anything."""
    why = refusal(s, verb, id, owner, flaw)
    if why:
        return leave(s, ("reject", number, why))
    begun = s.put(members=(*s.members, Transaction(number, id, owner, verb)))
    if verb == "resume":
        return note(begun, ("own", number, id), ("load", number, flaw == "options"))
    return note(begun, ("prepare", number, id), ("mint", number))


@rules("load")
def load(s: Creation, number: int, has_bad_options: bool) -> Outcome[Creation]:
    """C-RES-3  The load races the caller's signal, the owner and the provider."""
    return park(s, ("load", number), ("loaded", number, has_bad_options))


@rules("loaded")
def loaded(s: Creation, number: int, has_bad_options: bool, answer: Answer) -> Outcome[Creation]:
    """C-RES-3 to C-RES-7, C-ABT-9  Deactivation wins; a loser's late result is released by the interpreter.

    C-INP-5: the options are looked at behind the load (A3).
    """
    t = member(s, number)
    if answer[0] == "deactivated" or t.reason:
        return go(s, ("fail", number, t.reason))
    if answer[0] == "missing":
        return go(s, ("fail", number, "not-found"))
    if not is_free(s, "session", t.id):
        return go(s, ("fail", number, "live"))
    if has_bad_options:
        return go(s, ("fail", number, "options"))
    return note(s, ("prepare", number, t.id), ("mint", number))


@rules("mint")
def mint(s: Creation, number: int) -> Outcome[Creation]:
    """C-TXN-A8  The scope is minted under the provider; observers of its fiber run while the agent is built."""
    return notify(with_member(s, member(s, number), scope="open"), ("mint", number), ("minted", number))


@rules("minted")
def minted(s: Creation, number: int) -> Outcome[Creation]:
    """C-TXN-A8, C-RBK-4, F10, F11  The agent stands, its driver not started; or building it has failed."""
    if s.threw:
        return go(s.put(threw=False), ("fail", number, "mint"))
    driver = "shut" if s.law.driver_waits_for_publication else "idle"
    built = with_member(s, member(s, number), driver=driver)
    return note(built, ("build", number), ("compose", number))


# --- composition ---------------------------------------------------------------------------------------------


@rules("compose")
def compose(s: Creation, number: int) -> Outcome[Creation]:
    """C-TXN-A9, F12, C-SYN-1  Check; then setup begins inside the call, if this verb has one."""
    t = member(s, number)
    if t.reason:
        return go(s, ("fail", number, t.reason))
    if t.verb == "create_now":
        return go(s, ("publish", number))
    return notify(s, ("setup", number), ("await_setup", number))


@rules("await_setup")
def await_setup(s: Creation, number: int) -> Outcome[Creation]:
    """C-TXN-B1, C-TXN-14  Always an await, even of no setup at all. A synchronous throw is answered like a late one."""
    return park(s.put(threw=False), ("setup", number), ("composed", number))


@rules("composed")
def composed(s: Creation, number: int, answer: Answer) -> Outcome[Creation]:
    """C-TXN-B1, C-TXN-B2, F13, F14, F16  Raced against deactivation; between a settled setup and commit no check."""
    if answer[0] == "throws":
        return go(s, ("fail", number, "setup"))
    if answer[0] == "deactivated":
        return go(s, ("fail", number, member(s, number).reason))
    return notify(s, ("commit", number), ("committed", number))


@rules("committed")
def committed(s: Creation, number: int) -> Outcome[Creation]:
    """C-TXN-B2, F15  A throwing commit is a failure."""
    if s.threw:
        return go(s.put(threw=False), ("fail", number, "commit"))
    return go(s, ("publish", number))


# --- publication: no await from here to `live`, unless the law awaits `agent/created` --------------------------


def check(s: Creation, number: int, then: Frame) -> Outcome[Creation]:
    """C-ABT-7, INV-9  A liveness check: go on, or fail with the reason of the deactivation."""
    reason = member(s, number).reason
    return go(s, ("fail", number, reason) if reason else then)


@rules("publish")
def publish(s: Creation, number: int) -> Outcome[Creation]:
    """C-TXN-C1, INV-7"""
    return check(s, number, ("enter_session", number))


@rules("enter_session")
def enter_session(s: Creation, number: int) -> Outcome[Creation]:
    """C-TXN-C2, F17  The session store arbitrates first."""
    t = member(s, number)
    occupied = ("fail", number, "session-exists")
    return go(s, ("enter", "session", number, t.id, 0, ("enter_agent", number), occupied))


@rules("enter_agent")
def enter_agent(s: Creation, number: int) -> Outcome[Creation]:
    """C-TXN-C3, F18  Then the agents registry, with the owner agent."""
    t = member(s, number)
    occupied = ("fail", number, "agent-exists")
    return go(s, ("enter", "agent", number, t.id, owner_agent(t), ("announce_session", number), occupied))


@rules("announce_session")
def announce_session(s: Creation, number: int) -> Outcome[Creation]:
    """C-TXN-C4, C-TXN-11, F19  Both registries hold the pair when the first listener hears of it."""
    return go(s, ("announce", "session", number, ("session_announced", number), ("fail", number, "created")))


@rules("session_announced")
def session_announced(s: Creation, number: int) -> Outcome[Creation]:
    """C-TXN-C5, F20"""
    return check(s, number, ("announce_agent", number))


@rules("announce_agent")
def announce_agent(s: Creation, number: int) -> Outcome[Creation]:
    """C-TXN-C6, F21"""
    return go(s, ("announce", "agent", number, ("agent_announced", number), ("fail", number, "created")))


@rules("agent_announced")
def agent_announced(s: Creation, number: int) -> Outcome[Creation]:
    """C-TXN-C7, F22"""
    if s.law.created_is_awaited:
        return check(s, number, ("resolve", number))
    return check(s, number, ("announce_start", number))


@rules("announce_start")
def announce_start(s: Creation, number: int) -> Outcome[Creation]:
    """C-TXN-C8, F23  A notice that cannot veto."""
    return notify(s, ("agent/session-start", number), ("start_announced", number))


@rules("start_announced")
def start_announced(s: Creation, number: int) -> Outcome[Creation]:
    """C-TXN-C9, F24, F25  The last check; published loops let a failed dispatch of the notice through."""
    calm = s.put(threw=False)
    if s.threw and not s.law.start_notice_is_contained:
        return go(calm, ("fail", number, "created"))
    return check(calm, number, ("resolve", number))


@rules("resolve")
def resolve(s: Creation, number: int) -> Outcome[Creation]:
    """C-TXN-C10, C-ABT-5, INV-18  The handle becomes visible and the signal means nothing any more."""
    resolved = with_member(s, member(s, number), public="resolved")
    return note(resolved, ("resolve", number), ("start_driver", number))


@rules("start_driver")
def start_driver(s: Creation, number: int) -> Outcome[Creation]:
    """C-TXN-15, N-1  Only then start the driver; a wake that was kept runs now, in front of any later one."""
    t = member(s, number)
    if not is_gated(s, t):
        return go(s, ("live", number))
    following = ("run", number, ("live", number)) if t.driver == "latched" else ("live", number)
    return note(with_member(s, t, driver="idle"), ("start", number), following)


@rules("live")
def live(s: Creation, number: int) -> Outcome[Creation]:
    """C-OWN-1  A live agent, until an owner asks for its end."""
    return park(s, ("live", number), ("close", number))


@rules("close")
def close(s: Creation, number: int, answer: Answer) -> Outcome[Creation]:
    """C-OWN-8  The same road as that of a failed creation."""
    return go(s, ("tear_down", number, ""))


# --- the driver, summed up -----------------------------------------------------------------------------------


@rules("wake")
def wake(s: Creation, number: int) -> Outcome[Creation]:
    """C-TXN-15, C-TDN-6, C-TDN-17  Waking input: kept before the start, ignored while busy, refused after the end."""
    t = find(s, number)
    if t is None or t.driver == "drained":
        if s.law.disposed_agent_is_silent:
            return leave(s, ("raise", "disposed"))
        return notify(s, ("ghost", number), ("ghost_ran",))
    if t.driver == "shut" and not t.cancelled:
        return note(with_member(s, t, driver="latched"), ("latch", number), ("answer", None))
    if t.driver == "idle":
        return go(s, ("run", number, ("answer", None)))
    return leave(s, ("return", None))


@rules("run")
def run(s: Creation, number: int, then: Frame) -> Outcome[Creation]:
    """C-INI-5, C-REE-6, N-8  A driver runs inside an initiator boundary, and not at all when that is refused."""
    t = member(s, number)
    if not refuses_boundary(s):
        return notify(with_member(s, t, driver="busy"), ("running", number), ("ran", then))
    if s.law.closing_wake_is_refused_whole:
        return go(s, ("boundary_refused", then))
    return note(with_member(s, t, driver="hung"), ("hang", number), ("boundary_refused", then))


@rules("boundary_refused")
def boundary_refused(s: Creation, then: Frame) -> Outcome[Creation]:
    """C-INI-7  The waking call raises; at the start of the driver there is no caller to tell."""
    return leave(s, ("raise", "initiator-closed")) if then[0] == "answer" else go(s, then)


@rules("ran")
def ran(s: Creation, then: Frame) -> Outcome[Creation]:
    """C-DSP-4  Status listeners are contained."""
    return go(s.put(threw=False), then)


@rules("ghost_ran")
def ghost_ran(s: Creation) -> Outcome[Creation]:
    """C-TDN-17  Published loops only: a run on a detached log."""
    return leave(s.put(threw=False), ("return", None))


@rules("rest")
def rest(s: Creation, number: int) -> Outcome[Creation]:
    """C-TDN-5, INV-27  The interpreter's report that a run has ended; a listener may wake the agent at once (R-40)."""
    t = member(s, number)
    assert may_rest(s, t)
    return notify(with_member(s, t, driver="idle", awaits=()), ("idle", number), ("ran", ("answer", None)))


@rules("await")
def await_(s: Creation, number: int, owner: Owner) -> Outcome[Creation]:
    """C-REE-2, C-REE-3, N-9  The running activity of an agent waits for the end of an agent or a fiber."""
    t = member(s, number)
    assert t.driver == "busy"
    return note(with_member(s, t, awaits=owner), ("await", number, owner), ("answer", None))


def may_rest(s: Creation, t: Transaction) -> bool:
    """A run may end, unless it waits for something that has not ended."""
    if t.driver != "busy":
        return False
    if not t.awaits:
        return True
    return is_gone(s, t.awaits[1]) if t.awaits[0] == "agent" else s.fibers[t.awaits[1]] == "gone"


def open_dispatch(frame: Frame) -> Effect:
    """`(event, number)` of the dispatch that the rule of this frame ends, if its failure matters; else empty."""
    names = {
        "minted": "mint",
        "committed": "commit",
        "start_announced": "agent/session-start",
        "heard_cancel": "cancel",
    }
    return (names[frame[0]], frame[1]) if frame[0] in names else registry.open_dispatch(frame)


def is_quiet(config: Config[Creation]) -> bool:
    """Nothing runs, no agent is busy, and nothing waits but live agents for their end."""
    calm = all(point[0] == "live" and not answers(config.core, point) for point, _ in config.parked)
    return not config.stack and calm and not any(is_busy(t) for t in config.core.members)


MACHINE: Machine[Creation] = Machine(rules)


def initial(law: Law, callers: int = 1) -> Config[Creation]:
    """Empty registries; the agents service, the provider and so many callers' fibers active."""
    active: FiberState = "active"
    return Config(Creation(law=law, fibers=(active,) * (2 + callers)))
