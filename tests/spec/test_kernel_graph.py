"""Graphs as values: texts, digests that pin them, export, and the first difference of two graphs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from enum import Enum, IntEnum
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import strategies as st
from tests.spec.kernel_copy import Kernel, for_all
from tests.spec.naive import Moves, distances, pairs
from tests.spec.toys import Inbox, InboxState, Table

from loopspec.kernel.explore import explore
from loopspec.kernel.graph import Graph, digest, digest_edges
from loopspec.kernel.system import Label, N, System

KERNEL = Path(sys.modules["loopspec.kernel.explore"].__file__ or "").parent
ROOT = Path(__file__).parent.parent.parent


def graph(system: System[N]) -> Graph[N]:
    """Explore completely and return the graph."""
    result = explore(system, is_final=lambda node: True, keep_edges=True)
    assert result.graph is not None
    return result.graph


# -- texts


class Colour(Enum):
    """An ordinary enumeration."""

    RED = 1


class Level(IntEnum):
    """Members that are equal to numbers."""

    ONE = 1


class Pair(NamedTuple):
    """A tuple with names."""

    left: object
    right: object


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "none"),
        (True, "true"),
        (1, "1"),
        (-1, "-1"),
        (1.0, "1.0f"),
        ("", '""'),
        ("é\n", '"\\u00e9\\n"'),
        (b"\x00\xff", 'x"00ff"'),
        ((), "()"),
        ((1,), "(1,)"),
        ((1, (True, "a")), '(1,(true,"a"))'),
        (frozenset({2, 11}), "{11,2}"),  # a set of these goes through 2 first, however it was made
        (Pair(1, ()), "Pair(left=1,right=())"),
        (Colour.RED, "Colour.RED"),
        (Level.ONE, "Level.ONE"),
    ],
)
def test_texts(kernel: Kernel, value: object, text: str) -> None:
    assert kernel.text_of(value) == text


@pytest.mark.parametrize("value", [[1], {1}, {1: 2}, object(), (1, [2])])
def test_what_cannot_be_a_state_is_refused(kernel: Kernel, value: object) -> None:
    with pytest.raises(TypeError, match="cannot be part of a state"):
        kernel.text_of(value)


ATOMS = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a", "0", "1", "true", ","])
VALUES = st.recursive(ATOMS, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)


def shape(value: object) -> object:
    """Return a value that is equal exactly for values of equal types and contents."""
    if isinstance(value, tuple):
        return ("tuple", *map(shape, value))
    return (type(value).__name__, value)


@for_all(VALUES, VALUES)
def test_texts_are_equal_exactly_for_equal_values(kernel: Kernel, one: object, other: object) -> None:
    assert (kernel.text_of(one) == kernel.text_of(other)) == (shape(one) == shape(other))


# -- digests

SCRIPT = """
from loopspec.kernel.explore import explore
from loopspec.kernel.graph import digest, digest_edges
from tests.spec.toys import Inbox
graph = explore(Inbox(3), is_final=lambda node: True, keep_edges=True).graph
print(digest(graph), digest_edges(graph))
"""


def test_digests_are_the_same_in_every_process() -> None:
    """The inbox has a frozenset of numbers in its states, and labels with texts: both hash differently."""
    here = graph(Inbox(3))
    answers = set()
    for seed in ("0", "1", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'spec'}"}
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True, cwd=ROOT
        )
        answers.add(run.stdout.strip())
    assert answers == {f"{digest(here)} {digest_edges(here)}"}


class Reversed:
    """The same system, exploring its moves in the opposite order."""

    def __init__(self, system: System[InboxState]) -> None:
        self.system = system

    def initial(self) -> Iterator[InboxState]:
        return iter(self.system.initial())

    def moves(self, node: InboxState) -> Iterator[tuple[Label, InboxState]]:
        return reversed(tuple(self.system.moves(node)))


def test_digests_do_not_depend_on_the_order_of_exploration(kernel: Kernel) -> None:
    forwards, backwards = graph(Inbox(3)), graph(Reversed(Inbox(3)))
    assert forwards.states != backwards.states
    assert kernel.digest(forwards) == kernel.digest(backwards)
    assert kernel.digest_edges(forwards) == kernel.digest_edges(backwards)
    assert kernel.difference(forwards, backwards) is None


@for_all(pairs(5))
def test_digests_are_equal_exactly_for_equal_graphs(
    kernel: Kernel, pair: tuple[tuple[Moves, tuple[int, ...]], tuple[Moves, tuple[int, ...]]]
) -> None:
    one, other = pair
    left, right = graph(Table(*one)), graph(Table(*other))
    same_edges = set(left.edges()) == set(right.edges())
    same = same_edges and _firsts(left) == _firsts(right) and set(left.states) == set(right.states)
    assert (kernel.digest_edges(left) == kernel.digest_edges(right)) == same_edges
    assert (kernel.digest(left) == kernel.digest(right)) == same


def _firsts(found: Graph[int]) -> set[int]:
    return {found.states[index] for index in found.initial}


def test_digests_tell_true_from_one(kernel: Kernel) -> None:
    number = kernel.graph_of([(1, "")], [((1, ""), "go", (0, ""))])
    truth = kernel.graph_of([(True, "")], [((True, ""), "go", (False, ""))])
    assert list(number.edges()) == list(truth.edges())
    assert kernel.digest(number) != kernel.digest(truth)
    assert kernel.digest_edges(number) != kernel.digest_edges(truth)


def test_digests_look_at_labels(kernel: Kernel) -> None:
    one = kernel.graph_of([0], [(0, "a", 1)])
    other = kernel.graph_of([0], [(0, ("a",), 1)])
    assert kernel.digest_edges(one) != kernel.digest_edges(other)


def test_digests_look_at_the_direction(kernel: Kernel) -> None:
    one = kernel.graph_of([0], [(0, "a", 1)])
    other = kernel.graph_of([0], [(1, "a", 0)])
    assert kernel.digest_edges(one) != kernel.digest_edges(other)


def test_digest_of_a_known_graph(kernel: Kernel) -> None:
    """Pinned, so that the definition in `GRAPH.md` cannot change unnoticed; computed there from the text alone."""
    import hashlib

    def sha(data: bytes) -> bytes:
        return hashlib.sha256(data).digest()

    a, b, go = sha(b'("a",)'), sha(b'("b",)'), sha(b'"go"')
    edges = hashlib.sha256(b"edges" + b"".join(sorted([sha(a + go + b), sha(b + go + b)]))).hexdigest()
    states = hashlib.sha256(b"states" + b"".join(sorted([a, b]))).hexdigest()
    initial = hashlib.sha256(b"initial" + a).hexdigest()
    whole = hashlib.sha256(f"{states} {initial} {edges}".encode()).hexdigest()
    made = kernel.graph_of([("a",)], [(("b",), "go", ("b",)), (("a",), "go", ("b",)), (("a",), "go", ("b",))])
    assert kernel.digest_edges(made) == edges
    assert kernel.digest(made) == whole


# -- export


def test_export_holds_the_whole_graph(kernel: Kernel) -> None:
    whole = graph(Inbox(2))
    document = json.loads("".join(kernel.to_json(whole, {"messages": 2})))
    assert document["format"] == "loopspec-graph-1"
    assert document["complete"] is True
    assert document["bound"] == {"messages": 2}
    assert document["digest"] == digest(whole)
    assert document["digest_edges"] == digest_edges(whole)
    texts = {(document["states"][s], document["labels"][n], document["states"][t]) for s, n, t in document["edges"]}
    assert texts == {tuple(map(kernel.text_of, edge)) for edge in whole.edges()}
    assert len(document["edges"]) == whole.edge_count
    assert [document["states"][index] for index in document["initial"]] == [kernel.text_of(InboxState())]


def test_the_example_of_the_documentation_is_right(kernel: Kernel) -> None:
    """`GRAPH.md` shows the export of a light switch; it must be what the code writes."""
    text = (KERNEL / "GRAPH.md").read_text(encoding="utf-8")
    example = json.loads(text.split("```json\n")[1].split("```")[0])
    switch = kernel.graph_of(
        [("off", 0)],
        [
            (("off", 0), "press", ("on", 1)),
            (("on", 1), "press", ("off", 0)),
            (("on", 1), ("hold", 2), ("on", 1)),
        ],
    )
    assert json.loads("".join(kernel.to_json(switch, {"presses": "any"}))) == example


# -- differences


@for_all(pairs(6))
def test_the_first_difference_is_a_nearest_one(
    kernel: Kernel, pair: tuple[tuple[Moves, tuple[int, ...]], tuple[Moves, tuple[int, ...]]]
) -> None:
    one, other = pair
    left, right = graph(Table(*one)), graph(Table(*other))
    found = kernel.difference(left, right)
    assert (found is None) == (digest(left) == digest(right))
    if set(one[1]) != set(other[1]):
        assert found.path is None
        assert {node for _, node in found.left_only} == set(one[1]) - set(other[1])
        return
    lengths, known = distances(*one), distances(*other)
    apart = [
        lengths[node] for node in lengths if set(one[0].get(node, ())) != set(other[0].get(node, ())) and node in known
    ]
    if not apart:
        assert found is None
        return
    assert len(found.path) == min(apart)
    ours, theirs = set(one[0].get(found.path.end, ())), set(other[0].get(found.path.end, ()))
    assert set(found.left_only) == ours - theirs
    assert set(found.right_only) == theirs - ours
    assert set(found.left_enabled) == {label for label, _ in ours}
    assert set(found.right_enabled) == {label for label, _ in theirs}


def test_a_difference_between_true_and_one_is_one(kernel: Kernel) -> None:
    left = kernel.graph_of([0], [(0, "a", (1,))])
    right = kernel.graph_of([0], [(0, "a", (True,))])
    assert len(kernel.difference(left, right).path) == 0


def test_a_difference_that_no_run_reaches_is_one(kernel: Kernel) -> None:
    left = kernel.graph_of([0], [(0, "a", 0), (7, "a", 8)])
    right = kernel.graph_of([0], [(0, "a", 0), (7, "b", 8)])
    found = kernel.difference(left, right)
    assert found.path is None
    assert "no run reaches" in found.sentence


def test_graphs_of_other_states_compare_through_a_mapping(kernel: Kernel) -> None:
    numbers = kernel.graph_of([1], [(1, "next", 2)])
    texts = kernel.graph_of(["s1"], [("s1", "Next", "s2")])
    image = kernel.mapped(texts, lambda state: int(state[1:]), lambda label: str(label).lower())
    assert kernel.digest(image) == kernel.digest(numbers)


# -- trust


class Mixed:
    """A flag that is True on one way and 1 on the other."""

    def initial(self) -> list[tuple[object, ...]]:
        return [("start",)]

    def moves(self, node: tuple[object, ...]) -> list[tuple[Label, tuple[object, ...]]]:
        return [("left", ("flag", True)), ("right", ("flag", 1))] if node == ("start",) else []


def test_recheck_finds_true_that_was_taken_for_one(kernel: Kernel) -> None:
    found = graph(Mixed())
    assert len(found.states) == 2
    assert "equal to Python" in kernel.recheck(Mixed(), found)


def test_recheck_finds_moves_that_change(kernel: Kernel) -> None:
    memory: Mapping[int, list[tuple[str, int]]] = {0: [("a", 1)], 1: [("b", 0)]}
    system = Table(memory)
    found = graph(system)
    assert kernel.recheck(system, found) is None
    memory[1].append(("c", 0))
    assert "not the same" in kernel.recheck(system, found)
