"""What a conversation script may hold, as pydantic models; `loopspec run --schema` prints their JSON Schema.

Docstrings and descriptions here are the manual: they end up in the schema, and editors show them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    StringConstraints,
    Tag,
    model_validator,
)

from loopspec.log.types import SCOPES

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


def _one_of(model: BaseModel, noun: str, beside: tuple[str, ...] = ()) -> str:
    """The one key that is set, those `beside` it left out. Raises `ValueError` for none or several."""
    given = sorted(model.model_fields_set - set(beside))
    names = [type(model).model_fields[name].alias or name for name in given]
    if len(names) != 1:
        known = ", ".join(field.alias or name for name, field in type(model).model_fields.items())
        what = f"has {len(names)} ({', '.join(names)})" if names else "has none"
        raise ValueError(f"{noun} has exactly one key, this one {what}; the keys are {known}")
    return names[0]


ONE_KEY = {"minProperties": 1, "maxProperties": 1}


# -- messages and the model ------------------------------------------------------------------------------------


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


class ToolError(Strict):
    """How a tool fails."""

    message: Words
    code: Words | None = Field(None, description="A stable code for programs; the log then records it.")


def _no_parameters() -> dict[str, JsonValue]:
    return {"type": "object", "properties": {}}


class Tool(Strict):
    """A tool with a fixed outcome."""

    name: Words
    description: str = ""
    parameters: dict[str, JsonValue] = Field(default_factory=_no_parameters)
    result: JsonValue = Field("done", description="A text, or any JSON value.")
    error: Annotated[ToolError, text_as("message")] | None = None
    concurrent: bool = Field(False, description="May run beside other calls of the same answer.")
    concludes: bool = Field(False, description="Its success is the last thing that the turn needs.")
    contexts: list[AnyMessage] = Field(default_factory=list, description="Messages for the next step.")
    gate: Name | None = Field(None, description="Hold the body until a step opens it, or the turn is cancelled.")


class Files(Strict):
    """Tools that work on real files below a directory: read, list, search, write, edit, command."""

    files: Words = Field(description="The directory, relative to the script. Nothing outside of it is touched.")
    more: list[Words] = Field(default_factory=list, description="Further directories that may be touched.")
    only: list[FileTool] | None = Field(None, description="Which of the tools; left out, all.")
    command_seconds: float = Field(120, gt=0, le=3600, description="How long a command may take.")


def _kind_of_tool(value: object) -> str:
    of_files = isinstance(value, Files) or (isinstance(value, dict) and "files" in value)
    return "file tools" if of_files else "one tool"


AnyTool = Annotated[
    Annotated[Tool, Tag("one tool")] | Annotated[Files, Tag("file tools")],
    Discriminator(_kind_of_tool),
]


# -- plugins ---------------------------------------------------------------------------------------------------


class PermissionRule(Strict):
    """What is done with calls of a tool. `tool` and the patterns in `where` are shell patterns."""

    tool: Words
    verdict: Verdict
    where: dict[str, str] = Field(default_factory=dict, description="Patterns that arguments must fit.")
    reason: str = ""


class Reply(Strict):
    """What the person says when asked."""

    say: Literal["once", "always", "no", "never"]
    gate: Name | None = Field(None, description="Say it when a step opens this gate.")


class Permissions(Strict):
    """Who may call which tool: the first rule that fits decides."""

    default: Verdict = "ask"
    rules: list[PermissionRule] = Field(default_factory=list)
    answers: list[Annotated[Reply, text_as("say")]] | None = Field(
        None, description="What the person says, question by question; left out, nobody is there."
    )


class Compaction(Strict):
    """Older history becomes a summary when it grows too large. The summary is one more answer of the model."""

    auto: bool = True
    threshold_ratio: float = Field(0.8, description="Of the context window: where it begins.")
    retain_ratio: float = Field(0.16, description="Of the context window: what stays at the end.")
    retain_tokens: int | None = Field(None, description="The same in tokens.")
    max_tokens: int = Field(8192, description="Cap of the summary.")
    compaction_retries: int = 1
    max_overflow_retries: int = 1
    prune: bool = Field(True, description="Shorten long tool results first.")


class Retry(Strict):
    """Failed requests are tried again, as this policy of the model's provider says. Backoffs take no time here."""

    mode: Literal["normal", "always"] = "normal"
    max_retries: int | None = Field(None, description="Mode normal only; 5 if left out.")
    retryable_codes: list[Words] | None = Field(None, description="Mode normal only: which failures.")
    initial_delay_ms: float = 500
    max_delay_ms: float = 10000
    jitter_ratio: float = 0.1
    chances: list[Annotated[float, Field(ge=0, le=1)]] = Field(
        default_factory=list, description="The numbers that the random source gives, failure by failure; then 0.5."
    )

    def policy(self) -> dict[str, JsonValue]:
        """The policy under the names of the log."""
        said = self.model_dump(exclude={"chances"}, exclude_none=True)
        names = {
            "max_retries": "maxRetries",
            "retryable_codes": "retryableCodes",
            "initial_delay_ms": "initialDelayMs",
            "max_delay_ms": "maxDelayMs",
            "jitter_ratio": "jitterRatio",
        }
        return {names.get(key, key): value for key, value in said.items()}


class Subagents(Strict):
    """A tool with which an agent hands a task to another agent, which it owns."""

    name: Words = "delegate"
    depth: int = Field(1, ge=1, description="How often a task may be handed on.")


class AnsweredSubagents(Subagents):
    """The same, with what the model says to those agents. Their sessions are not written."""

    answers: list[AnyAnswer] = Field(default_factory=list, description="What the model says to them, call by call.")


# -- what happens ----------------------------------------------------------------------------------------------


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
        _one_of(self, "a step", self.BESIDE)
        return self

    @property
    def verb(self) -> str:
        """The key of this step."""
        return _one_of(self, "a step", self.BESIDE)


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
