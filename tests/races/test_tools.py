"""The tool batch of a step: aborts, order, groups, contexts and failures (agent-loop 19.8, LR-140 to LR-163)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from tests.harness.conversation import Conversation, conversation, message
from tests.races.staging import BOTH, USER, Planned, ran

from loopharness.agent import AgentOptions
from loopharness.gate import Gate
from loopharness.model.scripted import Response, text, tool_calls
from loopharness.tools.execution import Execution
from loopspec.profile import Profile

pytestmark = pytest.mark.anyio

FINE = text("Fine.")
ABORTED = ["S step/end 1.1", "S turn/end 1 aborted user", "E agent/status idle"]


def calls(*names: str) -> Response:
    """An answer that calls these tools; the calls are c1, c2, …"""
    return tool_calls(*((f"c{number}", name, {}) for number, name in enumerate(names, 1)))


def batch(talk: Conversation) -> list[str]:
    """The records of calls and results: `call c1`, `result c1`, with the code of an error."""
    return [line.removeprefix("S tool/") for line in talk.trace if line.startswith("S tool/")]


def results(talk: Conversation) -> list[tuple[str, str]]:
    """Each result's call and text."""
    told = [
        (data["message"]["source"]["callId"], data["message"]["content"][0]) for data in talk.records("tool/result")
    ]
    return [(call, block["content"][0]["text"]) for call, block in told]


class Bodies:
    """Tool bodies that stand at a gate of their own, one for each call; `ends` says how they end."""

    def __init__(self, **ends: Callable[[Execution], Any]) -> None:
        self.entered: list[str] = []
        self.left: list[str] = []
        self.gates: dict[str, Gate] = {f"c{number}": Gate() for number in range(1, 7)}
        self._over: dict[str, anyio.Event] = {f"c{number}": anyio.Event() for number in range(1, 7)}
        self._ends = ends

    async def __call__(self, execution: Execution) -> Any:
        call = execution.call_id
        self.entered.append(call)
        await self.gates[call].enter()
        self.left.append(call)
        self._over[call].set()
        return self._ends[call](execution) if call in self._ends else f"{call} done"

    async def reached(self, *calls: str) -> None:
        """Wait until these bodies run."""
        for call in calls:
            await self.gates[call].reached()

    async def over(self, call: str) -> None:
        """Wait until this body has ended, and everything that follows from it at once has happened."""
        await self._over[call].wait()

    def open(self, *calls: str) -> None:
        """Let these bodies end."""
        for call in calls:
            self.gates[call].open()


def fails(execution: Execution) -> None:
    """The body's own error."""
    raise Planned("no such file")


def pipeline(talk: Conversation) -> list[str]:
    """What the pipeline tells of its calls, as it goes."""
    heard: list[str] = []

    def listen(name: str) -> None:
        def listener(execution: Execution, *rest: Any) -> Any:
            heard.append(f"{name} {execution.call_id}")
            return rest[-1]() if callable(rest[-1]) else None

        talk.harness.on(f"tools/{name}", listener)

    for name in ("pre-execute", "execute", "post-execute", "result"):
        listen(name)
    return heard


async def prompted(talk: Conversation) -> None:
    """Prompt, and converge."""
    talk.followup("a")
    await talk.idle()


BEFORE = "ABORTED_BEFORE_DISPATCH"


@BOTH
async def test_lr_140_an_abort_before_the_first_start(profile: Profile) -> None:
    """Synthetic pairs and nothing else; the pipeline hears nothing."""
    bodies = Bodies()
    async with conversation(calls("work", "work"), profile=profile) as talk:
        talk.tool("work", bodies, concurrent=True)
        heard = pipeline(talk)
        talk.at("S assistant/message", lambda: talk.agent.cancel(USER))
        await prompted(talk)
        assert batch(talk) == ["call c1", f"result c1 {BEFORE}", "call c2", f"result c2 {BEFORE}"]
        assert heard == []
        assert bodies.entered == []
        assert talk.trace[-3:] == ABORTED


