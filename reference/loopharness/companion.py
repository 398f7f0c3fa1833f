"""The invariant companion, live: the rules of `loopspec check`, at the moment at which a record breaks one.

    companion = install(harness.context, profile=harness.profile)
    ...
    companion.violations          # what was found so far, each with its rule, seq and reason
    companion.settled(session)    # agent idle: is anything still owed, such as a lost wake?

An optional plugin. It hears every record after it was written, and judges it by the same code that judges files:
`loopspec.log.grammar.Judge` for rows, `loopspec.log.acceptance` for the run. A violation is a log warning that names
the rule; `tell` is called with it; with `stop`, the session takes no further record, so that a loop that went wrong
stops at the first wrong record. What a record was, it stays: the log is append-only.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import orjson

from loopharness.bus import INSTRUMENTATION, Context
from loopharness.errors import HarnessError
from loopharness.frozen import FrozenDict
from loopharness.session import Session
from loopharness.store.rows import event_rows, header_row, row_text
from loopspec.log.acceptance import Acceptance, law_of
from loopspec.log.grammar import Judge
from loopspec.log.rule import LEVEL_NAMES, Level, Violation
from loopspec.profile import Profile

__all__ = ["Companion", "CompanionError", "Seen", "install"]

_log = logging.getLogger("loopharness")

_WORST: Final[Mapping[Level, int]] = {"E": 0, "U": 1, "W": 2, "I": 3}


class CompanionError(HarnessError):
    """A session whose log breaks a rule takes no further record."""

    def __init__(self, seen: Seen) -> None:
        super().__init__(f"the log of {seen} takes no further record", "COMPANION")
        self.seen = seen


class Seen(NamedTuple):
    """One violation, and the session that it was found in."""

    session: str
    violation: Violation

    def __str__(self) -> str:
        found = self.violation
        rule = f"{found.rule} ({LEVEL_NAMES[found.level]})"
        return f'session "{self.session}" breaks {rule} at seq {found.seq}: {found.reason}'


class _Follower:
    """The judges of one session, and how far they have come."""

    def __init__(self, session: Session, profile: Profile) -> None:
        self.version = 0 if session.dialect == "v0" else 4
        header = _plain(header_row(session.header))
        self.judge = Judge(foreign=profile != "seed")
        self.first = self.judge.header(header)
        self.acceptance = Acceptance(header, law_of(profile, self.version))
        self.fed = 0
        self.broken: Seen | None = None

    def feed(self, event: FrozenDict) -> tuple[Violation, ...]:
        """Judge the next event. What the loop does is followed until a row is wrong."""
        line, self.fed = self.fed + 2, self.fed + 1
        (row,) = event_rows((event,), self.version, pack_chunks=False)
        plain = _plain(row)
        found = self.judge.event(plain, line)
        if self.judge.certain and not any(item.level == "E" for item in found) and self.broken is None:
            found += self.acceptance.event(plain, line)
        return found


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as a reader of the file would get it."""
    plain: dict[str, Any] = orjson.loads(row_text(row))
    return plain


class Companion:
    """What the plugin has found. `level` is the mildest level that counts: E, U, W or I."""

    def __init__(self, profile: Profile, tell: Callable[[Seen], object] | None, level: Level, stop: bool) -> None:
        self.violations: list[Seen] = []
        self._profile = profile
        self._tell = tell
        self._limit = _WORST[level]
        self._stop = stop
        self._followers: weakref.WeakKeyDictionary[Session, _Follower] = weakref.WeakKeyDictionary()

    def heard(self, session: Session, event: FrozenDict) -> None:
        """A record was written. Records that nobody published, such as those of a resumed log, are caught up with."""
        follower = self._followers.get(session)
        if follower is None:
            follower = self._followers[session] = _Follower(session, self._profile)
            self._report(session, follower, follower.first)
        for earlier in session.events[follower.fed : event["seq"] + 1]:
            self._report(session, follower, follower.feed(earlier))

    def refusing(self, mode: str, name: str, arguments: tuple[Any, ...], key: object) -> None:
        """Veto the records of a session that is wrong already (L-LOG-2). Raises `CompanionError`."""
        if name == "session/event":
            follower = self._followers.get(arguments[0])
            if follower is not None and follower.broken is not None:
                raise CompanionError(follower.broken)

    def settled(self, session: Session) -> tuple[Violation, ...]:
        """What is still owed when the agent is idle, such as a turn for a prompt whose wake was lost (`S-ACC-2`)."""
        follower = self._followers.get(session)
        return () if follower is None or follower.broken is not None else follower.acceptance.finish()

    def _report(self, session: Session, follower: _Follower, found: tuple[Violation, ...]) -> None:
        for violation in found:
            if _WORST[violation.level] > self._limit:
                continue
            seen = Seen(session.id, violation)
            self.violations.append(seen)
            _log.warning("%s", seen)
            if self._stop and violation.level == "E" and follower.broken is None:
                follower.broken = seen
            if self._tell is not None:
                self._tell(seen)


def install(
    context: Context,
    *,
    profile: Profile = "seed",
    tell: Callable[[Seen], object] | None = None,
    level: Level = "E",
    stop: bool = False,
) -> Companion:
    """Judge every session that publishes its records here, until the context ends.

    `profile` is the law of the agents, `tell` hears of each violation in the moment of its record, `level` is the
    mildest that counts (`"E"`, `"U"`, `"W"`, `"I"`), and `stop` refuses every record behind the first error.
    """
    companion = Companion(profile, tell, level, stop)
    context.on("session/event", companion.heard, everywhere=True)
    if stop:
        context.on(INSTRUMENTATION, companion.refusing, everywhere=True)
    return companion
