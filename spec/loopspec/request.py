"""The request: how its header is proposed, recorded and folded, and how a log rebuilds every request sent.

A request is the last header of the log, the messages of the surface, and the session id. So a log prefix is
all it takes to know what the model saw. Everything here is plain data; messages are a shared view.

Rules: S-REQ-1 to S-REQ-12, S-REQ-21, L-REQ-1 to L-REQ-15; reconstruction is session-log 7.2 and 7.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from loopspec import surface as surfaces
from loopspec.log.types import VERSIONS, Dialect
from loopspec.profile import Law
from loopspec.values import Json, Record, same_text, same_value, without

Reason: TypeAlias = Literal["initial", "resume", "change", "series"]

CONFIG_FIELDS = ("provider", "model", "reasoningEffort", "temperature", "maxTokens", "stop")
"""The fields of a header's `config`, all of them part of equality (S-REQ-3) and of the request (L-REQ-13)."""

ADAPTER_FIELDS = ("reasoningEffort", "maxTokens")
"""The fields that an adapter may fill in, each with a marker in `adapterDefaults` (L-REQ-15)."""


# -- the header ----------------------------------------------------------------------------------------------


def canonical_header(header: Record) -> Record:
    """The header without empty `system`, empty `tools` and `adapterDefaults` that mark nothing (S-REQ-2).

    A header that is canonical already is returned as it is.
    """
    empty = [name for name in ("system", "tools") if name in header and len(header[name]) == 0]
    if "adapterDefaults" in header:
        marks = header["adapterDefaults"]
        true_marks = {name: True for name in ADAPTER_FIELDS if marks.get(name) is True}
        if not true_marks:
            empty.append("adapterDefaults")
        elif len(true_marks) != len(marks):
            header = {**header, "adapterDefaults": true_marks}
    return without(header, *empty) if empty else header


def propose_header(
    config: Record,
    *,
    adapter_defaults: Record | None = None,
    system: str = "",
    tools: Sequence[Record] = (),
) -> Record:
    """The canonical header of a prepared request (L-REQ-9). Format 4 leaves `system` empty."""
    header: dict[str, Json] = {"config": config}
    if adapter_defaults is not None:
        header["adapterDefaults"] = adapter_defaults
    header["system"] = system
    header["tools"] = tools
    return canonical_header(header)


def adapter_defaults(proposed: Record, prepared: Record) -> Record | None:
    """The markers of what the adapter supplied: fields the proposal lacked and the prepared call has.

    `None` when the adapter supplied nothing (L-REQ-15).
    """
    marks = {name: True for name in ADAPTER_FIELDS if name not in proposed and name in prepared}
    return marks or None


def supplied(proposal: Record, facts: Record) -> dict[str, Json]:
    """What the adapter fills into a proposal that leaves it open (M-411): the output cap, and the effort.

    `facts` are the model's: `defaultMaxTokens`, and `reasoning` with `efforts` and `defaultEffort`, all optional. What
    the proposal says always wins.
    """
    found: dict[str, Json] = {}
    if "maxTokens" not in proposal and facts.get("defaultMaxTokens") is not None:
        found["maxTokens"] = facts["defaultMaxTokens"]
    reasoning = facts.get("reasoning") or {}
    if "reasoningEffort" not in proposal and reasoning.get("defaultEffort") is not None:
        found["reasoningEffort"] = reasoning["defaultEffort"]
    return found


def supports_effort(config: Record, facts: Record) -> bool:
    """Whether the model knows the effort of a completed config (M-412): no clamping, no aliases, no exceptions."""
    effort = config.get("reasoningEffort")
    return effort is None or effort in ((facts.get("reasoning") or {}).get("efforts") or ())


def same_header(left: Record, right: Record) -> bool:
    """Whether two canonical headers are equal (S-REQ-3, L-REQ-10).

    Config fields, markers and system by value, the stop list element by element, tools in order by JSON text.
    """
    if left is right:
        return True
    return (
        all(_same_field(left["config"], right["config"], name) for name in CONFIG_FIELDS)
        and all(_mark(left, name) == _mark(right, name) for name in ADAPTER_FIELDS)
        and _same_field(left, right, "system")
        and same_text(left.get("tools"), right.get("tools"))
    )


def _same_field(left: Record, right: Record, name: str) -> bool:
    return (name in left) == (name in right) and same_value(left.get(name), right.get(name))


def _mark(header: Record, name: str) -> bool:
    return header.get("adapterDefaults", {}).get(name) is True


def fold_header(events: Iterable[Record]) -> Record | None:
    """The last header of a log prefix in canonical form, or `None` before the first (S-REQ-4)."""
    header: Record | None = None
    for event in events:
        if event["type"] == "request/header":
            header = event["data"]["header"]
    return None if header is None else canonical_header(header)


# -- what must be recorded -----------------------------------------------------------------------------------


