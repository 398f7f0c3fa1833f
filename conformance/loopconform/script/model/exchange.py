"""What is said in a script: messages, gates, and the answers of the model."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, JsonValue, model_validator

from loopconform.script.model.base import Name, Strict, Words, text_as


class Message(Strict):
    """A message to the agent. A bare text will do; give an id to mention it later."""

    text: str
    id: Name | None = None
    source: dict[str, JsonValue] | None = Field(None, description="Who it comes from; a human prompt if left out.")


AnyMessage = Annotated[Message, text_as("text")]


class Reasoning(Strict):
    """How hard the model can think."""

    efforts: list[Words] = Field(min_length=1)
    default: Words | None = Field(None, description="Used when nobody asks for another.")


class Model(Strict):
    """The model that answers, and what it says of itself."""

    provider: Words = "mock"
    name: Words = "m1"
    max_tokens: int | None = Field(None, gt=0, lt=2**53, description="Cap of each answer, set by the agent.")
    context_window: int | None = Field(None, gt=0, lt=2**53)
    default_max_tokens: int | None = Field(None, gt=0, lt=2**53, description="Cap that the adapter fills in.")
    reasoning: Reasoning | None = None


class Usage(Strict):
    """Token counts of one answer."""

    input: int = Field(0, ge=0, lt=2**53)
    output: int = Field(0, ge=0, lt=2**53)
    cache_read: int | None = Field(None, ge=0, lt=2**53)
    cache_write: int | None = Field(None, ge=0, lt=2**53)
    reasoning: int | None = Field(None, ge=0, lt=2**53)


class Gate(Strict):
    """Wait here until a step opens the gate, or until the turn is cancelled."""

    gate: Name


class Call(Strict):
    """A tool call. `arguments` is an object, or a text that is sent as it is, valid JSON or not."""

    name: Words
    arguments: JsonValue = Field(default_factory=dict)
    id: Words | None = Field(None, description="`call-1`, `call-2`, … if left out.")


class Failure(Strict):
    """A failure of the provider."""

    message: Words = "scripted failure"
    code: Words = Field("SERVER", description="A stable code, such as RATE_LIMIT, TRANSPORT, SERVER.")
    status: int | None = Field(None, ge=100, le=599, description="The HTTP status.")
    retry_after_ms: float | None = Field(None, gt=0)
    request_id: Words | None = None


Piece = str | Gate
Chunk = Annotated[Gate | dict[str, JsonValue], Field(union_mode="left_to_right")]
Pieces = Annotated[list[Piece], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]


class Answer(Strict):
    """One response of the model: thinking, then text, then tool calls; or a failure, after what came before it.

    `text` and `reasoning` may be lists: each item is one delta of the stream, and a `gate` between them holds it.
    """

    reasoning: Pieces | None = None
    text: Pieces | None = None
    calls: list[Call] = Field(default_factory=list)
    usage: Usage | None = None
    fail: Annotated[Failure, text_as("message")] | None = None
    finish: Literal["stop", "tool-calls", "max-tokens"] | None = Field(None, description="Left out, it is worked out.")
    gate: Name | None = Field(None, description="Hold the stream before its first chunk.")
    raw: list[Chunk] | None = Field(None, description="The chunks themselves, and gates.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.raw is not None and self.model_fields_set - {"raw", "gate"}:
            raise ValueError("an answer with raw chunks has no other key than gate")
        if self.fail is not None and self.finish is not None:
            raise ValueError("an answer that fails has no finish")
        if not self.model_fields_set - {"gate"}:
            raise ValueError("an answer needs text, reasoning, calls, fail, finish or raw")
        return self


AnyAnswer = Annotated[Answer, text_as("text")]
