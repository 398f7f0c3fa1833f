"""Coded errors and their text (M-302, M-305, L-ERR-8)."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["HarnessError", "error_chain", "error_message"]


class HarnessError(Exception):
    """Base of all coded errors. `code` is stable and may be branched on; `name` is the class name (M-302)."""

    def __init__(self, message: str, code: str, cause: BaseException | None = None) -> None:
        super().__init__(message)
        self.message: Final = message
        self.code: Final = code
        if cause is not None:
            self.__cause__ = cause

    @property
    def name(self) -> str:
        """The class name, as it is written into the log."""
        return type(self).__name__


def error_message(value: object) -> str:
    """The message of a thrown value alone: for tool results.

    A hostile value gives `<unprintable thrown value>` (llm-and-tools 9.3).
    """
    try:
        if isinstance(value, BaseException):
            return str(value) or type(value).__name__
        message = _own_message(value)
        return str(value) if message is None else message
    except Exception:
        return "<unprintable thrown value>"


def error_chain(value: object) -> str:
    """One line for a thrown value and everything that caused it (M-305, L-ERR-8). For display, never parsed.

    Message first (the class name if it is empty), members of an exception group in `[a; b]`, then `: ` and the
    text of the cause unless that is empty or says the same. A cycle gives `<circular cause>`, a value that
    cannot be rendered `<unrenderable value>`.
    """
    return _chain(value, ())


def _chain(value: object, above: tuple[int, ...]) -> str:
    if id(value) in above:
        return "<circular cause>"
    inside = (*above, id(value))
    try:
        if not isinstance(value, BaseException):
            message = _own_message(value)
            return str(value) if message is None else message
        members: tuple[BaseException, ...] = ()
        if isinstance(value, BaseExceptionGroup):
            text, members = value.message or type(value).__name__, value.exceptions
        else:
            text = str(value) or type(value).__name__
    except Exception:
        return "<unrenderable value>"
    if members:
        text = f"{text} [{'; '.join(_chain(member, inside) for member in members)}]"
    cause = value.__cause__
    if cause is None:
        return text
    tail = _chain(cause, inside)
    return text if tail in ("", text) else f"{text}: {tail}"


def _own_message(value: Any) -> str | None:
    """The `message` entry of a thrown mapping, which is how data thrown by a plugin names itself."""
    if isinstance(value, dict):
        message = value.get("message")
        return message if isinstance(message, str) else None
    message = vars(value).get("message") if hasattr(value, "__dict__") else None
    return message if isinstance(message, str) else None
