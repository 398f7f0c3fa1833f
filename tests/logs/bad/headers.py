"""Broken logs: headers."""

from __future__ import annotations

from tests.logs.bad.case import Bad, begun, case, finished


@case
def subagent_without_parent() -> Bad:
    return Bad(finished(begun(4, origin="subagent")), "S-LNT-16", 1)


@case
def parent_without_fork() -> Bad:
    return Bad(finished(begun(0, parentSession="p")), "S-LNT-16", 1)


@case
def seeded_without_marker() -> Bad:
    return Bad(finished(begun(4, isSeeded=True, parentSession="p")), "S-LNT-15", 1)


@case
def v4_header_with_seed_length() -> Bad:
    return Bad(finished(begun(4, seedLength=0)), "S-LNT-12", 1)
