"""Which disagreement of the profiles explains a failure: the same transcript judged again under other laws.

A run that the law of one profile cannot explain is looked at with one choice of that law turned to what another profile
has. The choices that take the judge past the message at fault are what the implementation does differently; what no
choice explains is a difference that nobody has written down yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from loopconform.judge.court import Court
from loopconform.judge.verdict import Found, Undecided
from loopconform.protocol.replies import CLOSING, REPLY, HelloReply, Ok, Settled
from loopconform.protocol.requests import REQUEST, Open
from loopconform.runner.results import Message, Result
from loopspec.profile import TABLE, Disagreement, Law, Profile, choices

OF_THE_DIALECT = ("streams_are_embedded", "admission_follows_preparation", "failed_batch_is_completed")
"""Choices that hang on the format of the session, not on the profile."""


def disagreements(one: Profile, other: Profile) -> tuple[Disagreement, ...]:
    """The rows of the table in which two profiles differ, whatever the format."""
    ours, theirs = choices(one), choices(other)
    return tuple(row for row in TABLE if row.field not in OF_THE_DIALECT and ours[row.field] != theirs[row.field])


def mixed(base: Profile, session_format: int, turned: Iterable[str]) -> Law:
    """The law of a profile with some choices turned round."""
    column = choices(base)
    column["streams_are_embedded"] = column["admission_follows_preparation"] = session_format == 4
    column["failed_batch_is_completed"] = base == "seed" and session_format == 4
    for field in turned:
        column[field] = not column[field]
    return Law(f"{base} with {', '.join(turned) or 'nothing'} turned", session_format, column)


def length_explained(transcript: Sequence[Message], hello: HelloReply, law: Law) -> int:
    """How many messages of a transcript a law explains; all of them when nothing is wrong with it."""
    opening = REQUEST.validate_python(_without_id(transcript[0]))
    assert isinstance(opening, Open)
    court = Court(opening, hello, chosen=law)
    for at, message in enumerate(transcript[1:], 1):
        try:
            if message.who == "suite":
                court.request(message.body["id"], REQUEST.validate_python(_without_id(message)))
            else:
                reply = REPLY.validate_python(message.body)
                if not isinstance(reply, CLOSING) or isinstance(reply, (Ok, Settled)):
                    court.reply(reply)
        except (Found, Undecided):
            return at
    return len(transcript)


def _without_id(message: Message) -> dict[str, Any]:
    return {name: value for name, value in message.body.items() if name != "id"}


class Explanation(NamedTuple):
    """What takes the judge past a fault: the fields of one row, or of a few rows together; empty when nothing does."""

    fields: tuple[str, ...]

    @property
    def known(self) -> bool:
        """The failure is one that the table of profiles speaks of."""
        return bool(self.fields)


def explanation(result: Result, hello: HelloReply, base: Profile, other: Profile) -> Explanation:
    """Why a failed result differs from `base`: the single rows of `other` that take the judge past the fault, the first
    of them; or, where no single row does, the smallest set of rows that a run under `other` needs."""
    version = result.case.opening.session_format
    rows = [row.field for row in disagreements(base, other)]
    transcript = result.transcript
    fault = length_explained(transcript, hello, mixed(base, version, ()))
    for field in rows:
        if length_explained(transcript, hello, mixed(base, version, (field,))) > fault:
            return Explanation((field,))
    needed = list(rows)
    if length_explained(transcript, hello, mixed(base, version, needed)) <= fault:
        return Explanation(())
    for field in rows:
        fewer = [kept for kept in needed if kept != field]
        if length_explained(transcript, hello, mixed(base, version, fewer)) > fault:
            needed = fewer
    return Explanation(tuple(needed))
