"""A transcript as a Mermaid sequence diagram: the suite, the adapter's agents, and what was wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

from loopconform.runner.results import Message, Result

QUIET = ("ok",)
ANSWERS = ("returned", "raised", "settled", "fulfilled", "rejected")
LONGEST = 90
MOST = 80


class Arrow(NamedTuple):
    """One message of a sequence diagram. `answers`: it answers a request, rather than telling something."""

    who: Literal["suite", "adapter"]
    answers: bool
    words: str


def arrows(transcript: Sequence[Message]) -> list[Arrow]:
    """The messages of a transcript that say something, each in a few words."""
    found: list[Arrow] = []
    for message in transcript:
        body = message.body
        if message.who == "suite":
            found.append(Arrow("suite", False, request_words(body).strip()))
        elif body["type"] not in QUIET:
            found.append(Arrow("adapter", body["type"] in ANSWERS, reply_words(body).removesuffix('""').strip()))
    return found


def mermaid(result: Result) -> str:
    """The diagram of a failing run, its last messages only when it is long."""
    lines = ["sequenceDiagram", "    participant S as suite", "    participant A as adapter"]
    steps = [line for message in result.transcript for line in _message(message)]
    if len(steps) > MOST:
        lines.append(f"    Note over S,A: {len(steps) - MOST} messages before")
        steps = steps[-MOST:]
    lines += [f"    {step}" for step in steps]
    fault = result.fault
    if fault is not None:
        lines.append(f"    Note over A: {_safe(f'FAIL {fault.clause}: {fault.reason}')}")
        lines += [f"    Note over S: {_safe('legal: ' + legal)}" for legal in fault.legal[:3]]
    return "\n".join(lines) + "\n"


def _message(message: Message) -> Iterator[str]:
    for arrow in arrows([message]):
        sign = "S->>A" if arrow.who == "suite" else "A-->>S" if arrow.answers else "A->>S"
        yield f"{sign}: {_safe(arrow.words)}"


def request_words(body: dict[str, Any]) -> str:
    """A request in a few words."""
    verb = body["verb"]
    if verb == "open":
        held = ", ".join(hold["gate"] for hold in body.get("hold", ()))
        return f"open{', holding ' + held if held else ''}"
    words = [verb]
    if verb == "react":
        on = body["on"]
        nth = f" number {on['nth']}" if on.get("nth", 1) != 1 else ""
        words.append(f"on {on.get('record') or on.get('live')}{nth}:")
    elif verb == "veto":
        words.append(body["record"] + (f" number {body['nth']}" if body.get("nth", 1) != 1 else ""))
    elif verb in ("release", "plan"):
        words += [body["gate"], body.get("key") or "", _outcome(body["outcome"])]
    words.append(", ".join(op_words(op) for op in body.get("ops", ())))
    return " ".join(word for word in words if word)


def _outcome(outcome: dict[str, Any]) -> str:
    rest = {name: value for name, value in outcome.items() if name != "kind"}
    if "chunk" in rest:
        chunk = rest["chunk"]
        return f"chunk {chunk.get('type')} {json.dumps(chunk.get('block') or chunk.get('reason') or '')}"
    return f"{outcome['kind']}{' ' + json.dumps(rest) if rest else ''}"


def op_words(op: dict[str, Any]) -> str:
    """An operation in a few words."""
    rest = [str(value) for name, value in op.items() if name not in ("op", "agent", "data") and value != []]
    agent = f"{op['agent']}: " if op.get("agent", "a") != "a" else ""
    return agent + " ".join([op["op"], *rest])


def reply_words(body: dict[str, Any]) -> str:
    """A reply in a few words."""
    kind = body["type"]
    if kind == "record":
        event = body["event"]
        data = event.get("data", {})
        brief = {name: data[name] for name in ("turn", "step", "target", "outcome", "callId", "id") if name in data}
        if "reason" in data:
            brief["reason"] = data["reason"]
        return f"record {event.get('seq')} {event.get('type')} {json.dumps(brief) if brief else ''}"
    if kind == "live":
        return f"{body['name']} {json.dumps(body['data']) if body['data'] else ''}"
    if kind == "settled":
        parked = ", ".join(f"{one['gate']} {one['key']}".strip() for one in body["parked"]) or "nobody"
        return f"settled, parked: {parked}"
    if kind == "gate":
        return f"gate {body['gate']} {body['key']}"
    if kind in ("returned", "raised", "fulfilled", "rejected"):
        return f"{kind} {body['id']}.{body['op']} {json.dumps(body.get('value') or body.get('error') or '')}"
    return str(kind)


def _safe(text: str) -> str:
    """Text that Mermaid takes as it is."""
    flat = " ".join(text.split()).replace(";", ",").replace("#", "no. ").replace('""', "")
    return flat if len(flat) <= LONGEST else flat[: LONGEST - 1] + "…"


def program_text(program: Sequence[Any]) -> str:
    """A program, one request a line."""
    bodies = [request.model_dump(mode="json", exclude_defaults=True) for request in program]
    return "\n".join(f"{at:>3}  {request_words(body)}" for at, body in enumerate(bodies, 1))
