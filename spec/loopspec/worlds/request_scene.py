"""What the world of requests is made of: small payloads, the loop's part of an attempt, and the log, as one scene.

A config is `(provider, model, effort, cap)` with `""` and `0` for what is absent, the messages of a request are the
number of changes that the surface has had, prompts and tools are words.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from loopspec import attempt, calls
from loopspec import request as requests
from loopspec.calls import Call
from loopspec.kernel.machine import Config, Machine, Outcome, Rules, leave, state
from loopspec.profile import Law
from loopspec.values import Json, Record

Settings = tuple[str, str, str, int]
"""A config: provider, model, effort, cap."""

MODEL = "m"
OPTIONS: Record = {"provider": "a", "model": MODEL}
"""What the agent was made with."""

FACTS: dict[int, Record] = {
    1: {"defaultMaxTokens": 10, "reasoning": {"efforts": ["low", "high"], "defaultEffort": "low"}, "window": 100},
    2: {"defaultMaxTokens": 20, "reasoning": {"efforts": ["low"]}},
    3: {"defaultMaxTokens": 10, "reasoning": {"efforts": ["high", "low"], "defaultEffort": "high"}, "window": 100},
}
"""What each registration says of its model. The first two are there from the beginning, for `a` and for `b`."""

LAST = max(FACTS)


class Head(NamedTuple):
    """A header: its config, the fields that the adapter has filled in, the system prompt and the tools."""

    config: Settings
    marks: tuple[str, ...]
    system: str
    tools: str


def as_config(settings: Settings) -> dict[str, Json]:
    """The config that these settings stand for."""
    provider, model, effort, cap = settings
    found: dict[str, Json] = {"provider": provider, "model": model, "reasoningEffort": effort, "maxTokens": cap}
    return {name: value for name, value in found.items() if value}


def as_settings(config: Record) -> Settings:
    """The settings of a config."""
    return (
        config.get("provider", ""),
        config.get("model", ""),
        config.get("reasoningEffort", ""),
        config.get("maxTokens", 0),
    )


def as_tools(word: str) -> tuple[Record, ...]:
    """The tool list that a word stands for."""
    return ({"name": word},)


def as_header(head: Head) -> Record:
    """The header that a `Head` stands for."""
    return requests.propose_header(
        as_config(head.config),
        adapter_defaults=dict.fromkeys(head.marks, True),
        system=head.system,
        tools=as_tools(head.tools),
    )


def as_head(header: Record) -> Head:
    """The `Head` of a header."""
    marks = tuple(sorted(header.get("adapterDefaults", {})))
    return Head(as_settings(header["config"]), marks, header.get("system", ""), header["tools"][0]["name"])


@state
class Step(NamedTuple):
    """What the attempt rules need to know of a driver."""

    law: Law
    signal: str = attempt.LIVE
    turn: int = 1
    step: int = 0
    headed: bool = False

    def put(self, **changes: Any) -> Step:
        """A copy with some fields changed."""
        return self._replace(**changes)


rules = Rules()
rules.update(attempt.rules)


@rules("close_step")
def close_step(s: Step, result: str) -> Outcome[Step]:
    """The step ends here; what the driver makes of it is its own affair."""
    return leave(s, ("step", result))


STEPS: Machine[Step] = Machine(rules)


class Log(NamedTuple):
    """What the records so far amount to."""

    head: Head | None = None
    context: tuple[str, str, int] | None = None
    """Provider, model and window of the last context record; window 0 is not known."""
    messages: int = 0
    """Changes of the surface."""
    generation: int = 0
    """Those of them that replaced something."""
    prompt: str = ""
    """Format 4: the system prompt on the surface; empty before the first."""


class Own(NamedTuple):
    """What the loop knows of the attempt at hand."""

    derived: int = 0
    """The messages, as they were derived (format 0)."""
    proposal: Settings = ("", "", "", 0)
    plan: tuple[Head, bool, tuple[str, str, int] | None] | None = None
    """The header, whether it starts a series, and the context that is due, until it is recorded."""
    last_generation: int = -1
    """The surface's generation at the last request; -1 before the first."""
    failure: str = ""
    """The code of the failure that is offered to recovery."""
    repairs: int = 0
    """Repairs since the last answer."""


class Scene(NamedTuple):
    """The loop, its call, the routes, the log."""

    loop: Config[Step]
    call: Config[Call] = calls.NEW
    routes: tuple[tuple[str, int], ...] = (("a", 1), ("b", 2))
    made: int = 2
    """How many registrations there have been."""
    log: Log = Log()
    own: Own = Own()
    system: str = "s1"
    tools: str = "t1"
