"""Shared fixtures of the harness tests: every asynchronous test runs under asyncio and under trio."""

from __future__ import annotations

import pytest

from loopharness.bus import Bus


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The two backends that the harness promises to run on."""
    return str(request.param)


@pytest.fixture
def bus() -> Bus:
    """A fresh bus."""
    return Bus()
