"""Run bounded instances of the TLA+ models and hold them to what is expected of them.

    python -m loopconform.tla.run FILE.cfg …             these
    python -m loopconform.tla.run --tier quick           all of a tier
    python -m loopconform.tla.run --record FILE.cfg …    pin their counts in tla/manifest.json

Exit codes: 0 everything as expected and as pinned; 1 something is not; 2 TLC is missing, or wrong usage.
"""

from __future__ import annotations

from pathlib import Path

import click

from loopconform.tla.instances import TLA, BadInstance, Instance, faults_of, instances, manifest, pin, verdict_faults
from loopconform.tla.instances import instance as read_instance
from loopconform.tla.runs import keep, run_faults, text_of
from loopconform.tla.story import labels_of, mermaid, told
from loopconform.tla.tlc import Missing, Run, Stopped, run

LARGE = 20_000
"""From so many states on a run is long enough for the optimising compiler of Java."""


def check(one: Instance, other_jar: Path | None = None, workers: int = 1, timeout: float = 1800) -> Run:
    """Run TLC on one instance."""
    return run(
        one.path,
        one.config,
        deadlock=one.deadlock,
        heap=one.heap,
        workers=workers,
        other_jar=other_jar,
        timeout=timeout,
        small=manifest(one.home).get(one.name, {}).get("distinct", LARGE) < LARGE,
    )


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option("--tier", type=click.Choice(("quick", "deep", "all")), help="Every instance of a tier.")
@click.option("--record", is_flag=True, help="Pin the counts, where the verdict is the expected one.")
@click.option("--jar", "other_jar", type=click.Path(exists=True, path_type=Path), help="Another tla2tools.jar.")
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True)
@click.option("--trace", is_flag=True, help="Show the run of every violation, also of an expected one.")
@click.option("--mermaid", "as_mermaid", is_flag=True, help="Show runs as Mermaid sequence diagrams.")
@click.option("--replay", "replays", type=click.Path(path_type=Path), help="Write finite runs here, to be replayed.")
@click.option("--timeout", type=click.IntRange(1), default=1800, show_default=True, help="Seconds for one run.")
def main(
    files: tuple[Path, ...],
    tier: str | None,
    record: bool,
    other_jar: Path | None,
    workers: int,
    trace: bool,
    as_mermaid: bool,
    replays: Path | None,
    timeout: int,
) -> None:
    """Run TLC on FILES (.cfg), or on every instance of a tier."""
    try:
        chosen = [read_instance(file) for file in files]
        if tier is not None:
            chosen += instances(TLA, None if tier == "all" else tier)
    except BadInstance as error:
        raise click.UsageError(str(error)) from None
    if not chosen:
        raise click.UsageError("name .cfg files, or a --tier that has some")
    wrong, cpu = 0, 0.0
    for one in chosen:
        try:
            done = check(one, other_jar, workers, timeout)
        except Missing as error:
            raise click.UsageError(str(error)) from None
        except Stopped as error:
            click.echo(f"WRONG {one.name}: {error}")
            wrong += 1
            continue
        cpu += done.cpu
        faults = list(verdict_faults(one, done))
        if record and not faults:
            pin(one, done)
            keep(one, done)
        if not faults:
            faults = [*faults_of(one, done, manifest(one.home).get(one.name)), *run_faults(one, done)]
        counts = f"{done.distinct} distinct, {done.generated} generated, depth {done.depth}, {done.seconds:.1f} s"
        click.echo(f"{'WRONG' if faults else 'ok   '} {one.name}: {one.expectation}; {counts}")
        for fault in faults:
            click.echo(f"      {fault}")
        if done.trace and (trace or faults or as_mermaid):
            click.echo(mermaid(labels_of(done)) if as_mermaid else told(done))
        if done.trace and done.back < 0 and replays is not None:
            replays.mkdir(parents=True, exist_ok=True)
            (replays / f"{one.name}.json").write_text(text_of(one, done))
        wrong += bool(faults)
    click.echo(f"{len(chosen)} instances, {wrong} wrong; {cpu:.0f} s of processor time")
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
