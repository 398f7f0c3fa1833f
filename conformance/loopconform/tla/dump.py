r"""The complete labelled graph of a TLA+ model, from TLC's DOT dump.

The variable `label` is taken off the states and put on the edges: a state of the dump is a true state and the label of
a move that leads to it. For that to be exact no move may depend on the label; `read` checks it on every state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from loopconform.tla.parse import NotAValue, value_of
from loopconform.tla.values import Value, text

LABEL = "label"


class NotComparable(RuntimeError):
    """The dump cannot be used: it does not fit the counts, or the model does not keep to the conventions."""


@dataclass
class Moves:
    """The graph of one statement, in the form that both are compared in.

    A state is a number. `core` gives its mapped fields as texts, in the order of `fields`. `moves` gives for each label
    the states that it leads to, without repetitions, in ascending order. `full` shows a state for people.
    """

    fields: tuple[str, ...]
    initial: tuple[int, ...]
    core: list[tuple[str, ...]] = field(default_factory=list)
    moves: list[dict[str, tuple[int, ...]]] = field(default_factory=list)
    full: list[dict[str, str]] = field(default_factory=list)
    edges: int = 0
    labels: int = 0

    @property
    def states(self) -> int:
        """How many states there are."""
        return len(self.core)


@dataclass
class Raw:
    """The dump as it is: states with their labels, by TLC's own names for them."""

    nodes: dict[str, str] = field(default_factory=dict)
    initial: list[str] = field(default_factory=list)
    edges: list[tuple[str, str]] = field(default_factory=list)


_EDGE = re.compile(r'^(-?\d+) -> (-?\d+) \[label="')
_NODE = re.compile(r'^(-?\d+) \[label="((?:[^"\\]|\\.)*)"(,style = filled)?')
_ESCAPE = re.compile(r"\\(.)")
_CONJUNCT = "\n/\\ "


def _unescape(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]


def raw_of(lines: Iterable[str]) -> Raw:
    """The states and edges of a DOT dump."""
    raw = Raw()
    for line in lines:
        edge = _EDGE.match(line)
        if edge is not None:
            raw.edges.append((edge[1], edge[2]))
            continue
        node = _NODE.match(line)
        if node is not None:
            raw.nodes[node[1]] = node[2]
            if node[3]:
                raw.initial.append(node[1])
    return raw


def read(file: Path, fields: tuple[str, ...], distinct: int, generated: int) -> Moves:
    """The graph in a dump, with its counts held against those that TLC gave.

    Raises `NotComparable` when they do not agree, when a variable of `fields` is missing, when there is no `label`, or
    when a move depends on the label.
    """
    with file.open(encoding="utf-8") as lines:
        raw = raw_of(lines)
    if len(raw.nodes) != distinct:
        raise NotComparable(f"the dump has {len(raw.nodes)} states, but TLC counted {distinct}")
    if len(raw.edges) + len(raw.initial) != generated:
        raise NotComparable(
            f"the dump has {len(raw.edges)} moves and {len(raw.initial)} first states, but TLC generated {generated}"
        )
    return _projected(raw, fields)


class _Reader:
    """Canonical texts of raw conjuncts. Each different one is parsed once."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[str, str]] = {}

    def conjunct(self, raw: str) -> tuple[str, str]:
        found = self.known.get(raw)
        if found is None:
            name, equals, value = raw.partition(" = ")
            if not equals:
                raise NotComparable(f"{raw[:100]!r} in the dump does not say what a variable is")
            try:
                parsed: Value = value_of(value)
            except NotAValue as error:
                raise NotComparable(str(error)) from None
            found = self.known[raw] = (name.strip(), text(parsed))
        return found

    def state(self, escaped: str) -> dict[str, str]:
        plain = "\n" + _ESCAPE.sub(_unescape, escaped).strip()
        parts = plain.split(_CONJUNCT)
        return dict(self.conjunct(part.strip()) for part in (parts[1:] if len(parts) > 1 else parts))


def _projected(raw: Raw, fields: tuple[str, ...]) -> Moves:
    reader = _Reader()
    index: dict[tuple[tuple[str, str], ...], int] = {}
    place: dict[str, int] = {}
    label: dict[str, str] = {}
    graph = Moves(fields, ())
    for name, escaped in raw.nodes.items():
        state = reader.state(escaped)
        if LABEL not in state:
            raise NotComparable("the model has no variable `label`")
        missing = [one for one in fields if one not in state]
        if missing:
            has = ", ".join(f"`{one}`" for one in state)
            wanted = ", ".join(f"`{one}`" for one in missing)
            raise NotComparable(f"the model has no variable {wanted}, which is compared. It has {has}.")
        label[name] = state.pop(LABEL)
        key = tuple(state.items())
        at = index.setdefault(key, len(index))
        place[name] = at
        if at == len(graph.core):
            graph.core.append(tuple([state[one] for one in fields]))
            graph.full.append(state)
    graph.initial = tuple(dict.fromkeys(place[name] for name in raw.initial))
    _add_moves(graph, raw, place, label)
    return graph


def _add_moves(graph: Moves, raw: Raw, place: dict[str, int], label: dict[str, str]) -> None:
    """Put the labels on the moves; every copy of a state must have the same ones."""
    out: dict[str, set[tuple[str, int]]] = {name: set() for name in raw.nodes}
    for source, target in raw.edges:
        out[source].add((label[target], place[target]))
    chosen: dict[int, set[tuple[str, int]]] = {}
    for name, moves in out.items():
        at = place[name]
        if chosen.setdefault(at, moves) != moves:
            raise NotComparable(
                f"what may happen depends on the variable `label`: after {label[name]} there are other moves than "
                f"usual from the state {state_text(graph.full[at])}"
            )
    names: set[str] = set()
    for number in range(graph.states):
        here: dict[str, list[int]] = {}
        for named, to in sorted(chosen[number]):
            here.setdefault(named, []).append(to)
        graph.moves.append({named: tuple(targets) for named, targets in here.items()})
        graph.edges += len(chosen[number])
        names.update(here)
    graph.labels = len(names)


def state_text(state: dict[str, str]) -> str:
    """A state on one line."""
    return " /\\ ".join(f"{name} = {value}" for name, value in state.items())
