"""The companion: silent on the loop as it is, and naming the rule in the moment in which a record breaks one."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.harness.conversation import USER, conversation, message

from loopharness.companion import CompanionError, Seen, install
from loopharness.gate import Gate
from loopharness.model.scripted import Response, text, tool_calls
from loopspec.profile import Profile

pytestmark = pytest.mark.anyio

SETTINGS: list[tuple[Profile, int]] = [("seed", 0), ("seed", 4), ("dsh-0.1", 0)]


@pytest.mark.parametrize(("profile", "session_format"), SETTINGS)
async def test_the_loop_breaks_no_rule(profile: Profile, session_format: int) -> None:
    """Tools, a cancel in mid-stream, a latched prompt, steering: nothing to say, not even a warning."""
    gate = Gate()
    start, delta, *rest = text("Half an answer.")
    script: tuple[Response, ...] = (
        tool_calls(("c1", "none", {})),
        text("One."),
        [start, delta, gate, *rest],
        text("Three."),
    )
    async with conversation(*script, profile=profile, session_format=session_format) as talk:
        companion = install(talk.harness.context, profile=profile, level="W")
        talk.followup("a")
        talk.steer("s")
        await talk.agent.when_idle()
        talk.followup("b")
        await gate.reached()
        talk.agent.cancel(USER)
        talk.followup("c")
        gate.open()
        await talk.agent.when_idle()
        assert talk.ends() == ["completed", "aborted user", "completed"]
        assert companion.violations == []
        assert companion.settled(talk.agent.session) == ()


async def test_a_foreign_record_is_named_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """A plugin writes a second turn/start: the rule is named before the next record is written."""
    told: list[tuple[Seen, int]] = []
    async with conversation(text("Hello.")) as talk:
        session = talk.harness.sessions.get("main")
        assert session is not None
        companion = install(talk.harness.context, tell=lambda seen: told.append((seen, len(session.events))))
        talk.at("E agent/status running", lambda: session.append("turn/start", {"turn": 7}))
        with caplog.at_level(logging.WARNING, "loopharness"):
            talk.followup("a")
            await talk.agent.when_idle()
        first, written = told[0]
        assert (first.session, first.violation.rule, first.violation.seq) == ("main", "S-LNT-45", written - 1)
        assert companion.violations[0] == first
        assert any("S-LNT-45" in record.message for record in caplog.records)


async def test_a_turn_without_a_cause_is_named_at_once() -> None:
    """What no rule of rows sees: the companion follows the loop."""
    async with conversation() as talk:
        companion = install(talk.harness.context)
        session = talk.agent.session
        session.append("turn/start", {"turn": 1})
        assert companion.violations == []  # it may still be a seed that a caller gives
        talk.inject("i")
        (seen,) = companion.violations
        assert (seen.violation.rule, seen.violation.seq) == ("S-ACC-1", 0)


async def test_stop_refuses_what_follows_the_first_error() -> None:
    async with conversation() as talk:
        companion = install(talk.harness.context, stop=True)
        session = talk.agent.session
        session.append("turn/start", {"turn": 3})
        written = len(session.events)
        with pytest.raises(CompanionError, match="S-LNT-45"):
            session.append("turn/end", {"turn": 3, "reason": {"kind": "completed"}})
        with pytest.raises(CompanionError):
            talk.followup("a")
        assert len(session.events) == written
        assert len(companion.violations) == 1


async def test_records_before_the_companion_are_caught_up_with() -> None:
    """It may come late: then it judges the whole log."""
    async with conversation(text("Hello."), text("Again.")) as talk:
        talk.followup("a")
        await talk.agent.when_idle()
        companion = install(talk.harness.context)
        talk.followup("b")
        await talk.agent.when_idle()
        assert companion.violations == []
        talk.agent.session.append("turn/start", {"turn": 3})
        talk.inject("i")
        assert [seen.violation.rule for seen in companion.violations] == ["S-ACC-1"]


@pytest.mark.parametrize(("profile", "rules"), [("seed", []), ("dsh-0.1", ["S-ACC-3"])])
async def test_what_is_owed_when_idle(profile: Profile, rules: list[str]) -> None:
    """L-WAKE-11: behind an error the published loop parks a waking send; the seed runs it."""

    def throw(payload: Any, proceed: Any) -> Any:
        raise RuntimeError("no")

    async with conversation(text("Hello."), profile=profile) as talk:
        companion = install(talk.harness.context, profile=profile)
        stop = talk.harness.on("agent/pre-step", throw)

        def again() -> None:
            stop()
            talk.agent.followup(message("b"))

        talk.at("E agent/error", again)
        talk.followup("a")
        await talk.agent.when_idle()
        assert companion.violations == []
        assert [item.rule for item in companion.settled(talk.agent.session)] == rules
