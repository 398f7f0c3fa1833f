"""The stateful mode: random programs on an adapter until one fails, time runs out, or enough were played."""

from __future__ import annotations

import random
from collections.abc import Iterator

from loopconform.protocol.case import Case
from loopconform.runner.channel import AdapterError, now
from loopconform.runner.play import Player
from loopconform.runner.results import Result
from loopconform.runner.walk import Walk
from loopconform.runner.walk_lives import LifeWalk
from loopspec.profile import PROFILES

LENGTH = 30
"""Steps of a program, each followed by a settle."""


def walk_case(
    player: Player, seed: str, profile: str, session_format: int, length: int = LENGTH, lives: bool = False
) -> Result:
    """One random program, played while it is made; its result carries it as a case.

    `lives`: about creation and teardown of several agents; otherwise about the loop of one.
    """
    hello = player.greet()
    chance = random.Random(seed)
    walk: Walk | LifeWalk = Walk(chance, hello, session_format, length)
    if lives:
        walk = LifeWalk(chance, hello, session_format, length, reuse=profile == "seed")
    program = [walk.opening]

    def requests() -> Iterator[object]:
        for request in walk:
            program.append(request)
            yield request

    case = Case.model_construct(
        format=1, id=f"fuzz.{seed}", title=f"random program {seed}", area="log", clauses=(), level="L2",
        profiles=PROFILES, spec="", program=(walk.opening,), shows=None, hash="",
    )  # fmt: skip
    result = player.play(case, profile, walk.see, requests())
    return result._replace(case=case.with_program(program))


def fuzz(
    player: Player,
    seed: int,
    profile: str,
    session_format: int,
    seconds: float,
    most: int | None = None,
    lives: bool = False,
) -> Iterator[Result]:
    """Random programs, about one agent's loop or about lives, until the time is over or `most` were played.

    Raises `AdapterError` when it cannot be started."""
    until, number = now() + seconds, 0
    while now() < until and (most is None or number < most):
        yield walk_case(player, f"{seed}.{number}", profile, session_format, lives=lives)
        number += 1


__all__ = ["AdapterError", "fuzz", "walk_case"]
