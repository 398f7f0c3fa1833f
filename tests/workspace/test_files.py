"""Reading, listing, searching, writing, editing: what a model is told, and what it can do about it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.workspace.bench import bench, contents

from loopharness.signal import AbortController, Signal
from loopharness.workspace import Limits, changes, files
from loopharness.workspace.limits import FileError
from loopharness.workspace.roots import OutsideRoot, Roots

pytestmark = pytest.mark.anyio


def going_on() -> bool:
    """Nobody stops."""
    return False


# -- read ------------------------------------------------------------------------------------------------------

READ = [
    (b"", {}, "[the file is empty]"),
    (b"a\nb\nc\n", {}, "a\nb\nc"),
    (b"a\nb\nc", {"offset": 2}, "b\nc"),
    (b"a\nb\nc\n", {"limit": 2}, "a\nb\n[lines 1 to 2 of a file of 6 bytes; read on with offset 3]"),
    (b"a\nb\nc\n", {"offset": 2, "limit": 1}, "b\n[lines 2 to 2 of a file of 6 bytes; read on with offset 3]"),
    (b"a\nb\n", {"offset": 9}, "[the file has 2 lines; none from line 9 on]"),
    (b"a\r\nb\r\n", {}, "a\r\nb\r"),
    (b"\xef\xbb\xbfmarked", {}, "marked"),
    ("Grüße, 世界".encode("utf-16"), {}, "Grüße, 世界"),
    (b"caf\xe9\n", {}, "caf�\n[bytes that are not utf-8 are shown as �]"),
    (b"a\x0b\xc2\x85b\xe2\x80\xa8c\n", {}, "a\x0b\x85b\u2028c"),
    (b"x" * 30 + b"\nshort\n", {}, "xxxxxxxxxxxxxxxxxxxx… [10 more characters]\nshort"),
    (b"0123456789\n" * 20, {}, "0123456789\n" * 9 + "[lines 1 to 9 of a file of 220 bytes; read on with offset 10]"),
]


@pytest.mark.parametrize(("raw", "window", "text"), READ)
async def test_a_file_is_shown_as_text(tmp_path: Path, raw: bytes, window: dict[str, int], text: str) -> None:
    (tmp_path / "f").write_bytes(raw)
    with bench(tmp_path, limits=Limits(line=20, output=100)) as tools:
        assert (await tools.call("read", path="f", **window)) == (False, text, "")  # type: ignore[arg-type]


@given(st.binary(max_size=200), st.integers(1, 6), st.one_of(st.none(), st.integers(1, 4)))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_text_or_a_clear_no(tmp_path: Path, raw: bytes, offset: int, limit: int | None) -> None:
    (tmp_path / "f").write_bytes(raw)
    roots = Roots(tmp_path)
    try:
        text = files.read(roots, "f", offset, limit, Limits(line=20, output=60), going_on)
        assert len(text.encode()) < 400
    except FileError:
        assert b"\0" in raw
    finally:
        roots.close()


async def test_what_is_no_text_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(b"\x89PNG\0\0")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with bench(tmp_path) as tools:
        codes = {name: (await tools.call("read", path=name)).code for name in ("image", "pipe", "folder", "none", ".")}
        assert (await tools.call("write", path="pipe", content="x")).code == "NOT_REGULAR"
        assert (await tools.call("write", path="folder", content="x")).code == "IS_DIRECTORY"
        assert (await tools.call("write", path=".", content="x")).code == "IS_DIRECTORY"
    assert codes == {
        "image": "BINARY",
        "pipe": "NOT_REGULAR",
        "folder": "IS_DIRECTORY",
        "none": "NOT_FOUND",
        ".": "IS_DIRECTORY",
    }


def test_a_huge_file_costs_only_what_is_looked_at(tmp_path: Path) -> None:
    """A terabyte without a line end: nothing is kept but the beginning of the line."""
    with (tmp_path / "f").open("wb") as file:
        file.write(b"begin")
        file.truncate(1 << 40)
    roots = Roots(tmp_path)
    try:
        with pytest.raises(FileError, match="binary file of 1,099,511,627,776 bytes"):
            files.read(roots, "f", 1, None, Limits(), going_on)
        (tmp_path / "g").write_bytes(b"x" * 300_000)
        text = files.read(roots, "g", 1, None, Limits(scan=200_000, line=10), going_on)
        assert text.endswith("[only the first 200,000 bytes were looked at]")
    finally:
        roots.close()


# -- list ------------------------------------------------------------------------------------------------------


async def test_a_listing_is_sorted_says_what_things_are_and_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "b" / "c").mkdir(parents=True)
    (tmp_path / "b" / "c" / "deep.txt").write_text("x")
    (tmp_path / "a.txt").write_text("12345")
    (tmp_path / "out").symlink_to("/etc")
    (tmp_path / "odd\nname").write_text("")
    os.mkfifo(tmp_path / "pipe")
    with bench(tmp_path) as tools:
        assert (await tools.call("list")).text.split("\n") == [
            "a.txt  5 bytes",
            "b/",
            "odd\\x0aname  0 bytes",
            "out -> /etc",
            "pipe  [special file]",
        ]
        assert (await tools.call("list", path="b", depth=2)).text.split("\n") == ["c/", "c/deep.txt  1 bytes"]
        assert (await tools.call("list", path="a.txt")).code == "NOT_DIRECTORY"
        assert (await tools.call("list", path="b/c/none")).code == "NOT_FOUND"
    with bench(tmp_path, limits=Limits(entries=2)) as tools:
        assert (await tools.call("list")).text.endswith(
            "[only the first 2 entries; list a directory below for the others]"
        )


# -- search ----------------------------------------------------------------------------------------------------


async def test_a_search_names_path_and_line_and_passes_over_what_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "src" / ".git").mkdir(parents=True)
    (tmp_path / "src" / "a.py").write_text("one\ntwo words\n")
    (tmp_path / "src" / "b.txt").write_text("TWO\n")
    (tmp_path / "src" / ".git" / "two").write_text("two\n")
    (tmp_path / "src" / "image").write_bytes(b"two\0")
    (tmp_path / "link").symlink_to("src")
    with bench(tmp_path) as tools:
        assert (await tools.call("search", pattern="two")).text == "src/a.py:2: two words"
        both = await tools.call("search", pattern="^two", ignore_case=True, path="src")
        assert both.text == "src/a.py:2: two words\nsrc/b.txt:1: TWO"
        assert (await tools.call("search", pattern="two", files="*.txt", ignore_case=True)).text == "src/b.txt:1: TWO"
        assert (await tools.call("search", pattern="two", files="other/*")).text == "[no match in 0 files]"
        assert (await tools.call("search", pattern="two", path="src/a.py")).text == "src/a.py:2: two words"
        assert (await tools.call("search", pattern="(?=two)")).code == "PATTERN"
        assert (await tools.call("search", pattern="two", path="none")).code == "NOT_FOUND"
    with bench(tmp_path, limits=Limits(matches=1)) as tools:
        more = await tools.call("search", pattern="o|TWO")
        assert more.text.endswith("[only the first 1 matches; narrow the pattern or the path]")


def test_a_hostile_pattern_takes_linear_time_and_a_cancel_is_heard(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a" * 5_000 + "!\n")
    roots = Roots(tmp_path)
    try:
        assert files.search(roots, "(a+)+$", ".", "*", False, Limits(), going_on) == "[no match in 1 file]"
        assert files.search(roots, "a", ".", "*", False, Limits(), lambda: True) == "[no match in 0 files; stopped]"
    finally:
        roots.close()


# -- write and edit --------------------------------------------------------------------------------------------


async def test_writing_makes_directories_keeps_permissions_and_leaves_nothing_else(tmp_path: Path) -> None:
    with bench(tmp_path) as tools:
        assert (await tools.call("write", path="a/b/c.sh", content="one")).text == 'made "a/b/c.sh", 3 bytes'
        (tmp_path / "a" / "b" / "c.sh").chmod(0o4750)
        assert (await tools.call("write", path="a/b/c.sh", content="två")).text == 'replaced "a/b/c.sh", 4 bytes'
        assert (await tools.call("write", path="half", content="\ud800")).wrong
    assert contents(tmp_path) == {"a": "folder", "a/b": "folder", "a/b/c.sh": "två".encode()}
    assert stat.S_IMODE((tmp_path / "a" / "b" / "c.sh").stat().st_mode) == 0o750


EDITS = [
    ({"old": "two", "new": "2"}, "", 'edited "f": 1 place, the first in line 2'),
    ({"old": "o", "new": "0", "all": True}, "", 'edited "f": 2 places, the first in line 1'),
    ({"old": "o", "new": "0"}, "SEVERAL_MATCHES", "give more of its surroundings, or set all"),
    ({"old": "none", "new": "x"}, "NO_MATCH", "copy the text exactly"),
    ({"old": " two ", "new": "x"}, "NO_MATCH", "without the blanks around it, it does"),
    ({"old": "one\ntwo", "new": "x"}, "NO_MATCH", "its lines end in CR LF"),
    ({"old": "", "new": "x"}, "EMPTY", "write the whole file"),
    ({"old": "two", "new": "two"}, "SAME", "nothing would change"),
]


@pytest.mark.parametrize(("arguments", "code", "text"), EDITS)
async def test_an_edit_is_exact_and_a_refusal_says_what_to_do(
    tmp_path: Path, arguments: dict[str, str], code: str, text: str
) -> None:
    original = b"\xef\xbb\xbfone\r\ntwo\r\n"
    (tmp_path / "f").write_bytes(original)
    with bench(tmp_path) as tools:
        said = await tools.call("edit", path="f", **arguments)  # type: ignore[arg-type]
    assert said.code == code
    assert text in said.text
    changed = original.replace(arguments["old"].encode(), arguments["new"].encode()) if not code else original
    assert contents(tmp_path) == {"f": changed}


async def test_what_cannot_be_written_back_unchanged_is_not_edited(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    (tmp_path / "wide").write_bytes("abc".encode("utf-16"))
    (tmp_path / "image").write_bytes(b"abc\0")
    (tmp_path / "long").write_bytes(b"abc" * 100)
    with bench(tmp_path, limits=Limits(edit=100)) as tools:
        codes = [(await tools.call("edit", path=p.name, old="a", new="b")).code for p in sorted(tmp_path.iterdir())]
        assert (await tools.call("write", path="new", content="x" * 101)).code == "TOO_LARGE"
    assert codes == ["BINARY", "ENCODING", "TOO_LARGE", "ENCODING"]


def test_a_file_that_changes_between_reading_and_replacing_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f").write_text("one two")
    look = changes._now

    def somebody_else_writes(place: object) -> os.stat_result | None:
        (tmp_path / "f").write_text("theirs, longer")
        return look(place)  # type: ignore[arg-type]

    monkeypatch.setattr(changes, "_now", somebody_else_writes)
    roots = Roots(tmp_path)
    try:
        with pytest.raises(FileError, match="has changed meanwhile"):
            changes.edit(roots, "f", "one", "1", False, Limits())
    finally:
        roots.close()
    assert contents(tmp_path) == {"f": b"theirs, longer"}


# -- paths -----------------------------------------------------------------------------------------------------

pieces = st.sampled_from(["..", ".", "", "a", "b", "out", "loop", "up", "abs", "f", "~", "none", "\0", "é", "A"])


@given(st.lists(pieces, max_size=7), st.booleans(), st.sampled_from(["read", "write", "list"]))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_k46_k47_no_path_leads_out(tmp_path: Path, parts: list[str], absolute: bool, tool: str) -> None:
    """Any path at all, through links of every kind: an answer is about something inside, or a clear no."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    if not root.exists():
        (root / "a" / "b").mkdir(parents=True)
        outside.mkdir()
        (outside / "f").write_text("secret")
        (root / "f").write_text("inside")
        (root / "out").symlink_to("../outside")
        (root / "loop").symlink_to("loop")
        (root / "a" / "up").symlink_to("../..")
        (root / "a" / "abs").symlink_to(outside)
        (root / "a" / "b" / "f").symlink_to(root / "f")
    path = ("/" if absolute else "") + "/".join(parts)
    roots = Roots(root)
    try:
        if tool == "read":
            assert "secret" not in files.read(roots, path, 1, None, Limits(), going_on)
        elif tool == "list":
            files.list_folder(roots, path, 1, Limits(), going_on)
        else:
            with roots.find(path) as place:
                assert os.path.realpath(place.real).startswith(str(root))
    except (OutsideRoot, FileError):
        pass
    finally:
        roots.close()
    assert contents(outside) == {"f": b"secret"}


