"""Which tools there are, who may see them, and who may forbid their use (llm-and-tools 8).

Layers: one global, one for each scope. A tool registered nearer to the caller hides one of the same name
farther away (T-110).
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, overload

from loopharness.bus import EVERYONE, Bus, Context
from loopharness.errors import HarnessError
from loopharness.frozen import EMPTY_DICT, FrozenDict, FrozenList, NotJsonError, dumps, freeze
from loopharness.tools.results import ToolArgsError, ToolOutputError, text_content
from loopharness.tools.schema import check_schema, violations
from loopharness.tools.typed import tool_from

if TYPE_CHECKING:
    from loopharness.tools.execution import Execution

__all__ = ["Mode", "Tool", "ToolRegistry", "canonical_order", "define_tool"]

Mode: TypeAlias = Literal["parallel", "exclusive"]
Body = Callable[[Any, "Execution"], Any]
Guard = Callable[["Execution"], str | None]
RESERVED: Final = ("run_code", "<unlisted-tools>")


class Tool:
    """One tool (T-101). Only `name`, `description` and `parameters` ever reach the model."""

    __slots__ = (
        "body",
        "description",
        "finalize_content",
        "is_concurrency_safe",
        "name",
        "output",
        "parameters",
        "presentation_meta",
        "render",
        "timeout_ms",
    )

    def __init__(
        self,
        name: str,
        description: str,
        parameters: Mapping[str, Any],
        body: Body,
        *,
        output: Mapping[str, Any] = EMPTY_DICT,
        render: Callable[[Any, Any], Any] | None = None,
        presentation_meta: Callable[[Any, Any], Any] | None = None,
        finalize_content: Callable[[Execution, FrozenDict], Any] | None = None,
        is_concurrency_safe: Callable[[Any], object] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        self.name: Final = name
        self.description: Final = description
        self.parameters: Final[FrozenDict] = freeze(dict(parameters))
        self.body: Final = body
        self.output: Final[FrozenDict] = freeze(dict(output))
        self.render: Final = render
        self.presentation_meta: Final = presentation_meta
        self.finalize_content: Final = finalize_content
        self.is_concurrency_safe: Final = is_concurrency_safe
        self.timeout_ms: Final = timeout_ms

    @property
    def schema(self) -> FrozenDict:
        """What the model is told: `{name, description, parameters}`."""
        fields = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return FrozenDict(fields)

    async def run(self, arguments: Any, execution: Execution) -> Any:
        """Call the body and wait for it."""
        answer = self.body(arguments, execution)
        return await answer if inspect.isawaitable(answer) else answer

    def success(self, arguments: Any, value: Any, *, root_call: bool) -> FrozenDict:
        """The result of a value that the body returned: snapshot, check, render, describe (T-203).

        Raises `ToolOutputError` for a value that is not lossless JSON or does not fit `output`, or if `render`
        or `presentation_meta` fails.
        """
        try:
            frozen = freeze(value)
        except NotJsonError as error:
            raise ToolOutputError(self.name, ["value is not lossless JSON"]) from error
        wrong = violations(self.output, frozen, "value")
        if wrong:
            raise ToolOutputError(self.name, wrong)
        fields: dict[str, Any] = {"isError": False, "value": frozen}
        try:
            shown = _default_render(frozen) if self.render is None else self.render(arguments, frozen)
            fields["content"] = text_content(shown) if isinstance(shown, str) else freeze(shown)
        except Exception as error:
            raise ToolOutputError(self.name, [f"output.render failed: {error}"]) from error
        if self.presentation_meta is not None and root_call:
            try:
                meta = freeze(self.presentation_meta(arguments, frozen))
            except Exception as error:
                raise ToolOutputError(self.name, [f"output.presentationMeta failed: {error}"]) from error
            if meta is not None:
                fields["meta"] = meta
        return FrozenDict(fields)


def _default_render(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value)


@overload
def define_tool(
    name: str,
    /,
    description: str,
    parameters: Mapping[str, Any],
    body: Callable[..., Awaitable[Any]],
    *,
    concurrent: bool | Callable[[Any], object] = False,
    **more: Any,
) -> Tool: ...


@overload
def define_tool(
    function: Callable[..., Any],
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    concurrent: bool | Callable[[Any], object] = False,
    in_thread: bool = True,
    **more: Any,
) -> Tool: ...


def define_tool(
    first: str | Callable[..., Any],
    /,
    description: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    body: Callable[..., Awaitable[Any]] | None = None,
    **more: Any,
) -> Tool:
    """A tool whose arguments are checked before its body sees them (T-103).

    From a typed function: `define_tool(search)`. Its name, docstring and signature are all there is to say; parameters
    of type `Execution`, `Signal` or `Agent` are filled in by the harness. An ordinary function runs in a worker thread
    unless `in_thread=False` (see `tools.typed`). Or from a schema: `parameters` is an object schema of the subset in
    `tools/schema.py`, and `body` is called with the arguments, or with the arguments and the `Execution` if it takes
    two.

    `concurrent` says, for given arguments or always, that calls may run side by side (T-114). `more` goes to `Tool`.
    Raises `HarnessError` `UNSUPPORTED_SCHEMA`, or `TypeError` for a signature that no JSON object can fill.
    """
    if not isinstance(first, str):
        return tool_from(first, description=description, **more)
    if parameters is None or body is None:
        raise TypeError("define_tool takes a typed function, or a name, a description, parameters and a body")
    return _from_schema(first, description or "", parameters, body, **more)


def _from_schema(
    name: str,
    description: str,
    parameters: Mapping[str, Any],
    body: Callable[..., Awaitable[Any]],
    *,
    concurrent: bool | Callable[[Any], object] = False,
    **more: Any,
) -> Tool:
    check_schema(parameters, f'parameters of tool "{name}"')
    if parameters.get("type", "object") != "object":
        raise HarnessError(f'parameters of tool "{name}": the root must be an object', "UNSUPPORTED_SCHEMA")
    frozen = freeze({"type": "object", **parameters})
    wants_execution = len(inspect.signature(body).parameters) > 1

    def checked(arguments: Any, execution: Execution) -> Awaitable[Any]:
        wrong = violations(frozen, arguments)
        if wrong:
            raise ToolArgsError(wrong)
        return body(arguments, execution) if wants_execution else body(arguments)

    def safe(arguments: Any) -> object:
        if violations(frozen, arguments):
            return False
        return concurrent(arguments) if callable(concurrent) else concurrent

    return Tool(name, description, frozen, checked, is_concurrency_safe=safe, **more)


def canonical_order(name: str) -> bytes:
    """A sort key: names in the order of their UTF-16 code units (P-111, H-07)."""
    return name.encode("utf-16-be", "surrogatepass")


class _Layer:
    __slots__ = ("guards", "restrictions", "tools")

    def __init__(self) -> None:
        self.tools: dict[str, Tool] = {}
        self.restrictions: dict[object, tuple[frozenset[str] | None, frozenset[str]]] = {}
        self.guards: dict[object, Guard] = {}

    @property
    def empty(self) -> bool:
        return not (self.tools or self.restrictions or self.guards)


class ToolRegistry:
    """All tools of a process."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._layers: dict[object | None, _Layer] = {}
        self._views: dict[tuple[object, ...], tuple[dict[str, Tool], FrozenList]] = {}

    def register(self, tool: Tool, context: Context) -> Callable[[], None]:
        """Add a tool to the layer of the context's scope, for as long as the context lives (T-102).

        Announces `tools/change`; a listener that throws takes the registration back. Raises `ValueError` for a
        name that is taken in this layer or reserved, or a bad timeout, `HarnessError` `UNSUPPORTED_SCHEMA` for
        the output schema.
        """
        if not tool.name or tool.name in RESERVED:
            raise ValueError(f'"{tool.name}" cannot be the name of a tool')
        if tool.timeout_ms is not None and not 0 < tool.timeout_ms < float("inf"):
            raise ValueError(f'timeout of tool "{tool.name}" must be a finite number of milliseconds above 0')
        check_schema(tool.output, f'output of tool "{tool.name}"')
        if tool.name in self._layer(context.key).tools:
            raise ValueError(f'tool "{tool.name}" is already registered')
        return self._keep(context, "tools", tool.name, tool, f"tool {tool.name}")

    def restrict(
        self, context: Context, *, allow: Iterable[str] | None = None, deny: Iterable[str] | None = None
    ) -> Callable[[], None]:
        """Hide inherited tools from a scope; its own registrations stay (T-111).

        Several restrictions intersect. An allow-list also hides tools that come later, a deny-list does not.
        Raises `ValueError` outside a scope, for an empty filter, and for a name that is not inherited now.
        """
        allowed = None if allow is None else frozenset(allow)
        denied = frozenset(deny or ())
        if context.key is None:
            raise ValueError("tools can be restricted in a scope only")
        if not allowed and not denied:
            raise ValueError("a restriction must name at least one tool")
        inherited = self._visible(self._bus.chain(context.key)[:-1])
        for name in sorted((allowed or frozenset()) | denied):
            if name in RESERVED or name not in inherited:
                raise ValueError(f'tool "{name}" is not inherited here, so it cannot be restricted')
        return self._keep(context, "restrictions", object(), (allowed, denied), "tool restriction")

    def guard(self, context: Context, guard: Guard) -> Callable[[], None]:
        """Let `guard(execution)` forbid calls by answering a reason; it cannot allow any (T-112)."""
        return self._keep(context, "guards", object(), guard, "tool guard", silent=True)

    def _keep(
        self, context: Context, shelf: str, key: object, entry: object, label: str, silent: bool = False
    ) -> Callable[[], None]:
        announcing = not silent

        def remove() -> None:
            layer = self._layers[context.key]
            del getattr(layer, shelf)[key]
            if layer.empty:
                del self._layers[context.key]
            self._views.clear()
            if announcing:
                self._bus.emit("tools/change", key=EVERYONE)

        effect = context.effect(remove, label)
        layer = self._layers.setdefault(context.key, self._layer(context.key))
        getattr(layer, shelf)[key] = entry
        self._views.clear()
        if announcing:
            try:
                self._bus.announce("tools/change", key=EVERYONE)
            except Exception:
                announcing = False
                effect()
                raise
        return effect

    def _layer(self, key: object | None) -> _Layer:
        return self._layers.get(key) or _Layer()

    # Looking

    def get(self, name: str, key: object | None = None) -> Tool | None:
        """The tool that a caller in this scope sees under a name."""
        return self._view(key)[0].get(name)

    def visible(self, key: object | None = None) -> list[Tool]:
        """The tools that a caller in this scope sees, in canonical order."""
        tools = self._view(key)[0]
        return [tools[schema["name"]] for schema in self._view(key)[1]]

    def schemas(self, key: object | None = None) -> FrozenList:
        """What the model is told about them, in canonical order; the same object while nothing changes."""
        return self._view(key)[1]

    def known_names(self, key: object | None = None) -> set[str]:
        """The names registered anywhere over a scope, restricted or not (P-111)."""
        return {name for k in (None, *self._bus.chain(key)) for name in self._layer(k).tools}

    def execution_mode(self, name: str, arguments: Any, key: object | None = None) -> Mode:
        """`parallel` only for a visible tool whose classifier answers exactly `True` (T-114, L-TOOL-3)."""
        tool = self.get(name, key)
        if tool is None or tool.is_concurrency_safe is None:
            return "exclusive"
        try:
            return "parallel" if tool.is_concurrency_safe(arguments) is True else "exclusive"
        except Exception:
            return "exclusive"

    def guards(self, key: object | None = None) -> list[Guard]:
        """The guards over a scope: global first, then from the farthest scope to the nearest (T-112)."""
        layers = [self._layer(k) for k in (None, *self._bus.chain(key))]
        return [guard for layer in layers for guard in layer.guards.values()]

    def _view(self, key: object | None) -> tuple[dict[str, Tool], FrozenList]:
        layers = tuple(k for k in self._bus.chain(key) if k in self._layers)
        view = self._views.get(layers)
        if view is None:
            tools = self._visible(layers)
            schemas = FrozenList(tools[name].schema for name in sorted(tools, key=canonical_order))
            view = self._views[layers] = (tools, schemas)
        return view

    def _visible(self, chain: tuple[object, ...]) -> dict[str, Tool]:
        seen: dict[str, Tool] = {}
        for key in (None, *chain):
            layer = self._layer(key)
            for allowed, denied in layer.restrictions.values():
                seen = {n: t for n, t in seen.items() if n not in denied and (allowed is None or n in allowed)}
            seen.update(layer.tools)
        return seen
