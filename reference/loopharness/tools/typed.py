"""A tool from a typed Python function: its signature is the schema, its docstring the description (T-101, T-103).

Pydantic makes the JSON Schema that the model sees and checks the arguments that the model sends. Nothing is guessed:
`"1"` is no integer and `1` is no boolean (H-10). What JSON has no word for (dates, paths, enums, tuples, sets, models,
dataclasses) is read from the JSON form that the schema describes.
"""

from __future__ import annotations

import functools
import inspect
import typing
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic_core import ErrorDetails, PydanticSerializationError

from loopharness.frozen import dumps, freeze
from loopharness.signal import Signal
from loopharness.tools.execution import Execution
from loopharness.tools.results import ToolArgsError, ToolOutputError
from loopharness.tools.typed_schema import described, plain_schema, with_descriptions

if TYPE_CHECKING:
    from loopharness.tools.registry import Tool

__all__ = ["tool_from"]

_SAFE: Final = 2.0**53


class _Inject(NamedTuple):
    """A parameter that the harness fills in, out of the model's sight."""

    name: str
    value: Callable[[Execution], Any]


class _Shape(NamedTuple):
    """What a signature asks for."""

    model: type[BaseModel]
    fields: Mapping[str, str]
    """Field of the model to parameter."""
    injected: Sequence[_Inject]
    returns: TypeAdapter[Any] | None
    schema: Mapping[str, Any]


def tool_from(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    concurrent: bool | Callable[[Any], object] = False,
    in_thread: bool = True,
    **more: Any,
) -> Tool:
    """The tool that a function describes; see `define_tool`.

    An `async` function runs in the loop, an ordinary one in a worker thread, so that it may block; `in_thread=False`
    keeps it in the loop's own thread. Raises `TypeError` for a signature that no JSON object can fill.
    """
    from loopharness.tools.registry import Tool

    called = name or str(getattr(function, "__name__", ""))
    shape = _shape(function, called)
    says, about = described(function)
    schema = with_descriptions(shape.schema, about)

    def run(arguments: Any, execution: Execution) -> Awaitable[Any]:
        return _call(function, called, shape, _read(shape, arguments), execution, in_thread)

    def safe(arguments: Any) -> object:
        if callable(concurrent):
            _read(shape, arguments)
            return concurrent(arguments)
        return concurrent and _fits(shape, arguments)

    more.setdefault("render", _rendered)
    return Tool(called, says if description is None else description, schema, run, is_concurrency_safe=safe, **more)


async def _call(
    function: Callable[..., Any], name: str, shape: _Shape, read: BaseModel, execution: Execution, in_thread: bool
) -> Any:
    given = {parameter: getattr(read, field) for field, parameter in shape.fields.items()}
    given |= {inject.name: inject.value(execution) for inject in shape.injected}
    if in_thread and not _is_async(function):
        value = await anyio.to_thread.run_sync(functools.partial(function, **given))
    else:
        value = function(**given)
    if inspect.isawaitable(value):
        value = await value
    return _written(name, shape.returns, value)


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _rendered(arguments: Any, value: Any) -> str:
    """Text as it is, nothing for a function that answers nothing, JSON for everything else."""
    return value if isinstance(value, str) else "" if value is None else dumps(value)


# -- the signature ---------------------------------------------------------------------------------------------


def _shape(function: Callable[..., Any], name: str) -> _Shape:
    try:
        signature = inspect.signature(function, eval_str=True)
    except NameError as error:
        raise TypeError(f'tool "{name}": an annotation cannot be resolved: {error}') from error
    injected: list[_Inject] = []
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    for parameter in signature.parameters.values():
        value = _injection(parameter.annotation)
        if value is not None:
            injected.append(_Inject(parameter.name, value))
            continue
        key = f"tool_argument_number_{len(fields)}"  # no field of a dataclass inside is called so
        fields[key] = _field(name, parameter)
        names[key] = parameter.name
    config = ConfigDict(extra="forbid", strict=True, alias_generator=lambda field: names.get(field, field))
    try:
        model = create_model(name or "Tool", __config__=config, **fields)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a default that JSON cannot hold is not shown to the model
            schema = model.model_json_schema()
    except (PydanticUserError, TypeError) as error:
        raise TypeError(f'tool "{name}": its parameters have no JSON Schema: {_first_line(error)}') from error
    returns = signature.return_annotation
    silent = returns in (inspect.Signature.empty, Any, None, str)
    try:
        adapter = None if silent else TypeAdapter(returns)
    except PydanticUserError as error:
        raise TypeError(f'tool "{name}": its answer has no JSON form: {_first_line(error)}') from error
    return _Shape(model, names, injected, adapter, plain_schema(schema))


def _injection(annotation: Any) -> Callable[[Execution], Any] | None:
    """How to fill in a parameter of one of the harness's own types."""
    from loopharness.agent.agent import Agent

    kinds = typing.get_args(annotation) or (annotation,)
    if Execution in kinds:
        return lambda execution: execution
    if Signal in kinds:
        return lambda execution: execution.signal
    if Agent in kinds:
        optional = type(None) in kinds
        return lambda execution: _agent(execution, optional)
    return None


def _agent(execution: Execution, optional: bool) -> Any:
    if execution.agent is None and not optional:
        raise RuntimeError(f'tool "{execution.name}" works only when an agent calls it')
    return execution.agent


