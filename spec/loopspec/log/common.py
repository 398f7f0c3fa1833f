"""Shapes of payloads that both formats share.

Models are frozen and strict, and they forbid surplus keys wherever the key set is exact. An optional field is
absent or has a value; null is refused. Keys are written as in the log (`callId`), attributes in Python's way.

A model describes one payload on its own. What holds between events (an open step, a unique id) is not here.
Fact sheet: session-log 4, 5, 7.1, 8.1, 9.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from loopspec.log.problems import fault, first_lossy
from loopspec.values import SAFE_INTEGER, Record

T = TypeVar("T")

# -- building blocks -----------------------------------------------------------------------------------------


class Shape(BaseModel):
    """A record with an exact key set."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", alias_generator=to_camel, protected_namespaces=()
    )


class OpenShape(Shape):
    """A record whose producer may add keys."""

    model_config = ConfigDict(extra="allow")


def _not_null(value: Any) -> Any:
    if value is None:
        raise fault("S-HDR-1", "must be absent, not null")
    return value


def _unlossy(value: Any) -> Any:
    found = first_lossy(value)
    if found is not None:
        raise fault("S-LNT-8", found[1])
    return value


Maybe = Annotated[T | None, BeforeValidator(_not_null)]
"""An optional field: give it the default `None`; a written null is refused."""

Items = Annotated[tuple[T, ...], Field(strict=False)]
"""A JSON array, kept as a tuple."""

SafeInt: TypeAlias = Annotated[int, Field(ge=-SAFE_INTEGER, le=SAFE_INTEGER)]
Count: TypeAlias = Annotated[int, Field(ge=0, le=SAFE_INTEGER)]
Positive: TypeAlias = Annotated[int, Field(ge=1, le=SAFE_INTEGER)]
Number: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]


def _not_empty(text: str) -> str:
    if not text:
        raise PydanticCustomError("string_too_short", "must not be empty")
    return text


Text: TypeAlias = Annotated[str, AfterValidator(_not_empty), Field(json_schema_extra={"minLength": 1})]
"""A non-empty string. Not a length constraint of the model: those refuse half surrogate pairs, which logs may hold."""
Opaque: TypeAlias = Any
"""Any JSON value, kept as it is."""

MAX_DELAY_MS = 2147483647


class Empty(Shape):
    """The payload `{}`."""


class Anything(OpenShape):
    """An object that is opaque to the loop."""


# -- content blocks (S-MSG-7) --------------------------------------------------------------------------------


class Dimensions(Shape):
    width: Count
    height: Count


class ImageAttachment(Shape):
    attachment_id: Text
    media_type: Literal["image/png", "image/jpeg", "image/webp", "image/gif"]
    bytes: Count
    width: Count
    height: Count
    name: Maybe[str] = None
    original_dimensions: Maybe[Dimensions] = None


class TextBlock(Shape):
    type: Literal["text"]
    text: str


class ReasoningBlock(Shape):
    type: Literal["reasoning"]
    text: str


class ImageBlock(Shape):
    type: Literal["image"]
    attachment: ImageAttachment


class ToolCallBlock(Shape):
    type: Literal["tool-call"]
    id: str
    name: str
    arguments: str


# -- sources (S-MSG-5) ---------------------------------------------------------------------------------------


class ProducerSource(OpenShape):
    """The source of a user or developer message: its kind, and whatever the producer adds."""

    kind: Text


class ModelSource(Shape):
    kind: Literal["model"]
    provider: Text
    model: Text
    replay_state: Maybe[Opaque] = None


class ToolSource(Shape):
    kind: Literal["tool"]
    call_id: Text


# -- failures and reasons (4.3) ------------------------------------------------------------------------------


class Failure(Shape):
    """The facts of a failed model call."""

    message: Text
    code: Text
    status: Maybe[Annotated[int, Field(ge=100, le=599)]] = None
    provider_retry_after_ms: Maybe[Annotated[float, Field(gt=0, allow_inf_nan=False)]] = None
    request_id: Maybe[Text] = None


class PlainCause(Shape):
    kind: Literal["user", "parent", "disposed", "legacy"]


class HookCause(Shape):
    kind: Literal["hook"]
    reason: str


Cause: TypeAlias = Annotated[PlainCause | HookCause, Field(discriminator="kind")]


class AbortedEnd(Shape):
    kind: Literal["aborted"]
    reason: Cause


class ErrorEnd(Shape):
    kind: Literal["error"]
    error: Failure


# -- turns and steps -----------------------------------------------------------------------------------------


class Turn(Shape):
    turn: Positive


class Step(Shape):
    turn: Positive
    step: Positive


class ToolCall(Step):
    call_id: str
    name: str
    arguments: str


