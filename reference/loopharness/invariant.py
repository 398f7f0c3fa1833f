"""Request reconstruction, checked live: what goes to a model is what the log says (L-INV-1, L-INV-2).

An optional plugin. It looks at requests that a loop has built, at the moment of dispatch, before any other
`llm/stream` listener, and raises at the first test that fails. It does not compare provider, reasoning effort
or signal, and it looks at the freezing of the request and its message list only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from loopharness.bus import Context
from loopharness.errors import HarnessError
from loopharness.frozen import FrozenDict, FrozenList, dumps
from loopharness.model.service import LlmService
from loopharness.session import Session, Sessions
from loopspec.kernel.prefix import Prefix
from loopspec.values import same_text, same_value

__all__ = ["InvariantError", "check_request", "install"]

PACKAGE: Final = "@deepseek-ai/dsh-agent-loop"
COMPARED: Final = ("model", "temperature", "maxTokens", "stop")


class InvariantError(HarnessError):
    """Something that can never be is."""

    def __init__(self, message: str) -> None:
        super().__init__(f'invariant violated by "{PACKAGE}": {message}', "INVARIANT")


def install(context: Context, llm: LlmService, sessions: Sessions) -> Callable[[], None]:
    """Check every request that a loop built, until the context ends or the answer is called.

    The listener is prepended and hears every scope, so nobody can short-circuit it.
    """

    def listener(request: Any, next: Callable[[], Any]) -> Any:
        if llm.is_loop_built(request):
            check_request(request, sessions)
        return next()

    return context.on("llm/stream", listener, prepend=True, everywhere=True)


def check_request(request: Mapping[str, Any], sessions: Sessions) -> None:
    """The tests of L-INV-1 in their order. Raises `InvariantError` with the text of the first that fails."""
    if not isinstance(request, FrozenDict):
        raise InvariantError("a loop-built request must be frozen")
    id = request.get("sessionId")
    if id is None:
        raise InvariantError("a loop-built request must carry a session id")
    session = sessions.get(id)
    if session is None:
        raise InvariantError(f'a loop-built request must carry a live session id, got "{id}"')
    if not isinstance(request.get("messages"), Prefix | FrozenList):
        raise InvariantError("a loop-built request must carry a frozen messages array")
    if session.last("step/start") is None:
        raise InvariantError("a loop-built request with no step/start in its session log")
    header = session.header_record
    if header is None:
        raise InvariantError("a loop-built request with no request/header event in its session log")
    if not _derived(request["messages"], session):
        raise InvariantError(
            f'llm request for session "{id}" diverges from the dispatch-time durable derivation '
            "(log-reconstruction desync)"
        )
    if not _agrees(request, header):
        raise InvariantError(f'llm request for session "{id}" diverges from the folded request header')


def _derived(messages: Any, session: Session) -> bool:
    """Equal by JSON text (S-REQ-12); shared messages are equal without looking."""
    derived = session.messages
    if messages is derived:
        return True
    return len(messages) == len(derived) and all(
        a is b or dumps(a) == dumps(b) for a, b in zip(messages, derived, strict=True)
    )


def _agrees(request: Mapping[str, Any], header: Mapping[str, Any]) -> bool:
    config = header["config"]
    return (
        all(same_value(request.get(field), config.get(field)) for field in COMPARED)
        and same_value(request.get("system"), header.get("system"))
        and same_text(request.get("tools"), header.get("tools"))
    )
