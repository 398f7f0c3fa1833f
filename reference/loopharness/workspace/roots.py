"""The guard of all file tools: which file a path means, and whether that lies inside a root (K46, K47, K50).

Paths are never compared as text, except for the beginning of an absolute one. A path is walked from the open root,
component by component, and no step follows a link by itself: a link is read, and its target walked under the same
rules. What is opened is therefore what was checked, whatever somebody else renames or links meanwhile; and the names
of files are compared by the file system, with its own idea of case.

`..` at the top of a root leads out of it, and so does a link with such a target, unless another root lies there. Hard
links cannot be told from the files that they are: reading one shows its contents, and writing one replaces the name and
leaves the other file alone.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from loopharness.errors import HarnessError
from loopharness.workspace.limits import FileError, shown

__all__ = ["OutsideRoot", "Place", "Root", "Roots"]

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_LINKS: Final = 40
"""Links on one way, as operating systems count; also how often a changing tree is looked at again."""


class OutsideRoot(HarnessError):
    """A path that leads out of every root."""

    def __init__(self, path: str, roots: Sequence[Root], why: str = "leads out of the root") -> None:
        where = " and ".join(shown(os.path.basename(root.given) or "/") for root in roots)
        advice = "Paths begin there. To allow another directory, the user can mount it as a further root."
        super().__init__(f"path {shown(path)} {why} {where}. {advice}", "OUTSIDE_ROOT")


class Root(NamedTuple):
    """An open directory: its descriptor, its path as it was given, and its real path, both absolute."""

    fd: int
    given: str
    real: str


class Place(NamedTuple):
    """Where a path ends: an open directory and a name in it, `.` for the directory itself; valid inside its `with`.

    `stat` is what is there, without following anything; `None` when nothing is.
    """

    folder: int
    name: str
    path: str
    stat: os.stat_result | None
    root: Root
    inside: tuple[str, ...]
    """The names that lead from the root to the place."""

    @property
    def is_folder(self) -> bool:
        """Whether a directory is there."""
        return self.stat is not None and stat.S_ISDIR(self.stat.st_mode)

    @property
    def real(self) -> str:
        """The absolute path, for those who need one."""
        return os.path.join(self.root.real, *self.inside)

    def open_file(self) -> int:
        """A descriptor to read the regular file that is there. Raises `FileError` for everything else."""
        if self.stat is None:
            raise FileError(f"there is no file {shown(self.path)}", "NOT_FOUND")
        if self.is_folder:
            raise FileError(f"{shown(self.path)} is a directory; list it", "IS_DIRECTORY")
        if not stat.S_ISREG(self.stat.st_mode):
            raise FileError(f"{shown(self.path)} is no regular file", "NOT_REGULAR")
        fd = os.open(self.name, _FILE, dir_fd=self.folder)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise FileError(f"{shown(self.path)} is no regular file", "NOT_REGULAR")
        return fd

    def open_folder(self) -> int:
        """A descriptor of the directory that is there. Raises `FileError` for everything else."""
        if self.stat is None:
            raise FileError(f"there is no directory {shown(self.path)}", "NOT_FOUND")
        if not self.is_folder:
            raise FileError(f"{shown(self.path)} is no directory", "NOT_DIRECTORY")
        return os.open(self.name, _FOLDER, dir_fd=self.folder)


class Roots:
    """The directories that a set of tools may touch; the first one is where relative paths begin."""

    def __init__(self, *directories: str | Path) -> None:
        """Open the roots. Raises `ValueError` for none, and for what is no directory."""
        if os.open not in os.supports_dir_fd or os.readlink not in os.supports_dir_fd:
            raise ValueError(
                "file tools need a system that opens files relative to directories, such as Linux or macOS"
            )
        if not directories:
            raise ValueError("file tools need at least one root directory")
        self._roots: list[Root] = []
        try:
            for directory in directories:
                self._roots.append(_opened(os.fspath(directory)))
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[Root]:
        return iter(self._roots)

    def close(self) -> None:
        """Give the directories back; harmless the second time."""
        for root in self._roots:
            os.close(root.fd)
        self._roots = []

    @contextmanager
    def find(self, path: str, *, make_folders: bool = False) -> Iterator[Place]:
        """The place that a path means. `make_folders` makes the directories that are missing on the way.

        Raises `OutsideRoot`, and `FileError` for a path that cannot be walked; errors of the operating system inside
        the `with` become `FileError` too.
        """
        if not self._roots:
            raise FileError("the file tools have been unmounted", "UNMOUNTED")
        self._check_text(path)
        walk = _Walk(self._roots, path, make_folders)
        try:
            yield walk.place()
        except OSError as error:
            code = errno.errorcode.get(error.errno or 0, "FILE")
            raise FileError(f"{shown(path)}: {error.strerror or error}", code) from error
        finally:
            walk.close()

    def _check_text(self, path: str) -> None:
        if not path:
            raise OutsideRoot(path, self._roots, 'is empty; "." is the root')
        if "\0" in path:
            raise OutsideRoot(path, self._roots, "holds a NUL character and names nothing in the root")
        try:
            os.fsencode(path)
        except UnicodeEncodeError:
            raise OutsideRoot(path, self._roots, "is no valid text and names nothing in the root") from None


def _opened(directory: str) -> Root:
    given = os.path.abspath(directory)
    try:
        real = os.path.realpath(given, strict=True)
        return Root(os.open(real, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), given, real)
    except (OSError, ValueError) as error:
        raise ValueError(f"{directory} cannot be a root: {getattr(error, 'strerror', None) or error}") from error


class _Walk:
    """One path on its way. Every directory on it stays open until the end."""

    def __init__(self, roots: Sequence[Root], path: str, make_folders: bool) -> None:
        self._roots = roots
        self._path = path
        self._make = make_folders
        self._open: list[int] = []
        self._names: list[str] = []
        self._root = roots[0]
        self._left: deque[str] = deque(_parts(path))
        if path.startswith("/"):
            self._jump(path)
        self._turns = 0

    def close(self) -> None:
        """Close the directories."""
        for fd in self._open:
            os.close(fd)
        self._open = []

    @property
    def _top(self) -> int:
        return self._open[-1] if self._open else self._root.fd

    def place(self) -> Place:
        """Walk to the end."""
        while self._left:
            part = self._left.popleft()
            if part == "..":
                self._up()
                continue
            found = self._look(part)
            if found is not None and stat.S_ISLNK(found.st_mode):
                self._follow(part)
            elif not self._left:
                return Place(self._top, part, self._path, found, self._root, (*self._names, part))
            else:
                self._enter(part, found)
        there = os.stat(".", dir_fd=self._top)
        return Place(self._top, ".", self._path, there, self._root, tuple(self._names))

    def _look(self, part: str) -> os.stat_result | None:
        try:
            return os.stat(part, dir_fd=self._top, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _up(self) -> None:
        if self._open:
            os.close(self._open.pop())
            self._names.pop()
        else:
            self._jump(os.path.normpath(os.path.join(self._root.real, "..", *self._left)))

    def _jump(self, path: str) -> None:
        """Go on at an absolute path, if one of the roots lies above it."""
        parts = _parts(path)
        for root in sorted(self._roots, key=lambda root: -len(root.real)):
            for start in (_parts(root.given), _parts(root.real)):
                if parts[: len(start)] == start:
                    self.close()
                    self._names.clear()
                    self._root, self._left = root, deque(parts[len(start) :])
                    return
        raise OutsideRoot(self._path, self._roots)

    def _follow(self, part: str) -> None:
        self._count()
        try:
            target = os.readlink(part, dir_fd=self._top)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOENT):
                raise
            self._left.appendleft(part)  # it was a link a moment ago: look again
            return
        if target.startswith("/"):
            self._jump("/".join((target, *self._left)))
        else:
            self._left.extendleft(reversed(_parts(target)))

    def _enter(self, part: str, found: os.stat_result | None) -> None:
        if found is None:
            if not self._make or ".." in self._left:
                raise FileError(f"there is no directory {shown(self._here(part))}", "NOT_FOUND")
            with suppress(FileExistsError):  # somebody else has made it; what it is will be looked at
                os.mkdir(part, dir_fd=self._top)
        elif not stat.S_ISDIR(found.st_mode):
            raise FileError(f"{shown(self._here(part))} is no directory", "NOT_DIRECTORY")
        try:
            self._open.append(os.open(part, _FOLDER, dir_fd=self._top))
            self._names.append(part)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.ENOENT):
                raise
            self._count()
            self._left.appendleft(part)  # it has changed since it was looked at: look again

    def _here(self, part: str) -> str:
        return "/".join((*self._names, part))

    def _count(self) -> None:
        self._turns += 1
        if self._turns > _LINKS:
            raise FileError(f"{shown(self._path)}: too many links, or the tree changes all the time", "ELOOP")


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]
