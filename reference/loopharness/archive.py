"""The events of a stored log, each opened when somebody asks for it.

Of a long log a resumed session needs little: what stands on the surface, and a few last records. The rest, the
chunks of old answers above all, is history that is seldom looked at. `Archive` keeps the former as the frozen
events that they are, and the latter as the text of their rows, a fifth of the size and without a cost at the start.
A closed event is read anew whenever it is asked for, and every time it is an equal value, not the same object.

Whoever reads the file decides what is kept closed, and has judged every row by then: opening one cannot fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, count
from typing import Any, Final, TypeAlias, overload

import orjson

from loopharness.frozen import FrozenDict, FrozenList
from loopspec.kernel.prefix import Prefix

__all__ = ["Archive", "Run", "frozen", "members"]

_NESTED: Final = frozenset({dict, list})


class Run:
    """A packed row that is kept as its text: chunk events from `first` on (S-CHK-11)."""

    __slots__ = ("first", "text")

    def __init__(self, first: int, text: bytes) -> None:
        self.first: Final = first
        self.text: Final = text


Held: TypeAlias = FrozenDict | bytes | Run
"""An open event, or the text of its row; a run stands at the place of each of its members."""

_NO_RUN: Final = Run(-1, b"")


class Archive(Sequence[FrozenDict]):
    """The events of a log from seq 0; the sequence itself never changes.

    `held` and `kinds` have one item per event: what is kept of it, and its type. Neither list may change afterwards.
    `all_open` says that no event is kept closed.
    """

    __slots__ = ("_all_open", "_held", "_run", "kinds")

    def __init__(self, held: list[Held], kinds: list[str], all_open: bool = False) -> None:
        self._held: Final = held
        self._all_open: Final = all_open
        self.kinds: Final[Sequence[str]] = kinds
        self._run: tuple[Run, list[FrozenDict]] = (_NO_RUN, [])
        """The run that was opened last: its members are mostly asked for one after the other."""

    @classmethod
    def of(cls, events: Iterable[FrozenDict]) -> Archive:
        """Events that are all open."""
        opened = list(events)
        return cls([*opened], [event["type"] for event in opened], all_open=True)

    def followed_by(self, events: Iterable[FrozenDict]) -> Archive:
        """This archive and then `events`, as a new value."""
        added = tuple(events)
        if not added:
            return self
        kinds = [*self.kinds, *(event["type"] for event in added)]
        return Archive([*self._held, *added], kinds, self._all_open)

    def open_ones(self) -> Iterator[tuple[int, FrozenDict]]:
        """The events that are kept open, each with its seq."""
        for seq, held in enumerate(self._held):
            if type(held) is FrozenDict:
                yield seq, held

    def of_type(self, kind: str, start: int = 0) -> Iterator[FrozenDict]:
        """The events of one type from a seq on; no others are opened."""
        for seq in range(start, len(self._held)):
            if self.kinds[seq] == kind:
                yield self._event(seq)

    def last_ones(self) -> dict[str, FrozenDict]:
        """The last event of every type."""
        return {kind: self._event(seq) for kind, seq in {kind: seq for seq, kind in enumerate(self.kinds)}.items()}

    def prefix(self) -> Prefix[FrozenDict]:
        """The events as a sequence that can grow."""
        return Prefix(event for _, event in self.open_ones()) if self._all_open else Prefix.over(self)

    def _event(self, seq: int) -> FrozenDict:
        held = self._held[seq]
        if type(held) is FrozenDict:
            return held
        if type(held) is bytes:
            return frozen(orjson.loads(held))
        assert isinstance(held, Run)
        run, events = self._run
        if run is not held:
            events = members(orjson.loads(held.text))
            self._run = (held, events)
        return events[seq - held.first]

    @overload
    def __getitem__(self, key: int) -> FrozenDict: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[FrozenDict, ...]: ...
    def __getitem__(self, key: int | slice) -> FrozenDict | tuple[FrozenDict, ...]:
        if isinstance(key, slice):
            return tuple([self._event(seq) for seq in range(*key.indices(len(self._held)))])
        seq = key + len(self._held) if key < 0 else key
        if not 0 <= seq < len(self._held):
            raise IndexError("sequence index out of range")
        return self._event(seq)

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[FrozenDict]:
        return map(self._event, range(len(self._held)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Archive | tuple | list):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # as that of a list of events

    def __repr__(self) -> str:
        return f"<Archive of {len(self)} events>"


def frozen(value: dict[str, Any]) -> FrozenDict:
    """Freeze what the JSON parser made. Nothing is checked: stored numbers stay as they are (S-ENV-6)."""
    for key, item in value.items():
        kind = type(item)
        if kind is dict:
            value[key] = frozen(item)
        elif kind is list:
            value[key] = _frozen_list(item)
    return FrozenDict(value)


def _frozen_list(items: list[Any]) -> FrozenList:
    if _NESTED.isdisjoint(map(type, items)):
        return FrozenList(items)
    return FrozenList([frozen(i) if type(i) is dict else _frozen_list(i) if type(i) is list else i for i in items])


def members(row: dict[str, Any]) -> list[FrozenDict]:
    """The events of a sound packed row, frozen as they are made: what `unpack_row` answers for it (S-CHK-11)."""
    body = row["data"]
    turn, step, index = body["turn"], body["step"], body["index"]
    times = accumulate(body["dt"], initial=row["time0"])
    if row["type"] == "tool-call-chunks":
        frame = {"type": "tool-call-delta", "index": index, "id": body["id"]}
        if "name" in body:
            frame["name"] = body["name"]
        chunks = [FrozenDict({**frame, "argumentsDelta": part}) for part in body["args"]]
    else:
        delta = "text-delta" if row["type"] == "text-chunks" else "reasoning-delta"
        chunks = [FrozenDict({"type": delta, "index": index, "text": part}) for part in body["texts"]]
    return [
        FrozenDict(
            {
                "type": "assistant/chunk",
                "seq": seq,
                "time": time,
                "data": FrozenDict({"turn": turn, "step": step, "chunk": chunk}),
            }
        )
        for seq, time, chunk in zip(count(row["seq0"]), times, chunks, strict=False)
    ]
