"""Creations as a state machine: every rule is a call or a reaction, and after each run nothing may be left.

What is checked is what `test_programs` checks: pairing, registry content, open promises, and listeners.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from tests.creation.stage import quiet, stage
from tests.creation.test_programs import DEED, IDS, MARK, OWNER, SETUP, WHO, Program, finish
from tests.spec.mutation import Mutant, applied

from loopspec import creation, registry


class Creations(RuleBasedStateMachine):
    """Create, resume, dispose, unload, abort and listeners that react, on one harness."""

    backend = "asyncio"

    def __init__(self) -> None:
        super().__init__()
        self.exits = ExitStack()
        self.portal = self.exits.enter_context(start_blocking_portal(self.backend))
        self.stage = self.exits.enter_context(self.portal.wrap_async_context_manager(stage()))
        self.program: Program = self.portal.call(Program, self.stage)

    def do(self, *call: Any) -> None:
        """One call, on the event loop."""
        self.portal.call(self.program.do, call)

    @rule(id=IDS, setup=SETUP, owner=OWNER)
    def create(self, id: str, setup: str, owner: str) -> None:
        self.do("create", id, setup, owner)

    @rule(id=IDS, owner=OWNER)
    def resume(self, id: str, owner: str) -> None:
        self.do("resume", id, owner)

    @rule(who=WHO)
    def let_setup_go_on(self, who: int) -> None:
        self.do("open", who)

    @rule(who=WHO)
    def abort(self, who: int) -> None:
        self.do("abort", who)

    @rule(who=WHO)
    def dispose(self, who: int) -> None:
        self.do("dispose", who)

    @rule(who=WHO)
    def wake(self, who: int) -> None:
        self.do("wake", who)

    @rule(name=st.sampled_from(["first", "second"]))
    def unload(self, name: str) -> None:
        self.do("unload", name)

    @rule(mark=MARK, id=IDS, deed=DEED, who=WHO)
    def react(self, mark: str, id: str, deed: str, who: int) -> None:
        self.do("react", mark, id, deed, who)

    @rule()
    def come_to_rest(self) -> None:
        """Everybody goes as far as he can: what was heard must fit the registries."""
        self.portal.call(quiet)
        self.portal.call(self.program.check)

    def teardown(self) -> None:
        """Nothing is left, whichever way it ends."""
        try:
            self.portal.call(finish, self.program, len(self.program.calls) % 2 == 0)
        finally:
            self.exits.close()


class OnTrio(Creations):
    """The same on the other event loop."""

    backend = "trio"


FEW = settings(max_examples=25, stateful_step_count=14, deadline=None, derandomize=True, database=None)
FIRST = settings(FEW, phases=[Phase.generate], report_multiple_bugs=False)
"""The first failing run is enough, as it is."""


@pytest.mark.parametrize("machine", [Creations, OnTrio])
def test_whatever_is_called_nothing_is_left(machine: type[Creations]) -> None:
    run_state_machine_as_test(machine, settings=FEW)


def test_an_end_that_is_not_told_is_found() -> None:
    """INV-2 on the harness: without the notice of the end, what was heard does not fit the registries."""
    old = 'following = ("tell_disposed", kind, object, then) if entry.phase == "announced" else then'
    mutant = Mutant("detach", "detach", old, "following = then", "", "")
    rules = {"creation": creation.rules}
    with applied(mutant, rules, {"registry": registry, "creation": creation}), pytest.raises(AssertionError):
        run_state_machine_as_test(Creations, settings=FIRST)
