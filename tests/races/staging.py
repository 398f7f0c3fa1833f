"""What the race tests share: profiles, causes, and the texts that everybody has to show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.harness.conversation import Conversation

BOTH = pytest.mark.parametrize("profile", ["seed", "dsh-0.1"])
"""For rows on which the seed and published DSH agree, or where the test itself says what each has to show."""

LATER = pytest.mark.parametrize("profile", ["seed", "dsh-0.1.7"])
"""The same for session format 4."""

USER = {"kind": "user"}
PARENT = {"kind": "parent"}
HOOK = {"kind": "hook", "reason": "policy"}
DISPOSED = {"kind": "disposed"}

REENTRY = "session append cannot reenter while another append is being published"
REJECT = {"kind": "reject"}
RETRY = {"kind": "retry"}
NOTHING: dict[str, Any] = {"kind": "enter", "messages": []}


class Attempts:
    """Operations that may be refused, made one by one; `errors` are the texts of the refusals."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.answers: list[object] = []

    def make(self, *operations: Any) -> None:
        """Call each of them, whatever becomes of the one before."""
        for operation in operations:
            try:
                self.answers.append(operation())
            except (RuntimeError, ValueError) as error:
                self.errors.append(str(error))


class Verdict(dict[str, Any]):
    """A pre-step decision that acts when somebody reads its kind for the first time."""

    def __init__(self, decision: dict[str, Any], act: Callable[[], object]) -> None:
        super().__init__(decision)
        self._act: Callable[[], object] | None = act

    def __getitem__(self, key: str) -> Any:
        act, self._act = self._act, None
        if act is not None:
            act()
        return super().__getitem__(key)


class Planned(Exception):
    """What a listener or a tool of a test raises."""


def ran(talk: Conversation) -> list[list[str]]:
    """What entered history in each step, in order."""
    return [ids for _, _, ids in talk.batches()]


def places(talk: Conversation) -> list[tuple[int, int]]:
    """The steps that were opened."""
    return [(turn, step) for turn, step, _ in talk.batches()]
