"""Declared verdicts: logs that are known to be torn or broken, so that a run over them can be green and mean it.

A file of expectations is YAML, a mapping from a log (relative to that file) to its verdict:

    09c-torn-tail.jsonl.zstd: torn

A declaration that does not come true fails the run: the log was repaired, or it is gone, or it broke otherwise.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import get_args

import yaml

from loopconform.findings import RunReport, Verdict

__all__ = ["ExpectationsError", "applied", "load"]


class ExpectationsError(ValueError):
    """The file of expectations cannot be used."""


def load(path: Path) -> dict[str, Verdict]:
    """The declared verdict of each log, by absolute path. Raises `ExpectationsError` saying what is wrong."""
    try:
        declared = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise ExpectationsError(f"{path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ExpectationsError(f"{path} is not YAML: {error}") from error
    if not isinstance(declared, dict):
        raise ExpectationsError(f"{path} must map log files to verdicts")
    verdicts = [verdict for verdict in get_args(Verdict) if verdict != "clean"]
    for name, verdict in declared.items():
        if not isinstance(name, str) or verdict not in verdicts:
            raise ExpectationsError(
                f"{path}: {name!r} is declared {verdict!r}; a verdict is one of {', '.join(verdicts)}"
            )
    return {os.path.abspath(path.parent / name): verdict for name, verdict in declared.items()}


def applied(report: RunReport, declared: dict[str, Verdict]) -> RunReport:
    """The report with each declaration marked as come true or stale."""
    expected, stale = [], []
    found = {os.path.abspath(item.file): item for item in report.files}
    for path, verdict in declared.items():
        item = found.get(path)
        if item is not None and item.verdict == verdict:
            expected.append(item.file)
        else:
            became = "was not examined" if item is None else f"is {item.verdict}"
            stale.append(f"{os.path.relpath(path)} was declared {verdict}, but {became}")
    return report._replace(expected=tuple(expected), stale=tuple(stale))
