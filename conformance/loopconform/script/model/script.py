"""A whole script."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from loopconform.script.model.base import Strict, Words
from loopconform.script.model.exchange import Answer, AnyAnswer, Gate, Model
from loopconform.script.model.listeners import Listeners
from loopconform.script.model.mounted import AnsweredSubagents, AnyTool, Compaction, Permissions, Retry, Tool
from loopconform.script.model.steps import Reaction, Step


class Script(Strict):
    """A conversation: what the model will answer, which tools there are, and what happens, step by step."""

    about: str = Field("", description="What this script shows.")
    profile: Literal["seed", "dsh-0.1", "dsh-0.1.7"] = Field("seed", description="Which law the agent follows.")
    session_format: Literal[0, 4] = Field(4, description="Format of a new session file.")
    session: Words | None = Field(None, description="Id of a new session; left out, the name of the script.")
    cwd: Annotated[str, StringConstraints(pattern=r"^/")] | None = Field(None, description="An absolute path.")
    resume: Words | None = Field(None, description="A session file to take up again, relative to the script.")
    identity: str = Field("", description="First part of the system prompt.")
    persona: str = Field("", description="Second part of the system prompt.")
    clock: int | None = Field(
        None,
        ge=0,
        lt=2**52,
        description="Unix milliseconds at the start. Each look at the clock is one millisecond later and ids are "
        "counted, so that the same script gives the same file. Left out, the real time and random ids.",
    )
    time_limit: float = Field(10, gt=0, le=3600, description="Seconds of real time after which the run is given up.")
    parallel_tools: int = Field(10, ge=1, le=1000, description="How many concurrent tools may run at once.")
    pack_chunks: bool = Field(True, description="Format 0 only: store runs of chunks as one row.")
    model: Model = Field(default_factory=Model)
    answers: list[AnyAnswer] = Field(default_factory=list, description="What the model says, call by call.")
    tools: list[AnyTool] = Field(default_factory=list)
    permissions: Permissions | None = None
    compaction: Compaction | None = None
    retry: Retry | None = None
    subagents: AnsweredSubagents | None = None
    listeners: Listeners = Field(default_factory=Listeners)
    when: list[Reaction] = Field(default_factory=list)
    steps: list[Step] = Field(min_length=1, description="What happens. A last `wait: idle` is understood.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.resume is not None and self.model_fields_set & {"session", "session_format", "cwd"}:
            raise ValueError("a session that is taken up keeps its session id, session_format and cwd: leave them out")
        return self

    def all_steps(self) -> Iterator[tuple[tuple[str | int, ...], Step]]:
        """Every step with its path, those of reactions too."""
        for at, step in enumerate(self.steps):
            yield ("steps", at), step
        for number, reaction in enumerate(self.when):
            for at, step in enumerate(reaction.do):
                yield ("when", number, "do", at), step

    def gates(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Every place of a gate: its path, and the name of the gate."""
        children = () if self.subagents is None else self.subagents.answers
        answers: list[tuple[tuple[str | int, ...], Answer]] = [
            *((("answers", at), answer) for at, answer in enumerate(self.answers)),
            *((("subagents", "answers", at), answer) for at, answer in enumerate(children)),
        ]
        for path, answer in answers:
            for key, pieces in (("reasoning", answer.reasoning), ("text", answer.text)):
                gates = enumerate(pieces or ())
                yield from (((*path, key, n), piece.gate) for n, piece in gates if isinstance(piece, Gate))
            for n, chunk in enumerate(answer.raw or ()):
                if isinstance(chunk, Gate):
                    yield (*path, "raw", n), chunk.gate
            if answer.gate is not None:
                yield (*path, "gate"), answer.gate
        for at, tool in enumerate(self.tools):
            if isinstance(tool, Tool) and tool.gate is not None:
                yield ("tools", at, "gate"), tool.gate
        for at, reply in enumerate((self.permissions and self.permissions.answers) or ()):
            if reply.gate is not None:
                yield ("permissions", "answers", at, "gate"), reply.gate
        for place, step in self.all_steps():
            if step.maintenance is not None and step.maintenance.gate is not None:
                yield (*place, "maintenance", "gate"), step.maintenance.gate
