"""Turns and steps (`S-LNT-44` to `S-LNT-57`)."""

from __future__ import annotations

from typing import Any

from loopspec.log.repair import closers
from loopspec.log.rule import ANY, END, Breach, Rule, breach, rule
from loopspec.log.state import DISPATCH_ENDS, DISPATCH_STARTS, STEP_SCOPED, Log, Row, record

_STEP_SCOPED = tuple(sorted(STEP_SCOPED))
_TURN_SCOPED = ("request/header", "request/context", "todo/write", *sorted(DISPATCH_STARTS | DISPATCH_ENDS))
_KINDS = ("completed", "aborted", "blocked", "error", "max-tokens", "interrupted", "forked")
_STEPLESS = ("completed", "blocked", "aborted", "error", "interrupted", "forked")
_CAUSES = ("user", "parent", "disposed", "legacy")


def _waiting(log: Log) -> str:
    names = [call_id for call_id, call in log.calls.items() if call.result is None]
    return f" Never answered: {', '.join(names)}." if names else ""


@rule("S-LNT-44", "E", "turn/start comes only when no turn is open.", "turn/start")
def no_turn_open(log: Log, row: Row) -> Breach | None:
    if log.turn is None:
        return None
    text = f"Turn {row.turn!r} starts while turn {log.turn} (line {log.turn_line}) is open.{_waiting(log)}"
    return breach(text, f"turn/end of turn {log.turn} first", open=log.turn)


@rule("S-LNT-45", "E", "Turns are numbered 1, 2, 3 and so on.", "turn/start")
def turn_number(log: Log, row: Row) -> Breach | None:
    if row.turn == log.last_turn + 1 and type(row.turn) is int:
        return None
    return breach(f"The turn is numbered {row.turn!r}.", f"turn {log.last_turn + 1}")


@rule("S-LNT-46", "E", "turn/end names the open turn, and no step is open.", "turn/end")
def turn_end(log: Log, row: Row) -> Breach | None:
    if log.turn is None:
        return breach(f"Turn {row.turn!r} ends, but no turn is open.", "turn/start first")
    if row.turn != log.turn:
        return breach(f"Turn {row.turn!r} ends, but turn {log.turn} is open.", f"turn {log.turn}")
    if log.step is not None:
        return breach(f"Turn {log.turn} ends while step {log.step} is open.{_waiting(log)}", "step/end first")
    return None


@rule("S-LNT-47", "E", "turn/end.reason is in the vocabulary and has its extra fields.", "turn/end")
def turn_reason(log: Log, row: Row) -> Breach | None:
    reason = record(row.data.get("reason"))
    kind = reason.get("kind")
    legal = ", ".join(_KINDS[: 6 + (log.format == 4)])
    if kind not in _KINDS or (kind == "forked" and log.format == 0):
        return breach(f"The turn ends with {kind!r}.", legal)
    if kind == "aborted":
        cause = record(reason.get("reason"))
        known = cause.get("kind") in _CAUSES or (cause.get("kind") == "hook" and "reason" in cause)
        if not known:
            return breach(
                "An aborted turn does not say why.", "reason: user, parent, disposed, legacy, or hook with a reason"
            )
    if kind == "error" and not _is_failure(reason.get("error")):
        return breach("A failed turn carries no failure with message and code.", "error: {message, code, ...}")
    return None


def _is_failure(value: Any) -> bool:
    failure = record(value)
    return all(type(failure.get(name)) is str and failure[name] != "" for name in ("message", "code"))


def _reason(row: Row) -> object:
    return record(row.data.get("reason")).get("kind")


@rule(
    "S-LNT-48",
    "W",
    "The reason is max-tokens exactly when an attempt of the turn hit its ceiling and nothing worse came.",
    "turn/end",
)
def ceiling(log: Log, row: Row) -> Breach | None:
    kind = _reason(row)
    if kind == "max-tokens" and not log.hit_ceiling:
        return breach("The turn ends with max-tokens, but no attempt finished so.", "completed")
    if kind == "completed" and log.hit_ceiling:
        return breach("The turn ends as completed, but an attempt finished with max-tokens.", "max-tokens")
    return None


@rule("S-LNT-49", "E", "A turn without a step does not end with max-tokens.", "turn/end")
def stepless(log: Log, row: Row) -> Breach | None:
    kind = _reason(row)
    if log.turn is None or log.last_step > 0 or kind in _STEPLESS or kind not in _KINDS:
        return None
    return breach(f"The turn had no step and ends with {kind}.", ", ".join(_STEPLESS))


