"""The protocol loop: one request in, its replies out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import anyio.abc

from loopconform.adapters.python_reference.quiet import quiet
from loopconform.adapters.python_reference.storage import Storage, disk_with
from loopconform.adapters.python_reference.world import World
from loopconform.protocol.parts import LIVE_EVENTS, OPS, PROTOCOL_VERSION
from loopconform.protocol.replies import HelloReply, Implementation, Ok, Returned, Settled, Unsupported
from loopharness.harness import open_harness
from loopharness.store.memory import MemoryFiles

GATES = (
    "setup", "load", "assembly", "pre-step", "request", "prepare", "chunk", "close", "request-error", "tool-pre",
    "tool", "tool-post", "turn-stopping", "maintenance", "flush", "unwind",
)  # fmt: skip

Say = Callable[[Any], None]


def hello(id: int, only: str | None = None) -> HelloReply:
    """Who this is, and what it can do. `only`: the one law that it follows, whatever it is asked to."""
    return HelloReply(
        type="hello",
        id=id,
        protocol=PROTOCOL_VERSION,
        implementation=Implementation(name="python-reference", version=only or "", language="python"),
        level="L2",
        profiles=("seed", "dsh-0.1", "dsh-0.1.7") if only is None else (only,),
        session_formats=(0, 4),
        gates=GATES,
        ops=OPS,
        events=LIVE_EVENTS,
        vetoes=True,
        storage=True,
        slice=True,
    )


class Server:
    """Answers requests, one after the other, in the harness's own event loop."""

    def __init__(self, group: anyio.abc.TaskGroup, say: Say, only: str | None = None) -> None:
        """`only`: open every world under this law, as an implementation would that knows no other."""
        self._group = group
        self._only = only
        self._say = say
        self._world: World | None = None
        self._scope: anyio.CancelScope | None = None
        self._over = anyio.Event()
        self._generation = 0

    async def answer(self, id: int, request: Any) -> bool:
        """Do a request, and close it. False after `bye`."""
        verb = request.verb
        if verb == "hello":
            self._say(hello(id, self._only))
            return True
        if verb == "open":
            await self._close()
            if self._only is not None:
                request = request.model_copy(update={"profile": self._only})
            await self._group.start(self._live, request, disk_with(request.stored))
        elif verb == "bye":
            await self._close()
        elif self._world is None:
            self._say(Unsupported(type="unsupported", id=id, reason="no world is open"))
            return True
        elif verb == "settle":
            await quiet()
            self._say(self._settled(id))
            return True
        elif verb == "do" and any(op.op == "restart" for op in request.ops):
            await self._restart(self._world)
            self._say(Returned(type="returned", id=id, op=0))
        else:
            self._in_world(self._world, id, request)
        self._say(Ok(type="ok", id=id))
        return bool(verb != "bye")

    def _in_world(self, world: World, id: int, request: Any) -> None:
        if request.verb == "do":
            world.run(id, request.ops)
        elif request.verb == "react":
            world.reactions.append((id, request, [0]))
        elif request.verb == "plan":
            world.gates.plan(request)
        elif request.verb == "veto":
            world.vetoes.append((request, request.nth))
        elif request.verb == "release":
            go_on = lambda: world.run(id, request.ops)  # noqa: E731
            world.gates.release(request.gate, request.agent, request.key, request.outcome, go_on)

    def _settled(self, id: int) -> Settled:
        world = self._world
        assert world is not None
        sessions = tuple(session.id for session in world.harness.sessions.list())
        return Settled(type="settled", id=id, parked=world.gates.parked(), agents=world.snapshots(), sessions=sessions)

    async def _restart(self, world: World) -> None:
        """A crash: nobody has a last word, and what has been written is all that the next world finds."""
        files = MemoryFiles() if world.storage is None else world.storage.kill()
        await self._close()
        await self._group.start(self._live, world.opening, files)

    async def _live(self, opening: Any, files: MemoryFiles, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """A world over a file system, until it is thrown away."""
        self._over = anyio.Event()
        self._generation += 1
        generation = self._generation

        def say(reply: Any) -> None:
            if self._generation == generation:
                self._say(reply)

        try:
            with anyio.CancelScope() as self._scope:
                storage = Storage(files, opening.profile == "dsh-0.1") if opening.storage else None
                async with open_harness(
                    opening.profile,
                    opening.session_format,
                    now=lambda: 0,
                    persona="conformance",
                    persistence=storage,
                    checkpoints=any(hold.gate == "flush" for hold in opening.hold),
                ) as harness:
                    self._world = World(harness, opening, say, storage)
                    task_status.started()
                    await anyio.sleep_forever()
        finally:
            self._over.set()

    def abandon(self) -> None:
        """Nobody listens any more: whoever stands at a gate is let go, so that all can come to its end."""
        if self._world is not None:
            self._world.gates.abandon()

    async def _close(self) -> None:
        """Throw the world away, whatever state it is in."""
        self._generation += 1
        self.abandon()
        self._world = None
        if self._scope is not None:
            self._scope.cancel()
            await self._over.wait()
            self._scope = None


async def serve(requests: AsyncIterator[tuple[int, Any]], say: Say, only: str | None = None) -> None:
    """Answer a stream of requests until `bye` or its end."""
    async with anyio.create_task_group() as group:
        server = Server(group, say, only)
        async for id, request in requests:
            if not await server.answer(id, request):
                break
        group.cancel_scope.cancel()
