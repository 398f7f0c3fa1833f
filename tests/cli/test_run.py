"""`loopspec run`: the examples, what scripts can say, and files that are the same each time."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from loopconform.check import check_file
from loopconform.cli import main
from loopconform.stored import load_stored

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ["hello", "tools", "cancel-mid-stream", "retry", "retry-policy", "steer-and-queue", "crash", "resume", "files"]


def loopspec(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def played(folder: Path, script: str, *options: str) -> tuple[Result, list[dict[str, Any]]]:
    """Play a script text; the result and the rows of its file."""
    source, out = folder / "talk.yaml", folder / "talk.jsonl"
    source.write_text(script)
    result = loopspec("run", source, "--out", out, "--force", *options)
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    return result, rows


def of(rows: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """The data of all events of a type."""
    return [row["data"] for row in rows if row["type"] == kind]


def texts(rows: list[dict[str, Any]]) -> list[str]:
    """The texts of the user messages that entered history."""
    return [data["content"][0]["text"] for data in of(rows, "user/message")]


def ends(rows: list[dict[str, Any]]) -> list[str]:
    return [data["reason"]["kind"] for data in of(rows, "turn/end")]


# -- the examples ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All examples, played in a directory of their own."""
    folder = tmp_path_factory.mktemp("examples")
    shutil.copytree(EXAMPLES / "workspace", folder / "workspace")
    for name in NAMES:
        (folder / f"{name}.yaml").write_bytes((EXAMPLES / f"{name}.yaml").read_bytes())
        result = loopspec("run", folder / f"{name}.yaml", "--out", folder / f"{name}.jsonl")
        assert result.exit_code == 0, result.output
    return folder


def test_every_example_is_tested() -> None:
    """`composition` has tests of its own."""
    assert sorted([*NAMES, "composition"]) == sorted(path.stem for path in EXAMPLES.glob("*.yaml"))


@pytest.mark.parametrize("name", NAMES)
def test_an_example_writes_a_clean_log(written: Path, name: str) -> None:
    verdict = check_file(written / f"{name}.jsonl").verdict
    assert verdict == ("warnings" if name == "crash" else "clean")  # the crash leaves its turn open


@pytest.mark.parametrize("name", [name for name in NAMES if name != "resume"])
@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.zstd"])
def test_an_example_can_be_written_in_format_0(tmp_path: Path, name: str, suffix: str) -> None:
    out = tmp_path / f"{name}{suffix}"
    assert loopspec("run", EXAMPLES / f"{name}.yaml", "--format", 0, "--out", out).exit_code == 0
    report = check_file(out)
    assert report.version == 0
    assert report.verdict == ("warnings" if name == "crash" else "clean")


@pytest.mark.parametrize("profile", ["dsh-0.1", "dsh-0.1.7"])
@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("crash", "resume")])
def test_an_example_runs_under_every_law(tmp_path: Path, name: str, profile: str) -> None:
    """One example steers from inside the window of a record, which the published packages refuse (L-LOG-3)."""
    out = tmp_path / f"{name}.jsonl"
    result = loopspec("run", EXAMPLES / f"{name}.yaml", "--profile", profile, "--out", out)
    refused = "session append cannot reenter" in result.output
    assert (result.exit_code, refused) == ((1, True) if name == "steer-and-queue" else (0, False)), result.output


def rows_of(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]


def test_hello_is_written_row_by_row(written: Path) -> None:
    rows = rows_of(written, "hello")
    assert rows[0] == {
        "type": "session",
        "version": 4,
        "id": "hello",
        "createdAt": 1000,
        "isSeeded": False,
        "delegationDepth": 0,
    }
    assert [row["type"] for row in rows[1:]] == [
        "agent/inbox/spliced",
        "turn/start",
        "agent/inbox/spliced",
        "step/start",
        "system/message",
        "user/message",
        "request/header",
        "request/context",
        "assistant/message",
        "step/end",
        "turn/end",
    ]
    message = rows[9]
    assert list(message) == ["type", "seq", "time", "data", "surfaceOp"]
    assert message["data"]["message"]["content"] == [{"type": "text", "text": "Hello, world!"}]
    assert message["data"]["usage"] == {"inputTokens": 12, "outputTokens": 3}
    assert message["data"]["stream"][1]["texts"] == ["Hello", ", ", "world!"]
    assert [row["time"] for row in rows[1:9]] == list(range(1001, 1009))


