"""Where a fault answers otherwise than the law: the cases in which it can be seen at all.

The rules and guards are pure. So every case is played once on the sound harness, and at each question every fault of
that function is asked too, beside it: the cases in which its answer differs are those worth playing with it in place.
A fault that answers the same in every case cannot fail one.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from loopconform.mutants.patch import Fault, faulty, original_of, places_of
from loopconform.protocol.case import Case
from loopconform.runner.channel import InsideChannel

MOST = 40
"""Cases that are remembered of one fault; then it is asked no more."""


class Ear:
    """Asks the faults of each function beside it, while a case is played or a machine is explored.

    `differs`: by fault the names under which it answered otherwise; `asked`: how often it was asked at all.
    """

    def __init__(self, faults: Iterable[Fault], most: int = MOST) -> None:
        """`most`: names that are remembered of one fault."""
        by_function: dict[Any, list[tuple[Fault, Any]]] = defaultdict(list)
        self.differs: dict[str, list[str]] = {}
        self.asked: dict[str, int] = {}
        self._case = ""
        self._busy = False
        self._setters: list[tuple[Callable[[Any], None], Any, Any]] = []
        places: dict[Any, Fault] = {}
        for fault in faults:
            original = original_of(fault)
            if "." in fault.target or inspect.iscoroutinefunction(original) or not fault.module.startswith("loopspec."):
                continue  # not pure: it cannot be asked beside the sound one
            by_function[original].append((fault, faulty(fault, original)))
            places.setdefault(original, fault)
            self.differs[fault.id], self.asked[fault.id] = [], 0
        for original, wrong in by_function.items():
            asking = self._asking(original, wrong, most)
            for put in places_of(places[original], original):
                self._setters.append((put, original, asking))

    def _asking(self, original: Any, wrong: list[tuple[Fault, Any]], most: int) -> Any:
        def asking(*arguments: Any) -> Any:
            answer = original(*arguments)
            if not self._case or self._busy:
                return answer  # what a fault asks in its turn is no state of the law
            self._busy = True
            for fault, function in list(wrong):
                known = self.differs[fault.id]
                if known and known[-1] == self._case:
                    continue
                if len(known) >= most:
                    wrong.remove((fault, function))
                    continue
                self.asked[fault.id] += 1
                try:
                    same = function(*arguments) == answer
                except Exception:
                    same = False
                if not same and not (known and known[-1] == self._case):
                    known.append(self._case)
            self._busy = False
            return answer

        return asking

    @contextmanager
    def listening(self, name: str) -> Iterator[None]:
        """Inside this block the faults are asked beside the law; what differs is remembered under this name."""
        for put, _, asking in self._setters:
            put(asking)
        self._case = name
        try:
            yield
        finally:
            self._case = ""
            for put, original, _ in self._setters:
                put(original)

    def play(self, channel: InsideChannel, case: Case, profile: str) -> None:
        """Play a case on the sound harness, and listen. Nobody judges."""
        program = [case.opening.model_copy(update={"profile": profile}), *case.program[1:]]
        with self.listening(f"{case.id}@{profile}"):
            for at, request in enumerate(program, 1):
                channel.request(at, request)
                while channel.early() is not None:
                    pass
