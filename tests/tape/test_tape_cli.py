"""`loopspec tape`: the table, the causes, the picture, and broken logs."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from tests.tape.mounted import LOG, asks, mounted, turns

from loopconform.commands.tape import command
from loopharness.model.scripted import text
from loopspec.tape.prefix import Compared, report

CASES = Path(__file__).parent.parent / "logs" / "field-cases"


def compared(name: str) -> list[Compared]:
    rows = [json.loads(line) for line in (CASES / name).read_text().splitlines()]
    return list(report(rows[0], rows[1:]))


def test_a_clock_in_the_system_prompt_shares_nothing() -> None:
    """K26"""
    _, second, third = compared("K26-clock-in-system.v0.jsonl")
    for item in (second, third):
        assert (item.kept, item.kept_bytes, item.where) == (0, 0, "system")
        assert item.cause.startswith("the system prompt (request/header.system) changed: at character 41 ")
    assert "12:01" in second.cause
    assert "12:02" in second.cause


def test_a_clock_behind_the_prompt_shares_everything() -> None:
    """K26"""
    first, second, third = compared("K26-clock-in-snapshot.v0.jsonl")
    assert (second.kept, second.kept_bytes) == (len(first.parts), first.size)
    assert (third.kept, third.kept_bytes) == (len(second.parts), second.size)
    assert {second.cause, third.cause} == {"extends the last request whole"}
    assert second.lost_bytes == third.lost_bytes == 0


def test_a_sliding_prune_cuts_at_the_result() -> None:
    """K28"""
    found = compared("K28-sliding-prune.v0.jsonl")
    cut = [(item.turn, item.step, item.where, item.cause) for item in found if item.lost_bytes]
    assert cut == [
        (
            3, 1, "message 2",
            "the tool result at seq 14 (turn 1) was rewritten as the tool result at seq 54 (turn 1)",
        ),
        (
            4, 1, "message 6",
            "the tool result at seq 37 (turn 2) was rewritten as the tool result at seq 79 (turn 2)",
        ),
    ]  # fmt: skip
    for before, after in pairwise(found):
        assert after.kept_bytes + after.lost_bytes == before.size


def run(*arguments: str) -> tuple[int, str]:
    answer = CliRunner().invoke(command, arguments, terminal_width=200)
    return answer.exit_code, answer.output


@pytest.mark.parametrize("name", ["K26-clock-in-system", "K26-clock-in-snapshot", "K28-sliding-prune"])
def test_the_table_and_the_picture(name: str, tmp_path: Path) -> None:
    picture = tmp_path / "out.svg"
    code, output = run(str(CASES / f"{name}.v0.jsonl"), "--svg", str(picture))
    assert code == 0
    found = compared(f"{name}.v0.jsonl")
    assert f"{len(found)} requests" in output
    for item in found[1:]:
        assert f"{item.kept_bytes:,}" in output
    tree = ElementTree.parse(picture).getroot()
    space = "{http://www.w3.org/2000/svg}"
    boxes = [box for group in tree.iter(f"{space}g") for box in group.iter(f"{space}rect")]
    assert len(boxes) == sum(len(item.parts) + bool(item.lost_bytes) for item in found)


@pytest.mark.anyio
async def test_a_session_with_the_tape(tmp_path: Path) -> None:
    async with mounted(asks("log"), text("one"), asks("small"), text("two"), text("three")) as (talk, _):
        await turns(talk, "a", "b", "c")
        header: dict[str, Any] = dict(talk.agent.session.header)
        events = list(talk.agent.session.events)
        sent = [list(request["messages"]) for request in talk.adapter.requests]
    path = tmp_path / "s.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in [header, *events]) + "\n")
    found = list(report(header, events))
    assert [len(item.parts) - 1 for item in found] == [len(messages) for messages in sent]  # one part is the tools
    sealing = [item for item in found if item.sealed]
    assert [(item.turn, item.step) for item in sealing] == [(2, 1), (3, 1)]
    assert [item.kept for item in sealing] == [3, 5]
    assert "was sealed into the tape entry at seq" in sealing[0].cause
    code, output = run(str(path), "--svg", str(tmp_path / "s.svg"))
    assert code == 0, output
    assert 'back with recall_turn({"turn":"1"})' in output
    assert "3f7d20" in (tmp_path / "s.svg").read_text()
    assert len(LOG) > 50_000


def test_a_torn_log_shows_what_survives(tmp_path: Path) -> None:
    whole = (CASES / "K28-sliding-prune.v0.jsonl").read_text()
    torn = tmp_path / "torn.v0.jsonl"
    torn.write_text(whole[: len(whole) // 2])
    code, output = run(str(torn))
    assert code == 1
    assert "requests" in output


def test_no_log_at_all(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"type":"session","version":99,"id":"x"}\n')
    assert run(str(tmp_path / "x.jsonl"))[0] == 2
    assert run(str(tmp_path / "absent.jsonl"))[0] == 2
    good = str(CASES / "K28-sliding-prune.v0.jsonl")
    code, output = run(good, "--svg", str(tmp_path / "no" / "such" / "folder.svg"))
    assert code == 2
    assert "cannot be written" in output
