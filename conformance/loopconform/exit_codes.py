"""The exit codes of every command, and what each of them means: one table.

0 to 4 say what a command found, as its own words below say; from 10 on a code names the one cause for which a session
file could not be used, the same in every command that reads or writes one. `check`, and whatever judges like it,
answers 0 to 3 only: there a broken file is what was found, and no cause to stop.

`python -m loopconform.exit_codes` writes `docs/EXIT-CODES.md`.
"""

from __future__ import annotations

import errno
import sys
from enum import IntEnum
from pathlib import Path
from typing import Final

from loopharness.store.errors import (
    SessionAlreadyExistsError,
    SessionAlreadyOwnedError,
    SessionForkError,
    SessionFormatUnsupportedError,
    SessionPersistenceCorruptionError,
    SessionPersistenceError,
    SessionPersistenceNotFoundError,
    SessionReadOnlyError,
)

__all__ = ["COMMANDS", "Exit", "Unusable", "code_of", "epilog", "page", "words"]


class Exit(IntEnum):
    """Every code that a command can end with."""

    FINE = 0
    FOUND = 1
    USAGE = 2
    UNDECIDED = 3
    UNSTARTED = 4
    MISSING = 10
    EXISTS = 11
    LOCKED = 12
    UNSUPPORTED = 13
    TORN = 14
    CORRUPT = 15
    BOUNDARY = 16
    PERMISSION = 20
    FULL = 21
    DISK = 22
    CRASH = 70
    HANG_UP = 129
    INTERRUPTED = 130
    TERMINATED = 143


class Unusable(Exception):
    """A session file cannot be read or written: the text says why and what to do, `code` names the cause."""

    def __init__(self, text: str, code: Exit | None) -> None:
        super().__init__(text)
        self.code: Final = Exit.DISK if code is None else code


MEANING: Final[dict[Exit, str]] = {
    Exit.MISSING: "a session, or the directory for one, is not there",
    Exit.EXISTS: "a file or a session of that name is there already",
    Exit.LOCKED: "somebody else is writing this session",
    Exit.UNSUPPORTED: "the session is of another format, or holds what the wanted format cannot say",
    Exit.TORN: "the end of the file is torn, and what is left of it was not asked for",
    Exit.CORRUPT: "what is stored is no session log, or breaks a rule of its format",
    Exit.BOUNDARY: "a fork was asked for at a place where there can be none",
    Exit.PERMISSION: "no permission, or a read-only file system",
    Exit.FULL: "the disk is full, or a quota or size limit is reached",
    Exit.DISK: "any other failure of the disk",
    Exit.CRASH: "loopspec itself failed",
    Exit.HANG_UP: "the terminal hung up",
    Exit.INTERRUPTED: "Ctrl-C",
    Exit.TERMINATED: "terminated",
}
"""What a code says in every command that has it, unless the command has words of its own."""

FILES: Final = (
    Exit.MISSING,
    Exit.EXISTS,
    Exit.LOCKED,
    Exit.UNSUPPORTED,
    Exit.CORRUPT,
    Exit.PERMISSION,
    Exit.FULL,
    Exit.DISK,
)
"""The causes of every command that reads one session file and writes another. A torn end is none for `run` and `chat`,
which go on behind what is whole."""

_JUDGED: Final = {
    Exit.FINE: "clean (warnings allowed)",
    Exit.FOUND: "errors found, also torn or corrupt logs",
    Exit.USAGE: "unreadable, of an unsupported format, or wrong usage",
    Exit.UNDECIDED: "undecided",
    Exit.CRASH: "",
}
_CONFORM: Final = {
    Exit.FINE: "all passed or as declared",
    Exit.FOUND: "failures or stale declarations",
    Exit.USAGE: "adapter errors, nothing run, or wrong usage",
    Exit.UNDECIDED: "undecided",
    Exit.UNSTARTED: "not implemented",
    Exit.CRASH: "a fault of the suite",
    Exit.INTERRUPTED: "",
}


