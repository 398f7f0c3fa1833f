"""From an answer to what is done on the socket: pure, so that a fault is where the script says, to the byte."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from loopharness.model.mock_server.script import Answer, Expect, Script

__all__ = ["Action", "BadFile", "End", "Pause", "Send", "Stall", "WaitGate", "difference", "error_answer", "plan"]


class Send(NamedTuple):
    """Write these bytes; `body` of them count as body."""

    data: bytes
    body: int = 0


class Pause(NamedTuple):
    """Do nothing for so many milliseconds."""

    ms: float


class WaitGate(NamedTuple):
    """Wait until the gate is opened."""

    name: str


class Stall(NamedTuple):
    """Be silent until the client leaves."""


class End(NamedTuple):
    """What becomes of the connection: `keep`, `close`, `half-close` or `reset`."""

    how: str


class Again(NamedTuple):
    """Send these bytes again and again, with a pause in between, until the client leaves."""

    data: bytes
    ms: float


Action: TypeAlias = Send | Pause | WaitGate | Stall | End | Again


class BadFile(ValueError):
    """A file of a script cannot be read; the text says which and why."""


REASONS: Final = {
    200: "OK", 204: "No Content", 301: "Moved Permanently", 302: "Found", 307: "Temporary Redirect", 400: "Bad Request",
    401: "Unauthorized", 402: "Payment Required", 403: "Forbidden", 404: "Not Found", 413: "Content Too Large",
    422: "Unprocessable Content", 429: "Too Many Requests", 500: "Internal Server Error", 503: "Service Unavailable",
}  # fmt: skip


def plan(
    answer: Answer, script: Script, folder: Path, number: int, request: Mapping[str, Any], cached: int
) -> list[Action]:
    """The actions of one answer. `number` counts requests from 1, `cached` is the length of the prefix in characters
    that the server has seen before. Raises `BadFile`."""
    actions: list[Action] = [] if answer.gate is None else [WaitGate(answer.gate)]
    if answer.no_answer:
        return [*actions, End("close")]
    if answer.file is not None and answer.file.endswith(".http"):
        return [*actions, Send(_read(folder, answer.file)), End(answer.end or "close")]
    body, kind = _body(answer, script, folder, number, request, cached)
    if answer.gzip:
        body = [gzip.compress(b"".join(body))]
    framing = answer.framing or ("close" if answer.file or answer.body is not None or answer.body_hex else "chunked")
    if answer.error is not None and answer.framing is None:
        framing = "length"
    actions.append(Send(_head(answer, kind, framing, sum(map(len, body)))))
    actions += _sending(answer, body, chunked=framing == "chunked")
    if any(isinstance(action, End | Stall) for action in actions):
        return actions
    if answer.repeat is not None:
        actions += _repeating(answer, chunked=framing == "chunked")
        if answer.repeat.times is None:
            return actions
    if framing == "chunked" and answer.end in (None, "keep"):
        _add(actions, b"0\r\n\r\n")
    lies = framing == "close" or answer.content_length is not None
    return [*actions, End(answer.end or ("close" if lies else "keep"))]


def _add(actions: list[Action], data: bytes) -> None:
    """Write this with the last write, as a server does that knows that it is done."""
    last = actions[-1]
    if isinstance(last, Send):
        actions[-1] = last._replace(data=last.data + data)
    else:
        actions.append(Send(data))


def _head(answer: Answer, kind: str, framing: str, length: int) -> bytes:
    headers = {"Content-Type": kind} if answer.content_type is None else {}
    if answer.content_type:
        headers["Content-Type"] = answer.content_type
    if answer.gzip:
        headers["Content-Encoding"] = "gzip"
    if answer.content_length is not None:
        headers["Content-Length"] = str(answer.content_length)
    elif framing == "chunked":
        headers["Transfer-Encoding"] = "chunked"
    elif framing == "length":
        headers["Content-Length"] = str(length)
    else:
        headers["Connection"] = "close"
    lines = [f"{name}: {value}" for name, value in {**headers, **answer.headers}.items()]
    first = f"HTTP/1.1 {answer.status} {REASONS.get(answer.status, 'Status')}"
    return "\r\n".join([first, *lines, "", ""]).encode("latin-1", "replace")


def _sending(answer: Answer, body: Sequence[bytes], *, chunked: bool) -> Iterator[Action]:
    """The body in its pieces, up to the place where something goes wrong."""
    faults: dict[int, list[Action]] = {}
    for at, action in (
        (answer.hold_after, WaitGate(answer.hold_gate)),
        (answer.cut_after, End("close")),
        (answer.reset_after, End("reset")),
        (answer.stall_after, Stall()),
    ):
        if at is not None:
            faults.setdefault(at, []).append(action)
    sent = 0
    for piece in _dripped(answer, body):
        while piece or sent in faults:
            for fault in faults.pop(sent, ()):
                yield fault
                if not isinstance(fault, WaitGate):
                    return
            room = min([at - sent for at in faults if at > sent] or [len(piece)])
            part, piece = piece[:room], piece[room:]
            if part:
                sent += len(part)
                yield Send(_framed(part) if chunked else part, len(part))
        if answer.drip is not None and answer.drip.ms:
            yield Pause(answer.drip.ms)
    for at in sorted(faults):
        yield from faults[at]


def _dripped(answer: Answer, body: Sequence[bytes]) -> Iterator[bytes]:
    if answer.drip is None:
        yield from body
        return
    whole, size = b"".join(body), answer.drip.bytes
    for at in range(0, len(whole), size):
        yield whole[at : at + size]


def _repeating(answer: Answer, *, chunked: bool) -> Iterator[Action]:
    assert answer.repeat is not None
    text = answer.repeat.text.encode()
    data = _framed(text) if chunked else text
    if answer.repeat.times is None:
        yield Again(data, answer.repeat.every_ms)
        return
    for _ in range(answer.repeat.times):
        yield Send(data, len(text))
        if answer.repeat.every_ms:
            yield Pause(answer.repeat.every_ms)


def _framed(piece: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(piece), piece)


# -- bodies ----------------------------------------------------------------------------------------------------


def _body(
    answer: Answer, script: Script, folder: Path, number: int, request: Mapping[str, Any], cached: int
) -> tuple[list[bytes], str]:
    if answer.error is not None:
        return [json.dumps({"error": answer.error}, ensure_ascii=False).encode()], "application/json"
    stream = "text/event-stream"
    if answer.file is not None:
        return [_read(folder, answer.file)], stream
    if answer.body is not None:
        return [piece.encode("utf-8", "surrogatepass") for piece in answer.body], stream
    if answer.body_hex is not None:
        try:
            return [bytes.fromhex(piece) for piece in answer.body_hex], stream
        except ValueError as error:
            raise BadFile(f"body_hex: {error}") from None
    return list(_events(answer, script, number, request, cached)), stream


def _events(answer: Answer, script: Script, number: int, request: Mapping[str, Any], cached: int) -> Iterator[bytes]:
    """A sound stream, as the public API sends it (A-03, A-06)."""

    def event(choices: list[Any], **more: Any) -> bytes:
        payload = {"id": f"mock-{number}", "object": "chat.completion.chunk", "created": 1, "model": script.model}
        text = json.dumps({**payload, "choices": choices, **more}, ensure_ascii=False)
        return f"data: {text}\n\n".encode("utf-8", "backslashreplace")

    def delta(fields: Mapping[str, Any], finish: str | None = None) -> bytes:
        return event([{"index": 0, "delta": fields, "finish_reason": finish}])

    yield delta({"role": "assistant", "content": None, "reasoning_content": ""})
    for piece in answer.reasoning or ():
        yield delta({"reasoning_content": piece})
    for piece in answer.text or ():
        yield delta({"content": piece})
    for at, call in enumerate(answer.calls):
        raw = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments, ensure_ascii=False)
        id = call.id or f"call-{number}-{at + 1}"
        head = {"index": at, "id": id, "type": "function", "function": {"name": call.name, "arguments": ""}}
        yield delta({"tool_calls": [head]})
        yield delta({"tool_calls": [{"index": at, "function": {"arguments": raw}}]})
    yield delta({}, answer.finish or ("tool_calls" if answer.calls else "stop"))
    if answer.usage != "none":
        yield event([], usage=_usage(answer, request, cached) if answer.usage == "auto" else answer.usage)
    yield b"data: [DONE]\n\n"


def _usage(answer: Answer, request: Mapping[str, Any], cached: int) -> dict[str, Any]:
    """Four characters a token; what was sent before counts as cached, in blocks of 64."""
    prompt = len(json.dumps(request.get("messages", ""), ensure_ascii=False)) // 4 + 1
    said = "".join([*(answer.reasoning or ()), *(answer.text or ()), *(call.name for call in answer.calls)])
    output = len(said) // 4 + 1
    hit = min(cached // 4 // 64 * 64, prompt)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_cache_hit_tokens": hit,
        "prompt_cache_miss_tokens": prompt - hit,
    }


def _read(folder: Path, name: str) -> bytes:
    path = folder / name
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadFile(f"{path} cannot be read: {error.strerror}") from None


# -- expectations and errors -----------------------------------------------------------------------------------


def error_answer(status: int, message: str, code: str = "mock_model") -> Answer:
    """An answer that says what is wrong with the request or the script."""
    return Answer(status=status, error={"message": message, "type": "mock_model_error", "code": code})


def difference(expect: Expect, body: Mapping[str, Any], bodies: Sequence[bytes], folder: Path) -> str | None:
    """What a request lacks of what the script expects, in words. `bodies` are all requests so far, this one last."""
    wanted = expect.messages
    if expect.messages_file is not None:
        wanted = json.loads(_read(folder, expect.messages_file))
    if wanted is not None and (found := _unequal(wanted, body.get("messages"), "messages", whole=True)):
        return found
    if expect.body is not None and (found := _unequal(expect.body, body, "body", whole=False)):
        return found
    if expect.same_as is not None:
        if expect.same_as >= len(bodies):
            return f"same_as: there was no request {expect.same_as} before this one"
        if bodies[expect.same_as - 1] != bodies[-1]:
            return f"the body differs from that of request {expect.same_as}"
    return None


def _unequal(wanted: Any, found: Any, where: str, *, whole: bool) -> str | None:
    if isinstance(wanted, dict) and isinstance(found, dict):
        if whole and (extra := [key for key in found if key not in wanted]):
            return f"{where}.{extra[0]} is there, and should not be"
        for key, value in wanted.items():
            if key not in found:
                return f"{where}.{key} is missing"
            if deeper := _unequal(value, found[key], f"{where}.{key}", whole=whole):
                return deeper
        return None
    if isinstance(wanted, list) and isinstance(found, list):
        if len(wanted) != len(found):
            return f"{where} has {len(found)} entries instead of {len(wanted)}"
        pairs = enumerate(zip(wanted, found, strict=True))
        return next((d for n, (a, b) in pairs if (d := _unequal(a, b, f"{where}[{n}]", whole=whole))), None)
    if type(wanted) is type(found) and wanted == found:
        return None
    shown = [json.dumps(value, ensure_ascii=False)[:200] for value in (found, wanted)]
    return f"{where} is {shown[0]} instead of {shown[1]}"