def header_reason(
    logged: Record | None,
    proposed: Record,
    *,
    first_of_instance: bool,
    starts_series: bool = False,
) -> Reason | None:
    """Why a header record is due before this request, or `None` when none is (S-REQ-5, L-REQ-9).

    `logged` is the folded header of the log, `proposed` the canonical header of this request.
    `first_of_instance`: the loop instance has not recorded a header yet. `starts_series` is format 4 only.
    """
    if first_of_instance:
        return "initial" if logged is None else "resume"
    if logged is None or not same_header(logged, proposed):
        return "change"
    return "series" if starts_series else None


def header_record(reason: Reason, header: Record, *, starts_series: bool = False) -> Record:
    """The payload of `request/header`; a `change` that starts a series says so (S-REQ-5)."""
    if reason == "change" and starts_series:
        return {"header": header, "reason": reason, "startsSeries": True}
    return {"header": header, "reason": reason}


def starts_series(
    *,
    asked: bool,
    generation: int,
    last_generation: int | None,
    tools: Sequence[Record] | None,
    last_tools: Sequence[Record] | None,
) -> bool:
    """Whether a new request series starts (S-REQ-21): pre-step asked, derived content moved, or tools changed.

    `last_generation` is the surface generation at the previous request, `None` before the first one.
    """
    moved = last_generation is not None and generation != last_generation
    return asked or moved or not same_text(tools or (), last_tools or ())


def context_due(
    logged: Record | None,
    *,
    provider: str,
    model: str,
    context_window: int | None = None,
    system_prompt_update: str | None = None,
) -> Record | None:
    """The `request/context` payload to record, or `None` when it equals the last one (L-REQ-11, S-REQ-8).

    A window that was known and is not any more is a difference. `system_prompt_update` is format 4 only.
    """
    context: dict[str, Json] = {"provider": provider, "model": model}
    if context_window is not None:
        context["contextWindow"] = context_window
    if system_prompt_update is not None:
        context["systemPromptUpdate"] = system_prompt_update
    return None if logged is not None and same_value(logged, context) else context


# -- the proposal --------------------------------------------------------------------------------------------


def first_seed(options: Record, logged: Record | None) -> Record:
    """The config offered to the first request of a loop instance (L-REQ-3, S-REQ-7).

    `options` may hold `provider`, `model`, `maxTokens`, and for format 4 `reasoningEffort`, which beats the
    logged one. The logged effort is kept only for the same route and only if no adapter supplied it.
    """
    seed: dict[str, Json] = {"provider": options.get("provider") or "", "model": options.get("model") or ""}
    if options.get("reasoningEffort") is not None:
        seed["reasoningEffort"] = options["reasoningEffort"]
    elif logged is not None and _keeps_effort(seed, logged):
        seed["reasoningEffort"] = logged["config"]["reasoningEffort"]
    if options.get("maxTokens") is not None:
        seed["maxTokens"] = options["maxTokens"]
    return seed


def _keeps_effort(seed: Record, logged: Record) -> bool:
    config: Record = logged["config"]
    same_route = config["provider"] == seed["provider"] and config["model"] == seed["model"]
    return same_route and "reasoningEffort" in config and not _mark(logged, "reasoningEffort")


def later_seed(logged: Record) -> Record:
    """The config offered to every later request: the last header's, minus what an adapter filled in (L-REQ-4)."""
    return without(logged["config"], *(name for name in ADAPTER_FIELDS if _mark(logged, name)))


def seed(options: Record, logged: Record | None, *, headed: bool) -> Record:
    """The config that is offered to `agent/request` (L-REQ-3, L-REQ-4).

    `headed`: this loop instance has written a header, so the folded one is its own and is continued.
    """
    return later_seed(logged) if headed and logged is not None else first_seed(options, logged)


def route_refusal(agent_id: str, config: Record) -> str | None:
    """The error text when a proposal ends without provider or model, else `None` (L-REQ-6)."""
    if config.get("provider") and config.get("model"):
        return None
    return (
        f'agent "{agent_id}" has no provider/model: set AgentOptions.provider and AgentOptions.model '
        "or supply both via the agent/request waterfall"
    )


class Plan(NamedTuple):
    """What one prepared attempt will say, and which records that makes due."""

    header: Record
    """The canonical header of the request."""
    changed: bool
    """It differs from the folded one, or it starts a series: a header record is due (L-REQ-9)."""
    starts_series: bool
    context: Record | None
    """The payload of the context record that is due (L-REQ-11)."""


def plan(
    law: Law,
    *,
    headed: bool,
    logged: Record | None,
    last_context: Record | None,
    config: Record,
    defaults: Record | None,
    window: int | None,
    system: str,
    tools: Sequence[Record],
    generation: int,
    last_generation: int | None,
) -> Plan:
    """The plan of an attempt whose call was prepared, or kept as it was proposed because nobody serves it (L-REQ-8).

    `config`, `defaults` and `window` are those of the prepared call; `system` and `tools` those of the step's assembly;
    the generations are the surface's now and at the last request. What a first header is, the driver decides.
    """
    header = propose_header(
        config, adapter_defaults=defaults, system="" if law.streams_are_embedded else system, tools=tools
    )
    series = False
    if law.streams_are_embedded and headed:
        last_tools = None if logged is None else logged.get("tools")
        series = starts_series(
            asked=False, generation=generation, last_generation=last_generation, tools=tools, last_tools=last_tools
        )
    changed = header_reason(logged, header, first_of_instance=False, starts_series=series) is not None
    context = context_due(last_context, provider=config["provider"], model=config["model"], context_window=window)
    return Plan(header, changed, series, context)


