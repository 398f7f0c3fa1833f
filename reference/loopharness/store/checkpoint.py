"""When a session has to be durable before something happens that cannot be taken back (S-DSK-33).

Before each pre-step, so that no claimed message is lost; before each request of the loop, so that no answer is paid
for twice; before each top-level tool body, so that a crash inside it leaves a recorded call. A barrier that fails
stops what it guards: the turn ends in error, or the call with an error result, and the body does not run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from loopharness.bus import Context
from loopharness.model.chunks import Chunk
from loopharness.model.service import LlmService, Request
from loopharness.session import Session, Sessions
from loopharness.tools.execution import Execution

__all__ = ["install_checkpoints"]


def install_checkpoints(context: Context, sessions: Sessions, llm: LlmService) -> None:
    """Flush at the three places, for every agent."""

    async def before_step(payload: dict[str, Any], proceed: Callable[[], Any]) -> Any:
        await _flush(sessions, payload["agent"].session)
        return await proceed()

    async def before_body(execution: Execution, proceed: Callable[[], Any]) -> Any:
        session = getattr(execution.agent, "session", None)
        if execution.parent is None and isinstance(session, Session):
            await _flush(sessions, session)
        return await proceed()

    def before_request(request: Request, proceed: Callable[[], AsyncIterator[Chunk]]) -> AsyncIterator[Chunk]:
        stream = proceed()
        session = sessions.get(str(request.get("sessionId")))
        if session is None or not llm.is_loop_built(request):
            return stream
        return _Behind(sessions, session, stream)

    context.on("agent/pre-step", before_step, prepend=True, everywhere=True)
    context.on("tools/execute", before_body, everywhere=True)
    context.on("llm/stream", before_request, everywhere=True)


async def _flush(sessions: Sessions, session: Session) -> None:
    if sessions.get(session.id) is session:
        await sessions.flush(session)


class _Behind:
    """A stream that begins when the barrier has been passed."""

    __slots__ = ("_passed", "_session", "_sessions", "_stream")

    def __init__(self, sessions: Sessions, session: Session, stream: AsyncIterator[Chunk]) -> None:
        self._sessions = sessions
        self._session = session
        self._stream = stream
        self._passed = False

    def __aiter__(self) -> _Behind:
        return self

    async def __anext__(self) -> Chunk:
        if not self._passed:
            await _flush(self._sessions, self._session)
            self._passed = True
        return await anext(self._stream)

    async def aclose(self) -> None:
        close = getattr(self._stream, "aclose", None)
        if close is not None:
            await close()
