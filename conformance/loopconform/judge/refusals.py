"""The words of a refused create: whoever uses those of the contract uses the right ones.

The texts of `loopspec.creation.TEXTS` are part of the contract (creation 22.2), so one of them names its reason; and
an abort is told in the words of its signal's error (C-ABT-1). Any other words are an implementation's own, and say
nothing that could be wrong.
"""

from __future__ import annotations

from collections.abc import Collection

from loopspec.creation import TEXTS


def of_abort(words: str | None) -> str:
    """The reason of a create that is refused because its signal was aborted with an error that says this, if a case
    gave it words."""
    return f"abort {words or ''}"


def fits(reasons: Collection[str], agent: str, words: str, errors: Collection[str]) -> bool:
    """Whether a create of this agent that is refused for one of these reasons of the law may say this.

    `errors`: what the errors say that signals were aborted with, now or later.
    """
    texts = {why: text.replace("<id>", agent) for why, text in TEXTS.items()}
    texts |= {of_abort(error): error for error in errors}
    return words not in texts.values() or any(texts.get(reason) == words for reason in reasons)
