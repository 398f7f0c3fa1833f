"""The order of the tests: what takes long comes first, so that no worker is left with it when the others are done.

With `--dist worksteal`, as in `make test`, each worker takes one stretch of the list, and one that has nothing left
takes from the end of another's. So a file stays with one worker as a rule, and what it explores once is not explored
twice; and at the end there is nothing left to steal but short tests.
"""

from __future__ import annotations

import pytest

LONG = (
    "tests/tla/test_trace.py",
    "tests/tla/",
    "tests/conformance/test_kills.py",
    "tests/stateful/",
    "tests/spec/test_driver_",
    "tests/spec/test_creation_",
    "tests/spec/test_scheduler_explorations.py",
    "tests/creation/test_programs.py",
    "tests/creation/test_soak.py",
)
"""What takes seconds a test, the longest first."""


def rank(item: pytest.Item) -> int:
    """The place of a test among the long ones; behind them it stays in its order."""
    return next((place for place, start in enumerate(LONG) if item.nodeid.startswith(start)), len(LONG))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long ones first."""
    items.sort(key=rank)
