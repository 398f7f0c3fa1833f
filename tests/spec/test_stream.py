"""The stream folds: what is assembled, what survives a cancel, and which sequences are illegal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopspec.log.packed import unpack_rows
from loopspec.stream import (
    EMPTY,
    AssemblyError,
    absorb,
    assemble,
    failure,
    finish_reason,
    judge_stream,
    settle,
    settle_interrupted,
    tool_calls,
)

CORPUS = Path(__file__).parents[1] / "logs" / "upstream-rc8"
Chunk = dict[str, Any]
FAILURE = {"message": "m", "code": "C"}


def start(index: int, block_type: str = "text") -> Chunk:
    return {"type": "block-start", "index": index, "blockType": block_type}


def delta(index: int, text: str, kind: str = "text") -> Chunk:
    return {"type": f"{kind}-delta", "index": index, "text": text}


def call(index: int, arguments: str, call_id: str = "c", **extra: Any) -> Chunk:
    return {"type": "tool-call-delta", "index": index, "id": call_id, "argumentsDelta": arguments, **extra}


def end(index: int, block: dict[str, Any]) -> Chunk:
    return {"type": "block-end", "index": index, "block": block}


def finish(kind: str = "stop", **extra: Any) -> Chunk:
    reason = {"kind": kind, "failure": FAILURE} if kind in ("error", "aborted") else {"kind": kind}
    return {"type": "finish", "reason": reason, **extra}


def usage(count: int = 1) -> Chunk:
    return {"type": "usage", "usage": {"inputTokens": count, "outputTokens": 1}}


def text(value: str, kind: str = "text") -> dict[str, Any]:
    return {"type": kind, "text": value}


def called(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"type": "tool-call", "id": call_id, "name": name, "arguments": arguments}


@pytest.mark.parametrize(
    ("why", "chunks", "content"),
    [
        ("deltas join", [start(0), delta(0, "a"), delta(0, "b")], [text("ab")]),
        ("a delta opens its block", [delta(0, "a", "reasoning"), delta(1, "b")], [text("a", "reasoning"), text("b")]),
        ("first seen order, not numbers", [start(5), start(2), delta(2, "b"), delta(5, "a")], [text("a"), text("b")]),
        ("order of closing does not count", [delta(0, ""), delta(1, ""), end(1, text("b")), end(0, text("a"))],
         [text("a"), text("b")]),
        ("the end is authoritative", [delta(0, "guess"), end(0, text("truth"))], [text("truth")]),
        ("the first close wins", [end(0, text("a")), end(0, text("b"))], [text("a")]),
        ("stragglers are ignored", [delta(0, "a"), end(0, text("a")), delta(0, "b")], [text("a")]),
        ("a second start is ignored", [start(0), delta(0, "a"), start(0, "reasoning"), delta(0, "b")], [text("ab")]),
        ("an empty block stays", [start(0, "reasoning"), finish()], [text("", "reasoning")]),
        ("interleaved calls", [call(0, "1", "x", name="f"), call(1, "2", "y", name="g"), call(0, "3", "x")],
         [called("x", "f", "13"), called("y", "g", "2")]),
        ("the last id wins", [call(0, "", "x"), call(0, "", "y")], [called("y", "", "")]),
        ("an empty id falls back to the index", [call(3, "a", "")], [called("call-3", "", "a")]),
        ("a later empty id also counts", [call(3, "a", "x"), call(3, "b", "")], [called("call-3", "", "ab")]),
        ("a name is not erased by an empty one", [call(0, "", name="f"), call(0, "", name="")], [called("c", "f", "")]),
        ("a later name wins", [call(0, "", name="f"), call(0, "", name="g")], [called("c", "g", "")]),
        ("an end opens and closes", [end(0, called("x", "f", "{}"))], [called("x", "f", "{}")]),
        ("max-tokens drops every call", 
         [delta(0, "a"), call(1, "x"), end(2, called("y", "f", "")), finish("max-tokens")], [text("a")]),
        ("other reasons keep them", [call(0, "x"), finish("stop")], [called("c", "", "x")]),
        ("an unknown closed block is kept", [end(0, {"type": "odd"})], [{"type": "odd"}]),
        ("unknown chunks change nothing", [{"type": "odd"}, delta(0, "a")], [text("a")]),
        ("nothing at all", [], []),
    ],
)  # fmt: skip
def test_assembly(why: str, chunks: list[Chunk], content: list[Any]) -> None:
    assert list(settle(assemble(chunks)).content) == content, why


def test_stragglers_leave_no_trace() -> None:
    """What comes for a closed block is not even kept, so it cannot grow without bound."""
    closed = assemble([end(0, text("a"))])
    assert absorb(closed, delta(0, "late")) is closed
    assert absorb(closed, call(0, "late")) is closed


def test_the_last_finish_and_usage_win() -> None:
    """L-STR-3, L-STR-4"""
    settled = settle(assemble([usage(1), finish("stop"), delta(0, "late"), usage(2), finish("tool-calls")]))
    assert settled.finish == {"kind": "tool-calls"}
    assert settled.usage == {"inputTokens": 2, "outputTokens": 1}
    assert settled.content == (text("late"),)


def test_a_stream_without_finish_stops() -> None:
    assert finish_reason(EMPTY) == {"kind": "stop"}
    assert settle(EMPTY) == ((), None, {"kind": "stop"}, None)


@pytest.mark.parametrize(("kind", "facts"), [("error", FAILURE), ("aborted", FAILURE), ("stop", None)])
def test_failures(kind: str, facts: Any) -> None:
    assert failure(assemble([delta(0, "a"), finish(kind)])) == facts


@pytest.mark.parametrize("block_type", ["image", "odd"])
def test_an_open_block_that_no_delta_builds(block_type: str) -> None:
    """L-STR-8: the exact text; closed, the same block is fine."""
    chunks = [start(0, block_type), finish()]
    with pytest.raises(AssemblyError) as error:
        settle(assemble(chunks))
    assert str(error.value) == f'cannot assemble incomplete block of type "{block_type}"'
    assert settle(assemble([*chunks, end(0, {"type": block_type})])).content == ({"type": block_type},)
    assert settle_interrupted(assemble(chunks)).content == ()


@pytest.mark.parametrize(
    ("chunks", "content"),
    [
        ([delta(0, "a"), delta(1, "b", "reasoning")], [text("a"), text("b", "reasoning")]),
        ([delta(0, " \n\t\u00a0\ufeff"), delta(1, "b")], [text("b")]),
        ([delta(0, "\x1f")], [text("\x1f")]),
        ([delta(0, "\x85")], [text("\x85")]),
        ([end(0, text("a")), end(1, text("  "))], [text("a")]),
        ([call(0, "x"), end(1, called("y", "f", ""))], []),
        ([delta(0, "kept "), finish("max-tokens")], [text("kept ")]),
        ([start(0)], []),
        ([start(0), end(0, {"type": "odd", "text": "x"})], []),
    ],
)
def test_what_survives_a_cancel(chunks: list[Chunk], content: list[Any]) -> None:
    """L-STR-9, S-CHK-3; blank means blank for the writers' platform."""
    assert list(settle_interrupted(assemble(chunks)).content) == content


