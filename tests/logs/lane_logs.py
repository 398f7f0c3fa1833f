"""Logs with one row that a single condition of a lane keeps out: for conditions that no other log needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.logs.building import Builder, text, tool_call

Make = Callable[[Builder], object]
"""Writes the rows of a log, of either format."""


def _compaction(log: Builder) -> None:
    log.add("compaction/start", {"compactionId": "k", "turn": log.turn or None})


def _second_turn(before: Make | None = None, message_id: str = "u2") -> Make:
    """A turn, and a second one; `before` that comes what is given."""

    def make(log: Builder) -> None:
        log.begin("One", "u1")
        log.answer(text("1"))
        log.end()
        if before is not None:
            before(log)
        log.begin("Two", message_id)

    return make


def _spliced(*messages: str, start: int = 0, removed: int | None = None, target: str = "next-turn") -> Make:
    """A splice into a pending list."""
    more = {} if removed is None else {"removedCount": removed}
    return lambda log: log.add(
        "agent/inbox/spliced",
        {"target": target, "start": start, **more, "inserted": [log.user("Hm", name) for name in messages]},
    )


def _in_step(*rows: Make, blocks: tuple[Any, ...] = (tool_call("c1"),)) -> Make:
    """Rows behind an answer in an open step."""

    def make(log: Builder) -> None:
        log.begin("One", "u1")
        log.answer(*blocks, finish="tool-calls")
        for row in rows:
            row(log)

    return make


def _call_of(name: str) -> Make:
    return lambda log: log.add("tool/call", log.at(callId="c1", name=name, arguments="{}"))


def _result_citing(change: Callable[[int], Any]) -> Make:
    return lambda log: log.result("c1", change(log.seq - 1))


def _cited(change: Callable[[list[int]], list[Any]], split: bool = False) -> Make:
    """An answer whose citations are changed; `split`: something comes in between its chunks."""

    def make(log: Builder) -> None:
        log.begin("One", "u1")
        log.answer(text("1"))
        if split and log.version == 0:
            second = 1 + next(at for at, row in enumerate(log.rows) if row["type"] == "assistant/chunk")
            rows = log.rows[second:]
            del log.rows[second:]
            _spliced("u9")(log)
            for row in rows:
                log.add(
                    row["type"],
                    row["data"],
                    **{k: v for k, v in row.items() if k not in ("type", "seq", "time", "data")},
                )
        if log.version == 0:
            log.rows[-1]["sourceEventSeqs"] = change(log.rows[-1]["sourceEventSeqs"])

    return make


def _changed(number: int, **more: Any) -> Make:
    """A turn of which one row is changed, counted from the last."""

    def make(log: Builder) -> None:
        _second_turn()(log)
        log.rows[number].update(more)

    return make


def _routed(part: str) -> Make:
    def make(log: Builder) -> None:
        log.begin("One", "u1")
        log.answer(text("1"))
        log.rows[-1]["data"]["message"]["source"][part] = "another"

    return make


def _fresh_among_calls(log: Builder) -> None:
    for name in ("u7", "u8"):
        log.queue(log.user("Hm", name))
    log.turn = 1
    log.add("turn/start", {"turn": 1})
    log.claim()
    log.open_step()
    log.header("initial")
    log.answer(tool_call("c1"), finish="tool-calls")
    log.add("user/message", log.user("Hm", "u8"), surfaceOp="append")


def _second_claimed(log: Builder) -> None:
    _spliced("u7", "u8")(log)
    log.add("turn/start", {"turn": 1})
    _spliced(start=1, removed=1)(log)


_START = {"type": "block-start", "index": 0, "blockType": "text"}
_WORD = {"type": "text-delta", "index": 0, "text": "a"}
_CUT = {"type": "finish", "reason": {"kind": "max-tokens"}}


def _streamed(*chunks: Any, row: Any = (), data: Any = (), before: Make | None = None) -> Make:
    """Chunks in an open step; `row` and `data` change the last one."""

    def make(log: Builder) -> None:
        log.begin("One", "u1")
        if before is not None:
            before(log)
        for chunk in chunks:
            log.add("assistant/chunk", log.at(chunk=dict(chunk)))
        log.rows[-1].update(row)
        log.rows[-1]["data"].update(data)
        if "seq" in dict(row):
            log.rows[-1]["seq"] = float(log.seq - 1)

    return make


def _run(kind: str = "text", **changes: Any) -> Make:
    """A packed run behind the start of its block, with something changed in its data."""

    def make(log: Builder) -> None:
        _streamed({**_START, "blockType": kind})(log)
        body = {"texts": ["a", "b"], "dt": [1]} if kind == "text" else {"id": "c", "args": ["{}"], "dt": []}
        row = {"type": f"{kind}-chunks", "seq0": log.seq, "time0": 2000}
        kept = {key: value for key, value in (body | changes).items() if value is not None}
        log.rows.append({**row, "data": log.at(index=0, **kept)})

    return make


def _early_delta(log: Builder) -> None:
    """A delta that is older than its session, but not than the chunk before it."""
    _streamed(_START, _WORD)(log)
    log.rows[-2]["time"], log.rows[-1]["time"] = 500, 600


def _seeded(make: Make) -> Make:
    """The log of a child whose seed ends behind the last row."""

    def made(log: Builder) -> None:
        make(log)
        if log.version == 0:
            log.rows[0]["seedLength"] = log.seq

    return made


def _prune(log: Builder) -> None:
    log.add("compaction/prune", {"shadowedRange": {"start": 4, "end": 4}, "shadowedSeqs": [4], "shadowedTokenCount": 1})


MADE: dict[str, Make] = {
    "compaction over turn/start": _second_turn(_compaction),
    "compaction over turn/end": _in_step(_compaction, lambda log: log.end(), blocks=(text("1"),)),
    "message twice": _second_turn(message_id="u1"),
    "splice beyond": _second_turn(_spliced("u7", start=3)),
    "splice takes and gives": _second_turn(_spliced("u7", removed=4)),
    "splice of twins": _second_turn(_spliced("u7", "u7")),
    "splice of nothing": _second_turn(_spliced(removed=0)),
    "claim outside": _second_turn(lambda log: (_spliced("u7")(log), log.claim())),
    "claim of nothing": _in_step(lambda log: log.claim("next-step", 0)),
    "claim in step": _in_step(_spliced("u7"), lambda log: log.claim()),
    "claim of the second": _second_turn(lambda log: (_spliced("u7", "u8")(log), _spliced(start=1, removed=1)(log))),
    "claim of the second inside": _second_claimed,
    "claim beyond": _in_step(_spliced("u7", target="next-step"), _spliced(start=1, removed=1, target="next-step")),
    "claim of steers outside": _second_turn(
        lambda log: (_spliced("u7", target="next-step")(log), log.claim("next-step"))
    ),
    "message among calls": _in_step(
        _spliced("u7"), lambda log: log.add("user/message", log.user("Hm", "u1"), surfaceOp="append")
    ),
    "fresh message among calls": _fresh_among_calls,
    "call of another name": _in_step(_call_of("write")),
    "result twice": _in_step(
        lambda log: log.call("c1"),
        lambda log: log.call("c2"),
        lambda log: log.result("c1", log.seq - 2, message_id="r"),
        lambda log: log.result("c2", log.seq - 2, message_id="r"),
        blocks=(tool_call("c1"), tool_call("c2")),
    ),
    "result cites a fraction": _in_step(lambda log: log.call("c1"), _result_citing(float)),
    "result cites twice": _in_step(
        lambda log: log.call("c1"),
        lambda log: log.rows[log.result("c1", log.seq - 1) + 1].update(sourceEventSeqs=[log.seq - 2] * 2),
    ),
    "result cites nothing": _in_step(
        lambda log: log.call("c1"),
        lambda log: log.rows[log.result("c1", log.seq - 1) + 1].pop("sourceEventSeqs"),
    ),
    "twin calls": _in_step(blocks=(tool_call("c1"), tool_call("c1"))),
    "nameless call": _in_step(blocks=(tool_call(""),)),
    "other provider": _routed("provider"),
    "other model": _routed("model"),
    "answer cites fractions": _cited(lambda seqs: [float(seq) for seq in seqs]),
    "answer cites half": _cited(lambda seqs: seqs[:1], split=True),
    "answer cites less": _cited(lambda seqs: seqs[1:]),
    "seq is a fraction": _changed(-1, seq=14.0),
    "seq is true": _changed(2, seq=True),
    "surface row to ignore": _changed(-1, ignorable=True),
    "answer to ignore": _in_step(lambda log: log.rows[-1].update(ignorable=True)),
    "sources of a message": _changed(-1, sourceEventSeqs=[0]),
    "row behind interrupted": _second_turn(
        lambda log: log.rows[-1]["data"].update(reason={"kind": "interrupted"}),
    ),
    "row behind prune": _second_turn(
        lambda log: log.add(
            "compaction/prune", {"shadowedRange": {"start": 4, "end": 4}, "shadowedSeqs": [4], "shadowedTokenCount": 1}
        )
    ),
    "delta with a key too many": _streamed(_START, _WORD, {**_WORD, "more": 1}),
    "delta to ignore": _streamed(_START, _WORD, _WORD, row={"ignorable": True}),
    "delta beside something": _streamed(_START, _WORD, _WORD, data={"more": 1}),
    "delta of a number": _streamed(_START, _WORD, {**_WORD, "text": 1}),
    "delta with a fraction for seq": _streamed(_START, _WORD, _WORD, row={"seq": 0}),
    "delta of turn true": _streamed(_START, _WORD, _WORD, data={"turn": True}),
    "delta of step true": _streamed(_START, _WORD, _WORD, data={"step": True}),
    "delta of block false": _streamed(_START, _WORD, {**_WORD, "index": False}),
    "delta behind finish": _streamed(_START, _CUT, _WORD),
    "chunk to ignore": _streamed(_START, row={"ignorable": True}),
    "chunk with a fraction for seq": _streamed(_START, row={"seq": 0}),
    "chunk behind prune": _streamed(_START, before=_prune),
    "chunk behind answer": _streamed(_START, before=lambda log: log.answer(text("1"))),
    "delta behind answer": _streamed(_START, _WORD, before=lambda log: log.answer(text("1"))),
    "chunk before its session": _streamed(_START, row={"time": 600}, before=lambda log: log.rows[-1].update(time=500)),
    "delta before its session": _early_delta,
    "chunk at the end of a seed": _seeded(_streamed(_START)),
    "delta at the end of a seed": _seeded(_streamed(_START, _WORD)),
    "row of no type": _streamed(_START, row={"type": ["assistant/chunk"]}),
    "chunk of a later format": _streamed(_START, _WORD),
    "run of one text": _run(texts="ab"),
    "run with a key too many": _run(more=1),
    "run of calls with a key too many": _run("tool-call", more=1),
    "run of calls with two keys too many": _run("tool-call", more=1, name="read"),
    "run of calls with another key for id": _run("tool-call", name="read", id=None, more=1),
    "run of calls with a number for id": _run("tool-call", id=1),
    "run of calls with a number for name": _run("tool-call", name=1),
}
"""Logs for conditions that no other log needs."""
