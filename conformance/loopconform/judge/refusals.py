"""The words of a refused create: whoever uses those of the contract uses the right ones.

The texts of `loopspec.creation.TEXTS` are part of the contract (creation 22.2), so one of them names its reason. Any
other words are an implementation's own, and say nothing that could be wrong.
"""

from __future__ import annotations

from loopspec.creation import TEXTS


def fits(reason: str, agent: str, words: str) -> bool:
    """Whether a create of this agent that is refused for this reason of the law may say this.

    C-FAC-6: how soon the factory's slot clears while the provider unloads is a matter of microtasks.
    """
    texts = {why: text.replace("<id>", agent) for why, text in TEXTS.items()}
    if reason == "provider" and words == texts["no-factory"]:
        return True
    return words not in texts.values() or texts.get(reason) == words
