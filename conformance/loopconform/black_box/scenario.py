"""A scenario: what is said to the agent, what the model answers, and what must have become of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from loopharness.model.mock_server.script import Script


class BadScenario(ValueError):
    """A scenario file that cannot be used. The text names the file, the place and the reason."""


class Scenario(BaseModel):
    """One scenario. `say`: one life of the agent for each; the later ones resume the log. `model`: the script of the
    model server. `ends`: the reason of each turn, in order. `requests`: how many the model server must have seen.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Annotated[str, Field(pattern=r"^[a-z0-9]+(?:-[a-z0-9]+)*$")]
    title: str
    area: str
    clauses: tuple[str, ...]
    say: Annotated[tuple[str, ...], Field(min_length=1)] = ("Hello.",)
    model: Script
    ends: tuple[str, ...]
    requests: int


def load_scenarios(paths: Iterable[Path]) -> Iterator[Scenario]:
    """The scenarios in files and directories (`*.yaml`, a list in each). Raises `BadScenario`."""
    for path in paths:
        for file in sorted(path.rglob("*.yaml")) if path.is_dir() else [path]:
            try:
                rows = yaml.safe_load(file.read_bytes())
                yield from (Scenario.model_validate(row) for row in rows)
            except OSError as error:
                raise BadScenario(f"{file} cannot be read: {error.strerror}") from error
            except yaml.YAMLError as error:
                raise BadScenario(f"{file} is no YAML: {error}") from error
            except ValidationError as error:
                first = error.errors()[0]
                place = ".".join(str(part) for part in first["loc"]) or "the scenario"
                raise BadScenario(f"{file}: {place}: {first['msg']}") from error
