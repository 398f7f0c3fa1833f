"""The kernel as one value, so that the same tests can be run against broken copies of it."""

from __future__ import annotations

import pytest
from tests.spec.kernel_copy import Kernel


@pytest.fixture(scope="session")
def kernel() -> Kernel:
    """Return the kernel as it is."""
    return Kernel()
