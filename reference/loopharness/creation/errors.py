"""The refusals of creation, with the texts that are part of the contract (creation 22.2)."""

from __future__ import annotations

from typing import Final

from loopharness.errors import HarnessError
from loopharness.store.errors import SessionAlreadyExistsError, SessionAlreadyOwnedError
from loopspec.creation import TEXTS

__all__ = ["CreationError", "SessionExistsError", "SessionLiveError", "refusal"]


class CreationError(HarnessError, RuntimeError):
    """A create, a resume, a registration or a wake was refused. `code` names the reason."""


class RegistrationError(CreationError, ValueError):
    """An object was offered to a registry that does not take it."""


class SessionExistsError(SessionAlreadyExistsError, ValueError):
    """The id of a new session belongs to a live one (C-REGS-2)."""


class SessionLiveError(SessionAlreadyOwnedError):
    """The session that is to be resumed is live in this process (C-RES-6)."""


CODES: Final = {"inactive-owner": "INACTIVE_EFFECT"}
STORES: Final = {"agent": "registry", "session": "store"}


def refusal(why: str, id: str, kind: str = "session") -> Exception:
    """The error for a reason of the machine, about an id of the registry of `kind`."""
    text = TEXTS[why].replace("<id>", id).replace("<kind>", kind).replace("<registry>", STORES[kind])
    if why == "session-exists":
        return SessionExistsError(text)
    if why == "live":
        live = SessionLiveError(text)
        live.add_note("An agent of this process holds it: talk to that one, dispose it first, or use inspect.")
        return live
    code = CODES.get(why, why.upper().replace("-", "_"))
    wrong_object = why in ("agent-exists", "not-live", "already-announced")
    return (RegistrationError if wrong_object else CreationError)(text, code)