TWO = [delta(0, "a"), call(1, "x")]
BARE: dict[str, Any] = {"response": 1}
NOTES_A, NOTES_AB = {**BARE, "blocks": ["A"]}, {**BARE, "blocks": ["A", "B"]}


@pytest.mark.parametrize(
    ("chunks", "replay"),
    [
        ([*TWO, finish("stop", replayState={"response": 1})], {"response": 1}),
        ([*TWO, finish("stop", replayState=NOTES_AB)], NOTES_AB),
        ([*TWO, finish("stop", replayState=NOTES_A)], None),
        ([*TWO, finish("max-tokens", replayState=NOTES_AB)], NOTES_A),
        ([*TWO, finish("max-tokens", replayState=NOTES_A)], None),
        ([*TWO, finish("max-tokens", replayState={"response": 1})], {"response": 1}),
        ([finish("stop", replayState={"response": 1}), finish("stop", replayState={"response": 2})], {"response": 2}),
        ([finish("stop")], None),
    ],
)  # fmt: skip
def test_replay_state_is_pruned_with_the_blocks(chunks: list[Chunk], replay: Any) -> None:
    assert settle(assemble(chunks)).replay_state == replay


def test_tool_calls_are_blocks() -> None:
    calls = [called("x", "f", ""), called("y", "g", "")]
    assert tool_calls([text("a"), *calls]) == tuple(calls)


CHUNKS = st.one_of(
    st.builds(start, st.integers(0, 2), st.sampled_from(["text", "reasoning", "tool-call"])),
    st.builds(delta, st.integers(0, 2), st.text(max_size=3), st.sampled_from(["text", "reasoning"])),
    st.builds(call, st.integers(0, 2), st.text(max_size=3), st.sampled_from(["", "x", "y"])),
    st.builds(end, st.integers(0, 2), st.sampled_from([text("t"), called("z", "f", "1")])),
    st.builds(usage, st.integers(0, 3)),
    st.builds(finish, st.sampled_from(["stop", "max-tokens", "error"])),
)
STREAMS = st.lists(CHUNKS, max_size=20)


