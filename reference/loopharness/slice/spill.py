"""Full texts kept outside the log, in one folder that only this store writes (FD-50, RC-37, RC-38).

A locator is the path of a file whose name nobody can guess: it is signed for the session and the very call whose
result it holds. So a path that some tool has printed is ours only if we have issued it for that result.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
from hashlib import sha256
from pathlib import Path
from typing import Final

import anyio.to_thread

from loopspec.tape.text import utf8

__all__ = ["SpillStore"]

_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class SpillStore:
    """Stored texts below one folder, which is made when the first text comes, readable by its owner only."""

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder.absolute()
        self._key: bytes | None = None

    def locator(self, session: str, place: tuple[int, int, str], tool: str) -> str:
        """Where the text of the result of a call (turn, step, call id) is kept, or would be."""
        signature = self._sign(session, place)
        name = tool if _PLAIN.fullmatch(tool) else "tool"
        return str(self.folder / f"{signature}-{name}.txt")

    def owns(self, session: str, place: tuple[int, int, str], locator: str) -> bool:
        """Whether this store issued the locator for the result of that call. The file may be gone."""
        if self._key is None and not (self.folder / "key").is_file():
            return False
        folder, _, name = locator.rpartition(os.sep)
        signature, _, rest = name.partition("-")
        issued = folder == str(self.folder) and _PLAIN.fullmatch(rest.removesuffix(".txt")) is not None
        return issued and rest.endswith(".txt") and hmac.compare_digest(signature, self._sign(session, place))

    async def write(self, locator: str, text: str) -> None:
        """Keep a text. Raises `OSError`."""
        await anyio.to_thread.run_sync(self._write, locator, text)

    async def read(self, locator: str) -> str:
        """The text behind a locator that this store owns. Raises `OSError`, also when it is not a plain file."""
        return await anyio.to_thread.run_sync(self._read, locator)

    def _write(self, locator: str, text: str) -> None:
        path = Path(locator)
        waiting = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        descriptor = os.open(waiting, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(utf8(text))
            waiting.replace(path)
        except BaseException:
            waiting.unlink(missing_ok=True)
            raise

    def _read(self, locator: str) -> str:
        descriptor = os.open(locator, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as file:
            return file.read().decode()

    def _sign(self, session: str, place: tuple[int, int, str]) -> str:
        turn, step, call = place
        message = "\0".join((session, str(turn), str(step), call))
        return hmac.new(self._secret(), utf8(message), sha256).hexdigest()[:32]

    def _secret(self) -> bytes:
        if self._key is None:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = self.folder / "key"
            try:
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(descriptor, "wb") as file:
                    file.write(secrets.token_bytes(32))
            except FileExistsError:
                pass
            self._key = path.read_bytes()
        return self._key
