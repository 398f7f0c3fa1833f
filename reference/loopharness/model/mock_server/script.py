"""What a mock model answers, request by request: the shapes of a script file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

__all__ = ["Answer", "Call", "Drip", "Expect", "Repeat", "Script", "of_files"]

RAW = (".sse", ".http")
"""Files that are sent as they are: the body of an event stream, or a whole response with its head."""


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Call(_Shape):
    """A tool call. Arguments that are text are sent as they are, anything else as JSON text."""

    name: str
    arguments: Any = Field(default_factory=dict)
    id: str | None = None


class Drip(_Shape):
    """The body in small writes: so many bytes, then so many milliseconds of nothing."""

    bytes: int = Field(1, ge=1)
    ms: float = Field(0, ge=0)


class Repeat(_Shape):
    """Text that is sent again and again behind the body; `times` null is until the client leaves."""

    text: str = ": keep-alive\n\n"
    every_ms: float = Field(20, ge=0)
    times: int | None = Field(None, ge=0)


class Expect(_Shape):
    """What the request must hold. If it does not, the answer is a 400 that says where the difference is.

    `messages` must be equal in full; `body` in part: objects may hold more. `same_as` is the number of an earlier
    request, from 1, whose body must have been the same, byte for byte.
    """

    messages: list[Any] | None = None
    messages_file: str | None = None
    body: dict[str, Any] | None = None
    same_as: int | None = Field(None, ge=1)


def _pieces(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Pieces = Annotated[list[str], BeforeValidator(_pieces)]


class Answer(_Shape):
    """The answer to one request. Say *what* in one of five ways, and what goes wrong below.

    What: `text`, `reasoning` and `calls` make a sound stream; `file` is a raw file; `body` is a raw body in one or more
    writes, `body_hex` the same for bytes that are no text; `error` is an error object with the given `status`.

    How: `status`, `headers`, `content_type` (empty for none); `framing` is `chunked`, `length` or `close`;
    `content_length` is declared whatever the body is; `gzip` compresses.

    Faults: `gate` waits before the first byte, until it is opened; `no_answer` closes without a byte; `drip` writes
    slowly; `cut_after`, `reset_after` and `stall_after` count bytes of the body and then close, reset or fall silent;
    `hold_after` waits there for `hold_gate`; `repeat` goes on for ever; `end` says what becomes of the connection.
    """

    text: Pieces | None = None
    reasoning: Pieces | None = None
    calls: list[Call] = Field(default_factory=list)
    finish: str | None = None
    usage: dict[str, Any] | Literal["auto", "none"] = "auto"
    file: str | None = None
    body: Pieces | None = None
    body_hex: Pieces | None = None
    error: dict[str, Any] | None = None
    status: int = Field(200, ge=100, le=999)
    headers: dict[str, str] = Field(default_factory=dict)
    content_type: str | None = None
    framing: Literal["chunked", "length", "close"] | None = None
    content_length: int | None = None
    gzip: bool = False
    gate: str | None = None
    no_answer: bool = False
    drip: Drip | None = None
    cut_after: int | None = Field(None, ge=0)
    reset_after: int | None = Field(None, ge=0)
    stall_after: int | None = Field(None, ge=0)
    hold_after: int | None = Field(None, ge=0)
    hold_gate: str = "hold"
    repeat: Repeat | None = None
    end: Literal["keep", "close", "half-close", "open", "reset"] | None = None
    expect: Expect | None = None

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        friendly = self.text is not None or self.reasoning is not None or bool(self.calls)
        ways = [
            friendly,
            self.file is not None,
            self.body is not None,
            self.body_hex is not None,
            self.error is not None,
        ]
        if sum(ways) > 1:
            raise ValueError("say it in one way: text/reasoning/calls, file, body, body_hex or error")
        return self


def _answer(value: Any) -> Any:
    """A line of text is an answer of text, or the name of a raw file."""
    if isinstance(value, str):
        return {"file": value} if value.endswith(RAW) else {"text": value}
    return value


class Script(_Shape):
    """Answers in the order of the requests.

    `after`: what comes when they are used up: `refuse` is a 500 that says so, `repeat` the last one again, `loop` all
    of them from the start. `key`: the only API key that is let in. `model` is the name that streams carry.
    """

    answers: list[Annotated[Answer, BeforeValidator(_answer)]] = Field(min_length=1)
    after: Literal["refuse", "repeat", "loop"] = "refuse"
    key: str | None = None
    model: str = "mock-model"


def of_files(files: list[Path]) -> Script:
    """The script that sends raw files, one after the other, the last one again and again."""
    return Script(answers=[Answer(file=str(file)) for file in files], after="repeat")
