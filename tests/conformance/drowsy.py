"""An adapter that plays one case and sleeps in the next: `python drowsy.py FOLDER`. It leaves its number there."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio

from loopconform.adapters.python_reference.__main__ import requests, say
from loopconform.adapters.python_reference.serve import serve


async def few() -> AsyncIterator[tuple[int, Any]]:
    """The requests, up to the second world."""
    worlds = 0
    async for id, request in requests():
        worlds += request.verb == "open"
        if worlds == 2:
            (Path(sys.argv[1]) / str(os.getpid())).touch()
            await anyio.sleep_forever()
        yield id, request


if __name__ == "__main__":
    anyio.run(serve, few(), say, None)
