"""`loopspec diff`: what is the same, what is not, and where it begins."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.logs import corpus
from tests.logs.building import Rows, find, legal, many_turns, render

from loopconform.cli import main


def diff(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["diff", *map(str, arguments)])


def written(root: Path, name: str, rows: Rows) -> Path:
    path = root / name
    path.write_bytes(render(rows))
    return path


def consistent(rows: Rows) -> Rows:
    """Rename message ids one to one."""
    names: dict[str, str] = {}

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if {"id", "role", "content"} <= value.keys():
                value["id"] = names.setdefault(value["id"], str(uuid.uuid4()))
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    copy: Rows = json.loads(json.dumps(rows))
    walk(copy[1:])
    return copy


@pytest.mark.parametrize("version", [0, 4])
def test_times_places_and_random_ids_do_not_matter(version: int, tmp_path: Path) -> None:
    rows = legal(version).rows
    other = consistent(rows)
    for row in other[1:]:
        row["time"] += 12345
    other[0].update(id="another", createdAt=13345, cwd="/elsewhere")
    result = diff(written(tmp_path, "a.jsonl", rows), written(tmp_path, "b.jsonl", other))
    assert (result.exit_code, result.output) == (0, "The same behaviour: no difference that matters.\n")


def test_an_id_used_twice_is_not_an_id_used_once(tmp_path: Path) -> None:
    """Random ids are renamed one to one, so which message is which still counts."""
    rows = legal(0).rows
    other: Rows = json.loads(json.dumps(rows))
    other[find(other, "user/message")]["data"]["id"] = "somebody else"
    result = diff(written(tmp_path, "a.jsonl", rows), written(tmp_path, "b.jsonl", other))
    assert result.exit_code == 1
    assert "user/message, $.data.id" in result.output


@pytest.mark.parametrize(
    ("kind", "change", "path"),
    [
        ("turn/end", {"reason": {"kind": "blocked"}}, "$.data.reason.kind"),
        ("tool/call", {"callId": "c9"}, "$.data.callId"),
        ("user/message", {"role": "system"}, "$.data.role"),
    ],
)
def test_what_differs_is_named(kind: str, change: dict[str, Any], path: str, tmp_path: Path) -> None:
    rows = legal(0).rows
    other: Rows = json.loads(json.dumps(rows))
    at = find(other, kind)
    other[at]["data"].update(change)
    first, second = written(tmp_path, "a.jsonl", rows), written(tmp_path, "b.jsonl", other)
    found = json.loads(diff(first, second, "--format", "json").output)
    assert (found["seq"], found["lines"], found["path"]) == (at - 1, [at + 1, at + 1], path)
    result = diff(first, second)
    assert result.exit_code == 1
    assert f"line {at + 1} of {second}" in result.output


def test_words_of_an_error_do_not_matter_and_its_code_does(tmp_path: Path) -> None:
    rows = legal(0).rows
    at = find(rows, "turn/end", -1)
    paths = []
    for name, message, code in (("a", "no", "X"), ("b", "nope", "X"), ("c", "no", "Y")):
        rows[at]["data"]["reason"] = {"kind": "error", "error": {"message": message, "code": code}}
        paths.append(written(tmp_path, f"{name}.jsonl", rows))
    assert diff(paths[0], paths[1]).exit_code == 0
    assert "$.data.reason.error.code" in diff(paths[0], paths[2]).output


def test_one_log_goes_on(tmp_path: Path) -> None:
    rows = many_turns(0, 2).rows
    short = written(tmp_path, "short.jsonl", rows[:-1])
    long = written(tmp_path, "long.jsonl", rows)
    result = diff(short, long)
    assert result.exit_code == 1
    assert result.output == f"{short} ends before seq {len(rows) - 2}.\n{long} goes on with turn/end.\n"


def test_packing_does_not_matter(tmp_path: Path) -> None:
    """A packed row and its chunks one by one are the same events; so are a plain file and its frames."""
    path = corpus.REAL / "03-tools-parallel.jsonl"
    unpacked = tmp_path / "unpacked.jsonl"
    unpacked.write_bytes(b"\n".join(corpus.unpacked(path)) + b"\n")
    assert diff(path, unpacked).exit_code == 0
    assert diff(path, path.with_suffix(".jsonl.zstd")).exit_code == 0


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    zero, four = (written(tmp_path, f"{version}.jsonl", legal(version).rows) for version in (0, 4))
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(zero.read_bytes()[:-5])
    for arguments, words in (
        ((zero, four), "formats 0 and 4"),
        ((zero, tmp_path / "none.jsonl"), "cannot be read"),
        ((zero, Path(__file__)), "line 1 cannot be read"),
        ((zero, torn), "torn-row"),
    ):
        result = diff(*arguments)
        assert result.exit_code == 2, result.output
        assert words in result.output
