"""The system prompt and the runtime context: sections, contexts, variables, tools (llm-and-tools 11).

Everything is layered like tools are: one global layer, one for each scope, nearer wins by name. Assembling
collects; rendering puts values into `{{name}}`. Contexts are rendered when the assembly is made, sections when
`system` is first read, which a loop does inside the step (P-120, L-PRE-7).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, Final, NamedTuple

from loopharness.bus import EVERYONE, Bus, Context
from loopharness.frozen import FrozenDict, FrozenList, freeze
from loopharness.signal import Signal
from loopharness.tools.registry import ToolRegistry, canonical_order

__all__ = ["UNLISTED", "Assembled", "Part", "SystemPrompt", "interpolate", "register_variables"]

UNLISTED: Final = "<unlisted-tools>"
"""Where tools that the configured order does not name go (P-111)."""

IDENTITY: Final = "You are an AI agent powered by DeepSeek Harness."

Text = str | Callable[..., Any]
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_GROUP = re.compile(r"\{\{([^{}]*)\}\}")


class Part(NamedTuple):
    """A section or a context of an assembly. `text` still holds its `{{references}}`."""

    name: str
    order: float
    text: str
    complete: bool = False


class _Entry(NamedTuple):
    order: float
    text: Text
    complete: bool = False


class Assembly(NamedTuple):
    """What `system-prompt/assemble` listeners get and answer; change it with `_replace` (11.1, step 6)."""

    sections: tuple[Part, ...]
    contexts: tuple[Part, ...]
    tools: Sequence[FrozenDict]
    variables: Mapping[str, Any]


class Assembled:
    """The prompt of one proposed step: tools, rendered contexts `[{name, text}]`, and the system text."""

    __slots__ = ("_sections", "_system", "_variables", "contexts", "tools")

    def __init__(self, assembly: Assembly) -> None:
        tools = assembly.tools
        self.tools: Final = tools if isinstance(tools, FrozenList) else FrozenList(tools)
        self._sections = _effective(assembly.sections)
        self._variables = assembly.variables
        self._system: str | None = None
        rendered = ((part.name, interpolate(part.text, assembly.variables, part.name)) for part in assembly.contexts)
        self.contexts: Final = FrozenList(FrozenDict({"name": n, "text": text}) for n, text in rendered if text)

    @property
    def system(self) -> str:
        """The rendered sections, joined by blank lines; empty ones are dropped (P-120).

        Raises `ValueError` for a reference that has no value.
        """
        if self._system is None:
            rendered = [interpolate(part.text, self._variables, part.name) for part in self._sections]
            self._system = "\n\n".join(text for text in rendered if text)
        return self._system


def _effective(sections: Sequence[Part]) -> Sequence[Part]:
    """All sections, or the one that says it is complete (P-110)."""
    complete = [part for part in sections if part.complete]
    if len(complete) > 1:
        names = ", ".join(part.name for part in complete)
        raise ValueError(f"only one section of a system prompt may be complete, not {names}")
    return complete or sections


def interpolate(text: str, variables: Mapping[str, Any], where: str) -> str:
    """Put values into `{{name}}`, strictly and once: values are not looked through again (P-120).

    A `{{` that no later `}}` can close is literal. Raises `ValueError` naming `where` for an unknown or
    valueless variable, a malformed reference, and a `{{` without a complete group before a later `}}`.
    """
    if "{{" not in text:
        return text
    out: list[str] = []
    at = 0
    while True:
        start = text.find("{{", at)
        if start < 0 or text.find("}}", start + 2) < 0:
            return "".join([*out, text[at:]])
        group = _GROUP.match(text, start)
        if group is None:
            raise ValueError(f'"{where}": malformed reference at {text[start : start + 40]!r}')
        name = group[1]
        if not _NAME.match(name):
            raise ValueError(f'"{where}": malformed reference {group[0]!r}')
        value = variables.get(name)
        if value is None:
            known = "has no value" if name in variables else "is unknown"
            raise ValueError(f'"{where}": variable "{name}" {known}')
        out += [text[at:start], str(value)]
        at = group.end()


class _Layer:
    __slots__ = ("contexts", "sections", "suppressors", "tools", "variables")

    def __init__(self) -> None:
        self.sections: dict[str, _Entry] = {}
        self.contexts: dict[str, _Entry] = {}
        self.variables: dict[str, Callable[..., Any]] = {}
        self.tools: dict[object, Callable[..., Any]] = {}
        self.suppressors: dict[object, None] = {}

    @property
    def empty(self) -> bool:
        return not (self.sections or self.contexts or self.variables or self.tools or self.suppressors)


class SystemPrompt:
    """The registries that a prompt is assembled from.

    `tools` is the registry whose visible tools every prompt lists. `identity` and `persona` fill the built-in
    sections (P-102); an empty text leaves the section out of the prompt. `tool_order` names tools in the order
    in which the model shall see them, with `UNLISTED` exactly once for the others (P-111).
    """

    def __init__(
        self,
        bus: Bus,
        tools: ToolRegistry | None = None,
        *,
        identity: str = IDENTITY,
        persona: str = "",
        tool_order: Sequence[str] | None = None,
    ) -> None:
        self._bus = bus
        self._tools = tools
        self._order = None if tool_order is None else _checked_order(tool_order)
        base = _Layer()
        base.sections["harness:identity"] = _Entry(-100, identity)
        base.sections["deployment:persona"] = _Entry(0, persona)
        self._layers: dict[object | None, _Layer] = {None: base}

    # Registration (P-101). `text` may be a function of the assembly context; it is asked at each assembly.

    def section(
        self, context: Context, name: str, order: float, text: Text, *, complete: bool = False
    ) -> Callable[[], None]:
        """Add a section. A complete one becomes the whole prompt. Raises `ValueError` for a taken name."""
        return self._keep(context, "sections", name, _Entry(_finite(name, order), text, complete))

    def runtime_context(self, context: Context, name: str, order: float, text: Text) -> Callable[[], None]:
        """Add a part of the runtime-context snapshot."""
        return self._keep(context, "contexts", name, _Entry(_finite(name, order), text))

    def variable(self, context: Context, name: str, value: Callable[..., Any]) -> Callable[[], None]:
        """Add a variable; `value` is a function of the assembly context and may answer `None`."""
        if not _NAME.match(name):
            raise ValueError(f"variable {name!r} must match [a-z][a-z0-9_]*")
        return self._keep(context, "variables", name, value)

    def tool_provider(self, context: Context, provider: Callable[..., Any]) -> Callable[[], None]:
        """Add tool schemas: a function that answers `{schemas, knownNames?}`."""
        return self._keep(context, "tools", object(), provider)

    def suppress_runtime_context(self, context: Context) -> Callable[[], None]:
        """Leave the runtime context out; its functions are not even asked."""
        return self._keep(context, "suppressors", object(), None)

    def _keep(self, context: Context, shelf: str, key: Any, entry: Any) -> Callable[[], None]:
        layer = self._layers.get(context.key) or _Layer()
        if key in getattr(layer, shelf):
            raise ValueError(f'"{key}" is already registered among the {shelf} of this scope')
        announcing = True

        def remove() -> None:
            del getattr(layer, shelf)[key]
            if layer.empty:
                self._layers.pop(context.key, None)
            if announcing:
                self._bus.emit("system-prompt/change", key=EVERYONE)

        effect = context.effect(remove, f"{shelf} of the system prompt")
        getattr(layer, shelf)[key] = entry
        self._layers[context.key] = layer
        try:
            self._bus.announce("system-prompt/change", key=EVERYONE)
        except Exception:
            announcing = False
            effect()
            raise
        return effect

    # Assembly

    async def assemble(
        self, agent: object | None = None, signal: Signal | None = None, *, key: object | None = None
    ) -> Assembled:
        """The prompt of the step that is being proposed (11.1): collect, order, ask the waterfall, render contexts.

        Functions and `system-prompt/assemble (assembly, context, next)` listeners get the context
        `{agent, scope, signal}`; `key` is the scope of the agent. Raises `ValueError` for a tool order that
        names unknown tools, for several complete sections, and for a context that cannot be rendered.
        """
        about = {"agent": agent, "scope": key, "signal": signal}
        layers = [self._layers[k] for k in (None, *self._bus.chain(key)) if k in self._layers]
        variables = {name: await _ask(fn, about) for name, fn in _merged(layers, "variables").items()}
        sections = await _parts(_merged(layers, "sections"), about)
        suppressed = any(layer.suppressors for layer in layers)
        contexts = () if suppressed else await _parts(_merged(layers, "contexts"), about)
        tools = await self._listed(layers, about, key)
        assembly = Assembly(sections, contexts, tools, variables)
        if self._bus.has("system-prompt/assemble"):
            assembly = await self._bus.waterfall(
                "system-prompt/assemble", assembly, about, base=lambda: assembly, key=key
            )
            if suppressed:
                assembly = assembly._replace(contexts=())
        return Assembled(assembly)

    async def _listed(
        self, layers: Sequence[_Layer], about: Mapping[str, Any], key: object | None
    ) -> Sequence[FrozenDict]:
        """All tool schemas in the order in which the model sees them (P-111)."""
        visible: Sequence[FrozenDict] = () if self._tools is None else self._tools.schemas(key)
        providers = [provider for layer in layers for provider in layer.tools.values()]
        if not providers and self._order is None:
            return visible
        by_name = {schema["name"]: schema for schema in visible}
        known = set() if self._tools is None else self._tools.known_names(key)
        for provider in providers:
            answer = await _ask(provider, about)
            mine = {schema["name"]: freeze(dict(schema)) for schema in answer["schemas"]}
            by_name.update(mine)
            known.update(mine, answer.get("knownNames", ()))
        if UNLISTED in by_name:
            raise ValueError(f"{UNLISTED} cannot be the name of a tool")
        lexicographic = sorted(by_name, key=canonical_order)
        names = lexicographic if self._order is None else _in_order(self._order, lexicographic, known)
        return FrozenList(by_name[name] for name in names if name in by_name)


def register_variables(context: Context, prompt: SystemPrompt) -> None:
    """P-103  The loop's own variables: `provider` and `model` of the agent's options, `cwd` of its session's header.

    Each may lack a value until somebody refers to it.
    """
    prompt.variable(context, "provider", lambda about: _option(about, "provider"))
    prompt.variable(context, "model", lambda about: _option(about, "model"))
    prompt.variable(context, "cwd", lambda about: _cwd(about["agent"]))


def _option(about: Mapping[str, Any], name: str) -> str | None:
    return getattr(getattr(about["agent"], "options", None), name, None) or None


def _cwd(agent: Any) -> str | None:
    session = getattr(agent, "session", None)
    return None if session is None else session.header.get("cwd")


def _in_order(order: Sequence[str], lexicographic: Sequence[str], known: set[str]) -> list[str]:
    unknown = [name for name in order if name != UNLISTED and name not in known]
    if unknown:
        raise ValueError(f"the configured tool order names unknown tools: {', '.join(unknown)}")
    rest = [name for name in lexicographic if name not in order]
    return [name for listed in order for name in (rest if listed == UNLISTED else [listed])]


def _checked_order(order: Sequence[str]) -> tuple[str, ...]:
    if list(order).count(UNLISTED) != 1:
        raise ValueError(f"a tool order needs {UNLISTED} exactly once")
    if len(set(order)) != len(order):
        raise ValueError("a tool order must not name a tool twice")
    return tuple(order)


def _finite(name: str, order: float) -> float:
    if not isfinite(order):
        raise ValueError(f'order of "{name}" must be a finite number')
    return order


def _merged(layers: Iterable[_Layer], shelf: str) -> dict[str, Any]:
    """Entries by name, nearer ones in the place of those they hide."""
    merged: dict[str, Any] = {}
    for layer in layers:
        merged.update(getattr(layer, shelf))
    return merged


async def _parts(entries: Mapping[str, _Entry], about: Mapping[str, Any]) -> tuple[Part, ...]:
    """Texts resolved, sorted by order; ties keep the order of registration."""
    parts = []
    for name, (order, text, complete) in sorted(entries.items(), key=lambda item: item[1].order):
        resolved = text if isinstance(text, str) else await _ask(text, about)
        parts.append(Part(name, order, resolved or "", complete))
    return tuple(parts)


async def _ask(function: Callable[..., Any], about: Mapping[str, Any]) -> Any:
    answer = function(about)
    return await answer if inspect.isawaitable(answer) else answer
