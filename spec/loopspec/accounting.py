"""Accounting of consumed work: did the agent do anything with its input, and was input dropped unrun?

Rules: L-ACC-1, L-ACC-2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from loopspec.values import Record


class Accounts(NamedTuple):
    """`end` is the payload of the latest counting `turn/end`; `dropped_unrun` tells of input removed since.

    `stepped` and `claimed` describe the open turn.
    """

    end: Record | None = None
    dropped_unrun: bool = False
    stepped: bool = False
    claimed: bool = False


NO_WORK = Accounts()


def account(accounts: Accounts, event: Record) -> Accounts:
    """The accounts after one more event."""
    event_type = event["type"]
    data: Record = event["data"]
    if event_type == "turn/start":
        return accounts._replace(stepped=False, claimed=False)
    if event_type == "step/start":
        return accounts._replace(stepped=True)
    if event_type == "agent/inbox/spliced":
        return _splice(accounts, data)
    if event_type == "turn/end":
        closed = accounts._replace(stepped=False, claimed=False)
        return closed._replace(end=data, dropped_unrun=False) if counts(accounts, data["reason"]) else closed
    return accounts


def fold_accounts(events: Iterable[Record]) -> Accounts:
    """The accounts of a whole log."""
    accounts = NO_WORK
    for event in events:
        accounts = account(accounts, event)
    return accounts


def counts(accounts: Accounts, reason: Record) -> bool:
    """Whether the turn that ends now counts: it opened a step, or it claimed and did not simply complete."""
    return accounts.stepped or (accounts.claimed and reason["kind"] != "completed")


def _splice(accounts: Accounts, data: Record) -> Accounts:
    if not data.get("removedCount"):
        return accounts
    if data.get("outcome") == "canceled":
        # a canceled removal that inserts something is a replacement: nothing was dropped
        return accounts if data["inserted"] else accounts._replace(dropped_unrun=True)
    if "outcome" in data:
        return accounts
    return accounts._replace(claimed=True)  # outside any turn it is forgotten by the next turn/start