def derives_at_dispatch(law: Law) -> bool:
    """L-REQ-1, VD-06  When the messages of a request are derived: at the start of its attempt, or when it is sent."""
    return law.admission_follows_preparation


# -- the request ---------------------------------------------------------------------------------------------


def build_request(header: Record, messages: Sequence[Record], session_id: str) -> dict[str, Json]:
    """The request object without its abort signal (L-REQ-13).

    Config fields, `messages`, `system` and `tools` when the header has them, `sessionId`. Neither markers nor
    context take part. In format 4 the prompt is a message, so there is no `system`.
    """
    request: dict[str, Json] = {**header["config"], "messages": messages}
    for name in ("system", "tools"):
        if name in header:
            request[name] = header[name]
    request["sessionId"] = session_id
    return request


def drift(prepared: Record, request: Record) -> str | None:
    """The first field of a call that a request says otherwise than it was prepared, or `None` (M-421)."""
    for name in CONFIG_FIELDS:
        if prepared.get(name) is not request.get(name) and not same_value(prepared.get(name), request.get(name)):
            return name
    return None


def parts(sent: Record, rebuilt: Record) -> tuple[str, ...]:
    """The fields in which a request that was sent parts from the one that the log proves; none when they are equal.

    Every field but the signal is compared: also the provider and the effort, which published companions leave out
    (L-INV-2).
    """
    names = dict.fromkeys((*sent, *rebuilt))
    names.pop("signal", None)
    return tuple(
        name
        for name in names
        if (name in sent) != (name in rebuilt) or not same_text(sent.get(name), rebuilt.get(name))
    )


class Rebuilt(NamedTuple):
    """One request that the log proves: the seq of the event that anchors it, and the request."""

    anchor: int
    request: dict[str, Json]


class ReconstructionError(ValueError):
    """A log from which a request cannot be rebuilt, because no header stands before a stream (S-LNT-77)."""

    def __init__(self, anchor: int) -> None:
        super().__init__(f"event {anchor} belongs to a model stream, but no request/header stands before it")
        self.anchor = anchor


def dialect_of(header_row: Record) -> Dialect:
    """The dialect of a log by its header row. Raises `ValueError` for formats that are not read."""
    version = header_row["version"]
    if isinstance(version, bool) or not isinstance(version, int) or version not in VERSIONS:
        raise ValueError(f"format {version!r} is not supported; supported are 0 and 4")
    return VERSIONS[version]


def reconstruct_requests(header_row: Record, events: Iterable[Record]) -> list[Rebuilt]:
    """Every request of the log in order (S-REQ-10; session-log 7.2 for format 0, 7.3 for format 4).

    An attempt that failed before its stream began leaves nothing to anchor on and is not listed (S-REQ-11).
    `messages` are `Prefix` views. Raises `SurfaceError` and `ReconstructionError`.
    """
    dialect = dialect_of(header_row)
    session_id: str = header_row["id"]
    surface = surfaces.empty(dialect)
    header: Record | None = None
    streaming = False
    rebuilt: list[Rebuilt] = []
    for seq, event in enumerate(events):
        if anchors(dialect, event, streaming=streaming):
            if header is None:
                raise ReconstructionError(seq)
            messages = surfaces.derive_messages(surface)
            rebuilt.append(Rebuilt(seq, build_request(header, messages, session_id)))
        streaming = still_streaming(event, streaming=streaming)
        if event["type"] == "request/header":
            header = canonical_header(event["data"]["header"])
        surface = surfaces.accept(surface, event, seq)
    return rebuilt


def anchors(dialect: Dialect, event: Record, *, streaming: bool) -> bool:
    """Whether this event proves that a request was sent over the events before it.

    Format 0: the first chunk of an attempt. Format 4: the settlement, a message or a failed attempt.
    """
    event_type = event["type"]
    if dialect == "v0":
        return event_type == "assistant/chunk" and not streaming
    if event_type == "assistant/message":
        return bool(event.get("surfaceOp") == "append")
    return bool(event_type == "assistant/attempt")


def still_streaming(event: Record, *, streaming: bool) -> bool:
    """Whether the next format 0 chunk continues the attempt: one starts after `step/start`, `finish`, message."""
    event_type = event["type"]
    if event_type == "assistant/chunk":
        return bool(event["data"]["chunk"]["type"] != "finish")
    if event_type in ("step/start", "assistant/message"):
        return False
    return streaming
