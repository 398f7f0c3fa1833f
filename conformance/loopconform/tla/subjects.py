"""The machines that are stated twice: how each is made in Python, and how its state is seen from TLA+.

A *subject* is one machine. Its `fields` are the one mapping table from which `tla/MAPPING.md` is written and with
which two states are compared. Whatever a machine keeps beside them (frames, continuations, program counters) is its
own affair: the two statements may organise their control as they like.

To add one: write a function that returns a `Subject`, and enter it in `SUBJECTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from loopconform.tla.values import Value, from_python
from loopspec.disagreements import TABLE
from loopspec.profile import PROFILES, Law, Profile
from loopspec.profile import law as law_of


@dataclass(frozen=True)
class Field:
    """One mapped field: its name in `loopspec`, its TLA+ variable, what of it a log shows, its rules, its meaning.

    `read` takes it out of a state of the Python system, as a TLA+ value.
    """

    spec: str
    variable: str
    domain: str
    meaning: str
    log: str
    rules: tuple[str, ...]
    read: Callable[[Any], Value]


class Compared(NamedTuple):
    """A comparison: within a named bound, under the law of a profile; `None` stands for that of the machine."""

    bound: str
    profile: Profile | None = None


def compared(words: str) -> tuple[Compared, ...]:
    """The comparisons that a text like `tiny odd/dsh-0.1` names. Raises `KeyError` for a profile that there is not."""
    profiles: dict[str, Profile] = {name: name for name in PROFILES}
    parts = [word.partition("/") for word in words.split()]
    return tuple(Compared(bound, profiles[name] if name else None) for bound, _, name in parts)


@dataclass(frozen=True)
class Subject:
    """One machine that is stated twice."""

    name: str
    module: str
    """The TLA+ module."""
    sentence: str
    system: Callable[[Law, str], Any]
    """The Python system under a law, within a named bound; without monitors, in the smallest steps."""
    bounds: Mapping[str, Mapping[str, Any]]
    """Named bounds as the constants of the TLA+ model."""
    quick: str
    deep: str
    fields: tuple[Field, ...]
    switches: tuple[str, ...] = ()
    """The rows of `loopspec.disagreements.TABLE` that it depends on."""
    profile: Profile = "seed"
    session_format: int = 0
    environment: str = ""
    """Who may call and answer what, and at what price, in Markdown."""
    specification: str = "Spec"
    """The TLA+ specification that is compared."""
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def in_ci(self) -> tuple[Compared, ...]:
        """What is compared in every run of the tests."""
        return compared(self.extra.get("ci", self.quick))

    @property
    def by_command(self) -> tuple[Compared, ...]:
        """What is compared by command only: first the deep bound, then whatever else is pinned."""
        return compared(self.extra.get("by command", self.deep))

    def law(self, profile: Profile | None = None, session_format: int | None = None) -> Law:
        """The law that is compared unless somebody asks for another one."""
        return law_of(profile or self.profile, self.session_format if session_format is None else session_format)


def constant(switch: str) -> str:
    """The TLA+ constant of a row of the profile table: `closing_run_latches` is `ClosingRunLatches`."""
    return "".join(part[:1].upper() + part[1:] for part in switch.split("_"))


def switch_rows(names: tuple[str, ...]) -> list[Any]:
    """The rows of the profile table with these fields, in the order of the table."""
    return [row for row in TABLE if row.field in names]


def choice(switch: str, profile: Profile, session_format: int) -> bool:
    """What a profile answers."""
    assert profile in PROFILES
    return bool(getattr(law_of(profile, session_format), switch))


def plain(value: object) -> Value:
    """A field whose TLA+ value is the Python value."""
    return from_python(value)


def subjects() -> dict[str, Subject]:
    """Every subject by name. Made on demand, since each one imports its machine."""
    from loopconform.tla import machines

    return dict(machines.SUBJECTS)
