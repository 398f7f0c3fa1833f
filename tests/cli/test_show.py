"""`loopspec show`: what it tells of a log, and that no log can trouble it or the terminal."""

from __future__ import annotations

import io
import json
import random
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from loopconform.cli import main
from loopconform.show.render import print_line
from loopconform.show.requests import Unprovable, request_lines
from loopconform.show.story import Line, story
from loopconform.stored import load_stored

EXAMPLES = Path(__file__).parents[2] / "examples"
LOGS = Path(__file__).parents[1] / "logs"
REAL = sorted((LOGS / "upstream-rc8").glob("*.jsonl"))


def loopspec(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def played(folder: Path, script: str) -> Path:
    source, out = folder / "talk.yaml", folder / "talk.jsonl"
    source.write_text(script)
    result = loopspec("run", source, "--out", out, "--force")
    assert out.exists(), result.output
    return out


def example(folder: Path, name: str) -> Path:
    out = folder / f"{name}.jsonl"
    assert loopspec("run", EXAMPLES / f"{name}.yaml", "--out", out).exit_code == 0
    return out


def told(path: Path, *options: object) -> list[str]:
    """The lines that `show` prints, without guides and margins."""
    result = loopspec("show", path, *options)
    return [re.sub(r"^[\s│├└─#0-9]*(?=[^\s│├└─#0-9])", "", line) for line in result.output.splitlines()]


# -- the story -------------------------------------------------------------------------------------------------


def test_a_conversation_is_told_in_order(tmp_path: Path) -> None:
    assert loopspec("show", example(tmp_path, "tools"), "--turn", 1).output.splitlines()[2:] == [
        "    1 turn 1  completed  · 3 steps, 53 ms",
        "    2 ├─ claimed  id-1 “Compare a.txt and b.txt, and merge them.”  · from next-turn",
        "    3 ├─ step 1",
        "    4 │  ├─ system  You are a careful assistant.",
        "    5 │  ├─ user  Compare a.txt and b.txt, and merge them.  · id-1",
        "    6 │  ├─ request  mock/m1, tools finish, read, write  · initial",
        "    7 │  ├─ context  mock/m1",
        "    8 │  ├─ assistant  (thinking: I should look at both files first.) Let me read them. [calls read, read]"
        "  · 14 chunks, 13 ms, 120 in,",
        "      │  │     40 out, 0 cached tokens",
        '    9 │  ├─ tool read  {"path":"a.txt"}  · call-1',
        "   11 │  │  └─ result  The quick brown fox jumps over the lazy dog.",
        '   10 │  └─ tool read  {"path":"b.txt"}  · call-2',
        "   12 │     └─ result  The quick brown fox jumps over the lazy dog.",
        "   14 ├─ step 2",
        "   15 │  ├─ assistant  [calls write]  · 5 chunks, 4 ms, 210 in, 22 out, 120 cached tokens",
        '   16 │  ├─ tool write  {"path":"a.txt","text":"…"}  · call-3',
        "   17 │  │  └─ error  Error: a.txt is read-only  · READ_ONLY",
        "   18 │  └─ queued  id-7 “Files in /workspace are read-only today.”  · in next-step",
        "   20 ├─ claimed  id-7 “Files in /workspace are read-only today.”  · from next-step",
        "   21 └─ step 3",
        "   22    ├─ user  Files in /workspace are read-only today.  · id-7 from plugin:script",
        "   23    ├─ assistant  Then I leave it as it is. [calls finish]  · 8 chunks, 7 ms, 260 in, 18 out, "
        "210 cached tokens",
        "   24    └─ tool finish  {}  · call-4",
        '   25       └─ result  {"done":true}',
    ]


def test_ends_attempts_and_retries_are_told(tmp_path: Path) -> None:
    lines = told(example(tmp_path, "retry"))
    assert "turn 2  error: INVALID_REQUEST: no such model (400)  · 1 step, 7 ms" in lines
    assert "attempt  RATE_LIMIT: slow down (429)  · 1 chunk, 0 ms" in lines
    assert "partial  The answer is  · never shown to the model" in lines
    assert "retry  2 of 2 in 0 ms  · TRANSPORT: connection lost" in lines
    cancelled = told(example(tmp_path, "cancel-mid-stream"))
    assert any(line.startswith("turn 1  aborted by user") for line in cancelled)
    assert any(line.startswith("cut off  Once upon a time,") for line in cancelled)
    assert "discarded  queued “And another one.”  · from next-turn" in cancelled


@pytest.mark.parametrize(
    ("listener", "why"),
    [
        ("{turn: 1, reject: true}", "claimed, the turn was rejected"),
        ("{turn: 1, rewrite: [other]}", "claimed, but it never entered a step"),
    ],
)
def test_messages_that_were_claimed_and_lost_are_listed(tmp_path: Path, listener: str, why: str) -> None:
    first = "{inject: {text: a hint, id: hint}}, {followup: {text: hello, id: hello}}"
    steps = f"[{first}, {{wait: idle}}, {{followup: again}}]"
    log = played(tmp_path, f"answers: [a, b]\nlisteners: {{pre-step: [{listener}]}}\nsteps: {steps}\n")
    lost = [line for line in told(log) if line.startswith("lost")]
    assert lost == [f"lost  hint “a hint”  · {why}", f"lost  hello “hello”  · {why}"]


def test_nothing_is_lost_in_a_turn_that_took_everything(tmp_path: Path) -> None:
    assert not [line for line in told(example(tmp_path, "steer-and-queue")) if line.startswith("lost")]


def test_what_still_waits_is_listed_at_the_end(tmp_path: Path) -> None:
    lines = told(example(tmp_path, "crash"))
    assert "turn 1  open: the log ends here" in lines
    at = lines.index("pending  next-turn: 1 message at the end of the log")
    assert lines[at + 1] == "test “Then test it.”"


def test_a_compaction_is_a_bracket_with_its_summary() -> None:
    lines = [
        line for line in told(LOGS / "upstream-rc8" / "12-compaction.jsonl") if re.match("compaction|summary", line)
    ]
    assert lines[0].startswith("compaction")
    assert lines[1] == "summary  Short summary of the earlier conversation.  · for 3 nodes, 484 tokens"


def test_format_0_chunks_are_summed_up() -> None:
    lines = told(LOGS / "upstream-rc8" / "06-error-and-retry.jsonl")
    assert any(line.startswith("attempt  1 chunk, 0 ms  · RATE_LIMIT: too many requests (429)") for line in lines)
    assert sum(line.startswith("stream") for line in lines) >= 1


def test_long_texts_are_cut_with_a_note(tmp_path: Path) -> None:
    log = played(tmp_path, f"answers: [ok]\nsteps: [{{followup: {'word ' * 2000}}}]\n")
    text = " ".join(told(log))
    assert "(+9,759 characters)" in text
    assert text.count("word") < 200
    assert json.dumps("word " * 1999 + "word") in loopspec("show", log, "--raw").output


def test_the_raw_rows_are_those_of_the_log(tmp_path: Path) -> None:
    log = example(tmp_path, "hello")
    rows = [line for line in loopspec("show", log, "--raw").output.splitlines() if line.startswith("{")]
    assert sorted(map(json.loads, rows), key=lambda row: row["seq"]) == [
        json.loads(line) for line in log.read_text().splitlines()[1:]
    ]


def test_control_characters_never_reach_the_terminal(tmp_path: Path) -> None:
    evil = r"\x1b[31mred\x07\u202e\x9b2J"
    script = f'session: "s{evil}"\nanswers: ["{evil}"]\nsteps: [{{followup: "{evil}"}}]\n'
    for options in ([], ["--raw"], ["--requests"]):
        output = loopspec("show", played(tmp_path, script), *options).output
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", output)
        assert r"\x1b[31mred" in output


def test_only_what_matters_less_is_dim(tmp_path: Path) -> None:
    """The guides are dim; the words of the conversation are not."""
    screen = io.StringIO()
    stored = load_stored(example(tmp_path, "hello"))
    for line in story(stored.header or {}, stored.events):
        print_line(line, Console(file=screen, width=80, force_terminal=True, color_system="standard"))
    user = next(row for row in screen.getvalue().splitlines() if "user" in row)
    assert user == ("\x1b[2m    5    ├─ \x1b[0m\x1b[1;36muser\x1b[0m  Please say hello.\x1b[2m  · id-1\x1b[0m")
    plain = loopspec("show", tmp_path / "hello.jsonl", "--no-color").output
    assert "\x1b" not in plain


def test_one_turn_can_be_chosen(tmp_path: Path) -> None:
    log = example(tmp_path, "retry")
    assert [line[:6] for line in told(log, "--turn", 2) if line.startswith("turn")] == ["turn 2"]
    missing = loopspec("show", log, "--turn", 7)
    assert missing.exit_code == 2
    assert "There is no turn 7 in this log; it has turns 1 to 2." in missing.output


# -- the requests ----------------------------------------------------------------------------------------------


def test_requests_say_what_is_shared_and_what_is_new(tmp_path: Path) -> None:
    lines = told(example(tmp_path, "tools"), "--requests")
    assert [line for line in lines if line.startswith(("request", "prefix"))] == [
        "request 1  mock/m1, 2 messages  · turn 1, step 1",
        "request 2  mock/m1, 5 messages  · turn 1, step 2",
        "prefix  the first 2 messages as in the request before, 3 new",
        "request 3  mock/m1, 8 messages  · turn 1, step 3",
        "prefix  the first 5 messages as in the request before, 3 new",
    ]
    assert "tools  finish, read, write" in lines
    assert 'call  write({"path":"a.txt","text":"…"})' in lines


def test_a_compaction_breaks_the_prefix_and_a_new_model_shows() -> None:
    lines = told(LOGS / "upstream-rc8" / "12-compaction.jsonl", "--requests")
    assert any("of the request before gone or changed" in line for line in lines)
    changed = told(LOGS / "upstream-rc8" / "20-header-change-mid-session.jsonl", "--requests")
    assert any(line.endswith("· changed") for line in changed)


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_every_captured_request_of_a_real_log_is_told(path: Path) -> None:
    capture = path.with_suffix(".requests.json")
    captured = json.loads(capture.read_bytes()) if capture.exists() else []
    wanted = [request for request in captured if "purpose" not in request]
    stored = load_stored(path)
    assert stored.header is not None
    lines = list(request_lines(stored.header, stored.events))
    tail = [line.text.split(", ")[1].split()[0] for line in lines][-len(wanted) :] if wanted else []
    assert tail == [str(len(request["messages"])) for request in wanted][-len(tail) :]
    if len(lines) == len(wanted):
        prefixes = [line.children[0].text.split(" as in ")[0] for line in lines[1:]]
        assert prefixes == [shared_words(one["messages"], two["messages"]) for one, two in pairwise(wanted)]


def shared_words(one: list[Any], two: list[Any]) -> str:
    """How many leading messages are equal, in words."""
    number = next((at for at, pair in enumerate(zip(one, two, strict=False)) if pair[0] != pair[1]), len(one))
    return "no message" if not number else "the first message" if number == 1 else f"the first {number} messages"


# -- broken logs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.zstd"])
def test_a_log_cut_at_any_byte_shows_what_survives_and_ends_as_check_does(tmp_path: Path, suffix: str) -> None:
    whole = tmp_path / f"whole{suffix}"
    assert loopspec("run", EXAMPLES / "hello.yaml", "--out", whole).exit_code == 0
    content = whole.read_bytes()
    path = tmp_path / f"cut{suffix}"
    codes: set[int] = set()
    rows = 0
    for size in range(len(content) + 1):
        path.write_bytes(content[:size])
        stored = load_stored(path)
        assert len(stored.events) == stored.report.rows, size
        assert len(stored.events) >= rows or suffix != ".jsonl"
        rows = len(stored.events)
        if size % 31 == 0 or size > len(content) - 3:
            shown, checked = loopspec("show", path), loopspec("check", path)
            assert shown.exit_code == checked.exit_code, size
            assert stored.header is None or shown.output.startswith("session hello")
            codes.add(shown.exit_code)
    assert codes == {0, 1}
    assert rows == 11


def test_rows_behind_a_gap_are_not_shown(tmp_path: Path) -> None:
    lines = example(tmp_path, "hello").read_bytes().splitlines(keepends=True)
    broken = tmp_path / "gap.jsonl"
    broken.write_bytes(b"".join(lines[:5] + lines[6:]))
    result = loopspec("show", broken)
    assert result.exit_code == 1
    assert "step 1" in result.output
    assert "Hello, world!" not in result.output
    assert "gap.jsonl:6" in result.output


JUNK: list[Any] = [None, True, 0, -1, 1.5, "", "x\x1b[31m", [], {}, [[]], {"a": [{}]}, 10**15, ["x"], "turn/start"]


def mutated(value: Any, rng: random.Random) -> Any:
    """The value with something in it replaced by junk, or left out."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        rest = {name: item for name, item in value.items() if name != key}
        return rest if rng.random() < 0.1 else {**value, key: mutated(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        return [*value[:at], mutated(value[at], rng), *value[at + 1 :]]
    return rng.choice(JUNK)


def all_lines(header: dict[str, Any], events: list[Any]) -> Iterator[Line]:
    yield from story(header, events)
    try:
        yield from request_lines(header, events)
    except Unprovable:
        return


@pytest.mark.parametrize("seed", range(40))
def test_no_junk_stops_the_story_or_reaches_the_terminal(seed: int) -> None:
    """Bounded: five logs for each seed, up to five junk values in each. Not a proof."""
    rng = random.Random(seed)
    for path in rng.sample(REAL, 5):
        stored = load_stored(path)
        assert stored.header is not None
        events: list[Any] = list(stored.events)
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(events))
            data = mutated(events[at]["data"], rng)
            events[at] = {**events[at], "data": data if isinstance(data, dict) else {}}
            if rng.random() < 0.2:
                events[at]["type"] = rng.choice(events)["type"]
        header = mutated(stored.header, rng)
        screen = io.StringIO()
        for line in all_lines(header if isinstance(header, dict) else {}, events):
            print_line(line, Console(file=screen, width=80), raw=rng.random() < 0.2)
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", screen.getvalue())
