"""The settings of the loop: one number, validated when it is written (L-SET-1 to L-SET-4)."""

from __future__ import annotations

__all__ = ["LoopSettings"]


class LoopSettings:
    """How many parallel-safe tool calls of one agent may run at once; 1 is serial.

    A new value is read at the next group of calls, also inside a running batch (L-SET-4).
    """

    __slots__ = ("_cap",)

    def __init__(self, max_parallel_tool_calls: int = 10) -> None:
        self._cap = _checked(max_parallel_tool_calls)

    @property
    def max_parallel_tool_calls(self) -> int:
        """The size of the pool."""
        return self._cap

    @max_parallel_tool_calls.setter
    def max_parallel_tool_calls(self, cap: int) -> None:
        self._cap = _checked(cap)


def _checked(cap: object) -> int:
    """L-SET-2  Refuse what is not a positive integer, at the write."""
    if type(cap) is not int or cap < 1:
        raise ValueError("maxParallelToolCalls must be a positive integer")
    return cap
