"""`loopspec what-if`: what comes of it if one thing happens between two others, each outcome with its shortest run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from loopconform.commands.explore import in_words, mermaid, settings, small_steps
from loopconform.exit_codes import epilog
from loopconform.replays.program import case_of
from loopconform.replays.streams import Untranslatable
from loopconform.tla.replay import Replay
from loopconform.tla.story import replay
from loopharness.collector import collector_paused
from loopspec.kernel.claims import Path as Run
from loopspec.kernel.explore import explore
from loopspec.profile import PROFILES, Law, Profile, law
from loopspec.properties.questions import (
    AWAIT_POINTS,
    EVENTS,
    MOMENTS,
    OPERATIONS,
    RECORDS,
    Outcome,
    Question,
    subject_of,
)
from loopspec.worlds.question_world import Answered, answers, bound_of, machine_of, unanswered, world
from loopspec.worlds.world import Bound

GROUPS = {"operations": OPERATIONS, "events": EVENTS, "records": RECORDS, "await points": AWAIT_POINTS}


class Reply(NamedTuple):
    """Everything that has come of a question."""

    question: Question
    law: Law
    limits: Bound
    states: int
    cut_short: str
    """Why not everything was explored; empty when it was."""
    beyond: int
    """Ends of the question that lie beyond the bound."""
    outcomes: dict[str, list[Answered]]
    """Outcomes by what they mean for what the question is about, each with its courses, shortest run first."""

    @property
    def is_whole(self) -> bool:
        """Everything within the bound was seen, and the bound cut nothing off."""
        return not self.cut_short and not self.beyond


def _list_moments(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        for group, moments in GROUPS.items():
            click.echo(f"{group}:")
            for name, moment in moments.items():
                click.echo(f"  {name:<18} {moment.sentence}")
        ctx.exit(0)


@click.command("what-if", short_help="What comes of a steer between the abort and the idle?", epilog=epilog("what-if"))
@click.argument("moments", nargs=-1, required=True, metavar="MOMENT...")
@click.option("--moments", "listed", is_flag=True, is_eager=True, expose_value=False, callback=_list_moments,
              help="List everything that a question may name.")  # fmt: skip
@click.option("--profile", type=click.Choice(PROFILES), default="seed", show_default=True, help="Whose law.")
@click.option("--session-format", type=click.Choice(("0", "4")), default="0", show_default=True, help="Log dialect.")
@click.option("--set", "changes", multiple=True, metavar="NAME=NUMBER", help="Change one budget, or depth.")
@click.option("--max-states", type=click.IntRange(1), default=2_000_000, show_default=True, help="Give up beyond this.")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE.md",
              help="Write all outcomes as Markdown, with a sequence diagram for each.")  # fmt: skip
@click.option("--replays", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER",
              help="Write a run to each outcome as a replay file, for `loopspec conform replay`.")  # fmt: skip
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write everything as JSON.")
@click.pass_context
def command(
    ctx: click.Context,
    moments: tuple[str, ...],
    profile: Profile,
    session_format: str,
    changes: tuple[str, ...],
    max_states: int,
    output: Path | None,
    replays: Path | None,
    json_file: Path | None,
) -> None:
    """What comes of it if the MOMENTs happen in this order, and the loop is left alone then?

    `loopspec what-if abort steer idle`: a steer lands between an abort and the idle behind it. The first moment opens
    a window and the last one closes it; the question is about the last operation that it names. Every run within the
    bound is followed to its rest.
    """
    for name in moments:
        if name not in MOMENTS:
            raise click.BadParameter(f"{name!r} is no moment; `loopspec what-if --moments` lists them")
    reply = _asked(moments, law(profile, int(session_format)), changes, max_states)
    click.echo("\n".join(_told(reply)))
    if output is not None:
        output.write_text("\n".join(_page(reply)) + "\n", encoding="utf-8")
        click.echo(f"\n{output}: every outcome with its diagram")
    if replays is not None:
        _write_replays(reply, profile, replays)
    if json_file is not None:
        json_file.write_text(json.dumps(_as_json(reply), indent=1) + "\n", encoding="utf-8")
    ctx.exit(3 if not reply.is_whole else 0 if reply.outcomes else 1)


def _asked(question: Question, its_law: Law, changes: Sequence[str], max_states: int) -> Reply:
    """Explore, and sort what has come of it."""
    try:
        limits = bound_of(question).changed(**settings(changes))
    except KeyError as error:
        raise click.BadParameter(str(error.args[0]), param_hint="--set") from None
    system = world(its_law, question, limits)
    with collector_paused():
        seen = explore(system, is_final=system.is_final, bound=limits.as_mapping(), max_states=max_states)
    assert not seen.deadlocks, "a loop that is left alone comes to rest"
    found: dict[str, list[Answered]] = {}
    for one in answers(system, seen):
        found.setdefault(meaning(one.outcome), []).append(one)
    short = seen.why_incomplete or ""
    return Reply(question, its_law, limits, len(seen.states), short, unanswered(system, seen), found)


# --- in words ------------------------------------------------------------------------------------------------


def meaning(outcome: Outcome) -> str:
    """What an outcome means for what the question is about: the fate of its message, or the end of the turn."""
    if outcome.fate:
        return f"It {outcome.fate}."
    return f"The turn ends {outcome.ends[0]}." if outcome.ends else "No turn ends."


def course(outcome: Outcome) -> str:
    """Everything else that an outcome says."""
    parts = ["turns end " + ", ".join(outcome.ends) if outcome.ends else "no turn ends"]
    if outcome.waiting:
        parts.append(f"{_messages(outcome.waiting)} waiting")
    if outcome.lost:
        parts.append(f"{_messages(outcome.lost)} claimed and lost")
    return "; ".join(parts)


def _messages(count: int) -> str:
    return f"{count} other message{'s' * (count > 1)}"


def _title(reply: Reply) -> str:
    """The question in words."""
    return "What if: " + ", then ".join(reply.question) + "?"


def _about(reply: Reply) -> str:
    """What was explored, and how far."""
    budgets = ", ".join(f"{name} {value}" for name, value in reply.limits.as_mapping().items() if value)
    whole = "explored completely" if not reply.cut_short else f"NOT complete: {reply.cut_short}"
    beyond = f"; {reply.beyond} ends lie beyond the bound" if reply.beyond else ""
    return (
        f"{machine_of(reply.question)} under {reply.law!r}; {budgets}; {reply.states:,} states, {whole}{beyond}. "
        f'"It" is the {reply.question[subject_of(reply.question)]}.'
    )


def _told(reply: Reply) -> Iterator[str]:
    """The reply for a terminal."""
    yield _title(reply)
    yield _about(reply)
    if not reply.outcomes:
        yield "\nThis does not happen within the bound."
    for number, (what, courses) in enumerate(reply.outcomes.items(), 1):
        yield f"\n{number}. {what}"
        yield from (f"   - {course(one.outcome)} ({len(small_steps(one.run))} moves)" for one in courses)
        yield "   The shortest run:"
        yield from (f"   {at:4} {line}" for at, line in enumerate(_lines(courses[0].run), 1))


def _page(reply: Reply) -> Iterator[str]:
    """The reply as Markdown."""
    yield from (f"# {_title(reply)}", "", _about(reply))
    if not reply.outcomes:
        yield from ("", "This does not happen within the bound.")
    for what, courses in reply.outcomes.items():
        yield from ("", f"## {what}", "")
        yield from (f"- {course(one.outcome)}" for one in courses)
        yield from ("", "```mermaid", mermaid(courses[0].run), "```")


def _lines(run: Run[Any]) -> list[str]:
    return [in_words(label).rstrip() for label in small_steps(run)]


# --- for machines --------------------------------------------------------------------------------------------


def _write_replays(reply: Reply, profile: Profile, folder: Path) -> None:
    """A replay file for each outcome: of its shortest run that a program of the protocol can bring about."""
    folder.mkdir(parents=True, exist_ok=True)
    click.echo("")
    for number, (what, courses) in enumerate(reply.outcomes.items(), 1):
        playable = next((run for one in courses if (run := _playable(reply, profile, one.run))), None)
        if playable is None:
            click.echo(f"{number}. has no replay: in every run somebody calls where no gate holds the loop")
            continue
        words = "-".join(what.rstrip(".").lower().replace(",", "").split()[:8])
        file = folder / f"{number}-{words}.json"
        about = {"profile": profile, "sessionFormat": playable.session_format}
        file.write_text(replay(playable.machine, playable.labels, **about) + "\n", encoding="utf-8")
        click.echo(f"{number}. {file}")


def _playable(reply: Reply, profile: Profile, run: Run[Any]) -> Replay | None:
    """The run as a replay, if it has a program."""
    made = Replay(machine_of(reply.question), profile, reply.law.session_format, tuple(small_steps(run)))
    try:
        case_of(made)
    except Untranslatable:
        return None
    return made


def _as_json(reply: Reply) -> dict[str, Any]:
    return {
        "question": list(reply.question),
        "machine": machine_of(reply.question),
        "law": repr(reply.law),
        "bound": dict(reply.limits.as_mapping()),
        "states": reply.states,
        "complete": not reply.cut_short,
        "beyond_the_bound": reply.beyond,
        "outcomes": [
            {
                "meaning": what,
                "courses": [
                    {
                        **one.outcome._asdict(),
                        "ends_in_states": one.ends,
                        "run": [list(label) for label in one.run.labels],
                    }
                    for one in courses
                ],
            }
            for what, courses in reply.outcomes.items()
        ],
    }
