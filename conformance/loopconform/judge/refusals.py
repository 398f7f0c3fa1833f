"""The words of a refused create: whoever uses those of the contract uses the right ones.

The texts of `loopspec.creation.TEXTS` are part of the contract (creation 22.2), so one of them names its reason. Any
other words are an implementation's own, and say nothing that could be wrong.
"""

from __future__ import annotations

from collections.abc import Collection

from loopspec.creation import TEXTS


def fits(reasons: Collection[str], agent: str, words: str) -> bool:
    """Whether a create of this agent that is refused for one of these reasons of the law may say this."""
    texts = {why: text.replace("<id>", agent) for why, text in TEXTS.items()}
    return words not in texts.values() or any(texts.get(reason) == words for reason in reasons)
