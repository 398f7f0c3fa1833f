"""The numbers that condensing works with, and what it gives: FD-47."""

from __future__ import annotations

from typing import NamedTuple


class DigestPolicy(NamedTuple):
    """FD-47  The numbers, with their defaults."""

    enabled: bool = True
    min_chars: int = 6000
    head_lines: int = 10
    tail_lines: int = 4
    max_keep_ratio: float = 0.55
    structured_block_cap: float = 12
    structured_block_min: int = 3
    log_min_chars: int = 512
    log_max_errors: int = 10
    log_context_lines: int = 3
    max_line_chars: float = 1500
    line_head_chars: int = 700
    line_tail_chars: int = 300
    json_min_items: float = 5
    json_keep_items: float = 15
    search_min_matches: float = 120
    search_min_chars: float = 10000
    search_max_per_file: float = 5
    search_max_total: float = 60
    diff_min_lines: float = 50
    diff_context_lines: float = 2
    diff_max_hunks_per_file: float = 10


class Condensed(NamedTuple):
    """A shorter body, and how many lines it kept."""

    lines: list[str]
    kept: int
