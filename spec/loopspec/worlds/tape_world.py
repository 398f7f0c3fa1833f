"""A host around the tape: turns with tool calls, snapshots, steering, compaction, cancels, crashes and resumes.

The host keeps its order: a turn opens, the inbox is claimed, the pre-step chain runs, only then the claimed messages
join the surface and a request is sent. It may be cancelled while the decision is awaited and again between seal and
request, and it may crash between any two moves, the appends of one seal included; what a crash leaves open, resume
closes as interrupted. Beside the surface the world keeps what the last request showed, for the claims.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from loopspec.kernel.machine import Config, state
from loopspec.kernel.system import Label
from loopspec.tape.machine import MACHINE, Cell, Tape, Uid

Phase = Literal["idle", "deciding", "sealing", "entered", "streaming", "tools", "answered"]


@state
class Budgets(NamedTuple):
    """How often each thing may still happen. `losses` are results that never come, `reuses` calls under a used id."""

    turns: int = 4
    snapshots: int = 2
    steering: int = 1
    compactions: int = 1
    resumes: int = 1
    cancels: int = 0
    losses: int = 0
    reuses: int = 0
    long: int = 0

    def put(self, **changes: Any) -> Budgets:
        """A copy with some fields changed."""
        return self._replace(**changes)


@state
class Host(NamedTuple):
    """One moment. `shown` are the messages of the last request; `foreign` says that the host rewrote history since.

    `before` are the messages right before the seal of this pre-step. `cut` is the position of the first message that
    was sealed since the last request, -1 while none was.
    """

    config: Config[Tape]
    left: Budgets
    phase: Phase = "idle"
    turn: int = 0
    step: int = 0
    pending: tuple[Cell, ...] = ()
    open_calls: tuple[str, ...] = ()
    shown: tuple[Uid, ...] = ()
    shown_turn: int = 0
    foreign: bool = False
    before: tuple[Uid, ...] = ()
    cut: int = -1
    exposed: tuple[Uid, ...] = ()
    """Long results that a request may have shown, for all that the log says: no later process folds them (FD-02)."""
    mounted: bool = True
    forgets: bool = True
    """What can matter to nobody any more is left out. A graph that is compared with another one keeps it."""

    def put(self, **changes: Any) -> Host:
        """A copy with some fields changed."""
        return self._replace(**changes)

    @property
    def tape(self) -> Tape:
        """The machine's state."""
        return self.config.core

    @property
    def messages(self) -> tuple[Uid, ...]:
        """What a request sent now would show."""
        return tuple(cell.uid for cell in self.config.core.cells)


Move = tuple[Label, Host]

HEAD = Cell(("system",), "system")


class TapeHost:
    """The system to explore. `keep` and `cap` are settings of the policy; `calls` is made in each turn's first step."""

    def __init__(
        self,
        budgets: Budgets,
        keep: int = 0,
        cap: int | None = None,
        calls: int = 2,
        by_multiset: bool = True,
        any_range: bool = False,
        late: bool = False,
        forgets: bool = True,
    ) -> None:
        """`any_range` lets a compaction take any stretch, `late` mounts the policy between two turns only (RE-63)."""
        self.forgets = forgets
        self.budgets = budgets
        self.any_range = any_range
        self.late = late
        self.keep = keep
        self.cap = cap
        self.calls = calls
        self.by_multiset = by_multiset

    def initial(self) -> Iterator[Host]:
        """An empty session with its prompt."""
        tape = Tape((HEAD,), keep=self.keep, cap=self.cap, by_multiset=self.by_multiset)
        yield Host(Config(tape), self.budgets, mounted=not self.late, forgets=self.forgets)

    def moves(self, s: Host) -> Iterator[Move]:
        """What the host may do."""
        match s.phase:
            case "idle":
                if not s.mounted:
                    yield "mount", s.put(mounted=True)
                yield from _opens(s)
                yield from self._compacts(s)
            case "deciding":
                yield from _decides(s)
            case "sealing":
                yield from _seals(s)
            case "entered":
                yield from _enters(s)
            case "streaming":
                yield from self._answers(s)
            case "tools":
                yield from _returns(s)
            case "answered":
                yield from _goes_on(s)
                yield from self._compacts(s)
        yield from _crashes(s)

    def _answers(self, s: Host) -> Iterator[Move]:
        """Tool calls in a first step, under fresh ids or one id twice; a text that ends the turn afterwards."""
        if s.step > 1:
            spoken = _appended(s, Cell(("reply", s.turn), "assistant", s.turn))
            yield "reply", _ended(spoken)
            return
        fresh = tuple(f"c{number}" for number in range(self.calls))
        yield ("calls", self.calls), _called(s, fresh)
        if s.left.reuses and self.calls > 1:
            left = s.left.put(reuses=s.left.reuses - 1)
            yield ("calls", "one id"), _called(s.put(left=left), ("c0",) * self.calls)

    def _compacts(self, s: Host) -> Iterator[Move]:
        """The host puts a summary in the place of a stretch behind the prompt, while no batch is open (TP-42).

        The stretch consists of whole turns, as they begin with their human messages; or of anything (RE-25).
        """
        if not s.left.compactions:
            return
        left = s.left.put(compactions=s.left.compactions - 1)
        cells = s.tape.cells
        edges = [at for at in range(1, len(cells) + 1) if self.any_range or at == len(cells) or _opens_turn(cells[at])]
        for number, first in enumerate(edges):
            for after in edges[number + 1 :]:
                rest = (*cells[:first], Cell(("summary",), "context", s.turn, late=True), *cells[after:])
                done = _with_tape(s, s.tape.put(cells=rest)).put(left=left, foreign=True, shown=())
                yield ("compact", first, after - 1), _forgotten(done)


