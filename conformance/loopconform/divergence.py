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
from loopconform.runner.results import Message
from loopspec.disagreements import TABLE, Disagreement
from loopspec.profile import Law, Profile, choices

OF_THE_DIALECT = ("streams_are_embedded", "admission_follows_preparation", "failed_batch_is_completed")
"""Choices that hang on the format of the session, not on the profile."""


ELSEWHERE = ("tape_", "recall_", "wire_", "cancel_wins_backoff", "snapshot_")
"""Rows whose rules no message of the protocol can show begin like this."""

Heard = tuple[int, Any]
"""A message of a transcript, read: the number of a request and the request, or 0 and a reply."""


def disagreements(one: Profile, other: Profile) -> tuple[Disagreement, ...]:
    """The rows of the table in which two profiles differ, whatever the format."""
    ours, theirs = choices(one), choices(other)
    return tuple(row for row in TABLE if row.field not in OF_THE_DIALECT and ours[row.field] != theirs[row.field])


def reachable(one: Profile, other: Profile) -> tuple[str, ...]:
    """The fields of those rows that the protocol can show."""
    return tuple(row.field for row in disagreements(one, other) if not row.field.startswith(ELSEWHERE))


def mixed(base: Profile, session_format: int, turned: Iterable[str]) -> Law:
    """The law of a profile with some choices turned round."""
    column = choices(base)
    column["streams_are_embedded"] = column["admission_follows_preparation"] = session_format == 4
    column["failed_batch_is_completed"] = base == "seed" and session_format == 4
    for field in turned:
        column[field] = not column[field]
    return Law(f"{base} with {', '.join(turned) or 'nothing'} turned", session_format, column)


def read(transcript: Sequence[Message]) -> list[Heard]:
    """The messages of a transcript as models. What a judge does not listen to is `None`."""
    heard: list[Heard] = []
    for message in transcript:
        if message.who == "suite":
            body = {name: value for name, value in message.body.items() if name != "id"}
            heard.append((message.body["id"], REQUEST.validate_python(body)))
        else:
            reply = REPLY.validate_python(message.body)
            heard.append((0, reply if not isinstance(reply, CLOSING) or isinstance(reply, (Ok, Settled)) else None))
    return heard


def length_explained(heard: Sequence[Heard], hello: HelloReply, law: Law) -> int:
    """How many messages of a transcript a law explains; all of them when nothing is wrong with it."""
    opening = heard[0][1]
    assert isinstance(opening, Open)
    court = Court(opening, hello, chosen=law)
    for at, (number, said) in enumerate(heard[1:], 1):
        try:
            if number:
                court.request(number, said)
            elif said is not None:
                court.reply(said)
        except (Found, Undecided):
            return at
    return len(heard)


class Explanation(NamedTuple):
    """What takes the judge past a fault: the fields of one row, or of a few rows together; empty when nothing does."""

    fields: tuple[str, ...]

    @property
    def known(self) -> bool:
        """The failure is one that the table of profiles speaks of."""
        return bool(self.fields)


def explanation(
    heard: Sequence[Heard], hello: HelloReply, base: Profile, rows: Sequence[str], turned: Sequence[str], fault: int
) -> Explanation:
    """Why message `fault` is not what `base` with some rows turned has: the first single row that takes the judge past
    it, or, where no single row does, a smallest set of rows."""
    opening = heard[0][1]
    enough = heard[: fault + 1]

    def explains(fields: Sequence[str]) -> bool:
        return length_explained(enough, hello, mixed(base, opening.session_format, [*turned, *fields])) > fault

    left = [field for field in rows if field not in turned]
    for field in left:
        if explains([field]):
            return Explanation((field,))
    if not explains(left):
        return Explanation(())
    needed = list(left)
    for field in left:
        fewer = [kept for kept in needed if kept != field]
        if explains(fewer):
            needed = fewer
    return Explanation(tuple(needed))
