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
    """Something that can never be is. `parts` names where a request and the log part: `messages[2]`, `tools`, …"""

    def __init__(self, message: str, parts: tuple[str, ...] = ()) -> None:
        super().__init__(f'invariant violated by "{PACKAGE}": {message}', "INVARIANT")
        self.parts: Final = parts


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
    parted = _parted(request["messages"], session)
    if parted:
        raise InvariantError(
            f'llm request for session "{id}" diverges from the dispatch-time durable derivation '
            "(log-reconstruction desync)",
            parted,
        )
    parted = _differing(request, header)
    if parted:
        raise InvariantError(f'llm request for session "{id}" diverges from the folded request header', parted)


def _parted(messages: Any, session: Session) -> tuple[str, ...]:
    """The first message that is not the log's, by JSON text (S-REQ-12); shared messages are equal without looking."""
    derived = session.messages
    if messages is derived:
        return ()
    for at, (sent, logged) in enumerate(zip(messages, derived, strict=False)):
        if sent is not logged and dumps(sent) != dumps(logged):
            return (f"messages[{at}]",)
    shorter = min(len(messages), len(derived))
    return () if len(messages) == len(derived) else (f"messages[{shorter}]",)


def _differing(request: Mapping[str, Any], header: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields of the header that the request has otherwise."""
    config = header["config"]
    found = [field for field in COMPARED if not same_value(request.get(field), config.get(field))]
    if not same_value(request.get("system"), header.get("system")):
        found.append("system")
    if not same_text(request.get("tools"), header.get("tools")):
        found.append("tools")
    return tuple(found)