def _field(name: str, parameter: inspect.Parameter) -> Any:
    if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise TypeError(f'tool "{name}": {parameter} cannot be given by name; a model names every argument')
    if parameter.annotation is parameter.empty:
        raise TypeError(f'tool "{name}": parameter {parameter.name} needs a type, it becomes part of the schema')
    default = parameter.default
    return (parameter.annotation, ... if default is parameter.empty else default)


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]


# -- arguments and answers -------------------------------------------------------------------------------------


def _fits(shape: _Shape, arguments: Any) -> bool:
    try:
        _read(shape, arguments)
    except ToolArgsError:
        return False
    return True


def _read(shape: _Shape, arguments: Any) -> BaseModel:
    """The arguments as the function wants them. Raises `ToolArgsError` with everything that is wrong (T-103, T-105)."""
    if not isinstance(arguments, Mapping):
        raise ToolArgsError(['"arguments" must be an object'])
    data = _whole_numbers(arguments)
    try:
        return shape.model.model_validate_json(dumps(freeze(data)))
    except ValidationError as error:
        details = error.errors(include_url=False)
        raise ToolArgsError(_violations(shape.schema, data, details)) from None


def _whole_numbers(value: Any) -> Any:
    """A number is an integer when its value is one, however it was written (H-10)."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _SAFE:
        return int(value)
    if isinstance(value, Mapping):
        return {key: _whole_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_whole_numbers(inner) for inner in value]
    return value


_NOUNS: Final[Mapping[str, str]] = {
    "string_type": "a string",
    "bytes_type": "a string",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "decimal_type": "a number",
    "finite_number": "a finite JSON number",
    "bool_type": "a boolean",
    "none_required": "null",
    "list_type": "an array",
    "tuple_type": "an array",
    "set_type": "an array",
    "frozen_set_type": "an array",
    "iterable_type": "an array",
    "dict_type": "an object",
    "mapping_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "dataclass_type": "an object",
}


def _violations(schema: Mapping[str, Any], data: Any, details: Sequence[ErrorDetails]) -> list[str]:
    """One sentence for each place: what is missing, then what is wrong, then what nobody asked for (T-105)."""
    missing: dict[str, None] = {}
    wrong: dict[str, list[str]] = {}
    undeclared: dict[str, None] = {}
    for detail in details:
        path, kind = _real_path(detail["loc"], data, detail["type"] == "missing"), detail["type"]
        shown = _shown(path)
        if kind == "missing":
            missing[f'missing required property "{shown}"'] = None
        elif kind == "extra_forbidden":
            undeclared[f'"{shown}" is not a declared property (additionalProperties: false)'] = None
        else:
            said = wrong.setdefault(shown, [])
            text = _wrong(detail, _schema_at(schema, path))
            if text not in said:
                said.append(text)
    return [*missing, *(f'"{place or "arguments"}" {_either(texts)}' for place, texts in wrong.items()), *undeclared]


def _either(texts: Sequence[str]) -> str:
    """Branches of a union, each of which would have been right."""
    if all(text.startswith("must be ") for text in texts):
        return "must be " + " or ".join(text.removeprefix("must be ") for text in texts)
    return "; or it ".join(texts)


def _wrong(detail: ErrorDetails, schema: Mapping[str, Any]) -> str:
    kind = detail["type"]
    if kind in _NOUNS:
        return f"must be {_NOUNS[kind]}"
    if kind in ("literal_error", "enum"):
        if "const" in schema:
            return f"must be {dumps(freeze(schema['const']))}"
        if "enum" in schema:
            return f"must be one of {dumps(freeze(schema['enum']))}"
        return f"must be one of {detail.get('ctx', {}).get('expected', 'other values')}"
    said = detail["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    for start in (
        "Input should ",
        "String should ",
        "List should ",
        "Set should ",
        "Tuple should ",
        "Dictionary should ",
    ):
        if said.startswith(start):
            return "must " + said.removeprefix(start)
    return f"is refused: {said}"


def _schema_at(schema: Mapping[str, Any], path: Sequence[int | str]) -> Mapping[str, Any]:
    """The part of a schema that speaks of a place; empty when several might."""
    at: Any = schema
    for part in path:
        if not isinstance(at, Mapping):
            return {}
        at = at.get("items", {}) if isinstance(part, int) else at.get("properties", {}).get(part, {})
    return at if isinstance(at, Mapping) else {}


def _real_path(loc: Sequence[int | str], data: Any, missing: bool) -> tuple[int | str, ...]:
    """The place without the names of union branches, which pydantic puts into it."""
    path: list[int | str] = []
    for at, part in enumerate(loc):
        if _holds(data, part):
            data = data[part]
        elif not (missing and at == len(loc) - 1):
            continue
        path.append(part)
    return tuple(path)


def _holds(data: Any, part: int | str) -> bool:
    if isinstance(data, list):
        return isinstance(part, int) and part < len(data)
    return isinstance(data, dict) and part in data


def _shown(path: Sequence[int | str]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def _written(name: str, returns: TypeAdapter[Any] | None, value: Any) -> Any:
    """The answer as JSON. Raises `ToolOutputError` when it is not what the function promises (T-203)."""
    if returns is None:
        return value
    try:
        return returns.dump_python(returns.validate_python(value), mode="json", by_alias=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = _shown(first["loc"]) or "value"
        raise ToolOutputError(name, [f"{place}: {first['msg']}"]) from error
    except PydanticSerializationError as error:
        raise ToolOutputError(name, [_first_line(error)]) from error
