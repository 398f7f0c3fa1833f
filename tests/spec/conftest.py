"""The kernel as one value, so that the same tests can be run against broken copies of it; and no collector."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.spec.kernel_copy import Kernel

from loopharness.collector import collector_paused


@pytest.fixture(scope="session")
def kernel() -> Kernel:
    """Return the kernel as it is."""
    return Kernel()


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    """A search keeps everything it makes: the collector would only walk over it again and again."""
    with collector_paused():
        yield
