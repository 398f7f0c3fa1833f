"""The complete labelled graph of a system, as a value; its digest, and its export.

`explore(..., keep_edges=True)` makes one. It is kept in flat arrays, since a graph of a million states with
lists of tuples would not fit: the moves of state `i` are the positions `first[i] .. first[i + 1]` of
`edge_labels` and `edge_targets`.

A graph is pinned by its digest, never by counts or positions: the digest is a function of the *set* of
states and moves (their canonical texts, see `loopspec.kernel.encoding`), so it does not depend on the
process, on the order of exploration, or on the program that made the graph. `GRAPH.md` beside this file
defines it for other programs.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from loopspec.kernel.encoding import text_of
from loopspec.kernel.system import Label, N, System

M = TypeVar("M", bound=Hashable)

FORMAT = "loopspec-graph-1"
"""The name of the export format; it changes whenever a reader of the old one would be wrong."""


@dataclass(frozen=True, eq=False)
class Graph(Generic[N]):
    """States, labelled moves and first states. States and labels are named by their positions.

    `complete` tells whether the graph holds every reachable state with every move of it.
    """

    states: Sequence[N]
    initial: Sequence[int]
    labels: Sequence[Label]
    first: Sequence[int]
    edge_labels: Sequence[int]
    edge_targets: Sequence[int]
    complete: bool = True

    def moves(self, index: int) -> Iterator[tuple[int, int]]:
        """Yield the moves of `states[index]` as pairs (position of the label, position of the target)."""
        for edge in range(self.first[index], self.first[index + 1]):
            yield self.edge_labels[edge], self.edge_targets[edge]

    def edges(self) -> Iterator[tuple[N, Label, N]]:
        """Yield every move as (source, label, target)."""
        for index, source in enumerate(self.states):
            for label, target in self.moves(index):
                yield source, self.labels[label], self.states[target]

    @property
    def edge_count(self) -> int:
        """Return the number of moves, repeated ones included."""
        return len(self.edge_targets)


def graph_of(
    initial: Iterable[N],
    edges: Iterable[tuple[N, Label, N]],
    *,
    states: Iterable[N] = (),
    complete: bool = True,
) -> Graph[N]:
    """Build a graph from its first states and its moves, in any order; `states` adds states without moves.

    Made for graphs that come from elsewhere, such as the dump of another model checker.
    """
    index: dict[N, int] = {}
    firsts = [index.setdefault(node, len(index)) for node in initial]
    for node in states:
        index.setdefault(node, len(index))
    table: dict[Label, int] = {}
    moves: list[tuple[int, int, int]] = []
    for source, label, target in edges:
        begin = index.setdefault(source, len(index))
        end = index.setdefault(target, len(index))
        moves.append((begin, table.setdefault(label, len(table)), end))
    moves.sort(key=lambda move: move[0])
    first = array("q", [0] * (len(index) + 1))
    for begin, _, _ in moves:
        first[begin + 1] += 1
    for position in range(len(index)):
        first[position + 1] += first[position]
    return Graph(
        states=tuple(index),
        initial=tuple(dict.fromkeys(firsts)),
        labels=tuple(table),
        first=first,
        edge_labels=array("i", [label for _, label, _ in moves]),
        edge_targets=array("i", [end for _, _, end in moves]),
        complete=complete,
    )


def mapped(graph: Graph[N], node: Callable[[N], M], label: Callable[[Label], Label]) -> Graph[M]:
    """Return the image of a graph: every state through `node`, every label through `label`.

    States that get the same image become one. Used to compare with a graph whose states are written
    differently.
    """
    states = [node(state) for state in graph.states]
    labels = [label(name) for name in graph.labels]
    edges = (
        (states[source], labels[name], states[target])
        for source in range(len(states))
        for name, target in graph.moves(source)
    )
    return graph_of((states[i] for i in graph.initial), edges, states=states, complete=graph.complete)


# -- digests


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("ascii")).digest()


def _hash_of_set(tag: str, members: Iterable[bytes]) -> str:
    total = hashlib.sha256(tag.encode("ascii"))
    for member in sorted(set(members)):
        total.update(member)
    return total.hexdigest()


def state_keys(graph: Graph[N]) -> list[bytes]:
    """Return the SHA-256 of the canonical text of each state, in the order of the states."""
    return [_hash(text_of(state)) for state in graph.states]


def label_keys(graph: Graph[N]) -> list[bytes]:
    """Return the SHA-256 of the canonical text of each label, in the order of the label table."""
    return [_hash(text_of(label)) for label in graph.labels]


def digest_edges(graph: Graph[N]) -> str:
    """Return the digest of the set of moves (text of the source, text of the label, text of the target)."""
    nodes, labels, sha256 = state_keys(graph), label_keys(graph), hashlib.sha256
    return _hash_of_set(
        "edges",
        (
            sha256(nodes[source] + labels[label] + nodes[target]).digest()
            for source in range(len(nodes))
            for label, target in graph.moves(source)
        ),
    )


def digest(graph: Graph[N]) -> str:
    """Return the digest of the whole graph: its states, its first states and its moves."""
    nodes = state_keys(graph)
    parts = (
        _hash_of_set("states", nodes),
        _hash_of_set("initial", (nodes[index] for index in graph.initial)),
        digest_edges(graph),
    )
    return hashlib.sha256(" ".join(parts).encode("ascii")).hexdigest()


# -- export


def to_json(graph: Graph[N], bound: object = None) -> Iterator[str]:
    """Yield the export of a graph (see `GRAPH.md`) in pieces of text; joined they are one JSON document.

    In pieces, since the document of a large graph should not have to fit into memory. `bound` is any JSON
    value that says what the system was bounded by. States and moves are written in the order of the graph.
    """
    head = {
        "format": FORMAT,
        "complete": graph.complete,
        "bound": bound,
        "digest": digest(graph),
        "digest_edges": digest_edges(graph),
        "labels": [text_of(label) for label in graph.labels],
        "initial": list(graph.initial),
    }
    yield json.dumps(head)[:-1] + ', "states": ['
    for index, state in enumerate(graph.states):
        yield (",\n" if index else "\n") + json.dumps(text_of(state))
    yield '\n], "edges": ['
    separator = "\n"
    for source in range(len(graph.states)):
        for label, target in graph.moves(source):
            yield f"{separator}[{source},{label},{target}]"
            separator = ",\n"
    yield "\n]}\n"


# -- trust


def recheck(system: System[N], graph: Graph[N]) -> str | None:
    """Follow every move of a complete graph again; return what is wrong with it in words, or None.

    Finds two faults that the search cannot see. A system whose moves change from call to call gives another
    list of moves the second time. And a field that holds `True` here and `1` there makes Python take two
    states for one: then the text of a target differs from the text of the state that it was merged into.
    """
    index = {state: position for position, state in enumerate(graph.states)}
    texts = [text_of(state) for state in graph.states]
    for position, state in enumerate(graph.states):
        kept = [(text_of(graph.labels[label]), target) for label, target in graph.moves(position)]
        again = []
        for label, target in system.moves(state):
            found = index.get(target)
            if found is not None and text_of(target) != texts[found]:
                return (
                    f"Two different states are equal to Python: {text_of(target)} and {texts[found]}. "
                    "One field holds values of several types (True and 1, or False and 0)."
                )
            again.append((text_of(label), -1 if found is None else found))
        if again != kept:
            return f"The moves of {texts[position]} were not the same when asked again."
    return None
