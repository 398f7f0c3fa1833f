"""The surroundings of the tool scheduler, as a system that can be explored.

The scheduler asks and waits; everything else is the environment's freedom: how calls are classified, at every
question anew; the size of the pool, at every group anew; what policy, bodies and post-execute answer, and in which
order bodies settle; when a body is reached; when the signal is aborted; which records are refused and which parts
of the machinery fail. `Freedom` says how much of it an exploration may use.

Labels name what happened, effect by effect:

| label | what |
|---|---|
| `append …`, `notify …`, `park …`, `leave …`, `refuse …` | the effect of one step of the machine |
| `answer <await point> <call> <answer>` | an await point was answered |
| `enter <call> <allowed>` | the wrappers of a dispatch reached its body |
| `lose <call>` | the window of `tools/execute` goes by without a dispatch |
| `abort` | the signal was aborted |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from loopspec.inbox import Ids
from loopspec.kernel.machine import Answer, Config, Effect, Machine
from loopspec.kernel.system import Label
from loopspec.profile import Law
from loopspec.scheduler import MACHINE, Batch, initial, is_question


class Freedom(NamedTuple):
    """What the environment may do. Everything listed may happen at every place where it makes sense.

    `caps`: the sizes the pool may have, chosen anew for every group. `finalise` lists whole answers; contexts
    follow where an answer has some. Aborts and failures are limited by the explorer's budgets.
    """

    calls: int
    caps: tuple[int, ...] = (1, 2, 3)
    prepare: tuple[str, ...] = ("dispatch", "post-result", "final-result")
    body: tuple[str, ...] = ("success", "failure", "final-result")
    finalise: tuple[Answer, ...] = (("accept", False, False),)
    late_entry: bool = False
    """Wrappers may wait before they reach the body; otherwise they reach it at once or never."""
    skips_body: bool = False
    """A wrapper may answer without ever reaching the body."""


EVERYTHING = Freedom(
    calls=2,
    prepare=("dispatch", "cancelled", "post-result", "final-result"),
    finalise=(
        ("accept", False, False),
        ("accept", False, True),
        ("accept", True, False),
        ("accept", True, True),
        ("block", False),
        ("block", True),
    ),
    late_entry=True,
    skips_body=True,
)
"""Every answer there is."""


class Scene(NamedTuple):
    """The scheduler, and what the environment remembers of its own doing."""

    config: Config[Batch]
    reached: Ids = ()
    """Dispatches in flight whose wrappers have reached the body, let in or not."""
    barred: Ids = ()
    """Those that were not let in."""
    lost: bool = False
    """The dispatch that is due now will not begin."""


class Scheduling:
    """One batch under one law, with the given freedom; budgets are `loopspec.kernel.budget`'s business."""

    def __init__(self, law: Law, freedom: Freedom, machine: Machine[Batch] = MACHINE) -> None:
        """`machine` may be a changed one: that is how mutants are explored."""
        self.law = law
        self.freedom = freedom
        self.machine = machine

    def initial(self) -> Iterator[Scene]:
        """Begin under a live signal, and under one that was aborted before (CW13)."""
        yield Scene(initial(self.law, self.freedom.calls))
        yield Scene(initial(self.law, self.freedom.calls, aborted=True))

    def moves(self, scene: Scene) -> Iterator[tuple[Label, Scene]]:
        """Everything that may happen next."""
        config = scene.config
        if not config.stack:
            yield from self._outside(scene)
            return
        top = config.stack[-1]
        if top.window != "closed" and not config.core.aborted:
            yield self._abort(scene)
        if top.frame[0] == "started" and not scene.lost:
            yield from self._dispatch(scene, top.frame[1])
            return
        move = self.machine.step(config)
        yield (move.verb, *move.effect), Scene(move.config, scene.reached, scene.barred)
        if move.verb == "append":
            refusal = self.machine.refuse(config)
            yield ("refuse", *refusal.effect), Scene(refusal.config, scene.reached, scene.barred)

    def _abort(self, scene: Scene) -> tuple[Label, Scene]:
        called = self.machine.call(scene.config, ("abort",))
        return ("abort",), scene._replace(config=self.machine.step(called).config)

    def _dispatch(self, scene: Scene, call: int) -> Iterator[tuple[Label, Scene]]:
        """Inside the window of `tools/execute`: the dispatch begins, may reach its body at once, or is lost."""
        config = scene.config
        if all(point != ("body", call) for point, _ in config.parked):
            begun = self.machine.step(self.machine.call(config, ("execute", call)))
            yield (begun.verb, *begun.effect), scene._replace(config=begun.config)
            yield ("lose", call), scene._replace(lost=True)
            return
        if call not in scene.reached:
            yield self._enter(scene, call)
            if not (self.freedom.late_entry or self.freedom.skips_body):
                return
        move = self.machine.step(config)
        yield (move.verb, *move.effect), scene._replace(config=move.config)

    def _enter(self, scene: Scene, call: int) -> tuple[Label, Scene]:
        move = self.machine.step(self.machine.call(scene.config, ("enter", call)))
        allowed = bool(move.effect[1])
        reached = tuple(sorted((*scene.reached, call)))
        barred = scene.barred if allowed else tuple(sorted((*scene.barred, call)))
        return ("enter", call, allowed), Scene(move.config, reached, barred)

    def _outside(self, scene: Scene) -> Iterator[tuple[Label, Scene]]:
        """No synchronous segment runs: await points are answered, bodies are reached, the signal is aborted."""
        config = scene.config
        if config.parked and not config.core.aborted:
            yield self._abort(scene)
        asked = [index for index, (point, _) in enumerate(config.parked) if is_question(point)]
        for index in asked or range(len(config.parked)):
            point = config.parked[index][0]
            if point[0] == "body" and point[1] not in scene.reached and self.freedom.late_entry:
                yield self._enter(scene, point[1])
            for answer in self._answers(scene, point):
                after = Scene(self.machine.resume(config, answer, index), scene.reached, scene.barred)
                if point[0] == "body":
                    after = after._replace(
                        reached=tuple([call for call in scene.reached if call != point[1]]),
                        barred=tuple([call for call in scene.barred if call != point[1]]),
                    )
                yield ("answer", *point[:2], *answer), after

    def _answers(self, scene: Scene, point: Effect) -> Iterable[Answer]:
        freedom, name = self.freedom, point[0]
        if name == "classify":
            return (("parallel",), ("exclusive",), ("throws",))
        if name == "cap":
            return (*(("cap", size) for size in freedom.caps), ("throws",))
        if name == "contexts":
            return (("done",), ("throws",))
        if name == "prepare":
            heard = ("dispatch", "final-result") if point[2] == "arguments" else freedom.prepare
            return (*((said,) for said in heard), ("throws",))
        if name == "body":
            return self._settlements(scene, point[1])
        if point[2] == "success":
            return (*freedom.finalise, ("throws",))
        return (*(answer for answer in freedom.finalise if answer[0] == "block" or not answer[1]), ("throws",))

    def _settlements(self, scene: Scene, call: int) -> Iterable[Answer]:
        """A body that was not let in leaves `barred`, unless a wrapper makes something else of it."""
        if call in scene.barred:
            return (("barred",), *((said,) for said in self.freedom.body if self.freedom.skips_body), ("rejects",))
        if call not in scene.reached and not self.freedom.skips_body:
            return (("rejects",),)
        return (*((said,) for said in self.freedom.body), ("rejects",))


def cost(label: Label) -> str | None:
    """What a move spends of the explorer's budgets: one `abort`, or one `failure` of the machinery."""
    if label == ("abort",):
        return "abort"
    if label[0] in ("refuse", "lose") or label[-1] in ("throws", "rejects"):
        return "failure"
    return None


def without_law(scene: Scene) -> Scene:
    """The same scene with the law's name in the place of the law: what a digest can be taken of."""
    core = scene.config.core
    return scene._replace(config=scene.config._replace(core=core.put(law=repr(core.law))))
