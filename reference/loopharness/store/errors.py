"""What can go wrong with a stored session, each with a class of its own (S-DSK-36)."""

from __future__ import annotations

from typing import Final, Literal

from loopharness.errors import HarnessError

__all__ = [
    "AppendFailedError",
    "ForkCode",
    "SessionAlreadyExistsError",
    "SessionAlreadyOwnedError",
    "SessionForkError",
    "SessionFormatUnsupportedError",
    "SessionHandleClosedError",
    "SessionPersistenceCorruptionError",
    "SessionPersistenceError",
    "SessionPersistenceNotFoundError",
    "SessionReadOnlyError",
]


class SessionPersistenceError(HarnessError):
    """Base of the errors of the store."""

    code_of_class: str = "SESSION_PERSISTENCE"

    def __init__(self, message: str, cause: BaseException | None = None) -> None:
        super().__init__(message, self.code_of_class, cause)


class SessionPersistenceNotFoundError(SessionPersistenceError):
    """No session of that id is stored under this root (C-RES-5)."""

    code_of_class = "SESSION_NOT_FOUND"


class SessionAlreadyExistsError(SessionPersistenceError):
    """A new session cannot have this id: one is stored already (C-RES-9)."""

    code_of_class = "SESSION_ALREADY_EXISTS"


class SessionAlreadyOwnedError(SessionPersistenceError):
    """Somebody else holds the session's lock: another process, or another handle of this one (S-DSK-35)."""

    code_of_class = "SESSION_ALREADY_OWNED"


class SessionReadOnlyError(SessionPersistenceError):
    """Something was to be written through a read-only view of a session."""

    code_of_class = "SESSION_READ_ONLY"


class SessionHandleClosedError(SessionPersistenceError):
    """Something was to be written through a handle that is closed."""

    code_of_class = "SESSION_HANDLE_CLOSED"


class SessionFormatUnsupportedError(SessionPersistenceError):
    """The log is of a format, or holds an event, that this version does not know: not damage (S-ENV-3, S-HDR-1)."""

    code_of_class = "SESSION_FORMAT_UNSUPPORTED"


class SessionPersistenceCorruptionError(SessionPersistenceError):
    """What is stored is not a session log, or not any more. The text names the file, the line and the fault.

    `line` is the physical line of the decompressed text, 1 being the header row, 0 when there is no such line.
    """

    code_of_class = "SESSION_CORRUPT"

    def __init__(self, message: str, line: int = 0, cause: BaseException | None = None) -> None:
        super().__init__(message, cause)
        self.line: Final = line


class AppendFailedError(SessionPersistenceError):
    """A batch could not be made durable. Its events are kept and tried again (S-DSK-31)."""

    code_of_class = "SESSION_APPEND_FAILED"


ForkCode = Literal["SESSION_NOT_FOUND", "SESSION_NOT_LIVE", "SESSION_ALREADY_EXISTS", "INVALID_BOUNDARY", "OPEN_TURN"]


class SessionForkError(HarnessError):
    """A fork was refused; `code` is one of `ForkCode` (C-FRK-2)."""

    def __init__(self, message: str, code: ForkCode) -> None:
        super().__init__(message, code)
