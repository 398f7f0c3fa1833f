"""Shapes that both formats share, and how a shape error becomes a problem that a person can read.

Models are frozen and strict, and they forbid surplus keys wherever the key set is exact. An optional field is
absent or has a value; null is refused. Keys are written as in the log (`callId`), attributes in Python's way.

A model describes one payload on its own. What holds between events (an open step, a unique id) is not here.
Fact sheet: session-log 2 to 5, 7.1, 8.1, 9.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails, PydanticCustomError

from loopspec.log.types import REPLACE_FIELDS, SURFACE_TYPES, Dialect
from loopspec.values import SAFE_INTEGER, Json, Record

T = TypeVar("T")
Path: TypeAlias = tuple[str | int, ...]


# -- problems ------------------------------------------------------------------------------------------------


class Problem(NamedTuple):
    """One thing that is wrong with a row: the checker rule, where, and what."""

    rule: str
    path: Path
    reason: str

    @property
    def where(self) -> str:
        """The place as a JSON path such as `$.data.message.content[0].text`."""
        return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)

    def __str__(self) -> str:
        return f"{self.rule}: {self.where} {self.reason}"


class RowError(ValueError):
    """A row that is not what its format asks for; `problems` lists every fault found in it."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


def fault(rule: str, text: str) -> PydanticCustomError:
    """The error of a check that a type cannot express; the checker rule travels as the error's type."""
    return PydanticCustomError(rule, "{text}", {"text": text})


def problems_of(model: type[BaseModel], value: Json, base: Path, rule: str) -> tuple[Problem, ...]:
    """Every shape problem of one value. `base` is its path in the row, `rule` the rule of an ordinary fault."""
    try:
        model.model_validate(value)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False)
        return tuple(_problem(detail, value, base, rule) for detail in details)
    return ()


def _problem(detail: ErrorDetails, value: Json, base: Path, rule: str) -> Problem:
    kind = detail["type"]
    if kind == "missing":
        reason = "is missing"
    elif kind == "extra_forbidden":
        reason = "is not a key of this record"
    elif kind in ("string_too_short", "too_short"):
        reason = "must not be empty"
    elif kind.startswith("union_tag"):
        reason = "does not name a known kind of value"
    else:
        reason = detail["msg"].replace("Input should", "should")
    path = base + _path_in(value, detail["loc"])
    return Problem(kind if kind.startswith("S-") else rule, path, reason)


_TAGS = ("type", "kind", "operation", "mode")


def _path_in(value: Json, loc: tuple[int | str, ...]) -> Path:
    """The validator's location without the tags of unions, which are not keys of the value."""
    path: list[str | int] = []
    here: Json = value
    fresh = True
    for part in loc:
        if fresh and isinstance(here, Mapping) and any(here.get(tag) == part for tag in _TAGS):
            fresh = False
            continue
        path.append(part)
        fresh = True
        if isinstance(here, Mapping):
            here = here.get(part)
        elif isinstance(here, Sequence) and isinstance(part, int) and part < len(here):
            here = here[part]
        else:
            here = None
    return tuple(path)