@BOTH
async def test_lr_141_an_abort_from_the_observer_of_a_call(profile: Profile) -> None:
    """That call ends in the pipeline, without pre- and post-execute; the later ones get synthetic pairs."""
    bodies = Bodies()
    bodies.open("c1")
    async with conversation(calls("work", "work", "work"), profile=profile) as talk:
        talk.tool("work", bodies)
        heard = pipeline(talk)
        talk.at("S tool/call c2", heard.clear, lambda: talk.agent.cancel(USER))
        await prompted(talk)
        assert batch(talk) == [
            "call c1",
            "result c1",
            "call c2",
            f"result c2 {BEFORE}",
            "call c3",
            f"result c3 {BEFORE}",
        ]
        assert heard == ["result c2"]
        assert bodies.entered == ["c1"]


@BOTH
async def test_lr_142_an_abort_during_the_pre_execute_of_a_pool(profile: Profile) -> None:
    """The body is not entered but post-execute sees the call; no sibling starts; the running one is drained."""
    bodies = Bodies(c1=fails)
    async with conversation(calls("work", "work", "work"), profile=profile) as talk:
        talk.tool("work", bodies, concurrent=True)
        heard = pipeline(talk)
        gate = Gate()

        async def second(execution: Execution, proceed: Any) -> Any:
            if execution.call_id == "c2":
                await gate.enter()
            return await proceed()

        talk.harness.on("tools/pre-execute", second)
        talk.followup("a")
        await gate.reached()
        await bodies.reached("c1")
        talk.agent.cancel(USER)
        gate.open()
        bodies.open("c1")
        await talk.idle()
        assert batch(talk) == [
            "call c1",
            "call c2",
            "result c1",
            f"result c2 {BEFORE}",
            "call c3",
            f"result c3 {BEFORE}",
        ]
        assert results(talk)[0] == ("c1", "Error: no such file")
        assert bodies.entered == ["c1"]
        assert [line for line in heard if "c2" in line or "c3" in line] == [
            "pre-execute c2",
            "post-execute c2",
            "result c2",
        ]


@BOTH
async def test_lr_142_an_abort_in_a_wrapper_of_the_body(profile: Profile) -> None:
    """The same behind the permission: the body is not entered, and post-execute sees the call."""
    bodies = Bodies()
    bodies.open("c1")
    async with conversation(calls("work", "work"), profile=profile) as talk:
        talk.tool("work", bodies)
        heard = pipeline(talk)
        talk.during("tools/execute", lambda: talk.agent.cancel(USER))
        await prompted(talk)
        assert batch(talk) == ["call c1", f"result c1 {BEFORE}", "call c2", f"result c2 {BEFORE}"]
        assert heard == ["pre-execute c1", "execute c1", "post-execute c1", "result c1"]
        assert bodies.entered == []


def with_context(id: str, *, conclude: bool = False) -> Callable[[Execution], str]:
    """A body that succeeds and hands over a context, and may conclude the turn."""

    def end(execution: Execution) -> str:
        execution.defer_context(message(id))
        if conclude:
            execution.conclude_turn()
        return "ok"

    return end


@BOTH
async def test_lr_143_an_abort_while_a_body_runs_that_succeeds(profile: Profile) -> None:
    """`ABORTED`; its contexts are kept; its conclusion is lost."""
    bodies = Bodies(c1=with_context("x", conclude=True))
    told: list[Any] = []
    async with conversation(calls("work"), profile=profile) as talk:
        talk.tool("work", bodies)
        talk.harness.on("tools/result", lambda execution, result: told.append(result))
        talk.followup("a")
        await bodies.reached("c1")
        talk.agent.cancel(USER)
        bodies.open("c1")
        await talk.idle()
        assert batch(talk) == ["call c1", "result c1 ABORTED"]
        assert results(talk) == [("c1", "Error: tool call aborted")]
        assert talk.pending() == (["x"], [])
        assert "concludesTurn" not in told[0]
        assert talk.ends() == ["aborted user"]


@BOTH
async def test_lr_144_an_abort_while_a_body_runs_that_fails(profile: Profile) -> None:
    """Its own error is kept."""
    bodies = Bodies(c1=fails)
    async with conversation(calls("work"), profile=profile) as talk:
        talk.tool("work", bodies)
        talk.followup("a")
        await bodies.reached("c1")
        talk.agent.cancel(USER)
        bodies.open("c1")
        await talk.idle()
        assert batch(talk) == ["call c1", "result c1"]
        assert results(talk) == [("c1", "Error: no such file")]
        assert talk.ends() == ["aborted user"]