def test_files_are_read_asked_about_and_summarised(written: Path) -> None:
    rows = rows_of(written, "files")
    codes = [data.get("error", {}).get("code", data["message"]["isError"]) for data in of(rows, "tool/result")]
    assert codes == [False, False, "OUTSIDE_ROOT", False, True, True]
    assert [data["outcome"] for data in of(rows, "approval/decided")] == ["allowed-once", "rejected"]
    assert [data.get("error") for data in of(rows, "compaction/end")] == [None]
    assert sorted(path.name for path in (written / "workspace").iterdir()) == ["log.txt", "notes.md"]
    assert (written / "workspace" / "notes.md").read_bytes() == (EXAMPLES / "workspace" / "notes.md").read_bytes()


def test_tools_run_fail_hand_in_and_conclude(written: Path) -> None:
    rows = rows_of(written, "tools")
    order = [row["data"].get("callId") or "result" for row in rows if row["type"] in ("tool/call", "tool/result")]
    assert order == ["call-1", "call-2", "result", "result", "call-3", "result", "call-4", "result"]
    assert [data.get("error", {}).get("code") for data in of(rows, "tool/result")] == [None, None, "READ_ONLY", None]
    assert texts(rows)[1:] == ["Files in /workspace are read-only today."]
    assert len(of(rows, "step/start")) == 3
    assert rows[0]["cwd"] == "/workspace"


def test_cancel_keeps_what_was_visible(written: Path) -> None:
    rows = rows_of(written, "cancel-mid-stream")
    cut, whole = of(rows, "assistant/message")
    assert cut["interrupted"] is True
    assert cut["message"]["content"] == [{"type": "text", "text": "Once upon a time, "}]
    assert ends(rows) == ["aborted", "completed"]
    assert texts(rows) == ["Tell me a story.", "Are you still there?"]
    assert whole["message"]["content"][0]["text"] == "Yes?"


def test_retries_are_counted_in_their_step(written: Path) -> None:
    rows = rows_of(written, "retry")
    assert [(data["retry"], data["failure"]["code"]) for data in of(rows, "llm/retry")] == [
        (1, "RATE_LIMIT"),
        (2, "TRANSPORT"),
    ]
    attempts = of(rows, "assistant/attempt")
    assert len(attempts) == 3
    assert [record.get("chunk", {}).get("type") for record in attempts[1]["stream"]] == ["block-start", None, "finish"]
    assert ends(rows) == ["completed", "error"]


def test_retries_end_with_their_budget(tmp_path: Path) -> None:
    script = """
answers: [{fail: a}, {fail: b}, never said]
listeners: {request-error: [{retry: 1}]}
steps: [{followup: x}]
"""
    result, rows = played(tmp_path, script)
    assert result.exit_code == 0
    assert "answers[3]: nobody asked for this answer" in result.output
    assert [data["failure"]["message"] for data in of(rows, "llm/retry")] == ["a"]
    assert of(rows, "turn/end")[0]["reason"]["error"]["message"] == "b"


def test_answers_that_ran_out_are_not_asked_for_again(tmp_path: Path) -> None:
    result, rows = played(tmp_path, "listeners: {request-error: [{retry: 2}]}\nsteps: [{followup: x}]\n")
    assert result.exit_code == 1
    assert "the script has no answer, but the model was asked once" in result.output
    assert of(rows, "llm/retry") == []


def test_steering_joins_at_the_next_step(written: Path) -> None:
    rows = rows_of(written, "steer-and-queue")
    steps: list[list[str]] = []
    for row in rows:
        if row["type"] == "step/start":
            steps.append([])
        elif row["type"] == "user/message":
            steps[-1].append(row["data"]["id"])
    assert steps == [["hint", "find"], ["short"], ["quick"], ["thanks-2"]]


