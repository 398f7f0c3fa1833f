"""Work that makes many objects and throws few away goes without the collector of cycles meanwhile."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["collector_paused"]

_pausing: Final = threading.Lock()


@contextmanager
def collector_paused() -> Iterator[None]:
    """No collection while a log is read or checked, or a graph explored: it would walk over all that is kept, in vain.

    The few cycles that such work leaves behind, a parser's for instance, wait for the next full collection. What was
    made joins the oldest generation unseen (that is what freezing and unfreezing at once does), unless the program has
    frozen objects of its own. Else the collector would walk through all of it at its next chance.

    Nothing happens where the collector is off already, or another thread pauses it.
    """
    if not gc.isenabled() or not _pausing.acquire(blocking=False):
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:
            gc.freeze()
            gc.unfreeze()
        gc.enable()
        _pausing.release()
