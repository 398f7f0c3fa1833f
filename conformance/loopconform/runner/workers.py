"""Work that is shared among adapters: each worker asks one of its own, and Ctrl-C ends them all at once."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeVar

from loopconform.runner.channel import Channel
from loopconform.runner.play import RENEW, Player

Start = Callable[[], Channel]
T = TypeVar("T")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C. `made`: what was done by then, in order."""

    def __init__(self, made: list[Any]) -> None:
        super().__init__()
        self.made = made


class _Stopped(Exception):
    """No adapter is started any more."""


class _Adapters:
    """The adapters that the workers are asking now."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._asked: dict[int, Channel] = {}
        self.stopped = False

    def starter(self, worker: int) -> Start:
        """What starts the adapter of one worker, its first and each later one."""

        def started() -> Channel:
            channel = self._start()
            with self._lock:
                self._asked[worker] = channel
                if not self.stopped:
                    return channel
            channel.close()
            raise _Stopped

        return started

    def stop(self) -> None:
        """Let everybody go on who waits for a reply, and nobody start anything."""
        with self._lock:
            self.stopped = True
            asked = tuple(self._asked.values())
        for channel in asked:
            channel.abandon()


def in_parallel(start: Start, count: int, work: Callable[[Player, int], T], workers: int, timeout: float) -> list[T]:
    """What `work` makes of each number below `count`, in order.

    What one worker raises ends it, and is raised when the others are done. Ctrl-C ends the adapters, and raises
    `Interrupted` with what had been made; what was being asked then counts for nothing.
    """
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    for at in range(count):
        todo.put(at)
    adapters = _Adapters(start)
    made: dict[int, T] = {}

    def run(worker: int) -> None:
        player = Player(adapters.starter(worker), timeout, renew=RENEW)
        try:
            while not adapters.stopped:
                try:
                    at = todo.get_nowait()
                except queue.Empty:
                    return
                done = work(player, at)
                if not adapters.stopped:
                    made[at] = done
        finally:
            player.close()

    crew = max(1, min(workers, count))
    with ThreadPoolExecutor(crew) as pool:
        shifts = [pool.submit(run, worker) for worker in range(crew)]
        try:
            wait(shifts)
        except KeyboardInterrupt:
            adapters.stop()
            wait(shifts)
            raise Interrupted([made[at] for at in sorted(made)]) from None
    for shift in shifts:
        shift.result()
    return [made[at] for at in sorted(made)]
