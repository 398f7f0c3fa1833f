"""`Archive`: what is kept closed opens as what it was, and a session made of it is the session of its events."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.logs.building import many_turns, render
from tests.store.support import REAL

from loopharness.archive import Archive
from loopharness.frozen import FrozenDict, freeze
from loopharness.session import Session
from loopharness.store import reading
from loopspec.log.types import SURFACE_TYPES
from loopspec.surface import SurfaceError, accept_all, empty, fold

LOGS = sorted(REAL.glob("*.jsonl*"))


def _stored(path: Path) -> reading.Stored:
    return reading.read_stored(path.read_bytes(), path.name)


def _plain(stored: reading.Stored) -> tuple[FrozenDict, ...]:
    """The events of a stored log, each frozen by itself."""
    return tuple([freeze(json.loads(json.dumps(event))) for event in stored.events])


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_a_session_is_the_same_over_closed_events(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = _stored(path)
    with monkeypatch.context() as slow:
        slow.setattr(reading, "SHORT_WAYS", False)
        events = tuple(_stored(path).events)
    archive, dialect = stored.events, stored.dialect
    assert list(archive.kinds) == [event["type"] for event in events]
    assert list(reversed(archive)) == list(reversed(events))
    assert [archive[-1 - at] for at in range(len(events))] == list(reversed(events))
    assert archive[2:-1:3] == events[2:-1:3]
    closed = Session(stored.header, dialect=dialect, events=archive)
    opened = Session(stored.header, dialect=dialect, events=events)
    assert (closed.surface, closed.retained, closed.last_turn) == (opened.surface, opened.retained, opened.last_turn)
    for session in (closed, opened):
        whole = (*events, session.append("session/end-seed", {}))
        assert tuple(session.events) == whole
        for kind in {*archive.kinds, "session/end-seed"}:
            wanted = [event for event in whole if event["type"] == kind]
            assert list(session.of_type(kind)) == wanted
            assert list(session.of_type(kind, 3)) == [event for event in wanted if event["seq"] >= 3]
            assert session.last(kind) == wanted[-1]
        assert session.last("no/such") is None


@pytest.mark.parametrize("version", [0, 4])
def test_only_what_can_stand_on_the_surface_is_kept_open(version: int) -> None:
    stored = reading.read_stored(render(many_turns(version, 2, 3).rows), "session.jsonl")
    shown = SURFACE_TYPES[stored.dialect]
    assert [seq for seq, _ in stored.events.open_ones()] == [
        seq for seq, event in enumerate(stored.events) if event["type"] in shown
    ]


def test_what_follows_an_archive_does_not_change_it() -> None:
    archive = Archive.of([FrozenDict(type="a", seq=0)])
    longer = archive.followed_by([FrozenDict(type="b", seq=1)])
    assert (len(archive), list(longer.kinds), longer[1]["seq"]) == (1, ["a", "b"], 1)
    assert longer.followed_by([]) is longer
    with pytest.raises(IndexError):
        archive[1]


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_many_events_at_once_make_the_surface_of_one_after_the_other(path: Path) -> None:
    stored = _stored(path)
    events = _plain(stored)
    assert accept_all(empty(stored.dialect), enumerate(events)) == fold(stored.dialect, events)
    for seq, event in enumerate(events):
        if event["type"] not in SURFACE_TYPES[stored.dialect]:
            continue
        broken = [*events[:seq], freeze({**event, "sourceEventSeqs": [seq]}), *events[seq + 1 :]]
        with pytest.raises(SurfaceError) as one:
            fold(stored.dialect, broken)
        with pytest.raises(SurfaceError) as many:
            accept_all(empty(stored.dialect), enumerate(broken))
        assert many.value.breaches == one.value.breaches
        break
