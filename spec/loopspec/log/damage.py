"""What can be wrong with the bytes of a log before any of its rows means anything.

A reader reports these as values; `loopspec.log.rules.container` says which rule each one breaks. Line numbers are
physical and start at 1 (the header row); frames start at 1 and are 0 in a plain file; offsets are bytes.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

DamageKind = Literal[
    "empty-file",
    "no-header",
    "first-frame",
    "suffix-mismatch",
    "bad-magic",
    "reserved-descriptor",
    "reserved-block",
    "skippable-frame",
    "corrupt-block",
    "wrong-checksum",
    "no-checksum",
    "row-across-frames",
    "row-unfinished",
    "torn-frame",
    "torn-row",
    "bad-row-in-tail",
    "bad-row",
    "carriage-return",
    "duplicate-key",
    "number",
    "row-too-large",
    "row-too-deep",
    "window-too-large",
]


class Damage(NamedTuple):
    """One fault of the container or of a row's text. `detail` completes the sentence; `column` counts from 1."""

    kind: DamageKind
    line: int
    frame: int
    offset: int
    detail: str = ""
    column: int = 0
    survivors: int = 0
