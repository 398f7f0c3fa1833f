"""Who serves a model call: the table of routes, and one prepared call bound to the registration it found.

A *route* is the name of a provider; a *registration* is one adapter behind its routes. Adapters come, go and change
their routes at any time, also while a call is being prepared. So the registration is looked up once, synchronously,
before anything is awaited, and serves that call to its end (M-420, L-REQ-7).

The routes are plain mappings from provider to registration, whatever stands for one; the call is a machine.

| operation | meaning |
|---|---|
| `prepare <registration>` | the route of the proposal has been looked up: that registration, or 0 for none |
| `dispatch <drifts>` | the request is to be sent; `drifts`: it does not say what was prepared (M-421) |

The only await point is `("resolve", registration)`: the adapter tells the facts of the model, `facts` or `throws`. A
call ends its preparation with `("prepared", registration)`, or is refused: `("raise", "NO_ADAPTER")` when nobody serves
the route, `("raise", "unresolved")` when its adapter failed. A dispatch answers the registration that serves, or is
refused with `("raise", "INVALID_PREPARED_CALL")`.

What the request says stands in `loopspec.request`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from loopspec.kernel.machine import Answer, Config, Machine, Outcome, Rules, leave, park, state

R = TypeVar("R")

Refusal = Literal["", "INVALID_ADAPTER", "DUPLICATE_ADAPTER"]

NOBODY = 0
"""No registration."""


# --- routes --------------------------------------------------------------------------------------------------


def route_refusal(routes: Mapping[str, R], registration: R | None, providers: Sequence[object]) -> Refusal:
    """Why a registration may not hold exactly these routes, or nothing (M-401, M-402).

    `registration` is the one that asks, `None` for a new one; the routes that it holds are free for it.
    """
    for at, provider in enumerate(providers):
        if not isinstance(provider, str) or not provider:
            return "INVALID_ADAPTER"
        if provider in providers[:at] or routes.get(provider, registration) is not registration:
            return "DUPLICATE_ADAPTER"
    return ""


def rerouted(routes: Mapping[str, R], registration: R, providers: Sequence[str]) -> dict[str, R]:
    """The routes after a registration holds exactly these: one step, without a gap for the others (M-402)."""
    others = {provider: holder for provider, holder in routes.items() if holder is not registration}
    return {**others, **dict.fromkeys(providers, registration)}


def serving(routes: Mapping[str, R], provider: object) -> R | None:
    """Who serves a provider now, if anybody does (M-420, M-422)."""
    return routes.get(provider) if isinstance(provider, str) else None


# --- one call ------------------------------------------------------------------------------------------------


@state
class Call(NamedTuple):
    """The core state of one call."""

    stage: Literal["new", "resolving", "prepared", "sent", "refused"] = "new"
    registration: Any = NOBODY
    """Who serves it, from the moment of the look-up on."""

    def put(self, **changes: Any) -> Call:
        """A copy with some fields changed."""
        return self._replace(**changes)


rules = Rules()


def may_dispatch(s: Call) -> bool:
    """M-421, INV-L5  A call is sent at most once, and only when it was prepared."""
    return s.stage == "prepared"


@rules("prepare")
def prepare(s: Call, registration: Any) -> Outcome[Call]:
    """M-420, L-REQ-7, L-REQ-8  Bind the registration before anything is awaited."""
    if not registration:
        return leave(s.put(stage="refused"), ("raise", "NO_ADAPTER"))
    s = s.put(stage="resolving", registration=registration)
    return park(s, ("resolve", registration), ("resolved",))


@rules("resolved")
def resolved(s: Call, answer: Answer) -> Outcome[Call]:
    """M-423  What the adapter says completes the call; its failure ends the preparation, and the turn."""
    if answer[0] == "throws":
        return leave(s.put(stage="refused"), ("raise", "unresolved"))
    return leave(s.put(stage="prepared"), ("prepared", s.registration))


@rules("dispatch")
def dispatch(s: Call, drifts: bool) -> Outcome[Call]:
    """M-421, INV-L5  Sent once, as it was prepared, to the registration that was bound."""
    if not may_dispatch(s) or drifts:
        return leave(s, ("raise", "INVALID_PREPARED_CALL"))
    return leave(s.put(stage="sent"), ("return", s.registration))


MACHINE: Machine[Call] = Machine(rules)

NEW: Config[Call] = Config(Call())
"""A call before its preparation."""
