"""What a script does: steps, cancels, edits, maintenance, and reactions to events."""

from __future__ import annotations

import difflib
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, model_validator

from loopconform.script.model.base import (
    ONE_KEY,
    Cause,
    GatePoint,
    LiveEvent,
    Name,
    Point,
    Strict,
    Target,
    Words,
    one_of,
    text_as,
)
from loopconform.script.model.exchange import AnyMessage
from loopspec.log.types import SCOPES


class Cancel(Strict):
    """Cancel what the agent does."""

    cause: Cause = "user"
    reason: str | None = Field(None, description="A text; a cause of `hook` needs one.")
    keep_inbox: bool = Field(False, description="Leave pending messages where they are.")

    @model_validator(mode="after")
    def _reasoned(self) -> Self:
        if (self.cause == "hook") != (self.reason is not None):
            raise ValueError("the cause hook needs a reason, and no other cause has one")
        return self


class Replace(Strict):
    """Put another message in the place of a pending one."""

    id: Name
    by: AnyMessage


class Splice(Strict):
    """Change a pending list by position."""

    target: Target
    start: int = 0
    remove: int = 0
    insert: list[AnyMessage] = Field(default_factory=list)


def known_type(name: str) -> str:
    """A type of the log, in any format. Raises `ValueError` with the nearest one."""
    known = {type for scopes in SCOPES.values() for type in scopes}
    if name in known:
        return name
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.5)
    raise ValueError(f"{name!r} is no type of the log" + (f"; did you mean {near[0]}?" if near else ""))


class Row(Strict):
    """A row that a maintenance job writes into the log."""

    type: Annotated[Words, AfterValidator(known_type)]
    data: dict[str, JsonValue] = Field(default_factory=dict)


class Maintenance(Strict):
    """A job that has the log for itself."""

    gate: Name | None = Field(None, description="Hold the job until a step opens it, or it is cancelled.")
    append: list[Row] = Field(default_factory=list)


class Step(Strict):
    """One thing to do; exactly one key."""

    model_config = ConfigDict(json_schema_extra=ONE_KEY)  # type: ignore[typeddict-item]
    BESIDE: ClassVar[tuple[str, ...]] = ()

    followup: AnyMessage | None = Field(None, description="A message for a turn of its own; wakes the agent.")
    steer: AnyMessage | None = Field(None, description="A message for the next step; wakes the agent.")
    inject: AnyMessage | None = Field(None, description="A message for the next step, whenever that comes.")
    queue: AnyMessage | None = Field(None, description="A message for a turn of its own; wakes nobody.")
    cancel: Annotated[Cancel, text_as("cause")] | None = None
    remove: Name | None = Field(None, description="Take a pending message out of the inbox, by its id.")
    replace: Replace | None = None
    splice: Splice | None = None
    clear: Literal["inbox"] | None = Field(None, description="Discard everything that is pending.")
    maintenance: Maintenance | None = None
    wait: Point | None = Field(None, description="`idle`, or `gate NAME`: until somebody stands at that gate.")
    open: GatePoint | None = Field(None, description="`gate NAME`: let everyone through, now and later.")
    crash: Literal["now"] | None = Field(None, description="End here and now, as a crash would: nothing is closed.")

    @model_validator(mode="after")
    def _one(self) -> Self:
        one_of(self, "a step", self.BESIDE)
        return self

    @property
    def verb(self) -> str:
        """The key of this step."""
        return one_of(self, "a step", self.BESIDE)


class Reaction(Strict):
    """Steps that run inside the window of a record or a live event, once, before anything else goes on."""

    record: Words | None = Field(None, description="A type of the log, such as `turn/start`.")
    event: LiveEvent | None = None
    where: dict[str, JsonValue] = Field(default_factory=dict, description="What its data must hold.")
    nth: int = Field(1, ge=1, description="React to the first, second, … that fits.")
    do: list[Step] = Field(min_length=1)

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if (self.record is None) == (self.event is None):
            raise ValueError("a reaction has either a record or an event to react to")
        if self.record is not None:
            known_type(self.record)
        if any(step.verb in ("wait", "crash") for step in self.do):
            raise ValueError("a reaction can neither wait nor crash, it runs inside its window; the steps can")
        return self
