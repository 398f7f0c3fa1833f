"""A program for operations at a place of a story."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from loopconform.grid.scenarios import Json, Scenario
from loopconform.protocol.requests import REQUEST

SETTLE: Json = {"verb": "settle"}
ROUNDS = 2
"""How often a gate is released after the operations: it may be reached again."""


class Place(NamedTuple):
    """Where something happens: `before` the story or `after` it, `inside` a dispatch, or `at` a gate; or nothing
    happens at all, and the story is told `alone`.

    `kind` and `name` are those of the dispatch (`record` or `live`), or the gate's; `nth` counts them.
    """

    where: Literal["alone", "before", "after", "inside", "at"]
    kind: str = ""
    name: str = ""
    nth: int = 1

    @property
    def slug(self) -> str:
        """A piece of a case's id."""
        if self.where in ("alone", "before", "after"):
            return self.where
        name = self.name.replace("/", "-")
        number = f"-{self.nth}" if self.nth > 1 else ""
        return f"{'in' if self.where == 'inside' else 'at'}-{name}{number}"

    @property
    def words(self) -> str:
        """The same in words."""
        if self.where in ("alone", "before", "after"):
            return f"{self.where} it"
        count = "" if self.nth == 1 else f" number {self.nth}"
        return f"inside {self.name}{count}" if self.where == "inside" else f"at the gate {self.name}"


def program(story: Scenario, place: Place, ops: Sequence[Json], creates: bool) -> tuple[Any, ...]:
    """The requests of one case. `creates`: the story itself creates its agents."""
    return tuple(REQUEST.validate_python(request) for request in _requests(story, place, ops, creates))


def _requests(story: Scenario, place: Place, ops: Sequence[Json], creates: bool) -> Iterator[Json]:
    yield opening(story, (place.name,) if place.where == "at" else ())
    if not creates:
        yield {"verb": "do", "ops": [{"op": "create"}]}
        yield SETTLE
    yield from story.plans
    now: Json = {"verb": "do", "ops": list(ops)}
    if place.where == "before":
        yield {"verb": "do", "ops": [*ops, *story.start]}
        yield SETTLE
        return
    if place.where == "inside":
        on: Json = {place.kind: place.name}
        if place.nth > 1:
            on["nth"] = place.nth
        yield {"verb": "react", "on": on, "ops": list(ops)}
    if story.start:
        yield {"verb": "do", "ops": list(story.start)}
        yield SETTLE
    if place.where == "after":
        yield now
        yield SETTLE
    elif place.where == "at":
        yield now
        yield SETTLE
        for _ in range(ROUNDS):
            yield from released(story, place.name)


def released(story: Scenario, gate: str) -> Iterator[Json]:
    """Let go whoever stands at a gate, with the usual outcome."""
    if gate == "chunk":
        block = {"type": "block-end", "index": 0, "block": {"type": "text", "text": "ok"}}
        yield {"verb": "release", "gate": gate, "outcome": {"kind": "chunk", "chunk": block}}
        yield SETTLE
        yield {"verb": "release", "gate": gate, "outcome": {"kind": "end"}}
        yield SETTLE
        return
    keys = _keys(story, gate)
    outcome = {"kind": "success"} if gate == "tool" else {"kind": "done"}
    for key in keys:
        request: Json = {"verb": "release", "gate": gate, "outcome": outcome}
        if key:
            request["key"] = key
        yield request
        yield SETTLE


def _keys(story: Scenario, gate: str) -> tuple[str, ...]:
    """Who may stand at a gate: calls of tools, attempts of creation."""
    if gate.startswith("tool"):
        found = []
        for plan in story.plans:
            block = plan.get("outcome", {}).get("chunk", {}).get("block", {})
            if block.get("type") == "tool-call":
                found.append(block["id"])
        return tuple(found)
    if gate in ("setup", "load"):
        return tuple(str(op.get("as", op.get("agent", "a"))) for op in story.start if _stands(op, gate))
    return ("",)


def _stands(op: Json, gate: str) -> bool:
    return bool(op["op"] == "resume" if gate == "load" else op.get("setup"))


def opening(story: Scenario, gates: Iterable[str]) -> Json:
    """The world of a story, with these gates holding."""
    found: Json = {"verb": "open", "hold": [{"gate": gate} for gate in gates]}
    if story.tools:
        found["tools"] = list(story.tools)
    if story.cap != 10:
        found["cap"] = story.cap
    if story.session_format:
        found["sessionFormat"] = story.session_format
    if story.stored:
        found |= {"storage": True, "stored": list(story.stored), "requests": True}
    if story.slice is not None:
        found |= {"slice": story.slice, "requests": True}
    owners = sorted({str(op["owner"]) for op in story.start if "owner" in op})
    if owners or any(op["op"].startswith(("create", "resume")) for op in story.start):
        found["owners"] = owners or ["o"]
    return found