@BOTH
async def test_lr_145_an_abort_during_post_execute(profile: Profile) -> None:
    """`ABORTED`."""
    async with conversation(calls("work"), profile=profile) as talk:
        talk.tool("work")
        talk.during("tools/post-execute", lambda: talk.agent.cancel(USER))
        await prompted(talk)
        assert batch(talk) == ["call c1", "result c1 ABORTED"]
        assert talk.ends() == ["aborted user"]


@pytest.mark.parametrize("window", ["tools/result", "tool/result"])
@BOTH
async def test_lr_146_an_abort_from_an_observer_of_a_result(profile: Profile, window: str) -> None:
    """That result stays as it is; the next calls get synthetic pairs."""
    async with conversation(calls("work", "work"), profile=profile) as talk:
        talk.tool("work", lambda execution: "done")
        if window == "tools/result":
            talk.during("tools/result", lambda: talk.agent.cancel(USER))
        else:
            talk.at("S tool/result c1", lambda: talk.agent.cancel(USER))
        await prompted(talk)
        assert batch(talk) == ["call c1", "result c1", "call c2", f"result c2 {BEFORE}"]
        assert results(talk)[0] == ("c1", "done")


@BOTH
async def test_lr_147_an_abort_while_two_bodies_run_and_a_third_waits(profile: Profile) -> None:
    """Two real results in model order, then the synthetic pair of the third."""
    bodies = Bodies(c1=fails)
    async with conversation(calls("work", "work", "work"), profile=profile) as talk:
        talk.harness.settings.max_parallel_tool_calls = 2
        talk.tool("work", bodies, concurrent=True)
        talk.followup("a")
        await bodies.reached("c1", "c2")
        talk.agent.cancel(USER)
        bodies.open("c2", "c1")
        await talk.idle()
        assert batch(talk) == [
            "call c1",
            "call c2",
            "result c1",
            "result c2 ABORTED",
            "call c3",
            f"result c3 {BEFORE}",
        ]
        assert sorted(bodies.entered) == ["c1", "c2"]


@BOTH
async def test_lr_148_an_abort_while_a_pool_runs_before_an_exclusive_call(profile: Profile) -> None:
    """The exclusive call never starts."""
    bodies = Bodies()
    async with conversation(calls("work", "alone"), profile=profile) as talk:
        talk.tool("work", bodies, concurrent=True)
        talk.tool("alone", bodies)
        talk.followup("a")
        await bodies.reached("c1")
        talk.agent.cancel(USER)
        bodies.open("c1")
        await talk.idle()
        assert batch(talk) == ["call c1", "result c1 ABORTED", "call c2", f"result c2 {BEFORE}"]
        assert bodies.entered == ["c1"]


@BOTH
async def test_lr_149_a_later_call_settles_first(profile: Profile) -> None:
    """The results stand in model order all the same."""
    bodies = Bodies()
    async with conversation(calls("work", "work"), FINE, profile=profile) as talk:
        talk.tool("work", bodies, concurrent=True)
        talk.followup("a")
        await bodies.reached("c1", "c2")
        bodies.open("c2")
        await bodies.over("c2")
        assert bodies.left == ["c2"]
        assert batch(talk) == ["call c1", "call c2"]
        bodies.open("c1")
        await talk.idle()
        assert results(talk) == [("c1", "c1 done"), ("c2", "c2 done")]


@BOTH
async def test_lr_150_a_result_observer_makes_the_next_call_exclusive(profile: Profile) -> None:
    """The pool drains; the call forms a group of its own."""
    bodies, parallel = Bodies(), [True]
    async with conversation(calls("work", "work", "last"), FINE, profile=profile) as talk:
        talk.harness.settings.max_parallel_tool_calls = 2
        talk.tool("work", bodies, concurrent=True)
        talk.tool("last", bodies, concurrent=lambda arguments: parallel[0])
        talk.at("S tool/result c1", parallel.clear, lambda: parallel.append(False))
        talk.followup("a")
        await bodies.reached("c1", "c2")
        bodies.open("c1")
        await talk.seen("S tool/result c1")
        assert batch(talk) == ["call c1", "call c2", "result c1"]
        bodies.open("c2", "c3")
        await talk.idle()
        assert batch(talk) == ["call c1", "call c2", "result c1", "result c2", "call c3", "result c3"]


