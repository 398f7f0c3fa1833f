"""The server: connections on loopback, each request answered by the plan of its script.

A script has a name. `POST /<name>/chat/completions` is answered by that script, `POST /chat/completions` by the first.
With `control`, tests steer the server over the same port. It is off otherwise: a script can name any file, and who can
reach the port need not be the one who may read it.

| request                 | effect                                                                        |
|-------------------------|-------------------------------------------------------------------------------|
| `PUT /-/<name>`         | take the script in the body, from its first answer                            |
| `GET /-/<name>`         | the log of the script; with `?idle`, once no request of it is being answered  |
| `GET /-/<name>?gate=g`  | the log, once somebody waits at that gate                                     |
| `POST /-/<name>?open=g` | open a gate, for whoever waits there or comes later                           |
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import anyio
import anyio.abc
from pydantic import ValidationError

from loopharness.model.mock_server.http import BadRequest, Incoming, Reader
from loopharness.model.mock_server.plan import (
    Again,
    BadFile,
    End,
    Pause,
    Send,
    Stall,
    WaitGate,
    difference,
    error_answer,
    plan,
)
from loopharness.model.mock_server.script import Answer, Script

__all__ = ["MockServer"]

Record = dict[str, Any]


class _Playing:
    """One script being played."""

    def __init__(self, script: Script, folder: Path) -> None:
        self.script: Final = script
        self.folder: Final = folder
        self.taken = 0
        self.log: list[Record] = []
        self.bodies: list[bytes] = []
        self.running = 0
        self.waiting: set[str] = set()
        self._opened: set[str] = set()
        self._changed = anyio.Event()

    def next_answer(self) -> Answer:
        """The answer to the next request."""
        answers = self.script.answers
        at = self.taken
        self.taken += 1
        if at < len(answers):
            return answers[at]
        if self.script.after == "repeat":
            return answers[-1]
        if self.script.after == "loop":
            return answers[at % len(answers)]
        return error_answer(500, f"the script has {len(answers)} answers, and this is request {at + 1}", "exhausted")

    def change(self) -> None:
        """Wake whoever waits for something to become true."""
        event, self._changed = self._changed, anyio.Event()
        event.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition that `change` may make true."""
        while not condition():
            await self._changed.wait()

    async def enter(self, gate: str) -> None:
        """Wait at a gate."""
        if gate not in self._opened:
            self.waiting.add(gate)
            self.change()
            await self.until(lambda: gate in self._opened)
            self.waiting.discard(gate)

    def open(self, gate: str) -> None:
        """Open a gate for good."""
        self._opened.add(gate)
        self.change()

    def cached(self, body: Record) -> int:
        """How many leading characters of the messages an earlier request has shown."""
        text = json.dumps(body.get("messages", ""), ensure_ascii=False)
        best = 0
        for entry in self.log[-8:]:
            other = json.dumps(entry["body"].get("messages", ""), ensure_ascii=False)
            best = max(best, _common(text, other))
        return best


