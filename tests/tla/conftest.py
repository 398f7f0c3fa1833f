"""TLC and Java come with the dev extra; a bare installation skips what needs them, and says so."""

from __future__ import annotations

import pytest

from loopconform.tla.tlc import Missing, jar, java


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `tlc` are skipped where TLC is not installed."""
    try:
        java()
        jar()
    except Missing as missing:
        for item in items:
            if "tlc" in item.keywords:
                item.add_marker(pytest.mark.skip(reason=str(missing)))


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", "tlc: runs TLC (a Java process of seconds)")
