"""Format 0: the payload of every record type, the header row, and how one stored row is read.

Chunks are events of their own, stored packed; the system prompt is in the request header; a tool result is a
user message with one `tool-result` block. Fact sheet: session-log sections 3 to 9, marks [V0].
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, Field, field_validator, model_validator

from loopspec.log import others
from loopspec.log.common import (
    AbortedEnd,
    BlockStart,
    CompactionEnd,
    CompactionPrune,
    CompactionStart,
    Count,
    DispatchStart,
    Empty,
    ErrorEnd,
    FinishChunk,
    HeaderShape,
    ImageBlock,
    Items,
    Maybe,
    ModelSource,
    Opaque,
    Positive,
    ProducerSource,
    ReasoningBlock,
    RequestContext,
    Retry,
    RetryStarted,
    SeqRange,
    Shape,
    Step,
    Text,
    TextBlock,
    TextDelta,
    Tool,
    ToolCall,
    ToolCallBlock,
    ToolCallDelta,
    ToolError,
    ToolSource,
    Turn,
    Usage,
    UsageChunk,
    check_sub_call,
)
from loopspec.log.envelope import Event, SessionHeader, envelope_problems, header_problems
from loopspec.log.packed import PackedError, is_packed_row, unpack_row
from loopspec.log.problems import Problem, RowError, fault, payload_problems
from loopspec.log.types import KNOWN_TYPES, RETIRED_TYPES
from loopspec.values import Json, Record

VERSION = 0


class Header(SessionHeader):
    """The header row (section 3). Surplus keys are refused, which is stricter than the writers' loader."""

    version: Literal[0]
    delegation_depth: Maybe[Count] = None
    seed_length: Maybe[Count] = None


# -- content and messages ------------------------------------------------------------------------------------


class ToolResultBlock(Shape):
    type: Literal["tool-result"]
    tool_call_id: Text
    content: Items[Block]
    is_error: Maybe[bool] = None


Block: TypeAlias = Annotated[
    TextBlock | ReasoningBlock | ImageBlock | ToolCallBlock | ToolResultBlock, Field(discriminator="type")
]


class UserMessage(Shape):
    id: Text
    role: Literal["user"]
    content: Items[Block]
    source: ProducerSource

    @field_validator("source")
    @classmethod
    def _is_a_producer(cls, source: ProducerSource) -> ProducerSource:
        if source.kind in ("model", "tool"):
            raise fault("S-LNT-39", f'kind "{source.kind}" is not the source of a user message')
        return source


class AssistantMessage(Shape):
    id: Text
    role: Literal["assistant"]
    content: Items[Block]
    source: ModelSource


class ToolResultMessage(Shape):
    """A user message with exactly one `tool-result` block, whose call is the source's (S-MSG-3)."""

    id: Text
    role: Literal["user"]
    content: Items[ToolResultBlock]
    source: ToolSource

    @model_validator(mode="after")
    def _one_result(self) -> ToolResultMessage:
        if len(self.content) != 1:
            raise fault("S-LNT-40", "content must be exactly one tool-result block")
        if self.content[0].tool_call_id != self.source.call_id:
            raise fault("S-LNT-40", "has mismatched tool call ids")
        return self


# -- payloads ------------------------------------------------------------------------------------------------


class PlainEnd(Shape):
    kind: Literal["completed", "blocked", "max-tokens", "interrupted"]


class TurnEnd(Turn):
    reason: Annotated[PlainEnd | AbortedEnd | ErrorEnd, Field(discriminator="kind")]


class AssistantRecord(Step):
    message: AssistantMessage
    usage: Maybe[Usage] = None
    interrupted: Maybe[Literal[True]] = None


class BlockEnd(Shape):
    type: Literal["block-end"]
    index: Count
    block: Block


Chunk: TypeAlias = Annotated[
    BlockStart | TextDelta | ToolCallDelta | BlockEnd | UsageChunk | FinishChunk, Field(discriminator="type")
]


class ChunkRecord(Step):
    chunk: Chunk


class ToolResult(Step):
    message: ToolResultMessage
    error: Maybe[ToolError] = None
    meta: Opaque = None

    @model_validator(mode="after")
    def _error_has_flag(self) -> ToolResult:
        if self.error is not None and self.message.content[0].is_error is not True:
            raise fault("S-LNT-41", "error is only allowed when isError is true")
        return self


