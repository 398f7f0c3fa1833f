"""What all parts of a script share: names, points, causes, and how strict its objects are."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=100)]
Point = Annotated[str, StringConstraints(pattern=r"^(idle|gate [A-Za-z0-9][A-Za-z0-9_.-]*)$")]
GatePoint = Annotated[str, StringConstraints(pattern=r"^gate [A-Za-z0-9][A-Za-z0-9_.-]*$")]
Words = Annotated[str, StringConstraints(min_length=1)]
Cause = Literal["user", "parent", "hook", "disposed"]
Target = Literal["next-turn", "next-step"]
Verdict = Literal["allow", "deny", "ask"]
FileTool = Literal["read", "list", "search", "write", "edit", "command"]
LiveEvent = Literal[
    "agent/status",
    "agent/inbox/inserted",
    "agent/inbox/discarded",
    "agent/inbox/claimed",
    "agent/error",
    "agent/assistant-stream",
]


class Strict(BaseModel):
    """No key that is not listed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)


def text_as(key: str) -> BeforeValidator:
    """A bare text may stand for an object that has it under `key`."""
    return BeforeValidator(lambda value: {key: value} if isinstance(value, str) else value)


def one_of(model: BaseModel, noun: str, beside: tuple[str, ...] = ()) -> str:
    """The one key that is set, those `beside` it left out. Raises `ValueError` for none or several."""
    given = sorted(model.model_fields_set - set(beside))
    names = [type(model).model_fields[name].alias or name for name in given]
    if len(names) != 1:
        known = ", ".join(field.alias or name for name, field in type(model).model_fields.items())
        what = f"has {len(names)} ({', '.join(names)})" if names else "has none"
        raise ValueError(f"{noun} has exactly one key, this one {what}; the keys are {known}")
    return names[0]


ONE_KEY = {"minProperties": 1, "maxProperties": 1}
