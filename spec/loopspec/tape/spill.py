"""Results whose full text was stored outside the log: recognising a preview, and putting the text back.

A tool can print anything, a preview that names somebody else's file included. So a locator that was read out of
a text is only a question to the store; whatever the store has not issued for that very result is plain text
(RC-38). Reading is the harness's business: here a stored text is a value in a mapping.

Rules: RC-30, RC-35, RC-37, RC-38, FD-50.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from loopspec.tape.entry import expand_result
from loopspec.tape.recall import RecallError

_FOLD_PREVIEW: Final = re.compile(r"\[.* · full text \(([0-9]{1,18}) bytes\) stored at (.+?) — .*\]")
_HOST_NOTICE: Final = re.compile(
    r"(?:\A|\n\n)\(Omitted [0-9]{1,18} bytes\.(?: Omitted [0-9]{1,18} images?\.)? "
    r"Full formatted result stored at: ([^\n]+)\. "
    r"Use read with offset/limit, or grep this path to search within it\.\)\Z"
)

Owned = Callable[[str], bool]
"""Whether our own store issued a locator for the result at hand."""

Stored = Mapping[str, str | Exception]
"""What the store said about each locator: its text, or why it cannot be read."""


class Part(NamedTuple):
    """One text part of a result as logged. With a `locator` the text is a preview of `size` bytes elsewhere."""

    text: str
    locator: str | None = None
    size: int | None = None
    whole: bool = False
    """The stored text stands for all parts of the result."""


def fold_preview(text: str) -> tuple[str, int] | None:
    """RC-37a  Locator and size in bytes that the first line of a fold preview names."""
    match = _FOLD_PREVIEW.fullmatch(text.split("\n", 1)[0])
    return None if match is None else (match[2], int(match[1]))


def host_notice(text: str) -> str | None:
    """RC-37b  The locator in a notice at the end of a text."""
    match = _HOST_NOTICE.search(text)
    return None if match is None else match[1]


def parts(texts: Sequence[str], owned: Owned) -> list[Part]:
    """RC-37, RC-38  The text parts of a result, previews recognised where the store owns what they name."""
    return [_part(text, at, len(texts), owned) for at, text in enumerate(texts)]


def _part(text: str, at: int, count: int, owned: Owned) -> Part:
    preview = fold_preview(text)
    if preview is not None and owned(preview[0]):
        return Part(text, *preview)
    notice = host_notice(text)
    if notice is not None and owned(notice):
        return Part(text, notice, None, whole=count > 1 and at == count - 1)
    return Part(text)


def locators(found: Sequence[Part]) -> list[str]:
    """What has to be read to put the texts back."""
    return [part.locator for part in found if part.locator is not None]


def full_text(where: str, found: Sequence[Part], stored: Stored) -> str:
    """RC-35, RC-37  The whole text of a result. Raises `RecallError` when a stored part cannot be read."""
    texts: list[str] = []
    for part in found:
        if part.locator is None:
            texts.append(part.text)
            continue
        text = stored[part.locator]
        if isinstance(text, Exception):
            size = "unknown" if part.size is None else str(part.size)
            raise RecallError(
                f"expand_result: the full text of {where} ({size} bytes) was stored at {part.locator} and cannot be "
                f"read from here ({text}); read that locator with the file tools instead"
            )
        if part.whole:
            return text
        texts.append(text)
    return "\n".join(texts)


def shown_parts(seq: int, found: Sequence[Part], stored: Stored) -> tuple[list[str], bool]:
    """RC-30  The parts as a step page prints them, and whether a preview remains."""
    lines: list[str] = []
    preview = False
    for number, part in enumerate(found, 1):
        text = part.text if part.locator is None else stored[part.locator]
        if isinstance(text, str):
            if part.whole:
                return [text], False
            lines.append(text)
            continue
        preview = True
        size = "full text" if part.size is None else f"{part.size} bytes"
        lines.append(
            f"[text part {number} preview — NOT full output; {size} stored at {part.locator}; "
            f"full text: {expand_result(seq)}]"
        )
        lines.append(f"[spill unavailable: {text}]")
        lines.append(part.text)
    return lines, preview