@BOTH
async def test_lr_150_the_call_turns_parallel_again_while_the_pool_drains(profile: Profile) -> None:
    """Published: asked again at the next settlement, it joins the pool. Seed: a stopped pool stays stopped."""
    bodies, parallel = Bodies(), [True]
    async with conversation(calls("work", "work", "work", "last"), FINE, profile=profile) as talk:
        talk.harness.settings.max_parallel_tool_calls = 3
        talk.tool("work", bodies, concurrent=True)
        talk.tool("last", bodies, concurrent=lambda arguments: parallel[0])
        talk.at("S tool/result c1", parallel.clear, lambda: parallel.append(False))
        talk.at("S tool/result c2", parallel.clear, lambda: parallel.append(True))
        talk.followup("a")
        await bodies.reached("c1", "c2", "c3")
        bodies.open("c1")
        await talk.seen("S tool/result c1")
        bodies.open("c2")
        await talk.seen("S tool/result c2")
        assert ("call c4" in batch(talk)) is (profile == "dsh-0.1")
        bodies.open("c3", "c4")
        await talk.idle()
        assert [line for line in batch(talk) if "result" in line] == [f"result c{n}" for n in (1, 2, 3, 4)]


@BOTH
async def test_lr_151_an_exclusive_call_replaces_the_tool_of_later_calls(profile: Profile) -> None:
    """They are classified before their start, by what the tool is then: both run side by side."""
    bodies = Bodies()
    async with conversation(calls("swap", "work", "work"), FINE, profile=profile) as talk:
        remove = talk.tool("work", bodies)

        def swap(execution: Execution) -> None:
            remove()
            talk.tool("work", bodies, concurrent=True)

        talk.tool("swap", swap)
        talk.followup("a")
        await bodies.reached("c2", "c3")
        assert bodies.left == []
        bodies.open("c2", "c3")
        await talk.idle()
        assert [call for call, _ in results(talk)] == ["c1", "c2", "c3"]


@BOTH
async def test_lr_151_nothing_starts_beside_an_exclusive_call(profile: Profile) -> None:
    """The barrier itself: a parallel call behind it waits for its result."""
    bodies = Bodies()
    async with conversation(calls("alone", "work"), FINE, profile=profile) as talk:
        talk.tool("alone", bodies)
        talk.tool("work", bodies, concurrent=True)
        talk.followup("a")
        await bodies.reached("c1")
        bodies.open("c1", "c2")
        await talk.idle()
        assert batch(talk) == ["call c1", "result c1", "call c2", "result c2"]


@BOTH
async def test_lr_152_the_cap_changes_while_a_group_runs(profile: Profile) -> None:
    """This group keeps its cap, the next one takes the new."""
    bodies = Bodies()
    async with conversation(calls("work", "work", "work", "alone", "work", "work"), FINE, profile=profile) as talk:
        talk.harness.settings.max_parallel_tool_calls = 2
        talk.tool("work", bodies, concurrent=True)
        talk.tool("alone")
        talk.followup("a")
        await bodies.reached("c1", "c2")
        talk.harness.settings.max_parallel_tool_calls = 1
        bodies.open("c1")
        await bodies.reached("c3")
        assert bodies.left == ["c1"]
        bodies.open("c2", "c3")
        await bodies.reached("c5")
        assert batch(talk)[-1] == "call c5"
        bodies.open("c5", "c6")
        await talk.idle()
        assert len(results(talk)) == 6


@pytest.mark.parametrize("kind", ["steer", "inject"])
@BOTH
async def test_lr_153_steering_from_a_body(profile: Profile, kind: str) -> None:
    """It waits behind all results, and joins the next step."""
    async with conversation(calls("work", "idle"), FINE, profile=profile) as talk:
        talk.tool("work", lambda execution: getattr(talk, kind)("s"))
        talk.tool("idle")
        await prompted(talk)
        assert ran(talk) == [["a"], ["s"]]
        assert talk.trace.index("S tool/result c2") < talk.trace.index("S user/message s")
        assert talk.ends() == ["completed"]