def first_lossy(value: Json, path: Path = ()) -> tuple[Path, str] | None:
    """Where a value is not lossless JSON, and why: negative zero or a number that is not finite (S-LNT-8)."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return path, "is not a finite number"
    if isinstance(value, float) and value == 0 and str(value).startswith("-"):
        return path, "is negative zero"
    items: Iterable[tuple[str | int, Json]] = ()
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    for key, item in items:
        found = first_lossy(item, (*path, key))
        if found is not None:
            return found
    return None


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


# -- session header row (section 3) --------------------------------------------------------------------------


def _absolute(path: str) -> str:
    drive = len(path) > 2 and path[0].isalpha() and path[1] == ":" and path[2] in "/\\"
    if not (path.startswith(("/", "\\\\")) or drive):
        raise fault("S-LNT-13", f'must be an absolute path, not "{path}"')
    return path


AbsolutePath: TypeAlias = Annotated[str, AfterValidator(_absolute)]


class SessionHeader(Shape):
    type: Literal["session"]
    id: Text
    created_at: Count
    cwd: Maybe[AbsolutePath] = None
    parent_session: Maybe[Text] = None
    origin: Maybe[Literal["subagent"]] = None
    agent_preset: Maybe[Text] = None


def header_problems(model: type[SessionHeader], row: Record) -> tuple[Problem, ...]:
    """The problems of a header row: S-LNT-11 for the version, S-LNT-12 for the keys, S-LNT-13 for the rest."""
    found = problems_of(model, row, (), "S-LNT-13")
    return tuple(
        problem._replace(rule="S-LNT-11")
        if problem.path == ("version",)
        else problem._replace(rule="S-LNT-12")
        if problem.reason == "is not a key of this record"
        else problem
        for problem in found
    )


# -- envelope (section 2) ------------------------------------------------------------------------------------

ENVELOPE_KEYS = frozenset({"type", "seq", "time", "data", "ignorable", "surfaceOp", "sourceEventSeqs"})


class Event(NamedTuple):
    """A row that passed: the event as stored, and its payload as a model (`None` for foreign types)."""

    record: Record
    model: BaseModel | None


def envelope_problems(dialect: Dialect, row: Record, *, known: bool) -> tuple[Problem, ...]:
    """The problems of an event's envelope (S-ENV-1 to S-ENV-5), surface metadata in its form only.

    Whether sources and endpoints exist is the surface's business. `known`: the type is known to the format.
    """
    found: list[Problem] = []
    for key in row:
        if key not in ENVELOPE_KEYS:
            found.append(Problem("S-LNT-20", (key,), "is not a key of an event"))
    for key, rule in (("type", "S-LNT-20"), ("seq", "S-LNT-17"), ("time", "S-LNT-18"), ("data", "S-LNT-21")):
        if key not in row:
            found.append(Problem(rule, (key,), "is missing"))
    if "type" in row and not isinstance(row["type"], str):
        found.append(Problem("S-LNT-20", ("type",), "must be a string"))
    if "seq" in row and not _integer(row["seq"], 0):
        found.append(Problem("S-LNT-17", ("seq",), "must be a non-negative safe integer"))
    if "time" in row and not _integer(row["time"], -SAFE_INTEGER):
        found.append(Problem("S-LNT-18", ("time",), "must be a safe integer"))
    elif "time" in row and row["time"] < 0:
        found.append(Problem("S-LNT-18", ("time",), "must not be negative"))
    if "ignorable" in row and (row["ignorable"] is not True or known):
        text = "never marks a known type" if known else "is either absent or true"
        found.append(Problem("S-LNT-22", ("ignorable",), text))
    return (*found, *_metadata_problems(dialect, row, known=known))


def _metadata_problems(dialect: Dialect, row: Record, *, known: bool) -> tuple[Problem, ...]:
    event_type = row.get("type")
    if not isinstance(event_type, str):
        return ()
    if event_type not in SURFACE_TYPES[dialect]:
        if dialect == "v4" and not known and row.get("ignorable") is True:
            return ()  # opaque there (S-ENV-4)
        return tuple(
            Problem("S-LNT-24", (key,), f'does not belong on "{event_type}", which is log-only')
            for key in ("surfaceOp", "sourceEventSeqs")
            if key in row
        )
    if "surfaceOp" not in row:
        return (Problem("S-LNT-25", ("surfaceOp",), "is missing"),)
    operation, (start, end) = row["surfaceOp"], REPLACE_FIELDS[dialect]
    replace = isinstance(operation, Mapping) and set(operation) == {"op", start, end}
    if operation == "append" or (
        replace and operation["op"] == "replace" and _integer(operation[start], 0) and _integer(operation[end], 0)
    ):
        return ()
    text = f'must be "append" or exactly {{"op": "replace", "{start}": seq, "{end}": seq}}'
    return (Problem("S-LNT-26", ("surfaceOp",), text),)


def _integer(value: Json, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= SAFE_INTEGER


# -- which rule a payload problem belongs to -----------------------------------------------------------------

_WRAPPED = ("assistant/message", "tool/result", "system/message", "developer/message")


def payload_rule(event_type: str, path: Path) -> str:
    """The checker rule of an ordinary fault at `path` (below `data`) of this event type (section 14)."""
    top = path[0] if path else None
    if event_type == "turn/end" and top == "reason":
        return "S-LNT-47"
    if event_type == "session/end-seed":
        return "S-LNT-90"
    if event_type == "request/header":
        return _header_rule(path)
    if event_type == "user/message":
        return _message_rule(event_type, path)
    if event_type in _WRAPPED and top == "message":
        return _message_rule(event_type, path[1:])
    if event_type == "agent/inbox/spliced" and top == "inserted" and len(path) > 2:
        return _message_rule(event_type, path[2:])
    return "S-LNT-21"


def _header_rule(path: Path) -> str:
    if path[:1] == ("reason",):
        return "S-LNT-81"
    part = path[1] if len(path) > 1 and path[0] == "header" else None
    if part == "config":
        return "S-LNT-79"
    if part == "adapterDefaults":
        return "S-LNT-80"
    if part in ("system", "tools") and len(path) == 2:
        return "S-LNT-78"
    return "S-LNT-21"


def _message_rule(event_type: str, path: Path) -> str:
    top = path[0] if path else None
    if top == "role":
        return "S-LNT-38"
    if event_type == "tool/result" and (path[:2] == ("source", "callId") or top == "toolCallId"):
        return "S-LNT-40"
    if top == "source":
        return "S-LNT-39"
    if top == "id" or path == ("content",):
        return "S-LNT-36"
    if top == "content":
        return "S-LNT-42"
    return "S-LNT-40" if event_type == "tool/result" else "S-LNT-21"


def payload_problems(model: type[BaseModel], event_type: str, data: Json) -> tuple[Problem, ...]:
    """The problems of one payload, each with its rule."""
    found = problems_of(model, data, (), "")
    return tuple(
        Problem(problem.rule or payload_rule(event_type, problem.path), ("data", *problem.path), problem.reason)
        for problem in found
    )
