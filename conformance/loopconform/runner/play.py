"""One case on one adapter: ask, listen, judge."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

from loopconform.judge.court import Court
from loopconform.judge.verdict import Found, Undecided
from loopconform.protocol.case import Case
from loopconform.protocol.parts import PROTOCOL_VERSION
from loopconform.protocol.replies import CLOSING, HelloReply, Settled, Unsupported
from loopconform.protocol.requests import Hello, Settle
from loopconform.runner.channel import AdapterError, Channel, now
from loopconform.runner.results import Message, Result
from loopspec import loop
from loopspec.loop import Composition

MESSAGES_PER_REQUEST = 5_000
"""Replies to one request; more is a flood."""
LEVELS = {"L0": 0, "L1": 1, "L2": 2}
RENEW = 200
"""Cases after which many runs start an adapter anew: worlds that were thrown away may weigh on it."""
TRANSCRIPT = 2_000
"""Messages of a transcript that are kept."""


class Player:
    """An adapter that is kept for many cases, and started anew when one has broken it."""

    def __init__(
        self,
        start: Callable[[], Channel],
        timeout: float = 10.0,
        machine: Composition = loop.MACHINE,
        renew: int | None = None,
    ) -> None:
        """`renew`: start the adapter anew after so many cases."""
        self._renew = renew
        self._start = start
        self._timeout = timeout
        self._machine = machine
        self._channel: Channel | None = None
        self._next = 0
        self._played = 0
        self._open = False
        """A request has not been closed yet."""
        self.hello: HelloReply | None = None

    # -- the adapter

    def greet(self) -> HelloReply:
        """Start the adapter if it is not there, and know what it can do. Raises `AdapterError`."""
        if self._channel is None or self.hello is None or self._played == self._renew:
            self.close()
            self._played = 0
            self._channel = self._start()
            self._next = 0
            self._send(0, Hello(verb="hello", protocol=PROTOCOL_VERSION))
            reply = self._closing(0, lambda reply: None)
            if not isinstance(reply, HelloReply):
                raise AdapterError(f"`hello` was answered by `{reply.type}`")
            if reply.protocol != PROTOCOL_VERSION:
                raise AdapterError(f"it speaks protocol {reply.protocol}, the suite {PROTOCOL_VERSION}")
            self.hello = reply
        return self.hello

    def close(self) -> None:
        """End the adapter."""
        channel, self._channel, self.hello = self._channel, None, None
        if channel is not None:
            channel.close()

    def _send(self, id: int, request: Any) -> None:
        assert self._channel is not None
        self._open = True
        self._channel.request(id, request)

    def _closing(self, id: int, hear: Callable[[Any], None]) -> Any:
        """Hear everything up to the reply that closes a request."""
        assert self._channel is not None
        deadline = now() + self._timeout
        for _ in range(MESSAGES_PER_REQUEST):
            reply = self._channel.reply(max(0.01, deadline - now()))
            if isinstance(reply, CLOSING):
                if reply.id != id:
                    raise AdapterError(f"it closes request {reply.id}, while {id} is open")
                self._open = False
                return reply
            hear(reply)
        raise AdapterError(f"more than {MESSAGES_PER_REQUEST} replies to one request")

    # -- a case

    def play(
        self,
        case: Case,
        profile: str,
        until: Callable[[Any], None] | None = None,
        program: Iterable[Any] | None = None,
        judge: bool = True,
    ) -> Result:
        """Play a case under a profile, and judge it. `until` hears every message of the adapter.

        `program` goes on behind the opening of the case, in the place of its own: it may be made while it is played.
        Without `judge` nobody looks at what comes: the transcript is all there is, and PASS says nothing.
        """
        began = now()
        record: list[Message] = []
        verdict: Any = "PASS"
        reason, fault, messages = "", None, 0
        try:
            hello = self.greet()
            self._played += 1
            lacking = missing(case, profile, hello)
            if lacking:
                kind, reason = lacking
                return Result(case, profile, kind, reason)  # type: ignore[arg-type]
            opening = case.opening.model_copy(update={"profile": profile})
            court: Any = Court(opening, hello, self._machine) if judge else _Nobody()
            rest = case.program[1:] if program is None else program
            self._perform(court, chain([opening], rest), record, until)
            messages = court.messages
        except Found as found:
            verdict, fault, reason = "FAIL", found.fault, found.fault.reason
        except Undecided as error:
            verdict, reason = "UNDETERMINED", str(error)
        except AdapterError as error:
            verdict, reason = "ADAPTER_ERROR", str(error)
            self.close()
        except Exception as error:
            verdict, reason = "HARNESS_ERROR", "".join(traceback.format_exception(error))[-2_000:]
            self.close()
        if verdict in ("FAIL", "UNDETERMINED") and self._open and self._channel is not None:
            self._catch_up()
        return Result(case, profile, verdict, reason, fault, tuple(record), messages, now() - began)

    def _perform(
        self, court: Any, program: Iterable[Any], record: list[Message], until: Callable[[Any], None] | None
    ) -> None:
        assert self._channel is not None
        shift = self._next
        for place, request in enumerate(program, 1):
            if place > 1:
                while (early := self._channel.early()) is not None:
                    if isinstance(early, CLOSING):
                        raise AdapterError(f"it closes request {early.id}, which was closed before")
                    self._hear(court, early, shift, record, until)
            id = self._next = shift + place
            if len(record) < TRANSCRIPT:
                record.append(Message("suite", {"id": place, **request.model_dump(mode="json", exclude_defaults=True)}))
            court.request(place, request)
            self._send(id, request)
            # What still comes before the world is open belongs to the one before.
            hear = self._check if place == 1 else lambda reply: self._hear(court, reply, shift, record, until)
            closing = self._closing(id, hear)
            if isinstance(closing, Unsupported):
                # What the case needs was compared with its `hello` before the case began.
                raise AdapterError(f"it said that it can do this `{request.verb}`, and now: {closing.reason}")
            if isinstance(request, Settle) != isinstance(closing, Settled):
                raise AdapterError(f"`{request.verb}` was closed by `{closing.type}`")
            self._hear(court, closing, shift, record, until)

    def _hear(
        self, court: Any, reply: Any, shift: int, record: list[Message], until: Callable[[Any], None] | None
    ) -> None:
        self._check(reply)
        id = getattr(reply, "id", None)
        if id is not None:
            if id <= shift:
                return  # a promise of a world that was thrown away
            reply = reply.model_copy(update={"id": id - shift})
        if len(record) < TRANSCRIPT:
            record.append(Message("adapter", reply.model_dump(mode="json")))
        court.reply(reply)
        if until is not None:
            until(reply)

    def _check(self, reply: Any) -> None:
        """A reply speaks of requests that were sent."""
        id = getattr(reply, "id", None)
        if id is not None and id > self._next:
            raise AdapterError(f"it speaks of request {id}, which has not been sent")

    def _catch_up(self) -> None:
        """The judge has stopped listening in the middle of a request: hear it out, or start anew."""
        try:
            self._closing(self._next, lambda reply: None)
        except AdapterError:
            self.close()


class _Nobody:
    """In the place of a court: everything is heard, and nothing is said."""

    messages = 0

    def request(self, id: int, request: Any) -> None:
        """Nothing."""

    def reply(self, reply: Any) -> None:
        """Nothing."""


def missing(case: Case, profile: str, hello: HelloReply) -> tuple[str, str] | None:
    """The verdict and reason for a case that this adapter cannot be asked to play; `None` when it can."""
    if LEVELS[case.level] > LEVELS[hello.level]:
        return "UNDETERMINED", f"the case needs level {case.level}, the adapter has {hello.level}"
    if profile not in hello.profiles and len(hello.profiles) > 1:
        return "NOT_IMPLEMENTED", f"the profile {profile} is not one of {', '.join(hello.profiles)}"
    can = {
        *(f"gate:{gate}" for gate in hello.gates),
        *(f"op:{op}" for op in hello.ops),
        *(f"event:{event}" for event in hello.events),
        *(f"format:{version}" for version in hello.session_formats),
        *(("vetoes",) if hello.vetoes else ()),
        *(("storage",) if hello.storage else ()),
        *(("slice",) if hello.slice else ()),
    }
    lacking = sorted(case.needs() - can)
    return ("NOT_IMPLEMENTED", f"the adapter has no {', '.join(lacking)}") if lacking else None
