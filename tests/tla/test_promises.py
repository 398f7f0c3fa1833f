"""Every promise of `AgentLoop.tla` is checked in CI: of the model that keeps it, and of a broken one that must not."""

from __future__ import annotations

import re

import pytest

from loopconform.tla.instances import TLA, instances, properties_of

TEXT = (TLA / "AgentLoop.tla").read_text()
PROMISES = re.findall(r"\w+", TEXT.split("Promises ==", 1)[1])
QUICK = instances(TLA, "quick")


def test_there_are_six() -> None:
    assert len(PROMISES) == 6
    assert all(re.search(rf"^{name} ==", TEXT, re.MULTILINE) for name in PROMISES)


@pytest.mark.parametrize("promise", PROMISES)
def test_a_promise_is_kept_and_can_be_broken(promise: str) -> None:
    kept = [one for one in QUICK if one.expect == "pass" and promise in properties_of(one.config.read_text())]
    broken = [one for one in QUICK if one.expectation == f"violates {promise}"]
    assert kept
    assert broken
    for one in (*kept, *broken):
        modules = [one.path, *(TLA / f"{name}.tla" for name in re.findall(r"EXTENDS (\w+)", one.path.read_text()))]
        text = "\n".join(path.read_text() for path in modules)
        # It is the promise of that module, and not something else of the same name; `MCLoopBatch` has it from afar.
        assert one.module == "MCLoopBatch" or re.search(rf"^{promise} == \w+!{promise}$", text, re.MULTILINE), one.name