def test_roots_are_directories_and_can_be_given_back(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    for bad in (tmp_path / "f", tmp_path / "none"):
        with pytest.raises(ValueError, match="cannot be a root"):
            Roots(tmp_path, bad)
    with pytest.raises(ValueError, match="at least one"):
        Roots()
    roots = Roots(tmp_path)
    roots.close()
    roots.close()
    with pytest.raises(FileError, match="unmounted"), roots.find("f"):
        pass


async def test_t_114_reading_is_parallel_and_changing_is_exclusive(tmp_path: Path) -> None:
    arguments = {
        "read": {"path": "f"},
        "list": {},
        "search": {"pattern": "x"},
        "write": {"path": "f", "content": ""},
        "edit": {"path": "f", "old": "a", "new": "b"},
        "command": {"command": "true"},
    }
    with bench(tmp_path) as tools:
        modes = {name: tools.registry.execution_mode(name, given) for name, given in arguments.items()}
        assert tools.registry.execution_mode("read", {}) == "exclusive"
    assert modes == {name: "parallel" if name in ("read", "list", "search") else "exclusive" for name in arguments}


async def test_t_302_a_cancelled_call_touches_nothing(tmp_path: Path) -> None:
    controller = AbortController()
    controller.abort("user")
    with bench(tmp_path) as tools:
        said = await tools.call("write", controller.signal, path="f", content="x")
    assert said.code == "ABORTED_BEFORE_DISPATCH"
    assert contents(tmp_path) == {}
    assert not Signal().aborted