def _stored(*codes: Exit) -> dict[Exit, str]:
    return dict.fromkeys(sorted(codes), "")


COMMANDS: Final[dict[str, dict[Exit, str]]] = {
    "chat": {
        Exit.FINE: "ended by you",
        Exit.FOUND: "with --once, the turn failed",
        Exit.USAGE: "no key, or wrong usage",
        **_stored(*FILES),
        Exit.UNDECIDED: "the session file cannot be judged (a row is too large)",
        Exit.CRASH: "",
        Exit.HANG_UP: "",
        Exit.INTERRUPTED: "",
        Exit.TERMINATED: "",
    },
    "check": {**_JUDGED, Exit.USAGE: "unreadable, of an unsupported format, wrong usage, or nothing examined"},
    "conform": _CONFORM,
    "conform repeat": {**_CONFORM, Exit.FINE: "all steady", Exit.FOUND: "a failure, or several traces"},
    "conform replay": {
        **_CONFORM,
        Exit.FINE: "PASS",
        Exit.FOUND: "FAIL",
        Exit.USAGE: "adapter error, or wrong usage",
        Exit.UNDECIDED: "undecided, or a run that cannot be played",
    },
    "diff": {
        Exit.FINE: "the same behaviour",
        Exit.FOUND: "they differ",
        Exit.USAGE: "unreadable, broken or of different formats (run `loopspec check` on it), or wrong usage",
        Exit.CRASH: "",
    },
    "equal": {
        Exit.FINE: "equal, and as pinned",
        Exit.FOUND: "different, or other counts than pinned",
        Exit.USAGE: "could not be compared (no model, TLC missing, conventions broken), or wrong usage",
        Exit.UNDECIDED: "undecided, because a side was not explored completely",
        Exit.CRASH: "",
    },
    "explore": {
        Exit.FINE: "every promise holds and every race is reached",
        Exit.FOUND: "a promise is broken or a race is missing",
        Exit.USAGE: "wrong usage",
        Exit.UNDECIDED: "undecided, because the exploration was cut short",
        Exit.CRASH: "",
    },
    "fork": {
        Exit.FINE: "forked",
        Exit.FOUND: "what would be written breaks a rule of its format: nothing is written",
        Exit.USAGE: "wrong usage",
        Exit.UNDECIDED: "the session file cannot be judged (a row is too large)",
        **_stored(*FILES, Exit.TORN, Exit.BOUNDARY),
        Exit.CRASH: "",
    },
    "migrate": {
        Exit.FINE: "every session is of format 4 now, or was before",
        Exit.FOUND: "several sessions failed, for different causes, or what would be written breaks a rule",
        Exit.USAGE: "no session log among the paths, or wrong usage",
        Exit.UNDECIDED: "a session file cannot be judged (a row is too large)",
        **_stored(*FILES, Exit.TORN),
        Exit.CRASH: "",
        Exit.INTERRUPTED: "",
    },
    "mock-model": {
        Exit.FINE: "ended by Ctrl-C or SIGTERM",
        Exit.USAGE: "a script cannot be used, the port is taken, or wrong usage",
        Exit.CRASH: "",
    },
    "run": {
        Exit.FINE: "played",
        Exit.FOUND: "it did not go as the script says (answers ran out, a step was refused)",
        Exit.USAGE: "the script cannot be used, or wrong usage",
        Exit.UNDECIDED: "it never came to an end, or the session to take up cannot be judged (a row is too large)",
        Exit.UNSTARTED: "an agent of a composition could not be started, and no session file is the cause",
        **_stored(*FILES),
        Exit.CRASH: "",
    },
    "show": _JUDGED,
    "tape": _JUDGED,
    "trace-check": {
        Exit.FINE: "every log is a behaviour of the model",
        Exit.FOUND: "one is not",
        Exit.USAGE: "one could not be read, TLC is missing, or wrong usage",
        Exit.UNDECIDED: "undecided, because TLC was stopped",
        Exit.CRASH: "",
    },
    "what-if": {
        Exit.FINE: "every outcome within the bound is told",
        Exit.FOUND: "it does not happen within the bound",
        Exit.USAGE: "wrong usage",
        Exit.UNDECIDED: "the bound cut runs off, or the exploration was cut short: there may be more outcomes",
        Exit.CRASH: "",
    },
}
"""Command, code, and what that code says there; empty where it says what it says everywhere."""

