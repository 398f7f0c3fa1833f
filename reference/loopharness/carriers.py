"""The scope companion: an event of an agent goes out under the key of that agent, or not at all (C-SCP-6).

An optional plugin. It looks at every dispatch before anything is delivered: an event that names an agent, and that
another key or none would carry, is refused. Whoever dispatches through `loopharness.bus.AgentEvents` cannot get it
wrong (C-SCP-5); a plugin that dispatches by hand can.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from loopharness.bus import INSTRUMENTATION, Context
from loopharness.errors import HarnessError

__all__ = ["CarrierError", "install"]


class CarrierError(HarnessError):
    """An event about an agent was dispatched without the key of its scope, or with that of another."""

    def __init__(self, name: str, agent: str, keyed: bool) -> None:
        how = "with the key of another scope" if keyed else "without a scope key"
        super().__init__(f'event "{name}" of agent "{agent}" was dispatched {how}', "CARRIER")


def install(context: Context) -> Callable[[], None]:
    """Refuse misdirected events of agents, until the context ends or the answer is called.

    The dispatcher gets a `CarrierError`, and no listener hears the event.
    """
    return context.on(INSTRUMENTATION, _watch, everywhere=True)


def _watch(mode: str, name: str, arguments: tuple[Any, ...], key: object) -> None:
    payload = arguments[0] if arguments else None
    if not name.startswith("agent/") or not isinstance(payload, Mapping) or "agent" not in payload:
        return
    agent = payload["agent"]
    if key is not agent.key:
        raise CarrierError(name, agent.id, key is not None)
