"""Conditions inside the checker's rules, bent one at a time: some log must then be judged differently.

Switching a rule off is one mutant (`test_check_rules`); here a comparison is turned round, `and` and `or` are
exchanged, or a `not` is dropped, in any function of `loopspec.log.rules`. The inputs are the real logs, the mutated
ones with their verdicts, the field cases and the made ones. A test run takes those of `KILLED`; for
all of them, with the survivors by name (105 of 602 when this was written):

    LOOPSPEC_RULE_MUTANTS=all .venv/bin/pytest tests/logs/test_rule_mutants.py -n0 -s
"""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import pkgutil
import textwrap
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import pytest
from tests.logs import corpus
from tests.logs.bad import CASES
from tests.logs.building import legal, render

import loopspec.log.rules
from loopconform.reader import ReadRow, read
from loopspec.log.damage import Damage
from loopspec.log.grammar import Judge
from loopspec.log.rule import Rule, Violation

FILES = sorted(module.name for module in pkgutil.iter_modules(loopspec.log.rules.__path__))


class Mutant(NamedTuple):
    """One bent condition: file, function, what was done, and the code."""

    file: str
    function: str
    what: str
    code: CodeType

    @property
    def name(self) -> str:
        """`file.function: what`."""
        return f"{self.file}.{self.function}: {self.what}"


_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


def functions(file: str) -> dict[str, FunctionType]:
    """The functions of a file of rules: the checks inside the rules, and their helpers."""
    module = importlib.import_module(f"loopspec.log.rules.{file}")
    found: dict[str, FunctionType] = {}
    for name, value in vars(module).items():
        function = value.check if isinstance(value, Rule) else value
        if isinstance(function, FunctionType) and function.__module__ == module.__name__:
            found[name] = function
    return found


def mutants(file: str) -> Iterator[Mutant]:
    """Every bent condition of a file."""
    for name, function in functions(file).items():
        source = textwrap.dedent(inspect.getsource(function))
        tree = ast.parse(source)
        for node in ast.walk(tree):
            for what, undo in _bent(node):
                yield Mutant(file, name, what, _code(tree, function))
                undo()


def _bent(node: ast.AST) -> Iterator[tuple[str, Any]]:
    """Bend one node in every way, and give back what puts it right."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        before = node.ops[0]
        text = ast.unparse(node)
        node.ops[0] = _OPPOSITE[type(before)]()
        yield f"`{text}` turned round", lambda: node.ops.__setitem__(0, before)
    elif isinstance(node, ast.BoolOp):
        old = node.op
        text = ast.unparse(node)
        node.op = ast.Or() if isinstance(old, ast.And) else ast.And()
        yield f"`{text}` with the other connective", lambda: setattr(node, "op", old)
    elif isinstance(node, ast.If) and isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not):
        test = node.test
        text = ast.unparse(test)
        node.test = test.operand
        yield f"`{text}` without not", lambda: setattr(node, "test", test)


def _code(tree: ast.Module, function: FunctionType) -> CodeType:
    definition = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    decorators, definition.decorator_list = definition.decorator_list, []
    space: dict[str, Any] = dict(function.__globals__)
    exec(compile(ast.fix_missing_locations(ast.Module([definition], [])), "<mutant>", "exec"), space)
    definition.decorator_list = decorators
    made: FunctionType = space[definition.name]
    return made.__code__


@contextmanager
def replaced(function: FunctionType, code: CodeType) -> Iterator[None]:
    """Put a mutant's code in the place of the real one, and take it out again."""
    real, function.__code__ = function.__code__, code
    try:
        yield
    finally:
        function.__code__ = real


def applied(mutant: Mutant) -> AbstractContextManager[None]:
    """A bent rule, for a while."""
    return replaced(functions(mutant.file)[mutant.function], mutant.code)


Input = tuple[str, int | None, list[ReadRow | Damage]]


@cache
def inputs() -> list[Input]:
    """All logs, read once: name, generation of the file name, items."""
    import tempfile

    found: list[Input] = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for at, mutation in enumerate(corpus.mutations()):
            path = corpus.write(mutation, root / str(at))
            found.append((f"mutation {mutation['name']}", 0, list(read(path))))
        for version in (0, 4):
            path = root / f"legal{version}.jsonl"
            path.write_bytes(render(legal(version).rows))
            found.append((f"legal {version}", None, list(read(path))))
        for name, make in CASES.items():
            path = root / f"{name}.jsonl"
            path.write_bytes(render(make().rows))
            found.append((f"made {name}", None, list(read(path))))
    for path in sorted([*corpus.FIELD.glob("*.jsonl"), *corpus.REAL.glob("*.jsonl")]):
        found.append((path.name, None, list(read(path))))
    return found


