"""The live request check (L-INV-1, L-INV-2): each test fails alone, and with its exact text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loopharness.bus import Bus
from loopharness.frozen import freeze
from loopharness.invariant import InvariantError, install
from loopharness.model.scripted import ScriptedAdapter, text
from loopharness.model.service import LlmService, Request
from loopharness.session import Session, Sessions
from loopharness.signal import Signal
from loopspec.kernel.prefix import Prefix
from loopspec.request import build_request

PREFIX = 'invariant violated by "@deepseek-ai/dsh-agent-loop": '
CONFIG = {"provider": "p", "model": "m", "temperature": 0.5, "maxTokens": 5, "stop": ["x"], "reasoningEffort": "low"}
TOOLS = [{"name": "t", "description": "", "parameters": {"type": "object"}}]
HEADER = {"config": CONFIG, "system": "sys", "tools": TOOLS}


def user(id: str) -> dict[str, Any]:
    """A user message."""
    return {"id": id, "role": "user", "content": [], "source": {"kind": "user"}}


class World:
    """A live session with one request to send."""

    def __init__(self) -> None:
        self.bus = Bus()
        self.llm = LlmService(self.bus)
        self.sessions = Sessions(self.bus)
        self.llm.register_adapter(["p"], ScriptedAdapter(always=text("hi")))
        self.session = Session({"id": "s"}, dialect="v0")
        self.sessions.enter(self.session)
        self.remove = install(self.bus.root, self.llm, self.sessions)

    def log(self, *, step: bool = True, header: bool = True) -> None:
        """Write what has to stand before a request."""
        if step:
            self.session.append("step/start", {"turn": 1, "step": 1})
        self.session.append("user/message", user("a"), "append")
        if header:
            self.session.append("request/header", {"header": HEADER, "reason": "initial"})

    def fields(self) -> dict[str, Any]:
        """The fields of the request that the log tells."""
        return build_request(freeze(HEADER), self.session.messages, "s")

    def send(self, request: Any, *, marked: bool = True) -> None:
        """Dispatch, as a loop does."""
        if marked:
            self.llm.mark_loop_built(request)
        self.llm.stream(request)


class MutableRequest(dict[str, Any]):
    """A request that somebody forgot to freeze."""


@pytest.fixture
def world() -> World:
    """A world of its own."""
    return World()


def test_l_inv_1_a_request_that_the_log_tells_passes(world: World) -> None:
    world.log()
    world.send(Request.of(world.fields(), Signal()))
    rebuilt = {**world.fields(), "messages": freeze([user("a")])}  # equal by text, not the same objects
    world.send(Request.of(rebuilt))


def test_l_inv_1_frozen(world: World) -> None:
    world.log()
    with pytest.raises(InvariantError) as caught:
        world.send(MutableRequest(world.fields()))
    assert str(caught.value) == f"{PREFIX}a loop-built request must be frozen"
    assert caught.value.code == "INVARIANT"


def test_l_inv_1_session_id(world: World) -> None:
    world.log()
    fields = world.fields()
    del fields["sessionId"]
    with pytest.raises(InvariantError) as caught:
        world.send(Request.of(fields))
    assert str(caught.value) == f"{PREFIX}a loop-built request must carry a session id"


def test_l_inv_1_live_session(world: World) -> None:
    world.log()
    with pytest.raises(InvariantError) as caught:
        world.send(Request.of({**world.fields(), "sessionId": "gone"}))
    assert str(caught.value) == f'{PREFIX}a loop-built request must carry a live session id, got "gone"'


def test_l_inv_1_frozen_messages(world: World) -> None:
    world.log()
    loose = Request({**world.fields(), "messages": list(world.session.messages)})
    with pytest.raises(InvariantError) as caught:
        world.send(loose)
    assert str(caught.value) == f"{PREFIX}a loop-built request must carry a frozen messages array"


def test_l_inv_1_step_start(world: World) -> None:
    world.log(step=False)
    with pytest.raises(InvariantError) as caught:
        world.send(Request.of(world.fields()))
    assert str(caught.value) == f"{PREFIX}a loop-built request with no step/start in its session log"


def test_l_inv_1_header(world: World) -> None:
    world.log(header=False)
    with pytest.raises(InvariantError) as caught:
        world.send(Request.of(world.fields()))
    assert str(caught.value) == f"{PREFIX}a loop-built request with no request/header event in its session log"


@pytest.mark.parametrize(
    ("messages", "part"),
    [
        ([], "messages[0]"),
        ([user("a"), user("b")], "messages[1]"),
        ([user("b")], "messages[0]"),
        ([{**user("a"), "content": [True]}], "messages[0]"),
        ([dict(reversed(user("a").items()))], "messages[0]"),  # S-REQ-12: key order counts
    ],
)
def test_l_inv_1_messages(world: World, messages: Any, part: str) -> None:
    world.log()
    with pytest.raises(InvariantError) as caught:
        world.send(Request.of({**world.fields(), "messages": messages}))
    assert str(caught.value) == (
        f'{PREFIX}llm request for session "s" diverges from the dispatch-time durable derivation '
        "(log-reconstruction desync)"
    )
    assert caught.value.parts == (part,)


def test_l_inv_1_messages_are_compared_at_dispatch_time(world: World) -> None:
    world.log()
    early = Request.of(world.fields())
    world.session.append("user/message", user("late"), "append")
    with pytest.raises(InvariantError, match="desync"):
        world.send(early)


CHANGES: list[Callable[[dict[str, Any]], object]] = [
    lambda fields: fields.update(model="other"),
    lambda fields: fields.update(temperature=0.6),
    lambda fields: fields.update(maxTokens=6),
    lambda fields: fields.pop("maxTokens"),
    lambda fields: fields.update(stop=["y"]),
    lambda fields: fields.update(system="other"),
    lambda fields: fields.pop("system"),
    lambda fields: fields.update(tools=[]),
    lambda fields: fields.update(tools=[dict(reversed(TOOLS[0].items()))]),
]


PARTS = ("model", "temperature", "maxTokens", "maxTokens", "stop", "system", "system", "tools", "tools")


@pytest.mark.parametrize(("change", "part"), list(zip(CHANGES, PARTS, strict=True)))
def test_l_inv_1_header_fields(world: World, change: Callable[[dict[str, Any]], object], part: str) -> None:
    world.log()
    fields = world.fields()
    change(fields)
    with pytest.raises(InvariantError) as caught:
        world.send(Request.of(fields))
    assert str(caught.value) == f'{PREFIX}llm request for session "s" diverges from the folded request header'
    assert caught.value.parts == (part,)


def test_l_inv_2_provider_effort_and_signal_are_not_compared(world: World) -> None:
    world.log()
    world.send(Request.of({**world.fields(), "provider": "q", "reasoningEffort": "high"}, Signal()))


def test_l_inv_2_requests_that_no_loop_built_are_not_checked(world: World) -> None:
    world.send(Request.of({"provider": "p", "model": "m"}), marked=False)
    world.send(MutableRequest(), marked=False)


def test_l_inv_1_the_first_failing_test_speaks(world: World) -> None:
    with pytest.raises(InvariantError, match="no step/start"):
        world.send(Request.of({**world.fields(), "messages": Prefix([1]), "model": "other"}))


def test_l_inv_1_a_short_circuit_cannot_skip_it(world: World) -> None:
    world.remove()
    world.bus.root.on("llm/stream", lambda request, next: "mine")
    remove = install(world.bus.root, world.llm, world.sessions)
    with pytest.raises(InvariantError):
        world.send(Request.of(world.fields()))
    remove()
    world.send(Request.of(world.fields()))


def test_l_inv_1_it_hears_every_scope_also_when_installed_in_one() -> None:
    world = World()
    world.remove()
    install(world.bus.root.scope(object()), world.llm, world.sessions)
    with pytest.raises(InvariantError):
        world.send(Request.of(world.fields()))
