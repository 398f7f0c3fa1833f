"""The surface algebra: incremental derivation equals a naive fold, and every illegal event is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopspec import surface as surfaces
from loopspec.log.packed import unpack_rows
from loopspec.log.types import REPLACE_FIELDS, Dialect
from loopspec.surface import Surface, SurfaceError, accept, advance, breaches, empty, fold, protected_head

CORPUS = Path(__file__).parents[1] / "logs" / "upstream-rc8"
Event: TypeAlias = dict[str, Any]


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


IMAGE = {"type": "image", "attachment": {"attachmentId": "i"}}


def user(seq: int, *content: dict[str, Any]) -> Event:
    data = {"id": f"m{seq}", "role": "user", "content": list(content), "source": {"kind": "user"}}
    return {"type": "user/message", "seq": seq, "time": 0, "data": data, "surfaceOp": "append"}


def wrapped(event_type: str, seq: int, *content: dict[str, Any]) -> Event:
    message = {"id": f"m{seq}", "content": list(content)}
    data = {"turn": 1, "step": 1, "message": message}
    return {"type": event_type, "seq": seq, "time": 0, "data": data, "surfaceOp": "append"}


def result(dialect: Dialect, seq: int, *content: dict[str, Any], message_id: str = "r") -> Event:
    source = {"kind": "tool", "callId": "c"}
    if dialect == "v0":
        block: Event = {"type": "tool-result", "toolCallId": "c", "isError": False, "content": list(content)}
        message: Event = {"id": message_id, "role": "user", "source": source, "content": [block]}
    else:
        message = {"id": message_id, "role": "tool", "source": source, "toolCallId": "c"}
        message |= {"content": list(content), "isError": False}
    data = {"turn": 1, "step": 1, "message": message, "meta": {"k": 1}}
    return {"type": "tool/result", "seq": seq, "time": 0, "data": data, "surfaceOp": "append"}


def replacing(dialect: Dialect, event: Event, start: int, end: int, sources: list[int]) -> Event:
    first, last = REPLACE_FIELDS[dialect]
    operation = {"op": "replace", first: start, last: end}
    return {**event, "surfaceOp": operation, "sourceEventSeqs": sources}


# -- the naive statement: lists, rebuilt from nothing every time ----------------------------------------------


def naive_nodes(dialect: Dialect, events: list[Event]) -> list[int]:
    nodes: list[int] = []
    first, last = REPLACE_FIELDS[dialect]
    for event in events:
        operation = event.get("surfaceOp")
        if operation == "append":
            nodes.append(event["seq"])
        elif operation is not None:
            start, end = nodes.index(operation[first]), nodes.index(operation[last])
            nodes[start : end + 1] = [event["seq"]]
    return nodes


def naive_messages(dialect: Dialect, events: list[Event]) -> list[Any]:
    """S-SUR-10, S-SUR-11 and S-SUR-15 in their own words (images at top level only)."""
    marks: dict[int, set[int]] = {}
    for event in events:
        if event["type"] == "image/offload":
            for target in event["data"]["targets"]:
                marks.setdefault(target["seq"], set()).update(target["imageIndexes"])
    messages = []
    for seq in naive_nodes(dialect, events):
        event = events[seq]
        message = event["data"] if event["type"] == "user/message" else event["data"]["message"]
        if event["type"] not in ("user/message", "tool/result") and not message["content"]:
            continue
        if seq in marks:
            images = [at for at, block in enumerate(message["content"]) if block["type"] == "image"]
            content = [
                {**block, "offloaded": True} if at in images and images.index(at) in marks[seq] else block
                for at, block in enumerate(message["content"])
            ]
            message = {**message, "content": content}
        messages.append(message)
    return messages


CONTENTS = st.sampled_from([(), (text("a"),), (IMAGE,), (text("b"), IMAGE, IMAGE)])
COMMANDS = st.lists(
    st.tuples(
        st.sampled_from(["user", "assistant", "result", "system", "log", "replace", "replace", "rewrite", "offload"]),
        CONTENTS,
        st.integers(0, 30),
        st.integers(0, 30),
    ),
    max_size=30,
)
DIALECTS = st.sampled_from(["v0", "v4"])


def next_event(dialect: Dialect, surface: Surface, seq: int, command: tuple[str, Any, int, int]) -> Event:
    """The event a command means here; whatever is impossible becomes a log-only event."""
    kind, content, one, two = command
    nodes = list(surface.nodes)
    idle = {"type": "turn/start", "seq": seq, "time": 0, "data": {"turn": 1}}
    if kind == "user":
        return user(seq, *content)
    if kind == "assistant":
        return wrapped("assistant/message", seq, *content)
    if kind == "result":
        return result(dialect, seq, *content, message_id=f"r{seq}")
    if kind == "system" and dialect == "v4" and (not nodes or protected_head(surface) is not None):
        return wrapped("system/message", seq, *content)
    if not nodes or kind in ("log", "system"):
        return idle
    start, end = sorted((one % len(nodes), two % len(nodes)))
    shadowed = nodes[start : end + 1]
    if kind == "replace" and not (start == 0 and protected_head(surface) is not None):
        return replacing(dialect, user(seq, *content), nodes[start], nodes[end], shadowed)
    old = surface.events[start]
    if kind == "rewrite" and old["type"] == "tool/result":
        event = result(dialect, seq, *content, message_id=old["data"]["message"]["id"])
        return replacing(dialect, event, nodes[start], nodes[start], [nodes[start]])
    if kind == "offload" and dialect == "v4" and old["type"] in ("user/message", "tool/result"):
        message = surfaces.derive(old)
        assert message is not None
        images = surfaces.images_in(message["content"])
        target = {"seq": nodes[start], "imageIndexes": list(range(images))[two % (images + 1) :]}
        return {"type": "image/offload", "seq": seq, "time": 0, "data": {"targets": [target]}}
    return idle


@given(DIALECTS, COMMANDS)
def test_incremental_derivation_equals_the_full_fold(dialect: Dialect, commands: list[Any]) -> None:
    """S-SUR-12, after every event, and earlier views stay what they were."""
    surface, events = empty(dialect), []
    views: list[tuple[Any, list[Any]]] = []
    for seq, command in enumerate(commands):
        event = next_event(dialect, surface, seq, command)
        events.append(event)
        assert breaches(surface, event, seq) == ()
        surface = advance(surface, event, seq)
        expected = naive_messages(dialect, events)
        assert list(surface.nodes) == naive_nodes(dialect, events)
        assert list(surface.messages) == expected
        assert [seq for seq in surface.nodes if events[seq]["type"] == "system/message"] == list(surface.systems)
        views.append((surface.messages, expected))
    for view, expected in views:
        assert list(view) == expected


@given(DIALECTS, COMMANDS)
def test_the_generation_moves_exactly_when_derived_content_may_have_moved(
    dialect: Dialect, commands: list[Any]
) -> None:
    """S-SUR-9, and its purpose: while it stands, older messages are a prefix of newer ones."""
    surface = empty(dialect)
    for seq, command in enumerate(commands):
        event = next_event(dialect, surface, seq, command)
        after = advance(surface, event, seq)
        moves = isinstance(event.get("surfaceOp"), dict) or event["type"] == "image/offload"
        assert after.generation == surface.generation + moves
        if not moves:
            assert after.messages.first(len(surface.messages)) == surface.messages
        surface = after


def test_appending_shares_what_was_derived() -> None:
    """The promise is amortised constant work per appended node: nothing is copied along the line."""
    surface = first = empty("v4").append(0, user(0, text("a")))
    for seq in range(1, 500):
        surface = surface.append(seq, user(seq, text("a")))
    assert first.messages._buffer is surface.messages._buffer
    assert first.nodes._buffer is surface.nodes._buffer
    assert first.events._buffer is surface.events._buffer
    assert first.before._buffer is surface.before._buffer


def test_derived_messages_are_the_logged_objects() -> None:
    event = user(0, text("a"))
    assert fold("v0", [event]).messages[0] is event["data"]
    call = wrapped("assistant/message", 0, text("a"))
    assert fold("v0", [call]).messages[0] is call["data"]["message"]


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.jsonl")), ids=lambda path: path.stem)
def test_real_logs_fold_without_a_breach(path: Path) -> None:
    events: list[Event] = list(
        map(dict, unpack_rows(json.loads(line) for line in path.read_text("utf-8").splitlines()[1:]))
    )
    surface = fold("v0", events)
    assert list(surface.nodes) == naive_nodes("v0", events)
    assert list(surface.messages) == naive_messages("v0", events)


# -- legality ------------------------------------------------------------------------------------------------

S0, S1 = wrapped("system/message", 0, text("p")), wrapped("system/message", 1, text("q"))


def base(dialect: Dialect) -> list[Event]:
    head = S0 if dialect == "v4" else user(0, text("p"))
    return [head, user(1, text("a"), IMAGE), result(dialect, 2, text("r")), wrapped("assistant/message", 3, text("b"))]


def log_only(**extra: Any) -> Event:
    return {"type": "turn/start", "seq": 4, "time": 0, "data": {"turn": 1}, **extra}


def offload(*targets: tuple[int, list[int]]) -> Event:
    data = {"targets": [{"seq": seq, "imageIndexes": indexes} for seq, indexes in targets]}
    return {"type": "image/offload", "seq": 4, "time": 0, "data": data}


def without_op(event: Event) -> Event:
    return {key: value for key, value in event.items() if key != "surfaceOp"}


U4, A4 = user(4, text("x")), wrapped("assistant/message", 4, text("x"))
R0, R4 = result("v0", 4, text("new")), result("v4", 4, text("new"))


def meddled(event: Event, change: Callable[[dict[str, Any]], None]) -> Event:
    copy: Event = json.loads(json.dumps(event))
    change(copy["data"])
    return copy


CHANGES: list[Callable[[dict[str, Any]], None]] = [
    lambda data: data.update(turn=2),
    lambda data: data.update(step=2),
    lambda data: data.update(meta={"k": 2}),
    lambda data: data.pop("meta"),
    lambda data: data.update(error={"name": "E", "code": "C"}),
    lambda data: data["message"].update(id="other"),
    lambda data: data["message"]["source"].update(callId="d"),
]
REWRITES: list[tuple[Dialect, Event]] = [("v0", R0), ("v4", R4)]
MEDDLED: list[tuple[Dialect, Event, str, str]] = [
    (dialect, replacing(dialect, meddled(event, change), 2, 2, [2]), "S-SUR-6", "may change only content")
    for dialect, event in REWRITES
    for change in CHANGES
]
ILLEGAL: list[tuple[Dialect, Event, str, str]] = [
    ("v0", without_op(U4), "S-SUR-1", '"user/message" is surface-eligible and requires a surfaceOp marker'),
    ("v0", log_only(surfaceOp="append"), "S-SUR-1", '"turn/start" is not surface-eligible and cannot carry surfaceOp'),
    ("v0", log_only(sourceEventSeqs=[0]), "S-SUR-1", "cannot carry sourceEventSeqs"),
    ("v0", {**log_only(surfaceOp="append"), "type": "x/y", "ignorable": True}, "S-SUR-1", "cannot carry surfaceOp"),
    ("v0", {**U4, "surfaceOp": {"op": "insert", "at": 1}}, "S-SUR-2", "carries an invalid replace surfaceOp"),
    ("v0", {**U4, "surfaceOp": {"op": "replace", "startSeq": 1, "endSeq": 1}}, "S-SUR-2", "invalid replace"),
    ("v0", {**U4, "surfaceOp": {"op": "insert", "start": 1, "end": 1}}, "S-SUR-2", "invalid replace"),
    ("v4", {**U4, "surfaceOp": {"op": "replace", "start": 1, "end": 1}}, "S-SUR-2", "invalid replace"),
    ("v0", {**U4, "surfaceOp": {"op": "replace", "start": 1, "end": 1, "x": 1}}, "S-SUR-2", "invalid replace"),
    ("v0", {**U4, "surfaceOp": {"op": "replace", "start": True, "end": 1}}, "S-SUR-2", "invalid replace"),
    ("v0", {**U4, "surfaceOp": "prepend"}, "S-SUR-2", "invalid replace"),
    ("v0", replacing("v0", U4, 9, 1, [1]), "S-SUR-3", "surface replace: start seq 9 not found in surface"),
    ("v0", replacing("v0", U4, 1, 9, [1]), "S-SUR-3", "surface replace: end seq 9 not found in surface"),
    ("v0", replacing("v0", U4, 3, 1, [1, 2, 3]), "S-SUR-3", "stands after end seq 1"),
    ("v0", {**U4, "sourceEventSeqs": []}, "S-SUR-5", "must not be empty except on assistant/message"),
    ("v0", {**U4, "sourceEventSeqs": [4]}, "S-SUR-5", "must reference earlier events: 4 >= current seq 4"),
    ("v0", {**U4, "sourceEventSeqs": [1, 1]}, "S-SUR-5", "must not repeat"),
    ("v0", {**U4, "sourceEventSeqs": [-1]}, "S-SUR-5", "non-negative safe integers"),
    ("v0", {**U4, "sourceEventSeqs": [True]}, "S-SUR-5", "non-negative safe integers"),
    ("v0", {**U4, "sourceEventSeqs": "1"}, "S-SUR-5", "non-negative safe integers"),
    ("v4", {**A4, "sourceEventSeqs": [1]}, "S-SUR-5", "must not carry sourceEventSeqs"),
    ("v0", replacing("v0", U4, 1, 2, [1]), "S-SUR-5", "must include every shadowed surface node; missing 2"),
    ("v4", replacing("v4", A4, 1, 1, []), "S-SUR-5", "must include every shadowed surface node; missing 1"),
    ("v0", replacing("v0", R0, 1, 2, [1, 2]), "S-SUR-6", "must shadow exactly one tool/result"),
    ("v0", replacing("v0", R0, 1, 1, [1]), "S-SUR-6", "must shadow exactly one tool/result"),
    ("v0", replacing("v0", R0, 2, 3, [2, 3]), "S-SUR-6", "must shadow exactly one tool/result"),
    *MEDDLED,
    ("v0", replacing("v0", meddled(R0, lambda data: data["message"]["content"][0].update(isError=True)), 2, 2, [2]),
     "S-SUR-6", "may change only content"),
    ("v4", replacing("v4", meddled(R4, lambda data: data["message"].update(isError=True)), 2, 2, [2]),
     "S-SUR-6", "may change only content"),
    ("v4", replacing("v4", U4, 0, 0, [0]), "S-SUR-8", "replaced only by a system/message, alone"),
    ("v4", replacing("v4", U4, 0, 1, [0, 1]), "S-SUR-8", "replaced only by a system/message, alone"),
    ("v4", replacing("v4", wrapped("system/message", 4), 0, 1, [0, 1]), "S-SUR-8", "alone"),
    ("v4", offload((3, [0])), "S-SUR-15", "3 is not a user/message or tool/result on the surface"),
    ("v4", offload((9, [0])), "S-SUR-15", "9 is not a user/message or tool/result on the surface"),
    ("v4", offload((1, [1])), "S-SUR-15", "node 1 has 1 images"),
    ("v4", offload((1, [0, 0])), "S-SUR-15", "strictly increase"),
    ("v4", offload((1, [0]), (1, [0])), "S-SUR-15", "names node 1 twice"),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "event", "rule", "words"), ILLEGAL)
def test_illegal_events_are_named(dialect: Dialect, event: Event, rule: str, words: str) -> None:
    surface = fold(dialect, base(dialect))
    found = breaches(surface, event, 4)
    assert [breach.rule for breach in found if words in breach.text] == [rule]
    assert {breach.rule for breach in found} == {rule}
    with pytest.raises(SurfaceError, match=rule):
        accept(surface, event)


LEGAL: list[tuple[Dialect, Event]] = [
    ("v0", U4),
    ("v0", {**A4, "sourceEventSeqs": []}),
    ("v0", {**U4, "sourceEventSeqs": [3, 1]}),
    ("v0", replacing("v0", U4, 0, 3, [3, 2, 1, 0])),
    ("v0", replacing("v0", A4, 1, 1, [0, 1])),
    ("v0", replacing("v0", R0, 2, 2, [2])),
    ("v4", replacing("v4", R4, 2, 2, [2, 1])),
    ("v4", replacing("v4", wrapped("system/message", 4), 0, 0, [0])),
    ("v4", replacing("v4", U4, 1, 3, [1, 2, 3])),
    ("v4", wrapped("system/message", 4, text("later"))),
    ("v4", A4),
    ("v4", {**log_only(surfaceOp={"any": 1}, sourceEventSeqs="any"), "type": "x/y", "ignorable": True}),
    ("v4", offload((1, [0]))),
    ("v4", offload((1, []), (2, []))),
    ("v0", {**log_only(), "type": "x/y", "ignorable": True}),
]


@pytest.mark.parametrize(("dialect", "event"), LEGAL)
def test_legal_events_pass(dialect: Dialect, event: Event) -> None:
    assert breaches(fold(dialect, base(dialect)), event, 4) == ()


def test_a_young_seq_at_an_old_place_makes_a_decreasing_range_legal() -> None:
    """S-SUR-3: positions count, not numbers."""
    events = [*base("v0"), replacing("v0", U4, 0, 1, [0, 1])]
    young = replacing("v0", user(5, text("y")), 4, 2, [4, 2])
    assert list(fold("v0", [*events, young]).nodes) == [5, 3]


def test_shadowed_nodes_are_gone_for_good() -> None:
    """S-SUR-4"""
    events = [*base("v0"), replacing("v0", U4, 1, 2, [1, 2])]
    for seq in (1, 2):
        again = replacing("v0", user(5), seq, seq, [seq])
        assert "not found" in breaches(fold("v0", events), again, 5)[0].text


def test_a_format_4_replace_never_names_its_own_seq_or_a_later_one() -> None:
    """Reached only with a numbering that is broken already; the rule still says so."""
    surface = fold("v4", base("v4"))
    event = replacing("v4", U4, 3, 3, [3])
    texts = [breach.text for breach in breaches(surface, event, 3) if breach.rule == "S-SUR-3"]
    assert texts == ["surface replace: endpoints must be smaller than the own seq 3"]


def test_a_system_message_cannot_be_appended_behind_another_head() -> None:
    """S-SUR-8"""
    surface = fold("v4", [user(0, text("a"))])
    assert [breach.rule for breach in breaches(surface, S1, 1)] == ["S-SUR-8"]
    assert breaches(empty("v4"), S0, 0) == ()


def test_a_blank_head_stays_protected_and_shows_nothing() -> None:
    blank = replacing("v4", wrapped("system/message", 4), 0, 0, [0])
    surface = fold("v4", [*base("v4"), blank])
    assert protected_head(surface) == 4
    assert [message["id"] for message in surface.messages] == ["m1", "r", "m3"]


def test_nested_images_count_depth_first() -> None:
    nested = result("v0", 0, text("t"), IMAGE)["data"]["message"]["content"]
    assert surfaces.images_in([IMAGE, *nested, IMAGE]) == 3
    surface = empty("v4").append(0, user(0, IMAGE, *nested, IMAGE)).offload([(0, [1])])
    content = surface.messages[0]["content"]
    assert "offloaded" not in content[0]
    assert content[1]["content"][1]["offloaded"] is True
    assert "offloaded" not in content[2]


def test_offloads_add_up_and_leave_the_log_alone() -> None:
    event = user(0, IMAGE, IMAGE)
    surface = empty("v4").append(0, event)
    before = surface.messages
    twice = surface.offload([(0, [1])]).offload([(0, [0])])
    assert [block.get("offloaded") for block in twice.messages[0]["content"]] == [True, True]
    assert [block.get("offloaded") for block in before[0]["content"]] == [None, None]
    assert twice.generation == 2


def test_only_format_4_knows_offloads_and_system_messages() -> None:
    surface = fold("v0", base("v0"))
    assert advance(surface, offload((1, [0])), 4) is surface
    assert advance(surface, {**S1, "seq": 4}, 4) is surface


def test_an_impossible_replace_raises_also_unchecked() -> None:
    with pytest.raises(SurfaceError, match="S-SUR-3"):
        fold("v0", base("v0")).replace(4, U4, 9, 9)
