"""The guard, with one line of it changed at a time: some field case must notice."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.spec.mutation import Mutant, changed
from tests.workspace.bench import contents

from loopharness.errors import HarnessError
from loopharness.workspace import Limits, changes, files, roots
from loopharness.workspace.roots import Roots


class Scene(NamedTuple):
    """A root with links and traps, and what lies outside of it."""

    root: Path
    outside: Path


def scene(folder: Path) -> Scene:
    """Lay it out."""
    root, outside = folder / "root", folder / "outside"
    (root / "src").mkdir(parents=True)
    outside.mkdir()
    (folder / "root-evil").mkdir()
    (folder / "root-evil" / "f").write_text("secret")
    (outside / "f").write_text("secret")
    (root / "src" / "f").write_text("inside")
    (root / "out").symlink_to("../outside")
    (root / "abs").symlink_to(outside)
    (root / "loop").symlink_to("loop")
    (root / "inner").symlink_to("src")
    (root / "file").symlink_to("../outside/f")
    os.link(outside / "f", root / "hard")
    return Scene(root, outside)


def code(act: Callable[[], object]) -> str:
    """The code of the refusal, or nothing."""
    try:
        act()
    except HarnessError as error:
        return error.code
    return ""


def reads(there: Scene) -> None:
    """What may be read and what may not."""
    opened = Roots(there.root)
    try:
        wanted = {
            "../outside/f": "OUTSIDE_ROOT",
            "src/../../outside/f": "OUTSIDE_ROOT",
            str(there.root) + "-evil/f": "OUTSIDE_ROOT",
            str(there.root) + "/../outside/f": "OUTSIDE_ROOT",
            "out/f": "OUTSIDE_ROOT",
            "abs/f": "OUTSIDE_ROOT",
            "file": "OUTSIDE_ROOT",
            "": "OUTSIDE_ROOT",
            "src/f\0": "OUTSIDE_ROOT",
            "loop": "ELOOP",
            "inner/f": "",
            "src/../src/./f": "",
            "inner/../src/f": "",
            str(there.root) + "/src/f": "",
        }
        found = {path: code(lambda path=path: files.read(opened, path, 1, None, Limits(), bool)) for path in wanted}  # type: ignore[misc]
        assert found == wanted
        with opened.find("src/../inner/f") as place:
            assert (place.inside, place.real) == (("src", "f"), str(there.root / "src" / "f"))
    finally:
        opened.close()


def writes(there: Scene) -> None:
    """Nothing outside changes, and what is refused leaves nothing behind."""
    opened = Roots(there.root)
    before, inside = contents(there.outside), contents(there.root)
    try:
        assert code(lambda: changes.write(opened, "out/new", "x", Limits())) == "OUTSIDE_ROOT"
        assert code(lambda: changes.write(opened, "src", "x", Limits())) == "IS_DIRECTORY"
        assert code(lambda: changes.edit(opened, "none", "a", "b", False, Limits())) == "NOT_FOUND"
        assert code(lambda: changes.edit(opened, "src/f", "i", "b", False, Limits())) == "SEVERAL_MATCHES"
        assert contents(there.root) == inside
        assert code(lambda: changes.write(opened, "hard", "x", Limits())) == ""
        assert contents(there.outside) == before
        assert set(contents(there.root)) == set(inside)
    finally:
        opened.close()


def swaps(there: Scene) -> None:
    """A directory becomes a link right after the guard has looked at it."""
    opened = Roots(there.root)
    look = roots._Walk._look

    def look_and_swap(walk: Any, part: str) -> Any:
        found = look(walk, part)
        if part == "src":
            roots._Walk._look = look  # type: ignore[method-assign]
            (there.root / "src").rename(there.root / "gone")
            (there.root / "src").symlink_to("../outside")
        return found

    roots._Walk._look = look_and_swap  # type: ignore[method-assign,assignment]
    try:
        assert code(lambda: files.read(opened, "src/f", 1, None, Limits(), bool)) == "OUTSIDE_ROOT"
    finally:
        roots._Walk._look = look  # type: ignore[method-assign]
        opened.close()


CHECKS = {"reads": reads, "writes": writes, "swaps": swaps}

MUTANTS = [
    Mutant("links are entered", "_Walk.place", "stat.S_ISLNK(found.st_mode)", "False", "", "reads"),
    Mutant("up is free", "_Walk._up", "if self._open:", "if False:", "", "reads"),
    Mutant("up stays", "_Walk._up", "self._names.pop()", "pass", "", "reads"),
    Mutant("prefix as text", "_Walk._jump", "parts[: len(start)] == start", "path.startswith('/'.join(['', *start]))",
           "", "reads"),
    Mutant("anywhere", "_Walk._jump", "parts[: len(start)] == start", "True", "", "reads"),
    Mutant("absolute links jump nowhere", "_Walk._follow", 'target.startswith("/")', "False", "", "reads"),
    Mutant("no link at all", "_Walk._count", "self._turns > _LINKS", "self._turns > 0", "", "reads"),
    Mutant("empty is the root", "Roots._check_text", "if not path:", "if False:", "", "reads"),
    Mutant("NUL goes on", "Roots._check_text", 'if "\\0" in path:', "if False:", "", "reads"),
    Mutant("follows what it opens", "_Walk._enter", "_FOLDER, dir_fd=self._top",
           "_FOLDER & ~os.O_NOFOLLOW, dir_fd=self._top", "", "swaps"),
    Mutant("through the name", "_replace", "os.open(temporary, flags, 0o666, dir_fd=place.folder)",
           "os.open(place.name, os.O_WRONLY | os.O_TRUNC, dir_fd=place.folder)", "", "writes"),
    Mutant("directories are written", "_replace", "if place.is_folder:", "if False:", "", "writes"),
    Mutant("any place", "edit", "count > 1 and not all_places", "False", "", "writes"),
]  # fmt: skip


@pytest.mark.parametrize("name", CHECKS)
def test_the_guard_holds(tmp_path: Path, name: str) -> None:
    CHECKS[name](scene(tmp_path))


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_every_fault_of_the_guard_is_noticed(tmp_path: Path, mutant: Mutant) -> None:
    there = scene(tmp_path)
    owner, _, name = mutant.target.rpartition(".")
    at: Any = getattr(roots, owner) if owner else changes
    original = getattr(at, name)
    setattr(at, name, changed(original, mutant.old, mutant.new))
    try:
        with pytest.raises((AssertionError, OSError, ValueError)):
            CHECKS[mutant.killer](there)
    finally:
        setattr(at, name, original)