@given(STREAMS)
def test_assembly_is_total_and_bounded(chunks: list[Chunk]) -> None:
    assembly = assemble(chunks)
    indexes = {chunk["index"] for chunk in chunks if "index" in chunk}
    assert len(assembly.partials) == len(indexes)
    assert len(settle(assembly).content) <= len(indexes)
    assert len(settle_interrupted(assembly).content) <= len(indexes)


@given(STREAMS, CHUNKS, CHUNKS)
def test_an_assembly_is_a_value(chunks: list[Chunk], one: Chunk, two: Chunk) -> None:
    """Two futures of one past do not meet."""
    past = assemble(chunks)
    before, left = settle(past), settle(absorb(past, one))
    settle(absorb(past, two))
    assert settle(past) == before
    assert settle(absorb(past, one)) == left


# -- grammar -------------------------------------------------------------------------------------------------

GOOD = [start(0), delta(0, "a"), end(0, text("a")), usage(), finish()]


@pytest.mark.parametrize(
    "chunks",
    [
        GOOD,
        [start(0, "tool-call"), call(0, "x"), finish("max-tokens")],
        [start(0), finish("error")],
        [start(0), finish("aborted")],
        [start(0), start(1, "reasoning"), delta(0, "a"), delta(1, "b", "reasoning"), end(1, text("b", "reasoning")),
         end(0, text("a")), finish()],
        [start(0), end(0, text("")), start(0), end(0, text("")), finish()],
        [finish()],
    ],
)  # fmt: skip
def test_legal_streams(chunks: list[Chunk]) -> None:
    assert judge_stream(chunks) == ()


@pytest.mark.parametrize(
    ("chunks", "found"),
    [
        ([delta(0, "a"), finish()], [(0, "delta-unopened")]),
        ([start(0, "reasoning"), delta(0, "a"), end(0, text("", "reasoning")), finish()], [(1, "delta-of-other-type")]),
        ([start(0), start(0), end(0, text("")), finish()], [(1, "start-of-open")]),
        ([end(0, text("a")), finish()], [(0, "end-unopened")]),
        ([start(0), end(0, text("a", "reasoning")), finish()], [(1, "end-of-other-type")]),
        ([*GOOD[:4], usage(), finish()], [(4, "second-usage")]),
        ([*GOOD, usage()], [(5, "after-finish"), (5, "second-usage")]),
        ([finish(), finish()], [(1, "after-finish")]),
        ([finish(), start(0)], [(1, "after-finish")]),
        ([start(0), finish()], [(1, "open-at-finish")]),
        ([start(0), finish("tool-calls")], [(1, "open-at-finish")]),
        (GOOD[:4], [(4, "no-finish")]),
        ([{"type": "odd"}, finish()], [(0, "unknown-chunk")]),
    ],
)  # fmt: skip
def test_illegal_streams(chunks: list[Chunk], found: list[tuple[int, str]]) -> None:
    assert [(at, violation.name) for at, violation in judge_stream(chunks)] == found


def test_a_cut_stream_needs_no_finish() -> None:
    assert judge_stream([start(0), delta(0, "a")], cut=True) == ()
    assert judge_stream([], cut=True) == ()


# -- real streams --------------------------------------------------------------------------------------------


def attempts(path: Path) -> list[tuple[list[Chunk], dict[str, Any]]]:
    """Each settled attempt of a real log: the chunks its message cites, and the message."""
    events = list(unpack_rows(json.loads(line) for line in path.read_text("utf-8").splitlines()[1:]))
    found: list[tuple[list[Chunk], dict[str, Any]]] = []
    for event in events:
        if event["type"] == "assistant/message" and event["surfaceOp"] == "append":
            sources = event["sourceEventSeqs"]
            found.append(([events[seq]["data"]["chunk"] for seq in sources], event["data"]))
    return found


ATTEMPTS = [(path.stem, *attempt) for path in sorted(CORPUS.glob("*.jsonl")) for attempt in attempts(path)]


def test_the_corpus_has_settled_attempts() -> None:
    assert len(ATTEMPTS) == 50
    assert sum(1 for _, _, data in ATTEMPTS if data.get("interrupted")) == 3


@pytest.mark.parametrize(("name", "chunks", "data"), ATTEMPTS)
def test_real_streams_settle_as_recorded(name: str, chunks: list[Chunk], data: dict[str, Any]) -> None:
    """S-LNT-58, S-LNT-60 to S-LNT-62 on every settled attempt of the corpus."""
    interrupted = data.get("interrupted") is True
    settled = settle_interrupted(assemble(chunks)) if interrupted else settle(assemble(chunks))
    assert list(settled.content) == data["message"]["content"]
    assert settled.usage == data.get("usage")
    if not interrupted:
        assert settled.replay_state == data["message"]["source"].get("replayState")
    assert judge_stream(chunks, cut=interrupted) == ()
