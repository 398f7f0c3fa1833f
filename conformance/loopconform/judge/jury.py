"""Several judges of one agent, one for each log that its session may have begun with after a crash."""

from __future__ import annotations

from typing import Any

from loopconform.judge.logged import LoggedJudge
from loopconform.judge.verdict import Found


class Jury:
    """Does what a `LoggedJudge` does, as long as one of its judges can explain what is seen."""

    def __init__(self, judges: list[LoggedJudge]) -> None:
        """`judges`: at least one; the fault of the first is told when all of them have one."""
        self._judges = judges
        self.jobs = judges[0].jobs
        for judge in judges[1:]:
            judge.jobs = self.jobs

    @property
    def moves(self) -> Any:
        """Those of the first judge."""
        return self._judges[0].moves

    @property
    def chronicle(self) -> Any:
        """The longest log that is still possible."""
        return self._judges[0].chronicle

    @property
    def ghosts(self) -> Any:
        """See `LoopJudge`."""
        return self._judges[0].ghosts

    @ghosts.setter
    def ghosts(self, ghosts: Any) -> None:
        for judge in self._judges:
            judge.ghosts = list(ghosts)

    def __getattr__(self, name: str) -> Any:
        """Ask all of them; whoever finds a fault has begun with the wrong log."""

        def ask(*arguments: Any) -> Any:
            answers, faults = [], []
            kept: list[LoggedJudge] = []
            for judge in self._judges:
                try:
                    answers.append(getattr(judge, name)(*arguments))
                except Found as found:
                    faults.append(found)
                else:
                    kept.append(judge)
            if not kept:
                raise faults[0]
            self._judges = kept
            return any(answers) if isinstance(answers[0], bool) else answers[0]

        return ask
