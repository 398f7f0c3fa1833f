"""What the reference harness said to a case, and the same with something wrong in it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from loopconform.adapters.python_reference.serve import hello
from loopconform.protocol.case import Case, load_case
from loopconform.protocol.replies import CLOSING, REPLY
from loopconform.runner.channel import AdapterError, Channel, opener
from loopconform.runner.play import Player
from loopconform.runner.results import Result

HAND = Path("conformance/cases/hand")
Body = dict[str, Any]
Run = list[list[Body]]
"""The replies to each request of a program."""


class Recorded:
    """A channel that says again what was said."""

    def __init__(self, run: Run) -> None:
        self._replies = [hello(0)]
        self._run = run
        self._asked = -1

    def request(self, id: int, request: Any) -> None:
        """The replies to the next request are due."""
        if id:
            self._asked += 1
            if self._asked < len(self._run):
                self._replies += [REPLY.validate_python(body) for body in self._run[self._asked]]

    def reply(self, timeout: float) -> Any:
        """The next one."""
        if not self._replies:
            raise AdapterError("nothing more was recorded")
        return self._replies.pop(0)

    def early(self) -> Any:
        """Nothing is early."""
        return None

    def abandon(self) -> None:
        """Nobody waits."""

    def close(self) -> None:
        """Nothing to close."""


class _Recorder:
    """A channel that remembers what goes through it."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.run: Run = []
        self._shift = 0

    def request(self, id: int, request: Any) -> None:
        """Pass on."""
        if request.verb == "open":
            self.run = []
            self._shift = id - 1
        if id:
            self.run.append([])
        self._channel.request(id, request)

    def reply(self, timeout: float) -> Any:
        """Pass on."""
        return self._kept(self._channel.reply(timeout))

    def early(self) -> Any:
        """Pass on."""
        reply = self._channel.early()
        return None if reply is None else self._kept(reply)

    def _kept(self, reply: Any) -> Any:
        if self.run:
            body = reply.model_dump(mode="json")
            if "id" in body:
                body["id"] -= self._shift
            replies = self.run[-1]
            if replies and replies[-1]["type"] in ("ok", "settled"):  # it came early: the next request hears it
                replies.insert(len(replies) - 1, body)
            else:
                replies.append(body)
        return reply

    def abandon(self) -> None:
        """Pass on."""
        self._channel.abandon()

    def close(self) -> None:
        """Pass on."""
        self._channel.close()


class Studio:
    """The reference harness with a recorder."""

    def __init__(self, backend: Any = "asyncio") -> None:
        self._recorder = _Recorder(opener("python-reference", backend)())
        self._player = Player(lambda: self._recorder)

    def record(self, case: Case, profile: str) -> tuple[Result, Run]:
        """Play a case; what came of it, and what was said."""
        result = self._player.play(case, profile)
        return result, self._recorder.run

    def close(self) -> None:
        """End the harness."""
        self._player.close()


def judged(case: Case, profile: str, run: Run) -> Result:
    """The judge's verdict about a recording."""
    return Player(lambda: Recorded(run)).play(case, profile)


def hand(id: str) -> Case:
    """A hand-written case."""
    return load_case(HAND / f"{id}.json")


def normalised(run: Run) -> Run:
    """The same with minted ids renamed by first appearance."""
    names: dict[str, str] = {}

    def renamed(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: renamed(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [renamed(item) for item in value]
        if key == "id" and isinstance(value, str) and len(value) == 36:
            return names.setdefault(value, f"minted-{len(names)}")
        return value

    return [[renamed(body) for body in replies] for replies in run]


def windows(run: Run) -> list[tuple[list[Body], list[str]]]:
    """A recording by settle windows: the total order of what happened, and who arrived or settled, as a set.

    When a request was closed, and whether a hook arrived before that, says nothing.
    """
    found: list[tuple[list[Body], list[str]]] = [([], [])]
    for body in (body for replies in normalised(run) for body in replies):
        if body["type"] in ("gate", "fulfilled", "rejected"):
            found[-1][1].append(json.dumps(body, sort_keys=True))
        elif body["type"] != "ok":
            if body["type"] == "settled":
                body["parked"].sort(key=lambda one: json.dumps(one, sort_keys=True))
            found[-1][0].append(body)
        if body["type"] == "settled":
            found.append(([], []))
    return [(order, sorted(arrivals)) for order, arrivals in found]


# -- what may be wrong --------------------------------------------------------------------------------------------

Change = Callable[[Run], Run]


def places(run: Run, *types: str) -> Iterator[tuple[int, int]]:
    """Where messages of these types are."""
    for at, replies in enumerate(run):
        for index, body in enumerate(replies):
            if body["type"] in types:
                yield at, index


def without(run: Run, at: int, index: int) -> Run:
    """One message is missing."""
    changed = [list(replies) for replies in run]
    del changed[at][index]
    return changed


def doubled(run: Run, at: int, index: int) -> Run:
    """One message comes twice."""
    changed = [list(replies) for replies in run]
    changed[at].insert(index, changed[at][index])
    return changed


def swapped(run: Run, at: int, index: int) -> Run | None:
    """A message changes places with the next one of the same request."""
    changed = [list(replies) for replies in run]
    replies = changed[at]
    if index + 1 >= len(replies) or isinstance(REPLY.validate_python(replies[index + 1]), CLOSING):
        return None
    replies[index], replies[index + 1] = replies[index + 1], replies[index]
    return changed


def altered(run: Run, at: int, index: int, *path: Any, to: Any) -> Run:
    """One value of a message is another."""
    changed = copy.deepcopy(run)
    part: Any = changed[at][index]
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = to
    return changed
