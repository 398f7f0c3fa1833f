"""Stories of the slice policy: turns of every kind, one behind the other, and a last one that seals what can be sealed.

A turn kind is a few requests; the next prompt comes when the agent rests. Settings, vetoes, crashes and recall calls
are told over the same turns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

from loopconform.grid import logs
from loopconform.grid.programs import SETTLE
from loopconform.grid.resumes import Told
from loopconform.grid.scenarios import Json, finish, plan, tool_answer
from loopconform.protocol.replies import Record
from loopconform.protocol.requests import REQUEST
from loopconform.runner.play import Player

TOOLS: Json = {"tools": [{"name": "p"}]}


class Turn(NamedTuple):
    """One kind of turn: what is planned before its prompt, and the clauses that it is about."""

    title: str
    plans: tuple[Json, ...]
    clauses: tuple[str, ...]


def _react(name: str, op: Json, nth: int = 1) -> Json:
    return {"verb": "react", "on": {"live": name, **({"nth": nth} if nth > 1 else {})}, "ops": [op]}


TURNS: dict[str, Turn] = {
    "text": Turn("an answer", (), ("TP-12", "TP-51")),
    "tool": Turn("a tool call", tool_answer(("c1", "p")), ("TP-20", "TP-22", "TP-40")),
    "pair": Turn("two calls in one step", tool_answer(("c1", "p"), ("c2", "p")), ("TP-22", "RE-42")),
    "steered": Turn(
        "a message in the middle of the turn",
        (*tool_answer(("c1", "p")), _react("tools/result", {"op": "steer", "message": "s1"})),
        ("TP-20", "RE-13"),
    ),
    "cut": Turn("an answer that is cut off", finish("max-tokens"), ("RE-19", "TP-31")),
    "aborted": Turn("a cancel in the stream", (_react("agent/assistant-stream", {"op": "cancel"}, 4),), ("RE-18",)),
    "failed": Turn("a failure that nobody retries", finish("error"), ("RE-33", "TP-10")),
    "rejected": Turn("a rejected step", (plan("pre-step", "reject"),), ("TP-08", "RE-05", "INV-16")),
    "unanswered": Turn(
        "a result that is refused", (*tool_answer(("c1", "p")), {"verb": "veto", "record": "tool/result"}), ("RE-16",)
    ),
}
PAIRS = ("tool", "steered", "aborted", "failed")
"""Kinds that are tried one behind the other, in every order."""

SETTINGS: dict[str, tuple[Json, tuple[str, ...]]] = {
    "keep-1": ({"history": {"keepRecentTurns": 1}}, ("TP-15", "INV-15", "PX-9")),
    "keep-2": ({"history": {"keepRecentTurns": 2}}, ("TP-15", "INV-15")),
    "cap-256": ({"history": {"entryMaxChars": 256}}, ("TP-70", "TP-73", "INV-11")),
    "step-cap": ({"maxStepsPerTurn": 1}, ("CF-20", "RE-61", "TP-41")),
}

CALLS: dict[str, tuple[str, Json, tuple[str, ...]]] = {
    "turn": ("recall_turn", {"turn": "1"}, ("RC-11", "RC-12", "RC-13")),
    "turn-full": ("recall_turn", {"turn": "slice-turn-1", "view": "full"}, ("RC-12", "RC-14")),
    "turn-none": ("recall_turn", {"turn": "9"}, ("RC-11",)),
    "search": ("recall_search", {"query": "m1 ok"}, ("RC-20", "RC-22", "RC-27")),
    "search-none": ("recall_search", {"query": "nowhere"}, ("RC-23", "RC-27")),
    "step": ("recall_step", {"turn": "1", "step": "1"}, ("RC-28", "RC-29")),
    "step-none": ("recall_step", {"turn": "1", "step": "2"}, ("RC-28",)),
    "result": ("expand_result", {"turn": 1, "step": 1}, ("RC-34", "RC-35")),
    "result-lines": ("expand_result", {"turn": 1, "step": 1, "lines": "1-1"}, ("RC-36",)),
    "result-stale": ("expand_result", {"seq": 10, "formatVersion": 3}, ("RC-02", "RC-31", "RE-52")),
    "result-seq": ("expand_result", {"seq": 10, "formatVersion": 4}, ("RC-02", "RC-32", "RC-35")),
}
"""Calls of the recall tools, behind a turn with a tool call."""

ORDER = ("TP-30", "TP-32", "PX-2", "PX-4")
"""What every story with an entry is about."""


def programs(player: Player, shell: Callable[[Sequence[Any]], Any]) -> Iterator[Told]:
    """Every program of this grid."""
    for name, turn in TURNS.items():
        yield _told(f"turns/{name}", turn.title, (*ORDER, *turn.clauses), (name,))
    for first, second in product(PAIRS, repeat=2):
        title = f"{TURNS[first].title}, then {TURNS[second].title}"
        yield _told(f"pairs/{first}-then-{second}", title, (*ORDER, "TP-14", "PX-5", "INV-06"), (first, second))
    for name, (settings, clauses) in SETTINGS.items():
        yield _told(
            f"settings/{name}", f"{name}, over three turns", (*ORDER, *clauses), ("tool", "text", "pair"), settings
        )
    for name, (tool, arguments, clauses) in CALLS.items():
        call = _do_turn(2, _call(tool, arguments))
        requests = (*_begun({}), *_turn(1, "tool"), *call, *_turn(3, "text"), _log())
        yield Told(f"tape/recall/{name}", f"{tool} of {json.dumps(arguments)}", clauses, PROFILES, _valid(requests))
    yield from _others()
    yield from _crashes(player, shell)


def _others() -> Iterator[Told]:
    """Refused entries, imitations, forks and ends in between."""
    veto: Json = {"verb": "veto", "record": "user/message"}
    refused = (*_begun({}), *_turn(1, "tool"), veto, *_turn(2, "text"), *_turn(3, "text"), _log())
    yield Told("tape/beside/entry-refused", "an entry is refused", ("TP-34", "RE-65"), PROFILES, _valid(refused))
    between = (
        *_begun({}),
        *_turn(1, "tool"),
        _do({"op": "inject", "message": "i1"}),
        SETTLE,
        *_turn(2, "text"),
        _log(),
    )
    yield Told("tape/beside/injected", "a message beside the next prompt", (*ORDER, "RE-12"), PROFILES, _valid(between))
    early = _react("agent/inbox/claimed", {"op": "cancel"})
    cancelled = (*_begun({}), *_turn(1, "tool"), early, *_turn(2, "text"), *_turn(3, "text"), _log())
    yield Told("tape/beside/cancel-early", "a cancel before the step", ("RE-03", "INV-17"), PROFILES, _valid(cancelled))
    waiting = (*_begun({}, hold=[{"gate": "pre-step"}]), *_turn(1, "tool"), *(_LET_GO * 2), *_turn(2, "text"))
    cancelled = (*waiting, _do({"op": "cancel"}), *_LET_GO, *_turn(3, "text"), *_LET_GO, _log())
    title = "a cancel while the decision is awaited"
    yield Told("tape/beside/cancel-in-decision", title, ("RE-03", "INV-17", "TP-08"), PROFILES, _valid(cancelled))
    late = ({"verb": "plan", "gate": "request", "outcome": {"kind": "throws"}},)
    thrown = (*_begun({}), *_turn(1, "tool"), *late, *_turn(2, "text"), *_turn(3, "text"), _log())
    yield Told(
        "tape/beside/fails-behind-seal", "a failure behind the seal", ("RE-04", "TP-33"), PROFILES, _valid(thrown)
    )
    retried = (*finish("error"), plan("request-error", "retry"))
    again = (*_begun({}), *_turn(1, "tool"), *_do_turn(2, retried), _log())
    yield Told(
        "tape/beside/retried", "another attempt of a sealed step", ("RE-60", "PX-1", "INV-07"), PROFILES, _valid(again)
    )
    child = (_do({"op": "followup", "agent": "c", "message": "m3"}), SETTLE, _do({"op": "log", "agent": "c"}))
    fork = (_do({"op": "fork", "agent": "c", "source": "a"}), SETTLE)
    forked = (*_begun({}, storage=True), *_turn(1, "tool"), *_turn(2, "text"), *fork, *child)
    yield Told("tape/beside/forked", "a fork keeps its entries", ("RE-66", "TP-45"), PROFILES, _valid(forked))


def _crashes(player: Player, shell: Callable[[Sequence[Any]], Any]) -> Iterator[Told]:
    """TP-45, INV-22, RE-01, RE-02  The log of two turns cut around the seal, taken up again with the policy."""
    events: list[Json] = []

    def hear(reply: Any) -> None:
        if isinstance(reply, Record):
            events.append({**reply.event, "time": 0})

    told = _valid((*_begun({}), *_turn(1, "steered"), *_turn(2, "text")))
    if player.play(shell(told), "seed", until=hear).verdict != "PASS":
        raise ValueError("the story of the crashes does not pass by itself")
    ended = next(at for at, event in enumerate(events) if event["type"] == "turn/end")
    whole = [logs.renamed(event) for event in events]
    for cut in logs.cuts(whole):
        if cut.length > ended - 2:
            log = logs.stored(cut.events, 4)
            requests = (
                _opening({}, storage=True, stored=[log]),
                _do({"op": "resume"}),
                SETTLE,
                *_turn(5, "text"),
                _log(),
            )
            title = f"a log that ends with record {cut.length}, {cut.last}, taken up again"
            clauses = ("TP-45", "INV-22", "RE-01", "RE-02")
            yield Told(f"tape/crash/cut-{cut.length}", title, clauses, PROFILES, _valid(requests))


_LET_GO: tuple[Json, ...] = ({"verb": "release", "gate": "pre-step", "outcome": {"kind": "done"}}, SETTLE)
PROFILES: Any = ("seed", "dsh-0.1.7")


def _told(name: str, title: str, clauses: tuple[str, ...], kinds: Sequence[str], settings: Json | None = None) -> Told:
    turns = [request for number, kind in enumerate(kinds, 1) for request in _turn(number, kind)]
    last = len(kinds) + 1
    requests = (*_begun(settings or {}), *turns, *_turn(last, "text"), *_turn(last + 1, "text"), _log())
    unique = tuple(dict.fromkeys(clauses))
    return Told(f"tape/{name}", f"{title}; then two more turns", unique, PROFILES, _valid(requests))


def _turn(number: int, kind: str) -> tuple[Json, ...]:
    return _do_turn(number, TURNS[kind].plans)


def _do_turn(number: int, plans: Sequence[Json]) -> tuple[Json, ...]:
    return (*plans, _do({"op": "followup", "message": f"m{number}"}), SETTLE)


def _call(tool: str, arguments: Json) -> tuple[Json, ...]:
    """The plans of a model that calls a recall tool."""
    block = {"type": "tool-call", "id": "c9", "name": tool, "arguments": json.dumps(arguments)}
    chunk = plan("chunk", "chunk", chunk={"type": "block-end", "index": 0, "block": block})
    return (chunk, *tool_answer())


def _opening(settings: Json, **more: Any) -> Json:
    return {"verb": "open", "sessionFormat": 4, "requests": True, "slice": settings, **TOOLS, **more}


def _begun(settings: Json, **more: Any) -> tuple[Json, ...]:
    return (_opening(settings, **more), _do({"op": "create"}), SETTLE)


def _log() -> Json:
    return _do({"op": "log"})


def _do(*ops: Json) -> Json:
    return {"verb": "do", "ops": list(ops)}


def _valid(requests: Sequence[Json]) -> tuple[Any, ...]:
    return tuple(REQUEST.validate_python(request) for request in requests)
