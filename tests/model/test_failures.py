"""Wordings: what is an overflow, what is a matter of money, and what only sounds like it (M-310, M-311)."""

from __future__ import annotations

import pytest

from loopharness.model.deepseek.failures import is_overflow, is_quota

OVERFLOWS = (
    "context_length_exceeded",
    "context-length-exceed",
    "Context window overflow",
    "context window limit exceeded",
    "context length exceeds",
    "This model's maximum context length is 1000 tokens",
    "max allowed context window is 8",
    "max_supported_context_length: 5",
    "request too large for this model's context",
    "messages are too long for the context",
    "prompt is too long for this model",
    "Input too large for the model",
    "The input of 9000 tokens exceeds the model context",
    "your messages overflow the context",
    "prompt is larger than the context window of the model",
)

NO_OVERFLOWS = (
    "",
    "temperature exceeds maximum allowed value",
    "context window size must be positive",
    "max_tokens is too large",
    "the context is missing",
    "request too large",
    "exceeds the context",
    "the input exceeds " + "so very " * 8 + "much the context",
)

QUOTAS = (
    "insufficient_quota",
    "Insufficient Balance",
    "insufficient credits",
    "insufficient credit",
    "quota exceeded",
    "quota has been exhausted",
    "usage limit reached",
    "You exceeded your current quota",
    "exceeds the quota",
    "balance exhausted",
    "credits are depleted",
    "You are out of credits",
    "out of budget",
)

NO_QUOTAS = ("", "rate limit reached", "quota resets in one minute", "limit exceeded", "balance is fine", "credit card")


@pytest.mark.parametrize("words", OVERFLOWS)
def test_overflow(words: str) -> None:
    assert is_overflow(words)
    assert is_overflow(words.upper())


@pytest.mark.parametrize("words", NO_OVERFLOWS)
def test_no_overflow(words: str) -> None:
    assert not is_overflow(words)


@pytest.mark.parametrize("words", QUOTAS)
def test_quota(words: str) -> None:
    assert is_quota(words)
    assert is_quota(words.upper())


@pytest.mark.parametrize("words", NO_QUOTAS)
def test_no_quota(words: str) -> None:
    assert not is_quota(words)


def test_no_wording_takes_long() -> None:
    """The text is a stranger's; only its beginning is searched, and no pattern goes back and forth in it."""
    for word in ("input ", "input exceeds ", "context length ", "a", "- " * 3):
        assert not is_overflow(word * 1_000_000)
        assert not is_quota(word * 1_000_000)
