"""Every asynchronous test of compaction runs under asyncio and under trio."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The two backends that the harness promises to run on."""
    return str(request.param)
