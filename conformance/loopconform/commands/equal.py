"""`loopspec equal`: whether the Python machine and its TLA+ model have the same graph."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from loopconform.exit_codes import epilog
from loopconform.tla.documents import equalities
from loopconform.tla.dump import Moves, NotComparable, state_text
from loopconform.tla.equality import Apart, Comparison, compare, moves_of
from loopconform.tla.instances import TLA, enter
from loopconform.tla.model import graph_of, model_of
from loopconform.tla.subjects import Compared, Subject, subjects
from loopconform.tla.tlc import Missing, Stopped
from loopharness.collector import collector_paused
from loopspec.kernel.encoding import text_of
from loopspec.kernel.explore import explore
from loopspec.kernel.graph import Graph
from loopspec.profile import PROFILES, Law, Profile

EQUAL, DIFFERENT, NOT_COMPARED, UNDETERMINED = 0, 1, 2, 3


def python_graph(subject: Subject, bound: str, law: Law, max_states: int | None) -> Graph[Any] | None:
    """The complete graph of the Python machine; None when it has more states than allowed."""
    with collector_paused():
        found = explore(subject.system(law, bound), is_final=lambda node: True, keep_edges=True, max_states=max_states)
    return found.graph if found.complete else None


@click.command(
    "equal",
    short_help="Compare a machine with its TLA+ model, state by state.",
    epilog=epilog("equal"),
)
@click.argument("machine")
@click.option("--bound", "bounds", multiple=True, help="A named bound; or `quick` (default), `ci`, `deep`, `all`.")
@click.option("--profile", type=click.Choice(PROFILES), help="Whose law. Default: that of the machine, mostly seed.")
@click.option("--session-format", type=click.Choice(("0", "4")), help="Of which format. Default: that of the machine.")
@click.option("--max-states", type=click.IntRange(1), help="Give up (undecided) beyond this many states.")
@click.option("--timeout", type=click.IntRange(1), default=1800, show_default=True, help="Seconds for TLC.")
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE", help="Set a constant of the TLA+ side only.")
@click.option("--record", is_flag=True, help="Pin the counts of equal graphs in tla/equality.json.")
@click.option("--jar", "other_jar", type=click.Path(exists=True, path_type=Path), help="Another tla2tools.jar.")
@click.option("--models", type=click.Path(exists=True, path_type=Path), help="Another directory of models.")
def command(
    machine: str,
    bounds: tuple[str, ...],
    profile: Profile | None,
    session_format: str | None,
    max_states: int | None,
    timeout: int,
    changes: tuple[str, ...],
    record: bool,
    other_jar: Path | None,
    models: Path | None,
) -> None:
    """Compare MACHINE with its TLA+ model: complete labelled graphs, walked in step from the first states."""
    known = subjects()
    if machine not in known:
        raise click.BadParameter(f"{machine!r}; there are {', '.join(known)}", param_hint="MACHINE")
    subject = known[machine]
    asked = Asked(max_states, timeout, settings(changes), record, other_jar, models or TLA)
    worst = EQUAL
    for one in chosen(subject, bounds):
        law = subject.law(profile or one.profile, None if session_format is None else int(session_format))
        worst = max(worst, _one(subject, one.bound, law, asked))
    raise SystemExit(worst)


def chosen(subject: Subject, bounds: tuple[str, ...]) -> list[Compared]:
    """What was asked for. Raises `click.BadParameter` for unknown bounds."""
    found: list[Compared] = []
    for name in bounds or ("quick",):
        if name == "all":
            found += map(Compared, subject.bounds)
        elif name == "ci":
            found += subject.in_ci
        elif name == "deep":
            found += subject.by_command
        elif name == "quick":
            found.append(Compared(subject.quick))
        elif name in subject.bounds:
            found.append(Compared(name))
        else:
            raise click.BadParameter(f"{name!r}; there are {', '.join(subject.bounds)}", param_hint="--bound")
    return list(dict.fromkeys(found))


def settings(pairs: tuple[str, ...]) -> dict[str, Any]:
    """`--set Broken={"latches"}` as values. Raises `click.BadParameter`."""
    from loopconform.tla.parse import NotAValue, value_of

    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        try:
            if not equals:
                raise NotAValue(f"{pair!r} is not NAME=VALUE")
            found[name] = value_of(value)
        except NotAValue as error:
            raise click.BadParameter(str(error), param_hint="--set") from None
    return found


class Asked(NamedTuple):
    """What is the same for every comparison of one command."""

    max_states: int | None
    timeout: int
    changes: dict[str, Any]
    record: bool
    other_jar: Path | None
    models: Path


def title(subject: Subject, bound: str, law: Law) -> str:
    """The name of a comparison, also in `equality.json`."""
    return f"{subject.name} {bound} under {law!r}"


def _one(subject: Subject, bound: str, law: Law, asked: Asked) -> int:
    name = title(subject, bound, law)
    begin = time.perf_counter()
    graph = python_graph(subject, bound, law, asked.max_states)
    if graph is None:
        click.echo(f"UNDETERMINED  {name}: loopspec has more than {asked.max_states:,} states")
        return UNDETERMINED
    ours = moves_of(graph, subject)
    middle = time.perf_counter()
    try:
        theirs, done = graph_of(
            subject,
            bound,
            law,
            model=model_of(subject, asked.models),
            changes=asked.changes,
            other_jar=asked.other_jar,
            timeout=asked.timeout,
            small=ours.states < 20_000,
        )
        result = compare(ours, theirs)
    except Stopped as error:
        click.echo(f"UNDETERMINED  {name}: {error}")
        return UNDETERMINED
    except (NotComparable, Missing) as error:
        click.echo(f"NOT COMPARED  {name}: {error}")
        return NOT_COMPARED
    seconds = f"{middle - begin:.1f} s loopspec, {done.seconds:.1f} s TLC, {time.perf_counter() - begin:.1f} s in all"
    click.echo(f"{verdict(result)}  {name}; {seconds}")
    for line in told(result, graph):
        click.echo(line)
    if not result.equal or asked.changes:
        return EQUAL if result.equal else DIFFERENT
    if asked.record:
        entry = {**counts(result), "seconds": round(done.cpu, 1)}
        enter(asked.models / "equality.json", "comparisons", name, entry)
    faults = list(pin_faults(result, equalities(asked.models).get(name)))
    for fault in faults:
        click.echo(f"  {fault}")
    return DIFFERENT if faults else EQUAL


def pin_faults(result: Comparison, pin: dict[str, Any] | None) -> Iterator[str]:
    """Which counts are not those that are pinned, in sentences. What was never pinned has no fault."""
    for name, value in counts(result).items():
        if pin is not None and pin.get(name) != value:
            yield f"PINNED OTHERWISE: {name} is {value}, but tla/equality.json says {pin.get(name)}"


def counts(result: Comparison) -> dict[str, Any]:
    """What of a comparison is exact and therefore pinned."""
    exact = {"verdict": verdict(result), "loopspec": result.left.states, "tla": result.right.states}
    exact |= {"moves": result.left.edges, "labels": result.left.labels}
    return exact if result.classes is None else {**exact, "classes": result.classes[0]}


def verdict(result: Comparison) -> str:
    """One word, or a few, for the result."""
    if result.one_to_one:
        return "EQUAL"
    return "EQUAL UP TO BISIMULATION" if result.equal else "DIFFERENT"


def told(result: Comparison, graph: Graph[Any] | None = None) -> list[str]:
    """The numbers, and the first difference if there is one."""
    lines = [f"  {name}: {_size(side)}" for name, side in (("loopspec", result.left), ("TLA+    ", result.right))]
    if result.one_to_one:
        lines.append(f"  {result.pairs:,} pairs, one to one; fields {', '.join(result.left.fields)}")
    if result.split is not None:
        lines += _split(result)
    if result.apart is not None:
        lines += _difference(result, result.apart, graph)
    return lines


def _size(side: Moves) -> str:
    return f"{side.states:,} states, {side.edges:,} moves, {side.labels:,} labels"


def _split(result: Comparison) -> list[str]:
    assert result.split is not None
    assert result.classes is not None
    side, state, others, first, second = result.split
    one, two = ("loopspec", "TLA+") if side == "left" else ("TLA+", "loopspec")
    graph = result.right if side == "left" else result.left
    lines = [
        f"  The same runs are possible, but {two} tells states apart that {one} does not ({result.pairs:,} pairs).",
        f"  Quotients by bisimilarity: loopspec {result.classes[0]:,} classes, TLA+ {result.classes[1]:,}.",
        f"  State {state} of {one} is both of these states of {two}, after the runs",
    ]
    for number, (other, path) in enumerate(zip(others, (first, second), strict=True), 1):
        lines.append(f"  {number}. {' '.join(path)}")
        if other < len(graph.full):
            lines.append(f"     {state_text(graph.full[other])}")
    return lines


def _difference(result: Comparison, apart: Apart, graph: Graph[Any] | None) -> list[str]:
    lines = [f"  {apart.sentence}", f"  The shortest run to it, {len(apart.path)} moves:"]
    lines += [f"    {number:3} {label}" for number, label in enumerate(apart.path, 1)]
    if apart.fields:
        lines.append("  Fields that differ:")
        lines += [f"    {name}: loopspec {ours or '-'}, TLA+ {theirs or '-'}" for name, ours, theirs in apart.fields]
    lines.append("  Moves after it:")
    lines += [f"    both     {label}" for label in apart.both]
    lines += [f"    loopspec {label}" for label in apart.left_only]
    lines += [f"    TLA+     {label}" for label in apart.right_only]
    if graph is not None:
        lines.append(f"  The state in loopspec: {_plain(graph.states[apart.left])}")
    if apart.right < len(result.right.full):
        lines.append(f"  The state in TLA+: {state_text(result.right.full[apart.right])}")
    return lines


def _plain(state: Any) -> str:
    try:
        return text_of(state)
    except TypeError:
        return repr(state)