@rule("S-LNT-50", "E", "step/start stands in the open turn, when no step is open, numbered one up.", "step/start")
def step_start(log: Log, row: Row) -> Breach | None:
    if log.turn is None:
        return breach(f"Step {row.step!r} starts outside a turn.", "turn/start first")
    if log.step is not None:
        return breach(f"Step {row.step!r} starts while step {log.step} is open.{_waiting(log)}", "step/end first")
    if row.turn != log.turn or row.step != log.last_step + 1:
        text = f"The step is numbered {row.step!r} of turn {row.turn!r}."
        return breach(text, f"step {log.last_step + 1} of turn {log.turn}")
    return None


@rule("S-LNT-51", "E", "step/end names the open step.", "step/end")
def step_end(log: Log, row: Row) -> Breach | None:
    if log.step is None:
        return breach(f"Step {row.step!r} ends, but no step is open.", "step/start first")
    if row.turn != log.turn or row.step != log.step:
        text = f"Step {row.step!r} of turn {row.turn!r} ends, but step {log.step} of turn {log.turn} is open."
        return breach(text, f"step {log.step} of turn {log.turn}")
    return None


def _names_open_step(log: Log, row: Row) -> bool:
    rewrites = row.type == "tool/result" and not row.appends
    return rewrites or (log.step is not None and row.turn == log.turn and row.step == log.step)


def _names_closed_step(log: Log, row: Row) -> bool:
    if type(row.turn) is not int or type(row.step) is not int:
        return False
    newest = (log.last_turn, log.last_step if log.step is None else log.last_step - 1)
    return (1, 1) <= (row.turn, row.step) <= newest


@rule("S-LNT-52", "E", "Every step-scoped event names the open turn and step.", *_STEP_SCOPED)
def step_scope(log: Log, row: Row) -> Breach | None:
    if _names_open_step(log, row) or _names_closed_step(log, row):
        return None
    where = f"step {log.step} of turn {log.turn} is open" if log.step is not None else "no step is open"
    return breach(
        f"This {row.type} names step {row.step!r} of turn {row.turn!r}, but {where}.", "the open turn and step"
    )


@rule(
    "S-LNT-53",
    "E",
    "Headers, contexts, todo and dispatch events stand only inside a turn.",
    *_TURN_SCOPED,
    "tool/result",
)
def turn_scope(log: Log, row: Row) -> Breach | None:
    if log.turn is not None or (row.type == "tool/result" and row.appends):
        return None
    return breach(f"This {row.type} stands outside a turn.", "a place between turn/start and turn/end")


@rule("S-LNT-54", "W", "The log does not end inside an open turn.", END)
def open_turn(log: Log, row: Row) -> Breach | None:
    if log.turn is None:
        return None
    added = closers(log.dialect, log.open_work())
    listing = "; ".join(_closer(event) for event in added)
    text = f"The log ends while turn {log.turn} (line {log.turn_line}) is open. Repair would add: {listing}."
    return breach(text, "nothing to do by hand: resuming the session repairs it", closers=len(added))


def _closer(event: Any) -> str:
    if event["type"] != "tool/result":
        return str(event["type"]) + (" interrupted" if event["type"] == "turn/end" else "")
    return f"tool/result of {event['data']['message']['source']['callId']} ({event['data']['error']['code']})"


@rule(
    "S-LNT-55",
    "E",
    "Format 0: a turn/end interrupted is followed by session/end-seed or the end of the log.",
    ANY,
    formats=(0,),
)
def after_interrupted(log: Log, row: Row) -> Breach | None:
    if log.interrupted_end is None or row.type == "session/end-seed":
        return None
    text = f"This turn ends as interrupted, but {row.type} follows instead of a restart marker."
    legal = "interrupted is written by repair only, and session/end-seed follows"
    return breach(text, legal, line=log.interrupted_end.line, seq=log.interrupted_end.seq)


@rule("S-LNT-56", "W", "A user/message is appended inside an open step.", "user/message")
def user_in_step(log: Log, row: Row) -> Breach | None:
    if log.step is not None or not row.appends:
        return None
    return breach("A user message joins the surface outside any step.", "a place inside a step")


@rule("S-LNT-57", "E", "Nothing of a closed turn or step appears later.", *_STEP_SCOPED)
def closed_scope(log: Log, row: Row) -> Breach | None:
    if _names_open_step(log, row) or not _names_closed_step(log, row):
        return None
    text = f"This {row.type} belongs to step {row.step} of turn {row.turn}, which is closed."
    return breach(text, "a row before that step's end")


RULES: tuple[Rule, ...] = (
    no_turn_open,
    turn_number,
    turn_end,
    turn_reason,
    ceiling,
    stepless,
    step_start,
    step_end,
    step_scope,
    turn_scope,
    open_turn,
    after_interrupted,
    user_in_step,
    closed_scope,
)
