"""What the judge says when the law cannot explain a reply."""

from __future__ import annotations

from typing import Any, NamedTuple


class Fault(NamedTuple):
    """The law cannot explain a message.

    `clause`: the rule that would have spoken, with its sentence. `guard`: what refused, if one guard did. `legal`: what
    could have come instead. `reply`: the message, `before` the last ones before it. `at`: the number of the request
    that was being done.
    """

    agent: str
    reason: str
    clause: str
    sentence: str
    guard: str
    legal: tuple[str, ...]
    reply: str
    before: tuple[str, ...]
    at: int


class Found(Exception):
    """Raised at the first fault."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.reason)
        self.fault = fault


class Undecided(Exception):
    """A bound was hit: nothing can be said about this run. The text says which bound."""


Reply = Any
