"""Acceptance: real logs are runs of the loop; logs that no loop writes are refused at the row where it shows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.logs import corpus
from tests.logs.building import Builder, Rows, find, legal, render, text, tool_call

from loopconform.check import Options, Profile, check_file
from loopconform.reader import ReadRow, read
from loopconform.stored import load_stored
from loopspec import attempt, driver, inbox
from loopspec.log import acceptance, refusal
from loopspec.log.acceptance import Acceptance, law_of
from loopspec.log.migrate import migrate
from loopspec.log.oracle import DEPTHS, Oracle
from loopspec.log.refusal import GUARDS, Fixed, machine_with
from loopspec.log.rule import Violation

REAL = sorted(corpus.REAL.glob("*.jsonl"))
SNAPSHOTS = sorted((corpus.SHARED / "v4-snapshots").rglob("*.jsonl"))


def judged(rows: Rows, profile: str = "seed") -> list[Violation]:
    """What acceptance alone says of these rows."""
    run = Acceptance(rows[0], law_of(profile, 4 if rows[0]["version"] == 4 else 0))
    found: list[Violation] = []
    for line, row in enumerate(rows[1:], 2):
        found += run.event(row, line)
    return [*found, *run.finish()]


def stored(path: Path) -> Rows:
    """The rows of a file, packed ones as they are."""
    return [item.value for item in read(path) if isinstance(item, ReadRow) and item.value is not None]


def refusals(found: list[Violation]) -> list[int]:
    """The lines that acceptance refuses."""
    return [item.line for item in found if item.rule == "S-ACC-1"]


# -- what is accepted --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["seed", "dsh-0.1"])
def test_all_real_logs_are_runs(profile: str) -> None:
    assert len(REAL) == 24
    assert {path.name: judged(stored(path), profile) for path in REAL} == {path.name: [] for path in REAL}


@pytest.mark.skipif(not SNAPSHOTS, reason="the format 4 snapshots may not be copied and are not here")
@pytest.mark.parametrize("profile", ["seed", "dsh-0.1.7"])
def test_all_format_4_snapshots_are_runs(profile: str) -> None:
    assert {path: judged(stored(path), profile) for path in SNAPSHOTS} == {path: [] for path in SNAPSHOTS}


@pytest.mark.parametrize("version", [0, 4])
def test_made_logs_are_runs(version: int) -> None:
    assert judged(legal(version).rows) == []


def migrated(path: Path) -> Rows:
    """A real log as format 4: its loop let batches in before the request was prepared (S-MIG-2)."""
    old = load_stored(path)
    assert old.header is not None
    new = migrate(old.header, old.events)
    return [dict(new.header), *(dict(event) for event in new.events)]


@pytest.mark.parametrize("profile", ["seed", "dsh-0.1.7"])
def test_migrated_logs_are_runs(profile: str) -> None:
    assert {path.name: judged(migrated(path), profile) for path in REAL} == {path.name: [] for path in REAL}


@pytest.mark.parametrize("name", ["08-resume", "09b-crash-repaired", "18-wake-after-cancel"])
def test_a_migrated_log_may_end_with_what_waits(name: str) -> None:
    """Two laws may have written a migrated log. At its end each is asked once, and what came last is owed."""
    rows = migrated(corpus.REAL / f"{name}.jsonl")
    ends = [at for at, row in enumerate(rows, 1) if row.get("data", {}).get("inserted")]
    assert len(ends) > 1
    for at in ends:
        assert {item.rule for item in judged(rows[:at])} <= {"S-ACC-2", "S-ACC-3"}, at


def test_only_a_migrated_log_is_read_like_one() -> None:
    """Without the mark of a migration the order of format 0 is refused; with it, what no loop writes still is."""
    path = REAL[0]
    rows = migrated(path)
    header = next(line for line, row in enumerate(rows, 1) if row["type"] == "request/header")
    batch = next(line for line, row in enumerate(rows, 1) if row["type"] == "user/message")
    assert batch < header
    for row in rows:
        if row["type"] == "system/message":
            row["data"] = {**row["data"], "message": {**row["data"]["message"], "id": "another"}}
    assert refusals(judged(rows)) == [header]
    unclaimed = [row for row in migrated(path) if row["type"] != "user/message"]
    assert refusals(judged(unclaimed))


# -- what is refused, where, and why -----------------------------------------------------------------------------


class Refused(NamedTuple):
    """A log that no run writes: the line that shows it, words of the reason, and whether row rules see an error."""

    rows: Rows
    line: int
    words: tuple[str, ...]
    profile: str = "seed"


def log(version: int = 0) -> Builder:
    """One plain turn."""
    made = Builder(version)
    made.begin("Hello.", "u1")
    made.answer(text("Hi."))
    made.end()
    return made


def turn_without_cause() -> Refused:
    """Nobody sent anything, and yet a second turn opens (L-WAKE-1, L-TURN-14)."""
    made = log()
    made.add("turn/start", {"turn": 2})
    line = len(made.rows)
    made.add("turn/end", {"turn": 2, "reason": {"kind": "completed"}})
    return Refused(made.rows, line, ("turn/start", "`has_pending` answered no"))


def unclaimed_batch() -> Refused:
    """A turn opens with a prompt pending, and goes on without claiming it (L-IN-13)."""
    made = Builder(0)
    message = made.user("Hello.", "u1")
    made.queue(message)
    made.turn = 1
    made.add("turn/start", {"turn": 1})
    made.open_step()
    line = len(made.rows)
    return Refused(made.rows, line, ("step/start", "`claim_prompt`", "first of next-turn"))


def claims_in_wrong_order() -> Refused:
    """The prompt is claimed before what waits in next-step (L-IN-13)."""
    made = log()
    made.queue(made.user("Context.", "i1"), "next-step")
    made.queue(made.user("More.", "u2"))
    made.add("turn/start", {"turn": 2})
    made.claim("next-turn")
    line = len(made.rows)
    made.claim("next-step")
    return Refused(made.rows, line, ("claim of 1 from next-turn", "`claim`", "All of next-step leaves"))


def steering_left_behind() -> Refused:
    """A turn ends as completed over a message in next-step (L-TURN-2, L-TURN-12)."""
    made = Builder(0)
    made.begin("Hello.", "u1")
    made.queue(made.user("Wait.", "s1"), "next-step")
    made.answer(text("Hi."))
    made.close_step()
    made.add("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
    return Refused(made.rows, len(made.rows), ("turn/end completed", "`claim`"))


def turn_goes_on_after_abort() -> Refused:
    """An interrupted answer, and the turn claims steering for another step (L-TURN-3)."""
    made = Builder(0)
    made.begin("Hello.", "u1")
    made.queue(made.user("More.", "s1"), "next-step")
    at = made.answer(text("Hi."))
    made.rows[at + 1]["data"]["interrupted"] = True
    made.close_step()
    made.claim("next-step")
    line = len(made.rows)
    made.open_step()
    return Refused(made.rows, line, ("claim of 1 from next-step", "`end_turn`"))


def request_without_header() -> Refused:
    """The first request of a driver always writes its header (L-REQ-9)."""
    made = Builder(0)
    made.begin("Hello.", "u1")
    del made.rows[-2:]
    made.answer(text("Hi."))
    return Refused(made.rows, find(made.rows, "assistant/chunk") + 1, ("`header_is_due` answered yes",))


def owed_answer_is_dropped() -> Refused:
    """Tool results are owed an answer, and the turn ends as completed (L-TOOL-13)."""
    made = Builder(0)
    made.begin("Read.", "u1")
    made.answer(tool_call("c1"), finish="tool-calls")
    made.result("c1", made.call("c1"), is_error=True)
    made.end()
    return Refused(made.rows, len(made.rows), ("turn/end completed",))


def results_out_of_order(profile: str = "dsh-0.1") -> Refused:
    """Two parallel results in the wrong order (L-TOOL-6); a warning of the row rules for foreign logs."""
    made = legal(0)
    first = find(made.rows, "tool/result")
    one, two = made.rows[first], made.rows[first + 1]
    made.rows[first], made.rows[first + 1] = {**two, "seq": one["seq"]}, {**one, "seq": two["seq"]}
    calls = [row for row in made.rows if row["type"] == "tool/call"]
    assert [row["data"]["callId"] for row in calls] == ["c1", "c2"]
    return Refused(made.rows, first + 1, ("tool/result c2", "`record` (L-TOOL-6"), profile)


def foreign_row_where_nobody_can_write() -> Refused:
    """Between the opening of a turn and its claim there is no listener and no wait (0.4).

    Under the seed one thing could stand there: what a listener of an abort writes, when an observer of the record
    cancelled. Then the turn goes no further.
    """
    made = Builder(0)
    made.queue(made.user("Hello.", "u1"))
    made.add("turn/start", {"turn": 1})
    made.add("plan/mode", {"active": True})
    return Refused(made.rows, len(made.rows), ("plan/mode", "`claim_prompt`"), "dsh-0.1")


def prompt_is_claimed_later_in_the_turn() -> Refused:
    """Only the opening of a turn claims a prompt (L-TURN-2)."""
    made = Builder(0)
    made.begin("Hello.", "u1")
    made.queue(made.user("Next.", "u2"))
    made.answer(text("Hi."))
    made.close_step()
    made.claim("next-turn")
    return Refused(made.rows, len(made.rows), ("claim of 1 from next-turn",))


def restart_over_an_open_turn() -> Refused:
    """A session is taken up again without repair (S-REP-1); the row rules say it at the second turn."""
    made = Builder(0)
    made.begin("Hello.", "u1")
    made.add("session/end-seed", {})
    return Refused(made.rows, len(made.rows), ("taken up again while a turn is open",))


def failed_attempt_is_settled() -> Refused:
    """A failed stream leaves no anchor (L-STR-11)."""
    made = Builder(0)
    made.begin("Hello.", "u1")
    at = made.answer(text("Hi."), finish="error")
    made.rows[at]["data"]["chunk"]["reason"]["failure"] = {"message": "no", "code": "SERVER"}
    return Refused(made.rows, at + 2, ("assistant/message settled",))


REFUSED: dict[str, Callable[[], Refused]] = {
    make.__name__: make
    for make in (
        turn_without_cause,
        unclaimed_batch,
        claims_in_wrong_order,
        steering_left_behind,
        turn_goes_on_after_abort,
        request_without_header,
        owed_answer_is_dropped,
        results_out_of_order,
        foreign_row_where_nobody_can_write,
        prompt_is_claimed_later_in_the_turn,
        restart_over_an_open_turn,
        failed_attempt_is_settled,
    )
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    made = REFUSED[name]()
    found = judged(made.rows, made.profile)
    assert refusals(found) == [made.line], found
    (one,) = [item for item in found if item.rule == "S-ACC-1"]
    for words in made.words:
        assert words in one.reason, one.reason
    assert one.legal
    assert one.level == "E"


ROW_RULES_SEE = {"restart_over_an_open_turn", "failed_attempt_is_settled", "request_without_header"}


@pytest.mark.parametrize("name", [name for name in REFUSED if name not in ROW_RULES_SEE])
def test_row_rules_do_not_see_it(name: str, tmp_path: Path) -> None:
    """These are errors only because the loop is followed along the log."""
    made = REFUSED[name]()
    path = tmp_path / "log.jsonl"
    path.write_bytes(render(made.rows))
    profile: Profile = "dsh-0.1"
    alone = check_file(path, Options(profile, accept=False))
    assert not alone.count("E"), alone.findings
    both = check_file(path, Options(profile))
    assert [(item.rule, item.line) for item in both.findings if item.level == "E"] == [("S-ACC-1", made.line)]


def test_a_broken_row_is_left_to_the_row_rules(tmp_path: Path) -> None:
    """One fault, one finding: where a row rule has an error, acceptance is silent."""
    rows = turn_without_cause().rows
    rows[2]["data"]["turn"] = 7
    path = tmp_path / "log.jsonl"
    path.write_bytes(render(rows))
    assert "S-ACC-1" not in {item.rule for item in check_file(path).findings}


# -- what waits at the end ---------------------------------------------------------------------------------------


def exit_gap(target: Any = "next-turn") -> Rows:
    """K06 (b): a message comes in behind the end of the turn, and nothing follows."""
    made = log()
    made.queue(made.user("And this.", "m1"), target)
    return made.rows


def test_lost_wake_in_the_exit_gap() -> None:
    """Under the seed the gap latches; so nothing but a lost wake explains the idle agent (L-WAKE-10)."""
    rows = exit_gap()
    (one,) = judged(rows)
    assert (one.rule, one.level, one.line) == ("S-ACC-2", "W", len(rows))
    assert "'m1'" in one.reason


def test_parked_wake_in_the_exit_gap() -> None:
    """Published loops park it there: lawful, and still an open obligation."""
    rows = exit_gap()
    (one,) = judged(rows, "dsh-0.1")
    assert (one.rule, one.level, one.line) == ("S-ACC-3", "W", len(rows))
    assert "UNDETERMINED" in one.reason
    assert "L-WAKE-8 to L-WAKE-11" in one.reason


@pytest.mark.parametrize("profile", ["seed", "dsh-0.1"])
def test_a_prompt_to_a_new_agent_is_owed_a_turn(profile: str) -> None:
    """A driver that has never run has no exit gap: there every loop opens a turn in the same segment (L-SEND-6)."""
    made = Builder(0)
    made.queue(made.user("Hello.", "u1"))
    assert [item.rule for item in judged(made.rows, profile)] == ["S-ACC-2"]


@pytest.mark.parametrize("profile", ["seed", "dsh-0.1"])
def test_steer_or_inject_cannot_be_told(profile: str) -> None:
    (one,) = judged(exit_gap("next-step"), profile)
    assert (one.rule, one.level) == ("S-ACC-3", "W")
    assert "UNDETERMINED" in one.reason


def test_a_claimed_message_is_owed_nothing() -> None:
    """K06 (b) with its ping: both come through, and the log cannot show that one was late."""
    made = Builder(0)
    made.rows = exit_gap()
    made.turn = 1
    made.messages = 1
    made.queue(made.user("Ping.", "p1"), start=1)
    for number, message in enumerate(("And this.", "Ping."), 2):
        made.turn, made.step = number, 0
        made.add("turn/start", {"turn": number})
        made.claim()
        made.open_step()
        made.add("user/message", made.user(message, "m1" if number == 2 else "p1"), surfaceOp="append")
        made.answer(text("Yes."))
        made.end()
    assert judged(made.rows) == []
    assert judged(made.rows, "dsh-0.1") == []


def test_kept_input_is_parked_lawfully() -> None:
    """K02 (b): what a keeping cancel keeps waits for the next wake, under every law (L-WAKE-8)."""
    made = Builder(0)
    made.begin("Hello.", "u1")
    made.queue(made.user("Next.", "q1"))
    at = made.answer(text("Hi."))
    made.rows[at + 1]["data"]["interrupted"] = True
    made.end("aborted", reason={"kind": "user"})
    assert [item.rule for item in judged(made.rows)] == ["S-ACC-3"]


def test_a_run_that_ended_without_draining() -> None:
    """After a normal end whatever is pending goes on in the same run; only an unrecorded cancel excuses it."""
    made = Builder(0)
    made.begin("Hello.", "u1")
    queued = made.queue(made.user("Next.", "q1"))
    made.answer(text("Hi."))
    made.end()
    (one,) = judged(made.rows)
    assert (one.rule, one.line) == ("S-ACC-2", queued + 2)


def test_obligations_are_looked_at_before_a_restart() -> None:
    rows = exit_gap()
    line = len(rows)
    seq = len(rows) - 1
    rows.append({"type": "session/end-seed", "seq": seq, "time": 1001 + seq, "data": {}})
    # at the restart for the driver before it; at the end it may wait: what a restart restores wakes nobody (L-IN-18)
    assert [(item.rule, item.line) for item in judged(rows)] == [("S-ACC-2", line), ("S-ACC-3", line)]


def test_a_crash_is_owed_nothing() -> None:
    """In an open turn the end is a crash: S-LNT-54 speaks of it."""
    made = Builder(0)
    made.begin("Hello.", "u1")
    made.queue(made.user("Next.", "q1"))
    assert judged(made.rows) == []


# -- bounds ------------------------------------------------------------------------------------------------------


def test_a_bound_is_undecided_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from loopspec.log import oracle

    acceptance.automaton.cache_clear()
    monkeypatch.setattr(oracle, "POINT_LIMIT", 5)
    try:
        (one,) = judged(log().rows)
    finally:
        acceptance.automaton.cache_clear()
    assert (one.rule, one.level) == ("S-ACC-4", "U")
    assert "more than 5 configurations" in one.reason


def batch_of(count: int, skipped: int | None = None) -> Builder:
    """An answer of calls that run side by side; one of them is skipped, as only an abort does."""
    made = Builder(0)
    made.begin("Read.", "u1")
    names = [f"c{number}" for number in range(count)]
    made.answer(*(tool_call(name) for name in names), finish="tool-calls")
    calls = [made.call(name) for name in names]
    for at, (name, call) in enumerate(zip(names, calls, strict=True)):
        error: dict[str, Any] = (
            {"error": {"name": "AbortError", "code": "ABORTED_BEFORE_DISPATCH"}} if at == skipped else {}
        )
        made.result(name, call, **error)
    made.close_step()
    made.open_step()
    made.answer(text("Done."))
    made.end()
    return made


def test_a_large_batch_is_followed() -> None:
    """The scheduler's sets don't grow with the number of calls; a fault in the middle of the batch is seen."""
    assert judged(batch_of(12).rows) == []
    assert "S-ACC-1" in {found.rule for found in judged(batch_of(3, skipped=1).rows)}


def test_a_deep_queue_is_followed() -> None:
    """Sets stay small however much is pending."""
    made = Builder(0)
    made.begin("Hello.", "u1")
    for number in range(40):
        made.queue(made.user("More.", f"q{number}"), start=number)
    made.answer(text("Hi."))
    made.end()
    for number in range(40):
        made.turn, made.step = number + 2, 0
        made.add("turn/start", {"turn": made.turn})
        made.claim()
        made.open_step()
        made.add("user/message", made.user("More.", f"q{number}"), surfaceOp="append")
        made.answer(text("Yes."))
        made.end()
    assert judged(made.rows) == []


def test_what_one_log_was_searched_deeper_for_serves_the_next() -> None:
    """A row that takes calls within calls to explain: remembered as unexplained by few, it is searched deeper again."""
    acceptance.automaton.cache_clear()
    made = Builder(0)
    made.queue(made.user("Hello.", "u1"), start=0)
    made.turn, made.step = 1, 0
    made.add("turn/start", {"turn": 1})
    made.claim()
    made.open_step()
    made.queue(made.user("More.", "u2"), start=0)  # by a listener of the step, and by one of that record
    made.queue(made.user("More.", "u3"), start=1)
    made.add("user/message", made.user("Hello.", "u1"), surfaceOp="append")
    made.header("initial")
    made.add("request/context", {"provider": "mock", "model": "m"})
    made.answer(text("Hi."))
    made.end()
    assert [refusals(judged(made.rows)) for _ in range(3)] == [[], [], []]
    shallow = acceptance.automaton(law_of("seed", 0), DEPTHS[0])
    assert shallow.empty in shallow.table.values(), "a shallow search explains it, so this shows nothing"


# -- the law is the one that drives ------------------------------------------------------------------------------


def _sets(rows: Rows, machine: Any) -> Iterator[tuple[Oracle, Any, Any]]:
    """The sets along a log, with the machine given."""
    from loopspec.log.observation import Course

    course = Course(rows[0])
    oracle = Oracle(law_of("seed", 0), machine)
    points: Any = frozenset((oracle.first(),))
    for row in rows[1:]:
        seen = course.observe(row)
        yield oracle, points, seen
        points = oracle.successors(points, seen)
    yield oracle, points, None


@pytest.mark.parametrize(
    ("guard", "answer", "name"),
    [
        ("has_pending", True, "turn_without_cause"),
        ("header_is_due", False, "request_without_header"),
    ],
)
def test_without_its_guard_the_log_passes(guard: str, answer: bool, name: str) -> None:
    """Deleting a guard of the driver changes what acceptance says."""
    rows = REFUSED[name]().rows[: REFUSED[name]().line]
    *_, (_, kept, _) = _sets(rows, driver.MACHINE)
    *_, (_, loosened, _) = _sets(rows, machine_with(Fixed(guard, answer)))
    assert not kept
    assert loosened


def test_without_the_closing_latch_no_wake_is_lost() -> None:
    """The same for what is said at the end: a driver that forgets wakes in the gap parks them lawfully."""
    *_, (kept, points, _) = _sets(exit_gap(), driver.MACHINE)
    assert all(point.silent or point.unseen for point in kept.at_rest(points))
    *_, (forgetful, points, _) = _sets(exit_gap(), machine_with(Fixed("latches", False)))
    assert any(not point.silent and not point.unseen for point in forgetful.at_rest(points))


def test_every_named_guard_is_one_with_a_sentence() -> None:
    for name in GUARDS:
        assert any(inspect.isfunction(vars(module).get(name)) for module in (inbox, attempt, driver)), name
        assert Fixed(name, True).sentence


def test_fixing_a_guard_leaves_the_machine_alone() -> None:
    before = dict(driver.rules)
    machine_with(Fixed("aborted", True))
    assert driver.rules == before
    assert not attempt.aborted(driver.initial(law_of("seed", 0)).core)
    assert refusal.rule_sentence("claim").startswith("L-IN-13 (a)")