@BOTH
async def test_lr_154_a_body_injects_and_cancels(profile: Profile) -> None:
    """The injected message is discarded; contexts that are accepted later are parked."""

    def body(execution: Execution) -> str:
        talk.inject("i")
        talk.agent.cancel(USER)
        execution.defer_context(message("x"))
        return "ok"

    async with conversation(calls("work"), profile=profile) as talk:
        talk.tool("work", body)
        await prompted(talk)
        assert talk.count("E agent/inbox/discarded i") == 1
        assert talk.pending() == (["x"], [])
        assert talk.ends() == ["aborted user"]
        assert talk.statuses() == ["running", "idle"]


@BOTH
async def test_lr_155_a_body_concludes_and_steers(profile: Profile) -> None:
    """The turn goes on with the steering: one more request."""

    def body(execution: Execution) -> None:
        execution.conclude_turn()
        talk.steer("s")

    async with conversation(calls("work"), FINE, profile=profile) as talk:
        talk.tool("work", body)
        await prompted(talk)
        assert ran(talk) == [["a"], ["s"]]
        assert len(talk.adapter.requests) == 2
        assert talk.ends() == ["completed"]


@BOTH
async def test_lr_156_a_body_concludes_with_contexts(profile: Profile) -> None:
    """They are in next-step, so the turn goes on."""
    async with conversation(calls("work"), FINE, profile=profile) as talk:
        talk.tool("work", with_context("x", conclude=True))
        await prompted(talk)
        assert ran(talk) == [["a"], ["x"]]
        assert talk.ends() == ["completed"]


@BOTH
async def test_lr_157_one_of_two_siblings_concludes(profile: Profile) -> None:
    """The batch is completed; then no request follows."""
    bodies = Bodies(c1=lambda execution: execution.conclude_turn())
    async with conversation(calls("work", "work"), profile=profile) as talk:
        talk.tool("work", bodies, concurrent=True)
        talk.followup("a")
        await bodies.reached("c1", "c2")
        bodies.open("c1")
        await talk.seen("S tool/result c1")
        assert batch(talk)[-1] == "result c1"
        bodies.open("c2")
        await talk.idle()
        assert results(talk)[1] == ("c2", "c2 done")
        assert talk.ends() == ["completed"]
        assert len(talk.adapter.requests) == 1


@BOTH
async def test_lr_157_a_body_concludes_and_fails(profile: Profile) -> None:
    """An error never concludes: the results are owed an answer."""

    def body(execution: Execution) -> None:
        execution.conclude_turn()
        fails(execution)

    async with conversation(calls("work"), FINE, profile=profile) as talk:
        talk.tool("work", body)
        await prompted(talk)
        assert ran(talk) == [["a"], []]
        assert len(talk.adapter.requests) == 2


