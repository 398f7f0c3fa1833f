"""Running a command: in a process group of its own, with a time limit, an output limit, and an end that is an end.

When the time is over or the call is cancelled, the whole group is asked to end and, after a moment, killed. The same
happens to what a command has left running in its group when it ends: nothing outlives the call, and a background
process that holds the output open does not hold the call. A process that leaves the group by itself is out of reach:
this is no sandbox.
"""

from __future__ import annotations

import os
import signal as signals
import subprocess
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple

import anyio
import anyio.abc

from loopharness.signal import Signal
from loopharness.workspace.limits import FileError, Limits, shown
from loopharness.workspace.roots import Roots

__all__ = ["KEPT_VARIABLES", "Ran", "run"]

KEPT_VARIABLES: Final = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
"""What a command sees of the environment. Keys and tokens are not among it: what a command prints goes into the log."""


class Ran(NamedTuple):
    """What came of a command. `how` is `ended`, `timed out` or `cancelled`; `code` is negative for a signal."""

    how: str
    code: int
    output: str


class _Output:
    """The beginning and the end of what was printed; what lies between is counted."""

    def __init__(self, limit: int) -> None:
        self._half = max(1, limit // 2)
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._dropped = 0

    def take(self, chunk: bytes) -> None:
        """One more piece."""
        room = self._half - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if not chunk:
            return
        self._tail.append(chunk)
        self._tail_size += len(chunk)
        while self._tail_size > self._half:
            over = self._tail_size - self._half
            first = self._tail.popleft()
            if len(first) > over:
                self._tail.appendleft(first[over:])
            gone = min(len(first), over)
            self._tail_size -= gone
            self._dropped += gone

    @property
    def text(self) -> str:
        """What is shown."""
        tail = b"".join(self._tail)
        if not self._dropped:
            return (bytes(self._head) + tail).decode("utf-8", "replace")
        gap = f"\n[… {self._dropped:,} bytes left out …]\n"
        return self._head.decode("utf-8", "replace") + gap + tail.decode("utf-8", "replace")


async def run(
    roots: Roots,
    command: str,
    cwd: str,
    seconds: float,
    limits: Limits,
    signal: Signal,
    environment: Mapping[str, str],
) -> Ran:
    """Run a shell command in a directory inside the roots, and wait for its end, whatever that is.

    Raises `OutsideRoot` and `FileError` for the directory, and `FileError` for a command that cannot be started.
    """
    if "\0" in command:
        raise FileError("the command holds a NUL character", "COMMAND")
    with roots.find(cwd) as place:
        fd = place.open_folder()
        real = place.real
    try:
        process = await _start(command, fd, real, environment)
    finally:
        os.close(fd)
    output = _Output(limits.output)
    try:
        how = await _watched(process, output, seconds, limits, signal)
    finally:
        with anyio.CancelScope(shield=True):
            _kill(process, signals.SIGKILL)
            await process.wait()
            await process.aclose()
    assert process.returncode is not None
    return Ran(how, process.returncode, output.text)


async def _start(command: str, fd: int, real: str, environment: Mapping[str, str]) -> anyio.abc.Process:
    # The open directory itself where the system can say it, so that nobody can exchange it; else its path.
    own = f"/proc/self/fd/{fd}"
    where = own if os.path.isdir(own) else real
    try:
        return await anyio.open_process(
            ["/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=where,
            env={**environment, "PWD": real},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"the command cannot be started in {shown(real)}: {reason}", "COMMAND") from error


async def _watched(process: anyio.abc.Process, output: _Output, seconds: float, limits: Limits, signal: Signal) -> str:
    """Wait for the end of the command, or for a reason to end it; then for the end of its output."""
    read = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(_read, process, output, read)
        how = await _first(process, seconds, signal)
        if how != "ended":
            _kill(process, signals.SIGTERM)
            with anyio.move_on_after(limits.grace_seconds):
                await process.wait()
        # What was printed before is still in the pipe. Whoever is left in the group may hold that open for ever.
        _kill(process, signals.SIGKILL)
        await process.wait()
        with anyio.move_on_after(limits.grace_seconds):
            await read.wait()
        group.cancel_scope.cancel()
    return how


async def _first(process: anyio.abc.Process, seconds: float, signal: Signal) -> str:
    """What happens first."""
    how = "ended"
    with anyio.move_on_after(seconds) as patience:
        async with anyio.create_task_group() as group:

            async def ends() -> None:
                await process.wait()
                group.cancel_scope.cancel()

            group.start_soon(ends)
            await signal.wait()
            how = "cancelled"
            group.cancel_scope.cancel()
    return "timed out" if patience.cancelled_caught else how


async def _read(process: anyio.abc.Process, output: _Output, done: anyio.Event) -> None:
    assert process.stdout is not None
    with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
        while True:
            output.take(await process.stdout.receive())
    done.set()


def _kill(process: anyio.abc.Process, number: int) -> None:
    """Send a signal to the whole group of a command; nobody is left to get it when all have ended."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
