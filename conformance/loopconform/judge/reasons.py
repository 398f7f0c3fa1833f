"""Why a create may have been refused: the law's reason, and those that only microtasks tell from it."""

from __future__ import annotations

from loopconform.judge.lives import Life, Lives
from loopconform.judge.refusals import of_abort
from loopspec.transaction import AGENTS, PROVIDER


def possible(lives: Lives, life: Life, number: int) -> set[str]:
    """Every reason that may be told of a create.

    C-FAC-6: how soon the factory's slot clears while the provider unloads. C-TXN-A4, F9: whether an owner that is
    being unloaded is asked before the provider and the signal. C-ABT-4: which fiber comes first when the agents
    service takes its dependents along. C-ABT-1: the first error of a signal is what an abort is told by.
    """
    found = {lives.reason(life, number)}
    core, owner = life.config.core, getattr(lives.creates[number], "owner", None)
    if "provider" in found:
        found |= {"no-factory"} | ({"owner"} if core.fibers[AGENTS] != "active" else set())
    if found & {"provider", "caller"} and owner in lives.fibers and core.fibers[lives.fibers[owner]] != "active":
        found.add("inactive-owner")
    if "live" in found:
        found |= _overtaking(lives, life, number)
    if "caller" in found:
        signal = _signal(lives, number)
        found |= {word for word, of in life.outcomes if of == signal and word.startswith(of_abort(""))}
    return found


def _overtaking(lives: Lives, life: Life, number: int) -> set[str]:
    """C-RES-3, C-RES-6  Who finds that an id is live, the call or its load, is an implementation's own; a load races
    the signal, the owner and the provider."""
    create, fibers = lives.creates[number], life.config.core.fibers
    own = lives.fibers.get(getattr(create, "owner", None) or "", AGENTS)
    parent = getattr(create, "parent", None)
    above = None if parent is None else lives.live(life, parent)
    is_orphan = parent is not None and (above is None or bool(above.reason))
    may_be = {
        "provider": fibers[PROVIDER] != "active",
        "owner": is_orphan or fibers[own] != "active" or fibers[AGENTS] != "active",
        "caller": ("aborted", _signal(lives, number)) in life.outcomes,
    }
    return {why for why, is_so in may_be.items() if is_so}


def _signal(lives: Lives, number: int) -> int:
    return lives.id(f"signal {getattr(lives.creates[number], 'signal', None)}")
