"""Runs that TLC found are played over the protocol: followed and lawful, and the broken ones only by a broken loop."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from loopconform.cli import main
from loopconform.mutants.matrix import Bench
from loopconform.mutants.named import everything
from loopconform.protocol.case import Case, load_case
from loopconform.replays.played import Played, always_heard, play
from loopconform.replays.program import case_of
from loopconform.replays.streams import Untranslatable
from loopconform.replays.table import ENDLESS, PLAYED, reason
from loopconform.runner.channel import InsideChannel
from loopconform.runner.play import Player
from loopconform.tla.instances import TLA, instances
from loopconform.tla.replay import Replay, read

KEPT = sorted((TLA / "runs").glob("*.json"))
COUNTEREXAMPLES = [one for one in instances() if one.expect == "violates"]
UNPLAYED = {one.name for one in COUNTEREXAMPLES if reason(one) != PLAYED}
RUNS = [file for file in KEPT if file.stem not in UNPLAYED]


def played(run: Replay, backend: Any = "asyncio") -> Played:
    """A run on the reference harness in this process."""
    player = Player(lambda: InsideChannel(backend), 30.0)
    try:
        return play(player, run)
    finally:
        player.close()


def run_of(*labels: Any, machine: str = "driver") -> Replay:
    """A run of the law, of these labels."""
    return Replay(machine, "seed", 4, labels)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("file", RUNS, ids=lambda file: file.stem)
def test_the_reference_follows_the_runs_of_the_law_and_no_others(file: Path, backend: str) -> None:
    run = read(file)
    done = played(run, backend)
    assert done.result.verdict == "PASS", done.result.reason
    assert done.whole == file.stem.endswith("_Witness"), done.told()
    assert bool(run.broken) == file.stem.endswith("_Unsafe")


def test_counterexamples_of_every_group_that_can_be_played_are_among_them() -> None:
    machines = Counter(read(file).machine for file in RUNS if file.stem.endswith("_Unsafe"))
    assert set(machines) == {"inbox", "driver", "loop", "scheduler"}
    assert machines["driver"] > 8
    assert machines["scheduler"] > 3


def test_a_counterexample_that_is_not_played_has_a_reason() -> None:
    reasons = {one.name: reason(one) for one in COUNTEREXAMPLES}
    assert all(reasons.values())
    assert "outside sees" in reasons["MCLoop_replay_Unsafe"]
    assert reasons["MCScheduler_careless_Unsafe"] == ENDLESS
    assert "no gate holds the loop at tick" in reasons["MCLoop_tick_Unsafe"]
    assert {name for name, words in reasons.items() if words == "its run is not kept"} == set()


def test_a_run_that_has_come_to_rest_is_left_when_something_comes_behind_it() -> None:
    done = played(read(TLA / "runs" / "MCLoop_latch_Unsafe.json"))
    assert (done.result.verdict, done.whole, done.more) == ("PASS", False, ("notify", "agent/status", "running"))
    assert "where the run rests" in done.told()


def test_a_batch_alone_has_to_begin_under_a_live_signal() -> None:
    ask = ("park", "prepare", 1, "arguments")
    with pytest.raises(Untranslatable, match="aborted before the batch began"):
        case_of(run_of(("append", "tool/call", 1), ask, machine="scheduler"))
    case_of(run_of(("park", "classify", 1), ("answer", "classify", 1, "exclusive"), machine="scheduler"))
    with pytest.raises(Untranslatable, match="format 4 only"):
        case_of(Replay("scheduler", "seed", 0, (ask,)))


def test_a_loop_with_the_fault_of_the_run_fails() -> None:
    """The faulty harness is a process of its own: the judge in this one stays sound."""
    run = read(TLA / "runs" / "MCLoop_retarget_Unsafe.json")
    fault = next(one for one in everything() if one.sentence == "A late steer stays a steer.")
    bench = Bench(30.0)
    try:
        result = bench.play(fault, case_of(run), run.profile)
    finally:
        bench.close()
    assert result.verdict == "FAIL", result.reason
    assert result.fault is not None
    assert "agent/inbox/spliced" in result.fault.reply


def test_lawful_is_not_enough() -> None:
    """Another run than the one in the file is no PASS, and a broken run that is followed to its end neither."""
    run = read(TLA / "runs" / "MCLoop_gap_Witness.json")
    without = run._replace(labels=tuple(label for label in run.labels if label[:2] != ("append", "turn/start")))
    done = played(without)
    assert done.result.verdict == "UNDETERMINED"
    assert "lawful, but another run" in done.result.reason
    assert "there came append turn/start 1" in done.told()
    done = played(run._replace(broken=("latch",)))
    assert (done.result.verdict, done.whole) == ("UNDETERMINED", True)
    assert "nothing unlawful is seen of it" in done.result.reason


def test_what_an_adapter_cannot_hear_every_time_is_not_waited_for() -> None:
    """Published loops give nobody the signal before the first hook of a turn."""
    abort, start = ("notify", "abort", "user"), ("append", "turn/start", 1)
    idle = ("notify", "agent/status", "idle")
    assert always_heard((abort, start, idle), ("signal/abort",)) == [start, idle]
    assert always_heard((abort, start, idle), ("agent/status",)) == [abort, start]
    assert always_heard((abort, start, idle), ()) == [abort, start, idle]


SEND = ("call", "send", 1, "next-turn", True)
RUNNING = (SEND, ("append", "agent/inbox/spliced", "next-turn", 0, 0, (1,), ""))


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (run_of(machine="tape"), "a run of the machine tape"),
        (run_of(*RUNNING, ("park", "gap"), SEND), "no gate holds the loop at gap"),
        (run_of(("call", "maintain"), ("note", "signal"), ("notify", "job"), SEND), "nobody outside hears"),
        (run_of(("call", "wake", False)), "no such operation"),
        (run_of(*RUNNING, ("park", "tools"), ("answer", ("tools",), ("throws",))), "play a run of the loop"),
        (
            run_of(SEND, ("park", "chunk", False), ("answer", ("chunk", False), ("end", "failure", False, False))),
            "a stream without a chunk",
        ),
        (run_of(("answer", "cap", "cap", 1), ("answer", "cap", "cap", 2), machine="loop"), "several sizes"),
    ],
)
def test_what_nobody_outside_can_do_is_named(run: Replay, words: str) -> None:
    with pytest.raises(Untranslatable, match=words):
        case_of(run)


def test_calls_inside_a_dispatch_are_reactions_and_refused_records_vetoes() -> None:
    case = case_of(run_of(*RUNNING, ("wait", "cancel", "user", False), ("refuse", "turn/start", 1)))
    react, veto = (case.program[at].model_dump(mode="json", exclude_defaults=True) for at in (3, -3))
    assert react["on"] == {"record": "agent/inbox/spliced", "agent": "a"}
    assert react["ops"] == [{"op": "cancel"}]
    assert veto == {"verb": "veto", "record": "turn/start"}


def test_the_command(tmp_path: Path) -> None:
    files = [str(TLA / "runs" / f"{name}.json") for name in ("MCLoop_lost_Witness", "MCLoop_opening_Unsafe")]
    done = CliRunner().invoke(
        main, ["conform", "replay", *files, "--adapter", "python-reference", "--keep", str(tmp_path)]
    )
    assert done.exit_code == 0, done.output
    first, second, third = done.output.splitlines()
    assert first == "PASS         MCLoop_lost_Witness: it follows the run: all 9 records and events"
    assert second.startswith("PASS         MCLoop_opening_Unsafe: it follows the run for 4 of 5")
    assert third == "  a run without check before turn"
    assert isinstance(load_case(tmp_path / "mcloop-lost-witness.json"), Case)
    (tmp_path / "x.json").write_text(json.dumps({"format": "loopspec-replay-1", "machine": "tape", "labels": []}))
    done = CliRunner().invoke(main, ["conform", "replay", str(tmp_path / "x.json")])
    assert (done.exit_code, done.output.split()[:2]) == (3, ["NOT", "PLAYED"])
