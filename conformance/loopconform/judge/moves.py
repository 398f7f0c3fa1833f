"""The moves of a point: what the law lets happen next, seen or unseen.

A label is what an adapter must report when the move is made; an empty one belongs to a move that nobody sees.

| label | the reply that fits |
|---|---|
| `("record", effect)` | `record` |
| `("live", effect)` | `live` |
| `("foreign", type)` | a `record` that an operation appended |
| `("entry", entry)`, `("fold", due)` | a `record` that the slice policy appended |
| `("end", request, op, result)` | `returned` or `raised` |
"""

from __future__ import annotations

from collections.abc import Iterator

from loopconform.judge.answers import Answers
from loopconform.judge.changes import HIDDEN, Label, Step, after_record, ended_at_once, with_settings, without
from loopconform.judge.points import Block, Frame, Point
from loopspec.driver import barred, is_quiet
from loopspec.kernel.machine import Effect, Operation, log_is_locked
from loopspec.loop import Loop, log_is_busy, runs

RETURNED: Effect = ("return", None)
ANYHOW: Effect = ("anyhow",)
"""The result of an operation that is not the loop's: it may return or throw."""

WORDS = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan"), "-0": -0.0}
PRESETS = {"followup": ("next-turn", True), "steer": ("next-step", True), "inject": ("next-step", False)}
CALL_BLOCK = "tool-call"


