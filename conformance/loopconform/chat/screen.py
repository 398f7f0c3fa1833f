"""What a conversation looks like: text and thinking as they come, tool calls, how a turn ended."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

import click

from loopconform.plain import printable

__all__ = ["Screen"]

_SHOWN: Final = 400
"""Characters of a tool's arguments or result that are shown."""


class Screen:
    """Writes to a file descriptor. One that has gone away is not written to any more; that is no reason to fail."""

    def __init__(self, file: int, *, colour: bool, prompt: bool) -> None:
        self._file: Final = file
        self._colour: Final = colour
        self._prompt: Final = prompt
        self._kind = ""
        self._at_start = True
        self.gone = False

    # -- pieces of a stream

    def chunk(self, chunk: Mapping[str, Any]) -> None:
        """One chunk of the model's answer."""
        if chunk["type"] == "text-delta":
            self._piece("text", chunk["text"])
        elif chunk["type"] == "reasoning-delta":
            self._piece("thinking", chunk["text"])

    def _piece(self, kind: str, text: str) -> None:
        if kind != self._kind:
            self.line_end()
            self._kind = kind
            if kind == "thinking":
                self._write(self._styled("thinking: ", dim=True))
        self._write(self._styled(_safe(text), dim=kind == "thinking"))
        self._at_start = text.endswith("\n")

    def line_end(self) -> None:
        """Go to the beginning of a line."""
        if not self._at_start:
            self._write("\n")
        self._at_start, self._kind = True, ""

    # -- records

    def record(self, event: Mapping[str, Any]) -> None:
        """One durable record, where it has something to show."""
        data = event["data"]
        match event["type"]:
            case "assistant/chunk":
                self.chunk(data["chunk"])
            case "assistant/message":
                self._usage(data.get("usage"))
            case "tool/call":
                self.line(f"-> {data['name']} {_cut(data['arguments'])}", fg="cyan")
            case "tool/result":
                message = data["message"]
                wrong = message.get("isError") or any(block.get("isError") for block in message["content"])
                self.line(f"<- {_cut(_result_text(message['content']))}", fg="red" if wrong else "green")
            case "llm/retry":
                self._retry(data)
            case "turn/end":
                self._turn_end(data["reason"])

    def _usage(self, usage: Mapping[str, Any] | None) -> None:
        if usage is None:
            return
        cached = usage.get("cacheReadTokens")
        known = f" (+{cached:,} cached)" if cached else ""
        self.line(f"[{usage['inputTokens']:,}{known} tokens in, {usage['outputTokens']:,} out]", dim=True)

    def _retry(self, data: Mapping[str, Any]) -> None:
        """A request has failed, and will be tried again: what was wrong, how long that waits, which retry it is."""
        failure, most = data["failure"], data.get("maxRetries")
        number = f"retry {data['retry']}" + ("" if most is None else f" of {most}")
        wrong = f"{failure['code']}: {failure['message']}"
        self.line(f"[{wrong}; {number} in {data['delayMs'] / 1000:.1f} seconds]", fg="yellow")

    def _turn_end(self, reason: Mapping[str, Any]) -> None:
        self.line_end()
        if reason["kind"] == "error":
            error = reason["error"]
            self.line(f"error {error['code']}: {error['message']}", fg="red")
        elif reason["kind"] != "completed":
            self.line(f"[turn ended: {reason['kind']}]", dim=True)

    # -- the program itself

    def line(self, text: str, **style: Any) -> None:
        """A line of its own."""
        self.line_end()
        self._write(self._styled(_safe(text), **style) + "\n")

    def question(self, tool: str, arguments: str, reason: str) -> None:
        """Ask whether a tool may be called; all of its arguments are shown, for they are what is decided about."""
        self.line(f"May {tool} be called? {arguments}" + (f" ({reason})" if reason else ""), fg="yellow")
        self._write(self._styled("[y]es once, [a]lways, [n]o, ne[v]er: ", fg="yellow"))
        self._at_start = True  # the line that is typed behind it ends itself

    def ask(self) -> None:
        """Invite the next line, at a terminal."""
        self.line_end()
        if self._prompt:
            self._write("> ")
            self._at_start = True  # the line that is typed behind it ends itself

    def _styled(self, text: str, **style: Any) -> str:
        return click.style(text, **style) if self._colour and style and text else text

    def _write(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        if text:
            self._at_start = text.endswith("\n")
        while data and not self.gone:
            try:
                data = data[os.write(self._file, data) :]
            except OSError:
                self.gone = True


def _safe(text: str) -> str:
    """Text of a model or a tool: nothing in it steers the terminal."""
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.replace("\r\n", "\n").split("\n"))


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} … (+{len(text) - _SHOWN:,} characters)"


def _result_text(content: Any) -> str:
    return "".join(_result_text(block["content"]) if "content" in block else block.get("text", "") for block in content)
