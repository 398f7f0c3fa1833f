"""The events of a log as a tree of lines: turns, their steps, and what happened in them, in the order of the log.

Nothing is judged here, and nothing is trusted: the fold takes any event that has a type and data, and says what it
finds. Judging is what `loopspec check` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from loopconform.show.words import (
    content_words,
    count,
    failure_words,
    get,
    items,
    message_words,
    safe,
    source_words,
    span,
    usage_words,
    words_of,
)
from loopspec.values import Record

__all__ = ["Line", "Tone", "story"]

Tone = Literal["turn", "step", "user", "system", "model", "tool", "inbox", "request", "plain", "good", "warn", "bad"]


class Line:
    """One line of the tree.

    `word` says what it is, `text` the rest, `aside` details that may be dim. `events` are all that it tells of, `seq`
    is that of the first one, `turn` the number of a turn.
    """

    def __init__(self, event: Record | None, tone: Tone, word: str, text: str = "", aside: str = "") -> None:
        self.seq: Any = get(event, "seq")
        self.events: list[Record] = [] if event is None else [event]
        self.turn: Any = None
        self.tone: Tone = tone
        self.word = word
        self.text = text
        self.aside = aside
        self.children: list[Line] = []


_LOST = {"blocked": "the turn was rejected", "aborted": "the turn was cancelled first"}
"""Why a claimed message never entered, by the end of its turn."""


class Claimed:
    """A message that a turn claimed: whether it entered a step."""

    def __init__(self, message: Any, line: Line) -> None:
        self.message = message
        self.line = line


def story(header: Record, events: Iterable[Record]) -> Iterator[Line]:
    """The lines of the top level, in the order of the log: turns when they end, everything else as it comes.

    A line's children are complete when it is given out. An open turn comes last and says that it is open.
    """
    fold = _Fold(header)
    for event in events:
        yield from fold.take(event)
    yield from fold.end()


class _Fold:
    def __init__(self, header: Record) -> None:
        seed = header.get("seedLength")
        self.seed_length: int = seed if type(seed) is int else 0
        self.turn: Line | None = None
        self.step: Line | None = None
        self.bracket: Line | None = None
        self.steps = 0
        self.calls: dict[Any, Line] = {}
        self.stream: Line | None = None
        self.lists: dict[Any, list[Any]] = {"next-turn": [], "next-step": []}
        self.claimed: dict[Any, Claimed] = {}
        self.started: Any = None
        self.out: list[Line] = []
        self._tell: dict[str, Callable[[Record, Any], None]] = {
            "turn/start": self._turn_start,
            "turn/end": self._turn_end,
            "step/start": self._step_start,
            "step/end": self._step_end,
            "agent/inbox/spliced": self._spliced,
            "user/message": self._user,
            "system/message": self._other_message,
            "developer/message": self._other_message,
            "assistant/chunk": self._chunk,
            "assistant/message": self._assistant,
            "assistant/attempt": self._attempt,
            "tool/call": self._call,
            "tool/result": self._result,
            "request/header": self._header,
            "request/context": self._context,
            "llm/retry": self._retry,
            "llm/retry-started": self._retry_started,
            "compaction/start": self._compaction,
            "compaction/summary": self._summary,
            "compaction/end": self._compaction_end,
            "session/end-seed": self._end_seed,
        }

    def take(self, event: Record) -> list[Line]:
        """Tell one event; the lines of the top level that are complete now."""
        self.out = []
        kind = event["type"]
        if kind != "assistant/chunk":
            self.stream = None if kind != "assistant/message" else self.stream
        tell = self._tell.get(kind)
        if tell is None:
            self._add(Line(event, "plain", safe(kind, 80), safe(event["data"])))
        else:
            tell(event, event["data"])
        return self.out

    def end(self) -> list[Line]:
        """The end of the log: an open turn is given out as it is."""
        self.out = []
        self._free_bracket()
        if self.turn is not None:
            self._list_lost("not entered yet")
            self.turn.text = "open: the log ends here"
            self.turn.tone = "warn"
            self.out.append(self.turn)
        for name, pending in self.lists.items():
            if pending:
                line = Line(None, "inbox", "pending", f"{name}: {count(len(pending), 'message')} at the end of the log")
                line.children = [Line(None, "inbox", "", message_words(message)) for message in pending]
                self.out.append(line)
        return self.out

    def _add(self, line: Line) -> None:
        place = self.bracket or self.step or self.turn
        if place is None:
            self.out.append(line)
        else:
            place.children.append(line)

    # -- turns and steps

    def _turn_start(self, event: Record, data: Any) -> None:
        if self.turn is not None:
            self._close_turn("never ended", "bad")
        self._free_bracket()
        self.turn = Line(event, "turn", f"turn {words_of(get(data, 'turn'))}")
        self.turn.turn = get(data, "turn")
        self.started = get(event, "time")
        self.steps = 0

    def _turn_end(self, event: Record, data: Any) -> None:
        if self.turn is None:
            self._add(Line(event, "bad", "turn/end", "no turn is open here", safe(data)))
            return
        reason = get(data, "reason")
        kind = get(reason, "kind")
        text, tone = _end_words(reason)
        self._list_lost(_LOST.get(words_of(kind), ""))
        self.turn.events.append(event)
        self.turn.aside = f"{count(self.steps, 'step')}, {span(self.started, get(event, 'time'))}".rstrip(", ")
        self._close_turn(text, tone)

    def _close_turn(self, text: str, tone: Tone) -> None:
        assert self.turn is not None
        self.turn.text, self.turn.tone = text, tone
        self.out.append(self.turn)
        self.turn = self.step = self.bracket = None
        self.claimed.clear()
        self.calls.clear()

    def _list_lost(self, why: str) -> None:
        """What was claimed and never entered history: it is gone, and nobody was told (field gap G11)."""
        assert self.turn is not None
        for held in self.claimed.values():
            lost = Line(None, "warn", "lost" if why != "not entered yet" else "claimed", message_words(held.message))
            lost.aside = f"claimed, {why or 'but it never entered a step'}"
            self.turn.children.append(lost)

    def _step_start(self, event: Record, data: Any) -> None:
        self.steps += 1
        line = Line(event, "step", f"step {words_of(get(data, 'step'))}")
        self.step = None
        self._add(line)
        self.step = line
        self.calls.clear()

    def _step_end(self, event: Record, data: Any) -> None:
        if self.step is None:
            self._add(Line(event, "bad", "step/end", "no step is open here", safe(data)))
            return
        self.step.events.append(event)
        self.step = None

    # -- inbox

    def _spliced(self, event: Record, data: Any) -> None:
        target = get(data, "target")
        pending = self.lists.setdefault(target if isinstance(target, str) else "?", [])
        start, removed = get(data, "start"), get(data, "removedCount")
        at = start if type(start) is int and 0 <= start <= len(pending) else len(pending)
        size = removed if type(removed) is int and removed > 0 else 0
        inserted = list(items(get(data, "inserted")))
        out = pending[at : at + size]
        if not (type(event.get("seq")) is int and event["seq"] < self.seed_length):
            pending[at : at + size] = inserted
        canceled = get(data, "outcome") is not None
        words = ", ".join(message_words(message, 80) for message in (inserted or out)[:20])
        where = f"{'in' if inserted else 'from'} {words_of(target)}"
        if out and inserted:
            text, word = f"{message_words(out[0], 40)} → {words}", "replaced"
        elif inserted:
            text, word = words, "queued"
        elif canceled:
            text, word = words, "discarded"
        else:
            text, word = words, "claimed"
            for message in out:
                self.claimed[self._key(message)] = Claimed(message, Line(event, "inbox", "claimed"))
        self._add(Line(event, "inbox", word, text or f"{size} messages", where))

    @staticmethod
    def _key(message: Any) -> Any:
        id = get(message, "id")
        return id if isinstance(id, str) else repr(id)[:200]

    # -- messages

    def _user(self, event: Record, data: Any) -> None:
        self.claimed.pop(self._key(data), None)
        aside = words_of(get(data, "id")) + source_words(get(data, "source")) + _replaces(event)
        self._add(Line(event, "user", "user", content_words(get(data, "content")), aside))

    def _other_message(self, event: Record, data: Any) -> None:
        word = "system" if event["type"] == "system/message" else "developer"
        self._add(Line(event, "system", word, content_words(get(data, "message", "content")), _replaces(event)))

    def _chunk(self, event: Record, data: Any) -> None:
        if self.stream is None:
            self.stream = Line(event, "model", "stream")
            self._add(self.stream)
        else:
            self.stream.events.append(event)
        first, number = self.stream.events[0], len(self.stream.events)
        self.stream.text = f"{count(number, 'chunk')}, {span(get(first, 'time'), get(event, 'time'))}".rstrip(", ")
        reason = get(data, "chunk", "reason")
        if get(data, "chunk", "type") == "finish":
            failed = get(reason, "failure")
            self.stream.aside = failure_words(failed) if failed else words_of(get(reason, "kind"))
            if failed:
                self.stream.tone, self.stream.word = "bad", "attempt"
            self.stream = None

    def _assistant(self, event: Record, data: Any) -> None:
        self.stream = None
        interrupted = get(data, "interrupted") is True
        content = content_words(get(data, "message", "content"))
        asides = [_stream_words(get(data, "stream")), usage_words(get(data, "usage")), _replaces(event).strip()]
        line = Line(event, "model", "assistant", content, ", ".join(part for part in asides if part))
        if interrupted:
            line.tone, line.word = "warn", "cut off"
        self._add(line)

    def _attempt(self, event: Record, data: Any) -> None:
        stream = items(get(data, "stream"))
        failures = [failed for record in stream if (failed := get(record, "chunk", "reason", "failure"))]
        text = failure_words(failures[-1]) if failures else "no message came of it"
        partial = "".join(part for record in stream for part in items(get(record, "texts")) if isinstance(part, str))
        line = Line(event, "bad", "attempt", text, _stream_words(stream))
        if partial:
            line.children.append(Line(None, "plain", "partial", safe(partial), "never shown to the model"))
        self._add(line)

    # -- tools

    def _call(self, event: Record, data: Any) -> None:
        name, id = words_of(get(data, "name")), get(data, "callId")
        line = Line(event, "tool", f"tool {name}", safe(get(data, "arguments") or ""), words_of(id))
        self.calls[id if isinstance(id, str) else ""] = line
        self._add(line)

    def _result(self, event: Record, data: Any) -> None:
        message = get(data, "message")
        id = get(message, "source", "callId")
        call = self.calls.get(id) if isinstance(id, str) else None
        failed = get(message, "isError") is True or any(
            get(b, "isError") is True for b in items(get(message, "content"))
        )
        code = words_of(get(data, "error", "code"))
        aside = ", ".join(part for part in (code, "" if call else words_of(id), _replaces(event).strip()) if part)
        line = Line(event, "bad" if failed else "good", "error" if failed else "result", "", aside)
        line.text = content_words(get(message, "content"))
        if call is not None and not _replaces(event):
            call.children.append(line)
        else:
            line.word = f"{line.word} of {words_of(id)}"
            self._add(line)

    # -- requests

    def _header(self, event: Record, data: Any) -> None:
        config = get(data, "header", "config")
        route = f"{words_of(get(config, 'provider'))}/{words_of(get(config, 'model'))}"
        others = {k: v for k, v in config.items() if k not in ("provider", "model")} if isinstance(config, dict) else {}
        tools = [words_of(get(tool, "name")) for tool in items(get(data, "header", "tools"))]
        parts = [f"{key} {safe(value, 40)}" for key, value in others.items()]
        if tools:
            parts.append(f"tools {', '.join(tools[:12])}" + (f" and {len(tools) - 12} more" if len(tools) > 12 else ""))
        series = ", starts a series" if get(data, "startsSeries") else ""
        reason = words_of(get(data, "reason"))
        self._add(Line(event, "request", "request", route + "".join(f", {part}" for part in parts), reason + series))

    def _context(self, event: Record, data: Any) -> None:
        window = get(data, "contextWindow")
        route = f"{words_of(get(data, 'provider'))}/{words_of(get(data, 'model'))}"
        self._add(Line(event, "request", "context", route, f"window {window:,}" if type(window) is int else ""))

    def _retry(self, event: Record, data: Any) -> None:
        most = get(data, "maxRetries")
        text = f"{words_of(get(data, 'retry'))}" + (f" of {words_of(most)}" if most is not None else "")
        text += f" in {words_of(get(data, 'delayMs'))} ms"
        self._add(Line(event, "warn", "retry", text, failure_words(get(data, "failure"))))

    def _retry_started(self, event: Record, data: Any) -> None:
        self._add(Line(event, "plain", "retry started", words_of(get(data, "retry"))))

    # -- brackets and markers

    def _free_bracket(self) -> None:
        """A bracket that stands between turns and was never closed."""
        if self.bracket is not None and self.turn is None:
            self.bracket.text = "never ended"
            self.out.append(self.bracket)
            self.bracket = None

    def _compaction(self, event: Record, data: Any) -> None:
        line = Line(event, "system", "compaction", "", words_of(get(data, "compactionId")))
        self._free_bracket()
        self.bracket = None
        if self.turn is not None:
            self._add(line)
        self.bracket = line

    def _summary(self, event: Record, data: Any) -> None:
        shadowed = items(get(data, "shadowedSeqs"))
        tokens = get(data, "shadowedTokenCount")
        aside = f"for {count(len(shadowed), 'node')}" + (f", {tokens:,} tokens" if type(tokens) is int else "")
        self._add(Line(event, "system", "summary", content_words(get(data, "summary")), aside))

    def _compaction_end(self, event: Record, data: Any) -> None:
        error = get(data, "error")
        if self.bracket is None:
            self._add(Line(event, "bad", "compaction/end", "no compaction is open here", safe(data)))
            return
        bracket, self.bracket = self.bracket, None
        bracket.events.append(event)
        if error:
            bracket.tone, bracket.text = "bad", f"failed: {safe(error)}"
        if self.turn is None:
            self.out.append(bracket)

    def _end_seed(self, event: Record, data: Any) -> None:
        inherited = get(data, "inherited") is True
        text = "what stands above was inherited" if inherited else "the session was taken up again here"
        self._add(Line(event, "plain", "resumed" if not inherited else "forked", text))


def _end_words(reason: Any) -> tuple[str, Tone]:
    kind = get(reason, "kind")
    if kind == "completed":
        return "completed", "turn"
    if kind == "aborted":
        cause = get(reason, "reason")
        why = get(cause, "reason")
        return f"aborted by {words_of(get(cause, 'kind'))}" + (f": {safe(why)}" if why else ""), "warn"
    if kind == "error":
        return f"error: {failure_words(get(reason, 'error'))}", "bad"
    return words_of(kind) or "ended without a reason", "warn"


def _replaces(event: Record) -> str:
    operation = event.get("surfaceOp")
    if get(operation, "op") != "replace":
        return ""
    start = get(operation, "startSeq") if get(operation, "startSeq") is not None else get(operation, "start")
    end = get(operation, "endSeq") if get(operation, "endSeq") is not None else get(operation, "end")
    return f" replaces {words_of(start)}" + ("" if start == end else f" to {words_of(end)}")


def _stream_words(stream: Any) -> str:
    """How many chunks an embedded stream has, and how long it took."""
    records = items(stream)
    chunks = 0
    times: list[Any] = []
    for record in records:
        gaps = [gap for gap in items(get(record, "dt")) if type(gap) is int]
        chunks += max(len(items(get(record, "texts"))), len(items(get(record, "args"))), 1)
        first = get(record, "time") if get(record, "time") is not None else get(record, "time0")
        times += [first, first + sum(gaps) if type(first) is int else None]
    if not records:
        return ""
    return f"{count(chunks, 'chunk')}, {span(times[0], times[-1])}".rstrip(", ")
