"""Format 0 read as format 4: legal rows, a legal surface, and the same requests with the prompt as a message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loopspec import surface as surfaces
from loopspec.log import v4
from loopspec.log.migrate import MigrationError, migrate
from loopspec.log.packed import chunks_of, unpack_rows
from loopspec.log.repair import repair
from loopspec.request import reconstruct_requests
from loopspec.stream import assemble, failure, judge_stream, settle, settle_interrupted

CORPUS = Path(__file__).parents[1] / "logs" / "upstream-rc8"
LOGS = sorted(CORPUS.glob("*.jsonl"))


def read(path: Path) -> tuple[dict[str, Any], list[Any]]:
    header, *rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return header, list(unpack_rows(rows))


def named(stem: str) -> tuple[dict[str, Any], list[Any]]:
    return read(CORPUS / f"{stem}.jsonl")


def as_format_4(message: dict[str, Any]) -> dict[str, Any]:
    """The same message in the words of the fact sheet, not of the migration."""
    message = dict(message)
    block = message["content"][0] if message["content"] else {}
    if block.get("type") == "tool-result":
        lifted = {"id": message["id"], "role": "tool", "source": message["source"]}
        rest = {name: value for name, value in block.items() if name != "type"}
        return {**lifted, **rest}
    source = dict(message["source"])
    if source["kind"] == "plugin":
        plugin = source.pop("plugin")
        source["kind"] = "compact-checkpoint" if plugin == "compact" else f"plugin:{plugin}"
        message["source"] = source
    return message


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_every_migrated_row_is_legal(path: Path) -> None:
    migrated = migrate(*read(path))
    assert v4.validate_header(migrated.header) == ()
    assert [event["seq"] for event in migrated.events] == list(range(len(migrated.events)))
    for event in migrated.events:
        if event["type"] == "plugin:x-plugin/note":
            assert event["ignorable"] is True
        assert (event["seq"], v4.validate_event(event)) == (event["seq"], ())
    surface = surfaces.fold("v4", migrated.events)
    assert not surface.nodes or surfaces.protected_head(surface) is not None
    assert repair("v4", migrated.events) == ()


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_the_requests_are_the_same_with_the_prompt_as_first_message(path: Path) -> None:
    header, events = read(path)
    migrated = migrate(header, events)
    old, new = reconstruct_requests(header, events), reconstruct_requests(migrated.header, migrated.events)
    assert len(old) == len(new)
    for before, after in zip(old, new, strict=True):
        expected = {name: value for name, value in before.request.items() if name not in ("messages", "system")}
        assert {name: value for name, value in after.request.items() if name != "messages"} == expected
        head, *rest = after.request["messages"]
        assert (head["role"], head["content"]) == ("system", [{"type": "text", "text": before.request["system"]}])
        assert rest == [as_format_4(message) for message in before.request["messages"]]


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_every_stream_is_where_it_belongs(path: Path) -> None:
    """S-CHK-22: messages equal their streams; attempts are failures or were cut; no chunk is lost."""
    _, events = read(path)
    migrated = migrate(*read(path))
    moved: list[Any] = []
    for event in migrated.events:
        assert event["type"] != "assistant/chunk"
        if "stream" not in event["data"]:
            continue
        chunks = chunks_of(event["data"]["stream"])
        moved += chunks
        assembly = assemble(chunks)
        if event["type"] == "assistant/attempt":
            assert failure(assembly) is not None or assembly.finish is None
            continue
        cut = event["data"].get("interrupted") is True
        settled = settle_interrupted(assembly) if cut else settle(assembly)
        assert list(settled.content) == event["data"]["message"]["content"]
        assert judge_stream(chunks, cut=cut) == ()
    assert moved == [event["data"]["chunk"] for event in events if event["type"] == "assistant/chunk"]


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_every_old_event_has_its_successor(path: Path) -> None:
    _, events = read(path)
    migrated = migrate(*read(path))
    assert len(migrated.seqs) == len(events)
    for event, seq in zip(events, migrated.seqs, strict=True):
        after = migrated.events[seq]
        if event["type"] == "assistant/chunk":
            assert after["type"] in ("assistant/message", "assistant/attempt")
        elif event["type"] != "x-plugin/note":
            assert (after["type"], after["time"]) == (event["type"], event["time"])
    whole = [seq for event, seq in zip(events, migrated.seqs, strict=True) if event["type"] != "assistant/chunk"]
    assert whole == sorted(set(whole))


def test_the_failed_attempts_become_attempts() -> None:
    types = [event["type"] for event in migrate(*named("06-error-and-retry")).events]
    at = [place for place, event_type in enumerate(types) if event_type == "assistant/attempt"]
    assert [types[place + 1] for place in at] == ["llm/retry", "llm/retry", "step/end"]


def test_a_failed_attempt_stands_before_the_compaction_it_caused() -> None:
    types = [event["type"] for event in migrate(*named("12-compaction")).events]
    assert types[types.index("compaction/start") - 1] == "assistant/attempt"


def test_a_crashed_log_is_closed() -> None:
    header, events = named("09a-crash-before-repair")
    migrated = migrate(header, events)
    assert [event["type"] for event in migrated.events[-4:]] == ["tool/result", "tool/result", "step/end", "turn/end"]
    assert migrated.events[-1]["data"]["reason"] == {"kind": "interrupted"}


def test_an_old_restart_without_repair_is_closed_where_it_happened() -> None:
    """S-MIG-2: the next lifecycle starts over an open turn."""
    header, events = named("01-simple-turn")
    cut = next(event["seq"] for event in events if event["type"] == "assistant/message")
    again = {"type": "session/end-seed", "seq": cut, "time": 9, "data": {}}
    migrated = migrate(header, [*events[:cut], again])
    assert [event["type"] for event in migrated.events[-4:]] == [
        "assistant/attempt",
        "step/end",
        "turn/end",
        "session/end-seed",
    ]


def test_a_fork_child_keeps_its_cut() -> None:
    header, events = named("10-fork.10-fork-child")
    migrated = migrate(header, events)
    assert migrated.header["isSeeded"] is True
    assert "seedLength" not in migrated.header
    marks = [event["seq"] for event in migrated.events if event["data"] == {"inherited": True}]
    assert marks == [migrated.seqs[20]]
    with pytest.raises(MigrationError, match="seedLength does not point at"):
        migrate({**header, "seedLength": 10}, events)


def test_other_logs_are_not_seeded() -> None:
    header, events = named("08-resume")
    migrated = migrate(header, events)
    assert migrated.header["isSeeded"] is False
    assert all(event["data"] == {} for event in migrated.events if event["type"] == "session/end-seed")


def test_a_changed_prompt_replaces_the_head_before_the_header() -> None:
    header, events = named("08-resume")
    migrated = migrate(header, events).events
    replaces = [
        event["seq"] for event in migrated if event["type"] == "system/message" and event["surfaceOp"] != "append"
    ]
    assert [migrated[seq + 1]["type"] for seq in replaces] == ["request/header"] * 2
    texts = [migrated[seq]["data"]["message"]["content"][0]["text"] for seq in replaces]
    assert [text.rsplit("\n", 1)[1] for text in texts] == ["You are a test agent.", "You are a changed persona."]


@pytest.mark.parametrize(
    ("change", "reason", "starts"),
    [
        ({"system": "other"}, "series", None),
        ({"tools": [{"name": "t", "description": "", "parameters": {}}]}, "change", None),
        ({"system": "other", "tools": [{"name": "t", "description": "", "parameters": {}}]}, "change", True),
    ],
)
def test_the_reason_of_a_header_whose_prompt_moved_out(change: dict[str, Any], reason: str, starts: Any) -> None:
    """S-REQ-5, S-LNT-82: a header that now equals the last one starts a series; one that differs is a change."""
    header, events = named("01-simple-turn")
    at = next(event["seq"] for event in events if event["type"] == "request/header")
    second = {**events[at], "data": {"header": {**events[at]["data"]["header"], **change}, "reason": "change"}}
    moved = [{**event, "seq": event["seq"] + (event["seq"] > at)} for event in events[: at + 1]]
    migrated = migrate(header, [*moved, {**second, "seq": at + 1}]).events
    records = [event["data"] for event in migrated if event["type"] == "request/header"]
    assert (records[1]["reason"], records[1].get("startsSeries")) == (reason, starts)


def test_a_message_must_cite_its_attempt() -> None:
    header, events = named("01-simple-turn")
    broken = [
        {**e, "sourceEventSeqs": e["sourceEventSeqs"][1:]} if e["type"] == "assistant/message" else e for e in events
    ]
    with pytest.raises(MigrationError, match="does not cite exactly the chunks"):
        migrate(header, broken)


def test_nested_dispatches_are_renamed() -> None:
    header, events = named("01-simple-turn")
    data = {"rootCallId": "c", "parentCallId": "c:code:1", "subCallId": "c:code:1:code:2", "name": "n", "arguments": {}}
    nested = {"type": "tool/code-dispatch-start", "seq": 4, "time": 1, "data": data}
    migrated = migrate(header, [*events[:4], nested]).events
    renamed = next(event for event in migrated if event["type"] == "tool/ptc-dispatch-start")
    assert (renamed["data"]["parentCallId"], renamed["data"]["subCallId"]) == ("c:ptc:1", "c:ptc:1:ptc:2")
