"""The event vocabulary of each format as plain tables: known types, surface types, scopes.

No model is imported here, so that the live path can ask "is this a surface type?" without one.
Fact sheet: session-log 4.1, 4.2, S-EVT-10, S-EVT-11, S-SUR-1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

Dialect: TypeAlias = Literal["v0", "v4"]
"""A log format that we read, write and judge."""

Scope: TypeAlias = Literal["any", "turn", "step", "opens-turn", "closes-turn", "opens-step", "closes-step", "bracket"]
"""Where an event may stand: anywhere, in an open turn, naming the open step, inside a compaction bracket,
or as the boundary that opens or closes one of them."""

_CORE: Mapping[str, Scope] = {
    "turn/start": "opens-turn",
    "turn/end": "closes-turn",
    "step/start": "opens-step",
    "step/end": "closes-step",
    "user/message": "any",
    "assistant/message": "step",
    "tool/call": "step",
    "tool/result": "step",
    "request/header": "turn",
    "request/context": "turn",
    "agent/inbox/spliced": "any",
    "session/end-seed": "any",
    "llm/retry": "step",
    "llm/retry-started": "step",
    "compaction/start": "any",
    "compaction/summary": "bracket",
    "compaction/end": "bracket",
    "compaction/prune": "any",
}

_OTHERS: Mapping[str, Scope] = {
    "agent-preset/selected": "any",
    "approval/asked": "any",
    "approval/decided": "any",
    "approval/policy": "any",
    "command/run": "any",
    "command/done": "any",
    "feedback/record": "any",
    "goal/change": "any",
    "hook/invoked": "any",
    "hook/result": "any",
    "permission/preset": "any",
    "plan/mode": "any",
    "sandbox/mode": "any",
    "schedule/change": "any",
    "session/title": "any",
    "session/title-llm-request": "any",
    "subagent/descriptor": "any",
    "team/member": "any",
    "team/task": "any",
    "team/message/queued": "any",
    "team/message/delivered": "any",
    "todo/write": "turn",
    "tool-workflow/run-start": "any",
    "tool-workflow/run-end": "any",
    "tool-workflow/agent-start": "any",
    "tool-workflow/agent-end": "any",
    "web/deepseek-search-llm-request": "any",
}

_V0_ONLY: Mapping[str, Scope] = {
    "assistant/chunk": "step",
    "tool/code-dispatch-start": "turn",
    "tool/code-dispatch": "turn",
}

_V4_ONLY: Mapping[str, Scope] = {
    "system/message": "step",
    "developer/message": "step",
    "assistant/attempt": "step",
    "image/offload": "any",
    "tool/ptc-dispatch-start": "turn",
    "tool/ptc-dispatch": "turn",
    "deliverables/presented": "any",
    "feedback/message-put": "any",
    "feedback/message-delete": "any",
    "model/selection": "any",
    "session-log-deepseek/delivery-accepted": "any",
    "subagent/catalog": "any",
    "subagent/model-selection-policy": "any",
    "workspace/changes": "any",
}

SCOPES: Mapping[Dialect, Mapping[str, Scope]] = {
    "v0": {**_CORE, **_OTHERS, **_V0_ONLY},
    "v4": {**_CORE, **_OTHERS, **_V4_ONLY},
}
"""Every known type of a format and where it may stand. A `tool/result` that replaces needs only its turn."""

KNOWN_TYPES: Mapping[Dialect, frozenset[str]] = {dialect: frozenset(scopes) for dialect, scopes in SCOPES.items()}
"""The types a format knows; S-EVT-10 says that format 0 knows exactly 48."""

RETIRED_TYPES: Mapping[Dialect, frozenset[str]] = {
    "v0": frozenset({"request/header-delta", "mode/set"}),
    "v4": frozenset(_V0_ONLY),
}
"""Types that are refused by name (S-EVT-11)."""

SURFACE_TYPES: Mapping[Dialect, frozenset[str]] = {
    "v0": frozenset({"user/message", "assistant/message", "tool/result"}),
    "v4": frozenset({"user/message", "assistant/message", "tool/result", "system/message", "developer/message"}),
}
"""The types that join the surface and must say how (S-SUR-1)."""

REPLACE_FIELDS: Mapping[Dialect, tuple[str, str]] = {
    "v0": ("start", "end"),
    "v4": ("startSeq", "endSeq"),
}
"""The names of the two endpoints in a replace operation (S-SUR-2)."""

VERSIONS: Mapping[int, Dialect] = {0: "v0", 4: "v4"}
"""Format number of the header row to dialect. Formats 1 to 3 lie between and are not read."""


def scope_of(dialect: Dialect, event_type: str, *, replaces: bool = False) -> Scope | None:
    """Where an event of this type may stand, or `None` for an unknown type (S-SUR-6 for the exception)."""
    if replaces and event_type == "tool/result":
        return "turn"
    return SCOPES[dialect].get(event_type)