class RequestHeader(HeaderShape):
    system: Maybe[Text] = None
    tools: Maybe[Annotated[Items[Tool], Field(min_length=1)]] = None


class HeaderRecord(Shape):
    header: RequestHeader
    reason: Literal["initial", "resume", "change"]


class InboxSplice(Shape):
    target: Literal["next-turn", "next-step"]
    start: Count
    removed_count: Maybe[Count] = None
    inserted: Items[UserMessage]
    outcome: Maybe[Literal["canceled"]] = None


class CompactionSummary(Shape):
    compaction_id: Text
    source_command_id: Maybe[str] = None
    summary: Items[Block]
    shadowed_range: SeqRange
    shadowed_seqs: Items[Count]
    shadowed_token_count: Count
    provider: Text
    model: Text
    max_tokens: Maybe[Positive] = None
    usage: Maybe[Usage] = None
    raw_output: Maybe[Items[Block]] = None
    llm_stream_call: Maybe[Literal[True]] = None

    @model_validator(mode="after")
    def _stream_call_has_output(self) -> CompactionSummary:
        if self.llm_stream_call and self.raw_output is None:
            raise fault("S-LNT-21", "llmStreamCall needs rawOutput")
        return self


class CodeDispatchStart(DispatchStart):
    @model_validator(mode="after")
    def _is_named_after_parent(self) -> CodeDispatchStart:
        check_sub_call(self, "code")
        return self


class CodeDispatch(CodeDispatchStart):
    is_error: bool
    content: Items[Block]


MODELS: Mapping[str, type[BaseModel]] = {
    "turn/start": Turn,
    "turn/end": TurnEnd,
    "step/start": Step,
    "step/end": Step,
    "user/message": UserMessage,
    "assistant/message": AssistantRecord,
    "assistant/chunk": ChunkRecord,
    "tool/call": ToolCall,
    "tool/result": ToolResult,
    "request/header": HeaderRecord,
    "request/context": RequestContext,
    "agent/inbox/spliced": InboxSplice,
    "session/end-seed": Empty,
    "llm/retry": Retry,
    "llm/retry-started": RetryStarted,
    "compaction/start": CompactionStart,
    "compaction/summary": CompactionSummary,
    "compaction/end": CompactionEnd,
    "compaction/prune": CompactionPrune,
    "tool/code-dispatch-start": CodeDispatchStart,
    "tool/code-dispatch": CodeDispatch,
    **others.BOTH,
    **others.V0_ONLY,
}
"""The payload model of every known type."""


# -- reading -------------------------------------------------------------------------------------------------


def validate_header(row: Record) -> tuple[Problem, ...]:
    """The problems of the header row; empty means legal."""
    return header_problems(Header, row)


def validate_data(event_type: str, data: Json) -> tuple[Problem, ...]:
    """The problems of one payload; empty means legal. A type without a model has none."""
    model = MODELS.get(event_type)
    return () if model is None else payload_problems(model, event_type, data)


def validate_event(row: Record) -> tuple[Problem, ...]:
    """The problems of one event: envelope, vocabulary (S-LNT-23) and payload. Packed rows must be opened first."""
    event_type = row.get("type")
    known = isinstance(event_type, str) and event_type in KNOWN_TYPES["v0"]
    found = envelope_problems("v0", row, known=known)
    if isinstance(event_type, str) and not known and row.get("ignorable") is not True:
        reason = "is retired" if event_type in RETIRED_TYPES["v0"] else "is unknown and not marked ignorable"
        found = (*found, Problem("S-LNT-23", ("type",), reason))
    if known and "data" in row:
        found += validate_data(str(event_type), row["data"])
    return found


def parse_event(row: Record) -> Event:
    """One event with its payload as a model. Raises `RowError` listing every problem."""
    found = validate_event(row)
    if found:
        raise RowError(found)
    model = MODELS.get(row["type"])
    return Event(row, None if model is None else model.model_validate(row["data"]))


def parse_row(row: Record) -> Iterator[Event]:
    """The events of one stored row, packed or not. Raises `RowError`; a packed row is all or nothing."""
    if not is_packed_row(row):
        yield parse_event(row)
        return
    try:
        members = unpack_row(row)
    except PackedError as error:
        raise RowError((Problem("S-LNT-9", error.path, error.reason),)) from error
    for member in members:
        yield parse_event(member)
