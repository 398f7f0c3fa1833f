"""Format 4: the payload of every record type, the header row, and how one stored row is read.

A stream is embedded in the event that settles it; the system prompt is a message on the surface; a tool
result is a message of its own role. Format 4 is known from reading and from snapshot logs, not from running a
writer of it. Fact sheet: session-log sections 3 to 9, marks [V4] and [D4].
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, Field, field_validator, model_validator

from loopspec.log import common, others
from loopspec.log.common import (
    AbortedEnd,
    BlockStart,
    CompactionEnd,
    CompactionPrune,
    CompactionStart,
    Count,
    DispatchStart,
    Failure,
    HeaderShape,
    ImageAttachment,
    Items,
    Maybe,
    ModelSource,
    Opaque,
    Positive,
    ProducerSource,
    ReasoningBlock,
    RequestContext,
    RetryStarted,
    SafeInt,
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
from loopspec.log.packed import PackedError, unpack_event
from loopspec.log.problems import Problem, RowError, fault, payload_problems
from loopspec.log.types import KNOWN_TYPES, RETIRED_TYPES
from loopspec.values import Json, Record

VERSION = 4


class Header(SessionHeader):
    """The header row (section 3); its key set is exact."""

    version: Literal[4]
    is_seeded: bool
    delegation_depth: Count


# -- content and messages ------------------------------------------------------------------------------------


class FileAttachment(Shape):
    attachment_id: Text
    name: str
    bytes: Count


class ImageBlock(Shape):
    type: Literal["image"]
    attachment: ImageAttachment
    offloaded: Maybe[Literal[True]] = None


class FileBlock(Shape):
    type: Literal["file"]
    attachment: FileAttachment


class ToolChangeBlock(Shape):
    """Tells the model that a tool came or went; names it and does not define it (S-MSG-9)."""

    type: Literal["tool-addition", "tool-removal"]
    tool_name: Text


Block: TypeAlias = Annotated[
    TextBlock | ReasoningBlock | ImageBlock | FileBlock | ToolCallBlock, Field(discriminator="type")
]
DeveloperBlock: TypeAlias = Annotated[
    TextBlock | ReasoningBlock | ImageBlock | FileBlock | ToolChangeBlock, Field(discriminator="type")
]


class SystemSource(Shape):
    kind: Literal["system-prompt"]


def _producer(source: ProducerSource) -> ProducerSource:
    if source.kind in ("plugin", "model", "tool", "system-prompt"):
        raise fault("S-LNT-39", f'kind "{source.kind}" is not a producer of this message')
    return source


class UserMessage(Shape):
    id: Text
    role: Literal["user"]
    content: Items[Block]
    source: ProducerSource

    _is_a_producer = field_validator("source")(_producer)


class SystemMessage(Shape):
    id: Text
    role: Literal["system"]
    content: Items[Block]
    source: SystemSource


class DeveloperMessage(Shape):
    id: Text
    role: Literal["developer"]
    content: Items[DeveloperBlock]
    source: ProducerSource

    _is_a_producer = field_validator("source")(_producer)


class AssistantMessage(Shape):
    id: Text
    role: Literal["assistant"]
    content: Items[Block]
    source: ModelSource


class ToolMessage(Shape):
    """The result of one call, as a message of role `tool` (S-MSG-4)."""

    id: Text
    role: Literal["tool"]
    tool_call_id: Text
    content: Items[Block]
    is_error: Maybe[bool] = None
    source: ToolSource

    @model_validator(mode="after")
    def _ids_agree(self) -> ToolMessage:
        if self.tool_call_id != self.source.call_id:
            raise fault("S-LNT-40", "has mismatched tool call ids")
        return self


# -- streams (8.3) -------------------------------------------------------------------------------------------


class OffloadingFailure(Failure):
    offload_images: Maybe[Opaque] = None


class ErrorEnd(Shape):
    kind: Literal["error"]
    error: OffloadingFailure


class BadFinish(Shape):
    kind: Literal["error", "aborted"]
    failure: OffloadingFailure


class FinishChunk(Shape):
    type: Literal["finish"]
    reason: Annotated[common.GoodFinish | BadFinish, Field(discriminator="kind")]
    replay_state: Maybe[Opaque] = None


class BlockEnd(Shape):
    type: Literal["block-end"]
    index: Count
    block: Block


Chunk: TypeAlias = Annotated[
    BlockStart | TextDelta | ToolCallDelta | BlockEnd | UsageChunk | FinishChunk, Field(discriminator="type")
]


class PlainRecord(Shape):
    type: Literal["chunk"]
    time: SafeInt
    chunk: Chunk


class PackedRecord(Shape):
    time0: SafeInt
    index: Count
    dt: Items[SafeInt]

    def check_gaps(self, members: int) -> None:
        """Raise unless there is one gap between every two members."""
        if members == 0 or len(self.dt) != members - 1:
            raise fault("S-LNT-9", f"{members} members need {max(0, members - 1)} gaps, not {len(self.dt)}")


class TextRecord(PackedRecord):
    type: Literal["text-chunks", "reasoning-chunks"]
    texts: Items[str]

    @model_validator(mode="after")
    def _gaps_fit(self) -> TextRecord:
        self.check_gaps(len(self.texts))
        return self


class ToolCallRecord(PackedRecord):
    type: Literal["tool-call-chunks"]
    id: Text
    name: Maybe[Text] = None
    args: Items[str]

    @model_validator(mode="after")
    def _gaps_fit(self) -> ToolCallRecord:
        self.check_gaps(len(self.args))
        return self


StreamRecord: TypeAlias = Annotated[PlainRecord | TextRecord | ToolCallRecord, Field(discriminator="type")]
Stream: TypeAlias = Items[StreamRecord]


# -- payloads ------------------------------------------------------------------------------------------------


class PlainEnd(Shape):
    kind: Literal["completed", "blocked", "max-tokens", "interrupted", "forked"]


class TurnEnd(Turn):
    reason: Annotated[PlainEnd | AbortedEnd | ErrorEnd, Field(discriminator="kind")]


class SystemRecord(Step):
    message: SystemMessage


class DeveloperRecord(Step):
    message: DeveloperMessage
    header_seq: Maybe[Count] = None

    @model_validator(mode="after")
    def _cites_header(self) -> DeveloperRecord:
        adds = any(block.type == "tool-addition" for block in self.message.content)
        if adds != (self.header_seq is not None):
            raise fault("S-LNT-34", "headerSeq belongs to messages with a tool-addition, and only there")
        return self


class AssistantRecord(Step):
    message: AssistantMessage
    usage: Maybe[Usage] = None
    interrupted: Maybe[Literal[True]] = None
    stream: Stream


class Attempt(Step):
    stream: Stream


class ExplainedToolError(ToolError):
    reason: Maybe[str] = None


class ToolResult(Step):
    message: ToolMessage
    error: Maybe[ExplainedToolError] = None
    meta: Opaque = None

    @model_validator(mode="after")
    def _error_has_flag(self) -> ToolResult:
        if self.error is not None and self.message.is_error is not True:
            raise fault("S-LNT-41", "error is only allowed when isError is true")
        return self


class DeferrableTool(Tool):
    defer_loading: Maybe[Literal[True]] = None


class RequestHeader(HeaderShape):
    tools: Maybe[Annotated[Items[DeferrableTool], Field(min_length=1)]] = None


class HeaderRecord(Shape):
    header: RequestHeader
    reason: Literal["initial", "resume", "change", "series"]
    starts_series: Maybe[Literal[True]] = None


class Context(RequestContext):
    system_prompt_update: Maybe[Literal["in-history"]] = None


class InboxSplice(Shape):
    target: Literal["next-turn", "next-step"]
    start: Count
    removed_count: Maybe[Count] = None
    inserted: Items[UserMessage]
    outcome: Maybe[Literal["canceled"]] = None


class EndSeed(Shape):
    inherited: Maybe[Literal[True]] = None


class OffloadTarget(Shape):
    seq: Count
    image_indexes: Items[Count]


class ImageOffload(Shape):
    targets: Items[OffloadTarget]


class Retry(common.Retry):
    failure: OffloadingFailure


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


class NestedDispatchStart(DispatchStart):
    @model_validator(mode="after")
    def _is_named_after_parent(self) -> NestedDispatchStart:
        check_sub_call(self, "ptc")
        return self


class NestedDispatch(NestedDispatchStart):
    is_error: bool
    content: Items[Block]
    error: Maybe[ExplainedToolError] = None


MODELS: Mapping[str, type[BaseModel]] = {
    "turn/start": Turn,
    "turn/end": TurnEnd,
    "step/start": Step,
    "step/end": Step,
    "user/message": UserMessage,
    "system/message": SystemRecord,
    "developer/message": DeveloperRecord,
    "assistant/message": AssistantRecord,
    "assistant/attempt": Attempt,
    "tool/call": ToolCall,
    "tool/result": ToolResult,
    "request/header": HeaderRecord,
    "request/context": Context,
    "agent/inbox/spliced": InboxSplice,
    "session/end-seed": EndSeed,
    "image/offload": ImageOffload,
    "llm/retry": Retry,
    "llm/retry-started": RetryStarted,
    "compaction/start": CompactionStart,
    "compaction/summary": CompactionSummary,
    "compaction/end": CompactionEnd,
    "compaction/prune": CompactionPrune,
    "tool/ptc-dispatch-start": NestedDispatchStart,
    "tool/ptc-dispatch": NestedDispatch,
    **others.BOTH,
    **others.V4_ONLY,
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
    """The problems of one event: envelope, vocabulary (S-LNT-23) and payload, its sources already opened."""
    event_type = row.get("type")
    known = isinstance(event_type, str) and event_type in KNOWN_TYPES["v4"]
    found = envelope_problems("v4", row, known=known)
    if isinstance(event_type, str) and not known and row.get("ignorable") is not True:
        reason = "is retired" if event_type in RETIRED_TYPES["v4"] else "is unknown and not marked ignorable"
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
    """The one event of a stored row, its source ranges opened (S-DSK-12, S-DSK-13). Raises `RowError`."""
    try:
        event = unpack_event(row)
    except PackedError as error:
        raise RowError((Problem("S-LNT-28", error.path, error.reason),)) from error
    yield parse_event(event)