@BOTH
async def test_lr_158_the_scheduler_fails_while_a_call_is_prepared(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call that is prepared is in the log, its body never starts; what runs is awaited; the first failure is the
    turn's error, and the results are missing."""
    bodies, gate = Bodies(), Gate()
    async with conversation(calls("work", "work", "work", "work"), profile=profile) as talk:
        talk.tool("work", bodies, concurrent=True)
        dispatch = talk.harness.pipeline.dispatch
        rejected, prepared = anyio.Event(), anyio.Event()

        async def rejecting(call: Any, may_enter: Any) -> Any:
            slot = await dispatch(call, may_enter)
            if call.execution.call_id in ("c1", "c2"):
                rejected.set()
                raise Planned(f"{call.execution.call_id} rejected")
            return slot

        async def third(execution: Execution, proceed: Any) -> Any:
            if execution.call_id == "c3":
                await gate.enter()
                prepared.set()
            return await proceed()

        monkeypatch.setattr(talk.harness.pipeline, "dispatch", rejecting)
        talk.harness.on("tools/pre-execute", third)
        talk.followup("a")
        await bodies.reached("c1", "c2")
        await gate.reached()
        bodies.open("c1")
        await rejected.wait()
        gate.open()
        await prepared.wait()
        assert talk.trace[-1] == "S tool/call c3"
        bodies.open("c2")
        await talk.idle()
        assert batch(talk) == ["call c1", "call c2", "call c3"]
        assert sorted(bodies.entered) == ["c1", "c2"]
        assert bodies.left == ["c1", "c2"]
        (end,) = talk.records("turn/end")
        assert end["reason"]["error"]["message"] == "c1 rejected"


@BOTH
async def test_lr_159_a_context_is_pending_already(profile: Profile) -> None:
    """A failure of the scheduler: the turn is an error. The result of that call is in the log, later ones are not."""
    async with conversation(calls("work", "work"), profile=profile) as talk:
        talk.agent.send(message("x"), "next-turn", False)
        talk.agent.inbox.append("next-turn", message("y"))
        talk.tool("work", with_context("y"))
        talk.steer("a")
        await talk.idle()
        assert batch(talk) == ["call c1", "result c1"]
        (end,) = talk.records("turn/end")
        assert end["reason"]["error"] == {"message": 'message "y" is already pending', "code": "UNKNOWN"}
        assert talk.pending() == ([], ["y"])


@pytest.mark.parametrize(
    ("profile", "format", "completed"),
    [("seed", 0, False), ("dsh-0.1", 0, False), ("dsh-0.1.7", 4, False), ("seed", 4, True)],
)
async def test_lr_160_a_prompt_behind_a_scheduler_failure(profile: Profile, format: int, completed: bool) -> None:
    """Its request carries tool calls without results. Seed in format 4, whose logs must load: a result for each."""
    async with conversation(calls("work", "work"), FINE, profile=profile, session_format=format) as talk:
        talk.tool("work")
        talk.refuse("S tool/result c1")
        await prompted(talk)
        assert talk.ends() == ["error"]
        talk.followup("b")
        await talk.idle()
        roles = [m["role"] for m in talk.adapter.requests[1]["messages"] if m["role"] != "system"]
        tail = ["tool", "tool"] if completed else []
        assert roles == ["user", "assistant", *tail, "user"]
        codes = [data["error"]["code"] for data in talk.records("tool/result")]
        assert codes == (["TOOL_OUTCOME_UNKNOWN", "TOOL_NOT_STARTED"] if completed else [])
        if completed:
            assert talk.trace.index("S tool/result c2 TOOL_NOT_STARTED") < talk.trace.index("S step/end 1.1")


@BOTH
async def test_lr_161_a_body_asks_for_maintenance(profile: Profile) -> None:
    """Refused inside the body: a result like any other error."""
    async with conversation(calls("work"), FINE, profile=profile) as talk:
        talk.tool("work", lambda execution: talk.agent.run_maintenance(lambda signal: None))
        await prompted(talk)
        assert results(talk) == [("c1", 'Error: agent "main" already has active work')]
        assert talk.ends() == ["completed"]


@pytest.mark.parametrize("dispose", [False, True])
@BOTH
async def test_lr_162_a_body_waits_for_the_end_of_its_own_run(profile: Profile, dispose: bool) -> None:
    """It waits for ever, by contract: the run waits for the body. Only somebody who stops the waiting helps."""
    outcome: list[str] = []
    scope, entered = anyio.CancelScope(), Gate()
    entered.open()

    async def body(execution: Execution) -> None:
        await entered.enter()
        with scope:
            await (talk.harness.dispose_agent(talk.agent) if dispose else talk.idle())
            outcome.append("it came to an end")

    async with conversation(calls("work"), always=FINE, profile=profile) as talk:
        talk.tool("work", body)
        talk.followup("a")
        await entered.reached()
        other = await talk.harness.create_agent("other", AgentOptions("mock", "m1"))
        other.followup(message("o"))
        await other.when_idle()  # time enough for whoever would wrongly go on
        assert talk.agent.status == "running"
        scope.cancel()
        await talk.idle()
        assert outcome == []
        assert talk.ends() == ["aborted disposed" if dispose else "completed"]


@BOTH
async def test_lr_163_a_body_sends_a_followup_and_injects(profile: Profile) -> None:
    """The injection joins the next step of this turn, the prompt is the next turn."""

    def body(execution: Execution) -> None:
        talk.followup("f")
        talk.inject("i")

    async with conversation(calls("work"), FINE, FINE, profile=profile) as talk:
        talk.tool("work", body)
        await prompted(talk)
        assert talk.batches() == [(1, 1, ["a"]), (1, 2, ["i"]), (2, 1, ["f"])]
