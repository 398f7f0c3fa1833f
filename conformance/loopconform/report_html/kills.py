"""The kill matrix as the report shows it: which case ends which wrong loop, by which clause."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

__all__ = ["FATES", "PLACE", "Kill", "Kills", "load"]

PLACE = Path(__file__).parents[2] / "mutants" / "kills.json"

Fate = Literal["killed", "dead", "equivalent", "unobservable", "lawful", "hole"]
FATES: dict[Fate, str] = {
    "killed": "killed by a case",
    "dead": "hang or die in a case, and fail none",
    "equivalent": "proved equivalent to the law, within bounds",
    "unobservable": "proved to be beyond what the protocol can show, within bounds",
    "lawful": "lawful: the law allows both",
    "hole": "not killed: holes of the suite",
}


def _words(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, list) else "" if value is None else value


Words = Annotated[str, BeforeValidator(_words)]


class Kill(BaseModel):
    """What became of one wrong loop. `words` are those of the verdict, or say why there is none."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    mutant: str = Field(min_length=1, validation_alias=AliasChoices("mutant", "fault"))
    fate: Fate | None = None
    case: Words = ""
    clause: Words = ""
    words: Words = ""

    @model_validator(mode="before")
    @classmethod
    def _with_fate(cls, row: object) -> object:
        """A row that does not say its fate is killed if it names a case."""
        if isinstance(row, dict) and "fate" not in row:
            return {**row, "fate": "killed" if row.get("case") else "hole"}
        return row

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.fate is None:
            raise ValueError("the fate of a wrong loop is missing")
        return self


class Kills(NamedTuple):
    """The matrix, or the reason why it cannot be shown."""

    rows: tuple[Kill, ...] = ()
    trouble: str = ""

    @property
    def fates(self) -> list[tuple[Fate, str, int]]:
        """Every fate in words, and how many wrong loops have met it; never added up."""
        return [(fate, words, sum(1 for row in self.rows if row.fate == fate)) for fate, words in FATES.items()]

    @property
    def groups(self) -> list[tuple[str, list[Kill]]]:
        """The rows by clause, in order of the clauses' names; those that nothing has killed first, by their fate."""
        found: dict[tuple[bool, str], list[Kill]] = {}
        for row in self.rows:
            killed = row.fate == "killed"
            name = (row.clause or "no clause") if killed else f"{FATES[row.fate or 'hole']}"
            found.setdefault((killed, name), []).append(row)
        return [(name, rows) for (_, name), rows in sorted(found.items(), key=lambda item: item[0])]


_ROWS = TypeAdapter(tuple[Kill, ...])


def load(path: Path = PLACE) -> Kills | None:
    """The matrix in a file: a list of wrong loops with fate, case, clause and words. `None` when there is no file."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        return Kills(trouble=f"{path.name} cannot be read: {error.strerror}")
    try:
        return Kills(_ROWS.validate_json(content))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        return Kills(trouble=f"{path.name} is not a list of kills: {place}: {first['msg']}")
