"""A pytest plugin for authors of harnesses: every session that a test writes is checked.

    pytest --loopspec-check DIRECTORY            # check all session logs under DIRECTORY when the run is over

    def test_my_agent(loopspec_sessions):        # or: a directory of its own for one test
        my_harness.run(sessions=loopspec_sessions)

What stands in the directory of the fixture when the test is over is checked; an error, a torn or an unreadable log
fails the test at its teardown, and so does an empty directory, because a check of nothing proves nothing. The mark
`@pytest.mark.loopspec(profile="dsh-0.1", empty=True)` sets the profile, and allows that nothing was written.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

if TYPE_CHECKING:  # the checker is imported when it is used, so that other test runs do not pay for it
    from loopconform.check import Profile
    from loopconform.findings import RunReport

SHOWN = 20
"""Findings that are written out per run."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options `--loopspec-check` and `--loopspec-profile`."""
    group = parser.getgroup("loopspec", "checking session logs")
    group.addoption(
        "--loopspec-check",
        action="append",
        default=[],
        metavar="DIR",
        help="When the tests are over, check every session log under DIR; may be given several times.",
    )
    group.addoption(
        "--loopspec-profile",
        default="seed",
        choices=("seed", "dsh-0.1", "dsh-0.1.7", "snapshot"),
        help="What to measure by; see `loopspec check --help`.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """The mark of the fixture."""
    config.addinivalue_line(
        "markers", "loopspec(profile, empty): how to check the sessions of this test, and whether none is fine."
    )


@pytest.fixture
def loopspec_sessions(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A directory for the sessions of one test; they are checked when the test is over."""
    mark = request.node.get_closest_marker("loopspec")
    options = {} if mark is None else mark.kwargs
    unknown = sorted(set(options) - {"profile", "empty"})
    if unknown:
        raise pytest.UsageError(f"pytest.mark.loopspec knows profile and empty, not {', '.join(unknown)}")
    folder = tmp_path / "sessions"
    folder.mkdir()
    yield folder
    profile = options.get("profile", request.config.getoption("--loopspec-profile"))
    report = checked(folder, profile)
    if not report.files:
        if not options.get("empty", False):
            pytest.fail(f"no session log was written to {folder}; loopspec(empty=True) allows that", pytrace=False)
    elif report.exit_code():
        pytest.fail(told(report), pytrace=False)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Check the directories of `--loopspec-check`, once, in the process that ran the others."""
    config = session.config
    if hasattr(config, "workerinput"):  # a worker of pytest-xdist: the controlling process checks
        return
    bad: list[str] = []
    for name in cast(list[str], config.getoption("--loopspec-check")):
        report = checked(Path(name), config.getoption("--loopspec-profile"))
        if not report.files:
            bad.append(f"{name}: no session log in this directory, so nothing was examined")
        elif report.exit_code():
            bad.append(told(report))
        else:
            config.stash.setdefault(_GOOD, []).append(f"{name}: {len(report.files)} session logs checked")
    config.stash[_BAD] = bad
    if bad and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


_BAD = pytest.StashKey[list[str]]()
_GOOD = pytest.StashKey[list[str]]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what the check of the whole run found."""
    bad, good = config.stash.get(_BAD, []), config.stash.get(_GOOD, [])
    if bad or good:
        terminalreporter.section("loopspec check")
    for text in (*good, *bad):
        terminalreporter.write_line(text, red=text in bad)


def checked(folder: Path, profile: Profile) -> RunReport:
    """Check every session log under a directory."""
    from loopconform.check import Options, run

    return run([folder], Options(profile))


def told(report: RunReport) -> str:
    """What is wrong, one finding a line: file, line, rule, reason, and what would have been legal."""
    lines: list[str] = []
    for file in report.files:
        if file.verdict in ("clean", "warnings"):
            continue
        lines.append(f"{file.file}: {file.verdict}{f' ({file.message})' if file.message else ''}")
        for found in file.findings:
            if found.level in ("E", "U"):
                legal = f" Legal: {found.legal}." if found.legal else ""
                lines.append(f"  line {found.line}: {found.rule} {found.reason}{legal}")
    more = [f"  and {len(lines) - SHOWN} lines more"] if len(lines) > SHOWN else []
    return "\n".join([*lines[:SHOWN], *more])