def _opens_turn(cell: Cell) -> bool:
    return bool(cell.uid[0] == "human")


def _with_tape(s: Host, tape: Tape) -> Host:
    return s.put(config=Config(tape))


def _appended(s: Host, cell: Cell) -> Host:
    return _with_tape(s, s.tape.put(cells=(*s.tape.cells, cell.put(late=True))))


def _opens(s: Host) -> Iterator[Move]:
    """A turn with its prompt, perhaps with a new snapshot; or a snapshot by itself between turns (RE-09)."""
    if s.left.turns:
        left = s.left.put(turns=s.left.turns - 1)
        turn = s.turn + 1
        human = Cell(("human", turn), "human", turn)
        snapshot = Cell(("snapshot", 2 * turn), "snapshot", turn)
        opened = _with_tape(s, s.tape.put(aborted=False)).put(phase="deciding", turn=turn, step=1)
        yield "turn", _pre_step(opened.put(left=left, pending=(human,)))
        if left.snapshots:
            left = left.put(snapshots=left.snapshots - 1)
            yield "turn with snapshot", _pre_step(opened.put(left=left, pending=(human, snapshot)))
    if s.left.snapshots:
        snapshot = Cell(("snapshot", 2 * s.turn + 1), "snapshot", s.turn)
        if all(cell.uid != snapshot.uid for cell in s.tape.cells):
            left = s.left.put(snapshots=s.left.snapshots - 1)
            yield "snapshot", _appended(s, snapshot).put(left=left)


def _pre_step(s: Host) -> Host:
    """The chain begins; the machine waits for the decision downstream. Without the policy nothing happens."""
    if not s.mounted:
        return s.put(phase="entered")
    renewed = any(cell.kind == "snapshot" for cell in s.pending)
    config = MACHINE.call(Config(s.tape), ("pre-step", s.step, renewed))
    return s.put(config=MACHINE.step(config).config, phase="deciding", before=())


def _decides(s: Host) -> Iterator[Move]:
    yield "enter", s.put(config=MACHINE.resume(s.config, ("enter",)), phase="sealing", before=s.messages)
    if s.left.cancels and not s.tape.aborted:
        left = s.left.put(cancels=s.left.cancels - 1)
        config = s.config._replace(core=s.tape.put(aborted=True))
        yield "cancel in pre-step", s.put(config=config, left=left)


def _seals(s: Host) -> Iterator[Move]:
    """One effect of the policy at a time."""
    move = MACHINE.step(s.config)
    after = s.put(config=move.config)
    if move.verb != "leave":
        if move.effect[0] == "entry" and s.cut < 0:
            after = after.put(cut=s.before.index(move.effect[1]))
        yield (move.effect[0], *move.effect[1:]), after
        return
    after = _with_tape(after, move.config.core)
    if move.effect == ("return", "enter"):
        yield "entered", after.put(phase="entered")
    else:
        yield ("left", *move.effect), _ended(after, exposes=move.effect[0] == "raise")


def _enters(s: Host) -> Iterator[Move]:
    """The claimed messages join, and the request is sent; or a cancel comes first, and they are lost (RE-04)."""
    joined = s
    for cell in s.pending:
        joined = _appended(joined, cell)
    cells = tuple(cell.put(seen=True) if cell.kind == "result" else cell for cell in joined.tape.cells)
    sent = _with_tape(joined, joined.tape.put(cells=cells))
    yield (
        "request",
        sent.put(
            phase="streaming", pending=(), shown=sent.messages, shown_turn=s.turn, foreign=False, before=(), cut=-1
        ),
    )
    if s.left.cancels:
        yield "cancel before request", _ended(s.put(left=s.left.put(cancels=s.left.cancels - 1)), exposes=True)


