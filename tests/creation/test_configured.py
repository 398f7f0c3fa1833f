"""Configured agents: what is refused as a whole, what is started, and the races R-67 to R-70 (creation 14)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.creation.stage import Gate, stage

from loopharness.agents import Agents
from loopharness.creation.configured import ConfigError, read

pytestmark = pytest.mark.anyio

MAIN: dict[str, Any] = {"id": "main", "provider": "mock", "model": "m1"}


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"maxParallelToolcalls": 2}, "unknown key 'maxParallelToolcalls'; did you mean maxParallelToolCalls?"),
        ({"agents": [{**MAIN, "sesionId": "x"}]}, "agents[0]: unknown key 'sesionId'; did you mean sessionId?"),
        ({"agents": [{"provider": "mock"}]}, "agents[0].id is missing"),
        ({"agents": [{**MAIN, "sessionId": ""}]}, "agents[0].sessionId must not be empty"),
        ({"agents": [{**MAIN, "maxTokens": 0}]}, "agents[0].maxTokens must be an integer from 1"),
        ({"agents": [{**MAIN, "cwd": "here"}]}, 'agents[0].cwd must be an absolute path, got "here"'),
        ({"agents": {"id": "main"}}, "agents must be a list"),
        (
            {"agents": [{**MAIN, "sessionId": "x", "resumeSessionId": "y"}]},
            'agent "main": sessionId and resumeSessionId are mutually exclusive',
        ),
        (
            {"agents": [{**MAIN, "sessionId": "x"}, {**MAIN, "id": "other", "resumeSessionId": "x"}]},
            'agents "main" and "other" use duplicate exact session identity "x"',
        ),
        *[({"maxParallelToolCalls": n}, "maxParallelToolCalls must be a positive integer") for n in (0, -1, "5", True)],
    ],
)
def test_what_is_refused_before_anything_starts(config: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(config)
    assert text in str(caught.value)


def test_an_empty_resume_id_is_absent_and_a_launcher_decides() -> None:
    assert read({"agents": [{**MAIN, "resumeSessionId": "", "sessionId": "x"}]}).entries[0].session_id == "x"
    (entry,) = read({"agents": [{**MAIN, "sessionId": "x"}]}, {"main": {"id": "y", "resume": True}}).entries
    assert (entry.session_id, entry.resume_id) == (None, "y")


async def test_a_label_gets_a_fresh_id_and_an_exact_id_is_created() -> None:
    async with stage() as st:
        await st.agents.configure({"maxParallelToolCalls": 3, "agents": [MAIN, {**MAIN, "sessionId": "x"}, MAIN]})
        ids = sorted(agent.id for agent in st.agents.list())
        assert ids[2] == "x"
        assert all(id.startswith("main-session-") for id in ids[:2])
        assert st.harness.settings.max_parallel_tool_calls == 3
        await st.agents.unload(st.agents.provider)
        assert st.agents.list() == []


async def test_a_failure_is_contained_and_told(caplog: pytest.LogCaptureFixture) -> None:
    async with stage() as st:
        failed: list[Any] = []
        st.harness.context.on("agent-loop/config-start-failed", failed.append)
        await st.agents.configure({"agents": [{**MAIN, "resumeSessionId": "nobody"}, {**MAIN, "sessionId": "x"}]})
        assert [f["sessionId"] for f in failed] == ["nobody"]
        assert 'agent "main": config-driven resume of "nobody" failed: cannot resume' in caplog.text
        assert [agent.id for agent in st.agents.list()] == ["x"]


async def test_r67_an_exact_id_waits_for_its_draining_predecessor_and_resumes(tmp_path: Path) -> None:
    gate = Gate()
    async with stage([gate], sessions_root=tmp_path) as st:
        failed: list[Any] = []
        st.harness.context.on("agent-loop/config-start-failed", failed.append)
        config = {"agents": [{**MAIN, "sessionId": "x", "cwd": "/workspace"}]}
        await st.agents.configure(config)
        first = _live(st.agents, "x")
        first.followup("hello")
        await gate.reached()
        end = st.agents.handle(first).dispose()
        again = st.agents.configure(config)
        gate.open()
        await end
        await again
        second = _live(st.agents, "x")
        assert second is not first
        assert second.session.last_turn == 1, "its history is back"
        assert failed == []


async def test_r68_and_r69_a_waiting_start_ends_with_the_loop(tmp_path: Path) -> None:
    async with stage(sessions_root=tmp_path) as st:
        await st.agents.create("x")
        waiting = st.agents.configure({"agents": [{**MAIN, "sessionId": "x"}]})
        await st.agents.unload(st.agents.provider)
        await waiting
        assert st.told == "s+x a+x ssx a-x s-x", "nothing was created"


async def test_r70_a_failure_after_the_end_of_the_loop_has_begun_is_kept_quiet(caplog: Any) -> None:
    async with stage() as st:
        failed: list[Any] = []
        st.harness.context.on("agent-loop/config-start-failed", failed.append)
        started = st.agents.configure({"agents": [{**MAIN, "resumeSessionId": "nobody"}]})
        await st.agents.unload(st.agents.provider)
        await started
        assert failed == []
        assert "config-driven" not in caplog.text


def _live(agents: Agents, id: str) -> Any:
    agent = agents.get(id)
    assert agent is not None
    return agent
