"""The named faults: files of YAML in `conformance/mutants`, one list each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from loopconform.mutants import systematic
from loopconform.mutants.patch import Fault

HOME = Path(__file__).parents[2] / "mutants"
FILES = ("loops", "driver", "inbox", "scheduler", "creation", "stored", "tape")


@cache
def entries(file: str) -> tuple[dict[str, Any], ...]:
    """The entries of one file, with all their fields."""
    return tuple(yaml.load((HOME / f"{file}.yaml").read_bytes(), Loader=LOADER))


LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def slug(name: str) -> str:
    """A name as an id."""
    kept = "".join(letter if letter.isalnum() else "-" for letter in name.lower())
    return "-".join(part for part in kept.split("-") if part)


def named() -> Iterator[Fault]:
    """Every named fault, in the order of the files."""
    for file in FILES:
        for entry in entries(file):
            yield Fault(
                f"{file}/{slug(entry['name'])}",
                entry["module"],
                entry["in"],
                "text",
                entry["old"],
                entry["new"],
                entry["sentence"],
                entry["breaks"],
            )


@cache
def everything() -> tuple[Fault, ...]:
    """The named faults, and the systematic ones: found once, as a function that was patched has another place."""
    return (*named(), *systematic.faults())
