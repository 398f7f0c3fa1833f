"""A case: a program of requests, and what it is about. Plain JSON files, stable ids, vendorable.

What must come out is not in the file: the law is asked, under the profile of the run. `shows` may carry what the law
says, as documentation and for consumers that only compare.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError, field_validator

from loopconform.protocol.parts import OUTCOMES, Level, Profile, Strict
from loopconform.protocol.requests import Do, Open, Plan, React, Release, Request, Settle, Veto

Area = Literal[
    "inbox", "wake", "cancel", "turn", "tools", "request", "retry", "creation", "teardown", "resume", "tape", "log",
]  # fmt: skip

CASE_FORMAT = 1


class BadCase(ValueError):
    """A case file that cannot be used. The text names the file, the place and the reason."""


class Case(Strict):
    """One case. The program begins with `open`; its requests are numbered from 1 by their place.

    `clauses`: rule and race ids that it is about. `profiles`: the laws under which it means something. `spec`: the
    version of the law that it was made with. `hash`: `content_hash` of the rest. `shows`: by profile, one line per
    visible event, as the law has it.
    """

    format: Literal[1] = 1
    id: Annotated[str, Field(pattern=r"^[a-z0-9]+(?:[-./][a-z0-9]+)*$", max_length=120)]
    title: Annotated[str, Field(min_length=1)]
    area: Area
    clauses: tuple[str, ...]
    level: Level = "L2"
    profiles: tuple[Profile, ...] = ("seed", "dsh-0.1")
    spec: str
    program: Annotated[tuple[Request, ...], Field(min_length=2)]
    shows: dict[str, tuple[str, ...]] | None = None
    hash: str = ""

    @field_validator("program")
    @classmethod
    def _opens_first(cls, program: tuple[Any, ...]) -> tuple[Any, ...]:
        if not isinstance(program[0], Open):
            raise ValueError("a program begins with `open`")
        if program[0].stored and not program[0].storage:
            raise ValueError("sessions are `stored` only where there is `storage`")
        for at, request in enumerate(program[1:], 1):
            if any(op.op == "restart" for op in getattr(request, "ops", ())) and (
                not isinstance(request, Do) or len(request.ops) != 1
            ):
                raise ValueError(f"request {at + 1}: a restart stands alone in its tick")
            if not isinstance(request, (Do, React, Plan, Veto, Release, Settle)):
                raise ValueError(f"request {at + 1} of a program cannot be `{request.verb}`")
            if isinstance(request, (Plan, Release)):
                allowed = OUTCOMES.get(request.gate, ("done", "throws"))
                if request.outcome.kind not in allowed:
                    raise ValueError(
                        f"request {at + 1}: the gate {request.gate!r} knows the outcomes {', '.join(allowed)}, "
                        f"not {request.outcome.kind!r}"
                    )
        return program

    @property
    def opening(self) -> Open:
        """The first request."""
        first = self.program[0]
        assert isinstance(first, Open)
        return first

    def with_hash(self) -> Case:
        """This case with its content hash filled in."""
        return self.model_copy(update={"hash": content_hash(self)})

    def with_program(self, program: Iterable[Any]) -> Case:
        """This case with another program: a shrunk one."""
        return self.model_copy(update={"program": tuple(program), "hash": ""})

    def needs(self) -> frozenset[str]:
        """What an adapter must be able to do: `gate:…`, `op:…`, `event:…`, `vetoes`, `storage`, `slice`, `format:…`."""
        opening = self.opening
        found = {f"gate:{hold.gate}" for hold in opening.hold} | {f"format:{opening.session_format}"}
        if opening.storage:
            found.add("storage")
        if opening.slice is not None:
            found.add("slice")
        if opening.requests:
            found.add("event:llm/stream")
        for request in self.program:
            if isinstance(request, Veto):
                found.add("vetoes")
            elif isinstance(request, React) and request.on.live is not None:
                found.add(f"event:{request.on.live}")
            for op in getattr(request, "ops", ()):
                found.add(f"op:{op.op}")
        return frozenset(found)

    def dumped(self) -> str:
        """The file's text: stable, one request a line."""
        fields = self.model_dump(mode="json", exclude={"program"})
        program = [request.model_dump(mode="json", exclude_defaults=True) for request in self.program]
        head = json.dumps(fields, indent=1, ensure_ascii=False)
        lines = ",\n".join("  " + json.dumps(request, ensure_ascii=False) for request in program)
        return head[:-2] + ',\n "program": [\n' + lines + "\n ]\n}\n"


def content_hash(case: Case) -> str:
    """`sha256:` of the canonical JSON of a case without hash, documentation and what is left at its default."""
    fields = case.model_dump(mode="json", exclude={"hash", "shows", "title", "program"})
    fields["program"] = [request.model_dump(mode="json", exclude_defaults=True) for request in case.program]
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


CASES: TypeAdapter[tuple[Case, ...]] = TypeAdapter(tuple[Case, ...])


def load_file(path: Path) -> tuple[Case, ...]:
    """The case in a file, or the cases of a file that holds an array of them. Raises `BadCase`."""
    try:
        text = path.read_bytes()
        several = text.lstrip()[:1] == b"["
        cases = CASES.validate_json(text) if several else (Case.model_validate_json(text),)
    except OSError as error:
        raise BadCase(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        raise BadCase(f"{path}: {place}: {first['msg']}") from error
    for case in cases:
        if case.hash and case.hash != content_hash(case):
            which = f"{path}: {case.id}" if several else str(path)
            raise BadCase(
                f"{which}: the content hash does not fit; a changed case needs `python -m loopconform.protocol`"
            )
    return cases


def load_case(path: Path) -> Case:
    """The case in a file that holds one. Raises `BadCase`."""
    cases = load_file(path)
    if len(cases) != 1:
        raise BadCase(f"{path} holds {len(cases)} cases, not one")
    return cases[0]


def load_cases(paths: Iterable[Path]) -> Iterator[Case]:
    """The cases in files and directories (`*.json`, searched in depth, by name). Raises `BadCase`."""
    seen: dict[str, Path] = {}
    for path in paths:
        for file in sorted(path.rglob("*.json")) if path.is_dir() else [path]:
            for case in load_file(file):
                if case.id in seen:
                    raise BadCase(f"{file}: the id {case.id!r} is that of {seen[case.id]} already")
                seen[case.id] = file
                yield case
