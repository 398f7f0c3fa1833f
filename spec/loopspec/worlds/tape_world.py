"""A host around the tape: turns with tool calls, snapshots, steering, compaction, cancels, crashes and resumes.

The host keeps its order: a turn opens, the inbox is claimed, the pre-step chain runs, only then the claimed messages
join the surface and a request is sent. It may be cancelled while the decision is awaited and again between seal and
request, and it may crash between any two moves, the appends of one seal included; what a crash leaves open, resume
closes as interrupted. Beside the surface the world keeps what the last request showed, for the claims.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from loopspec.kernel.machine import Config
from loopspec.kernel.system import Label
from loopspec.tape.machine import MACHINE, Cell, Tape, Uid

Phase = Literal["idle", "deciding", "sealing", "entered", "streaming", "tools", "answered"]


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
    ) -> None:
        self.budgets = budgets
        self.any_range = any_range
        self.keep = keep
        self.cap = cap
        self.calls = calls
        self.by_multiset = by_multiset

    def initial(self) -> Iterator[Host]:
        """An empty session with its prompt."""
        tape = Tape((HEAD,), keep=self.keep, cap=self.cap, by_multiset=self.by_multiset)
        yield Host(Config(tape), self.budgets)

    def moves(self, s: Host) -> Iterator[Move]:
        """What the host may do."""
        match s.phase:
            case "idle":
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
            left = s.left._replace(reuses=s.left.reuses - 1)
            yield ("calls", "one id"), _called(s._replace(left=left), ("c0",) * self.calls)

    def _compacts(self, s: Host) -> Iterator[Move]:
        """The host puts a summary in the place of a stretch behind the prompt, while no batch is open (TP-42).

        The stretch consists of whole turns, as they begin with their human messages; or of anything (RE-25).
        """
        if not s.left.compactions:
            return
        left = s.left._replace(compactions=s.left.compactions - 1)
        cells = s.tape.cells
        edges = [at for at in range(1, len(cells) + 1) if self.any_range or at == len(cells) or _opens_turn(cells[at])]
        for number, first in enumerate(edges):
            for after in edges[number + 1 :]:
                rest = (*cells[:first], Cell(("summary",), "context", late=True), *cells[after:])
                done = _with_tape(s, s.tape.put(cells=rest))._replace(left=left, foreign=True, shown=())
                yield ("compact", first, after - 1), _forgotten(done)


def _opens_turn(cell: Cell) -> bool:
    return cell.uid[0] == "human"


def _with_tape(s: Host, tape: Tape) -> Host:
    return s._replace(config=Config(tape))


def _appended(s: Host, cell: Cell) -> Host:
    return _with_tape(s, s.tape.put(cells=(*s.tape.cells, cell._replace(late=True))))


def _opens(s: Host) -> Iterator[Move]:
    """A turn with its prompt, perhaps with a new snapshot; or a snapshot by itself between turns (RE-09)."""
    if s.left.turns:
        left = s.left._replace(turns=s.left.turns - 1)
        turn = s.turn + 1
        human = Cell(("human", turn), "human")
        snapshot = Cell(("snapshot", 2 * turn), "snapshot", turn)
        opened = _with_tape(s, s.tape.put(aborted=False))._replace(phase="deciding", turn=turn, step=1)
        yield "turn", _pre_step(opened._replace(left=left, pending=(human,)))
        if left.snapshots:
            left = left._replace(snapshots=left.snapshots - 1)
            yield "turn with snapshot", _pre_step(opened._replace(left=left, pending=(human, snapshot)))
    if s.left.snapshots:
        snapshot = Cell(("snapshot", 2 * s.turn + 1), "snapshot", s.turn)
        if all(cell.uid != snapshot.uid for cell in s.tape.cells):
            left = s.left._replace(snapshots=s.left.snapshots - 1)
            yield "snapshot", _appended(s, snapshot)._replace(left=left)


def _pre_step(s: Host) -> Host:
    """The chain begins; the machine waits for the decision downstream."""
    renewed = any(cell.kind == "snapshot" for cell in s.pending)
    config = MACHINE.call(Config(s.tape), ("pre-step", s.step, renewed))
    return s._replace(config=MACHINE.step(config).config, phase="deciding", before=())


def _decides(s: Host) -> Iterator[Move]:
    yield "enter", s._replace(config=MACHINE.resume(s.config, ("enter",)), phase="sealing", before=s.messages)
    if s.left.cancels and not s.tape.aborted:
        left = s.left._replace(cancels=s.left.cancels - 1)
        config = s.config._replace(core=s.tape.put(aborted=True))
        yield "cancel in pre-step", s._replace(config=config, left=left)


def _seals(s: Host) -> Iterator[Move]:
    """One effect of the policy at a time."""
    move = MACHINE.step(s.config)
    after = s._replace(config=move.config)
    if move.verb != "leave":
        if move.effect[0] == "entry" and s.cut < 0:
            after = after._replace(cut=s.before.index(move.effect[1]))
        yield (move.effect[0], *move.effect[1:]), after
        return
    after = _with_tape(after, move.config.core)
    if move.effect == ("return", "enter"):
        yield "entered", after._replace(phase="entered")
    else:
        yield ("left", *move.effect), _ended(after)


def _enters(s: Host) -> Iterator[Move]:
    """The claimed messages join, and the request is sent; or a cancel comes first, and they are lost (RE-04)."""
    joined = s
    for cell in s.pending:
        joined = _appended(joined, cell)
    cells = tuple(cell._replace(seen=True) if cell.kind == "result" else cell for cell in joined.tape.cells)
    sent = _with_tape(joined, joined.tape.put(cells=cells))
    yield (
        "request",
        sent._replace(
            phase="streaming", pending=(), shown=sent.messages, shown_turn=s.turn, foreign=False, before=(), cut=-1
        ),
    )
    if s.left.cancels:
        yield "cancel before request", _ended(s._replace(left=s.left._replace(cancels=s.left.cancels - 1)))


def _called(s: Host, ids: tuple[str, ...]) -> Host:
    asked = _appended(s, Cell(("calls", s.turn), "assistant", s.turn, calls=ids))
    return asked._replace(phase="tools", open_calls=ids)


def _returns(s: Host) -> Iterator[Move]:
    """The next result, short or long; a notice of a plugin between them (RE-15); or no result any more (RE-16)."""
    number = sum(cell.kind == "result" and cell.owner == s.turn and cell.late for cell in s.tape.cells)
    result = Cell(("result", s.turn, number), "result", s.turn, answers=s.open_calls[:1])
    rest = s.open_calls[1:]
    phase: Phase = "tools" if rest else "answered"
    yield "result", _appended(s, result)._replace(open_calls=rest, phase=phase)
    if s.left.long:
        left = s.left._replace(long=s.left.long - 1)
        yield (
            "long result",
            _appended(s, result._replace(long=True))._replace(open_calls=rest, phase=phase, left=left),
        )
    if s.left.steering:
        left = s.left._replace(steering=s.left.steering - 1)
        yield "notice", _appended(s, Cell(("notice",), "context"))._replace(left=left)
    if s.left.losses:
        yield "results lost", _ended(s._replace(left=s.left._replace(losses=s.left.losses - 1)))


def _goes_on(s: Host) -> Iterator[Move]:
    """The second step, perhaps with a message that steers it."""
    second = s._replace(step=2, pending=())
    yield "next step", _pre_step(second)
    if s.left.steering:
        left = s.left._replace(steering=s.left.steering - 1)
        yield "steered step", _pre_step(second._replace(left=left, pending=(Cell(("steer",), "human"),)))


def _crashes(s: Host) -> Iterator[Move]:
    """The process dies; another one takes the log up, closes what was open and remembers nothing (TP-45)."""
    if not s.left.resumes:
        return
    left = s.left._replace(resumes=s.left.resumes - 1)
    tape = s.tape.put(warned=(), aborted=False)
    resumed = _with_tape(s, tape)._replace(left=left)
    yield "crash and resume", resumed if s.phase == "idle" else _ended(resumed)


def _ended(s: Host) -> Host:
    """`turn/end`, however it came to it: what was written until now is from then on settled."""
    cells = tuple(cell._replace(late=False, long=cell.long and not cell.seen) for cell in s.tape.cells)
    tape = s.tape.put(cells=cells, largest_ended=max(s.tape.largest_ended, s.turn), aborted=False)
    ended = _with_tape(s, tape)._replace(phase="idle", step=0, pending=(), open_calls=(), before=())
    return _forgotten(ended)


def _forgotten(s: Host) -> Host:
    """The same moment without the part of the frozen prefix that nothing can bring back any more.

    What stands between the prompt and an entry can matter again only if the entry goes, and only a compaction takes
    entries away. Once there is none to come, and the last request agrees up to the entry, both are shortened alike.
    """
    if s.left.compactions:
        return s
    cells, shown = s.tape.cells, s.shown
    uids = tuple(cell.uid for cell in cells)
    agreed = next((at for at, (mine, theirs) in enumerate(zip(uids, shown, strict=False)) if mine != theirs), None)
    limit = len(uids) if s.foreign else min(len(uids), len(shown)) if agreed is None else agreed
    last = max((at for at in range(limit) if cells[at].kind == "entry"), default=0)
    if last <= 1:
        return s
    kept = {cell.uid for cell in cells[last:]}
    warned = tuple(key for key in s.tape.warned if key[0] in kept)
    short = _with_tape(s, s.tape.put(cells=(cells[0], *cells[last:]), warned=warned))
    if s.foreign:
        return short
    return short._replace(shown=(shown[0], *shown[last:]), cut=s.cut if s.cut < 0 else s.cut - last + 1)
