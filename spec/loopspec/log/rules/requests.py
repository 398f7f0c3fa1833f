"""Requests (`S-LNT-77` to `S-LNT-84`). Rule 84 needs captured requests and is asked by `compare_requests`."""

from __future__ import annotations

from typing import Any

from loopspec.log.rule import Breach, Rule, breach, rule
from loopspec.log.state import Log, Row, items, record
from loopspec.request import same_header
from loopspec.values import same_value

_STREAMED = ("assistant/chunk", "assistant/message", "assistant/attempt")
_REASONS = {0: ("initial", "resume", "change"), 4: ("initial", "resume", "change", "series")}


@rule("S-LNT-77", "E", "A request/header exists before the first stream.", *_STREAMED)
def header_first(log: Log, row: Row) -> Breach | None:
    if log.header is not None or log.headerless_stream:
        return None
    return breach("A model answers, but no request/header stands before it.", "request/header in the first step")


def _header(row: Row) -> dict[str, Any]:
    return record(row.data.get("header"))


@rule("S-LNT-78", "E", "The header is canonical; format 4: it has no system.", "request/header")
def canonical(log: Log, row: Row) -> list[Breach]:
    header = _header(row)
    found = []
    if header.get("tools") == []:
        found.append(breach("The header has an empty tools array.", "no tools key"))
    if log.format == 4 and "system" in header:
        found.append(breach("The header has a system prompt.", "a system/message on the surface"))
    elif header.get("system") == "":
        found.append(breach("The header has an empty system.", "no system key"))
    unknown = sorted(set(header) - {"config", "adapterDefaults", "system", "tools"})
    if unknown:
        found.append(
            breach(f"The header has unknown keys: {', '.join(unknown)}.", "config, adapterDefaults, system, tools")
        )
    if "tools" in header and not log.snapshot and not all(_is_tool(tool) for tool in items(header["tools"])):
        found.append(breach("A tool of the header lacks name, description or parameters.", "all three"))
    return found


def _is_tool(tool: Any) -> bool:
    fields = record(tool)
    return (
        type(fields.get("name")) is str
        and type(fields.get("description")) is str
        and type(fields.get("parameters")) is dict
    )


@rule("S-LNT-79", "E", "The config's provider and model are non-empty, and so is reasoningEffort.", "request/header")
def route_named(log: Log, row: Row) -> list[Breach]:
    config = record(_header(row).get("config"))
    names = ("provider", "model", *(("reasoningEffort",) if "reasoningEffort" in config else ()))
    return [
        breach(f"The config's {name} is {config.get(name)!r}.", "a non-empty string")
        for name in names
        if type(config.get(name)) is not str or config[name] == ""
    ]


@rule(
    "S-LNT-80", "E", "adapterDefaults marks only fields of the config, with true, and is not empty.", "request/header"
)
def defaults(log: Log, row: Row) -> list[Breach]:
    header = _header(row)
    if "adapterDefaults" not in header:
        return []
    marks, config = record(header["adapterDefaults"]), record(header.get("config"))
    if not marks:
        return [breach("adapterDefaults marks nothing.", "no adapterDefaults key")]
    return [
        breach(f"adapterDefaults has {name}: {mark!r}.", "true, for reasoningEffort or maxTokens that the config has")
        for name, mark in marks.items()
        if name not in ("reasoningEffort", "maxTokens") or mark is not True or name not in config
    ]


@rule(
    "S-LNT-81",
    "E",
    "The header's reason is initial first, resume first after an end-seed, else change (format 4 also series).",
    "request/header",
)
def reason(log: Log, row: Row) -> Breach | None:
    stated = row.data.get("reason")
    if log.header is None:
        legal: tuple[str, ...] = ("initial",)
    elif not log.header_since_seed:
        legal = ("resume",)
    else:
        legal = tuple(name for name in _REASONS[log.format] if name not in ("initial", "resume"))
    if stated in legal:
        return None
    return breach(f"The header's reason is {stated!r}.", " or ".join(legal))


@rule("S-LNT-82", "E", "A change differs from the previous header; format 4: a series equals it.", "request/header")
def change_changes(log: Log, row: Row) -> Breach | None:
    stated = row.data.get("reason")
    if log.header is None or stated not in ("change", "series"):
        return None
    equal = _same(log.header, _header(row))
    if stated == "change" and equal and not log.snapshot:
        return breach("The header says change, but equals the previous one.", "a header that differs, or no row")
    if stated == "series" and not equal:
        return breach("The header says series, but differs from the previous one.", "reason change")
    return None


def _same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    try:
        return same_header(left, right)
    except (KeyError, TypeError, AttributeError):
        return same_value(left, right)


@rule(
    "S-LNT-83", "E", "request/context differs from the previous one, and its route is the header's.", "request/context"
)
def context(log: Log, row: Row) -> list[Breach]:
    found = []
    names = ("provider", "model", "contextWindow", "systemPromptUpdate")
    if log.context is not None and all(same_value(log.context.get(name), row.data.get(name)) for name in names):
        found.append(breach("The context repeats the previous one.", "a row only when something differs"))
    if log.header is not None:
        config = log.config()
        found += [
            breach(
                f"The context's {name} is {row.data.get(name)!r}, the header says {config.get(name)!r}.",
                "the header's route",
            )
            for name in ("provider", "model")
            if row.data.get(name) != config.get(name)
        ]
    return found


RULES: tuple[Rule, ...] = (header_first, canonical, route_named, defaults, reason, change_changes, context)
