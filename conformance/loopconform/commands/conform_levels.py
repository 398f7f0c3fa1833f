"""`loopspec conform logs` and `loopspec conform agent`: the levels without an adapter, in the reports of the suite."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from loopconform.black_box.drive import Command
from loopconform.black_box.judge import Judged
from loopconform.black_box.judge import run as run_black_box
from loopconform.black_box.scenario import BadScenario, load_scenarios
from loopconform.check import Options
from loopconform.check import run as check
from loopconform.findings import FileReport
from loopconform.judge.verdict import Fault
from loopconform.protocol.case import Case
from loopconform.protocol.requests import Open
from loopconform.runner.results import Result, Run
from loopconform.runner.results import Verdict as CaseVerdict
from loopspec.profile import PROFILES, Profile

SCENARIOS = Path(__file__).parents[2] / "cases" / "black-box"
Write = Callable[[Run, str, Path | None], None]

OF_LOGS: dict[str, CaseVerdict] = {
    "clean": "PASS",
    "warnings": "PASS",
    "unsupported": "NOT_IMPLEMENTED",
    "undecided": "UNDETERMINED",
    "unreadable": "ADAPTER_ERROR",
}
"""What a verdict on a log is in the suite; every other one is FAIL."""

_profile = click.option("--profile", type=click.Choice(PROFILES), default="seed", show_default=True)
_format = click.option(
    "--format", "style", type=click.Choice(("text", "json", "junit", "sarif", "html")), default="text"
)
_output = click.option("--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the report to FILE.")


def commands(write: Write) -> tuple[click.Command, click.Command]:
    """The two commands; `write` writes a report."""

    @click.command("logs")
    @click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
    @_profile
    @_format
    @_output
    @click.pass_context
    def logs(ctx: click.Context, paths: tuple[Path, ...], profile: Profile, style: str, output: Path | None) -> None:
        """Level L0: judge recorded session logs, one case for each file. `loopspec check` shows every finding."""
        run = run_logs(paths, profile)
        write(run, style, output)
        ctx.exit(run.exit_code())

    @click.command("agent")
    @click.option(
        "--start", required=True, metavar="CMD", help="The agent, with {url}, {say} and {log} in its command."
    )
    @click.option("--again", default="", metavar="CMD", help="The same, going on with the session in {log}.")
    @click.option("--cases", multiple=True, type=click.Path(path_type=Path, exists=True), help="Other scenario files.")
    @click.option(
        "--timeout", type=click.FloatRange(0.1), default=60.0, show_default=True, help="Seconds for one life."
    )
    @_profile
    @_format
    @_output
    @click.pass_context
    def agent(
        ctx: click.Context,
        start: str,
        again: str,
        cases: tuple[Path, ...],
        timeout: float,
        profile: Profile,
        style: str,
        output: Path | None,
    ) -> None:
        """Level L1: run any agent that talks to a chat-completions model, and judge its requests and its log.

        The suite is the model. For our own agent: --start "loopspec chat --base-url {url} --out {log} --once {say}"
        --again "loopspec chat --base-url {url} --resume {log} --once {say}".
        """
        try:
            run = run_agent(Command(start, again), cases or (SCENARIOS,), profile, timeout)
        except (BadScenario, ValueError) as error:
            raise click.UsageError(str(error)) from error
        write(run, style, output)
        ctx.exit(run.exit_code())

    return logs, agent


# -- logs --------------------------------------------------------------------------------------------------------


def run_logs(paths: tuple[Path, ...], profile: Profile) -> Run:
    """Every log under some paths as a result of its own. An empty selection is no success."""
    report = check(paths, Options(profile))
    results = tuple(_of_log(file, profile) for file in report.files)
    return Run("logs", "session logs", results, wanted=len(results) + len(report.skipped))


def _of_log(file: FileReport, profile: str) -> Result:
    verdict = OF_LOGS.get(file.verdict, "FAIL")
    case = _case(file.file, f"{file.events} events", "log", (), "L0")
    errors = [found for found in file.findings if found.level == "E"]
    if verdict != "FAIL" or not errors:
        reason = "" if verdict == "PASS" else f"{file.verdict}: {file.message}".rstrip(": ")
        fault = Fault("", reason, "", "", "", (), file.file, (), 0) if verdict == "FAIL" else None
        return Result(case, profile, verdict, reason, fault)
    first = errors[0]
    more = f" ({len(errors) - 1} more)" if len(errors) > 1 else ""
    legal = (first.legal,) if first.legal else ()
    fault = Fault("", first.reason, first.rule, first.sentence, "", legal, f"line {first.line}{more}", (), first.line)
    return Result(case, profile, verdict, first.reason, fault)


# -- agents ------------------------------------------------------------------------------------------------------


def run_agent(command: Command, paths: tuple[Path, ...], profile: Profile, timeout: float) -> Run:
    """Every scenario on an agent. Raises `BadScenario` and `ValueError`."""
    scenarios = list(load_scenarios(paths))
    judged = run_black_box(scenarios, command, profile, timeout)
    return Run(command.first, "a black box", tuple(_of_agent(one, profile) for one in judged), wanted=len(scenarios))


def _of_agent(judged: Judged, profile: str) -> Result:
    scenario = judged.scenario
    case = _case(f"black-box/{scenario.id}", scenario.title, scenario.area, scenario.clauses, "L1")
    fault = None
    if judged.verdict == "FAIL":
        before = tuple(f"{name}: passed" for name in judged.passed)
        fault = Fault("", judged.reason, judged.clause, "", "", (), f"check {judged.failed}", before, 0)
    return Result(case, profile, judged.verdict, judged.reason, fault)


def _case(name: str, title: str, area: str, clauses: tuple[str, ...], level: str) -> Case:
    """A case to report by: it has no program."""
    id = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") if level == "L0" else name
    fields: dict[str, Any] = {"format": 1, "id": id, "title": title, "area": area, "clauses": clauses, "level": level}
    return Case.model_construct(**fields, profiles=PROFILES, spec="", program=(Open(verb="open"),), shows=None, hash="")
