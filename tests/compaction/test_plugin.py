"""The compaction plugin on a live agent (M-704 to M-710; RACE-20 to RACE-22; K30, K32, K34; G9)."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.harness.conversation import USER, Conversation, conversation, message

from loopconform.check import check_file
from loopconform.script.output import pieces
from loopharness import compaction, slice
from loopharness.agent import user_message
from loopharness.compaction import Compaction, CompactionError, Settings
from loopharness.gate import Gate
from loopharness.model import chunks
from loopharness.model.chunks import Chunk
from loopharness.model.scripted import Response, fail, text, tool_calls
from loopspec.request import reconstruct_requests

pytestmark = pytest.mark.anyio

FORMATS = pytest.mark.parametrize("session_format", [0, 4])

WINDOW = {"context": {"contextWindow": 1000}}
LONG = "many words " * 100
SMALL_TAIL = Settings(retain_tokens=5, prune=False)
OVERFLOW = fail("too long", "CONTEXT_WINDOW_EXCEEDED")
SUMMARY = text("Short summary.")
BRACKET = ["compaction/start", "compaction/summary", "user/message", "compaction/end"]


@asynccontextmanager
async def compacting(
    *script: Response, settings: Settings = SMALL_TAIL, facts: Mapping[str, Any] = WINDOW, **more: Any
) -> AsyncIterator[tuple[Conversation, Compaction]]:
    """A conversation with the plugin mounted; its log must be legal in the end, and prove every request."""
    async with conversation(*script, facts=facts, **more) as talk:
        plugin = compaction.install(talk.harness, settings)
        yield talk, plugin
        await talk.idle()
        session = talk.agent.session
        requests = [request for request in talk.adapter.requests if "purpose" not in request]
        rebuilt = reconstruct_requests(session.header, session.events)
        assert [[*one.request["messages"]] for one in rebuilt] == [[*one["messages"]] for one in requests]


def legal(talk: Conversation, folder: Path) -> list[str]:
    """What the log checker has to say."""
    path = folder / "log.jsonl"
    session = talk.agent.session
    path.write_bytes(b"".join(pieces(session.header, [*session.events], 0, zstd=False)))
    return [f"{finding.rule}: {finding.reason}" for finding in check_file(path).findings]


def between(talk: Conversation, first: str, last: str) -> list[str]:
    """The types of the records from the first of a type to the first of another after it."""
    types = [event["type"] for event in talk.agent.session.events]
    start = types.index(first)
    return types[start : types.index(last, start) + 1]


def said(talk: Conversation, text: str) -> None:
    """Send a prompt."""
    talk.agent.followup({**user_message(text), "id": text[:10]})


def shown(request: Mapping[str, Any]) -> list[str]:
    """The beginning of each message of a request."""
    return [_text(one["content"])[:12] for one in request["messages"]]


def _text(content: Sequence[Mapping[str, Any]]) -> str:
    texts = [
        _text(block["content"]) if "content" in block else str(block.get("text", block.get("id"))) for block in content
    ]
    return "".join(texts)


# -- pressure --------------------------------------------------------------------------------------------------


@FORMATS
async def test_m_704_pressure_is_relieved_between_a_tool_step_and_the_next(session_format: int, tmp_path: Path) -> None:
    """The bracket stands between the steps; the pair of call and result stays, and the next request sees it."""
    script = (tool_calls(("c1", "look", {}), usage=(900, 10)), SUMMARY, text("Done."))
    async with compacting(*script, session_format=session_format) as (talk, _):
        talk.tool("look")
        said(talk, LONG)
        await talk.idle()
        assert talk.ends() == ["completed"]
        assert between(talk, "compaction/start", "compaction/end") == BRACKET
        assert talk.records("compaction/start")[0]["turn"] == 1
        first, summary, last = talk.adapter.requests
        assert (summary["purpose"], summary["maxTokens"], summary["sessionId"]) == ("compaction", 8192, "main")
        assert [*summary["messages"]][:-1] == [*first["messages"]], "the cached prefix is used"
        assert (summary.get("system"), summary["tools"]) == (first.get("system"), first["tools"])
        assert shown(last)[-3:] == ["The part of ", "c1", "fine"]
        checkpoint = next(data for data in talk.records("user/message") if "compactionId" in data["source"])
        assert [block["text"] for block in checkpoint["content"]][1:] == ["Short summary.", "</compacted-summary>"]
        fact = talk.records("compaction/summary")[0]
        assert fact["shadowedTokenCount"] == 4 + 4 + len(LONG) // 4
        assert legal(talk, tmp_path) == []


async def test_m_704_claimed_messages_are_not_measured_and_nothing_happens_below_the_threshold() -> None:
    async with compacting(text("One.", usage=(700, 9)), text("Two.")) as (talk, plugin):
        assert plugin.size(talk.agent.session) is None
        said(talk, LONG)
        await talk.idle()
        assert plugin.size(talk.agent.session) == 709
        said(talk, "more " + LONG)
        await talk.idle()
        assert not talk.records("compaction/start")
        assert len(talk.adapter.requests) == 2


async def test_m_704_long_results_are_shortened_first_and_that_may_be_enough(tmp_path: Path) -> None:
    settings = Settings(retain_tokens=5, prune_budget=300, prune_head=50, prune_tail=20)
    script = (tool_calls(("c1", "look", {})), text("One.", usage=(900, 9)), text("Two."))
    async with compacting(*script, settings=settings, session_format=4) as (talk, _):
        talk.tool("look", lambda execution: LONG * 2)
        said(talk, "first")
        await talk.idle()
        said(talk, "second")
        await talk.idle()
        assert between(talk, "compaction/prune", "compaction/prune") == ["compaction/prune"]
        old, new = talk.records("tool/result")
        assert {**old["message"], "content": 0} == {**new["message"], "content": 0}
        assert len(_text(new["message"]["content"])) < 150
        assert not talk.records("compaction/start")
        assert len(_text(talk.adapter.requests[-1]["messages"][3]["content"])) < 150
        assert legal(talk, tmp_path) == []


async def test_m_704_without_a_known_window_there_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with compacting(always=text("Yes.", usage=(9000, 9)), facts={}) as (talk, _):
        for number in range(3):
            said(talk, f"{number} {LONG}")
            await talk.idle()
        assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == [
            "session main: the context window of mock/m1 is not known: its history is not compacted"
        ]


async def test_m_703_what_is_off_or_set_for_another_route_does_nothing() -> None:
    async with compacting(always=text("Yes.", usage=(9000, 9)), settings=Settings(auto=False)) as (talk, plugin):
        said(talk, LONG)
        said(talk, "b" + LONG)
        await talk.idle()
        assert not talk.records("compaction/start")
        assert plugin.settings_for("mock", "m1").auto is False
    with pytest.raises(ValueError, match="thresholdRatio"):
        async with conversation() as talk:
            compaction.install(talk.harness, overrides={"mock/m1": Settings(threshold_ratio=2)})


# -- attempts that come to nothing -----------------------------------------------------------------------------

THINKS: list[Chunk] = [
    chunks.block_start(0, "reasoning"),
    chunks.reasoning_delta(0, "Hm."),
    chunks.block_end(0, {"type": "reasoning", "text": "Hm."}),
    chunks.finish("stop"),
]

FAILURES: dict[str, tuple[Response, str]] = {
    "refused (K34)": (
        fail("must be passed back", "INVALID_REQUEST", status=400),
        "INVALID_REQUEST: must be passed back",
    ),
    "empty stream (K34)": ([chunks.finish("stop")], "the model answered without a summary"),
    "no finish": ([], "the model answered without a summary"),
    "only thoughts": (THINKS, "the model answered without a summary"),
    "calls a tool": (tool_calls(("x", "look", {})), "the model answered without a summary"),
    "cut off": (text("Half a", reason="max-tokens"), "the summary was cut off at its token limit"),
    "too long": (text(LONG * 2), "the summary is longer than what it stands for"),
    "throws": ([RuntimeError("broken adapter")], "UNKNOWN: broken adapter"),
}


@pytest.mark.parametrize("name", FAILURES)
@FORMATS
async def test_g9_k34_a_failed_attempt_closes_its_bracket_and_the_turn_goes_on(
    name: str, session_format: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answer, why = FAILURES[name]
    script = (text("One.", usage=(900, 9)), answer, text("Two."))
    async with compacting(*script, session_format=session_format) as (talk, _):
        talk.tool("look")
        said(talk, LONG)
        await talk.idle()
        said(talk, "second")
        await talk.idle()
        assert talk.ends() == ["completed", "completed"]
        assert between(talk, "compaction/start", "compaction/end") == ["compaction/start", "compaction/end"]
        start, end = talk.records("compaction/start", "compaction/end")
        assert end == {**start, "error": why}
        assert f"session main: the history could not be compacted: {why}" in [
            record.message for record in caplog.records
        ]
        assert not talk.records("tool/call")
        assert legal(talk, tmp_path) == []


@FORMATS
async def test_a_listener_of_the_stream_that_throws_ends_neither_turn_nor_loop(session_format: int) -> None:
    async with compacting(text("One.", usage=(900, 9)), text("Two."), session_format=session_format) as (talk, _):

        def broken(request: Mapping[str, Any], next: Any) -> Any:
            if "purpose" in request:
                raise RuntimeError("broken listener")
            return next()

        talk.harness.on("llm/stream", broken)
        said(talk, LONG)
        said(talk, "second")
        await talk.idle()
        assert talk.ends() == ["completed", "completed"]
        assert talk.records("compaction/end")[0]["error"] == "broken listener"


@FORMATS
async def test_race_22_the_history_changes_while_the_summary_is_written(session_format: int, tmp_path: Path) -> None:
    gate = Gate()
    script: list[Response] = [text("One.", usage=(900, 9)), [gate, *SUMMARY], text("Two.")]
    async with compacting(*script, session_format=session_format) as (talk, _):
        said(talk, LONG)
        await talk.idle()
        said(talk, "second")
        await gate.reached()
        talk.agent.session.append("user/message", message("meanwhile"), "append")
        gate.open()
        await talk.idle()
        assert talk.records("compaction/end")[0]["error"] == "the history changed while its summary was written"
        assert talk.ends() == ["completed", "completed"]
        assert not talk.records("compaction/summary")


@FORMATS
async def test_a_cancel_while_the_summary_is_written_closes_the_bracket(session_format: int, tmp_path: Path) -> None:
    gate = Gate()
    start, delta, *rest = SUMMARY
    script: list[Response] = [text("One.", usage=(900, 9)), [start, gate, delta, *rest], text("Three.")]
    async with compacting(*script, session_format=session_format) as (talk, _):
        said(talk, LONG)
        await talk.idle()
        said(talk, "second")
        await gate.reached()
        talk.agent.cancel(USER)
        gate.open()
        await talk.idle()
        assert talk.ends() == ["completed", "aborted user"]
        assert "cancelled" in talk.records("compaction/end")[0]["error"]
        assert talk.adapter.closed == 1
        assert [line[:8] for line in legal(talk, tmp_path)] == ["S-LNT-89"], "the prompt was claimed and not entered"


async def test_a_record_that_is_refused_closes_the_bracket(tmp_path: Path) -> None:
    async with compacting(text("One.", usage=(900, 9)), SUMMARY, text("Two."), session_format=4) as (talk, _):
        said(talk, LONG)
        await talk.idle()
        before = talk.agent.session.surface.generation
        talk.at("S compaction/summary", lambda: talk.refuse("S user/message"))
        said(talk, "second")
        await talk.idle()
        assert "S user/message" in talk.records("compaction/end")[0]["error"]
        assert talk.agent.session.surface.generation == before
        assert talk.ends() == ["completed", "completed"]


async def test_m_707_an_unfinished_bracket_bars_the_next_one_until_the_session_is_opened_again() -> None:
    script = (text("One.", usage=(900, 9)), text("Two.", usage=(950, 9)))
    async with compacting(*script, session_format=4) as (talk, _):
        said(talk, LONG)
        await talk.idle()
        talk.agent.session.append("compaction/start", {"compactionId": "x", "turn": None})
        said(talk, "second")
        await talk.idle()
        assert len(talk.records("compaction/start")) == 1
        header, events = talk.agent.session.header, tuple(talk.agent.session.events)
    again = conversation(SUMMARY, text("Three."), facts=WINDOW, session_format=4, header=header, events=events)
    async with again as talk:
        compaction.install(talk.harness, SMALL_TAIL)
        said(talk, "third")
        await talk.idle()
        assert [data.get("error") for data in talk.records("compaction/end")] == [None]


# -- overflow --------------------------------------------------------------------------------------------------


@FORMATS
async def test_m_705_an_overflow_is_repaired_inside_its_step(session_format: int, tmp_path: Path) -> None:
    script = (text("One."), OVERFLOW, SUMMARY, text("Two."))
    async with compacting(*script, session_format=session_format) as (talk, _):
        said(talk, LONG)
        await talk.idle()
        said(talk, "second")
        await talk.idle()
        assert talk.ends() == ["completed", "completed"]
        assert [(turn, step) for turn, step, _ in talk.batches()] == [(1, 1), (2, 1)]
        assert between(talk, "compaction/start", "compaction/end") == BRACKET
        assert talk.records("compaction/start")[0]["turn"] == 2
        assert shown(talk.adapter.requests[-1])[-2:] == ["The part of ", "second"]
        reasons = [data["reason"] for data in talk.records("request/header")]
        assert reasons == (["initial"] if session_format == 0 else ["initial", "series"])
        assert legal(talk, tmp_path) == []


async def test_m_705_a_repair_needs_something_replaced_and_the_failure_stays_the_failure() -> None:
    script = (text("One."), OVERFLOW, fail("down", "SERVER"))
    async with compacting(*script, session_format=4) as (talk, _):
        said(talk, LONG)
        await talk.idle()
        said(talk, "second")
        await talk.idle()
        assert talk.records("turn/end")[1]["reason"]["error"] == {
            "message": "too long",
            "code": "CONTEXT_WINDOW_EXCEEDED",
        }
        assert talk.records("compaction/end")[0]["error"] == "SERVER: down"


async def test_m_705_shortened_results_are_reason_enough_to_try_again() -> None:
    settings = Settings(prune_budget=300, prune_head=50, prune_tail=20)
    script = (tool_calls(("c1", "look", {})), OVERFLOW, fail("down", "SERVER"), text("Done."))
    async with compacting(*script, settings=settings, session_format=4) as (talk, _):
        talk.tool("look", lambda execution: LONG)
        said(talk, "first")
        await talk.idle()
        assert talk.ends() == ["completed"]
        assert talk.records("compaction/end")[0]["error"] == "SERVER: down"
        assert len(talk.records("tool/result")) == 2


async def test_inv_r11_so_many_repairs_between_two_answers() -> None:
    """One by default; an answer of the model gives it back."""
    repaired = (OVERFLOW, SUMMARY, text("Yes."))
    script = (text("One."), *repaired, *repaired, OVERFLOW, SUMMARY, OVERFLOW)
    async with compacting(*script, session_format=4) as (talk, _):
        for prompt in (LONG, "b" + LONG, "c" + LONG, "d" + LONG):
            said(talk, prompt)
        await talk.idle()
        assert talk.ends() == ["completed"] * 3 + ["error"]
        assert len(talk.records("compaction/summary")) == 3
        assert talk.statuses() == ["running", "idle"]


@pytest.mark.parametrize("code", ["INVALID_REQUEST", "SERVER", "RATE_LIMIT"])
async def test_m_705_other_failures_are_none_of_its_business(code: str) -> None:
    async with compacting(text("One."), fail("no", code), session_format=4) as (talk, _):
        said(talk, LONG)
        said(talk, "second")
        await talk.idle()
        assert talk.records("turn/end")[1]["reason"]["error"]["code"] == code
        assert not talk.records("compaction/start")


async def test_a_cancel_beats_the_repair() -> None:
    script = (text("One."), OVERFLOW, SUMMARY)
    async with compacting(*script, session_format=4) as (talk, _):
        said(talk, LONG)
        await talk.idle()
        talk.at("S compaction/end", lambda: talk.agent.cancel(USER))
        said(talk, "second")
        await talk.idle()
        assert talk.ends() == ["completed", "aborted user"]


# -- by hand ---------------------------------------------------------------------------------------------------


@FORMATS
async def test_m_707_an_idle_agent_is_compacted_as_maintenance(session_format: int, tmp_path: Path) -> None:
    gate = Gate()
    script: list[Response] = [text("One."), [gate, *SUMMARY], text("Two.")]
    async with compacting(*script, session_format=session_format) as (talk, plugin):
        with pytest.raises(CompactionError, match="nothing has been said yet"):
            await plugin.compact(talk.agent)
        said(talk, LONG)
        await talk.idle()
        async with anyio.create_task_group() as group:
            group.start_soon(plugin.compact, talk.agent, "command-1")
            await gate.reached()
            said(talk, "wakes behind it")
            assert talk.agent.status == "idle"
            with pytest.raises(RuntimeError, match="already has active work"):
                await plugin.compact(talk.agent)
            gate.open()
        await talk.idle()
        start = talk.records("compaction/start")[0]
        assert (start["turn"], start["sourceCommandId"]) == (None, "command-1")
        checkpoint = next(data for data in talk.records("user/message") if "compactionId" in data["source"])
        assert checkpoint["source"]["sourceCommandId"] == "command-1"
        assert talk.ends() == ["completed", "completed"]
        assert legal(talk, tmp_path) == []


async def test_a_compaction_by_hand_can_be_cancelled_and_tells_what_went_wrong() -> None:
    gate = Gate()
    script: list[Response] = [text("One."), [gate, *SUMMARY], fail("down", "SERVER")]
    async with compacting(*script, session_format=4) as (talk, plugin):
        said(talk, LONG)
        await talk.idle()
        codes: list[str] = []

        async def compact() -> None:
            try:
                await plugin.compact(talk.agent)
            except CompactionError as error:
                codes.append(error.code)

        async with anyio.create_task_group() as group:
            group.start_soon(compact)
            await gate.reached()
            talk.agent.cancel(USER)
            gate.open()
        await compact()
        assert codes == ["cancelled", "MODEL"]


# -- with others -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("profile", "again"), [("seed", True), ("dsh-0.1.7", False)])
async def test_race_21_a_snapshot_that_was_compacted_away(profile: Any, again: bool) -> None:
    """The seed proposes it again in the same step, published loops in the next one only."""
    script = (text("One.", usage=(900, 9)), SUMMARY, text("Two."), text("Three."))
    async with compacting(*script, session_format=4, profile=profile) as (talk, _):
        talk.harness.prompt.runtime_context(talk.harness.context, "place", 0, "You are at home.")
        for prompt in (LONG, "second", "third"):
            said(talk, prompt)
            await talk.idle()
        seen = [any(line == "Current runt" for line in shown(r)) for r in talk.adapter.requests if "purpose" not in r]
        assert seen == [True, again, True]


async def test_k30_reasoning_behind_the_cut_goes_back_whole() -> None:
    thinks: list[Chunk] = [
        chunks.block_start(0, "reasoning"),
        chunks.reasoning_delta(0, "I must look."),
        chunks.block_end(0, {"type": "reasoning", "text": "I must look."}),
        chunks.block_start(1, "tool-call"),
        chunks.tool_call_delta(1, "c1", "{}", "look"),
        chunks.block_end(1, {"type": "tool-call", "id": "c1", "name": "look", "arguments": "{}"}),
        chunks.usage(900, 9),
        chunks.finish("tool-calls"),
    ]
    async with compacting(thinks, SUMMARY, text("Done."), session_format=4) as (talk, _):
        talk.tool("look")
        said(talk, LONG)
        await talk.idle()
        kept = talk.adapter.requests[-1]["messages"][-2]
        assert [block["type"] for block in kept["content"]] == ["reasoning", "tool-call"]
        assert kept["content"][0]["text"] == "I must look."


@pytest.mark.parametrize("first", [1, 2])
async def test_k32_two_calls_in_flight_stay_together(first: int, tmp_path: Path) -> None:
    """While a batch is open nothing is compacted; afterwards the cut stands before it or behind it."""
    gates = {"c1": Gate(), "c2": Gate()}
    script = (
        tool_calls(("c1", "slow", {}), ("c2", "slow", {}), usage=(900, 9)),
        SUMMARY,
        text("Done."),
    )
    async with compacting(*script, session_format=4) as (talk, plugin):

        async def body(execution: Any) -> str:
            await gates[execution.call_id].enter()
            return "fine"

        talk.tool("slow", body, concurrent=True)
        said(talk, LONG)
        for gate in gates.values():
            await gate.reached()
        gates[f"c{first}"].open()
        await anyio.wait_all_tasks_blocked()
        assert not talk.records("compaction/start")
        with pytest.raises(RuntimeError, match="already has active work"):
            await plugin.compact(talk.agent)
        gates[f"c{3 - first}"].open()
        await talk.idle()
        assert shown(talk.adapter.requests[-1])[-4:] == ["The part of ", "c1c2"[:12], "fine", "fine"]
        assert legal(talk, tmp_path) == []


@pytest.mark.parametrize("tape_first", [True, False])
async def test_compaction_and_the_tape_work_on_one_surface(tape_first: bool, tmp_path: Path) -> None:
    """A turn is sealed at the first step of the next one; compaction comes first there, whoever was mounted first."""
    script = [text("One.", usage=(9000, 9)), SUMMARY, text("Two."), text("Three.")]
    async with conversation(*script, session_format=4, facts={"context": {"contextWindow": 10_000}}) as talk:
        for tape in (tape_first, not tape_first):
            if tape:
                slice.install(talk.harness)
            else:
                compaction.install(talk.harness, SMALL_TAIL)
        for prompt in (LONG * 20, "second", "third"):
            said(talk, prompt)
            await talk.idle()
        assert talk.ends() == ["completed"] * 3
        assert [data.get("error") for data in talk.records("compaction/end")] == [None]
        assert legal(talk, tmp_path) == []
        session = talk.agent.session
        sent = [[*request["messages"]] for request in talk.adapter.requests if "purpose" not in request]
        assert [[*one.request["messages"]] for one in reconstruct_requests(session.header, session.events)] == sent


async def test_m_701_the_count_of_a_stored_session_is_taken_up() -> None:
    async with compacting(text("One.", usage=(900, 9)), session_format=4) as (talk, plugin):
        said(talk, LONG)
        await talk.idle()
        size = plugin.size(talk.agent.session)
        header, events = talk.agent.session.header, tuple(talk.agent.session.events)
    async with conversation(session_format=4, header=header, events=events) as talk:
        assert compaction.install(talk.harness).size(talk.agent.session) == size == 909


# -- settings: each of them makes a difference (K55) ----------------------------------------------------------------

DEFAULTS: dict[str, Any] = {"retain_tokens": 5, "prune": False}


async def outcome(caplog: pytest.LogCaptureFixture, **settings: Any) -> tuple[int, int, list[str]]:
    """One long turn, one short one under pressure: brackets, results shortened, and the last request."""
    answers = text("Sum.")
    script = (tool_calls(("c1", "look", {}), usage=(300, 10)), text("One.", usage=(900, 10)))
    async with conversation(*script, always=answers, session_format=4, facts=WINDOW) as talk:
        compaction.install(talk.harness, Settings(**{**DEFAULTS, **settings}))
        talk.tool("look", lambda execution: "look " * 100)
        said(talk, LONG)
        said(talk, "second")
        await talk.idle()
        ends = [data for data in talk.records("compaction/end") if "error" not in data]
        results = talk.records("tool/result")
        caps = [request["maxTokens"] for request in talk.adapter.requests if "purpose" in request]
        return len(ends), len(results) - 1, [*shown(talk.adapter.requests[-1]), *map(str, caps)]


KEYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "auto": ({}, {"auto": False}),
    "threshold_ratio": ({}, {"threshold_ratio": 0.95}),
    "retain_ratio": ({"retain_tokens": None, "retain_ratio": 0.01}, {"retain_tokens": None, "retain_ratio": 0.3}),
    "retain_tokens": ({}, {"retain_tokens": 150}),
    "max_tokens": ({}, {"max_tokens": 77}),
    "compaction_retries": ({"threshold_ratio": 0.01, "retain_ratio": 0}, {"threshold_ratio": 0.01, "retain_ratio": 0,
                                                                       "compaction_retries": 0}),
    "prune": ({}, {"prune": True, "prune_budget": 100, "prune_head": 20, "prune_tail": 10}),
}  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
async def test_m_703_k55_every_setting_is_read(key: str, caplog: pytest.LogCaptureFixture) -> None:
    one, other = KEYS[key]
    assert await outcome(caplog, **one) != await outcome(caplog, **other)


async def test_m_703_settings_for_one_route_come_first() -> None:
    async with conversation(always=text("Yes.", usage=(900, 9)), facts=WINDOW, session_format=4) as talk:
        compaction.install(talk.harness, SMALL_TAIL, overrides={"mock/m1": Settings(auto=False)})
        said(talk, LONG)
        said(talk, "second")
        await talk.idle()
        assert not talk.records("compaction/start")


async def test_m_703_no_repair_where_none_is_allowed() -> None:
    async with compacting(text("One."), OVERFLOW, settings=Settings(max_overflow_retries=0), session_format=4) as (
        talk,
        _,
    ):
        said(talk, LONG)
        said(talk, "second")
        await talk.idle()
        assert talk.ends() == ["completed", "error"]
        assert not talk.records("compaction/start")
