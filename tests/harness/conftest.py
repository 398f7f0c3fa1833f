"""Shared fixtures of the harness tests: every asynchronous test runs under asyncio and under trio."""

from __future__ import annotations

import pytest

from loopharness.bus import Bus
from loopharness.model.service import LlmService
from loopharness.tools.pipeline import ToolPipeline
from loopharness.tools.registry import ToolRegistry


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The two backends that the harness promises to run on."""
    return str(request.param)


@pytest.fixture
def bus() -> Bus:
    """A fresh bus."""
    return Bus()


@pytest.fixture
def registry(bus: Bus) -> ToolRegistry:
    """A registry of tools on the bus."""
    return ToolRegistry(bus)


@pytest.fixture
def pipeline(bus: Bus, registry: ToolRegistry) -> ToolPipeline:
    """A pipeline over the registry."""
    return ToolPipeline(bus, registry)


@pytest.fixture
def service(bus: Bus) -> LlmService:
    """A model service on the bus."""
    return LlmService(bus)
