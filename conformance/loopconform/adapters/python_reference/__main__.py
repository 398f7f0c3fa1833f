"""`python -m loopconform.adapters.python_reference [asyncio|trio] [law]`: the adapter over stdio."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.to_thread

from loopconform.adapters.python_reference.serve import serve
from loopconform.protocol.requests import REQUEST


def say(reply: Any) -> None:
    """One reply, one line."""
    sys.stdout.write(reply.model_dump_json() + "\n")
    sys.stdout.flush()


async def requests() -> AsyncIterator[tuple[int, Any]]:
    """The requests on stdin. Reading waits in a thread, and never while a request is being answered."""
    while line := await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
        fields = json.loads(line)
        id = fields.pop("id")
        yield id, REQUEST.validate_python(fields)


def main() -> None:
    """Serve until the other side has gone."""
    logging.getLogger("loopharness").setLevel(logging.CRITICAL)
    backend, only = (*sys.argv[1:], "asyncio")[0], sys.argv[2] if len(sys.argv) > 2 else None
    anyio.run(serve, requests(), say, only, backend=backend)


if __name__ == "__main__":
    main()
