"""One point on which the sources differ."""

from __future__ import annotations

from typing import NamedTuple

Choice = bool


class Disagreement(NamedTuple):
    """One row: the question, the rules it touches, each profile's answer, and why `seed` answers so."""

    field: str
    question: str
    rules: tuple[str, ...]
    seed: Choice
    dsh_0_1: Choice
    dsh_0_1_7: Choice
    why: str
