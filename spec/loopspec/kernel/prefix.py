"""An immutable sequence whose growth is cheap: the reason a request costs what was added, not what exists.

A log, a surface and a message list mostly grow at the end, and every holder of an older, shorter value must
keep seeing exactly what it saw. `Prefix` gives both. Values that grew out of one another share one buffer, and
each value sees only the part up to its own length. Appending to the value that ends where the buffer ends
reuses the buffer. Appending to a shorter value starts a new buffer behind the part it sees, so two futures of
one past never meet; that part is kept as frozen pieces, each at least twice as long as the next, and only pieces
of like size are ever copied together. So cutting off the end and growing again, which is what sealing a turn
does, costs a logarithm and not the whole sequence.

Nothing a holder can do changes what another holder sees. An empty value never shares its buffer, so that a
long-lived "nothing yet" does not keep alive what was once built on it. Sharing is safe among cooperative tasks
of one thread; two threads must not append to the same value at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, TypeAlias, TypeVar, cast, overload

T = TypeVar("T")

Piece: TypeAlias = tuple[Sequence[T], int]
"""A sequence, of which only the first so many items count."""

_LOOK_BACK = 64
_SMALL = 32
"""A part that is not longer is copied rather than frozen."""


class Prefix(Sequence[T]):
    """An immutable sequence with amortised constant `append` along one line of growth.

    Equality is by items, and only with another `Prefix`; there is no hash. `prefix[:n]` is a view; every other
    slice copies what it holds.
    """

    __slots__ = ("_buffer", "_frozen", "_length", "_offset")

    _frozen: tuple[Piece[T], ...]
    _offset: int
    _buffer: list[T]
    _length: int

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._frozen = ()
        self._offset = 0
        self._buffer = list(items)
        self._length = len(self._buffer)

    @classmethod
    def over(cls, items: Sequence[T]) -> Prefix[T]:
        """The items of a sequence that never changes, not copied but asked for each time."""
        return cls._view(((items, len(items)),), len(items), [], len(items)) if items else cls()

    @classmethod
    def _view(cls, frozen: tuple[Piece[T], ...], offset: int, buffer: list[T], length: int) -> Prefix[T]:
        view = cls.__new__(cls)
        view._frozen = frozen
        view._offset = offset
        view._buffer = buffer
        view._length = length
        return view

    def append(self, item: T) -> Prefix[T]:
        """This sequence and then `item`, as a new value; `self` is unchanged."""
        buffer = self._buffer
        length = self._length
        if len(buffer) == length - self._offset and length:
            buffer.append(item)
            return self._view(self._frozen, self._offset, buffer, length + 1)
        return self._branch([item])

    def extend(self, items: Iterable[T]) -> Prefix[T]:
        """This sequence and then all `items`, as a new value; `self` is unchanged."""
        added = list(items)
        if not added:
            return self
        buffer = self._buffer
        length = self._length
        if len(buffer) == length - self._offset and length:
            buffer.extend(added)
            return self._view(self._frozen, self._offset, buffer, length + len(added))
        return self._branch(added)

    def _branch(self, added: list[T]) -> Prefix[T]:
        """Grow behind a part that somebody else has grown behind already."""
        own = self._length - self._offset
        length = self._length + len(added)
        if own <= _SMALL:
            return self._view(self._frozen, self._offset, [*self._buffer[:own], *added], length)
        return self._view(_freeze(self._frozen, (self._buffer, own)), self._length, added, length)

    def first(self, count: int) -> Prefix[T]:
        """The view of the first `count` items. Raises `IndexError` outside 0..len."""
        if not 0 <= count <= self._length:
            raise IndexError(f"a view of {count} items does not exist: the sequence has {self._length}")
        if count == self._length:
            return self
        frozen, offset = self._frozen, self._offset
        buffer: Sequence[T] = self._buffer
        at = len(frozen)
        while count < offset:
            at -= 1
            buffer, used = frozen[at]
            offset -= used
        # what holds more than the view shows never grows, be it a list or not
        return self._view(frozen[:at], offset, cast("list[T]", buffer), count)

    def position(self, item: T) -> int | None:
        """Where `item` stands, or `None`. Looks near the end first, because that is where questions point."""
        low = max(0, self._length - _LOOK_BACK)
        for back, own in enumerate(reversed(self._items(low, self._length)), start=1):
            if own == item:
                return self._length - back
        offset = 0
        for items, used in self._pieces():
            try:
                return offset + items.index(item, 0, min(used, low - offset))
            except ValueError:
                offset += used
            if offset >= low:
                break
        return None

    def _pieces(self) -> Iterator[Piece[T]]:
        yield from self._frozen
        yield self._buffer, self._length - self._offset

    def _items(self, start: int, stop: int) -> list[T]:
        """The items from `start` to before `stop`, copied; both inside the sequence."""
        if start >= self._offset:
            return self._buffer[start - self._offset : stop - self._offset]
        found: list[T] = []
        offset = 0
        for items, used in self._pieces():
            if start < offset + used and offset < stop:
                found += items[max(0, start - offset) : min(used, stop - offset)]
            offset += used
        return found

    @overload
    def __getitem__(self, key: int) -> T: ...
    @overload
    def __getitem__(self, key: slice) -> Prefix[T]: ...
    def __getitem__(self, key: int | slice) -> T | Prefix[T]:
        if isinstance(key, slice):
            start, stop, stride = key.indices(self._length)
            if start == 0 and stride == 1:
                return self.first(max(0, stop))
            if stride == 1:
                return Prefix(self._items(start, max(start, stop)))
            return Prefix(self._items(0, self._length)[key])
        if key < 0:
            key += self._length
        if not 0 <= key < self._length:
            raise IndexError("sequence index out of range")
        offset = self._offset
        if key >= offset:
            return self._buffer[key - offset]
        for items, used in reversed(self._frozen):
            offset -= used
            if key >= offset:
                return items[key - offset]
        raise AssertionError("unreachable: the frozen pieces cover everything before the buffer")

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        if not self._frozen:
            return islice(self._buffer, self._length)
        return chain.from_iterable(islice(items, used) for items, used in self._pieces())

    def __contains__(self, item: object) -> bool:
        return any(item is own or item == own for own in self)

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, Prefix):
            return NotImplemented
        if self._length != other._length:
            return False
        if self._buffer is other._buffer and self._frozen is other._frozen:
            return True
        return all(mine is theirs or mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # equality by items of any kind: there is no useful hash

    def __copy__(self) -> Prefix[T]:
        return self

    def __repr__(self) -> str:
        return f"Prefix({list(self)!r})"


def _freeze(frozen: tuple[Piece[T], ...], piece: Piece[T]) -> tuple[Piece[T], ...]:
    """The frozen pieces and one more, those joined that are not at least twice as long as what follows."""
    keep, size = len(frozen), piece[1]
    while keep and frozen[keep - 1][1] < 2 * size:
        keep -= 1
        size += frozen[keep][1]
    if keep == len(frozen):
        return (*frozen, piece)
    joined: list[T] = []
    for items, used in (*frozen[keep:], piece):
        joined += items[:used]
    return (*frozen[:keep], (joined, size))
