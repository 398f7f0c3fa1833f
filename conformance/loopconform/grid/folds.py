"""Stories of folding: long results of every kind, what keeps them whole, and how the full text is got back (5.)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from loopconform.grid.programs import SETTLE
from loopconform.grid.resumes import Told
from loopconform.grid.scenarios import Json, plan
from loopconform.protocol.requests import REQUEST

PROFILES: Any = ("seed", "dsh-0.1.7")
TOOLS: Json = {"tools": [{"name": "p"}, {"name": "grep"}, {"name": "read"}]}

LOG = "\n".join(f"12:00:{n:02d} worker {n} {'ERROR broke' if n == 40 else 'is well'}" for n in range(60))
SEARCH = "\n".join(f"src/{n // 40}.txt:{n}: match number {n}" for n in range(160))
CHANGES = (f"{'-+'[n % 2] if n % 30 in (10, 11) else ' '}this is line {n} of the file" for n in range(90))
DIFF = "\n".join(("--- a/x.txt", "+++ b/x.txt", "@@ -1,90 +1,90 @@", *CHANGES))
ITEMS = json.dumps([{"name": f"item {n}", "state": "well", "about": "nothing to tell " * 6} for n in range(70)])
TABLE = "\n".join(f"value {n} is told in a long line of words about nothing much" for n in range(140))
CODE = "\n".join(f"def function_{n}(value):\n    return value + {n}" for n in range(60))


class Kind(NamedTuple):
    """A result: the tool, its arguments, its text and the rules that it is about."""

    tool: str
    arguments: Json
    text: str
    clauses: tuple[str, ...]


KINDS: dict[str, Kind] = {
    "log": Kind("p", {"path": "a.log"}, LOG, ("FD-40", "FD-43")),
    "search": Kind("grep", {"pattern": "match"}, SEARCH, ("FD-40", "FD-44")),
    "diff": Kind("p", {}, DIFF, ("FD-40", "FD-46")),
    "json": Kind("p", {}, ITEMS, ("FD-40", "FD-45")),
    "data": Kind("read", {"file_path": "a.txt", "path": "b.txt"}, TABLE, ("FD-10", "FD-40", "FD-42")),
    "code": Kind("read", {"path": "a.py"}, CODE, ("FD-40", "FD-41")),
    "short": Kind("p", {}, "all is well", ("FD-03", "FD-43")),
    "odd-name": Kind("p", {"path": 'a "b"\n.log'}, LOG, ("FD-10", "TP-58")),
}
PART: Json = {"turn": 1, "step": 1, "call": 1}
AGAIN = 3
"""The turn in which a story calls the same tool once more."""

RECALLS: dict[str, tuple[str, Json, tuple[str, ...]]] = {
    "full": ("expand_result", PART, ("RC-34", "RC-35", "FD-31")),
    "lines": ("expand_result", {**PART, "lines": "2-4"}, ("RC-36", "FD-31")),
    "step": ("recall_step", {"turn": "1", "step": "1"}, ("RC-28", "RC-29")),
    "turn": ("recall_turn", {"turn": "1", "view": "full"}, ("RC-12", "RC-14")),
    "search": ("recall_search", {"query": "broke"}, ("RC-20", "RC-27")),
}
SETTINGS: dict[str, tuple[Json, tuple[str, ...]]] = {
    "off": ({"fold": {"enabled": False}}, ("CF-02",)),
    "pinned": ({"fold": {"pinSteps": 1}}, ("FD-20",)),
    "pinned-small": ({"fold": {"pinSteps": 1, "pinMaxChars": 100}}, ("FD-20",)),
    "ratio": ({"digest": {"maxKeepRatio": 0.01}}, ("FD-13",)),
}


def programs() -> Iterator[Told]:
    """Every program of folding."""
    for name, kind in KINDS.items():
        yield _told(name, f"a result: {name}", ("FD-03", "FD-05", *kind.clauses), _called(1, kind), _text(2))
    for name, (settings, clauses) in SETTINGS.items():
        told = (*_called(1, KINDS["log"]), *_text(2))
        yield _told(f"settings-{name}", f"a long result, and the setting {name}", clauses, told, settings=settings)
    for name, (tool, arguments, clauses) in RECALLS.items():
        told = (*_called(1, KINDS["log"]), *_asked(2, tool, arguments), *_text(3))
        yield _told(f"recall-{name}", f"a folded result, and {tool} of {json.dumps(arguments)}", clauses, told)
    for name, after in (("gives-way", 1), ("goes-on", 2)):
        told = (*_called(1, KINDS["log"]), *_asked(2, "expand_result", PART), *_called(AGAIN, KINDS["log"]), *_text(4))
        settings = {"fold": {"backoffAfterExpansions": after}}
        title = f"a folded result is got back, and one of the same file comes again: folding {name.replace('-', ' ')}"
        yield _told(f"retrieved-{name}", title, ("FD-30", "FD-31"), told, settings=settings)
    part = {**PART, "lines": "2-4"}
    told = (*_called(1, KINDS["log"]), *_asked(2, "expand_result", part), *_called(AGAIN, KINDS["log"]), *_text(4))
    title = "lines of a folded result are got back, which is not all of it"
    yield _told("retrieved-in-part", title, ("FD-31",), told, settings={"fold": {"backoffAfterExpansions": 1}})
    other = KINDS["log"]._replace(arguments={"path": "b.log"})
    told = (*_called(1, KINDS["log"]), *_asked(2, "expand_result", PART), *_called(AGAIN, other), *_text(4))
    settings = {"fold": {"backoffAfterExpansions": 1}}
    title = "a folded result is got back, and one of another file comes"
    yield _told("retrieved-elsewhere", title, ("FD-30",), told, settings=settings)
    yield from _beside()


def _beside() -> Iterator[Told]:
    """Two at once, a failure, refusals, cancels and crashes around a fold."""
    log, short = KINDS["log"], KINDS["short"]
    two = (*_calls(log, KINDS["search"]), _do({"op": "followup", "message": "m1"}), SETTLE, *_text(2))
    yield _told("two", "two long results of one step", ("FD-01", "FD-04", "FD-05"), two)
    mixed = (*_calls(short, log), _do({"op": "followup", "message": "m1"}), SETTLE, *_text(2))
    yield _told("second", "the second of two results is long", ("FD-04", "FD-10"), mixed)
    failed = (*_calls(log, outcome={"kind": "throws"}), _do({"op": "followup", "message": "m1"}), SETTLE, *_text(2))
    yield _told("failed", "a call that fails", ("FD-03",), failed)
    veto: Json = {"verb": "veto", "record": "tool/result", "nth": 2}
    yield _told("refused", "a fold is refused", ("RE-65",), (veto, *_called(1, log), *_text(2)))
    react: Json = {"verb": "react", "on": {"record": "tool/result"}, "ops": [{"op": "cancel"}]}
    yield _told("cancelled", "a cancel behind a long result", ("FD-01",), (react, *_called(1, log), *_text(2)))
    rejected = (plan("pre-step", "done"), plan("pre-step", "reject"), *_called(1, log), *_text(2))
    yield _told("rejected", "a rejected step behind a long result", ("FD-01", "RE-05"), rejected)
    steered: Json = {"verb": "react", "on": {"live": "tools/result"}, "ops": [{"op": "steer", "message": "s1"}]}
    told = (steered, *_called(1, log), *_text(2))
    yield _told("steered", "a message beside a long result", ("FD-01", "RE-13"), told)
    crash = (_do({"op": "restart"}), SETTLE, _do({"op": "resume"}), SETTLE)
    told = (*_called(1, log), *crash, *_called(2, log), *_text(3))
    yield _told("crash-behind", "a crash behind a fold, and another result", ("FD-02", "FD-33", "INV-22"), told, True)
    hold: Json = {"hold": [{"gate": "pre-step"}]}
    go: tuple[Json, ...] = ({"verb": "release", "gate": "pre-step", "outcome": {"kind": "done"}}, SETTLE)
    told = (*_called(1, log), *go, *crash, *_text(2), *go)
    title = "a crash between a long result and its first request, in a turn that is not sealed"
    kept = {"history": {"keepRecentTurns": 2}}
    yield _told("crash-before", title, ("FD-02", "INV-22"), told, True, settings=kept, **hold)
    pulled = {"fold": {"backoffAfterExpansions": 1}}
    told = (*_called(1, log), *_asked(2, "expand_result", PART), *crash, *_called(AGAIN, log), *_text(4))
    title = "a crash behind a result that was got back"
    yield _told("crash-retrieved", title, ("FD-31", "FD-33", "INV-22"), told, True, settings=pulled)


def _told(
    name: str, title: str, clauses: Sequence[str], *parts: Any, settings: Json | None = None, **more: Any
) -> Told:
    """A program: the world, an agent, the parts, and its log at the end. `True` among the parts: with storage."""
    told = [request for part in parts if part is not True for request in part]
    opening = {"verb": "open", "sessionFormat": 4, "requests": True, "slice": settings or {}, **TOOLS, **more}
    if True in parts:
        opening["storage"] = True
    requests = (opening, _do({"op": "create"}), SETTLE, *told, _do({"op": "log"}))
    valid = tuple(REQUEST.validate_python(request) for request in requests)
    return Told(f"tape/fold/{name}", title, tuple(dict.fromkeys(clauses)), PROFILES, valid)


def _called(number: int, kind: Kind) -> tuple[Json, ...]:
    """A turn with one call of this kind."""
    return (*_calls(kind), _do({"op": "followup", "message": f"m{number}"}), SETTLE)


def _asked(number: int, tool: str, arguments: Json) -> tuple[Json, ...]:
    """A turn in which the model calls a recall tool."""
    return (*_stream((tool, arguments)), _do({"op": "followup", "message": f"m{number}"}), SETTLE)


def _text(number: int) -> tuple[Json, ...]:
    return (_do({"op": "followup", "message": f"m{number}"}), SETTLE)


def _calls(*kinds: Kind, outcome: Json | None = None) -> tuple[Json, ...]:
    """The plans of a model that makes these calls, and of their bodies."""
    bodies = [
        {"verb": "plan", "gate": "tool", "key": f"c{at}", "outcome": outcome or {"kind": "success", "text": kind.text}}
        for at, kind in enumerate(kinds, 1)
    ]
    return (*_stream(*((kind.tool, kind.arguments) for kind in kinds)), *bodies)


def _stream(*calls: tuple[str, Json]) -> tuple[Json, ...]:
    chunks = []
    for at, (tool, arguments) in enumerate(calls, 1):
        block = {"type": "tool-call", "id": f"c{at}", "name": tool, "arguments": json.dumps(arguments)}
        chunks.append({"type": "block-end", "index": at - 1, "block": block})
    chunks.append({"type": "finish", "reason": {"kind": "tool-calls"}})
    return (*(plan("chunk", "chunk", chunk=chunk) for chunk in chunks), plan("chunk", "end"))


def _do(*ops: Json) -> Json:
    return {"verb": "do", "ops": list(ops)}
