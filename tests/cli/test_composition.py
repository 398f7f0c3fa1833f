"""`loopspec run` with a composition: agents, plugins, steps with names, and what is refused before anything starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from tests.cli.test_run import EXAMPLES, ends, loopspec, of, texts

from loopconform.check import check_file
from loopconform.exit_codes import Exit

Rows = dict[str, list[dict[str, Any]]]
TWO = "agents: [{id: one, sessionId: s1}, {id: two, sessionId: s2}]"


def composed(folder: Path, text: str, *options: str) -> tuple[Result, Rows]:
    """Play a composition; the result, and the rows of each session by its file's name."""
    source, out = folder / "play.yaml", folder / "out"
    source.write_text(text)
    result = loopspec("run", source, "--out", out, *options)
    files = sorted(out.glob("*.jsonl")) if out.is_dir() else []
    return result, {path.stem: [json.loads(line) for line in path.read_text().splitlines()] for path in files}


@contextmanager
def mock_model() -> Iterator[str]:
    """A model server in a process of its own; its URL."""
    script = str(EXAMPLES / "mock" / "hello.yaml")
    command = (sys.executable, "-c", "from loopconform.cli import main; main()", "mock-model", script)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def said(result: Result) -> str:
    return " ".join(result.output.split())


# -- what it can do ------------------------------------------------------------------------------------------------


def test_the_example(tmp_path: Path) -> None:
    out = tmp_path / "together"
    result = loopspec("run", EXAMPLES / "composition.yaml", "--out", out)
    assert result.exit_code == 0, result.output
    names = sorted(path.name for path in out.iterdir())
    assert [name for name in names if not name.startswith("id-")] == ["reader-1.jsonl", "writer-1.jsonl"]
    assert len(names) == 3, "the session of the helper that the reader asked is written, too"
    assert all(check_file(out / name).verdict == "clean" for name in names)
    rows = {name: [json.loads(line) for line in (out / name).read_text().splitlines()] for name in names}
    assert ends(rows["reader-1.jsonl"]) == ["completed"]
    assert ends(rows["writer-1.jsonl"]) == ["aborted", "completed"]
    assert len(of(rows["reader-1.jsonl"], "llm/retry")) == 1
    assert rows["reader-1.jsonl"][0]["cwd"] == "/workspace"
    assert loopspec("show", out / "reader-1.jsonl").exit_code == 0
    assert loopspec("check", *(out / name for name in names)).exit_code == 0


def test_the_same_composition_gives_the_same_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert loopspec("run", EXAMPLES / "composition.yaml", "--out", tmp_path / name).exit_code == 0
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_a_step_is_for_the_agent_that_it_names(tmp_path: Path) -> None:
    text = f"""
    {TWO}
    answers: {{one: [{{text: [a, {{gate: g}}, b]}}], two: [Done., Again.]}}
    steps:
    - {{followup: hello one, to: one}}
    - wait: gate g
    - {{followup: hello two, to: two}}
    - {{wait: idle, to: two}}
    - {{steer: later, to: one}}
    - {{followup: more, to: two}}
    - open: gate g
    - {{cancel: user, to: one}}
    """
    result, rows = composed(tmp_path, text)
    assert result.exit_code == 0, result.output
    assert (texts(rows["s1"])[0], texts(rows["s2"])) == ("hello one", ["hello two", "more"])
    assert (ends(rows["s1"]), ends(rows["s2"])) == (["aborted"], ["completed", "completed"])


def test_a_reaction_is_about_an_agent_and_its_steps_are_for_it(tmp_path: Path) -> None:
    """Without `to` for the agent that it is about; with it for another; without `of` about whoever comes first."""
    text = f"""
    {TWO}
    answers: {{one: [One., Two.], two: [Three., Four.]}}
    when:
    - {{record: turn/end, of: two, do: [{{followup: once more}}, {{inject: for you, to: one}}]}}
    - {{record: turn/start, do: [{{inject: to the first}}]}}
    steps:
    - {{followup: hello one, to: one}}
    - {{wait: idle, to: one}}
    - {{followup: hello two, to: two}}
    - wait: idle
    - {{followup: again, to: one}}
    """
    result, rows = composed(tmp_path, text)
    assert result.exit_code == 0, result.output
    assert sorted(texts(rows["s1"])) == ["again", "for you", "hello one", "to the first"]
    assert texts(rows["s2"]) == ["hello two", "once more"]


def test_session_files_are_compressed_when_asked_for(tmp_path: Path) -> None:
    source, out = tmp_path / "play.yaml", tmp_path / "out"
    source.write_text("agents: [{id: main, sessionId: s}]\nanswers: [Hello.]\nsteps: [{followup: Hi}]")
    assert loopspec("run", source, "--out", out, "--zstd").exit_code == 0
    assert [path.name for path in out.iterdir()] == ["s.jsonl.zstd"]
    assert check_file(out / "s.jsonl.zstd").verdict == "clean"
    assert loopspec("run", source, "--out", out, "--zstd").exit_code == Exit.EXISTS
    assert loopspec("run", source, "--out", out, "--zstd", "--force").exit_code == 0


