"""What a script mounts: tools, file tools, permissions, compaction, retries, subagents."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, JsonValue, Tag

from loopconform.script.model.base import FileTool, Name, Strict, Verdict, Words, text_as
from loopconform.script.model.exchange import AnyAnswer, AnyMessage


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
