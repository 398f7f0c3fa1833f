"""What a step, a request and a tool body wait for is seen from outside (S-DSK-33): a loop that waits for less fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loopconform.protocol.case import load_case
from loopconform.runner.channel import opener
from loopconform.runner.play import Player
from loopconform.runner.results import Result
from loopharness import harness
from loopharness.bus import Context
from loopharness.store.checkpoint import install_checkpoints

HAND = Path(__file__).parents[2] / "conformance" / "cases" / "hand" / "resume"


def played(name: str) -> Result:
    player = Player(opener("python-reference"))
    try:
        return player.play(load_case(HAND / f"{name}.json"), "seed")
    finally:
        player.close()


@pytest.mark.parametrize(
    ("name", "event"),
    [
        ("durable-before-a-step", "agent/pre-step"),
        ("durable-before-a-step", "llm/stream"),
        ("durable-before-a-body", "tools/execute"),
        ("crash-before-a-body", "tools/execute"),
        ("input-behind-a-barrier", "agent/pre-step"),
    ],
)
def test_each_barrier_is_missed(monkeypatch: pytest.MonkeyPatch, name: str, event: str) -> None:
    """The same loop with one of its three barriers left out."""
    assert played(name).verdict == "PASS"
    install: Callable[..., None] = install_checkpoints

    def with_one_left_out(context: Context, *services: Any) -> None:
        class Without:
            def on(self, name: str, *listener: Any, **options: Any) -> None:
                if name != event:
                    context.on(name, *listener, **options)

        install(Without(), *services)

    monkeypatch.setattr(harness, "install_checkpoints", with_one_left_out)
    result = played(name)
    assert result.verdict == "FAIL"
    assert result.fault is not None
    assert result.fault.clause == "S-DSK-33", result.fault
