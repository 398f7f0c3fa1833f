"""The payload side of model attempts: proposal, preparation, request, stream, settlement.

What is computed here comes from the folds of the spec (`loopspec.request`, `loopspec.stream`, …); what is
*decided* is decided by the driver machine, which gets the facts as the answer of an await point.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from loopharness.frozen import FrozenDict, freeze
from loopharness.model.failure import LlmError
from loopharness.model.service import PreparedCall, Request
from loopharness.prompt import Assembled
from loopharness.signal import Signal
from loopspec import request as requests
from loopspec import stream, system_prompt
from loopspec.kernel.machine import Answer
from loopspec.kernel.prefix import Prefix
from loopspec.log.packed import TimedChunk, pack_stream
from loopspec.values import Record

if TYPE_CHECKING:
    from loopharness.agent.agent import Agent

__all__ = ["Attempts"]


class Attempts:
    """The attempts of one agent, one at a time. Each await point of an attempt is one method."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._session = agent.session
        self._embedded = agent.law.streams_are_embedded
        self._generation: int | None = None
        """The surface generation at the last request (S-REQ-21)."""
        self._streams = 0
        self._revision = 0
        # The attempt in progress.
        self.assembled: Assembled
        """The prompt of this step; its sections are rendered inside the step (L-PRE-7)."""
        self._messages: Prefix[Record] = Prefix()
        self._config: FrozenDict = freeze({})
        self._prepared: PreparedCall | None = None
        self._plan = requests.Plan({}, False, False, None)
        self._system_changes: list[system_prompt.Change] = []
        self._pull: AsyncIterator[FrozenDict] | None = None
        self.chunk: FrozenDict = freeze({})
        self._assembly = stream.EMPTY
        self._chunks: list[TimedChunk] = []
        self._sources: list[int] = []
        self._settlement: stream.Settlement | None = None
        self._failure: FrozenDict = freeze({})

    # -- await points

    async def request(self, turn: int, step: int, signal: Signal) -> Answer:
        """`W: agent/request` proposes the call (L-REQ-1, L-REQ-3 to L-REQ-6)."""
        self._reset()
        self._messages = self._session.messages
        logged = self._logged()
        options = self._agent.options
        frozen = freeze(dict(requests.seed(options.as_record(), logged, headed=self._agent.core.headed)))
        payload = {"turn": turn, "step": step, "signal": signal}
        config = await self._agent.events.waterfall("agent/request", payload, base=lambda: frozen)
        self._config = freeze(dict(config))
        refusal = requests.route_refusal(self._session.id, self._config)
        if refusal is not None:
            raise RuntimeError(refusal)
        return ("done",)

    async def prepare(self, signal: Signal) -> Answer:
        """Bind the call to one registration, and say which records that makes due (L-REQ-7 to L-REQ-11)."""
        config, defaults, window = self._config, None, None
        try:
            prepared = self._prepared = await self._agent.services.llm.prepare_call(config, signal)
            config, defaults = prepared.config, prepared.adapter_defaults
            window = None if prepared.context is None else prepared.context.get("contextWindow")
        except LlmError as error:
            if error.code != "NO_ADAPTER":
                raise
        last_context = self._session.last("request/context")
        plan = self._plan = requests.plan(
            self._agent.law,
            headed=self._agent.core.headed,
            logged=self._logged(),
            last_context=None if last_context is None else last_context["data"],
            config=config,
            defaults=defaults,
            window=window,
            system=self.assembled.system,
            tools=self.assembled.tools,
            generation=self._session.surface.generation,
            last_generation=self._generation,
        )
        if self._embedded:
            nodes = system_prompt.system_nodes(self._session.surface)
            changes = system_prompt.reconcile(nodes, self.assembled.system, in_history=False, continues_series=False)
            self._system_changes = list(changes)
        return ("prepared", plan.changed, plan.context is not None, len(self._system_changes))

    async def pull(self, signal: Signal) -> Answer:
        """The next chunk of the stream; the first pull dispatches the request (L-REQ-13, L-STR-1)."""
        try:
            if self._pull is None:
                self._pull = self._dispatch(signal)
            self.chunk = await anext(self._pull)
        except StopAsyncIteration:
            return self._end(signal)
        except Exception as error:
            self._agent.failure = error
            return ("throws", self._visible())
        return ("chunk",)

    async def close(self) -> Answer:
        """Close the adapter's iterator and wait for that (L-STR-2)."""
        closing = getattr(self._pull, "aclose", None)
        if closing is not None:
            await closing()
        return ("closed", self._visible())

    async def recover(self, turn: int, step: int, signal: Signal) -> Answer:
        """`W: agent/request-error` may ask for another attempt (L-ERR-1, L-ERR-2)."""
        policy = None if self._prepared is None else self._prepared.retry_policy
        payload = {
            "turn": turn,
            "step": step,
            "provider": self.header["config"]["provider"],
            "failure": self._failure,
            "retryPolicy": policy,
            "signal": signal,
        }
        answer = await self._agent.events.waterfall("agent/request-error", payload, base=lambda: None)
        retry = isinstance(answer, Mapping) and answer.get("kind") == "retry"
        return ("retry",) if retry else ("none",)

    # -- records

    @property
    def header(self) -> Record:
        """The header of this attempt."""
        return self._plan.header

    @property
    def context(self) -> Record | None:
        """The payload of the context record that is due."""
        return self._plan.context

    def header_data(self, headed: bool) -> Record:
        """The payload of `request/header` (S-REQ-5)."""
        header, _, series, _ = self._plan
        reason = requests.header_reason(self._logged(), header, first_of_instance=not headed, starts_series=series)
        assert reason is not None, "the machine writes a header only when one is due"
        return requests.header_record(reason, header, starts_series=series)

    def next_system_change(self) -> system_prompt.Change:
        """The next change of the system prompt on the surface, in order (S-REQ-20)."""
        return self._system_changes.pop(0)

    def take_chunk(self, time: int, seq: int | None) -> None:
        """The published chunk counts: assemble it (L-STR-1). `seq` is its record's, where it has one."""
        self._assembly = stream.absorb(self._assembly, self.chunk)
        if seq is None:
            self._chunks.append(TimedChunk(time, self.chunk))
        else:
            self._sources.append(seq)

    def settled(self) -> tuple[dict[str, Any], list[int] | None]:
        """The payload of the anchor and its sources (L-STR-4)."""
        assert self._settlement is not None
        return self._anchor(self._settlement, keep_replay=True)

    def interrupted(self) -> tuple[dict[str, Any], list[int] | None]:
        """The payload of an interrupted anchor and its sources (L-STR-9)."""
        data, sources = self._anchor(stream.settle_interrupted(self._assembly), keep_replay=self._embedded)
        return {**data, "interrupted": True}, sources

    def stream_record(self) -> tuple[Record, ...]:
        """The stream as it is stored inside a settlement record (S-CHK-20)."""
        return pack_stream(self._chunks)

    def frame(self) -> dict[str, Any]:
        """What every live stream frame carries: the attempt, and the next revision (VS-2)."""
        self._revision += 1
        return {"attemptId": f"{self._session.id}:{self._streams}", "revision": self._revision}

    @property
    def chunk_count(self) -> int:
        """How many chunks of this stream were published (VS-3)."""
        return len(self._chunks)

    def open_stream(self) -> None:
        """A stream begins: its frames get a new attempt id (VS-2)."""
        self._streams += 1

    @property
    def calls(self) -> tuple[Record, ...]:
        """The tool calls of the settled answer, in model order."""
        return () if self._settlement is None else stream.tool_calls(self._settlement.content)

    # -- inside

    def _reset(self) -> None:
        self._prepared = None
        self._pull = None
        self._assembly = stream.EMPTY
        self._chunks = []
        self._sources = []
        self._settlement = None
        self._system_changes = []

    def _logged(self) -> Record | None:
        header = self._session.header_record
        return None if header is None else requests.canonical_header(header)

    def _dispatch(self, signal: Signal) -> AsyncIterator[FrozenDict]:
        """Freeze the request, mark this very object, and send it (L-REQ-13, L-REQ-14, VD-06)."""
        late = requests.derives_at_dispatch(self._agent.law)
        messages = self._session.messages if late else self._messages
        self._generation = self._session.surface.generation
        fields = requests.build_request(self.header, messages, self._session.id)
        request = Request.of(fields, signal)
        llm = self._agent.services.llm
        llm.mark_loop_built(request)
        return llm.stream(request) if self._prepared is None else self._prepared.stream(request)

    def _end(self, signal: Signal) -> Answer:
        failure = stream.failure(self._assembly)
        if failure is not None:
            return self._failed(failure)
        try:
            settlement = stream.settle(self._assembly)
        except stream.AssemblyError as error:
            self._agent.failure = error
            return ("throws", self._visible())
        if self._agent.law.adapter_call_ids_are_checked:
            failure = stream.call_ids_failure(settlement.content)
            if failure is not None:
                return self._failed(failure)
        self._settlement = settlement
        finish = settlement.finish["kind"]
        visible = signal.aborted and self._visible()
        return ("end", "max-tokens" if finish == "max-tokens" else "stop", bool(self.calls), visible)

    def _failed(self, failure: Record) -> Answer:
        """The attempt has failed; whoever recovers gets these facts (L-STR-11)."""
        self._failure = freeze(dict(failure))
        self._agent.failure = LlmError.of(self._failure)
        return ("end", "failure", False, self._visible())

    def _visible(self) -> bool:
        return bool(stream.settle_interrupted(self._assembly).content)

    def _anchor(self, settlement: stream.Settlement, keep_replay: bool) -> tuple[dict[str, Any], list[int] | None]:
        config = self.header["config"]
        source = {"kind": "model", "provider": config["provider"], "model": config["model"]}
        if keep_replay and settlement.replay_state is not None:
            source["replayState"] = settlement.replay_state
        id = self._agent.services.new_id()
        message = {"role": "assistant", "content": settlement.content, "source": source, "id": id}
        core = self._agent.core
        data: dict[str, Any] = {"turn": core.turn, "step": core.step, "message": message}
        if settlement.usage is not None:
            data["usage"] = settlement.usage
        if self._embedded:
            data["stream"] = self.stream_record()
            return data, None
        return data, self._sources
