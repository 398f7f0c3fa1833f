"""`loopspec check`: walk files and directories, judge every log, decide a verdict for each file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from loopconform.container import ROW_LIMIT
from loopconform.findings import FINDING_LIMIT, FileReport, Finding, RunReport, Verdict, finding
from loopconform.reader import ReadRow, is_log_name, looks_like_log, read
from loopharness.collector import collector_paused
from loopspec.log.acceptance import Acceptance, law_of
from loopspec.log.compare import Placed, compare_inherited, compare_requests, events_of
from loopspec.log.damage import Damage
from loopspec.log.grammar import Judge
from loopspec.log.packed import PackedError
from loopspec.log.place import generation
from loopspec.log.rule import Violation

Profile = Literal["seed", "dsh-0.1", "dsh-0.1.7", "snapshot"]
PROFILES: tuple[Profile, ...] = ("seed", "dsh-0.1", "dsh-0.1.7", "snapshot")

BAD_ROWS_SHOWN = 20
"""Unreadable rows that are reported one by one; more of them add nothing."""
BAD_ROWS_READ = 10_000
"""Unreadable rows after which the rest of a file is not looked at."""


_BLIND = frozenset(
    (
        "row-too-large",
        "window-too-large",
        "bad-magic",
        "reserved-descriptor",
        "reserved-block",
        "skippable-frame",
        "corrupt-block",
        "wrong-checksum",
        "row-unfinished",
    )
)
"""Damages behind which nothing, or nothing certain, can be read."""


class Options(NamedTuple):
    """How to check: profile, size limit of a row in bytes, rules to leave out (tests only), and whether to accept.

    `accept`: also follow the loop machines along the log (`loopspec.log.acceptance`).
    """

    profile: Profile = "seed"
    row_limit: int = ROW_LIMIT
    disabled: frozenset[str] = frozenset()
    accept: bool = True


class _Checked(NamedTuple):
    report: FileReport
    header: dict[str, Any] | None
    inherited: int


# -- selecting -------------------------------------------------------------------------------------------------


def select(paths: Sequence[Path]) -> tuple[list[Path], list[tuple[str, str]]]:
    """The log files under the given paths, in order, and the paths that give none, each with a reason."""
    chosen: list[Path] = []
    skipped: list[tuple[str, str]] = []
    for path in paths:
        if os.path.isdir(path):
            found = sorted(_walk(path, skipped))
            chosen += found
            if not found:
                skipped.append((str(path), "no session log in this directory (looked for *.jsonl, *.jsonl.zstd)"))
        elif not is_log_name(path) and os.path.isfile(path) and not _begins_like_log(path):
            skipped.append((str(path), "not a session log: neither its name nor its first bytes look like one"))
        else:
            chosen.append(path)
    return list(dict.fromkeys(chosen)), skipped


def _begins_like_log(path: Path) -> bool:
    try:
        return looks_like_log(path)
    except OSError:
        return True  # let the check itself say why it cannot be read


def _walk(root: Path, skipped: list[tuple[str, str]]) -> Iterator[Path]:
    def unreadable(error: OSError) -> None:
        skipped.append((str(error.filename), f"cannot be listed: {error.strerror}"))

    for folder, _, names in os.walk(root, onerror=unreadable):
        for name in names:
            path = Path(folder, name)
            if is_log_name(path):
                yield path


# -- one file --------------------------------------------------------------------------------------------------


def check_file(path: Path, options: Options | None = None, *, shown: str | None = None) -> FileReport:
    """Judge one log file. Never raises for what the file holds or for the file not being there."""
    return _check(path, options or Options(), shown or str(path)).report


def _check(path: Path, options: Options, shown: str) -> _Checked:
    judge = Judge(
        snapshot=options.profile == "snapshot",
        foreign=options.profile != "seed",
        place=_place(path),
        generation=generation(path.name),
        disabled=options.disabled,
    )
    notes = _Notes(shown)
    header: dict[str, Any] | None = None
    try:
        with collector_paused():
            header = _feed(judge, read(path, row_limit=options.row_limit), notes, options)
    except (OSError, ValueError) as error:
        # ValueError: a path that no file can have, such as one with a NUL character
        message = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        return _Checked(FileReport(shown, "unreadable", message=message), None, 0)
    version = None if header is None else header.get("version")
    report = FileReport(
        shown,
        notes.verdict(judge.supported, version),
        tuple(sorted(notes.kept, key=lambda item: item.line)),
        notes.dropped,
        version if type(version) is int else None,
        judge.events,
        judge.event_rows,
    )
    return _Checked(report, header, judge.inherited)


class _Notes:
    """The findings of one file as they come in."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.kept: list[Finding] = []
        self.dropped = 0
        self.levels: set[str] = set()
        self.torn = False
        self.broken = False

    def add(self, violations: Iterable[Violation]) -> None:
        for violation in violations:
            self.levels.add(violation.level)
            self.broken = self.broken or violation.level in ("E", "U")
            if len(self.kept) < FINDING_LIMIT:
                self.kept.append(finding(self.file, violation))
            else:
                self.dropped += 1

    def verdict(self, supported: bool, version: object) -> Verdict:
        if not supported and type(version) is int and version > 0 and version != 4:
            return "unsupported"
        if "E" in self.levels:
            return "findings"
        if self.torn:
            return "torn"
        if "U" in self.levels:
            return "undecided"
        return "warnings" if "W" in self.levels else "clean"