def judged(one: Input) -> list[tuple[Any, ...]] | str:
    """What the rules say of an input, without the wording."""
    _, generation, rows = one
    judge = Judge(lanes=False, generation=generation)
    found: list[Violation] = []
    try:
        for item in rows:
            if not isinstance(item, ReadRow):
                found += judge.damage(item)
            elif item.value is None:
                judge.lost_row(item.line)
            elif item.line == 1:
                found += judge.header(item.value)
            elif judge.supported:
                found += judge.event(item.value, item.line, item.frame, item.offset)
        found += judge.finish()
    except Exception as error:  # a mutant that fails is noticed as well
        return type(error).__name__
    return [(item.rule, item.level, item.line, item.seq) for item in found]


@cache
def _plainly() -> list[list[tuple[Any, ...]] | str]:
    return [judged(one) for one in inputs()]


def killer(mutant: Mutant) -> str | None:
    """The first log that is judged differently, or None for a survivor."""
    plainly = _plainly()  # worked out before the mutant is in place
    with applied(mutant):
        for one, before in zip(inputs(), plainly, strict=True):
            if judged(one) != before:
                return one[0]
    return None


KILLED = {
    "brackets.retry_ranges: `log.step is None` turned round": "mutation retry-skips",
    "brackets.retry_counts: `retry != count + 1` turned round": "mutation retry-skips",
    "container.has_header: `damage.kind == 'empty-file'` turned round": "mutation seq-gap-in-open-tail",
    "container.first_frame_is_header: `damage.kind != 'first-frame'` turned round": "mutation seq-gap-in-open-tail",
    "envelope.seq_is_index: `type(seq) is int and seq == row.index` with the other connective": "mutation seq-gap",
    "envelope.time_goes_on: `row.type == END` turned round": "mutation time-negative",
    "header.supported_version: `log.generation is not None` turned round": "legal 0",
    "header._fits: `name == 'origin'` turned round": "legal 4",
    "inbox.does_something: `splice.removed == 0` turned round": "mutation inbox-bad-splice",
    "inbox.unique_pending: `not splice.legal` without not": "mutation inbox-dup-id",
    "messages.unique_ids: `type(message_id) is not str` turned round": "mutation message-dup-id",
    "requests.canonical: `'system' in header` turned round": "legal 4",
    "requests.defaults: `not marks` without not": "mutation replay-differs",
    "streams.grammar: `row.data.get('interrupted') is not True` turned round": "made v4-stream-without-a-finish",
    "streams.cites_chunks: `not row.appends` without not": "mutation sources-empty-assistant",
    "surface._broken: `found.rule == clause` turned round": "mutation surface-missing-op",
    "surface.sources: `found.rule == 'S-SUR-5'` turned round": "mutation surface-missing-op",
    "tools.advertised_ids: `record(block).get('type') != 'tool-call'` turned round": "mutation call-id-dup",
    "tools.starts_once: `call is None` turned round": "mutation call-not-advertised",
    "turns.turn_reason: `not known` without not": "mutation reason-aborted-bare",
    "turns._is_failure: `type(failure.get(name)) is str` turned round": "mutation retry-skips",
}
"""Mutants by name, each with the first log that notices: at least one of every file."""


def test_named_mutants_are_killed_by_their_logs() -> None:
    assert {name.split(".")[0] for name in KILLED} == set(FILES)
    by_name = {mutant.name: mutant for file in FILES for mutant in mutants(file)}
    for name, log in KILLED.items():
        assert killer(by_name[name]) == log, name


def test_a_mutant_that_changes_nothing_survives() -> None:
    """The measurement itself: code that was only compiled anew is not noticed."""
    function = functions("turns")["turn_reason"]
    same = _code(ast.parse(textwrap.dedent(inspect.getsource(function))), function)
    assert killer(Mutant("turns", "turn_reason", "nothing", same)) is None


def test_taking_a_mutant_out_restores_the_rule() -> None:
    mutant = next(mutants("turns"))
    before = _plainly()
    with applied(mutant):
        pass
    assert [judged(one) for one in inputs()[:5]] == before[:5]


@pytest.mark.skipif(os.environ.get("LOOPSPEC_RULE_MUTANTS") != "all", reason="by command only: about a thousand runs")
@pytest.mark.timeout(3600)
def test_all_mutants_with_the_survivors_by_name() -> None:
    survivors: list[str] = []
    total = 0
    for file in FILES:
        for mutant in mutants(file):
            total += 1
            if killer(mutant) is None:
                survivors.append(mutant.name)
    print(f"\n{total - len(survivors)} of {total} killed; survivors:")
    for name in survivors:
        print("  " + name)
    assert len(survivors) <= 0.25 * total
