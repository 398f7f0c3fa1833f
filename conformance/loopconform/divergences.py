"""`python -m loopconform.divergences`: what an implementation does that a profile does not allow, each with a program.

Every case is played once. Its transcript is judged by the base profile; where that fails, the row of the profile table
that takes the judge past the fault is turned round and the judging goes on, so that one program can show several
divergences. For each row the shortest program is kept and shortened further on the implementation itself. A fault that
no row explains is listed too: either the law or the judge is wrong there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from loopconform.divergence import disagreements, explanation, length_explained, mixed, reachable, read
from loopconform.judge.court import Court
from loopconform.judge.fits import shown
from loopconform.judge.verdict import Fault, Found
from loopconform.known import beyond, unreached
from loopconform.known import lines as table_of_known
from loopconform.phrases import phrase
from loopconform.protocol.case import BadCase, Case, load_cases
from loopconform.protocol.replies import CLOSING, REPLY, HelloReply, Live, Ok, Record, Settled
from loopconform.protocol.requests import REQUEST
from loopconform.runner.channel import AdapterError, opener
from loopconform.runner.fuzz import walk_case
from loopconform.runner.play import RENEW, Player
from loopconform.runner.results import Message, Result
from loopconform.runner.shrink import MOST, Search, shortest
from loopspec.disagreements import Disagreement
from loopspec.profile import Profile

BASE: Profile = "seed"
LINES = 9
"""The last lines of an experiment that are shown in full."""


class Shown(NamedTuple):
    """A divergence as one program shows it: the rows that explain it, and the program up to the fault."""

    fields: tuple[str, ...]
    case: Case
    transcript: tuple[Message, ...]
    before: tuple[str, ...] = ()
    """The rows that explain what came before in the same program."""


def divergences(result: Result, hello: HelloReply, own: Profile) -> Iterator[Shown]:
    """Everything that a played program shows, in order. `own`: the profile that describes the implementation."""
    version = result.case.opening.session_format
    rows = reachable(BASE, own)
    turned: list[str] = []
    transcript = result.transcript
    heard = read(transcript)
    while (fault := length_explained(heard, hello, mixed(BASE, version, turned))) < len(heard):
        needed = explanation(heard, hello, BASE, rows, turned, fault)
        place = max(number for number, _ in heard[: fault + 1])
        yield Shown(needed.fields, _cut(result.case, place), tuple(transcript[: fault + 1]), tuple(turned))
        if not needed.known:
            return
        turned += needed.fields


def _cut(case: Case, place: int) -> Case:
    """The program up to a request, and a settle behind it."""
    program = case.program[:place]
    if program[-1].verb != "settle":
        program = (*program, REQUEST.validate_python({"verb": "settle"}))
    return case.with_program(program)


# -- shortening --------------------------------------------------------------------------------------------------


class _Same(Search):
    """Accepts programs that still show the same divergence, whatever else they show."""

    def __init__(self, player: Player, one: Shown, own: Profile) -> None:
        self.player = player
        self.own = own
        self.shown = one
        self.left = MOST

    @property
    def case(self) -> Case:
        return self.shown.case

    def fails(self, case: Case) -> bool:
        if self.left <= 0:
            return False
        self.left -= 1
        result = self.player.play(case, self.own)
        if result.verdict not in ("PASS", "FAIL"):
            return False
        found = divergences(result, self.player.greet(), self.own)
        same = next((one for one in found if one.fields == self.shown.fields), None)
        if same is not None and len(same.case.program) <= len(case.program):
            self.shown = same
        return same is not None


# -- the whole ---------------------------------------------------------------------------------------------------


class Findings(NamedTuple):
    """Everything that was found: programs by the rows that explain them, how many cases showed each, and the counts."""

    shown: dict[tuple[str, ...], Shown]
    cases: dict[tuple[str, ...], list[str]]
    played: int
    verdicts: dict[str, int]
    hello: HelloReply
    lacking: tuple[str, ...] = ()
    """Cases that the implementation says it cannot be asked to play."""


def search(player: Player, results: Iterable[Result], own: Profile, shorten: bool = True) -> Findings:
    """Look at every played program; for each divergence keep the shortest, and shorten it on the implementation."""
    best: dict[tuple[str, ...], Shown] = {}
    cases: dict[tuple[str, ...], list[str]] = {}
    verdicts: dict[str, int] = {}
    played = 0
    lacking: list[str] = []
    for result in results:
        played += 1
        if result.verdict == "NOT_IMPLEMENTED":
            lacking.append(result.case.id)
        verdicts[result.verdict] = verdicts.get(result.verdict, 0) + 1
        if result.verdict not in ("PASS", "FAIL"):
            continue
        for one in divergences(result, player.greet(), own):
            cases.setdefault(one.fields, []).append(result.case.id)
            kept = best.get(one.fields)
            if kept is None or _size(one.case) < _size(kept.case):
                best[one.fields] = one
    if shorten:
        best = {fields: _shortest(player, one, own) for fields, one in best.items()}
    return Findings(best, cases, played, verdicts, player.greet(), tuple(lacking))


def _size(case: Case) -> int:
    return sum(1 + len(getattr(request, "ops", ())) for request in case.program)


def _shortest(player: Player, one: Shown, own: Profile) -> Shown:
    search = _Same(player, one, own)
    if search.fails(one.case):
        search.fails(shortest(search, search.case))
    return search.shown


# -- words -------------------------------------------------------------------------------------------------------


def fault_of(one: Shown, hello: HelloReply) -> Fault | None:
    """What the judge says at the end of an experiment."""
    opening = one.case.opening
    court = Court(opening, hello, chosen=mixed(BASE, opening.session_format, one.before))
    try:
        for number, said in read(one.transcript)[1:]:
            if number:
                court.request(number, said)
            elif said is not None:
                court.reply(said)
    except Found as found:
        return found.fault
    return None


def document(found: Findings, own: Profile) -> str:
    """The report as Markdown."""
    name = f"{found.hello.implementation.name} {found.hello.implementation.version}"
    counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(found.verdicts.items()))
    known = {fields: one for fields, one in found.shown.items() if fields}
    lines = [
        f"# What {name} does that `{BASE}` does not allow",
        "",
        f"Generated by `python -m loopconform.divergences` from {found.played} programs played on the implementation;",
        f"judged by its own profile `{own}` they came out {counts}. Judged by `{BASE}`, the programs show "
        f"{len(known)} divergences.",
        "Each is given with the question of the profile table that it answers otherwise, the clauses, and the shortest",
        "program that shows it. `->` is what the implementation did; the last line is what the law cannot explain.",
        "",
    ]
    if not known:
        lines += ["No divergence was found.", ""]
    rows = {row.field: row for row in disagreements(BASE, own)}
    order = list(rows)
    for fields in sorted(known, key=lambda fields: [order.index(field) for field in fields]):
        lines += _section(found, known[fields], [rows[field] for field in fields], found.cases[fields])
    if () in found.shown:
        lines += [
            "## Not explained by any row",
            "",
            "The law or the judge is wrong here, or the table lacks a row. "
            f"Shown by {', '.join(f'`{id}`' for id in found.cases[()])}.",
            "",
            *beyond(found.cases[()]),
        ]
        lines += _experiment(found, found.shown[()])
    unseen = [row for row in rows.values() if all(row.field not in fields for fields in known)]
    if unseen:
        lines += [
            "## Rows that no program showed",
            "",
            *[f"- {row.question} (`{row.field}`; {', '.join(row.rules)}): {unreached(row.field)}" for row in unseen],
            "",
        ]
    shown = {field for fields in known for field in fields}
    lines += table_of_known(shown, {id for ids in found.cases.values() for id in ids})
    return "\n".join(lines)


def _section(found: Findings, one: Shown, rows: list[Disagreement], cases: list[str]) -> list[str]:
    lines = [f"## {rows[0].question}" if len(rows) == 1 else "## " + " / ".join(row.question for row in rows), ""]
    for row in rows:
        answers = ("no", "yes")
        ours, theirs = answers[row.seed], answers[row.dsh_0_1]
        lines += [f"`{row.field}`: `{BASE}` says {ours}, the implementation {theirs}. {row.why}", ""]
    clauses = ", ".join(dict.fromkeys(rule for row in rows for rule in row.rules))
    some = ", ".join(f"`{id}`" for id in cases[:5]) + (" …" if len(cases) > 5 else "")
    lines += [f"Clauses: {clauses}. Shown by {len(cases)} programs: {some}", ""]
    return lines + _experiment(found, one)


def _experiment(found: Findings, one: Shown) -> list[str]:
    told = []
    for message in one.transcript:
        body = {name: value for name, value in message.body.items() if name != "id"}
        if message.who == "suite":
            told.append(f"{message.body['id']:>3}  {phrase(REQUEST.validate_python(body))}")
        else:
            reply = REPLY.validate_python(message.body)
            if isinstance(reply, (Ok, Settled)) and message is not one.transcript[-1]:
                continue
            if isinstance(reply, (Record, Live)) or not isinstance(reply, CLOSING) or isinstance(reply, Settled):
                told.append(f"     -> {shown(reply)}"[:110])
    fault = fault_of(one, found.hello)
    lines = ["```text", *_middle_left_out(told), "```", ""]
    if fault is not None:
        legal = "; ".join(f"`{text}`" for text in fault.legal)
        clause = f" ({fault.clause})" if fault.clause else ""
        lines += [f"The law at this point{clause}: {fault.reason}. Legal: {legal or 'nothing'}.", ""]
    return lines


def _middle_left_out(told: list[str]) -> list[str]:
    """The requests all, and of what happened only the end."""
    kept = []
    for at, line in enumerate(told):
        if not line.startswith("     ->") or at >= len(told) - LINES:
            kept.append(line)
        elif kept and kept[-1] != "     …":
            kept.append("     …")
    return kept


def expectations(found: Findings, ids: set[str]) -> str:
    """The cases that fail under the base profile, by the row that explains them, as `--expected-failures` reads it."""
    name = found.hello.implementation.name
    lines = [f"# Cases that {name} fails under `{BASE}`; generated by `python -m loopconform.divergences --expected`."]
    written: set[str] = set()
    for fields in sorted(found.cases):
        fresh = sorted({id for id in found.cases[fields] if id in ids} - written)
        written.update(fresh)
        lines += [f"# {', '.join(fields) or 'not explained'}", *(f"{id}@{BASE}: FAIL" for id in fresh)] if fresh else []
    lacking = sorted(set(found.lacking) & ids)
    lines += ["# cannot be played", *(f"{id}@{BASE}: NOT_IMPLEMENTED" for id in lacking)] if lacking else []
    return "\n".join(lines) + "\n"


# -- command -----------------------------------------------------------------------------------------------------


@click.command(help=__doc__)
@click.option("--adapter", required=True, help="A folder with a `run`, or a command.")
@click.option("--own", type=click.Choice(("dsh-0.1", "dsh-0.1.7", "seed")), default="dsh-0.1", show_default=True)
@click.option("--walks", type=click.IntRange(0), default=100, show_default=True, help="Random programs besides.")
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="Write here; otherwise to stdout.")
@click.option(
    "--expected", type=click.Path(path_type=Path), help="Also write the failing cases, for --expected-failures."
)
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, exists=True))
def main(
    adapter: str,
    own: Profile,
    walks: int,
    seed: int,
    out: Path | None,
    expected: Path | None,
    paths: tuple[Path, ...],
) -> None:
    player = Player(opener(adapter), renew=RENEW)
    try:
        cases = list(load_cases(paths))
        found = search(player, _results(player, cases, own, walks, seed), own)
    except (AdapterError, BadCase) as error:
        raise click.ClickException(str(error)) from error
    finally:
        player.close()
    text = document(found, own)
    if expected is not None:
        expected.write_text(expectations(found, {case.id for case in cases if BASE in case.profiles}), encoding="utf-8")
    if out is None:
        click.echo(text, nl=False)
    else:
        out.write_text(text, encoding="utf-8")


def _results(player: Player, cases: Sequence[Case], own: Profile, walks: int, seed: int) -> Iterator[Result]:
    total = len(cases) + walks
    for number, case in enumerate(cases, 1):
        _progress(number, total)
        yield player.play(case, own)
    for number in range(walks):
        _progress(len(cases) + number + 1, total)
        yield walk_case(player, f"{seed}.{number}", own, 0)


def _progress(number: int, total: int) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r{number} of {total}", err=True, nl=number == total)


if __name__ == "__main__":
    main()
