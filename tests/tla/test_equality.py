"""Equal graphs are found equal; one difference on either side is found, at the shortest run to it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tla.toys import MODEL, TOY, Moves, moves, renamed, subject, taken_twice, without_label

from loopconform.commands.equal import python_graph, told, verdict
from loopconform.tla import dump
from loopconform.tla.dump import NotComparable, raw_of
from loopconform.tla.equality import Comparison, classes, compare, moves_of, quotient
from loopconform.tla.model import Model, assignments, declared, graph_of
from loopspec.kernel.graph import graph_of as built


def ours(how: Moves = moves) -> dump.Moves:
    """The graph of a toy in Python."""
    toy = subject(how)
    graph = python_graph(toy, "three", toy.law(), None)
    assert graph is not None
    return moves_of(graph, toy)


def small(edges: list[tuple[int, str, int]], core: dict[int, int] | None = None) -> dump.Moves:
    """A graph of numbers; `core` says what of a number is compared (default: nothing)."""
    graph = built([0], edges)
    found = dump.Moves(("core",), (0,))
    for at, state in enumerate(graph.states):
        found.core.append((str((core or {}).get(state, 0)),))
        here: dict[str, set[int]] = {}
        for label, target in graph.moves(at):
            here.setdefault(str(graph.labels[label]), set()).add(target)
        found.moves.append({name: tuple(sorted(targets)) for name, targets in here.items()})
        found.full.append({"core": str(state)})
    return found


RING = [(0, "go", 1), (1, "go", 2), (2, "go", 0)]


def test_the_same_graph_under_other_names() -> None:
    other = [(0, "go", 7), (7, "go", 5), (5, "go", 0)]
    result = compare(small(RING), small(other))
    assert result.one_to_one
    assert verdict(result) == "EQUAL"


def test_one_side_remembers_more() -> None:
    """A ring of three and a ring of six do the same; as graphs they differ, as quotients they do not."""
    six = [(n, "go", (n + 1) % 6) for n in range(6)]
    result = compare(small(RING, {1: 1}), small(six, {1: 1, 4: 1}))
    assert not result.one_to_one
    assert result.equal
    assert verdict(result) == "EQUAL UP TO BISIMULATION"
    assert result.classes == (3, 3)
    assert result.split is not None
    assert "TLA+ tells states apart that loopspec does not (6 pairs)" in "\n".join(told(result))
    assert quotient(small(six)) == 1
    assert len(set(classes(small(six, {1: 1})))) == 6


@pytest.mark.parametrize(
    ("other", "core", "moves_before", "words"),
    [
        ([*RING, (2, "stop", 2)], {}, 2, "After the same run different moves are possible."),
        (RING[:2], {}, 2, "After the same run different moves are possible."),
        (RING, {2: 5}, 2, "The same run leads to states whose mapped fields differ."),
        (RING, {0: 5}, 0, "They do not begin in the same states."),
        ([(0, "go", 1), (1, "go", 2), (2, "go", 1)], {0: 0}, 4, ""),
    ],
)
def test_a_difference_is_found_on_either_side(
    other: list[tuple[int, str, int]], core: dict[int, int], moves_before: int, words: str
) -> None:
    left, right = small(RING), small(other, core)
    if not words:
        assert compare(left, right).equal  # going round in two is the same as in three when nothing is compared
        return
    for result in (compare(left, right), compare(right, left)):
        assert result.apart is not None
        assert verdict(result) == "DIFFERENT"
        assert result.apart.sentence == words
        assert len(result.apart.path) == moves_before
        assert told(result)


def test_a_choice_is_told_apart_by_its_fields() -> None:
    fork = [(0, "go", 1), (0, "go", 2), (1, "left", 1), (2, "right", 2)]
    core = {1: 1, 2: 2}
    assert compare(small(fork, core), small(fork, core)).one_to_one
    swapped = compare(small(fork, core), small(fork, {1: 2, 2: 1}))
    assert swapped.apart is not None
    fewer = compare(small(fork, core), small([(0, "go", 1), (1, "left", 1)], core))
    assert fewer.apart is not None
    assert "leads to other states" in fewer.apart.sentence
    with pytest.raises(NotComparable, match="do not tell apart"):
        compare(small(fork), small(fork))


def test_true_and_one_are_different_labels() -> None:
    result = compare(ours(), ours(renamed))
    assert result.apart is not None
    assert result.apart.left_only == ('<<"call", "send", 2, "a", TRUE>>', '<<"call", "send", 2, "b", TRUE>>')


# -- dumps -----------------------------------------------------------------------------------------------------

NODE = '{name} [label="/\\\\ a = {a}\\n/\\\\ label = {label}"{first}];\n'


def written(tmp_path: Path, *lines: str) -> Path:
    """A dump."""
    file = tmp_path / "graph.dot"
    file.write_text("strict digraph DiskGraph {\n" + "".join(lines) + "}\n")
    return file


def node(name: int, a: str, label: str, first: bool = False) -> str:
    """A state of a dump."""
    return NODE.format(name=name, a=a, label=label.replace('"', '\\"'), first=",style = filled" if first else "")


def edge(source: int, target: int) -> str:
    """A move of a dump."""
    return f'{source} -> {target} [label="Next",color="black",fontcolor="black"];\n'


def test_labels_are_put_on_the_edges(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        node(1, "<<1>>", "<<>>", first=True),
        edge(1, 2),
        node(2, "<<1>>", '<<"again", "->">>'),
        edge(2, 2),
    )
    graph = dump.read(file, ("a",), 2, 3)
    assert graph.states == 1
    assert graph.moves == [{'<<"again", "->">>': (0,)}]
    assert graph.core == [("<<1>>",)]


def test_counts_must_be_those_of_tlc(tmp_path: Path) -> None:
    file = written(tmp_path, node(1, "1", "<<>>", first=True), edge(1, 1))
    with pytest.raises(NotComparable, match="the dump has 1 states, but TLC counted 2"):
        dump.read(file, ("a",), 2, 2)
    with pytest.raises(NotComparable, match="but TLC generated 3"):
        dump.read(file, ("a",), 1, 3)
    with pytest.raises(NotComparable, match=r"no variable `b`, which is compared\. It has `a`"):
        dump.read(file, ("b",), 1, 2)


def test_a_rule_that_reads_the_label_is_found(tmp_path: Path) -> None:
    file = written(
        tmp_path, node(1, "1", "<<>>", first=True), edge(1, 2), node(2, "1", "<<1>>"), edge(1, 3), node(3, "2", "<<2>>")
    )
    with pytest.raises(NotComparable, match="what may happen depends on the variable `label`"):
        dump.read(file, ("a",), 3, 3)


def test_a_model_without_labels(tmp_path: Path) -> None:
    file = written(tmp_path, '1 [label="/\\\\ a = 1\\n/\\\\ b = 2",style = filled];\n')
    with pytest.raises(NotComparable, match="no variable `label`"):
        dump.read(file, ("a",), 1, 1)
    assert raw_of(["nonsense", "}"]).nodes == {}


def test_constants_of_a_model(tmp_path: Path) -> None:
    assert declared(TOY, "Toy") == {"Sends", "Eager", "Broken"}
    assert assignments(TOY / "MCToy_pass.cfg") == {
        "Sends": ("=", "3"),
        "Eager": ("=", "FALSE"),
        "Broken": ("=", "{}"),
    }
    (tmp_path / "More.tla").write_text("---- MODULE More ----\nEXTENDS Toy\nCONSTANT Further\n====\n")
    (tmp_path / "Toy.tla").write_text((TOY / "Toy.tla").read_text())
    with pytest.raises(NotComparable, match="declares Further, which no bound"):
        graph_of(subject(), "three", subject().law(), model=Model(tmp_path, "More", None))


# -- with TLC --------------------------------------------------------------------------------------------------


def against_tlc(how: Moves = moves, **changes: object) -> Comparison:
    """Compare a toy in Python with the toy in TLA+."""
    theirs, _ = graph_of(subject(), "three", subject().law(), model=MODEL, changes=dict(changes))
    return compare(ours(how), theirs)


@pytest.mark.tlc
def test_the_toys_are_equal_and_every_fault_in_python_is_found() -> None:
    theirs, done = graph_of(subject(), "three", subject().law(), model=MODEL)
    right = compare(ours(), theirs)
    assert right.one_to_one
    assert (right.left.states, right.right.edges) == (19, 36)
    assert done.distinct > right.right.states  # copies of a state with different labels
    for fault in (without_label("cleared"), taken_twice, renamed):
        assert compare(ours(fault), theirs).apart is not None


@pytest.mark.tlc
@pytest.mark.parametrize(
    ("fault", "length"), [("full", 2), ("order", 3), ("count", 2)]
)  # a queue of two first; two in the queue and one taken; one taken
def test_every_fault_in_tla_is_found(fault: str, length: int) -> None:
    result = against_tlc(Broken=frozenset({fault}))
    assert result.apart is not None
    assert len(result.apart.path) == length


@pytest.mark.tlc
def test_the_same_fault_on_both_sides_is_equal() -> None:
    def forgetful(s, sends):  # type: ignore[no-untyped-def]
        for label, after in moves(s, sends):
            yield label, (after._replace(taken=0) if label[1] == "cleared" else after)

    assert against_tlc(forgetful, Eager=True).one_to_one
