"""The kill matrix as the report shows it: which case ends which wrong loop, by which clause."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

__all__ = ["PLACE", "Kill", "Kills", "load"]

PLACE = Path(__file__).parents[2] / "kills.json"


class Kill(BaseModel):
    """One wrong loop. Without `case` nothing has killed it; then `words` say why that is."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    mutant: Annotated[str, Field(min_length=1)]
    clause: Annotated[str, BeforeValidator(lambda said: ", ".join(said) if isinstance(said, list) else said or "")] = ""
    case: Annotated[str, BeforeValidator(lambda said: said or "")] = Field(
        "", validation_alias=AliasChoices("case", "killing case", "killing_case", "killingCase", "killedBy")
    )
    words: Annotated[str, BeforeValidator(lambda said: said or "")] = ""


class Kills(NamedTuple):
    """The matrix, or the reason why it cannot be shown."""

    rows: tuple[Kill, ...] = ()
    trouble: str = ""

    @property
    def killed(self) -> int:
        """How many wrong loops a case ends."""
        return sum(1 for row in self.rows if row.case)

    @property
    def clauses(self) -> list[tuple[str, list[Kill]]]:
        """The rows by clause, clauses in order of their names."""
        found: dict[str, list[Kill]] = {}
        for row in self.rows:
            found.setdefault(row.clause, []).append(row)
        return sorted(found.items())


_ROWS = TypeAdapter(tuple[Kill, ...])


def load(path: Path = PLACE) -> Kills | None:
    """The matrix in a file: a list of mutant, clause, case and words. `None` when there is no such file."""
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
