"""The hand-written cases on the reference harness: green by its own law, on both event loops, with one trace."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conformance.recorded import HAND, Studio, windows

from loopconform.protocol.case import Case, load_cases
from loopconform.runner.channel import opener
from loopconform.runner.suite import play_all

CASES = list(load_cases([HAND]))
DIVERGENT = {
    "cancel/note-observer": ("L-CAN-6", 7),
    "cancel/overtaken-by-an-empty-step": ("L-TURN-4", 8),
    "cancel/queued-behind-the-verdict": ("L-TURN-4", 7),
    "cancel/record-observer": ("L-CAN-6", 6),
    "creation/disposed-while-its-first-turn-runs": ("N-1", 5),
    "creation/wake-in-created": ("N-1", 5),
    "creation/wake-behind-an-abort": ("N-1", 3),
    "creation/wake-behind-the-cancel": ("N-1", 3),
    "resume/by-hand/fresh-and-resume-both-fail": ("C-RES-8", 5),
    "resume/by-hand/fresh-behind-resume": ("C-RES-8", 5),
    "resume/by-hand/fresh-beside-load": ("C-RES-8", 5),
    "resume/by-hand/fresh-beside-resume": ("C-RES-8", 5),
    "resume/by-hand/fresh-on-stored": ("C-RES-9", 3),
    "resume/by-hand/fresh-on-stored-setup": ("C-RES-9", 3),
    "teardown/append-behind-its-own-end": ("C-TDN-2", 7),
    "teardown/owner-of-a-disposed-agent": ("INV-20", 6),
    "turn/woken-by-the-error-of-a-refused-end": ("L-PH-3", 6),
    "turn/woken-by-the-error-of-a-refused-opening": ("L-PH-3", 6),
    "wake/error-listener": ("L-PH-3", 6),
    "wake/kept-behind-a-note": ("L-SEND-9", 5),
    "wake/kept-behind-an-answer": ("L-SEND-9", 6),
    "wake/sent-twice-from-a-record": ("L-SEND-9", 5),
}
"""Cases in which the published law differs: the clause that is named, and how short the program must get."""
OPEN = (
    "cancel/overtaken-by-an-empty-step",
    "cancel/queued-behind-the-verdict",
    "resume/by-hand/unsettled-crash",
)
"""Cases of which the law allows several traces: how many ticks an answer takes, and how much a crash has left, is
nobody's promise."""


@pytest.fixture(scope="module")
def studios() -> Iterator[tuple[Studio, Studio]]:
    pair = Studio("asyncio"), Studio("trio")
    yield pair
    for studio in pair:
        studio.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_reference_passes_on_both_event_loops_with_one_trace(studios: tuple[Studio, Studio], case: Case) -> None:
    for profile in case.profiles:
        traces = []
        for studio in studios:
            result, run = studio.record(case, profile)
            assert result.verdict == "PASS", result
            traces.append(windows(run))
        assert traces[0] == traces[1] or case.id in OPEN


def test_another_law_is_found_out_with_its_clause_and_a_short_program() -> None:
    """The reference under the published law, judged by the recommended one: just the known divergences are red."""
    known = [(case, "seed") for case in CASES if "dsh-0.1" in case.profiles]
    run = play_all(opener("python-reference:dsh-0.1"), known)
    red = {result.case.id: result for result in run.results if result.verdict != "PASS"}
    assert {result.verdict for result in red.values()} == {"FAIL"}
    assert red.keys() == DIVERGENT.keys()
    for id, (clause, length) in DIVERGENT.items():
        fault, shrunk = red[id].fault, red[id].shrunk
        assert fault is not None
        assert shrunk is not None
        assert clause in fault.clause
        assert len(shrunk.program) <= length + 1, "and the settle behind the last request"


TOLD = """
import sys
from pathlib import Path
from loopconform.protocol.case import load_cases
from loopconform.runner.channel import opener
from loopconform.runner.suite import play_all
cases = [(case, "seed") for case in load_cases([Path(sys.argv[1])])]
run = play_all(opener("python-reference:dsh-0.1"), cases, shrink=False)
print([(result.fault.clause, result.fault.reason, result.fault.legal) for result in run.results])
"""


def test_a_fault_is_told_in_the_same_words_every_time() -> None:
    """Of several explanations that end here, the same ones are named, whatever the order of sets is."""
    program = [sys.executable, "-c", TOLD, str(HAND / "teardown" / "append-behind-its-own-end.json")]
    told = {
        subprocess.run(program, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True).stdout
        for seed in ("1", "2", "3")
    }
    assert len(told) == 1
    assert b"C-TDN-2" in told.pop()


def test_the_adapter_over_stdio_says_the_same() -> None:
    """`conformance/adapters/python-reference`, as a process."""
    cases = [case for case in CASES if case.id.startswith("smoke/")]
    run = play_all(opener(str(Path("conformance/adapters/python-reference"))), [(case, "seed") for case in cases])
    assert [result.verdict for result in run.results] == ["PASS"] * 5
    assert run.exit_code() == 0
