"""The LLM service: who serves which provider, and what a stream may and may not do (llm-and-tools 4).

An adapter is one provider's code. Whatever goes wrong inside it becomes one terminal `finish` chunk with the
failure's facts, so a consumer sees a stream that ends, and never an adapter's exception (M-430). What goes
wrong around it (a listener of `llm/stream`, the consumer, closing the adapter) stays an exception (M-431).
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, Protocol, runtime_checkable

from loopharness.bus import Bus, Context
from loopharness.errors import HarnessError
from loopharness.frozen import FrozenDict, freeze
from loopharness.model.chunks import Chunk, finish
from loopharness.model.facts import check_facts, with_defaults
from loopharness.model.failure import LlmError, normalise_failure
from loopharness.model.replay import without_foreign_replay_state
from loopharness.retry.policy import resolved_policy
from loopharness.signal import Signal
from loopspec import calls
from loopspec import request as requests
from loopspec.kernel.machine import Config
from loopspec.kernel.prefix import Prefix
from loopspec.request import CONFIG_FIELDS

__all__ = [
    "Adapter",
    "AdapterStream",
    "LlmService",
    "PreparedCall",
    "Registration",
    "Request",
]


class Adapter(Protocol):
    """One provider's code.

    `resolve_model` answers facts about a model (M-410): `id`, `name`, and optionally `context
    {contextWindow}`, `defaultMaxTokens`, `reasoning {efforts, defaultEffort?}`, `inputModalities`.
    `stream` answers the chunks of one request: one call is one attempt at the provider (M-437).
    """

    async def resolve_model(self, provider: str, model: str, signal: Signal) -> Mapping[str, Any]:
        """Facts about one model; advisory fields may be absent."""
        ...

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """The chunks of one call. An `aclose` method is awaited when the consumer stops early (M-432)."""
        ...


@runtime_checkable
class _HasPolicy(Protocol):
    def retry_policy(self, provider: str) -> Mapping[str, Any] | None: ...


class Request(FrozenDict):
    """One model request (llm-and-tools 1.5): frozen, except for the signal that it carries (M-116, L-REQ-13)."""

    __slots__ = ("__weakref__",)

    @classmethod
    def of(cls, fields: Mapping[str, Any], signal: Signal | None = None) -> Request:
        """Freeze the fields and add the signal. Messages that are a view of a session's history are shared."""
        history = fields.get("messages")
        view = {"messages": history} if isinstance(history, Prefix) else {}
        signals = {} if signal is None else {"signal": signal}
        return cls({**freeze({key: fields[key] for key in fields if key not in view}), **view, **signals})


class Registration:
    """One adapter behind its routes, with the retry policies captured when it came (M-403)."""

    __slots__ = ("adapter", "policies", "providers")

    def __init__(self, adapter: Adapter, providers: tuple[str, ...]) -> None:
        self.adapter: Final = adapter
        self.providers = providers
        self.policies: dict[str, FrozenDict] = {p: self._policy(p) for p in providers}

    def _policy(self, provider: str) -> FrozenDict:
        """The adapter's own policy, completed, else the default one."""
        own = self.adapter.retry_policy(provider) if isinstance(self.adapter, _HasPolicy) else None
        try:
            return resolved_policy(own)
        except ValueError as error:
            text = f'the adapter of provider "{provider}" has an impossible retry policy: {error}'
            raise HarnessError(text, "INVALID_ADAPTER") from error


def _no_adapter(provider: object) -> LlmError:
    return LlmError(f'no adapter registered for provider "{provider}"', "NO_ADAPTER")


class AdapterHandle:
    """What `register_adapter` answers: call it to dispose, or `replace` the routes it holds (M-402)."""

    __slots__ = ("_registration", "_service", "disposed")

    def __init__(self, service: LlmService, registration: Registration) -> None:
        self._service = service
        self._registration = registration
        self.disposed = False

    def __call__(self) -> None:
        """Give the routes back; harmless the second time."""
        if not self.disposed:
            self.disposed = True
            self._service._swap(self._registration, ())

    def replace(self, providers: Sequence[str]) -> None:
        """Hold exactly these routes from now on; none is legal. Raises `HarnessError` and changes nothing."""
        if self.disposed:
            raise HarnessError("the adapter registration is disposed", "REGISTRATION_DISPOSED")
        self._service._validate(providers, self._registration)
        self._service._swap(self._registration, tuple(providers))