class ToolError(Shape):
    name: str
    code: str


class Usage(Shape):
    input_tokens: Count
    output_tokens: Count
    total_tokens: Maybe[Count] = None
    cache_read_tokens: Maybe[Count] = None
    cache_write_tokens: Maybe[Count] = None
    reasoning_tokens: Maybe[Count] = None


# -- chunks (8.1) --------------------------------------------------------------------------------------------


class BlockStart(Shape):
    type: Literal["block-start"]
    index: Count
    block_type: str


class TextDelta(Shape):
    type: Literal["text-delta", "reasoning-delta"]
    index: Count
    text: str


class ToolCallDelta(Shape):
    type: Literal["tool-call-delta"]
    index: Count
    id: str
    name: Maybe[str] = None
    arguments_delta: str


class UsageChunk(Shape):
    type: Literal["usage"]
    usage: Usage


class GoodFinish(Shape):
    kind: Literal["stop", "tool-calls", "max-tokens"]


class BadFinish(Shape):
    kind: Literal["error", "aborted"]
    failure: Failure


class FinishChunk(Shape):
    type: Literal["finish"]
    reason: Annotated[GoodFinish | BadFinish, Field(discriminator="kind")]
    replay_state: Maybe[Opaque] = None


# -- request header and context (7.1) ------------------------------------------------------------------------


class CallConfig(Shape):
    provider: Text
    model: Text
    reasoning_effort: Maybe[Text] = None
    temperature: Maybe[Number] = None
    max_tokens: Maybe[Positive] = None
    stop: Maybe[Items[str]] = None


class AdapterDefaults(Shape):
    reasoning_effort: Maybe[Literal[True]] = None
    max_tokens: Maybe[Literal[True]] = None

    @model_validator(mode="after")
    def _marks_something(self) -> AdapterDefaults:
        if self.reasoning_effort is None and self.max_tokens is None:
            raise fault("S-LNT-80", "must be absent when it marks nothing")
        return self


class Tool(Shape):
    name: Text
    description: str
    parameters: Record


class HeaderShape(Shape):
    """What both formats have in a request header; each adds its own fields."""

    config: CallConfig
    adapter_defaults: Maybe[AdapterDefaults] = None

    @model_validator(mode="after")
    def _marks_have_values(self) -> HeaderShape:
        marks = self.adapter_defaults
        if marks is not None and marks.reasoning_effort and self.config.reasoning_effort is None:
            raise fault("S-LNT-80", "adapterDefaults marks reasoningEffort, but config has none")
        if marks is not None and marks.max_tokens and self.config.max_tokens is None:
            raise fault("S-LNT-80", "adapterDefaults marks maxTokens, but config has none")
        return self


class RequestContext(Shape):
    provider: Text
    model: Text
    context_window: Maybe[Positive] = None


# -- retry and compaction ------------------------------------------------------------------------------------


class Retry(Step):
    retry_id: Text
    provider: Text
    mode: Literal["normal", "always"]
    policy_key: str
    retry: Positive
    max_retries: Maybe[Count] = None
    delay_ms: Annotated[float, Field(ge=0, le=MAX_DELAY_MS, allow_inf_nan=False)]
    failure: Failure

    @model_validator(mode="after")
    def _limit_fits_mode(self) -> Retry:
        if (self.mode == "normal") != (self.max_retries is not None):
            raise fault("S-LNT-92", "maxRetries belongs to mode normal, and only there")
        return self


class RetryStarted(Step):
    retry_id: Text
    retry: Positive


class CompactionStart(Shape):
    compaction_id: Text
    source_command_id: Maybe[str] = None
    turn: Positive | None


class CompactionEnd(CompactionStart):
    error: Maybe[str] = None


class SeqRange(Shape):
    """Two ends by position on the surface; as numbers they may decrease."""

    start: Count
    end: Count


class CompactionPrune(Shape):
    shadowed_range: SeqRange
    shadowed_seqs: Items[Count]
    shadowed_token_count: Count


# -- nested dispatches ---------------------------------------------------------------------------------------


class DispatchStart(Shape):
    root_call_id: Text
    parent_call_id: Text
    sub_call_id: Text
    name: str
    arguments: Opaque


def check_sub_call(dispatch: DispatchStart, word: str) -> None:
    """Raise when the sub call is not named `<parent>:<word>:<n>`."""
    head = f"{dispatch.parent_call_id}:{word}:"
    number = dispatch.sub_call_id.removeprefix(head)
    if not dispatch.sub_call_id.startswith(head) or not (number.isascii() and number.isdigit()):
        raise fault("S-LNT-102", f"subCallId must be the parent call id, then :{word}:, then a number")
