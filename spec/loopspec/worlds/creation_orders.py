"""Creation with fewer orders: what nobody can notice comes first.

Many answers of a teardown commute with everything else: whether a rollback is told to its caller before or after some
other transaction moves on makes no difference to either. Such an answer is *unnoticed*, and where there is one
`FewOrders` offers nothing else. That leaves states out, and no verdict: every run of the whole can be rearranged into
one that takes unnoticed answers first, and what a bystander has seen broken stays in its memory. What has to be true
for that is checked move by move in a whole graph by `unsound`: an unnoticed answer stays possible and unnoticed
whatever else happens, and leads to the same state before and after it. (Budgets make every graph acyclic, so nothing
is put off for ever.)
"""

from __future__ import annotations

from collections.abc import Iterator

from loopspec.kernel.machine import Effect
from loopspec.kernel.system import Label
from loopspec.teardown import owes_cancel
from loopspec.transaction import Creation, children_of, member
from loopspec.worlds.creation_symmetry import OneName, canonical
from loopspec.worlds.creation_world import CreationWorld
from loopspec.worlds.world import Node


def has_children(core: Creation, number: int) -> bool:
    """Some transaction that is not gone is owned by this agent."""
    return bool(children_of(core, number))


def is_awaited(core: Creation, number: int) -> bool:
    """Another transaction has yet to enter under the same id, so that it matters when this one leaves."""
    id = member(core, number).id
    entered = {entry.object for entry in core.agents}
    return any(t.id == id and t.number != number and not t.gone and t.number not in entered for t in core.members)


class FewOrders(OneName):
    """One state of each class of names, and of the orders that nobody can tell apart only one."""

    def moves(self, node: Node) -> Iterator[tuple[Label, Node]]:
        """The first unnoticed answer alone, or every move."""
        found = next(self.unnoticed(node), None)
        if found is None:
            yield from super().moves(node)
        else:
            yield found[1], canonical(found[2])

    def unnoticed(self, node: Node) -> Iterator[tuple[Effect, Label, Node]]:
        """The answers of a state that nobody can notice: the point, the label, and the state after it, not renamed."""
        config = node.config
        if config.stack:
            return
        for index, (point, _) in enumerate(config.parked):
            if self.may_be_unnoticed(node, point):
                for answer, _ in self.environment.answers(config.core, point):
                    label, after = self.whole(self.answered(node, index, answer))
                    if not after.config.stack:
                        yield point, label, after

    def may_be_unnoticed(self, node: Node, point: Effect) -> bool:
        """Nobody can notice when this point is answered, if no listener can call in the segment that follows.

        A rollback is over for everybody but its caller. An agent that was cancelled when its end was asked for goes
        on to its drain. When nothing is created any more, a drain without children only begins the unwinding of a
        scope, and that only ends in leaving the registries, where nobody waits for the id.
        """
        name, core = point[0], node.config.core
        if name == "rollback":
            return True
        if name == "live":
            t = member(core, point[1])
            return t.begun and not owes_cancel(t)
        if name not in ("drain", "scope") or node.left[self._index["creates"]]:
            return False
        number = point[1]
        return not has_children(core, number) and (name == "drain" or not is_awaited(core, number))


# --- whether that is sound -----------------------------------------------------------------------------------


def segments(system: FewOrders, node: Node) -> Iterator[Node]:
    """Every state at rest after one move and whatever listeners do in it, not renamed."""
    for _, after in CreationWorld.moves(system, node):
        if after.config.stack:
            yield from segments(system, after)
        else:
            yield after


def unsound(system: FewOrders, node: Node) -> str:
    """Why it is wrong to let an unnoticed answer of this state go first; an empty text when it is right.

    Whatever else happens in the state, the same answer must be possible, and unnoticed, afterwards; and both orders
    must lead to the same states.
    """
    for point, _, first in system.unnoticed(node):
        sooner = {canonical(after) for after in segments(system, first)}
        for other in segments(system, node):
            if other == first:
                continue
            found = [after for again, _, after in system.unnoticed(other) if again == point]
            if not found:
                return f"{point} is not possible, or noticed, after something else has happened: {other}"
            if canonical(found[0]) not in sooner:
                return f"{point} leads elsewhere after something else than before it: {other}"
    return ""
