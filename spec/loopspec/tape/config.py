"""The settings of the slice policy: which exist, which were retired and why, and what their values may be.

A setting that would be ignored is worse than one that is refused, so every unknown or retired name stops the
load with a text that says where it went. Rules: CF-01 to CF-10, CF-20, CF-30, TP-70.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import isinf, isnan
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from loopspec.tape.digest_policy import DigestPolicy
from loopspec.tape.entry import SMALLEST_CAP
from loopspec.tape.recall import integer
from loopspec.tape.seal import History
from loopspec.values import Json, Record

Effort = Literal["off", "low", "high", "max", "inherit"]
EFFORTS: Final[tuple[Effort, ...]] = ("off", "low", "high", "max", "inherit")

KEYS: Final = ("maxStepsPerTurn", "defaultReasoningEffort", "digest", "fold", "history", "mode")
HISTORY_KEYS: Final = ("keepRecentTurns", "entryMaxChars")

RETIRED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "maxRequestChars": "the plugin no longer enforces a request ceiling; tape entries accumulate, so "
        "context-window handling must be configured in the host",
        "maxHistoryChars": "honouring a history cap means rewriting entries, which is the prefix rewrite this policy "
        "exists to avoid",
        "maxParallelToolCalls": "scheduling belongs to the stock agent-loop row",
        "inTurnSeal": "in-turn sealing was retired with the replacement driver",
        "tape": "file-base tape options were retired with the replacement driver",
        "state": "the state/stream rollback experiments were retired",
    }
)
RETIRED_HISTORY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "highWaterChars": "every completed turn is sealed, so there is no pressure threshold to cross",
        "lowWaterChars": "every completed turn is sealed, so there is no archive target to fall back to",
        "keepRecentChars": "use history.keepRecentTurns — the window is counted in turns now",
        "checkpointMaxChars": "renamed to history.entryMaxChars",
        "pinFirstTurn": "all human user messages now remain at their original nodes; remove this key",
        "pinUserChars": "human user messages are no longer excerpted or copied into tape entries; remove this key",
    }
)


class ConfigError(ValueError):
    """A setting that does not exist, does not exist any more, or has a value that it cannot have."""


class Fold(NamedTuple):
    """The settings of folding (CF-02)."""

    enabled: bool = True
    pin_steps: int = 0
    pin_max_chars: float = 8000
    spill_preview_min_bytes: float = 50000
    backoff_after_expansions: int = 2


class SliceConfig(NamedTuple):
    """All settings, checked."""

    history: History = History()
    max_steps_per_turn: int | None = None
    default_reasoning_effort: Effort = "inherit"
    fold: Fold = Fold()
    digest: DigestPolicy = DigestPolicy()


def parse(settings: Record | None) -> SliceConfig:
    """The settings of a composition as they are to be used. Raises `ConfigError` at the first fault.

    Faults are looked for in a fixed order: names, mode, history, steps, effort, fold, digest.
    """
    given = _section(settings, "slice configuration")
    for key in given:
        _check_key(key)
    if "mode" in given and given["mode"] != "slice":
        raise ConfigError("Only mode: slice is supported; state/stream rollback experiments are retired.")
    history = _history(_section(given.get("history"), "history"))
    steps = _positive(given, "maxStepsPerTurn", "maxStepsPerTurn")
    effort = given.get("defaultReasoningEffort", "inherit")
    if not isinstance(effort, str) or effort not in EFFORTS:
        raise ConfigError("Invalid defaultReasoningEffort")
    fold = _fold(_section(given.get("fold"), "fold"))
    digest = _digest(_section(given.get("digest"), "digest"))
    return SliceConfig(history, steps, effort, fold, digest)


def _section(value: Json, name: str) -> Record:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} must be an object")
    return value


def _check_key(key: str) -> None:
    """CF-03, CF-04"""
    if key in RETIRED:
        raise ConfigError(f"Retired slice configuration {key}: {RETIRED[key]}. See README migration.")
    if key not in KEYS:
        near = next((valid for valid in KEYS if distance(key.lower(), valid.lower()) <= 2), None)
        hint = f" Did you mean {near}?" if near else ""
        raise ConfigError(f"Unknown slice configuration key {key}.{hint} Valid keys: {', '.join(KEYS)}.")


def distance(left: str, right: str) -> int:
    """How many insertions, deletions and substitutions lead from one word to the other."""
    row = list(range(len(right) + 1))
    for at, mine in enumerate(left, 1):
        diagonal, row[0] = row[0], at
        for place, theirs in enumerate(right, 1):
            cost = min(row[place] + 1, row[place - 1] + 1, diagonal + (mine != theirs))
            diagonal, row[place] = row[place], cost
    return row[-1]


def _history(given: Record) -> History:
    """CF-05 to CF-07"""
    for key in given:
        if key in RETIRED_HISTORY:
            raise ConfigError(f"Retired history configuration {key}: {RETIRED_HISTORY[key]}")
        if key not in HISTORY_KEYS:
            raise ConfigError(f"Unknown history configuration {key}; valid keys: {', '.join(HISTORY_KEYS)}")
    keep = integer(given["keepRecentTurns"]) if given.get("keepRecentTurns") is not None else 0
    if keep is None or keep < 0:
        raise ConfigError("history.keepRecentTurns must be a non-negative safe integer")
    cap = _positive(given, "entryMaxChars", "history.entryMaxChars")
    if cap is not None and cap < SMALLEST_CAP:
        raise ConfigError(f"history.entryMaxChars must be at least {SMALLEST_CAP} to preserve complete recall locators")
    return History(keep, cap)


def _positive(given: Record, key: str, name: str) -> int | None:
    if key not in given:
        return None
    number = integer(given[key])
    if number is None or number < 1:
        raise ConfigError(f"{name} must be a positive safe integer")
    return number


def _fold(given: Record) -> Fold:
    """CF-09; nothing is checked while folding is off."""
    enabled = given.get("enabled", True)
    if not isinstance(enabled, bool):
        raise ConfigError("fold.enabled must be a boolean")
    if not enabled:
        return Fold(enabled=False)
    default = Fold()
    steps = _whole(given.get("pinSteps", default.pin_steps), 0, "pinSteps must be a non-negative integer")
    chars = _least(given.get("pinMaxChars", default.pin_max_chars), 0, "pinMaxChars must be >= 0")
    after = _whole(
        given.get("backoffAfterExpansions", default.backoff_after_expansions),
        1,
        "backoffAfterExpansions must be an integer >= 1",
    )
    spill = _least(
        given.get("spillPreviewMinBytes", default.spill_preview_min_bytes), 0, "spillPreviewMinBytes must be >= 0"
    )
    return Fold(True, steps, chars, spill, after)


def _whole(value: Json, least: int, complaint: str) -> int:
    number = integer(value)
    if number is None or number < least:
        raise ConfigError(complaint)
    return number


def _least(value: Json, least: float, complaint: str, *, above: bool = False) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or isnan(value):
        raise ConfigError(complaint)
    if value < least or (above and value == least):
        raise ConfigError(complaint)
    return int(value) if not isinf(value) and value == int(value) else value


_AT_LEAST_ZERO: Final = (
    "jsonMinItems",
    "jsonKeepItems",
    "searchMinMatches",
    "searchMinChars",
    "searchMaxPerFile",
    "searchMaxTotal",
    "diffMinLines",
    "diffContextLines",
    "diffMaxHunksPerFile",
)


def _digest(given: Record) -> DigestPolicy:
    """CF-09, the second half. Names that are no settings are ignored, as in the original."""
    values = {_camel(field): default for field, default in DigestPolicy()._asdict().items()}
    values |= {key: value for key, value in given.items() if key in values}
    whole, least = _whole, _least
    values["minChars"] = whole(values["minChars"], 0, "digest.minChars must be a non-negative integer")
    values["logMinChars"] = whole(values["logMinChars"], 0, "digest.logMinChars must be a non-negative integer")
    complaint = "digest.maxLineChars must be > 0 (Infinity = never cut)"
    values["maxLineChars"] = least(values["maxLineChars"], 0, complaint, above=True)
    for key in _AT_LEAST_ZERO:
        values[key] = least(values[key], 0, f"digest.{key} must be >= 0")
    for first, second in (("lineHeadChars", "lineTailChars"), ("headLines", "tailLines")):
        complaint = f"digest.{first}/{second} must be non-negative integers"
        values[first], values[second] = (whole(values[key], 0, complaint) for key in (first, second))
    complaint = "digest.maxKeepRatio must be in (0, 1]"
    values["maxKeepRatio"] = least(values["maxKeepRatio"], 0, complaint, above=True)
    if values["maxKeepRatio"] > 1:
        raise ConfigError(complaint)
    complaint = "digest.structuredBlockCap must be >= 1 (Infinity = no cap)"
    values["structuredBlockCap"] = least(values["structuredBlockCap"], 1, complaint)
    complaint = "digest.structuredBlockMin must be a non-negative integer"
    values["structuredBlockMin"] = whole(values["structuredBlockMin"], 0, complaint)
    for key in ("logMaxErrors", "logContextLines"):
        values[key] = whole(values[key], 0, "digest.logMaxErrors/logContextLines invalid")
    if not isinstance(values["enabled"], bool):
        raise ConfigError("digest.enabled must be a boolean")
    return DigestPolicy(**{field: values[_camel(field)] for field in DigestPolicy._fields})


def _camel(field: str) -> str:
    first, *rest = field.split("_")
    return first + "".join(word.capitalize() for word in rest)


# -- what the settings decide at a step and at a request -----------------------------------------------------


Course = Literal["raise", "pass", "stop", "seal", "enter"]


def course(decision: str, step: int, *, aborted: bool, cap: int | None = None) -> Course:
    """TP-08  What the tape does with a decision that has come back from downstream, in the order of its checks.

    `raise` when the turn was cancelled meanwhile, `pass` a decision that is no entry, `stop` a step beyond the cap
    (CF-20), `seal` at a first step, and otherwise just `enter`.
    """
    if aborted:
        return "raise"
    if decision != "enter":
        return "pass"
    if exceeds(step, cap):
        return "stop"
    return "seal" if step == 1 else "enter"


def exceeds(step: int, cap: int | None) -> bool:
    """CF-20  Whether a proposed step is beyond the cap."""
    return cap is not None and step > cap


def cap_warning(cap: int) -> str:
    """CF-20  The warning of a turn that was stopped."""
    return f"slice tape: slice maxStepsPerTurn={cap} reached"


def injects(configured: Effort, proposed: Json, declared: Collection[str] | None) -> bool:
    """CF-30  Whether the default effort goes into a request: nobody chose one, and the model declares it."""
    return configured != "inherit" and proposed is None and declared is not None and configured in declared


def lacks(configured: Effort, proposed: Json, declared: Collection[str] | None) -> bool:
    """CF-30  Whether the default effort had to be left out although the model's efforts are known."""
    return configured != "inherit" and proposed is None and declared is not None and configured not in declared


def effort_warning(configured: Effort, route: str, declared: Collection[str]) -> str:
    """CF-30  The warning, once for each route."""
    listed = ", ".join(declared) or "none"
    return (
        f"slice tape: slice defaultReasoningEffort={configured} is not declared by {route} (declared: {listed}); "
        "inheriting the adapter default"
    )