_CLASSES: Final[tuple[tuple[type[BaseException], Exit], ...]] = (
    (SessionPersistenceNotFoundError, Exit.MISSING),
    (SessionAlreadyExistsError, Exit.EXISTS),
    (SessionAlreadyOwnedError, Exit.LOCKED),
    (SessionFormatUnsupportedError, Exit.UNSUPPORTED),
    (SessionPersistenceCorruptionError, Exit.CORRUPT),
    (SessionReadOnlyError, Exit.PERMISSION),
)
_FORK: Final = {"SESSION_NOT_FOUND": Exit.MISSING, "SESSION_ALREADY_EXISTS": Exit.EXISTS}
_ERRNO: Final = {
    errno.EISDIR: Exit.USAGE,
    errno.ENAMETOOLONG: Exit.USAGE,
    errno.ENOENT: Exit.MISSING,
    errno.ENOTDIR: Exit.MISSING,
    errno.EEXIST: Exit.EXISTS,
    errno.EACCES: Exit.PERMISSION,
    errno.EPERM: Exit.PERMISSION,
    errno.EROFS: Exit.PERMISSION,
    errno.ENOSPC: Exit.FULL,
    errno.EDQUOT: Exit.FULL,
    errno.EFBIG: Exit.FULL,
}


def code_of(error: BaseException) -> Exit | None:
    """The code of the cause for which a session could not be read or written; `None` for any other error.

    Takes errors of the store and of the operating system, and follows `cause` of a failed append to the bottom.
    """
    if isinstance(error, Unusable):
        return error.code
    for kind, code in _CLASSES:
        if isinstance(error, kind):
            return code
    if isinstance(error, SessionForkError):
        return _FORK.get(error.code, Exit.BOUNDARY)
    if isinstance(error, OSError):
        return _ERRNO.get(error.errno or 0, Exit.DISK)
    if isinstance(error, ValueError) and "null byte" in str(error):
        return Exit.USAGE  # a path that no file can have
    if isinstance(error, SessionPersistenceError):
        return Exit.DISK if error.__cause__ is None else code_of(error.__cause__)
    return None


def words(command: str, code: Exit) -> str:
    """What the code says in that command."""
    return COMMANDS[command][code] or MEANING[code]


def epilog(command: str, further: str = "") -> str:
    """The codes of a command in one line, for its `--help`; `further` follows them."""
    codes = "; ".join(f"{int(code)} {words(command, code)}" for code in sorted(COMMANDS[command]))
    return f"Exit codes: {codes}.{further and ' '}{further}"


PAGE: Final = Path(__file__).parents[2] / "docs" / "EXIT-CODES.md"

_HEAD: Final = """# Exit codes

Generated by `python -m loopconform.exit_codes` from [`exit_codes.py`](../conformance/loopconform/exit_codes.py); each
command shows its own with `--help`.

0 to 4 say what a command found. From 10 on a code names the one cause for which a session file could not be used, the
same in every command that has it. `check`, `show`, `tape` and `diff` answer 0 to 3 only: a broken file is what they
found, and no cause to stop. 141: whoever read the output of a command went away.

| Code | Cause | Commands |
|---|---|---|
"""


def page() -> str:
    """The document."""
    text = _HEAD
    for code, meaning in MEANING.items():
        users = ", ".join(f"`{name}`" for name, codes in COMMANDS.items() if code in codes)
        text += f"| {int(code)} | {meaning} | {users} |\n"
    for name, codes in COMMANDS.items():
        text += f"\n## `loopspec {name}`\n\n| Code | |\n|---|---|\n"
        text += "".join(f"| {int(code)} | {words(name, code)} |\n" for code in sorted(codes))
    return text


def main() -> int:
    """Write the document anew."""
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
