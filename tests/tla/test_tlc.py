"""TLC is believed on what it says, and never on its exit code alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.tla.toys import TOY

from loopconform.tla import run as command
from loopconform.tla.instances import (
    BadInstance,
    Instance,
    faults_of,
    instance,
    manifest,
    properties_of,
    verdict_faults,
)
from loopconform.tla.story import labels_of, mermaid, replay, told
from loopconform.tla.tlc import Run, Stopped, read_run, run


def message(code: int, text: str, kind: int = 0) -> str:
    """One message of TLC in its `-tool` mode."""
    return f"@!@!@STARTMSG {code}:{kind} @!@!@\n{text}\n@!@!@ENDMSG {code} @!@!@\n"


COUNTS = message(2199, "16 states generated, 10 distinct states found, 0 states left on queue.")
DONE = message(2193, "Model checking completed. No error has been found.")
DEPTH = message(2194, "The depth of the complete state graph search is 5.")
BROKEN = message(2110, "Invariant Short is violated.", 1)
TRACE = message(2217, "1: <Initial predicate>\n/\\ label = <<>>\n/\\ queue = <<>>\n", 4) + message(
    2217, '2: <Send line 12, col 3 to line 15 of module Toy>\n/\\ label = <<"call", "send">>\n/\\ queue = <<1>>\n', 4
)


def one(expect: str = "pass", target: str = "", text: str = "") -> Instance:
    """An instance that nobody runs; `text` is its file."""
    return Instance(Path("X.cfg"), "X", "quick", expect, target, False, "1g", "")


def test_a_clean_run() -> None:
    done = read_run(DONE + COUNTS + DEPTH, 0)
    assert done.clean
    assert (done.generated, done.distinct, done.left, done.depth) == (16, 10, 0, 5)
    assert list(verdict_faults(one(), done)) == []


@pytest.mark.parametrize(
    ("output", "code"),
    [
        (BROKEN + TRACE + DONE + COUNTS + DEPTH, 0),  # -continue over violations
        (COUNTS + DEPTH, 0),  # stopped half-way without the message
        (DONE + message(2199, "9 states generated, 5 distinct states found, 3 states left on queue.") + DEPTH, 0),
        (DONE + COUNTS + DEPTH, 1),
        (DONE + DEPTH, 0),  # no counts
        (message(2103, "TLC threw an unexpected exception.", 1) + DONE + COUNTS, 0),
        ("Error: Could not find or load main class", 1),
        ("", 0),
    ],
)
def test_exit_code_zero_is_not_enough(output: str, code: int) -> None:
    done = read_run(output, code)
    assert not done.clean
    assert list(verdict_faults(one(), done))


def test_the_expected_property_and_no_other() -> None:
    done = read_run(BROKEN + TRACE + COUNTS, 12)
    assert done.violated == "Short"
    assert list(verdict_faults(one("violates", "Short"), done)) == []
    assert list(verdict_faults(one("violates", "Long"), done)) == ["Short is violated, and not Long"]
    assert list(verdict_faults(one(), done)) == ["Short is violated, after 1 moves"]
    clean = read_run(DONE + COUNTS + DEPTH, 0)
    assert list(verdict_faults(one("reaches", "Short"), clean)) == ["nothing was found, but Short must be violated"]


def test_every_count_is_held_against_the_manifest() -> None:
    done = read_run(DONE + COUNTS + DEPTH, 0)
    pins = {"module": "X", "tier": "quick", "verdict": "pass", "distinct": 10, "generated": 16, "depth": 5}
    assert list(faults_of(one(), done, pins)) == []
    for name in ("distinct", "generated", "depth", "verdict"):
        assert len(list(faults_of(one(), done, {**pins, name: 11}))) == 1
        assert list(faults_of(one(), done, {key: value for key, value in pins.items() if key != name}))
    assert list(faults_of(one(), done, None)) == ["its counts are not in the manifest: run it with --record"]


def test_traces_are_told_drawn_and_replayed() -> None:
    done = read_run(BROKEN + TRACE + message(2218, "3: Stuttering") + COUNTS, 12)
    assert [state.action for state in done.trace] == ["", "Send"]
    assert labels_of(done) == [("call", "send")]
    assert done.stutters
    assert "1 call send\n        queue = <<1>>\n      and there it stays for ever" in told(done)
    assert mermaid([("append", "turn/start", 1), ("note", "signal")]).splitlines()[-2:] == [
        "  M->>L: append turn/start 1",
        "  Note over M: note signal",
    ]
    assert '"machine": "toy"' in replay("toy", labels_of(done))


def test_heads(tmp_path: Path) -> None:
    file = tmp_path / "X_a_Unsafe.cfg"
    file.write_text("\\* expect: pass\nSPECIFICATION Spec\n")
    with pytest.raises(BadInstance, match=r"must say `.. expect: violates NAME`"):
        instance(file)
    file.write_text("\\* expect: fails\n")
    with pytest.raises(BadInstance, match="the head must say"):
        instance(file)
    file.write_text("\\* expect: violates P\n\\* tier: slow\n")
    with pytest.raises(BadInstance, match="it is quick or deep"):
        instance(file)
    file.write_text("\\* expect: violates P\n\\* module: MCX\n\\* tier: deep\nINVARIANT P\n\\* tier: quick\n")
    assert (instance(file).module, instance(file).tier, instance(file).target) == ("MCX", "deep", "P")
    with pytest.raises(BadInstance, match="is not there"):
        instance(tmp_path / "missing.cfg")
    assert properties_of("CONSTANTS A = 1\nPROPERTIES\n P Q \\* R\nINVARIANT I\nPROPERTY S") == ["P", "Q", "S"]


# -- with TLC --------------------------------------------------------------------------------------------------


@pytest.mark.tlc
@pytest.mark.parametrize("name", sorted(manifest(TOY)))
def test_every_kind_of_verdict(name: str) -> None:
    chosen = instance(TOY / f"{name}.cfg")
    done = command.check(chosen)
    assert list(faults_of(chosen, done, manifest(TOY)[name])) == []


@pytest.mark.tlc
def test_a_green_exit_code_over_violations_is_not_green() -> None:
    """TLC is told to continue over violations of an invariant; it finishes, and exits with 0."""
    done = run(TOY / "Toy.tla", TOY / "Toy_three_Witness.cfg", options=["-continue"])
    assert done.exit_code == 0
    assert done.finished
    assert not done.clean
    assert done.violated == "NeverThree"


@pytest.mark.tlc
def test_a_run_without_end_is_stopped() -> None:
    with pytest.raises(Stopped, match="did not finish within"):
        run(TOY / "Toy.tla", TOY / "MCToy_pass.cfg", timeout=0.2)


@pytest.mark.tlc
def test_the_command_says_what_is_wrong() -> None:
    """A witness that is not reached, and a model that does not parse."""
    result = CliRunner().invoke(command.main, [str(TOY / "Toy_four_Witness.cfg")])
    assert result.exit_code == 1
    assert "nothing was found, but NeverFour must be violated" in result.output


@pytest.mark.tlc
def test_a_model_that_does_not_parse(tmp_path: Path) -> None:
    (tmp_path / "Bad.tla").write_text("---- MODULE Bad ----\nNext == (\n====\n")
    (tmp_path / "Bad.cfg").write_text("\\* module: Bad\nNEXT Next\nINIT Next\n")
    result = CliRunner().invoke(command.main, [str(tmp_path / "Bad.cfg")])
    assert result.exit_code == 1
    assert "TLC could not judge it" in result.output


def test_nothing_to_run_is_wrong_usage(tmp_path: Path) -> None:
    assert CliRunner().invoke(command.main, []).exit_code == 2
    assert CliRunner().invoke(command.main, [str(tmp_path / "no.cfg")]).exit_code == 2


def test_a_run_of_nothing() -> None:
    assert Run(0, (), 0.0).broken
