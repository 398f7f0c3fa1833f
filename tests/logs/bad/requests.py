"""Broken logs: request headers."""

from __future__ import annotations

from tests.logs.bad.case import Bad, case, edited, finished, line
from tests.logs.building import legal


@case
def v4_system_in_the_header() -> Bad:
    return edited(4, "S-LNT-78", "request/header", lambda row: row["data"]["header"].update(system="Be kind."))


@case
def v4_series_that_differs() -> Bad:
    log = legal(4)
    log.begin("More.", "u3")
    seq = log.header("series")
    log.rows[-1]["data"]["header"].pop("tools")
    return Bad(finished(log), "S-LNT-82", line(seq))
