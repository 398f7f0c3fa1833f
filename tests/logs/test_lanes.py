"""The short ways of the checker: a lane says yes only where the rules have nothing to say, and leaves the same state.

Every log is judged both ways, side by side. And no condition of a lane is there for nothing: dropped, it lets a row of
some log pass that a rule would name. A test run takes the mutants of `lane-mutants.json`; to look for all of them, with
the survivors by name:

    LOOPSPEC_LANE_MUTANTS=all .venv/bin/pytest tests/logs/test_lanes.py -n0 -s
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import random
import textwrap
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from tests.logs import corpus
from tests.logs.building import Builder, Rows, legal, many_turns
from tests.logs.lane_logs import MADE
from tests.logs.test_check_rules import _spoil
from tests.logs.test_rule_mutants import Input, Mutant, _code, inputs, replaced

from loopconform.reader import ReadRow
from loopspec import stream
from loopspec.kernel.prefix import Prefix
from loopspec.log import lanes, tidy
from loopspec.log.damage import Damage
from loopspec.log.grammar import RULES, Judge
from loopspec.log.rule import ANY
from loopspec.log.state import Bracket, Call, Log, Node, Pledge, joined_chunk

FILES = {"lanes": lanes, "tidy": tidy}
"""The shape of a payload is held against the models in `test_plain`."""
SPOILED = 150
"""Logs with some random damage, of each format, that the mutants are tried on."""
KILLERS = Path(__file__).with_name("lane-mutants.json")


# -- both ways ---------------------------------------------------------------------------------------------------


def _open(value: Any) -> Any:
    """A value of the state without its identity."""
    if isinstance(value, Node | Call | Pledge | Bracket):
        return [type(value).__name__, *(_open(getattr(value, name)) for name in type(value).__slots__)]
    if isinstance(value, dict):
        return {key: _open(item) for key, item in value.items()}
    if isinstance(value, Prefix):  # a text is the same in however many pieces it came
        return "".join(map(str, value)) if value and isinstance(value[0], str) else _open(list(value))
    if isinstance(value, list | tuple):
        return [_open(item) for item in value]
    return value


_KEPT_OTHERWISE = {"_assembly", "heard", "_surface", "appended", "run_key", "run_words"}
"""Parts of the state that are kept in two ways: what they stand for is compared in their place."""


def _state(log: Log) -> dict[str, Any]:
    log.flush()
    parts = {name: _open(value) for name, value in vars(log).items() if name not in _KEPT_OTHERWISE}
    return parts | {"assembly": _open(log.assembly), "surface": _open(tuple(log.surface))}


def _fed(judge: Judge, item: Any) -> list[Any]:
    if not isinstance(item, ReadRow):
        return list(judge.damage(item))
    if item.value is None:
        judge.lost_row(item.line)
        return []
    if item.line == 1:
        return list(judge.header(item.value))
    return list(judge.event(item.value, item.line, item.frame, item.offset)) if judge.supported else []


def test_the_state_is_the_same_either_way() -> None:
    taken = 0
    laws: tuple[dict[str, bool], ...] = ({}, {"snapshot": True}, {"foreign": True})
    logs = [*_made(), *inputs()[::2], *_spoiled()[:20], *_spoiled_runs()[:10]]
    for number, (name, generation, rows) in enumerate(logs):
        law: dict[str, Any] = laws[number % 3]
        short, full = Judge(generation=generation, **law), Judge(generation=generation, lanes=False, **law)
        for at, item in enumerate(rows):
            assert _fed(short, item) == _fed(full, item), (name, at)
            if at % 25 == 24 or at == len(rows) - 1:
                assert _state(short._log) == _state(full._log), (name, at)
                taken += 1
        assert short.finish() == full.finish()
    assert taken > 200


@pytest.mark.parametrize("version", [0, 4])
def test_a_row_that_is_not_normalised_like_the_others(version: int) -> None:
    """A snapshot begins without seq and time; of any later row that has them, the rules have something to say."""
    rows = many_turns(version, 2, 3).rows
    for kept in range(2, len(rows)):
        bare = [{k: v for k, v in row.items() if k not in ("seq", "time")} for row in rows[1:]]
        mixed = [rows[0], *bare[: kept - 1], rows[kept], *bare[kept:]]
        judge = Judge(snapshot=True)
        found = [found for item in _items(mixed) for found in _fed(judge, item)]
        assert "S-LNT-17" in [item.rule for item in (*found, *judge.finish())], rows[kept]["type"]


def test_what_the_lanes_imply() -> None:
    """Of an ordinary row no rule is asked twice, and the envelope stands for exactly the rules on every row."""
    assert {rule.id for rule in RULES if ANY in rule.on} == lanes.OF_THE_ENVELOPE
    for kind, lane in lanes.LANES.items():
        on = {rule.id for rule in RULES if kind in rule.on}
        assert lane.implied <= on, kind
        assert lane.implied.isdisjoint(lanes.OF_AN_APPEND | lanes.OF_THE_ENVELOPE), kind


def test_a_tidy_stream_settles_as_it_is_assembled() -> None:
    """Whatever `tidy` answers is what the assembler gives and the grammar lets pass."""
    assert _told(4000) > 500


@pytest.mark.parametrize("number", range(12))
def test_every_condition_of_tidiness_is_needed(number: int) -> None:
    every = [mutant for mutant in mutants("tidy") if mutant.function == "tidy"]
    assert len(every) == 12
    with applied(every[number]):
        if every[number].what.endswith(_IMPLIED):
            assert _told(1000)
        else:
            with pytest.raises((AssertionError, KeyError, stream.AssemblyError)):
                _told(4000)


_IMPLIED = ("without `kind != 'finish'`",)
"""There is no other kind among plain pieces."""


def _told(streams: int) -> int:
    """How many of so many random streams are tidy, each held against the assembler."""
    source = random.Random("tidy")
    said = 0
    for _ in range(streams):
        pieces = [_piece(source) for _ in range(source.randrange(1, 9))] if source.random() < 0.5 else _tidy(source)
        if source.random() < 0.4:
            pieces.insert(source.randrange(len(pieces) + 1), _piece(source))
        settled = tidy.tidy(pieces)
        if settled is None:
            continue
        said += 1
        chunks = [joined_chunk(kind, body) if kind.endswith("-chunks") else body for kind, body in pieces]
        assert not stream.judge_stream(chunks)
        expected = stream.settle(stream.assemble(chunks))
        assert expected == (tuple(settled.content), settled.usage, settled.finish, None)
    return said


def _tidy(source: random.Random) -> list[tuple[str, Any]]:
    """A tidy stream, of which sometimes one index or the finish is another."""
    pieces: list[tuple[str, Any]] = []
    for index in range(source.randrange(3)):
        kind = source.choice(("text", "reasoning", "tool-call"))
        pieces.append(("block-start", {"type": "block-start", "index": index, "blockType": kind}))
        if kind != "tool-call" and source.random() < 0.5:
            pieces.append((f"{kind}-chunks", {"index": index, "texts": ["a", "b"]}))
        block = {"type": kind, "text": source.choice("xy")}
        if kind == "tool-call":
            block = {"type": kind, "id": f"c{index}", "name": "read", "arguments": "{}"}
        pieces.append(("block-end", {"type": "block-end", "index": index, "block": block}))
    if source.random() < 0.5:
        pieces.append(("usage", {"type": "usage", "usage": {"inputTokens": 1, "outputTokens": 1}}))
    pieces.append(("finish", {"type": "finish", "reason": {"kind": source.choice(("stop", "stop", "max-tokens"))}}))
    body = source.choice(pieces)[1]
    if "index" in body and source.random() < 0.2:
        body["index"] = 1 - body["index"]
    return pieces


def _piece(source: random.Random) -> tuple[str, Any]:
    index, kind = source.randrange(2), source.choice(("text", "reasoning"))
    delta = f"{kind}-delta"
    choices: list[tuple[str, Any]] = [
        ("block-start", {"type": "block-start", "index": index, "blockType": kind}),
        (delta, {"type": delta, "index": index, "text": "z"}),
        ("block-end", {"type": "block-end", "index": index, "block": {"type": kind, "text": "z"}}),
        ("usage", {"type": "usage", "usage": {"inputTokens": index, "outputTokens": 1}}),
        ("finish", {"type": "finish", "reason": {"kind": source.choice(("stop", "max-tokens"))}}),
        ("finish", {"type": "finish", "reason": {"kind": "stop"}, "replayState": {"blocks": []}}),
    ]
    return source.choice(choices)


@pytest.mark.parametrize("version", [0, 4])
def test_ordinary_rows_are_ordinary(version: int) -> None:
    """The lanes are taken: of a plain log few rows are asked everything."""
    rows = many_turns(version, 5, 4).rows
    judge = Judge()
    judge.header(rows[0])
    taken = 0
    for line, row in enumerate(rows[1:], 2):
        way = judge._ways.get(row["type"])
        taken += way is not None and lanes.ordinary(judge._log, way, row, line) is not None
        judge.event(row, line)
    eligible = sum(row["type"] in lanes.LANES for row in rows[1:])
    assert taken >= 0.9 * eligible


# -- dropped conditions ------------------------------------------------------------------------------------------


def functions(file: str) -> dict[str, FunctionType]:
    """The functions of a file that say yes or no; those of the lanes by their names."""
    found: dict[str, FunctionType] = {}
    for name, value in vars(FILES[file]).items():
        function = value.lawful if isinstance(value, lanes.Lane) else value
        if isinstance(function, FunctionType) and function.__module__ == FILES[file].__name__:
            found[name] = function
    return found


def mutants(file: str) -> Iterator[Mutant]:
    """Every condition of a file, dropped."""
    for name, function in functions(file).items():
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        count = 0
        for node in ast.walk(tree):
            places: list[tuple[ast.expr, bool]] = []
            if isinstance(node, ast.Return) and node.value is not None:
                places = [(node.value, True)]
            elif isinstance(node, ast.If) and isinstance(node.body[-1], ast.Return) and _says_no(node.body[-1]):
                places = [(node.test, False)]
            for expression, yes in places:
                for what, undo in _dropped(node, expression, yes):
                    count += 1
                    yield Mutant(file, name, f"{count} without `{what}`", _code(tree, function))
                    undo()


def _says_no(answer: ast.Return) -> bool:
    return isinstance(answer.value, ast.Constant) and not answer.value.value


def _dropped(parent: ast.AST, expression: ast.expr, yes: bool) -> Iterator[tuple[str, Any]]:
    """Drop each condition that stands between a row and a yes."""
    weakening = ast.And if yes else ast.Or
    if isinstance(expression, ast.Call) and isinstance(expression.func, ast.Name) and expression.func.id == "bool":
        yield from _dropped(expression, expression.args[0], yes)
    elif isinstance(expression, ast.UnaryOp) and isinstance(expression.op, ast.Not):
        yield from _dropped(expression, expression.operand, not yes)
    elif isinstance(expression, ast.BoolOp):
        for at, operand in enumerate(list(expression.values)):
            if isinstance(expression.op, weakening):
                expression.values[at] = ast.Constant(yes)
                yield ast.unparse(operand), lambda at=at, operand=operand: expression.values.__setitem__(at, operand)
            if isinstance(operand, ast.BoolOp | ast.UnaryOp):
                yield from _dropped(expression, operand, yes)
    elif isinstance(parent, ast.If) and not yes:
        test, parent.test = parent.test, ast.Constant(False)
        yield ast.unparse(test), lambda: setattr(parent, "test", test)


def applied(mutant: Mutant) -> AbstractContextManager[None]:
    """A lane without a condition, for a while."""
    return replaced(functions(mutant.file)[mutant.function], mutant.code)


def _spoiled_rows(version: int, number: int) -> Rows:
    source = random.Random(f"lane {version} {number}")
    rows: Rows = json.loads(json.dumps((legal(version) if number % 3 else many_turns(version, 2, 3)).rows))
    for _ in range(source.randrange(1, 3)):
        _spoil(rows, source)
    return rows


def _items(rows: Rows) -> list[ReadRow | Damage]:
    return [ReadRow(at + 1, 0, 0, row) for at, row in enumerate(rows)]


@cache
def _spoiled() -> list[Input]:
    return [
        (f"spoiled {version} {number}", None, _items(rows))
        for number in range(SPOILED)
        for version in (0, 4)
        for rows in [_spoiled_rows(version, number)]
    ]


@cache
def _spoiled_runs() -> list[Input]:
    """A real log of which one packed row is damaged."""
    path = next(path for path in sorted(corpus.REAL.glob("*.jsonl")) if b'"tool-call-chunks"' in path.read_bytes())
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    packed = [at for at, row in enumerate(rows) if "seq0" in row]
    found: list[Input] = []
    for number in range(SPOILED):
        source = random.Random(f"run {number}")
        at = source.choice(packed)
        part = json.loads(json.dumps([rows[0], rows[at]]))
        _spoil(part, source)
        if len(part) == 2:
            broken = [*rows[:at], part[1], *rows[at + 1 :]]
            found.append((f"spoiled run {number}", None, _items(broken)))
    return found


@cache
def _made() -> list[Input]:
    found: list[Input] = []
    for name, make in MADE.items():
        for version in (0, 4):
            log = Builder(version)
            make(log)
            rows = json.loads(json.dumps(log.rows))
            found.append((f"{name} {version}", None, _items(rows)))
    return found


def judged(one: Input, short: bool) -> list[Any] | str:
    """What the rules say of an input, and the state behind it, by one of the two ways."""
    _, generation, rows = one
    judge = Judge(generation=generation, lanes=short)
    try:
        return [*(found for item in rows for found in _fed(judge, item)), *judge.finish(), _state(judge._log)]
    except Exception as error:  # a mutant that fails is noticed as well
        return type(error).__name__


@cache
def _plainly(name: str) -> list[Any] | str:
    return judged(_by_name()[name], False)


@cache
def _by_name() -> dict[str, Input]:
    return {one[0]: one for one in (*_made(), *inputs(), *_spoiled(), *_spoiled_runs())}


def killer(mutant: Mutant, likely: list[str]) -> str | None:
    """A log that is judged wrongly without the condition, or None for a survivor. Logs that killed others go first."""
    for name in dict.fromkeys([*likely, *_by_name()]):
        plainly = _plainly(name)
        with applied(mutant):
            if judged(_by_name()[name], True) != plainly:
                return name
    return None


def test_dropped_conditions_are_noticed() -> None:
    known: dict[str, str] = json.loads(KILLERS.read_text("utf-8"))["killed"]
    by_name = {mutant.name: mutant for mutant in mutants("lanes")}
    assert known.keys() <= by_name.keys(), "the conditions have changed: look for all mutants anew"
    for name, log in known.items():
        plainly = _plainly(log)
        with applied(by_name[name]):
            assert judged(_by_name()[log], True) != plainly, name


def test_no_condition_is_there_for_nothing() -> None:
    """Every condition of a lane is killed by some log."""
    known = json.loads(KILLERS.read_text("utf-8"))
    assert {mutant.name for mutant in mutants("lanes")} == known["killed"].keys()
    assert not known["survived"]


@pytest.mark.skipif(os.environ.get("LOOPSPEC_LANE_MUTANTS") != "all", reason="by command only: some minutes")
@pytest.mark.timeout(3600)
def test_all_mutants_with_the_survivors_by_name() -> None:
    killed: dict[str, str] = {}
    survived: list[str] = []
    for mutant in mutants("lanes"):
        log = killer(mutant, list(killed.values())[::-1])
        if log is None:
            survived.append(mutant.name)
        else:
            killed[mutant.name] = log
        print(mutant.name, "->", log, flush=True)
    print(f"\n{len(killed)} of {len(killed) + len(survived)} killed; survivors:")
    for name in survived:
        print("  " + name)
    KILLERS.write_text(json.dumps({"killed": killed, "survived": survived}, indent=1) + "\n", "utf-8")