def test_a_session_is_taken_up_where_the_crash_left_it(written: Path) -> None:
    before, after = (written / "crash.jsonl").read_bytes(), (written / "resume.jsonl").read_bytes()
    assert after.startswith(before)
    rows = rows_of(written, "resume")
    assert ends(rows) == ["interrupted", "completed"]
    assert texts(rows) == ["Build it.", "Go on.", "Then test it."]
    assert [data["reason"] for data in of(rows, "request/header")] == ["initial", "resume"]
    ids = [row["data"]["id"] for row in rows if row["type"] == "user/message"]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_script_gives_the_same_bytes(written: Path, name: str) -> None:
    result = CliRunner().invoke(main, ["run", str(written / f"{name}.yaml"), "--out", "-"])
    assert result.stdout_bytes == (written / f"{name}.jsonl").read_bytes()


# -- what a script can say -------------------------------------------------------------------------------------


def test_without_a_clock_time_is_real_and_ids_are_random(tmp_path: Path) -> None:
    script = "answers: [hi]\nsteps: [{followup: a}]\n"
    _, first = played(tmp_path, script)
    _, second = played(tmp_path, script)
    assert of(first, "user/message")[0]["id"] != of(second, "user/message")[0]["id"]
    assert first[0]["createdAt"] > 1_600_000_000_000


def test_a_zstd_file_has_one_frame_for_the_header_and_one_for_each_turn(tmp_path: Path) -> None:
    out = tmp_path / "two.jsonl.zstd"
    source = tmp_path / "two.yaml"
    source.write_text(
        "answers: [a, b]\nsteps: [{followup: x}, {wait: idle}, {followup: y}, {wait: idle}, {queue: z}]\n"
    )
    assert loopspec("run", source, "--out", out).exit_code == 0
    assert len(load_stored(out).events) == 20
    raw = out.read_bytes()
    assert raw.count(bytes.fromhex("28b52ffd04")) == 4  # header, two turns, the message that still waits


def test_reactions_run_inside_their_window(tmp_path: Path) -> None:
    script = """
answers: [a, b]
when:
  - record: user/message
    where: {id: second}
    do: [{cancel: {cause: hook, reason: enough, keep_inbox: true}}]
  - event: agent/status
    where: {status: idle}
    nth: 2
    do: [{queue: {text: later, id: later}}]
steps:
  - followup: {text: one, id: first}
  - wait: idle
  - followup: {text: two, id: second}
  - wait: idle
"""
    result, rows = played(tmp_path, script)
    assert result.exit_code == 0, result.output
    assert [data["reason"] for data in of(rows, "turn/end")] == [
        {"kind": "completed"},
        {"kind": "aborted", "reason": {"kind": "hook", "reason": "enough"}},
    ]
    assert rows[-1]["data"]["inserted"][0]["id"] == "later"


def test_listeners_reject_add_rewrite_and_stop_the_stopping(tmp_path: Path) -> None:
    script = """
answers: [a, b, c]
listeners:
  pre-step:
    - {turn: 1, reject: true}
    - {turn: 2, step: 1, add: [more]}
    - {turn: 3, rewrite: [other]}
  stopping:
    - {turn: 2, steer: last}
steps:
  - followup: one
  - wait: idle
  - followup: two
  - wait: idle
  - followup: three
"""
    result, rows = played(tmp_path, script)
    assert result.exit_code == 0, result.output
    assert ends(rows) == ["blocked", "completed", "completed"]
    assert texts(rows) == ["two", "more", "last", "other"]


def test_a_request_listener_changes_the_call(tmp_path: Path) -> None:
    script = """
model: {provider: p, name: m, context_window: 1000, default_max_tokens: 50, reasoning: {efforts: [low], default: low}}
answers: [a, b]
listeners:
  request:
    - {turn: 2, set: {temperature: 0.5, max_tokens: 9, stop: [x]}}
steps: [{followup: one}, {wait: idle}, {followup: two}]
"""
    result, rows = played(tmp_path, script)
    assert result.exit_code == 0, result.output
    first, second = [data["header"] for data in of(rows, "request/header")]
    assert first["config"] == {"provider": "p", "model": "m", "maxTokens": 50, "reasoningEffort": "low"}
    assert first["adapterDefaults"] == {"reasoningEffort": True, "maxTokens": True}
    assert second["config"]["maxTokens"] == 9
    assert (second["config"]["temperature"], second["config"]["stop"]) == (0.5, ["x"])
    assert of(rows, "request/context")[0]["contextWindow"] == 1000


