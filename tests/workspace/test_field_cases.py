"""Field cases of paths (K46, K47, K50), row by row from their files."""

from __future__ import annotations

import json
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.workspace.bench import bench, contents

from loopharness.workspace import roots as guard

pytestmark = pytest.mark.anyio

HERE = Path(__file__).parent / "field-cases"
CASES = {name: json.loads((HERE / f"{name}-calls.json").read_text()) for name in ("K46", "K47", "K50")}


def laid_out(folder: Path, case: str) -> None:
    """Make the tree of a case."""
    for line in CASES[case]["tree"]:
        subprocess.run(["/bin/sh", "-c", line], cwd=folder, check=True)


def row(case: str, number: int) -> Any:
    """One row of a case as a test parameter."""
    found = CASES[case]["rows"][number]
    return pytest.param(case, found, id=f"{case}-{number + 1}")


ROWS = [row(case, number) for case in CASES for number in range(len(CASES[case]["rows"]))]
PLAIN = [one for one in ROWS if "race" not in str(one.values[1]["args"].get("path"))]


@pytest.mark.parametrize(("case", "wanted"), PLAIN)
async def test_k46_k47_k50_every_row_ends_as_marked(tmp_path: Path, case: str, wanted: dict[str, Any]) -> None:
    laid_out(tmp_path, case)
    around = [tmp_path / "outside", tmp_path / "root-evil"]
    before = [contents(folder) for folder in around]
    arguments: dict[str, Any] = {key: str(value).replace("DIR", str(tmp_path)) for key, value in wanted["args"].items()}
    if "cwd" in wanted:
        arguments["cwd"] = wanted["cwd"]
    with bench(Path(str(wanted.get("root", "DIR/root")).replace("DIR", str(tmp_path)))) as tools:
        said = await tools.call(wanted["tool"], **arguments)
    assert [contents(folder) for folder in around] == before
    if wanted["want"] == "allow":
        assert not said.wrong, said
    elif wanted["want"] == "deny":
        assert said.wrong
        assert "root" in said.text
        named = arguments.get("cwd") or arguments["path"]
        assert json.dumps(named)[1:-1].lower() in said.text.lower()


async def test_k46_a_missing_step_back_is_the_same_for_every_tool(tmp_path: Path) -> None:
    laid_out(tmp_path, "K46")
    with bench(tmp_path / "root") as tools:
        path = "nothing/../src/a.txt"
        codes = [
            (await tools.call("read", path=path)).code,
            (await tools.call("write", path=path, content="x")).code,
            (await tools.call("edit", path=path, old="inside", new="x")).code,
        ]
    assert codes == ["NOT_FOUND"] * 3
    assert contents(tmp_path / "root") == {"src": "folder", "src/a.txt": b"inside\n"}


async def test_k46_a_home_sign_is_an_ordinary_name(tmp_path: Path) -> None:
    with bench(tmp_path) as tools:
        await tools.call("write", path="~/x", content="here")
    assert (tmp_path / "~" / "x").read_text() == "here"


async def test_k47_the_refusal_says_how_to_allow_more_and_a_further_root_does_so(tmp_path: Path) -> None:
    laid_out(tmp_path, "K47")
    with bench(tmp_path / "root") as tools:
        said = await tools.call("read", path="link.txt")
        assert "further root" in said.text
    with bench(tmp_path / "root", tmp_path / "outside") as tools:
        assert (await tools.call("read", path="link.txt")).text == "outside"
        assert (await tools.call("read", path=str(tmp_path / "outside" / "secret.txt"))).text == "outside"
        assert (await tools.call("read", path="../outside/secret.txt")).text == "outside"
        assert (await tools.call("read", path="../root-evil/secret.txt")).code == "OUTSIDE_ROOT"


async def test_k50_a_hard_link_is_read_and_written_without_touching_its_other_name(tmp_path: Path) -> None:
    laid_out(tmp_path, "K50")
    with bench(tmp_path / "root") as tools:
        assert (await tools.call("read", path="hard.txt")).text == "outside"
        assert not (await tools.call("edit", path="hard.txt", old="outside", new="changed")).wrong
    assert (tmp_path / "root" / "hard.txt").read_text() == "changed\n"
    assert (tmp_path / "outside" / "secret.txt").read_text() == "outside\n"


async def test_k50_a_directory_swapped_for_a_link_while_files_are_written(tmp_path: Path) -> None:
    """Another thread exchanges the directory on the way as fast as it can; nothing ever lands outside."""
    laid_out(tmp_path, "K50")
    root, spare = tmp_path / "root", tmp_path / "spare"
    (root / "race").mkdir()
    spare.mkdir()
    before = contents(tmp_path / "outside")
    stop = threading.Event()
    swaps = 0

    def swap() -> None:
        nonlocal swaps
        while not stop.is_set():
            with suppress(OSError):
                (root / "race").rename(spare / str(swaps))
            with suppress(OSError):
                (root / "race").symlink_to("../outside")
                swaps += 1
                (root / "race").unlink()
                (root / "race").mkdir()

    swapper = threading.Thread(target=swap)
    swapper.start()
    codes: dict[str, int] = {}
    try:
        with bench(root) as tools:
            for number in range(60):
                said = await tools.call("write", path="race/file.txt", content=str(number))
                codes[said.code] = codes.get(said.code, 0) + 1
                read = await tools.call("read", path="race/secret.txt")
                assert read.wrong
    finally:
        stop.set()
        swapper.join()
    assert swaps
    assert contents(tmp_path / "outside") == before
    assert set(codes) <= {"", "OUTSIDE_ROOT", "NOT_FOUND", "CHANGED", "ENOENT", "ELOOP"}


@pytest.mark.parametrize("tool", ["read", "write", "edit", "list", "search", "command"])
@pytest.mark.parametrize("swapped", ["race", "file.txt"])
async def test_k50_a_name_that_becomes_a_link_between_check_and_use(
    tmp_path: Path, tool: str, swapped: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exchange happens right after the guard has looked at the name, and found a harmless thing."""
    laid_out(tmp_path, "K50")
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "race").mkdir()
    (root / "race" / "file.txt").write_text("inside\n")
    (outside / "file.txt").write_text("outside\n")
    before = contents(outside)
    look = guard._Walk._look

    def look_and_swap(walk: Any, part: str) -> Any:
        found = look(walk, part)
        if part == swapped and found is not None:
            monkeypatch.undo()
            (root / "race").rename(tmp_path / "gone") if part == "race" else (root / "race" / "file.txt").unlink()
            target = "../outside" if part == "race" else "../../outside/file.txt"
            (root / "race" if part == "race" else root / "race" / "file.txt").symlink_to(target)
        return found

    monkeypatch.setattr(guard._Walk, "_look", look_and_swap)
    arguments: dict[str, dict[str, Any]] = {
        "read": {"path": "race/file.txt"},
        "write": {"path": "race/file.txt", "content": "x"},
        "edit": {"path": "race/file.txt", "old": "outside", "new": "x"},
        "list": {"path": "race"},
        "search": {"path": "race/file.txt", "pattern": "outside"},
        "command": {"command": "cat file.txt", "cwd": "race"},
    }
    with bench(root) as tools:
        said = await tools.call(tool, **arguments[tool])
    assert contents(outside) == before
    assert "outside\n" not in said.text
    if swapped == "race":
        assert said.code in ("OUTSIDE_ROOT", "ENOTDIR")