class Moves(Answers):
    """The moves of one agent's points, under one composition of machines."""

    def of(self, point: Point) -> Iterator[Step]:
        """Every move. While a segment runs there is hardly a choice; else whatever can be answered may be."""
        top = point.frames[-1] if point.frames else None
        if top is not None and top.state == "ended":
            yield from self._ended(point, top)
            return
        if top is not None and top.state == "ready":
            yield from self._begin(point, top)
            return
        if runs(point.loop):
            yield from self._steps(point)
            return
        if top is None:
            yield from self._starts(point)
            yield from self._answers(point)

    def is_settled(self, point: Point) -> bool:
        """Nothing can happen any more without a release or a request. A disposal that only may come is none."""
        if point.doomed == "perhaps":
            point = point._replace(doomed="no")
        return next(self.of(point), None) is None and not point.frames and not point.blocks

    # -- operations

    def _ended(self, point: Point, top: Frame) -> Iterator[Step]:
        after = top._replace(next=top.next + 1, state="ready", height=0, result=())
        rest = point.frames[:-1] if after.next == len(after.ops) else (*point.frames[:-1], after)
        if len(point.frames) == 1 and point.loop.driver.waiting and runs(point.loop):
            yield from self._steps(point)  # what has waited begins before the outermost call returns, or after
        done = point._replace(frames=rest)
        if top.request:
            yield ("end", top.request, top.ops[top.next], top.result), done
        elif top.result[0] == "raise":
            yield HIDDEN, self._contexts_taken(done._replace(frames=point.frames[:-1]), ("throws",))
        else:
            yield HIDDEN, done if rest else self._contexts_taken(done, ("done",))

    def _begin(self, point: Point, top: Frame) -> Iterator[Step]:
        """The next operation of a tick begins."""
        if top.request == 0:
            operation: Operation = ("splice", "next-step", float("inf"), 0, (top.ops[top.next],))
            yield from self._call(point, operation)
            return
        op = self.book.ops[top.request, top.ops[top.next]]
        kind = op.op
        if kind in ("send", *PRESETS):
            target, wakes = (op.target, op.wakeup) if kind == "send" else PRESETS[kind]
            yield from self._send(point, self.book.number(op.message), target, wakes)
        elif kind == "cancel":
            yield from self._call(point, ("cancel", op.cause, op.keep_inbox))
        elif kind == "maintenance":
            yield from self._call(point, ("maintain",))
        elif kind == "remove":
            yield from self._call(point, ("remove", self.book.number(op.message)))
        elif kind == "replace":
            yield from self._call(point, ("replace", self.book.number(op.message), self.book.number(op.by)))
        elif kind == "clear":
            yield from self._call(point, ("clear_inbox",))
        elif kind == "splice":
            start, count = (WORDS[n] if isinstance(n, str) else n for n in (op.start, op.delete_count))
            inserted = tuple(self.book.number(id) for id in op.messages)
            yield from self._call(point, ("splice", op.target, start, count, inserted))
        elif kind == "dispose" and point.doomed != "yes" and (top.request, top.ops[top.next]) not in self.book.vain:
            yield from self._call(point._replace(doomed="yes"), ("cancel", "disposed", False))
        elif kind == "append":
            yield from self._append(point, op.type)
        else:
            facts = with_settings(point.facts, op)
            result = RETURNED if kind == "when-idle" else ANYHOW
            yield HIDDEN, ended_at_once(point._replace(facts=facts), result)
            if facts.tools != point.facts.tools and self._is_listing(point):
                facts = facts._replace(listed=tuple(name for name, _ in facts.tools))
                yield HIDDEN, ended_at_once(point._replace(facts=facts), result)

    def _is_listing(self, point: Point) -> bool:
        """Prompt assembly has begun, and may not have looked at the tools yet: it does so before its waterfall."""
        begun = any(at == ("assembly",) for at, _ in point.loop.driver.parked)
        return begun and ("assembly", "") not in point.arrived

    def _send(self, point: Point, message: int, target: str, wakes: bool) -> Iterator[Step]:
        if wakes and point.gate != "open":
            point = point._replace(gate="latched")
            wakes = False
        yield from self._call(point, ("send", message, target, wakes))

    def _call(self, point: Point, operation: Operation) -> Iterator[Step]:
        is_publishing = self._is_publishing(point)
        if not self.machine.may_call(point.loop) and not (is_publishing and not point.loop.driver.stack):
            return
        law = point.loop.driver.core.law
        may_be_drained = (point.doomed == "yes" or self.unpublished) and is_quiet(point.loop.driver)
        may_be_drained = may_be_drained and operation[:2] != ("cancel", "disposed")
        if law.disposed_agent_is_silent and may_be_drained:
            # N-7: whether it has been drained by now is the creation judge's affair.
            yield HIDDEN, ended_at_once(point, ("raise", "disposed"))
        loop = self.machine.call(point.loop, operation, is_publishing)
        if len(loop.driver.stack) == len(point.loop.driver.stack):  # it waits for the log
            yield HIDDEN, ended_at_once(point._replace(loop=loop), RETURNED)
            return
        running = point.frames[-1]._replace(state="running", height=len(loop.driver.stack))
        yield HIDDEN, point._replace(loop=loop, frames=(*point.frames[:-1], running))

    def _append(self, point: Point, type: str) -> Iterator[Step]:
        """Somebody else's record: refused while another is being published (L-LOG-3).

        A session leaves its registry when that publication is over (C-REGS-5): whoever hears of its end may append.
        """
        is_locked = log_is_locked(point.loop.driver) or log_is_busy(point.loop) or self._is_publishing(point)
        if is_locked and not self.unpublished:
            yield HIDDEN, ended_at_once(point, ("raise", "refused"))
            return
        refused, point = self._vetoed(point, type)
        if refused:
            yield HIDDEN, ended_at_once(point, ("raise", "refused"))
        else:
            yield HIDDEN if self.unpublished else ("foreign", type), ended_at_once(point, RETURNED)

    def _is_publishing(self, point: Point) -> bool:
        """L-LOG-3  What runs is an observer of somebody else's record, which an operation has appended."""
        under_way = (frame for frame in point.frames[:-1] if frame.request and frame.state == "ended")
        kinds = (
            self.book.ops[frame.request, frame.ops[frame.next]].op for frame in under_way if frame.result == RETURNED
        )
        return "append" in kinds

    def _vetoed(self, point: Point, type: str) -> tuple[bool, Point]:
        """A record of this type is about to be published: is it refused? One that is not counts for every veto."""
        due = next((one for one in point.vetoes if one[1] == 1 and self.book.vetoes[one[0]].record == type), None)
        if due is not None:
            return True, point._replace(vetoes=without(point.vetoes, due))
        left = [(id, nth - (self.book.vetoes[id].record == type)) for id, nth in point.vetoes]
        return False, point._replace(vetoes=tuple(left))

    def _starts(self, point: Point) -> Iterator[Step]:
        """The gate of the driver opens, for a kept wake at once; ticks that were asked for begin; so may a disposal."""
        if point.starting:
            loop = point.loop
            if point.gate == "latched":
                loop = self.machine.call(loop, ("wake", False, ("answer", None)))
            yield HIDDEN, point._replace(loop=loop, gate="open", starting=False)
            return
        for at, block in enumerate(point.blocks):
            rest = point._replace(blocks=point.blocks[:at] + point.blocks[at + 1 :])
            if block.ops:
                if block.release is not None:
                    rest = rest._replace(blocks=(Block(block.request, (), block.release), *rest.blocks))
                yield HIDDEN, rest._replace(frames=(Frame(block.request, block.ops),))
            elif block.release is not None:
                yield HIDDEN, rest._replace(released=(*rest.released, (block.release, block.request)))
        if point.doomed == "perhaps":
            loop = self.machine.call(point.loop, ("cancel", "disposed", False))
            yield HIDDEN, point._replace(loop=loop, doomed="yes")

    # -- steps of the machine

    def _boundary(self, point: Point) -> Point:
        """C-REE-6, N-8  A closing scope refuses the start of a driver: before anything of it, or after its status."""
        if not self.closing:
            return point
        return point._replace(loop=point.loop._replace(driver=barred(point.loop.driver)))

    def _steps(self, point: Point) -> Iterator[Step]:
        point = self._boundary(point)
        move, after = self.machine.step(point.loop)
        verb, effect = move.verb, move.effect
        if verb == "append":
            is_refused, point = self._vetoed(point, effect[0])
            if is_refused:
                _, refused = self.machine.refuse(point.loop)
                yield HIDDEN, point._replace(loop=refused)
                return
            label: Label = HIDDEN if self.unpublished else ("record", effect)
            yield label, point._replace(loop=after, facts=after_record(point.facts, effect, self._is_v4))
        elif verb == "notify":
            yield from self._notified(point, effect, after)
        else:
            facts = point.facts
            if verb == "park" and effect == ("assembly",):
                facts = facts._replace(listed=tuple(name for name, _ in facts.tools))
            told = self._left(point._replace(loop=after, facts=facts), verb, effect)
            if verb == "leave" and effect[:2] == ("raise", "busy") and told.frames == point.frames:
                # A job that waited for the log has found the agent busy: its promise rejects.
                told = told._replace(facts=facts._replace(worked=(*facts.worked, "refused")))
            yield HIDDEN, told

    @property
    def _is_v4(self) -> bool:
        return self.book.opening.session_format == 4

    def _left(self, point: Point, verb: str, effect: Effect) -> Point:
        """After a park or leave: the operation that ran in that activation has ended."""
        if verb not in ("park", "leave") or not point.frames:
            return point
        top = point.frames[-1]
        if top.state != "running" or len(point.loop.driver.stack) >= top.height:
            return point
        result = effect if verb == "leave" and effect[0] in ("return", "raise") else RETURNED
        if top.request and self.book.ops[top.request, top.ops[top.next]].op == "dispose":
            result = RETURNED  # L-DSP-4: it is the promise that tells of a refusal
        return point._replace(frames=(*point.frames[:-1], top._replace(state="ended", result=result)))

    def _notified(self, point: Point, effect: Effect, after: Loop) -> Iterator[Step]:
        name = effect[0]
        facts = point.facts
        if name == "agent/assistant-stream" and effect[1] == "chunk":
            facts = facts._replace(stream=(*facts.stream, facts.chunk))
        told = point._replace(loop=after, facts=facts)
        if name == "tools/execute":
            begun = self._dispatched(told, effect[1])
            yield HIDDEN, begun
            yield from self._enter(begun, effect[1])
            return
        heard = "signal/abort" if name == "abort" else name
        if heard in self.book.events:
            yield ("live", effect), told
        if heard not in self.book.events or heard in self.book.partial:
            yield HIDDEN, told

    def _dispatched(self, point: Point, call: int) -> Point:
        batch = point.loop.batch
        assert batch is not None
        begun = self.machine.schedules.step(self.machine.schedules.call(batch, ("execute", call)))
        return point._replace(loop=point.loop._replace(batch=begun.config))
