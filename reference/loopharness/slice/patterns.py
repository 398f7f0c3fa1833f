"""Patterns that a model writes: matched in time linear in the text (RC-36, RC-39).

The dialect is RE2's, which is JavaScript's without look-around and back-references; named groups may be written
as JavaScript writes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import re2  # type: ignore[import-untyped]

from loopspec.tape.recall import RecallError
from loopspec.tape.text import quoted, utf8

__all__ = ["LONGEST_PATTERN", "matcher"]

LONGEST_PATTERN: Final = 1000
_MEMORY: Final = 8 << 20
_UNSUPPORTED: Final = re.compile(r"(?<!\\)(?:\\\\)*(?:\(\?(?:<?[=!])|\\[1-9]|\\k<)")


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a line matches, ignoring case. Raises `RecallError` for a pattern that cannot be used."""
    if len(pattern) > LONGEST_PATTERN:
        raise RecallError(f"expand_result: a pattern has at most {LONGEST_PATTERN} characters, this one {len(pattern)}")
    options: Any = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    options.max_mem = _MEMORY
    options.encoding = re2.Options.Encoding.UTF8
    try:
        compiled: Any = re2.compile(utf8(pattern), options)
    except re2.error:
        raise RecallError(f"expand_result: invalid regex {quoted(pattern)}{_reason(pattern)}") from None
    return lambda line: compiled.search(utf8(line)) is not None


def _reason(pattern: str) -> str:
    if _UNSUPPORTED.search(pattern):
        return "; look-around and back-references are not supported"
    return ""
