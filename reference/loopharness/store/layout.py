"""Where session files lie under a root, and which of them counts (S-DSK-1 to S-DSK-5).

    <root>/<project key>/<session segment>/session.v4.jsonl.zstd

One root uses one encoding, zstd or plain. Of several generations the highest counts; older ones stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from loopharness.store.errors import SessionPersistenceCorruptionError
from loopharness.store.files import Files
from loopspec.log.place import generation, project_key, session_segment

__all__ = ["LOCK_NAME", "NO_CWD", "Artifact", "Compression", "Layout", "default_root"]

Compression = Literal["zstd", "none"]

NO_CWD: Final = "_no-cwd"
"""The project directory of sessions without a working directory."""

LOCK_NAME: Final = "session.lock"
NAME_LIMIT: Final = 255
"""Longest file name, in bytes, that common file systems take."""


class Artifact(NamedTuple):
    """One stored session: its file, its directory, and the format that the file name tells."""

    path: Path
    folder: Path
    version: int


def default_root() -> Path:
    """`~/.dsh/sessions`, where sessions lie when nobody says otherwise (S-DSK-1)."""
    return Path.home() / ".dsh" / "sessions"


class Layout:
    """The paths of one root directory. Every method reads directories at most, and only through `files`."""

    def __init__(self, root: Path, files: Files, compression: Compression = "zstd") -> None:
        self.root: Final = root.absolute()
        self.compression: Final = compression
        self.suffix: Final = ".jsonl.zstd" if compression == "zstd" else ".jsonl"
        self._other: Final = ".jsonl" if compression == "zstd" else ".jsonl.zstd"
        self._files: Final = files

    def file_name(self, version: int) -> str:
        """The name of a session file of that format (S-DSK-5)."""
        return f"session{f'.v{version}' if version else ''}{self.suffix}"

    def folder_of(self, header: Mapping[str, Any]) -> Path:
        """The directory of a session with this header. Raises `ValueError` for an id that no directory can have."""
        segment = session_segment(header["id"])
        if not segment:
            raise ValueError("a session id must not be empty")
        if len(segment) > NAME_LIMIT:
            raise ValueError(
                f"session id {header['id'][:40]!r}… needs a directory name of {len(segment)} bytes; "
                f"file systems take {NAME_LIMIT}"
            )
        cwd = header.get("cwd")
        return self.root / (NO_CWD if cwd is None else project_key(cwd)) / segment

    def path_of(self, header: Mapping[str, Any]) -> Path:
        """The file of a session with this header, in the format it names."""
        return self.folder_of(header) / self.file_name(header["version"])

    def find(self, session_id: str) -> Artifact | None:
        """The stored session of that id, or `None` (S-DSK-4).

        Raises `SessionPersistenceCorruptionError` when what is stored is not one session in one place.
        """
        segment = session_segment(session_id)
        if not segment or len(segment) > NAME_LIMIT:
            return None
        found = [
            artifact
            for project in self._files.names(self.root)
            if (artifact := self._look(self.root / project, segment)) is not None
        ]
        if len(found) > 1:
            places = " and ".join(str(artifact.folder) for artifact in found)
            raise SessionPersistenceCorruptionError(
                f'session "{session_id}" is stored in two projects: {places}. Move one of them away'
            )
        return found[0] if found else None

    def projects(self) -> list[Path]:
        """Every directory that may hold the sessions of one working directory, by name."""
        return [self.root / name for name in self._files.names(self.root)]

    def folders(self, project: Path) -> list[Path]:
        """Every directory of a project that may hold a session, by name. Raises `OSError`."""
        return [project / name for name in self._files.names(project)]

    def artifact_in(self, folder: Path) -> Artifact | None:
        """The session file that counts in a session directory. Raises `SessionPersistenceCorruptionError`."""
        names = self._files.names(folder)
        wrong = [name for name in names if _is_log(name) and not self._fits(name)]
        if wrong:
            raise SessionPersistenceCorruptionError(
                f"{folder / wrong[0]} is {'not ' if self.compression == 'zstd' else ''}compressed, but this root "
                f'is used with compression "{self.compression}". Use one root for one encoding'
            )
        versions = [number for name in names if (number := generation(name)) is not None]
        if not versions:
            return None
        version = max(versions)
        return Artifact(folder / self.file_name(version), folder, version)

    def _look(self, project: Path, segment: str) -> Artifact | None:
        for suffix in (self.suffix, self._other):
            flat = f"{segment}{suffix}"
            if flat in self._files.names(project):
                raise SessionPersistenceCorruptionError(
                    f"{project / flat} is a session file outside a session directory; this layout is not supported. "
                    f"Move it to {project / segment / self.file_name(0)}"
                )
        return self.artifact_in(project / segment)

    def _fits(self, name: str) -> bool:
        return name.endswith(self.suffix) and not (self.suffix == ".jsonl" and name.endswith(".jsonl.zstd"))


def _is_log(name: str) -> bool:
    return generation(name) is not None
