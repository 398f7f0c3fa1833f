"""A file system in memory that can die: at the n-th operation, in the middle of a write, with or without the power.

What is not synced is lost when the power goes; a killed process loses nothing that it has written. After its death
every operation fails, and changes nothing, until `reborn` makes a file system of what is left.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final, Literal

from loopharness.store.errors import SessionAlreadyOwnedError
from loopharness.store.files import owned_text

__all__ = ["Crash", "Dead", "MemoryFiles"]

Crash = Literal["process", "power"]
"""What died: the process, or the machine under it."""


class Dead(OSError):
    """The process that called is dead; this is how the rest of it finds out."""


class _Node:
    """Content of one file: as processes see it, and as the medium has it."""

    __slots__ = ("content", "synced")

    def __init__(self, content: bytes = b"", synced: bytes = b"") -> None:
        self.content = bytearray(content)
        self.synced = synced


class MemoryFiles:
    """Implements `Files`. `stop_at` is the number of the operation that does not happen any more, counted from 1.

    `partial` is how many bytes of a write that is the stopping operation still arrive. `operations` are the names of
    those that did happen, in order.
    """

    def __init__(self, stop_at: int | None = None, partial: int = 0) -> None:
        self.stop_at = stop_at
        self.partial = partial
        self.operations: list[str] = []
        self.dead = False
        self.fail_next: dict[str, OSError] = {}
        """Operations that fail once, by name, and leave the process alive."""
        self._names: dict[Path, _Node] = {}
        self._synced_names: dict[Path, _Node] = {}
        self._folders: set[Path] = set()
        self._locks: set[Path] = set()
        self._guard: Final = threading.Lock()

    # -- what a test does with it

    def reborn(self, crash: Crash = "process") -> MemoryFiles:
        """The file system after a crash right now: nothing is locked, and nothing stops."""
        after = MemoryFiles()
        with self._guard:
            after._folders = set(self._folders)
            source = self._names if crash == "process" else self._synced_names
            for path, node in source.items():
                content = bytes(node.content) if crash == "process" else node.synced
                after._names[path] = after._synced_names[path] = _Node(content, content)
        return after

    def put(self, path: Path, content: bytes) -> None:
        """Place a file, and the folders above it."""
        self._folders |= set(path.parents)
        self._names[path] = self._synced_names[path] = _Node(content, content)

    def content(self, path: Path) -> bytes:
        """What a process would read."""
        return bytes(self._names[path].content)

    def paths(self) -> list[Path]:
        """Every file, sorted."""
        return sorted(self._names)

    # -- Files

    def names(self, folder: Path) -> list[str]:
        """See `Files`."""
        with self._guard:
            inside = [path for path in (*self._names, *self._folders) if path.parent == folder]
            return sorted({path.name for path in inside})

    def read(self, path: Path, limit: int = -1) -> bytes:
        """See `Files`."""
        with self._guard:
            if path not in self._names:
                raise FileNotFoundError(2, "No such file", str(path))
            content = bytes(self._names[path].content)
            return content if limit < 0 else content[:limit]

    def make_folder(self, folder: Path) -> None:
        """See `Files`."""
        for each in (*reversed(folder.parents), folder):
            if each not in self._folders:
                self.begin("make folder")
                self._folders.add(each)

    def create(self, path: Path, data: bytes) -> None:
        """See `Files`."""
        with self._guard:
            if path in self._names:
                raise FileExistsError(17, "File exists", str(path))
            node = _Node()
        self.begin("create file")
        self._names[path] = node
        self.begin("write file", node, 0, data)
        node.content[:] = data
        self.begin("sync file")
        node.synced = bytes(node.content)

    def link(self, source: Path, target: Path) -> None:
        """See `Files`."""
        if target in self._names:
            raise FileExistsError(17, "File exists", str(target))
        self.begin("link")
        self._names[target] = self._names[source]

    def remove(self, path: Path) -> None:
        """See `Files`."""
        self.begin("remove")
        self._names.pop(path, None)

    def sync_folder(self, folder: Path) -> None:
        """See `Files`."""
        self.begin("sync folder")
        for path in [path for path in self._synced_names if path.parent == folder]:
            del self._synced_names[path]
        self._synced_names |= {path: node for path, node in self._names.items() if path.parent == folder}

    def open(self, path: Path) -> _MemoryFile:
        """See `Files`."""
        if path not in self._names:
            raise FileNotFoundError(2, "No such file", str(path))
        return _MemoryFile(self, self._names[path])

    def lock(self, path: Path, session_id: str) -> _MemoryLock:
        """See `Files`."""
        with self._guard:
            if path in self._locks:
                raise SessionAlreadyOwnedError(owned_text(session_id, "somebody in this memory"))
            self._locks.add(path)
        return _MemoryLock(self._locks, path)

    def has_name(self, path: Path, node: _Node) -> bool:
        """Whether that file has that name."""
        return self._names.get(path) is node

    def begin(self, name: str, node: _Node | None = None, at: int = 0, data: bytes = b"") -> None:
        """Count one operation; stop, or fail, where that was asked for."""
        with self._guard:
            if self.dead:
                raise Dead(5, "the process is dead")
            if self.stop_at is not None and len(self.operations) + 1 >= self.stop_at:
                self.dead = True
                if node is not None:
                    node.content[at:] = data[: self.partial]
                raise Dead(5, f"killed at operation {self.stop_at}: {name}")
            failure = self.fail_next.pop(name, None)
            if failure is not None:
                if node is not None:
                    node.content[at:] = data[: self.partial]
                raise failure
            self.operations.append(name)


class _MemoryFile:
    def __init__(self, files: MemoryFiles, node: _Node) -> None:
        self._files = files
        self._node = node

    def size(self) -> int:
        return len(self._node.content)

    def has_name(self, path: Path) -> bool:
        return self._files.has_name(path, self._node)

    def read(self, size: int) -> bytes:
        return bytes(self._node.content[:size])

    def write(self, at: int, data: bytes) -> None:
        self._files.begin("write", self._node, at, data)
        self._node.content[at : at + len(data)] = data

    def sync(self) -> None:
        self._files.begin("sync")
        self._node.synced = bytes(self._node.content)

    def cut(self, size: int) -> None:
        self._files.begin("cut")
        del self._node.content[size:]

    def close(self) -> None:
        pass


class _MemoryLock:
    def __init__(self, locks: set[Path], path: Path) -> None:
        self._locks = locks
        self._path = path

    def release(self) -> None:
        self._locks.discard(self._path)
