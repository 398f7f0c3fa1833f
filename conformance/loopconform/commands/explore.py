"""`loopspec explore`: visit every state of a machine within a bound, and say what is true of all of them."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from loopconform.exit_codes import epilog
from loopharness.collector import collector_paused
from loopspec.kernel.claims import Path as Run
from loopspec.kernel.claims import Verdict
from loopspec.kernel.explore import explore
from loopspec.kernel.graph import to_json
from loopspec.kernel.report import Exploration
from loopspec.kernel.report import Progress as Seen
from loopspec.profile import PROFILES, Law, Profile, law
from loopspec.properties import creation_explorations, scheduler_explorations
from loopspec.worlds import driver_world, inbox_world, loop_world, request_world, retry_world
from loopspec.worlds.world import Measure, Node, edge_digest, measured, named_law

MACHINES: dict[str, Any] = {
    "inbox": inbox_world,
    "driver": driver_world,
    "loop": loop_world,
    "retry": retry_world,
    "request": request_world,
}

NAMED: dict[str, Any] = {"creation": creation_explorations, "scheduler": scheduler_explorations}
"""Machines whose explorations are fixed ones, each with its own choices: here a bound is the name of one."""

COLOURS = {Verdict.PASS: "green", Verdict.FAIL: "red", Verdict.UNDETERMINED: "yellow"}


def in_words(label: Any) -> str:
    """One move as a line of text: `call send 1 next-turn True`."""
    return " ".join(str(part) for part in label)


def mermaid(run: Run[Node]) -> str:
    """A run as a Mermaid sequence diagram: who calls, what is written, what is told, where the routine waits."""
    lines = [
        "sequenceDiagram",
        "  participant E as environment",
        "  participant M as machine",
        "  participant L as log",
        "  participant H as listeners",
    ]
    arrows = {"append": "M->>L", "notify": "M->>H", "refuse": "L--xM", "park": "M-->>E", "leave": "M-->>E"}
    for label in small_steps(run):
        arrow = arrows.get(str(label[0]), "Note over M:" if label[0] in ("note", "begin") else "E->>M")
        text = in_words(label).replace(";", ",").replace("#", "")
        lines.append(f"  {arrow} {text}" if arrow.startswith("Note") else f"  {arrow}: {text}")
    return "\n".join(lines)


def small_steps(run: Run[Node]) -> list[Any]:
    """The labels of a run; a move that is a row of small steps counts as those."""
    found: list[Any] = []
    for label in run.labels:
        found.extend(label if label and isinstance(label[0], tuple) else (label,))
    return found


def settings(pairs: Sequence[str]) -> dict[str, int]:
    """`--set messages=4` as a mapping. Raises `click.BadParameter` for anything else."""
    changes: dict[str, int] = {}
    for pair in pairs:
        name, equals, amount = pair.partition("=")
        if not equals or not amount.isdecimal():
            raise click.BadParameter(f"{pair!r} is not NAME=NUMBER, for example messages=4", param_hint="--set")
        changes[name.replace("_", " ")] = int(amount)
    return changes


@click.command(
    "explore",
    short_help="Visit every state of a machine within a bound.",
    epilog=epilog("explore"),
)
@click.argument("machine", type=click.Choice(sorted(MACHINES | NAMED)))
@click.option("--profile", type=click.Choice(PROFILES), default="seed", show_default=True, help="Whose law.")
@click.option("--session-format", type=click.Choice(("0", "4")), default="0", show_default=True, help="Log dialect.")
@click.option(
    "--bound",
    "bound_name",
    default="quick",
    show_default=True,
    help="A named bound; see the error for names. For creation and scheduler `quick` is the first.",
)
@click.option("--set", "changes", multiple=True, metavar="NAME=NUMBER", help="Change one budget, or depth.")
@click.option("--max-states", type=click.IntRange(1), help="Give up (undecided) beyond this many states.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the result as JSON.")
@click.option("--graph", "graph_file", type=click.Path(path_type=Path), help="Write the whole labelled graph.")
@click.option("--show", metavar="NAME", help="Print the shortest run of a claim: a violation, or a witness.")
@click.option("--mermaid", "as_mermaid", is_flag=True, help="Print that run as a Mermaid sequence diagram.")
def command(
    machine: str,
    profile: Profile,
    session_format: str,
    bound_name: str,
    changes: tuple[str, ...],
    max_states: int | None,
    json_file: Path | None,
    graph_file: Path | None,
    show: str | None,
    as_mermaid: bool,
) -> None:
    """Explore MACHINE under a law, within a bound, completely; check every promise and reach every race."""
    console = Console()
    if machine in NAMED:
        _no_changes(changes, session_format)
        bound_name, chosen = _named(machine, bound_name, profile)
        world, claims, bound = chosen.system, chosen.claims, dict(chosen.bound)
        its_law = str(profile)
    else:
        world, claims, bound, its_law = _within(machine, bound_name, changes, law(profile, int(session_format)))
    exploration, seconds = _explored(world, claims, bound, max_states, graph_file is not None, console)
    measure = _measured(world, exploration)
    namings = _namings(world, exploration)
    _print_measure(console, f"{machine} {bound_name}", its_law, measure, seconds, namings)
    _print_claims(console, exploration, {claim.name: claim.sentence for claim in (*claims.invariants, *claims.steps)})
    for violation in exploration.violations:
        console.print(f"\n[red]{escape(violation.name)}[/red]  {escape(violation.reason or violation.sentence)}")
        _print_run(console, violation.path, as_mermaid and show is None)
    if show is not None:
        _print_run(console, _run_of(exploration, show), as_mermaid)
    if json_file is not None:
        json_file.write_text(json.dumps(_as_json(measure, exploration, its_law, namings), indent=1) + "\n")
    if graph_file is not None and exploration.graph is not None:
        with graph_file.open("w") as out:
            out.writelines(to_json(named_law(exploration.graph), bound=dict(measure.bound)))
        console.print(f"graph: {graph_file}, edges {edge_digest(exploration.graph)}")
    raise SystemExit({Verdict.PASS: 0, Verdict.FAIL: 1, Verdict.UNDETERMINED: 3}[exploration.verdict])


def _within(machine: str, bound_name: str, changes: tuple[str, ...], its_law: Law) -> tuple[Any, Any, Any, str]:
    """World, claims, bound and law of a machine that is explored within any bound."""
    module = MACHINES[machine]
    if bound_name not in module.BOUNDS:
        raise click.BadParameter(f"{bound_name!r}; there are {', '.join(module.BOUNDS)}", param_hint="--bound")
    try:
        limits = module.BOUNDS[bound_name].changed(**settings(changes))
    except KeyError as error:
        raise click.BadParameter(str(error.args[0]), param_hint="--set") from None
    return module.world(its_law, limits), module.claims(its_law, limits), limits.as_mapping(), repr(its_law)


def _named(machine: str, name: str, profile: Profile) -> tuple[str, Any]:
    """One of the fixed explorations of a machine under a law, and its name."""
    suffix = f" {profile}"
    found = {key.removesuffix(suffix): one for key, one in NAMED[machine].explorations(wide=True).items()
             if key.endswith(suffix)}  # fmt: skip
    if not found:
        raise click.BadParameter(f"the {machine} machine is not explored under {profile}", param_hint="--profile")
    if name == "quick":
        name = next(iter(found))
    if name not in found:
        raise click.BadParameter(f"{name!r}; there are {', '.join(found)}", param_hint="--bound")
    return name, found[name]


def _no_changes(changes: tuple[str, ...], session_format: str) -> None:
    if changes:
        raise click.BadParameter("the bounds of this machine are fixed; choose one with --bound", param_hint="--set")
    if session_format != "0":
        raise click.BadParameter("this machine has no log of its own", param_hint="--session-format")


def _measured(world: Any, exploration: Exploration[Node]) -> Measure:
    """What was seen. Worlds that cannot tell a cut node say that by -1."""
    if hasattr(world, "is_cut"):
        return measured(world, exploration)
    seen = len(exploration.states), exploration.transitions, exploration.depth
    return Measure(exploration.bound, *seen, -1, exploration.complete, exploration.why_incomplete)


def _namings(world: Any, exploration: Exploration[Node]) -> int | None:
    """How many states the visited ones stand for, in a world that visits one of those that differ in names alone."""
    if not hasattr(world, "stands_for"):
        return None
    return sum(int(world.stands_for(node)) for node in exploration.states)


def _explored(
    world: Any, claims: Any, bound: dict[str, object], max_states: int | None, edges: bool, console: Console
) -> tuple[Exploration[Node], float]:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    begin = time.perf_counter()
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("exploring")

        def tell(seen: Seen) -> None:
            rate = seen.expanded / max(time.perf_counter() - begin, 1e-9)
            text = f"{seen.found:,} states, {seen.frontier:,} to go, depth {seen.depth}, {rate:,.0f} states/s"
            bar.update(task, description=text)

        with collector_paused():
            exploration = explore(
                world,
                invariants=claims.invariants,
                steps=claims.steps,
                sometimes=claims.sometimes,
                is_final=claims.is_final if hasattr(claims, "is_final") else world.is_final,
                bound=bound,
                max_states=max_states,
                keep_edges=edges,
                progress=tell,
                progress_every=5_000,
            )
    return exploration, time.perf_counter() - begin


def _print_measure(
    console: Console, machine: str, its_law: str, measure: Measure, seconds: float, namings: int | None
) -> None:
    table = Table(title=f"{machine} under {its_law}", show_header=False, title_justify="left")
    table.add_row("bound", ", ".join(f"{name} {value}" for name, value in measure.bound.items()))
    table.add_row("states", f"{measure.states:,}")
    if namings is not None:
        factor = namings / max(measure.states, 1)
        table.add_row("stand for", f"{namings:,} that differ in names alone, {factor:.1f} times as many")
    table.add_row("transitions", f"{measure.transitions:,}")
    table.add_row("depth", str(measure.depth))
    table.add_row("cut by the bound", f"{measure.cut:,} states go on beyond it" if measure.cut >= 0 else "not counted")
    table.add_row("complete", "yes" if measure.complete else f"NO: {measure.why_incomplete}")
    table.add_row("speed", f"{measure.states / max(seconds, 1e-9):,.0f} states/s, {seconds:.1f} s")
    console.print(table)


def _print_claims(console: Console, exploration: Exploration[Node], sentences: dict[str, str]) -> None:
    table = Table("claim", "verdict", "run", "sentence", title="claims", title_justify="left")
    verdicts = exploration.verdicts
    for name in exploration.checked:
        broken = exploration.violation(name)
        length = str(len(broken.path)) if broken else ""
        table.add_row(escape(name), _coloured(verdicts[name]), length, escape(sentences.get(name, "")))
    for row in exploration.sometimes:
        length = str(len(row.witness)) if row.witness else ""
        table.add_row(f"sometimes {escape(row.name)}", _coloured(row.verdict), length, escape(row.sentence))
    console.print(table)


def _coloured(verdict: Verdict) -> str:
    return f"[{COLOURS[verdict]}]{verdict.value}[/]"


def _run_of(exploration: Exploration[Node], name: str) -> Run[Node]:
    broken = exploration.violation(name)
    if broken is not None:
        return broken.path
    for row in exploration.sometimes:
        if row.name == name and row.witness is not None:
            return row.witness
    names = [row.name for row in exploration.sometimes if row.witness is not None]
    raise click.BadParameter(f"{name!r} has no run; there are runs for {', '.join(names)}", param_hint="--show")


def _print_run(console: Console, run: Run[Node], as_mermaid: bool) -> None:
    if as_mermaid:
        console.print(mermaid(run), markup=False, highlight=False, soft_wrap=True)
        return
    for number, label in enumerate(small_steps(run), 1):
        console.print(f"  {number:3} {in_words(label)}", markup=False, highlight=False, soft_wrap=True)


def _as_json(measure: Measure, exploration: Exploration[Node], its_law: str, namings: int | None) -> dict[str, Any]:
    return {
        "law": its_law,
        "bound": dict(measure.bound),
        "states": measure.states,
        "stand_for": namings,
        "transitions": measure.transitions,
        "depth": measure.depth,
        "cut": measure.cut,
        "complete": measure.complete,
        "why_incomplete": measure.why_incomplete,
        "verdict": exploration.verdict.value,
        "claims": {name: verdict.value for name, verdict in exploration.verdicts.items()},
        "violations": {one.name: [list(label) for label in one.path.labels] for one in exploration.violations},
        "witnesses": {
            row.name: [list(label) for label in row.witness.labels] for row in exploration.sometimes if row.witness
        },
    }
