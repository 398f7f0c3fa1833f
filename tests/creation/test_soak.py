"""The soak in small; `make soak` is the whole."""

from __future__ import annotations

import pytest
from tests.creation.soak import grown, soak

pytestmark = pytest.mark.anyio


async def test_nothing_grows_over_300_lives() -> None:
    first, last = await soak(300)
    assert grown(first, last) == []
