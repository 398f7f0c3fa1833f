"""Minimal logs that break one rule each, for rules that the corpus of real mutations does not reach, and for format 4.

A case builds its log and says which rule must fire at which line; the line comes from the construction, never from the
checker.
"""

from tests.logs.bad import brackets, headers, inbox, messages, requests, streams, surface, tools, turns
from tests.logs.bad.case import CASES, Bad

__all__ = [
    "CASES", "Bad",
    "brackets", "headers", "inbox", "messages", "requests", "streams", "surface", "tools", "turns",
]  # fmt: skip
