"""The line to an adapter: a process of its own, or the reference harness in this one.

Whatever an adapter does, a channel needs bounded time and memory: replies wait in a short queue (a flood waits in the
pipe), lines have a greatest length, stderr is read and mostly forgotten, and every wait has an end.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shlex
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Protocol

from pydantic import ValidationError

from loopconform.adapters.python_reference.inside import Backend, Inside
from loopconform.protocol.replies import read_reply
from loopconform.protocol.requests import write_request
from loopspec.profile import PROFILES

LONGEST_LINE = 4 << 20
"""Bytes of one reply."""
QUEUE = 256
"""Replies that are read ahead."""
STDERR_KEPT = 8 << 10
"""Bytes of stderr that are kept for the report: the last ones."""

REFERENCE = "python-reference"
"""The name of the adapter that needs no process. `python-reference:dsh-0.1` is one that follows that law only."""


class AdapterError(Exception):
    """The adapter broke the protocol, fell silent, or died."""


class Channel(Protocol):
    """One adapter that can be asked."""

    def request(self, id: int, request: Any) -> None:
        """Send a request. Raises `AdapterError` when nobody reads it."""

    def reply(self, timeout: float) -> Any:
        """The next reply. Raises `AdapterError` when none comes in time, or none that can be read."""

    def early(self) -> Any:
        """A reply that is there already, or `None`."""

    def abandon(self) -> None:
        """Let whoever waits for a reply go on without one; may be called from any thread, at any time."""

    def close(self) -> None:
        """End the adapter, at once."""


class ProcessChannel:
    """An adapter as a process in a session of its own; only that is ever ended."""

    def __init__(self, command: str, watch: Callable[[bytes, str], None] | None = None) -> None:
        """`watch` hears of every line with what is wrong with it (`--validate`). Raises `AdapterError` when the command
        cannot be started."""
        self._watch = watch
        self._replies: queue.Queue[bytes | None] = queue.Queue(QUEUE)
        self._complaint = ""
        self._stderr: deque[bytes] = deque()
        self._stderr_size = 0
        self._closed = threading.Event()
        self._abandoned = False
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise AdapterError(f"the command cannot be read: {error}") from error
        if not words:
            raise AdapterError("the command of the adapter is empty")
        try:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise AdapterError(f"{words[0]} cannot be started: {error.strerror}") from error
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._read, self._read_stderr)]
        for thread in self._threads:
            thread.start()

    # -- reading

    # Each thread closes the stream that it reads. If another did, the number of the file could be given to the next
    # adapter's pipe between two reads, and this thread would take a reply that is not for it.

    def _read(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        with stdout:
            rest = b""
            while piece := _piece(stdout, 1 << 16):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if line.strip() and not self._put(line):
                        return
                if len(rest) > LONGEST_LINE:
                    self._complaint = f"a line is longer than {LONGEST_LINE} bytes"
                    break
        self._put(None)

    def _put(self, line: bytes | None) -> bool:
        while not self._closed.is_set():
            try:
                self._replies.put(line, timeout=0.2)
            except queue.Full:
                continue
            return True
        return False

    def _read_stderr(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        with stderr:
            while not self._closed.is_set() and (piece := _piece(stderr, 1 << 13)):
                self._stderr.append(piece)
                self._stderr_size += len(piece)
                while self._stderr_size > STDERR_KEPT and len(self._stderr) > 1:
                    self._stderr_size -= len(self._stderr.popleft())

    @property
    def stderr(self) -> str:
        """The last words on stderr."""
        return b"".join(self._stderr)[-STDERR_KEPT:].decode(errors="replace").strip()

    # -- talking

    def request(self, id: int, request: Any) -> None:
        """Send a request; an adapter that does not read its stdin is given a while, and no more."""
        line = write_request(id, request)
        stdin = self._process.stdin
        assert stdin is not None
        failed: list[OSError] = []

        def write() -> None:
            try:
                stdin.write(line)
            except OSError as error:
                failed.append(error)

        if len(line) <= 4096:  # at most what a pipe takes whole, when it is empty
            write()
        else:
            writer = threading.Thread(target=write, daemon=True)
            writer.start()
            writer.join(5)
            if writer.is_alive():
                raise AdapterError("it does not read its requests")
        if failed:
            raise AdapterError(self._death())

    def reply(self, timeout: float) -> Any:
        """The next reply, read and checked."""
        try:
            line = self._replies.get(timeout=timeout)
        except queue.Empty:
            raise AdapterError(f"no reply within {timeout:g} seconds") from None
        return self._parsed(line)

    def early(self) -> Any:
        """A reply that is there already."""
        try:
            line = self._replies.get_nowait()
        except queue.Empty:
            return None
        return self._parsed(line)

    def _parsed(self, line: bytes | None) -> Any:
        if self._abandoned:
            raise AdapterError("nobody waits for it any more")
        if line is None:
            raise AdapterError(self._complaint or self._death())
        try:
            reply = read_reply(line)
        except ValidationError as error:
            problem = wrong_with(error)
            if self._watch is not None:
                self._watch(line, problem)
            raise AdapterError(f"{problem}: {line[:200].decode(errors='replace')}") from None
        if self._watch is not None:
            self._watch(line, "")
        return reply

    def _death(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        code = self._process.poll()
        if code is not None:
            self._threads[1].join(1)
        text = "it closed its stdout" if code is None else f"it ended with exit code {code}"
        return f"{text}; its last words: {self.stderr[-500:]}" if self.stderr else text

    def abandon(self) -> None:
        """As if the process had ended: it will be, when it is closed."""
        self._abandoned = True
        with contextlib.suppress(queue.Full):  # then nobody waits: there is much to read
            self._replies.put_nowait(None)

    def close(self) -> None:
        """End the process, and whatever it started in its session."""
        self._closed.set()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()


class InsideChannel:
    """The reference harness in this process, on asyncio or trio."""

    def __init__(self, backend: Backend = "asyncio", only: str | None = None) -> None:
        """`only`: the one law that it follows, whatever the suite asks for."""
        self._inside = Inside(backend, only)

    def request(self, id: int, request: Any) -> None:
        """Do a request."""
        try:
            self._inside.request(id, request, 30)
        except TimeoutError:
            raise AdapterError("the reference harness does not come to rest within 30 seconds") from None
        except Exception as error:
            raise AdapterError(f"the reference harness failed: {error!r}") from error

    def reply(self, timeout: float) -> Any:
        """The next reply."""
        if not self._inside.replies:
            raise AdapterError("the request was not closed")
        return self._inside.replies.popleft()

    def early(self) -> Any:
        """A reply that is there already."""
        return self._inside.replies.popleft() if self._inside.replies else None

    def abandon(self) -> None:
        """Nothing: here nobody waits longer than a request takes."""

    def close(self) -> None:
        """End the event loop."""
        with contextlib.suppress(Exception):
            self._inside.close()


def _piece(stream: IO[bytes], size: int) -> bytes:
    """What can be read now, at most `size` bytes; nothing at the end."""
    try:
        return os.read(stream.fileno(), size)
    except OSError:
        return b""


def wrong_with(error: ValidationError) -> str:
    """The first thing that is wrong with a message."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"not a reply of the protocol ({place + ': ' if place else ''}{first['msg']})"


def opener(
    command: str, backend: Backend = "asyncio", watch: Callable[[bytes, str], None] | None = None
) -> Callable[[], Channel]:
    """What starts an adapter anew: `python-reference` here, anything else as a command, a folder's `run` included."""
    name, _, only = command.partition(":")
    if name == REFERENCE and only in ("", *PROFILES):
        return lambda: InsideChannel(backend, only or None)
    folder = Path(command)
    if folder.is_dir() and (folder / "run").is_file():
        command = shlex.quote(str(folder / "run"))
    return lambda: ProcessChannel(command, watch)


def now() -> float:
    """Seconds, for deadlines."""
    return time.monotonic()
