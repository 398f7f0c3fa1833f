"""The stage of the conversations itself: reactions act once each, whatever they cause."""

from __future__ import annotations

import logging

import pytest
from tests.harness.conversation import conversation

from loopharness.model.scripted import text

pytestmark = pytest.mark.anyio


async def test_a_reaction_that_causes_its_own_line(caplog: pytest.LogCaptureFixture) -> None:
    """The second answers the line that the first one causes; nobody acts twice, and no listener throws."""
    acted: list[str] = []
    async with conversation(text("One."), text("Two.")) as talk:

        def first() -> None:
            acted.append("first")
            talk.inject("b")

        talk.at("E agent/inbox/inserted", first)
        talk.at("E agent/inbox/inserted", lambda: acted.append("second"))
        with caplog.at_level(logging.WARNING, "loopharness"):
            talk.followup("a")
            await talk.agent.when_idle()
    assert acted == ["first", "second"]
    assert caplog.records == []