def test_maintenance_has_the_log_for_itself(tmp_path: Path) -> None:
    script = """
answers: [hello]
steps:
  - maintenance: {gate: job, append: [{type: plan/mode, data: {active: true}}]}
  - followup: while it runs
  - wait: gate job
  - open: gate job
  - wait: idle
"""
    result, rows = played(tmp_path, script)
    assert result.exit_code == 0, result.output
    kinds = [row["type"] for row in rows]
    assert kinds.index("plan/mode") < kinds.index("turn/start")


def test_answers_can_be_raw_cut_short_and_think(tmp_path: Path) -> None:
    script = """
answers:
  - reasoning: Hm.
    text: [Be, fore]
    finish: max-tokens
    usage: {output: 7, reasoning: 3}
  - raw:
      - {type: block-start, index: 0, blockType: text}
      - {type: text-delta, index: 0, text: raw}
      - {gate: g}
      - {type: block-end, index: 0, block: {type: text, text: raw}}
      - {type: finish, reason: {kind: stop}}
steps: [{followup: one}, {wait: idle}, {followup: two}, {wait: gate g}, {open: gate g}]
"""
    result, rows = played(tmp_path, script)
    assert result.exit_code == 0, result.output
    assert ends(rows) == ["max-tokens", "completed"]
    first, second = of(rows, "assistant/message")
    assert [block["type"] for block in first["message"]["content"]] == ["reasoning", "text"]
    assert first["usage"] == {"inputTokens": 0, "outputTokens": 7, "reasoningTokens": 3}
    assert second["message"]["content"] == [{"type": "text", "text": "raw"}]


def test_the_inbox_is_changed_by_position_and_by_id(tmp_path: Path) -> None:
    script = """
steps:
  - queue: {text: a, id: a}
  - queue: {text: b, id: b}
  - splice: {target: next-turn, start: 1, remove: 1, insert: [{text: c, id: c}, {text: d, id: d}]}
  - remove: a
  - remove: nobody
"""
    result, rows = played(tmp_path, script)
    assert result.exit_code == 0
    assert "no message 'nobody' is pending" in result.output
    stored = load_stored(tmp_path / "talk.jsonl")
    assert [event["data"].get("removedCount") for event in stored.events] == [None, None, 1, 1]
    assert [message["id"] for message in rows[3]["data"]["inserted"]] == ["c", "d"]


def test_packing_of_chunks_can_be_switched_off(tmp_path: Path) -> None:
    script = "session_format: 0\nanswers: [{text: [a, b, c]}]\nsteps: [{followup: x}]\n"
    _, packed = played(tmp_path, script)
    _, plain = played(tmp_path, "pack_chunks: false\n" + script)
    assert len(of(packed, "text-chunks")) == 1
    assert len(of(plain, "text-chunks")) == 0
    assert len(of(plain, "assistant/chunk")) == len(of(packed, "assistant/chunk")) + 3


def test_show_follows_a_run(tmp_path: Path) -> None:
    result, _ = played(tmp_path, "answers: [hi]\nsteps: [{followup: one}]\n", "--show")
    assert "turn 1  completed" in result.output


def test_the_schema_is_printed_and_names_every_key() -> None:
    result = loopspec("run", "--schema")
    assert result.exit_code == 0
    schema = json.loads(result.output)
    script, composition = (schema["$defs"][one["$ref"].removeprefix("#/$defs/")] for one in schema["anyOf"])
    assert {"answers", "tools", "steps", "when", "listeners", "subagents"} <= set(script["properties"])
    assert {"agents", "plugins", "steps", "when"} <= set(composition["properties"])
    assert script["additionalProperties"] is composition["additionalProperties"] is False
    assert "pre-step" in schema["$defs"]["Listeners"]["properties"]
