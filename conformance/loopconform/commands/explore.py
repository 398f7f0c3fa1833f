"""`loopspec explore`: visit every state of a machine within a bound, and say what is true of all of them."""

from __future__ import annotations

import gc
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

from loopspec.kernel.claims import Path as Run
from loopspec.kernel.claims import Verdict
from loopspec.kernel.explore import explore
from loopspec.kernel.graph import to_json
from loopspec.kernel.report import Exploration
from loopspec.kernel.report import Progress as Seen
from loopspec.profile import PROFILES, Profile, law
from loopspec.worlds import driver_world, inbox_world
from loopspec.worlds.world import Measure, Node, edge_digest, measured, named_law

MACHINES: dict[str, Any] = {"inbox": inbox_world, "driver": driver_world}

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
    for label in run.labels:
        arrow = arrows.get(str(label[0]), "Note over M:" if label[0] in ("note", "begin") else "E->>M")
        text = in_words(label).replace(";", ",").replace("#", "")
        lines.append(f"  {arrow} {text}" if arrow.startswith("Note") else f"  {arrow}: {text}")
    return "\n".join(lines)


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
    epilog="Exit codes: 0 every promise holds and every race is reached; 1 a promise is broken or a race is missing; "
    "2 wrong usage; 3 undecided, because the exploration was cut short.",
)
@click.argument("machine", type=click.Choice(sorted(MACHINES)))
@click.option("--profile", type=click.Choice(PROFILES), default="seed", show_default=True, help="Whose law.")
@click.option("--session-format", type=click.Choice(("0", "4")), default="0", show_default=True, help="Log dialect.")
@click.option(
    "--bound", "bound_name", default="quick", show_default=True, help="A named bound; see the error for names."
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
    module = MACHINES[machine]
    if bound_name not in module.BOUNDS:
        raise click.BadParameter(f"{bound_name!r}; there are {', '.join(module.BOUNDS)}", param_hint="--bound")
    try:
        limits = module.BOUNDS[bound_name].changed(**settings(changes))
    except KeyError as error:
        raise click.BadParameter(str(error.args[0]), param_hint="--set") from None
    its_law = law(profile, int(session_format))
    world, claims = module.world(its_law, limits), module.claims(its_law, limits)
    exploration, seconds = _explored(world, claims, limits.as_mapping(), max_states, graph_file is not None, console)
    measure = measured(world, exploration)
    _print_measure(console, machine, repr(its_law), measure, seconds)
    _print_claims(console, exploration, {claim.name: claim.sentence for claim in (*claims.invariants, *claims.steps)})
    for violation in exploration.violations:
        console.print(f"\n[red]{escape(violation.name)}[/red]  {escape(violation.reason or violation.sentence)}")
        _print_run(console, violation.path, as_mermaid and show is None)
    if show is not None:
        _print_run(console, _run_of(exploration, show), as_mermaid)
    if json_file is not None:
        json_file.write_text(json.dumps(_as_json(measure, exploration, repr(its_law)), indent=1) + "\n")
    if graph_file is not None and exploration.graph is not None:
        with graph_file.open("w") as out:
            out.writelines(to_json(named_law(exploration.graph), bound=dict(measure.bound)))
        console.print(f"graph: {graph_file}, edges {edge_digest(exploration.graph)}")
    raise SystemExit({Verdict.PASS: 0, Verdict.FAIL: 1, Verdict.UNDETERMINED: 3}[exploration.verdict])


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

        gc.disable()  # a search keeps everything it makes: the collector would only walk over it
        try:
            exploration = explore(
                world,
                invariants=claims.invariants,
                steps=claims.steps,
                sometimes=claims.sometimes,
                is_final=world.is_final,
                bound=bound,
                max_states=max_states,
                keep_edges=edges,
                progress=tell,
                progress_every=5_000,
            )
        finally:
            gc.enable()
    return exploration, time.perf_counter() - begin


def _print_measure(console: Console, machine: str, its_law: str, measure: Measure, seconds: float) -> None:
    table = Table(title=f"{machine} under {its_law}", show_header=False, title_justify="left")
    table.add_row("bound", ", ".join(f"{name} {value}" for name, value in measure.bound.items()))
    table.add_row("states", f"{measure.states:,}")
    table.add_row("transitions", f"{measure.transitions:,}")
    table.add_row("depth", str(measure.depth))
    table.add_row("cut by the bound", f"{measure.cut:,} states go on beyond it")
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
    for number, label in enumerate(run.labels, 1):
        console.print(f"  {number:3} {in_words(label)}", markup=False, highlight=False, soft_wrap=True)


def _as_json(measure: Measure, exploration: Exploration[Node], its_law: str) -> dict[str, Any]:
    return {
        "law": its_law,
        "bound": dict(measure.bound),
        "states": measure.states,
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