class PreparedCall:
    """One call bound to one registration: config with defaults, policy, and a stream that opens once (M-420)."""

    __slots__ = (
        "_call",
        "_service",
        "adapter_defaults",
        "config",
        "context",
        "input_modalities",
        "retry_policy",
    )

    def __init__(
        self,
        service: LlmService,
        call: Config[calls.Call],
        config: FrozenDict,
        adapter_defaults: FrozenDict | None,
        retry_policy: FrozenDict | None,
        facts: Mapping[str, Any],
    ) -> None:
        self._service = service
        self._call = call
        self.config: Final = config
        self.adapter_defaults: Final = adapter_defaults
        self.retry_policy: Final = retry_policy
        self.context: Final[FrozenDict | None] = freeze(facts.get("context"))
        self.input_modalities: Final = freeze(facts.get("inputModalities"))

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """Open the stream of this call.

        Raises `LlmError` with `INVALID_PREPARED_CALL` the second time, or if the request does not say what was
        prepared (M-421). A drift made later, by a listener, becomes a terminal failure of the stream.
        """
        drift = self._drift(request)
        _, end, self._call = calls.MACHINE.step(calls.MACHINE.call(self._call, ("dispatch", bool(drift))))
        if end[0] == "raise":
            raise LlmError(drift or "this prepared call has been dispatched already", end[1])
        return self._service._open(request, end[1], self)

    def verify(self, request: Mapping[str, Any]) -> None:
        """Raise `INVALID_PREPARED_CALL` naming the first call field that differs from what was prepared."""
        drift = self._drift(request)
        if drift:
            raise LlmError(drift, "INVALID_PREPARED_CALL")

    def _drift(self, request: Mapping[str, Any]) -> str:
        """Where a request does not say what was prepared, in words; empty when it does (M-421)."""
        field = requests.drift(self.config, request)
        if field is None:
            return ""
        wanted, found = self.config.get(field), request.get(field)
        return f"the request differs from its prepared call in {field}: {found!r} instead of {wanted!r}"


