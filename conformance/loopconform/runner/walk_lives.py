"""Random programs about the lives of agents: creates, setups, owners, aborts, disposals, and wakes in between."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from loopconform.protocol.replies import HelloReply, Settled
from loopconform.protocol.requests import REQUEST, Open

GATES = ("setup", "unwind", "pre-step", "maintenance")
EVENTS = ("session/created", "agent/created", "agent/session-start", "agent/disposed", "session/disposed")
AGENTS = ("a", "b")


class LifeWalk:
    """One random program over a few ids. `see` every message; iterate for the requests.

    `reuse`: the same ids again and again. Where an agent may run on after its end (C-OWN-10, C-TDN-17) two of one id
    cannot be told apart by what they show, so that each create gets an id of its own.
    """

    def __init__(
        self, chance: random.Random, hello: HelloReply, session_format: int, length: int, reuse: bool = True
    ) -> None:
        self._chance = chance
        self._reuse = reuse
        self._ops_known = set(hello.ops)
        self._events = [event for event in EVENTS if event in hello.events]
        self._length = length
        self._count = 0
        self._messages = 0
        self._parked: list[Any] = []
        self._live: list[str] = []
        self._fibers = ["o", "p"]
        """Owners that have not been unloaded."""
        held = [gate for gate in GATES if gate in hello.gates and chance.random() < 0.6]
        holds = tuple({"gate": gate} for gate in held)
        self.opening = Open.model_validate(
            {"verb": "open", "sessionFormat": session_format, "hold": holds, "owners": ["o", "p"]}
        )

    def see(self, reply: Any) -> None:
        """Remember who stands at a gate, and which agents are live."""
        if isinstance(reply, Settled):
            self._parked, self._live = list(reply.parked), sorted(reply.agents)

    def __iter__(self) -> Iterator[Any]:
        for _ in range(self._length):
            yield from self._step()
            yield REQUEST.validate_python({"verb": "settle"})

    def _step(self) -> Iterator[Any]:
        chance = self._chance
        if self._events and chance.random() < 0.2:
            on = {"live": chance.choice(self._events), "nth": chance.choice((1, 2))}
            yield REQUEST.validate_python({"verb": "react", "on": on, "ops": self._ops(1, False)})
        if self._parked and chance.random() < 0.5:
            one = chance.choice(self._parked)
            kinds = ("done", "done", "throws") if one.gate == "setup" else ("done",)
            place = {"gate": one.gate, "agent": one.agent, "key": one.key}
            outcome = {"kind": chance.choice(kinds)}
            yield REQUEST.validate_python({"verb": "release", **place, "outcome": outcome})
        else:
            yield REQUEST.validate_python({"verb": "do", "ops": self._ops(2, True)})

    def _ops(self, most: int, messages: bool) -> list[dict[str, Any]]:
        """Operations; messages and the like only for agents that are surely there."""
        made = [self._op(messages and bool(self._live)) for _ in range(self._chance.randint(1, most))]
        found = [op for op in made if op["op"] in self._ops_known]
        return found or [self._create("create")]

    def _create(self, verb: str) -> dict[str, Any]:
        chance = self._chance
        self._count += 1
        op: dict[str, Any] = {"op": verb, "agent": self._id(), "as": f"t{self._count}"}
        if verb == "create":
            op["setup"] = chance.random() < 0.5
            if chance.random() < 0.3:
                op["signal"] = chance.choice(("s", "u"))
        if chance.random() < 0.4:
            op["owner"] = chance.choice(("o", "p"))
        return op

    def _id(self) -> str:
        return self._chance.choice(AGENTS) if self._reuse else f"agent-{self._count}"

    def _op(self, messages: bool) -> dict[str, Any]:
        chance = self._chance
        often = (4, 1, 1) if messages else (0, 0, 0)
        kind = chance.choices(
            ("create", "create-now", "dispose", "abort", "unload", "followup", "cancel", "maintenance"),
            (6, 1, 4, 1, 0.7, *often),
        )[0]
        if kind in ("create", "create-now"):
            return self._create(kind)
        if kind == "abort":
            return {"op": kind, "signal": chance.choice(("s", "u"))}
        if kind == "unload" and self._fibers:
            return {"op": kind, "fiber": self._fibers.pop(chance.randrange(len(self._fibers)))}
        if kind == "unload":
            return self._create("create")
        op: dict[str, Any] = {"op": kind, "agent": chance.choice(self._live or AGENTS)}
        if kind == "followup":
            self._messages += 1
            op["message"] = f"m{self._messages}"
        return op
