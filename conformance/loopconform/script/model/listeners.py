"""What the listeners of a script answer."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from loopconform.script.model.base import Strict, Words
from loopconform.script.model.exchange import AnyMessage


class Listener(Strict):
    """Where a listener acts: every turn and step unless it says which."""

    turn: int | None = Field(None, ge=1)
    step: int | None = Field(None, ge=1)
    times: int | None = Field(None, ge=1, description="How often at most.")


class PreStep(Listener):
    """Before a step opens: reject it, replace its messages, or add some."""

    reject: Literal[True] | None = None
    rewrite: list[AnyMessage] | None = None
    add: list[AnyMessage] | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(value is not None for value in (self.reject, self.rewrite, self.add)) != 1:
            raise ValueError("a pre-step listener has exactly one of reject, rewrite and add")
        return self


class Override(Strict):
    """Fields of a request; null takes one away."""

    provider: Words | None = None
    model: Words | None = None
    reasoning_effort: Words | None = None
    temperature: float | None = None
    max_tokens: int | None = Field(None, gt=0, lt=2**53)
    stop: list[Words] | None = None


class RequestListener(Listener):
    """Before a request: change how the model is called."""

    set: Override


class RetryListener(Listener):
    """After a failure of the provider: try again, at most so often in one step."""

    retry: int = Field(ge=1, le=1000)


class StoppingListener(Listener):
    """When a turn is about to end: hand in one more message."""

    times: int | None = Field(1, ge=1, description="How often at most.")
    steer: AnyMessage


class Listeners(Strict):
    """What the host of the agent does on its own."""

    pre_step: list[PreStep] = Field(default_factory=list, alias="pre-step")
    request: list[RequestListener] = Field(default_factory=list)
    request_error: list[RetryListener] = Field(default_factory=list, alias="request-error")
    stopping: list[StoppingListener] = Field(default_factory=list)
