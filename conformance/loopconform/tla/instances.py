r"""The bounded instances of the models: their heads, and the counts pinned in `tla/manifest.json`.

An instance is a `.cfg` file whose first comments say what must come of it:

    \* module: MCInbox           default: the name of the file up to the first `_`
    \* tier: quick               or deep
    \* expect: pass              the default; or: violates NAME, reaches NAME, deadlock
    \* deadlock: checked         default: a state without moves is fine
    \* heap: 2g                  default: 1g
    \* mirror: driver LI-30      a liveness claim of the Python kernel that must get the same verdict
    \* why: one sentence

The head is written by whoever writes the model, before it is run. The manifest holds what a run counted (distinct,
generated, depth), so that a change of the graph cannot go unnoticed.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loopconform.tla.tlc import Run

TLA = Path(__file__).resolve().parents[3] / "tla"
"""The directory of the models."""
FOLDERS = ("instances", "unsafe", "witness")
"""Below the models: instances that pass, that must fail, and that must reach something."""

_HEAD = re.compile(r"^\\\*\s*(module|tier|expect|deadlock|heap|why|mirror)\s*:\s*(.*?)\s*$")
_TIERS = ("quick", "deep")


class BadInstance(ValueError):
    """The head of a `.cfg` file does not say what is needed, or says it wrongly."""


@dataclass(frozen=True)
class Instance:
    """One `.cfg` file and what its head says. `expect` is `pass`, `violates`, `reaches` or `deadlock`."""

    config: Path
    module: str
    tier: str
    expect: str
    target: str
    deadlock: bool
    heap: str
    why: str
    mirror: str = ""
    """The liveness claim of the Python kernel that must get the same verdict: `driver LI-30 with <mutant>`."""

    @property
    def name(self) -> str:
        """The name of the file without its ending."""
        return self.config.stem

    @property
    def expectation(self) -> str:
        """What the head expects, in its own words."""
        return f"{self.expect} {self.target}".strip()

    @property
    def home(self) -> Path:
        """The directory of the models: that of the file, or the one above its folder."""
        folder = self.config.parent
        return folder.parent if folder.name in FOLDERS else folder

    @property
    def path(self) -> Path:
        """The module file."""
        return self.home / f"{self.module}.tla"


def instance(config: Path) -> Instance:
    """Read the head of a `.cfg` file. Raises `BadInstance`, and says what to write."""
    if not config.is_file():
        raise BadInstance(f"{config} is not there")
    said: dict[str, str] = {}
    for line in config.read_text().splitlines():
        found = _HEAD.match(line.strip())
        if found is not None:
            said[found[1]] = found[2]
        elif line.strip() and not line.strip().startswith("\\*"):
            break
    where = config.name
    expect, _, target = said.get("expect", "pass").partition(" ")
    if expect not in ("pass", "violates", "reaches", "deadlock") or (expect in ("violates", "reaches")) != bool(target):
        raise BadInstance(
            f"{where}: the head must say `\\* expect: pass`, `violates NAME`, `reaches NAME` or `deadlock`"
        )
    for ending, needed in (("_Unsafe", "violates"), ("_Witness", "reaches")):
        if config.stem.endswith(ending) and expect not in (needed, "deadlock"):
            raise BadInstance(f"{where}: an instance called *{ending} must say `\\* expect: {needed} NAME`")
    tier = said.get("tier", "quick")
    if tier not in _TIERS:
        raise BadInstance(f"{where}: the tier is {tier!r}; it is quick or deep")
    return Instance(
        config,
        said.get("module", config.stem.split("_", 1)[0]),
        tier,
        expect,
        target.strip(),
        said.get("deadlock") == "checked" or expect == "deadlock",
        said.get("heap", "1g"),
        said.get("why", ""),
        said.get("mirror", ""),
    )


def instances(directory: Path = TLA, tier: str | None = None) -> list[Instance]:
    """Every instance of the models in a directory, by name; of one tier, if one is named."""
    found = [instance(config) for config in configs(directory)]
    return [one for one in found if tier is None or one.tier == tier]


def configs(directory: Path, start: str = "") -> list[Path]:
    """The `.cfg` files of the models in a directory whose names start so, by name."""
    places = (directory, *(directory / folder for folder in FOLDERS))
    return sorted((file for place in places for file in place.glob(f"{start}*.cfg")), key=lambda file: file.stem)


def manifest(directory: Path = TLA) -> dict[str, dict[str, Any]]:
    """The pinned results by instance. Empty when nothing has been pinned."""
    file = directory / "manifest.json"
    return dict(json.loads(file.read_text())["instances"]) if file.is_file() else {}


def pin(one: Instance, run: Run) -> None:
    """Write the counts of a run into the manifest. Several processes may do so at the same time."""
    enter(one.home / "manifest.json", "instances", one.name, {**pinned(one, run), "seconds": _seconds(run)})


def _seconds(run: Run) -> float:
    return round(run.cpu, 1)


def enter(file: Path, section: str, name: str, entry: dict[str, Any]) -> None:
    """Put one entry into a section of a JSON file, sorted by name, while nobody else does."""
    with (file.parent / ".manifest.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = dict(json.loads(file.read_text())[section]) if file.is_file() else {}
        known[name] = entry
        text = json.dumps({"format": "loopspec-tla-1", section: dict(sorted(known.items()))}, indent=1)
        temporary = file.with_suffix(".json.new")
        temporary.write_text(text + "\n")
        os.replace(temporary, file)


def pinned(one: Instance, run: Run) -> dict[str, Any]:
    """What of a run is exact and therefore pinned."""
    exact = {"verdict": one.expectation, "distinct": run.distinct, "generated": run.generated}
    if one.expect == "pass":
        exact["depth"] = run.depth
    else:
        exact["trace"] = len(run.trace)
    return {"module": one.module, "tier": one.tier, **exact}


def faults_of(one: Instance, run: Run, pins: dict[str, Any] | None) -> Iterator[str]:
    """What is wrong with a run of an instance, in sentences; nothing when it is as expected and as pinned."""
    yield from verdict_faults(one, run)
    if pins is None:
        yield "its counts are not in the manifest: run it with --record"
        return
    for name, value in pinned(one, run).items():
        if pins.get(name) != value:
            yield f"{name} is {value}, but the manifest says {pins.get(name)}"


def verdict_faults(one: Instance, run: Run) -> Iterator[str]:
    """What is wrong with the verdict alone."""
    if run.broken:
        yield "TLC could not judge it: " + (" | ".join(run.errors)[:1500] or f"exit code {run.exit_code}")
    elif one.expect == "pass":
        if run.violated:
            yield f"{run.violated} is violated, after {max(len(run.trace) - 1, 0)} moves"
        elif not run.clean:
            yield f"the run is not complete: exit code {run.exit_code}, {run.left} states left on the queue"
    else:
        target = one.target or "deadlock"
        # TLC 2.15 does not name a temporal property or an instance: then the .cfg must name that one only.
        names = properties_of(one.config.read_text()) if run.violated in ("temporal", "property") else []
        # A property of an instance of another module may come under its full name.
        named = run.violated.rpartition("!")[2]
        if run.clean:
            yield f"nothing was found, but {target} must be violated"
        elif named != target and not (run.violated in ("temporal", "property") and names == [target]):
            yield f"{run.violated} is violated, and not {target}"


def comes_in_the_end(directory: Path, name: str) -> bool:
    """Whether a property is one of liveness: its definition says that something comes in the end."""
    for module in sorted(directory.glob("*.tla")):
        found = re.search(rf"^{name} ==(.*?)(?:\n\n|\n\w+ ==|\n===|\Z)", module.read_text(), re.DOTALL | re.MULTILINE)
        if found is not None and re.search(r"~>|(?<!<)<>(?!>)", found[1]):
            return True
    return False


def properties_of(text: str) -> list[str]:
    """The names that a `.cfg` file lists as properties."""
    found: list[str] = []
    inside = False
    for word in re.sub(r"\\\*.*", "", text).split():
        if word.isupper() and word.strip("_") and word in _SECTIONS:
            inside = word in ("PROPERTY", "PROPERTIES")
        elif inside:
            found.append(word)
    return found


_SECTIONS = {
    "PROPERTY", "PROPERTIES", "INVARIANT", "INVARIANTS", "CONSTANT", "CONSTANTS", "INIT", "NEXT", "SPECIFICATION",
    "VIEW", "SYMMETRY", "CONSTRAINT", "CONSTRAINTS", "ACTION_CONSTRAINT", "ACTION_CONSTRAINTS", "TYPE",
}  # fmt: skip