def _called(s: Host, ids: tuple[str, ...]) -> Host:
    asked = _appended(s, Cell(("calls", s.turn), "assistant", s.turn, calls=ids))
    return asked.put(phase="tools", open_calls=ids)


def _returns(s: Host) -> Iterator[Move]:
    """The next result, short or long; a notice of a plugin between them (RE-15); or no result any more (RE-16)."""
    number = sum(cell.kind == "result" and cell.owner == s.turn and cell.late for cell in s.tape.cells)
    result = Cell(("result", s.turn, number), "result", s.turn, answers=s.open_calls[:1])
    rest = s.open_calls[1:]
    phase: Phase = "tools" if rest else "answered"
    yield "result", _appended(s, result).put(open_calls=rest, phase=phase)
    if s.left.long:
        left = s.left.put(long=s.left.long - 1)
        yield (
            "long result",
            _appended(s, result.put(long=True)).put(open_calls=rest, phase=phase, left=left),
        )
    if s.left.steering:
        left = s.left.put(steering=s.left.steering - 1)
        yield "notice", _appended(s, Cell(("notice",), "context", s.turn)).put(left=left)
    if s.left.losses:
        yield "results lost", _ended(s.put(left=s.left.put(losses=s.left.losses - 1)), exposes=True)


def _goes_on(s: Host) -> Iterator[Move]:
    """The second step, perhaps with a message that steers it."""
    second = s.put(step=2, pending=())
    yield "next step", _pre_step(second)
    if s.left.steering:
        left = s.left.put(steering=s.left.steering - 1)
        yield "steered step", _pre_step(second.put(left=left, pending=(Cell(("steer",), "human", s.turn),)))


def _crashes(s: Host) -> Iterator[Move]:
    """The process dies; another one takes the log up, closes what was open and remembers nothing (TP-45).

    What is folded after that is what the log says no request has shown (FD-02).
    """
    if not s.left.resumes:
        return
    left = s.left.put(resumes=s.left.resumes - 1)
    closed = s if s.phase == "idle" else _ended(s, exposes=True)
    cells = tuple(cell.put(long=cell.long and cell.uid not in closed.exposed) for cell in closed.tape.cells)
    tape = closed.tape.put(cells=cells, warned=(), aborted=False)
    yield "crash and resume", _forgotten(_with_tape(closed, tape).put(left=left, exposed=()))


def _ended(s: Host, exposes: bool = False) -> Host:
    """`turn/end`, however it came to it: what was written until now is from then on settled.

    `exposes`: the turn failed, was aborted or interrupted, so that a request may have shown all that is there.
    """
    cells = tuple(cell.put(late=False, long=cell.long and not cell.seen) for cell in s.tape.cells)
    tape = s.tape.put(cells=cells, largest_ended=max(s.tape.largest_ended, s.turn), aborted=False)
    waiting = tuple(cell.uid for cell in cells if cell.long)
    exposed = tuple(uid for uid in waiting if exposes or uid in s.exposed) if s.left.resumes else ()
    ended = _with_tape(s, tape).put(phase="idle", step=0, pending=(), open_calls=(), before=(), exposed=exposed)
    return _forgotten(ended)


def _forgotten(s: Host) -> Host:
    """The same moment without what in front of an entry can matter to nobody any more.

    Human messages, notices, summaries and older entries are protected wherever they stand, so once an entry follows
    them only a compaction could touch them. When there is none to come, and the last request agrees up to that entry,
    they are left out of both alike. Snapshots and raw work stay: only the frozen prefix protects them.
    """
    if s.left.compactions or not s.forgets:
        return s
    cells, shown = s.tape.cells, s.shown
    limit = len(cells) if s.foreign else _agreed(cells, shown)
    last = max((at for at in range(limit) if cells[at].kind == "entry"), default=0)
    gone = {at for at in range(1, last) if cells[at].kind in ("human", "context", "entry")}
    if not gone:
        return s
    kept = tuple(cell for at, cell in enumerate(cells) if at not in gone)
    open_keys = {cell.uid for cell in cells[last:]}
    warned = tuple(key for key in s.tape.warned if key[0] in open_keys)
    short = _with_tape(s, s.tape.put(cells=kept, warned=warned))
    if s.foreign:
        return short
    still = tuple(uid for at, uid in enumerate(shown) if at not in gone)
    return short.put(shown=still, cut=s.cut if s.cut < 0 else s.cut - len(gone))


def _agreed(cells: tuple[Cell, ...], shown: tuple[Uid, ...]) -> int:
    """How many messages of the last request are still in place."""
    count = 0
    for cell, uid in zip(cells, shown, strict=False):
        if cell.uid != uid:
            break
        count += 1
    return count
