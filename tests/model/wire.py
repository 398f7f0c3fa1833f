"""What the tests of the model side share: scripts put to a mock model, and one call of the adapter."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import httpx

from loopharness.frozen import thaw
from loopharness.model.deepseek import DeepSeekAdapter, DeepSeekSettings, open_deepseek
from loopharness.model.deepseek.idle import IdleWatch
from loopharness.model.failure import LlmError
from loopharness.model.service import Request
from loopharness.signal import Signal

FIELD_CASES = Path(__file__).parent / "field-cases"
KEY = "sk-0123456789abcdef-secret"
GUARD = 30
"""Seconds after which a test that hangs is ended. No test measures time with it."""

_names = itertools.count(1)


class Script:
    """One script on the server: its URL, its gates, its log."""

    def __init__(self, server: Server, name: str) -> None:
        self.server = server
        self.name = name
        self.url = f"{server.url}/{name}"

    def _get(self, query: str) -> Any:
        answer = self.server.client.get(f"/-/{self.name}?{query}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def log(self) -> list[dict[str, Any]]:
        """The requests, once none of them is being answered any more."""
        found: list[dict[str, Any]] = self._get("idle")["requests"]
        return found

    def left(self) -> int:
        """How many answers nobody has asked for."""
        return int(self._get("")["left"])

    def at_gate(self, gate: str) -> None:
        """Return when an answer waits at a gate."""
        self._get(f"gate={gate}")

    def open(self, gate: str) -> None:
        """Open a gate."""
        self._get(f"open={gate}")


class Server:
    """The mock model of the test run."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = httpx.Client(base_url=url, timeout=GUARD, trust_env=False, verify=False)

    def script(self, *answers: Mapping[str, Any] | str, **more: Any) -> Script:
        """Put a script under a fresh name."""
        name = f"s{next(_names)}"
        body = json.dumps({"answers": list(answers), **more})
        answer = self.client.put(f"/-/{name}", content=body)
        assert answer.status_code == 200, answer.text
        return Script(self, name)

    def files(self, *names: str) -> Script:
        """Field cases, one after the other."""
        return self.script(*({"file": str(FIELD_CASES / name)} for name in names))


class FiresAt(IdleWatch):
    """A watchdog whose patience is over at once in pull number `pull`, and endless before; it counts signs of life."""

    def __init__(self, pull: int) -> None:
        super().__init__(1000)
        self.pull = pull
        self.pulls = 0
        self.signs = 0

    def start(self) -> anyio.CancelScope:
        self.pulls += 1
        return anyio.CancelScope(deadline=anyio.current_time() if self.pulls == self.pull else float("inf"))

    def alive(self, scope: anyio.CancelScope) -> None:
        self.signs += 1


class Heard(NamedTuple):
    """What one call gave: its chunks, and the failure that it ended with."""

    chunks: list[Any]
    failure: Mapping[str, Any] | None

    @property
    def code(self) -> str:
        """The failure's code: of an error that was raised, or of a finish chunk; `ok` for none."""
        if self.failure is not None:
            return str(self.failure["code"])
        reason = self.chunks[-1]["reason"]
        return str(reason["failure"]["code"]) if reason["kind"] in ("error", "aborted") else "ok"

    @property
    def message(self) -> str:
        """The failure's message."""
        failure = self.chunks[-1]["reason"]["failure"] if self.failure is None else self.failure
        return str(failure["message"])

    def text(self, kind: str = "text-delta") -> str:
        """All deltas of one kind, joined."""
        return "".join(chunk["text"] for chunk in self.chunks if chunk["type"] == kind)

    @property
    def finish(self) -> str:
        """The kind of the finish chunk."""
        return str(self.chunks[-1]["reason"]["kind"])

    def blocks(self, kind: str) -> list[Any]:
        """The finished blocks of a type."""
        ends = [chunk["block"] for chunk in self.chunks if chunk["type"] == "block-end"]
        return [block for block in ends if block["type"] == kind]


def user(text: str) -> dict[str, Any]:
    """A user message."""
    return {"id": "u1", "role": "user", "content": [{"type": "text", "text": text}], "source": {"kind": "user"}}


def request(signal: Signal | None = None, **more: Any) -> Request:
    """A small request."""
    fields = {"provider": "deepseek-official", "model": "m1", "messages": [user("Hello.")], **more}
    return Request.of(fields, signal)


def settings(url: str, **more: Any) -> DeepSeekSettings:
    """Settings for a test server."""
    return DeepSeekSettings(**{"base_url": url, "api_key": lambda: KEY, "idle_timeout_ms": None, **more})


async def hear(adapter: DeepSeekAdapter, asked: Request) -> Heard:
    """All of one call."""
    chunks: list[Any] = []
    stream = adapter.stream(asked)
    try:
        with anyio.fail_after(GUARD):
            async for chunk in stream:
                chunks.append(thaw(chunk))
    except LlmError as error:
        return Heard(chunks, error.failure)
    return Heard(chunks, None)


async def call(
    url: str, *, signal: Signal | None = None, profile: Any = "seed", watch: IdleWatch | None = None, **more: Any
) -> Heard:
    """One call of a fresh adapter; `watch` is its watchdog, `more` goes to the settings."""
    ids = (f"minted-{n}" for n in itertools.count(1))
    chosen: dict[str, Any] = {} if watch is None else {"watch": lambda _: watch}
    with anyio.fail_after(GUARD):
        async with open_deepseek(settings(url, **more), profile=profile, new_id=lambda: next(ids), **chosen) as adapter:
            return await hear(adapter, request(signal))


def payloads(*events: Any, done: bool = True) -> str:
    """The body of a stream that consists of these payloads."""
    lines = [f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n" for event in events]
    return "".join([*lines, "data: [DONE]\n\n" if done else ""])


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """The payload of one delta."""
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def said(*pieces: str) -> Sequence[dict[str, Any]]:
    """Deltas of text."""
    return [delta(content=piece) for piece in pieces]
