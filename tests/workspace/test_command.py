"""Commands: directory, environment, output, time limit, cancellation, and what they leave behind."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from tests.workspace.bench import QUICK, bench

from loopharness.signal import AbortController
from loopharness.workspace import Limits

pytestmark = pytest.mark.anyio


async def becomes(true: Callable[[], bool]) -> None:
    """Wait for something that a process does; the test's time limit is the only clock."""
    while not true():
        await anyio.sleep(0.005)


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False


async def test_a_command_runs_inside_the_root_and_says_how_it_ended(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    with bench(tmp_path) as tools:
        assert (await tools.call("command", command="pwd; echo $PWD", cwd="sub")).text == f"{tmp_path / 'sub'}\n" * 2
        assert (await tools.call("command", command="true")).text == "[no output]"
        assert (await tools.call("command", command="echo no >&2; exit 3")).text == "no\n[exit code 3]"
        assert (await tools.call("command", command="kill -9 $$")).text == "[killed by signal 9]"
        assert (await tools.call("command", command="cat")).text == "[no output]"
        assert (await tools.call("command", command="true", cwd="none")).code == "NOT_FOUND"
        assert (await tools.call("command", command="true", cwd="..")).code == "OUTSIDE_ROOT"
        assert (await tools.call("command", command="a\0b")).code == "COMMAND"


async def test_keys_of_the_environment_are_not_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from loopharness.harness import open_harness
    from loopharness.workspace import install

    monkeypatch.setenv("DEEPSEEK_API_KEY", "sk-secret")
    async with open_harness() as harness:
        workspace = install(harness, tmp_path)
        assert "sk-secret" not in workspace.environment.values()
        assert "PATH" in workspace.environment
    with bench(tmp_path, environment=workspace.environment) as tools:
        assert "sk-secret" not in (await tools.call("command", command="env")).text


async def test_a_long_output_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    with bench(tmp_path, limits=QUICK._replace(output=200)) as tools:
        text = (await tools.call("command", command="i=0; while [ $i -lt 1000 ]; do echo $i; i=$((i+1)); done")).text
    assert text.startswith("0\n1\n2\n")
    assert text.endswith("\n998\n999\n")
    assert "[… 3,690 bytes left out …]" in text


async def test_the_time_limit_ends_the_whole_group(tmp_path: Path) -> None:
    with bench(tmp_path) as tools:
        said = await tools.call("command", command="sleep 600 & echo $! > pid; echo half; wait", timeout=0.3)
    assert said.code == "TOOL_TIMEOUT"
    assert said.text == "Error: the command was ended after 0.3 seconds\nIts output until then:\nhalf\n"
    await becomes(lambda: not alive(int((tmp_path / "pid").read_text())))


async def test_a_time_limit_cannot_be_asked_away(tmp_path: Path) -> None:
    with bench(tmp_path, limits=Limits(most_command_seconds=0.1, grace_seconds=0.1)) as tools:
        said = await tools.call("command", command="sleep 600", timeout=1e9)
        assert said.text.startswith("Error: the command was ended after 0.1 seconds")
        assert (await tools.call("command", command="true", timeout=0)).code == "INVALID_ARGS"


async def test_t_301_a_cancel_ends_the_group_and_one_that_ignores_it_is_killed(tmp_path: Path) -> None:
    controller = AbortController()
    with bench(tmp_path) as tools:
        async with anyio.create_task_group() as group:

            async def cancel() -> None:
                await becomes((tmp_path / "ready").exists)
                controller.abort("user")

            group.start_soon(cancel)
            stubborn = "trap '' TERM; sh -c \"trap '' TERM; sleep 600\" & echo $! > pid; touch ready; sleep 600"
            said = await tools.call("command", controller.signal, command=stubborn)
    assert said.code == "ABORTED"
    await becomes(lambda: not alive(int((tmp_path / "pid").read_text())))


async def test_what_is_left_running_holds_nothing_and_is_ended(tmp_path: Path) -> None:
    with bench(tmp_path) as tools:
        said = await tools.call("command", command="sleep 600 & echo $! > pid; echo done")
    assert said.text == "done\n"
    await becomes(lambda: not alive(int((tmp_path / "pid").read_text())))


async def test_a_process_that_leaves_the_group_does_not_hold_the_call(tmp_path: Path) -> None:
    """It holds the output open for ever; the call gives up on it after its moment of grace."""
    with bench(tmp_path) as tools:
        said = await tools.call(
            "command", command="setsid sh -c 'echo $$ > pid; exec sleep 600' & until [ -s pid ]; do :; done; echo done"
        )
    assert said.text == "done\n"
    os.kill(int((tmp_path / "pid").read_text()), 9)
