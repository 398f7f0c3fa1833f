"""The settings: defaults, every refusal with its text, the order of checks."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from loopspec.tape.config import ConfigError, Fold, SliceConfig, effort_warning, exceeds, injects, lacks, parse
from loopspec.tape.digest_policy import DigestPolicy
from loopspec.tape.seal import History

VALID = "Valid keys: maxStepsPerTurn, defaultReasoningEffort, digest, fold, history, mode."
HISTORY_VALID = "valid keys: keepRecentTurns, entryMaxChars"


def refusal(settings: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        parse(settings)
    return str(refused.value)


@pytest.mark.parametrize("settings", [None, {}, {"mode": "slice"}, {"history": {}}, {"fold": {}}, {"digest": {}}])
def test_defaults(settings: Any) -> None:
    assert parse(settings) == SliceConfig(
        History(0, None), None, "inherit", Fold(True, 0, 8000, 50000, 2), DigestPolicy()
    )


def test_every_value_arrives() -> None:
    settings = {
        "maxStepsPerTurn": 7,
        "defaultReasoningEffort": "max",
        "digest": {"minChars": 1, "maxLineChars": inf, "structuredBlockCap": inf, "jsonKeepItems": 3, "other": 1},
        "fold": {"pinSteps": 2, "pinMaxChars": 9, "spillPreviewMinBytes": 0, "backoffAfterExpansions": 1, "other": 1},
        "history": {"keepRecentTurns": 3, "entryMaxChars": 256},
        "mode": "slice",
    }
    digest = DigestPolicy(min_chars=1, max_line_chars=inf, structured_block_cap=inf, json_keep_items=3)
    assert parse(settings) == SliceConfig(History(3, 256), 7, "max", Fold(True, 2, 9, 0, 1), digest)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (
            "maxRequestChars",
            "the plugin no longer enforces a request ceiling; tape entries accumulate, so context-window handling must "
            "be configured in the host",
        ),
        (
            "maxHistoryChars",
            "honouring a history cap means rewriting entries, which is the prefix rewrite this policy exists to avoid",
        ),
        ("maxParallelToolCalls", "scheduling belongs to the stock agent-loop row"),
        ("inTurnSeal", "in-turn sealing was retired with the replacement driver"),
        ("tape", "file-base tape options were retired with the replacement driver"),
        ("state", "the state/stream rollback experiments were retired"),
    ],
)
def test_retired(key: str, reason: str) -> None:
    assert refusal({key: None}) == f"Retired slice configuration {key}: {reason}. See README migration."


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("highWaterChars", "every completed turn is sealed, so there is no pressure threshold to cross"),
        ("lowWaterChars", "every completed turn is sealed, so there is no archive target to fall back to"),
        ("keepRecentChars", "use history.keepRecentTurns — the window is counted in turns now"),
        ("checkpointMaxChars", "renamed to history.entryMaxChars"),
        ("pinFirstTurn", "all human user messages now remain at their original nodes; remove this key"),
        ("pinUserChars", "human user messages are no longer excerpted or copied into tape entries; remove this key"),
    ],
)
def test_retired_history(key: str, reason: str) -> None:
    assert refusal({"history": {key: 1}}) == f"Retired history configuration {key}: {reason}"


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("modes", " Did you mean mode?"),
        ("FOLDS", " Did you mean fold?"),
        ("maxStepPerTurns", " Did you mean maxStepsPerTurn?"),
        ("historical", ""),
        ("constructor", ""),
        ("toString", ""),
    ],
)
def test_unknown(key: str, hint: str) -> None:
    assert refusal({key: 1}) == f"Unknown slice configuration key {key}.{hint} {VALID}"


def test_unknown_history() -> None:
    assert refusal({"history": {"keepTurns": 1}}) == f"Unknown history configuration keepTurns; {HISTORY_VALID}"


STEPS = "maxStepsPerTurn must be a positive safe integer"
KEEP = "history.keepRecentTurns must be a non-negative safe integer"
CAP = "history.entryMaxChars must be a positive safe integer"
LOW_CAP = "history.entryMaxChars must be at least 256 to preserve complete recall locators"
NOT_POSITIVE: list[Any] = [0, -1, 1.5, nan, inf, 2**53, None, "9", True, []]


@pytest.mark.parametrize("value", NOT_POSITIVE)
def test_positive_integers(value: Any) -> None:
    assert refusal({"maxStepsPerTurn": value}) == STEPS
    assert refusal({"history": {"entryMaxChars": value}}) == CAP


@pytest.mark.parametrize("value", [-1, 1.5, nan, inf, 2**53, "9", True])
def test_kept_turns(value: Any) -> None:
    assert refusal({"history": {"keepRecentTurns": value}}) == KEEP


def test_no_kept_turns_is_the_default() -> None:
    assert parse({"history": {"keepRecentTurns": None}}).history.keep_recent_turns == 0


@pytest.mark.parametrize("value", [1, 255])
def test_a_cap_must_hold_a_locator(value: int) -> None:
    assert refusal({"history": {"entryMaxChars": value}}) == LOW_CAP


@pytest.mark.parametrize("mode", ["state", "stream", "Slice", None, 1])
def test_mode(mode: Any) -> None:
    expected = "Only mode: slice is supported; state/stream rollback experiments are retired."
    assert refusal({"mode": mode}) == expected


@pytest.mark.parametrize("effort", ["medium", "", None, 3, ["low"]])
def test_effort(effort: Any) -> None:
    assert refusal({"defaultReasoningEffort": effort}) == "Invalid defaultReasoningEffort"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"pinSteps": -1}, "pinSteps must be a non-negative integer"),
        ({"pinSteps": 1.5}, "pinSteps must be a non-negative integer"),
        ({"pinMaxChars": -1}, "pinMaxChars must be >= 0"),
        ({"backoffAfterExpansions": 0}, "backoffAfterExpansions must be an integer >= 1"),
        ({"spillPreviewMinBytes": -1}, "spillPreviewMinBytes must be >= 0"),
        ({"spillPreviewMinBytes": nan}, "spillPreviewMinBytes must be >= 0"),
    ],
)
def test_fold(given: Any, text: str) -> None:
    assert refusal({"fold": given}) == text
    assert parse({"fold": {**given, "enabled": False}}).fold.enabled is False


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("minChars", -1, "digest.minChars must be a non-negative integer"),
        ("logMinChars", 0.5, "digest.logMinChars must be a non-negative integer"),
        ("maxLineChars", 0, "digest.maxLineChars must be > 0 (Infinity = never cut)"),
        *[
            (key, -1, f"digest.{key} must be >= 0")
            for key in (
                "jsonMinItems", "jsonKeepItems", "searchMinMatches", "searchMinChars", "searchMaxPerFile",
                "searchMaxTotal", "diffMinLines", "diffContextLines", "diffMaxHunksPerFile",
            )
        ],
        ("lineHeadChars", -1, "digest.lineHeadChars/lineTailChars must be non-negative integers"),
        ("lineTailChars", 1.5, "digest.lineHeadChars/lineTailChars must be non-negative integers"),
        ("headLines", -1, "digest.headLines/tailLines must be non-negative integers"),
        ("tailLines", "4", "digest.headLines/tailLines must be non-negative integers"),
        ("maxKeepRatio", 0, "digest.maxKeepRatio must be in (0, 1]"),
        ("maxKeepRatio", 1.01, "digest.maxKeepRatio must be in (0, 1]"),
        ("structuredBlockCap", 0, "digest.structuredBlockCap must be >= 1 (Infinity = no cap)"),
        ("structuredBlockMin", -1, "digest.structuredBlockMin must be a non-negative integer"),
        ("logMaxErrors", -1, "digest.logMaxErrors/logContextLines invalid"),
        ("logContextLines", -1, "digest.logMaxErrors/logContextLines invalid"),
        ("enabled", 1, "digest.enabled must be a boolean"),
    ],
)  # fmt: skip
def test_digest(key: str, value: Any, text: str) -> None:
    assert refusal({"digest": {key: value}}) == text


def test_order_of_checks() -> None:
    """CF-01: names, mode, history, steps, effort, fold."""
    faults: dict[str, Any] = {
        "bad": 1,
        "mode": "state",
        "history": {"keepRecentTurns": -1},
        "maxStepsPerTurn": 0,
        "defaultReasoningEffort": "no",
        "fold": {"pinSteps": -1},
    }
    found = []
    while faults:
        found.append(refusal(faults).split(" ")[0])
        del faults[next(iter(faults))]
    assert found == ["Unknown", "Only", "history.keepRecentTurns", "maxStepsPerTurn", "Invalid", "pinSteps"]


def test_what_is_decided_at_a_step_and_a_request() -> None:
    assert [exceeds(step, 2) for step in (1, 2, 3)] == [False, False, True]
    assert not exceeds(10**6, None)
    assert injects("low", None, ["low"])
    assert not any([injects("inherit", None, ["low"]), injects("low", "high", ["low"]), injects("low", None, None)])
    assert lacks("low", None, [])
    assert not any([lacks("inherit", None, []), lacks("low", "high", []), lacks("low", None, None)])
    assert "(declared: a, b); inheriting" in effort_warning("low", "p/m", ["a", "b"])
