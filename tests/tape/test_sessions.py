"""INV-* and PX-* of the fact sheet on random sessions, and: everything that was ever said can be got back."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from tests.tape.sessions import Session, records_on, sessions

from loopspec.surface import Surface, breaches
from loopspec.tape import pages, recall, spill
from loopspec.tape.index import LogIndex
from loopspec.tape.text import utf8, whole
from loopspec.values import Record

common = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def kind(event: Record) -> str:
    """A classification of our own: what the policy must never touch, and the rest."""
    if event["type"] in ("system/message", "developer/message"):
        return "protected"
    if event["type"] == "user/message":
        source = event["data"]["source"]["kind"]
        return {"plugin:slice:history": "entry", "runtime-context": "snapshot"}.get(source, "protected")
    return "work"


def lcp(left: list[Record], right: list[Record]) -> int:
    count = 0
    for mine, theirs in zip(left, right, strict=False):
        if mine is not theirs and mine != theirs:
            break
        count += 1
    return count


def last_entry(messages: list[Record]) -> int:
    kinds = [message["source"]["kind"] for message in messages]
    return max((at for at, source in enumerate(kinds) if source == "plugin:slice:history"), default=-1)


def odd_ids(surface: Surface) -> Counter[str]:
    ids: Counter[str] = Counter()
    for message in surface.messages:
        ids.update(block["id"] for block in message["content"] if block["type"] == "tool-call")
        if message["role"] == "tool":
            ids.subtract([message["toolCallId"]])
    return Counter({key: count for key, count in ids.items() if count})


@given(sessions())
@common
def test_seals(session: Session) -> None:
    """INV-02 to INV-06, INV-08, INV-11, INV-15"""
    owned: set[int] = set()
    for before, after, plan, turn in session.seals:
        old, new = list(before.nodes), list(after.nodes)
        frozen = max((at for at, event in enumerate(before.events) if kind(event) == "entry"), default=-1)
        assert old[: frozen + 1] == new[: frozen + 1]
        kept = [seq for seq in old if kind(session.events[seq]) == "protected"]
        assert [seq for seq in new if kind(session.events[seq]) == "protected"] == kept
        assert odd_ids(before) == odd_ids(after)
        at = frozen
        for entry in plan.entries:
            start, end = old.index(entry.start), old.index(entry.end)
            assert start > at
            at = end
            assert list(entry.sources) == old[start : end + 1]
            for seq in entry.sources:
                event = session.events[seq]
                assert kind(event) in ("work", "snapshot")
                if kind(event) == "work":
                    assert 1 <= event["data"]["turn"] <= turn - 1 - session.history.keep_recent_turns
                original = seq
                while session.events[original].get("surfaceOp") != "append":
                    original = session.events[original]["sourceEventSeqs"][0]
                assert original not in owned, "INV-09"
                owned.add(original)
            cap = session.history.entry_max_chars
            if cap is not None:
                assert len(entry.text) <= cap
            else:
                assert_complete(session, entry.sources, entry.text)


def assert_complete(session: Session, sources: tuple[int, ...], text: str) -> None:
    """INV-11, TP-53, TP-54: every reply whole, in order, between lines that carry its hash."""
    rest = text
    for seq in sources:
        event = session.events[seq]
        if event["type"] != "assistant/message":
            continue
        said = whole("".join(b["text"] for b in event["data"]["message"]["content"] if b["type"] == "text"))
        if said:
            digest = hashlib.sha256(utf8(said)).hexdigest()[:12]
            data = event["data"]
            wrapped = (
                f"[reply slice-turn-{data['turn']}-step-{data['step']}-seq-{seq} @sha256:{digest}]\n"
                f"{said}\n[end reply @sha256:{digest}]"
            )
            assert wrapped in rest
            rest = rest[rest.index(wrapped) + len(wrapped) :]


@given(sessions())
@common
def test_requests(session: Session) -> None:
    """PX-1 to PX-4, PX-6, PX-8 (where a compaction thaws what stood ahead of entries, its seal counts too: RE-24)"""
    for first, second in zip(session.requests, session.requests[1:], strict=False):
        shared = lcp(first.messages, second.messages)
        if second.foreign:
            own = second.cut if second.cut is not None else len(first.messages)
            assert shared >= min(second.foreign_at, last_entry(first.messages) + 1, own), "PX-8"
            continue
        assert shared >= last_entry(first.messages) + 1, "PX-2"
        if first.turn == second.turn:
            assert shared == len(first.messages), "PX-1"
        expected = len(first.messages) if second.cut is None else min(len(first.messages), second.cut)
        assert shared == expected, "PX-3"
    for _, message in session.folds:
        for request in session.requests:
            assert all(shown is not message for shown in request.messages), "PX-6"


@given(sessions())
@common
def test_everything_comes_back(session: Session) -> None:
    """INV-12: every text and every result, exactly, through pages and expansions of the log as it ends."""
    index = LogIndex(session.events)
    dialogue = {turn: pages.turn_page(index, turn) for turn in range(1, session.turn + 1)}
    full = {turn: records_on(pages.turn_page(index, turn, "full")) for turn in range(1, session.turn + 1)}
    ordinals: Counter[tuple[int, int]] = Counter()
    for seq, event in enumerate(session.events):
        if event.get("surfaceOp") != "append" or event["type"] in ("system/message", "developer/message"):
            continue
        turn = index.owner(seq)
        if event["type"] == "tool/result":
            message = event["data"]["message"]
            place = (event["data"]["turn"], event["data"]["step"])
            ordinals[place] += 1
            logged = "\n".join(whole(block["text"]) for block in message["content"])
            for address in (
                {"seq": seq, "formatVersion": 4},
                {"turn": place[0], "step": place[1], "call": ordinals[place]},
            ):
                found = recall.find_result(index, address)
                assert found.seq == seq
                text = pages.full_page(found, spill.full_text(found.head, parts(event), {}))
                assert text.split("\n", 1)[1] == logged
            continue
        if turn == 0:
            assert event["type"] == "user/message"
            continue
        assert {"type": event["type"], "data": event["data"]} in full[turn]
        content = (event["data"].get("message") or event["data"])["content"]
        said = whole("".join(block["text"] for block in content if block["type"] == "text"))
        assert said.rstrip("\n") in dialogue[turn]


def parts(event: Record) -> list[spill.Part]:
    texts = [whole(block["text"]) for block in event["data"]["message"]["content"]]
    return spill.parts(texts, lambda _: False)


@given(sessions())
@common
def test_every_locator_resolves(session: Session) -> None:
    """INV-13, TP-58: outside replies there is no locator but ours, and each of ours opens what it says."""
    index = LogIndex(session.events)
    for _, _, plan, _ in session.seals:
        for entry in plan.entries:
            lines = without_replies(entry.text)
            for seq in re.findall(r'expand_result\(\{"seq":(\d+),"formatVersion":4\}\)', lines):
                assert session.events[int(seq)]["type"] == "tool/result"
                assert recall.find_result(index, {"seq": int(seq), "formatVersion": 4}).seq == int(seq)
            for turn in re.findall(r'recall_turn\(\{"turn":"(\d+)"', lines):
                assert pages.turn_page(index, int(turn))
            for line in lines.split("\n"):
                assert line == "" or line.startswith("["), line


def without_replies(text: str) -> str:
    """The entry without what its replies say: everything between two wrapper lines of one hash."""
    wrapper = re.compile(r"\[reply slice-turn-\S+ (@sha256:[0-9a-f]{12})\]\n.*?\n\[end reply \1\]", re.DOTALL)
    compact = re.compile(r"\[reply step \d+ seq \d+\] .*?(?=\n\[|\Z)", re.DOTALL)
    return compact.sub("", wrapper.sub("", text))


@given(sessions(max_turns=3))
@common
def test_the_index_does_not_depend_on_how_it_grew(session: Session) -> None:
    """TP-69: at once, event by event, or branching off an older value."""
    grown = LogIndex()
    for count in range(1, len(session.events) + 1):
        grown = grown.grown(session.events[:count])
    half = LogIndex(session.events[: len(session.events) // 2])
    branch = half.grown([*session.events[: len(session.events) // 2], *session.events[:1]])
    again = half.grown(session.events)
    for index in (grown, again):
        for turn in range(1, session.turn + 1):
            assert pages.turn_page(index, turn, "full") == pages.turn_page(LogIndex(session.events), turn, "full")
    assert branch.length == half.length + 1


@given(sessions())
@common
def test_appends_are_legal(session: Session) -> None:
    """INV-02: the surface would refuse none of them; and nothing but `user/message` and `tool/result` is written."""
    surface = session.surface
    probe: dict[str, Any] = {"type": "turn/end", "data": {"turn": 1}}
    assert breaches(surface, probe, len(session.events)) == ()
    written = {event["type"] for event in session.events if isinstance(event.get("surfaceOp"), dict)}
    assert written <= {"user/message", "tool/result"}
