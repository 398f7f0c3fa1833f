"""Bytes to physical rows. The walker is the one that the reference store reads with; it decides nothing."""

from loopharness.store.container import (
    MAGIC,
    ROW_LIMIT,
    TEXT_LIMIT_AFTER_OVERSIZE,
    WINDOW_LIMIT,
    FrameEnd,
    Item,
    RawRow,
    Rows,
    batches,
    is_zstd,
    rows,
)

__all__ = [
    "MAGIC",
    "ROW_LIMIT",
    "TEXT_LIMIT_AFTER_OVERSIZE",
    "WINDOW_LIMIT",
    "FrameEnd",
    "Item",
    "RawRow",
    "Rows",
    "batches",
    "is_zstd",
    "rows",
]
