"""An immutable sequence whose growth is cheap: the reason a request costs what was added, not what exists.

A log, a surface and a message list only ever grow at the end, and every holder of an older, shorter value
must keep seeing exactly what it saw. `Prefix` gives both. Values that grew out of one another share one
buffer, and each value sees only the part up to its own length. Appending to the value that ends where the
buffer ends reuses the buffer; appending to any shorter value copies first, so two futures of one past never
meet. Nothing a holder can do changes what another holder sees. An empty value never shares its buffer, so
that a long-lived "nothing yet" does not keep alive what was once built on it.

Sharing is safe among cooperative tasks of one thread. Two threads must not append to the same value at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar, overload

T = TypeVar("T")

_LOOK_BACK = 64


class Prefix(Sequence[T]):
    """An immutable sequence with amortised constant `append` along one line of growth.

    Equality is by items, and only with another `Prefix`; there is no hash. `prefix[:n]` is a view and takes
    constant time; every other slice copies.
    """

    __slots__ = ("_buffer", "_length")

    _buffer: list[T]
    _length: int

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._buffer = list(items)
        self._length = len(self._buffer)

    @classmethod
    def _view(cls, buffer: list[T], length: int) -> Prefix[T]:
        view = cls.__new__(cls)
        view._buffer = buffer
        view._length = length
        return view

    def append(self, item: T) -> Prefix[T]:
        """This sequence and then `item`, as a new value; `self` is unchanged."""
        buffer = self._buffer
        length = self._length
        if len(buffer) != length or not length:
            buffer = buffer[:length]
        buffer.append(item)
        return self._view(buffer, length + 1)

    def extend(self, items: Iterable[T]) -> Prefix[T]:
        """This sequence and then all `items`, as a new value; `self` is unchanged."""
        added = list(items)
        if not added:
            return self
        buffer = self._buffer
        length = self._length
        if len(buffer) != length or not length:
            buffer = buffer[:length]
        buffer.extend(added)
        return self._view(buffer, length + len(added))

    def first(self, count: int) -> Prefix[T]:
        """The view of the first `count` items, in constant time. Raises `IndexError` outside 0..len."""
        if not 0 <= count <= self._length:
            raise IndexError(f"a view of {count} items does not exist: the sequence has {self._length}")
        return self if count == self._length else self._view(self._buffer, count)

    def position(self, item: T) -> int | None:
        """Where `item` stands, or `None`. Looks near the end first, because that is where questions point."""
        buffer = self._buffer
        low = max(0, self._length - _LOOK_BACK)
        for at in range(self._length - 1, low - 1, -1):
            if buffer[at] == item:
                return at
        try:
            return buffer.index(item, 0, low)
        except ValueError:
            return None

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
                return Prefix(self._buffer[start : max(start, stop)])
            return Prefix(self._buffer[at] for at in range(start, stop, stride))
        if key < 0:
            key += self._length
        if not 0 <= key < self._length:
            raise IndexError("sequence index out of range")
        return self._buffer[key]

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        return islice(self._buffer, self._length)

    def __contains__(self, item: object) -> bool:
        return any(item is own or item == own for own in self)

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, Prefix):
            return NotImplemented
        if self._length != other._length:
            return False
        if self._buffer is other._buffer:
            return True
        return all(mine is theirs or mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # equality by items of any kind: there is no useful hash

    def __copy__(self) -> Prefix[T]:
        return self

    def __repr__(self) -> str:
        return f"Prefix({list(self)!r})"