def test_an_only_agent_needs_no_name_and_a_label_gets_a_fresh_session(tmp_path: Path) -> None:
    text = "agents: [{id: main}]\nmaxParallelToolCalls: 1\nanswers: [Hello.]\nsteps: [{followup: Hi}]"
    result, rows = composed(tmp_path, text)
    assert result.exit_code == 0, result.output
    (name,) = rows
    assert name.startswith("main-session-")
    result, again = composed(tmp_path, text)
    assert len(again) == 2


def test_a_job_writes_into_the_log_of_its_own_agent(tmp_path: Path) -> None:
    text = f"""
    {TWO}
    steps:
    - {{maintenance: {{gate: g, append: [{{type: compaction/start, data: {{}}}}]}}, to: one}}
    - {{inject: x, to: two}}
    - open: gate g
    """
    _, rows = composed(tmp_path, text)
    kinds = {name: [row["type"] for row in found[1:]] for name, found in rows.items()}
    assert kinds == {"s1": ["compaction/start"], "s2": ["agent/inbox/spliced"]}


def test_a_stored_session_is_taken_up(tmp_path: Path) -> None:
    text = "agents: [{id: main, sessionId: s}]\nsessions: store\nanswers: [Hello.]\nsteps: [{followup: Hi}]"
    for turns in (1, 2):
        result, rows = composed(tmp_path, text, "--force")
        assert result.exit_code == 0, result.output
        assert ends(rows["s"]) == ["completed"] * turns
    result, rows = composed(tmp_path, text.replace("sessionId", "resumeSessionId"), "--force")
    assert (result.exit_code, len(ends(rows["s"]))) == (0, 3)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("when: [{record: turn/end, of: thre, do: [{inject: x}]}]", "no agent has the label 'thre'"),
        ("when: [{record: turn/end, do: [{inject: x, to: tow}]}]", "Did you mean two?"),
        ("when: [{record: turn/end, do: [{wait: idle}]}]", "a reaction can neither wait nor crash"),
        ("when: [{record: turn/ends, do: [{inject: x}]}]", "did you mean turn/end?"),
        ("when: 5", "it should be a list, not 5"),
        ("plugins: {subagents: {}}", "Did you mean subagent?"),
        ("agents: nobody", "it should be a list"),
        ("steps: [{to: one}]", "exactly one key"),
        ("agents: [main]", "agents[1]: it should be a mapping, not 'main'"),
        ("agents: []", "it should have at least 1 item, not none"),
    ],
)
def test_nonsense_is_refused_before_anything_starts(tmp_path: Path, line: str, words: str) -> None:
    parts = {"agents": TWO, "steps": "steps: [{followup: x, to: one}]"}
    parts |= {line.partition(":")[0]: line}
    result, rows = composed(tmp_path, "\n".join(parts.values()))
    assert (result.exit_code, rows) == (2, {})
    assert words in said(result), result.output


def test_a_start_that_fails_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    text = """
    agents: [{id: one, resumeSessionId: gone}, {id: two, sessionId: s2}]
    answers: [Hello.]
    steps: [{followup: Hi, to: two}, {followup: Hi, to: one}]
    """
    result, rows = composed(tmp_path, text)
    assert result.exit_code == Exit.UNSTARTED, result.output
    assert "agent-loop/config-start-failed: one (gone): cannot resume" in said(result)
    assert "followup was refused: one is not live" in said(result)
    assert list(rows) == ["s2"]
    assert ends(rows["s2"]) == ["completed"]


def test_an_agent_may_talk_to_a_real_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)
    with mock_model() as url:
        text = f"""
        agents: [{{id: a, sessionId: s1, provider: deepseek-official, model: m}}, {{id: b, sessionId: s2}}]
        deepseek: {{base_url: "{url}"}}
        answers: [Scripted.]
        steps: [{{followup: Hi, to: a}}, {{followup: Hi, to: b}}]
        """
        result, rows = composed(tmp_path, text)
    assert result.exit_code == 0, result.output
    assert (ends(rows["s1"]), ends(rows["s2"])) == (["completed"], ["completed"])
    said_by = {name: of(found, "assistant/message")[0]["message"]["content"] for name, found in rows.items()}
    assert said_by["s2"] == [{"type": "text", "text": "Scripted."}]
    assert said_by["s1"][-1]["text"].startswith("Hello!")


def test_a_standstill_is_found(tmp_path: Path) -> None:
    text = f"{TWO}\nanswers: {{one: [{{text: [a, {{gate: g}}]}}]}}\nsteps: [{{followup: Hi, to: one}}, {{wait: idle}}]"
    result, rows = composed(tmp_path, text)
    assert result.exit_code == 3, result.output
    assert "stands at the gate 'g'" in said(result)
    assert sorted(rows) == ["s1", "s2"]