def _feed(judge: Judge, items: Iterable[ReadRow | Damage], notes: _Notes, options: Options) -> dict[str, Any] | None:
    """Feed a log to the judge, and to the loop machines as long as no row is wrong; the header when there was one."""
    header: dict[str, Any] | None = None
    acceptance: Acceptance | None = None
    bad_rows = 0
    string_open = False
    for item in items:
        if isinstance(item, Damage):
            if item.kind in ("torn-frame", "torn-row"):
                notes.torn = notes.broken = True
            notes.add(judge.damage(item))
            if item.kind in _BLIND:
                judge.lost_row(item.line, undecided=True)
            continue
        line, frame, offset, value, damages, starts_object = item
        if value is None:
            continues = string_open and not starts_object
            bad_rows += 1
            if not continues and bad_rows <= BAD_ROWS_SHOWN:
                _report_text(judge, item, notes)
            string_open = continues or any(fault.detail.startswith("string not closed") for fault in damages)
            if line == 1:
                notes.add(judge.damage(Damage("no-header", 1, frame, offset, "the first row is no object")))
                return None
            judge.lost_row(line, undecided=any(fault.kind == "row-too-deep" for fault in damages))
            if bad_rows > BAD_ROWS_READ:
                judge.lost_row(line, undecided=True)
                break
            continue
        string_open = False
        if damages:
            _report_text(judge, item, notes)
        if line == 1:
            header = value
            notes.add(judge.header(header))
            if not judge.supported:
                return header
            if options.accept:
                acceptance = Acceptance(header, law_of(options.profile, 4 if header["version"] == 4 else 0))
        elif header is not None:
            found = judge.event(value, line, frame, offset)
            if found:
                notes.add(found)
            # A log that breaks a rule of its rows is no record of a run: that finding says it better.
            if acceptance is not None and not notes.broken and judge.certain:
                found = acceptance.event(value, line)
                if found:
                    notes.add(found)
    if header is not None:
        notes.add(judge.finish())
        if acceptance is not None and not notes.broken and judge.certain:
            notes.add(acceptance.finish())
    return header


def _report_text(judge: Judge, row: ReadRow, notes: _Notes) -> None:
    for fault in row.damages:
        notes.add(judge.damage(fault))


def _place(path: Path) -> tuple[str, str] | None:
    """Project and session directory, when the file lies in a session root (`S-DSK-1`)."""
    if generation(path.name) is None:
        return None
    segment, project = path.absolute().parent.name, path.absolute().parent.parent.name
    if project == "_no-cwd" or (project.startswith("--") and project.endswith("--") and len(project) > 4):
        return project, segment
    return None


# -- many files ------------------------------------------------------------------------------------------------


def run(
    paths: Sequence[Path],
    options: Options | None = None,
    *,
    requests: Path | None = None,
    strict: bool = False,
    progress: Callable[[Iterable[Path], int], Iterable[Path]] | None = None,
) -> RunReport:
    """Check every log under `paths`. Raises `RequestsError` when `requests` cannot be used."""
    options = options or Options()
    chosen, skipped = select(paths)
    captured = None if requests is None else load_requests(requests)
    if captured is not None and len(chosen) != 1:
        raise RequestsError(f"--requests belongs to one log, but {len(chosen)} were given")
    checked: dict[Path, _Checked] = {}
    for path in chosen if progress is None else progress(chosen, len(chosen)):
        checked[path] = _check(path, options, str(path))
    if captured is not None:
        checked = {path: _with_requests(path, item, captured, options) for path, item in checked.items()}
    checked = _with_parents(checked, options)
    return RunReport(tuple(item.report for item in checked.values()), tuple(skipped), strict)


class RequestsError(ValueError):
    """The file of captured requests cannot be used."""


def load_requests(path: Path) -> list[Any]:
    """The captured requests: a JSON array. Raises `RequestsError`."""
    try:
        captured = json.loads(path.read_bytes())
    except OSError as error:
        raise RequestsError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise RequestsError(f"{path} is not JSON: {error}") from error
    if not isinstance(captured, list):
        raise RequestsError(f"{path} must hold an array of requests")
    return captured


def _with_requests(path: Path, checked: _Checked, captured: list[Any], options: Options) -> _Checked:
    if checked.header is None or checked.report.verdict not in ("clean", "warnings", "torn"):
        return checked
    placed = list(_events(path, checked.report.version or 0, options))
    return _extended(checked, compare_requests(checked.header, placed, captured), options)


def _events(path: Path, version: int, options: Options) -> Iterator[Placed]:
    stored = (
        (item.line, item.value)
        for item in read(path, row_limit=options.row_limit)
        if isinstance(item, ReadRow) and item.value is not None and item.line > 1
    )
    return events_of(stored, version)


def _extended(checked: _Checked, violations: Collection[Violation], options: Options) -> _Checked:
    kept = [item for item in violations if item.rule not in options.disabled]
    if not kept:
        return checked
    report = checked.report
    added = tuple(finding(report.file, item) for item in kept)
    return checked._replace(report=report._replace(verdict="findings", findings=report.findings + added))


def _with_parents(checked: dict[Path, _Checked], options: Options) -> dict[Path, _Checked]:
    """`S-LNT-91` for every fork child whose parent was checked too."""
    by_id: dict[object, Path] = {}
    for path, item in checked.items():
        if item.header is not None and isinstance(item.header.get("id"), str):
            by_id.setdefault(item.header["id"], path)
    result = dict(checked)
    for path, item in checked.items():
        header = item.header
        parent = by_id.get(header.get("parentSession")) if header is not None and item.inherited else None
        if parent is None or item.report.verdict in ("unreadable", "unsupported", "undecided"):
            continue
        other = checked[parent]
        if parent == path or other.report.version != item.report.version:
            continue
        version = item.report.version or 0
        try:
            found = compare_inherited(
                _events(path, version, options),
                _events(parent, version, options),
                item.inherited,
                snapshot=options.profile == "snapshot",
            )
        except (OSError, PackedError):
            continue
        result[path] = _extended(item, found, options)
    return result