def _common(one: str, other: str) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class MockServer:
    """Serves scripts until it is cancelled. `note` gets one record for each request and each end of an answer."""

    def __init__(
        self,
        scripts: dict[str, tuple[Script, Path]],
        note: Callable[[Record], None] | None = None,
        *,
        control: bool = False,
    ) -> None:
        self._playing = {name: _Playing(script, folder) for name, (script, folder) in scripts.items()}
        self._note = note or (lambda record: None)
        self._steered = control

    async def listen(self, port: int = 0) -> tuple[anyio.abc.Listener[anyio.abc.SocketStream], str]:
        """Take a port on 127.0.0.1, 0 for a free one; answers the listener and its URL. Raises `OSError`."""
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
        return listener, f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"

    async def serve(self, listener: anyio.abc.Listener[anyio.abc.SocketStream]) -> None:
        """Answer requests until cancelled."""
        async with listener:
            await listener.serve(self._connection)

    async def _connection(self, stream: anyio.abc.SocketStream) -> None:
        reader = Reader(stream)
        try:
            async with stream:
                while True:
                    incoming = await reader.request()
                    if incoming is None or not await self._request(incoming, stream, reader):
                        return
        except BadRequest as error:
            self._note({"event": "bad-request", "reason": str(error)})
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            pass  # the client left, which is noted where it mattered

    async def _request(self, incoming: Incoming, stream: anyio.abc.SocketStream, reader: Reader) -> bool:
        """Answer one request; False when the connection is over."""
        parts = urlsplit(incoming.path)
        path = [unquote(part) for part in parts.path.strip("/").split("/")]
        if self._steered and path[0] == "-" and len(path) == 2:
            return await self._control(incoming, path[1], parse_qs(parts.query, keep_blank_values=True), stream)
        name = path[0] if len(path) == 3 else next(iter(self._playing), "")
        playing = self._playing.get(name)
        if incoming.method != "POST" or path[-2:] != ["chat", "completions"] or playing is None:
            known = ", ".join(f"/{name}/chat/completions" for name in self._playing)
            text = f"nothing is served at {incoming.method} {parts.path}; known: POST {known}"
            await _send_json(stream, 404, {"error": {"message": text}})
            return True
        return await self._answer(incoming, name, playing, stream, reader)

    async def _answer(
        self, incoming: Incoming, name: str, playing: _Playing, stream: anyio.abc.SocketStream, reader: Reader
    ) -> bool:
        body = _parsed(incoming.body)
        cached = playing.cached(body)
        entry: Record = {
            "script": name,
            "number": len(playing.log) + 1,
            "path": incoming.path,
            "connection": stream.extra(anyio.abc.SocketAttribute.remote_port),
            "headers": {k: "***" if k == "authorization" else v for k, v in incoming.headers.items()},
            "body": body,
            "sent": 0,
            "end": None,
        }
        playing.log.append(entry)
        playing.bodies.append(incoming.body)
        self._note({"event": "request", **{key: entry[key] for key in ("script", "number", "path", "headers", "body")}})
        playing.running += 1
        playing.change()
        try:
            answer = self._chosen(incoming, playing, body, entry)
            try:
                actions = plan(answer, playing.script, playing.folder, entry["number"], body, cached)
            except BadFile as error:
                entry["mismatch"] = str(error)
                no = error_answer(500, str(error))
                actions = plan(no, playing.script, playing.folder, entry["number"], body, cached)
            entry["end"] = "cancelled"
            return await _perform(actions, entry, playing, stream, reader)
        finally:
            playing.running -= 1
            playing.change()
            self._note({"event": "answered", **{key: entry[key] for key in ("script", "number", "sent", "end")}})

    def _chosen(self, incoming: Incoming, playing: _Playing, body: Record, entry: Record) -> Answer:
        key = playing.script.key
        if key is not None and incoming.headers.get("authorization") != f"Bearer {key}":
            return error_answer(401, "Authentication Fails (no such user)", "invalid_request_error")
        answer = playing.next_answer()
        if answer.expect is not None:
            try:
                wrong = difference(answer.expect, body, playing.bodies, playing.folder)
            except (BadFile, ValueError) as error:
                wrong = str(error)
            if wrong is not None:
                entry["mismatch"] = wrong
                return error_answer(400, f"the request is not what the script expects: {wrong}", "unexpected_request")
        return answer

    async def _control(
        self, incoming: Incoming, name: str, query: dict[str, list[str]], stream: anyio.abc.SocketStream
    ) -> bool:
        if incoming.method == "PUT":
            try:
                script = Script.model_validate_json(incoming.body)
            except ValidationError as error:
                await _send_json(stream, 422, {"error": {"message": str(error)}})
                return True
            self._playing[name] = _Playing(script, Path.cwd())
        playing = self._playing.get(name)
        if playing is None:
            await _send_json(stream, 404, {"error": {"message": f"there is no script {name!r}"}})
            return True
        for gate in query.get("open", ()):
            playing.open(gate)
        for gate in query.get("gate", ()):
            await playing.until(partial(playing.waiting.__contains__, gate))
        if "idle" in query:
            await playing.until(lambda: not playing.running)
        left = max(0, len(playing.script.answers) - playing.taken)
        await _send_json(stream, 200, {"requests": playing.log, "left": left})
        return True


async def _perform(
    actions: list[Any], entry: Record, playing: _Playing, stream: anyio.abc.SocketStream, reader: Reader
) -> bool:
    """Do what the plan says until the client leaves; True when the connection can take another request."""
    keep = False
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            await reader.left()
            entry["end"] = "client left"
            group.cancel_scope.cancel()

        group.start_soon(watch)
        try:
            for action in actions:
                match action:
                    case Send(data, body):
                        await stream.send(data)
                        entry["sent"] += body
                    case Pause(ms):
                        await anyio.sleep(ms / 1000)
                    case WaitGate(name):
                        await playing.enter(name)
                    case Again(data, ms):
                        while True:
                            await stream.send(data)
                            await anyio.sleep(ms / 1000)
                    case Stall() | End("open"):
                        await anyio.sleep_forever()
                    case End(how):
                        entry["end"] = how
                        keep = how == "keep"
                        if how == "half-close":
                            await stream.send_eof()
                            await anyio.sleep_forever()
                        if how == "reset":
                            _reset(stream)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            entry["end"] = "client left"
        group.cancel_scope.cancel()
    return keep


def _reset(stream: anyio.abc.SocketStream) -> None:
    """Make closing the connection a reset, and not a regular end."""
    raw = stream.extra(anyio.abc.SocketAttribute.raw_socket)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _parsed(body: bytes) -> Record:
    try:
        value = json.loads(body)
    except ValueError:
        return {"not-json": body.decode("utf-8", "replace")[:1000]}
    return value if isinstance(value, dict) else {"not-an-object": value}


async def _send_json(stream: anyio.abc.SocketStream, status: int, value: Any) -> None:
    data = json.dumps(value, ensure_ascii=True).encode()
    head = f"HTTP/1.1 {status} Mock\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    await stream.send(head.encode() + data)
