"""One call of one tool, as listeners, guards and the body see it (llm-and-tools 9.1), and its arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from loopharness.frozen import FrozenDict, freeze
from loopharness.signal import Signal

__all__ = ["Execution", "parse_arguments"]


class Execution:
    """The view of one call.

    `token` is a fresh identity; a nested call sees that of its caller as `parent`. `signal` is the caller's;
    listeners of `tools/execute`, and only they, may replace it. `defer_context` and `conclude_turn` are for the
    body.
    """

    __slots__ = (
        "_caller_signal",
        "_concluded",
        "_contexts",
        "_signal",
        "_signal_open",
        "agent",
        "arguments",
        "body_entered",
        "call_id",
        "key",
        "name",
        "parent",
        "root_call_id",
        "token",
    )

    def __init__(
        self,
        call_id: str,
        name: str,
        arguments: Any,
        signal: Signal,
        *,
        agent: object | None = None,
        key: object | None = None,
        parent: object | None = None,
        root_call_id: str | None = None,
    ) -> None:
        self.call_id: Final = call_id
        self.root_call_id: Final = call_id if root_call_id is None else root_call_id
        self.name: Final = name
        self.agent: Final = agent
        self.key: Final = key
        self.parent: Final = parent
        self.token: Final = object()
        self.arguments: Any = arguments
        self.body_entered = False
        self._caller_signal: Final = signal
        self._signal = signal
        self._signal_open = False
        self._contexts: list[FrozenDict] = []
        self._concluded = False

    @property
    def signal(self) -> Signal:
        """The signal of this call."""
        return self._signal

    @signal.setter
    def signal(self, signal: Signal) -> None:
        if not self._signal_open:
            raise AttributeError("the signal of a call can be replaced by listeners of tools/execute only")
        self._signal = signal

    @property
    def aborted(self) -> bool:
        """Whether the caller has aborted, whatever signal a listener has installed."""
        return self._caller_signal.aborted

    def defer_context(self, message: Mapping[str, Any]) -> None:
        """Give the agent a message together with the result of this call (T-310)."""
        self._contexts.append(freeze(dict(message)))

    def conclude_turn(self) -> None:
        """Let this call, if it succeeds, be the last thing that the turn needs (T-312)."""
        self._concluded = True

    @property
    def contexts(self) -> tuple[FrozenDict, ...]:
        """The messages deferred so far."""
        return tuple(self._contexts)

    @property
    def concluded(self) -> bool:
        """Whether the body has concluded the turn."""
        return self._concluded

    def __repr__(self) -> str:
        return f"<Execution {self.name} {self.call_id}>"


def parse_arguments(raw: str) -> Any:
    """What the model's argument text means (L-TOOL-1, T-220).

    Empty text is `{}`, JSON text its value, and anything else the text itself: the tool will say what is wrong
    with it. Numbers are read as doubles are, as every other reader of the log will read them.
    """
    if raw == "":
        return FrozenDict()
    try:
        return json.loads(raw, parse_constant=_no_constant, parse_int=_integer)
    except (ValueError, RecursionError):
        return raw


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def _integer(text: str) -> int | float:
    """An integer as a double would hold it; the sign of a negative zero is kept, and refused later."""
    if len(text) < 16 and text != "-0":
        return int(text)
    number = float(text)
    return int(number) if number.is_integer() and number != 0 else number
