"""Model requests, stated twice: proposal, preparation, header, context, dispatch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loopconform.tla.machines.shared import constants_of, left_named, prose
from loopconform.tla.subjects import Field, Subject
from loopconform.tla.values import Value, from_python
from loopspec.profile import Law
from loopspec.worlds import request_world
from loopspec.worlds.request_scene import Scene
from loopspec.worlds.request_world import bound

TINY = bound("tiny", steps=1, listeners=1, adapters=1, failures=1)
MIXED = bound("mixed", steps=2, listeners=1, adapters=1, touches=1, failures=1, cancels=1)
BOUNDS = {one.name: one for one in (TINY, MIXED, *request_world.BOUNDS.values())}


def _system(law: Law, name: str) -> Any:
    return request_world.bare_world(law, BOUNDS[name])


def _seen(
    spec: str, variable: str, domain: str, meaning: str, log: str, read: Callable[[Scene], Any], *rules: str
) -> Field:
    return Field(spec, variable, domain, meaning, log, rules, lambda node: _value(read(node.config)))


def _value(value: Any) -> Value:
    if isinstance(value, tuple):
        return tuple(_value(part) for part in value)
    return from_python(value)


SUBJECT = Subject(
    name="request",
    module="Request",
    sentence="The requests of a loop: what is proposed, who serves it, which records are due, what leaves.",
    system=_system,
    bounds={name: constants_of(one) for name, one in BOUNDS.items()},
    quick="choice",
    deep="mixed",
    fields=(
        _seen("core.signal", "aborted", "boolean", "The turn is cancelled.", "", lambda s: s.loop.core.signal != ""),
        _seen("core.step", "step", "number", "Steps opened so far.", "", lambda s: s.loop.core.step),
        _seen(
            "core.headed",
            "headed",
            "boolean",
            "This loop has written a header.",
            "`request/header`",
            lambda s: s.loop.core.headed,
            "L-REQ-12",
        ),
        _seen(
            "log.head",
            "head",
            '`<<config, marks, system, tools>>`, or `"null"` before the first',
            "The folded header; a config is `<<provider, model, effort, cap>>`, marks the sorted sequence of the names "
            "`maxTokens` and `reasoningEffort` that an adapter has filled in; system and tools are words.",
            "`request/header`",
            lambda s: s.log.head,
            "L-REQ-9",
        ),
        _seen(
            "log.context",
            "context",
            '`<<provider, model, window>>`, or `"null"` before the first',
            "The last context; window `0` is not known.",
            "`request/context`",
            lambda s: s.log.context,
            "L-REQ-11",
        ),
        _seen(
            "log.messages",
            "messages",
            "number",
            "Changes of the surface so far.",
            "surface records",
            lambda s: s.log.messages,
        ),
        _seen(
            "log.generation",
            "generation",
            "number",
            "Those of them that replaced something.",
            "surface records",
            lambda s: s.log.generation,
        ),
        _seen(
            "log.prompt",
            "prompt",
            'word, `""` before the first',
            "Format 4: the system prompt on the surface.",
            "`system/message`",
            lambda s: s.log.prompt,
        ),
        _seen("system", "system", '"s1" or "s2"', "The prompt of the step.", "", lambda s: s.system),
        _seen("tools", "tools", '"t1" or "t2"', "The tools of the step.", "", lambda s: s.tools),
        _seen(
            "routes",
            "routes",
            "sequence of `<<provider, registration>>`, by provider",
            "Who serves what now.",
            "",
            lambda s: s.routes,
            "M-401",
        ),
        left_named(tuple(name for name, _ in request_world.QUICK.budgets)),
    ),
    switches=("streams_are_embedded", "admission_follows_preparation"),
    environment=prose("request"),
    extra={
        "alphabet": "tiny",
        "ci": "choice",
        "by command": "mixed tiny surface",
    },
)