def test_answers_that_are_missing_or_left_over_are_told(tmp_path: Path) -> None:
    text = f"{TWO}\nanswers: {{one: [], two: [Left.]}}\nsteps: [{{followup: Hi, to: one}}]"
    result, _ = composed(tmp_path, text)
    assert result.exit_code == 1, result.output
    assert "1 of 1 calls of the model found no answer for one" in said(result)
    assert "answers.two: nobody asked for the last 1 of the answers" in said(result)


# -- what is refused -----------------------------------------------------------------------------------------------

BAD = [
    ("agents: [{id: a, sesionId: x}]", "Did you mean sessionId?"),
    ("agents: [{id: a, cwd: here}]", 'must be an absolute path, got "here"'),
    ("agents: [{id: a, maxTokens: 0}]", "greater than 0"),
    ("agents: [{id: a, sessionId: ''}]", "at least 1 character"),
    ("agents: [{id: a, sessionId: x, resumeSessionId: y}]", "sessionId and resumeSessionId are mutually exclusive"),
    ("agents: [{id: a, sessionId: x}, {id: b, resumeSessionId: x}]", 'use duplicate exact session identity "x"'),
    ("agents: [{id: a, provider: mok}]", "there is no provider 'mok' here"),
    ("agents: [{id: a, provider: deepseek-official}]", "Add `deepseek: {base_url: URL}`."),
    ("agents: [{sessionId: a}]", "the key 'id' is missing"),
    ("agents: []", "at least 1 item"),
    ("agents: [{id: a}]\nmaxParallelToolcalls: 2", "Did you mean maxParallelToolCalls?"),
    ("agents: [{id: a}]\nmaxParallelToolCalls: 0", "greater than or equal to 1"),
    ("agents: [{id: a}]\nplugins: {retyr: {}}", "Did you mean retry?"),
    ("agents: [{id: a}]\nplugins: {slice: {histroy: {}}}", "history"),
    ("agents: [{id: a}]\nplugins: {compaction: {retain_ratio: 0.9}}", "retainRatio must be"),
    ("agents: [{id: a}]\nplugins: {workspace: nowhere}", "nowhere cannot be a root"),
    ("agents: [{id: a}]\nanswers: {b: [x]}", "no agent has the label 'b'"),
    ("agents: [{id: a}]\nanswers: {a: [{txet: x}]}", "Did you mean text?"),
    ("agents: [{id: a}]\ndeepseek: {base_url: 'ftp://x'}", "deepseek:"),
    ("agents: [{id: a}]\nresume: x", "there is no key 'resume' here"),
]
STEPS = [
    ("agents: [{id: main}]\nsteps: [{followup: x, to: mian}]", "Did you mean main?"),
    ("agents: [{id: a}, {id: b}]\nsteps: [{followup: x}]", "Add `to:`, one of a, b."),
    ("agents: [{id: a}, {id: a}]\nsteps: [{followup: x, to: a}]", "2 agents have the label 'a'"),
    ("agents: [{id: a}]\nsteps: [{to: a}]", "a step has exactly one key, this one has none"),
    ("agents: [{id: a}]\nsteps: [{open: gate x}]", "no answer, tool or job has a gate 'x'"),
]


@pytest.mark.parametrize(
    ("text", "words"), [(f"{text}\nsteps: [{{wait: idle}}]", words) for text, words in BAD] + STEPS
)
def test_what_makes_no_sense_is_refused_before_anything_starts(
    tmp_path: Path, text: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)
    result, rows = composed(tmp_path, text)
    assert result.exit_code == 2, result.output
    assert words in said(result)
    assert "play.yaml:" in result.output
    assert rows == {}
    assert os.listdir(tmp_path) == ["play.yaml"]


def test_a_real_server_without_a_key_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)
    text = "agents: [{id: a, provider: deepseek-official}]\ndeepseek: {base_url: 'https://api.deepseek.com'}\n"
    result, _ = composed(tmp_path, text + "steps: [{followup: x}]")
    assert (result.exit_code, "DEEPSEEK_API_KEY is not set" in said(result)) == (2, True)


def test_places_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    text = "agents: [{id: main, sessionId: s}]\nanswers: [Hello.]\nsteps: [{followup: Hi}]"
    assert composed(tmp_path, text)[0].exit_code == 0
    again, _ = composed(tmp_path, text)
    assert (again.exit_code, "s.jsonl exists" in said(again)) == (Exit.EXISTS, True)
    assert composed(tmp_path, text, "--force")[0].exit_code == 0
    source = tmp_path / "play.yaml"
    for out, code, words in (
        ("-", Exit.USAGE, "give --out a directory"),
        (source, Exit.USAGE, "is no directory"),
        (tmp_path / "x/y", Exit.MISSING, "no directory"),
    ):
        result = loopspec("run", source, "--out", out)
        assert (result.exit_code, words in said(result)) == (code, True), result.output