class LlmService:
    """All adapters of a process, and the one way to a model."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._routes: dict[str, Registration] = {}
        self._loop_built: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()

    # Registration

    def register_adapter(
        self, providers: Sequence[str], adapter: Adapter, owner: Context | None = None
    ) -> AdapterHandle:
        """Serve these providers with this adapter, all or none (M-401). `owner` gives them back when it ends.

        Raises `HarnessError`: `INVALID_ADAPTER` for no provider or an empty name, `DUPLICATE_ADAPTER` for one
        that is taken or named twice.
        """
        if not providers:
            raise HarnessError("an adapter needs at least one provider", "INVALID_ADAPTER")
        registration = Registration(adapter, tuple(providers))
        self._validate(providers, registration)
        handle = AdapterHandle(self, registration)
        if owner is not None:
            owner.effect(handle, f"adapter {', '.join(providers)}")
        self._swap(registration, tuple(providers))
        return handle

    def _validate(self, providers: Sequence[str], registration: Registration) -> None:
        refusal = calls.route_refusal(self._routes, registration, providers)
        if refusal == "INVALID_ADAPTER":
            raise HarnessError("a provider name must be a non-empty string", refusal)
        if refusal:
            twice = [provider for at, provider in enumerate(providers) if provider in providers[:at]]
            taken = [provider for provider in providers if self._routes.get(provider, registration) is not registration]
            text = f'provider "{taken[0]}" has an adapter already' if taken else f'provider "{twice[0]}" is named twice'
            raise HarnessError(text, refusal)

    def _swap(self, registration: Registration, providers: tuple[str, ...]) -> None:
        """Nobody sees a moment between the old routes and the new (M-402, M-404)."""
        policies = {p: registration._policy(p) for p in providers}
        self._routes = calls.rerouted(self._routes, registration, providers)
        registration.providers = providers
        registration.policies = policies
        self._bus.emit("llm/adapters-updated")

    def adapter_of(self, provider: str) -> Adapter | None:
        """The adapter that serves a provider now."""
        registration = calls.serving(self._routes, provider)
        return None if registration is None else registration.adapter

    def _find(self, provider: object) -> Registration:
        registration = calls.serving(self._routes, provider)
        if registration is None:
            raise _no_adapter(provider)
        return registration

    # Preparation

    async def prepare_call(self, config: Mapping[str, Any], signal: Signal) -> PreparedCall:
        """Bind a proposal to the adapter registered now, and fill in its defaults (M-411, M-412, M-420).

        The adapter and its policy are looked up before anything is awaited. Raises `LlmError`: `NO_ADAPTER`
        for an unknown provider (M-422), `INVALID_MODEL_*` for impossible model facts, `UNSUPPORTED_REASONING_EFFORT`.
        """
        found = calls.serving(self._routes, config.get("provider"))
        verb, _, call = calls.MACHINE.step(calls.MACHINE.call(calls.NEW, ("prepare", found or calls.NOBODY)))
        if verb == "leave":
            raise _no_adapter(config.get("provider"))
        registration: Registration = call.core.registration
        policy = registration.policies.get(config["provider"])
        proposal = freeze({key: config[key] for key in CONFIG_FIELDS if config.get(key) is not None})
        facts = await registration.adapter.resolve_model(proposal["provider"], proposal["model"], signal)
        check_facts(facts)
        filled, defaults = with_defaults(proposal, facts)
        call = calls.MACHINE.step(calls.MACHINE.resume(call, ("facts",))).config
        return PreparedCall(self, call, filled, defaults, policy, facts)

    # Streaming

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """The stream of a request that was not prepared: whoever serves its provider at the first pull (M-434)."""
        return self._open(request, None, None)

    def _open(
        self, request: Request, registration: Registration | None, prepared: PreparedCall | None
    ) -> AsyncIterator[Chunk]:
        if not self._bus.has("llm/stream"):
            return AdapterStream(self, request, registration, prepared)
        opened: list[AdapterStream] = []

        def base() -> AsyncIterator[Chunk]:
            stream = AdapterStream(self, request, registration, prepared)
            opened.append(stream)
            return stream

        outer = self._bus.wrap("llm/stream", request, base=base)
        return outer if opened and outer is opened[0] else _Wrapped(outer, opened)

    # Identity of loop requests

    def mark_loop_built(self, request: Any) -> None:
        """Remember this very object as built by a loop; copies of it are not (L-REQ-14)."""
        self._loop_built[id(request)] = request

    def is_loop_built(self, request: Any) -> bool:
        """Whether this very object was marked."""
        return self._loop_built.get(id(request)) is request


class AdapterStream:
    """The innermost stream: pulls an adapter and turns its failures into one terminal chunk (M-430 to M-432)."""

    __slots__ = ("_done", "_iterator", "_prepared", "_registration", "_request", "_service")

    def __init__(
        self,
        service: LlmService,
        request: Request,
        registration: Registration | None,
        prepared: PreparedCall | None,
    ) -> None:
        self._service = service
        self._request = request
        self._registration = registration
        self._prepared = prepared
        self._iterator: AsyncIterator[Chunk] | None = None
        self._done = False

    def __aiter__(self) -> AdapterStream:
        return self

    async def __anext__(self) -> Chunk:
        if self._done:
            raise StopAsyncIteration
        try:
            iterator = self._iterator
            if iterator is None:
                iterator = self._iterator = await self._dispatch()
            return freeze(await anext(iterator))
        except StopAsyncIteration:
            self._done = True
            raise
        except Exception as error:
            self._done = True
            return self._failed(error)

    async def _dispatch(self) -> AsyncIterator[Chunk]:
        request, registration = self._request, self._registration
        if self._prepared is not None and not isinstance(request, FrozenDict):
            self._prepared.verify(request)  # nobody can have changed a frozen request since it was verified
        if registration is None:
            registration = self._service._find(request.get("provider"))
            signal = request.get("signal") or Signal()
            facts = await registration.adapter.resolve_model(request["provider"], request["model"], signal)
            check_facts(facts)
            config = FrozenDict({key: request[key] for key in CONFIG_FIELDS if request.get(key) is not None})
            filled, _ = with_defaults(config, facts)
            if filled is not config:
                request = Request({**request, **filled})
        request = without_foreign_replay_state(request, registration.adapter, self._service.adapter_of)
        return aiter(registration.adapter.stream(request))

    def _failed(self, error: Exception) -> Chunk:
        failure = normalise_failure(error)
        signal = self._request.get("signal")
        aborted = failure["code"] == "ABORTED" or (signal is not None and signal.aborted)
        return finish("aborted" if aborted else "error", failure=failure)

    async def aclose(self) -> None:
        """Close the adapter's iterator and wait for that, unless it has ended by itself (M-432)."""
        if self._done:
            return
        self._done = True
        close = getattr(self._iterator, "aclose", None)
        if close is not None:
            await close()


class _Wrapped:
    """A stream that listeners have wrapped. Closing it closes the adapter too, also when a wrapper forgets."""

    __slots__ = ("_iterator", "_opened", "_stream")

    def __init__(self, stream: Any, opened: list[AdapterStream]) -> None:
        self._stream = stream
        self._opened = opened
        self._iterator: AsyncIterator[Chunk] | None = None

    def __aiter__(self) -> _Wrapped:
        return self

    async def __anext__(self) -> Chunk:
        if self._iterator is None:
            self._iterator = aiter(self._stream)
        return freeze(await anext(self._iterator))

    async def aclose(self) -> None:
        close = getattr(self._iterator or self._stream, "aclose", None)
        try:
            if close is not None:
                await close()
        finally:
            for stream in self._opened:
                await stream.aclose()
