"""The reference harness with a fault in it, as an adapter process; a control line changes the fault.

Beside the requests of the protocol it reads lines `{"fault": {…}}` or `{"fault": null}`: throw the world away, take the
last fault out, put this one in. Such a line has no reply. A fault that does not fit ends the process.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

import anyio
import anyio.to_thread

from loopconform.adapters.python_reference.__main__ import say
from loopconform.adapters.python_reference.serve import Server
from loopconform.mutants.patch import Fault, Switch
from loopconform.protocol.requests import REQUEST
from loopconform.runner.channel import ProcessChannel, now

READY = "ready"
"""What the process says on stderr once it can serve: starting takes longer than any answer."""
START = 120.0
"""Seconds that starting may take on a busy machine."""


async def _serve() -> None:
    switch = Switch()
    print(READY, file=sys.stderr, flush=True)
    async with anyio.create_task_group() as group:
        server = Server(group, say)
        while line := await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            fields = json.loads(line)
            if "fault" in fields:
                await server._close()
                switch.to(None if fields["fault"] is None else Fault(**fields["fault"]))
            elif not await server.answer(fields.pop("id"), REQUEST.validate_python(fields)):
                break
        group.cancel_scope.cancel()


def serve() -> None:
    """Serve until the other side has gone."""
    logging.getLogger("loopharness").setLevel(logging.CRITICAL)
    anyio.run(_serve)


class FaultyChannel(ProcessChannel):
    """The line to such a process."""

    def __init__(self, fault: Fault | None) -> None:
        super().__init__(f"{sys.executable} -m loopconform.mutants serve")
        until = now() + START
        while READY not in self.stderr and self._process.poll() is None and now() < until:
            time.sleep(0.02)
        self.put(fault)

    def put(self, fault: Fault | None) -> None:
        """Have this fault in place from the next request on."""
        line = json.dumps({"fault": None if fault is None else fault._asdict()}) + "\n"
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(line.encode())


class Stage:
    """Starts such processes for a `Player`, and keeps the last one to change its fault."""

    def __init__(self) -> None:
        self._fault: Fault | None = None
        self._channel: Any = None

    def start(self) -> FaultyChannel:
        """A new process, with the fault of now."""
        self._channel = FaultyChannel(self._fault)
        return self._channel  # type: ignore[no-any-return]

    def set(self, fault: Fault | None) -> None:
        """Change the fault, in the process too when there is one that lives."""
        self._fault = fault
        if self._channel is not None:
            try:
                self._channel.put(fault)
            except (OSError, ValueError):
                self._channel = None  # it was closed: the player will start another
