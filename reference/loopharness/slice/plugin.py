"""Mounting the slice policy, and what it does at each point of a turn (2.1, 5.1, 6.).

At a pre-step, from the inside out: the decision is made downstream; the tape looks at the signal, at the step cap,
and at a first step seals; the folder, outermost, folds what has landed if the step is entered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

from loopharness.frozen import FrozenDict
from loopharness.harness import Harness
from loopharness.session import Session
from loopharness.slice.spill import SpillStore
from loopharness.slice.state import SessionTape
from loopharness.slice.tools import recall_tools
from loopharness.tools.execution import Execution
from loopspec.profile import law
from loopspec.tape import config as settings_of
from loopspec.tape import fold, spill
from loopspec.tape.config import SliceConfig
from loopspec.tape.digest import Source
from loopspec.tape.recall import RECALL_TOOLS

__all__ = ["SlicePlugin", "install"]

_log = logging.getLogger("loopharness")

Next = Callable[[], Any]

KERNEL: Final = (
    "Earlier turns of this conversation are kept as [slice tape v1 …] entries: what you said, verbatim, and locators "
    "for what your tools returned. They are a record of what happened then, not a new request and not the present "
    "state of the world. recall_turn, recall_step, recall_search and expand_result return the originals. What you "
    "cannot see is unknown, not false: recall before you deny that something was said or done."
)
AFFORDANCE: Final = (
    "Long tool results may be shown condensed; the first line then says what kind of text it is, how many lines were "
    "kept, and which expand_result call returns the full text. Source code and errors are never condensed. Prefer "
    "expand_result with grep or lines when you need a part."
)
AFFORDANCE_STEP: Final = " recall_step shows all calls and results of a step."


def install(
    harness: Harness, settings: Mapping[str, Any] | None = None, spill_folder: Path | None = None
) -> SlicePlugin:
    """Mount the policy beside the stock loop of a harness, until `dispose` or the end of the harness.

    `settings` are those of a composition (`loopspec.tape.config`). Full texts of very long results are stored
    below `spill_folder`; without one they stay in the log. Raises `ConfigError` for bad settings and `ValueError`
    when one of the tools is already registered; then nothing is mounted.
    """
    config = settings_of.parse(settings)
    plugin = SlicePlugin(harness, config, None if spill_folder is None else SpillStore(spill_folder))
    plugin._mount()
    return plugin


class SlicePlugin:
    """The mounted policy. Made by `install`."""

    def __init__(self, harness: Harness, config: SliceConfig, store: SpillStore | None) -> None:
        self.config: Final = config
        self._harness = harness
        self._store = store
        self._tapes: WeakKeyDictionary[Session, SessionTape] = WeakKeyDictionary()
        self._context = harness.context.child("slice policy")
        self._undo: list[Callable[[], None]] = []
        self._told: set[str] = set()

    def _mount(self) -> None:
        """Tools first: a name that is taken is found before anything listens (CF-12)."""
        harness, context, undo = self._harness, self._context, self._undo
        try:
            for tool in recall_tools(self._tape_of, self._store):
                undo.append(harness.tools.register(tool, context))
            undo.append(harness.prompt.section(context, "slice:kernel", -1200, KERNEL))
            undo.append(context.on("agent/pre-step", self._seal))
            undo.append(context.on("agent/request", self._effort))
            if self.config.fold.enabled:
                undo.append(harness.prompt.section(context, "fold:affordance", -900, self._affordance))
                undo.append(context.on("agent/pre-step", self._fold, prepend=True))
                undo.append(context.on("tools/post-execute", self._spill))
        except BaseException:
            for take_back in reversed(undo):
                take_back()
            raise

    async def dispose(self) -> None:
        """Take everything back; sessions keep what was written, and run on without the policy (RE-62)."""
        await self._context.dispose()

    def tape(self, session: Session) -> SessionTape:
        """What the policy knows about a session; made when first asked for."""
        tape = self._tapes.get(session)
        if tape is None:
            choices = law(self._harness.profile, 4)
            tape = self._tapes[session] = SessionTape(session, self.config, choices, self._store)
        return tape

    def _tape_of(self, execution: Execution) -> SessionTape | None:
        session = getattr(execution.agent, "session", None)
        return self.tape(session) if isinstance(session, Session) else None

    def _warn(self, session: Session, text: str) -> None:
        _log.warning("%s", text, extra={"session": session.id})

    # -- the step boundary

    async def _seal(self, payload: Mapping[str, Any], next: Next) -> Any:
        """TP-08, CF-20"""
        decision = await next()
        session, signal, cap = payload["agent"].session, payload["signal"], self.config.max_steps_per_turn
        course = settings_of.course(decision["kind"], payload["step"], aborted=signal.aborted, cap=cap)
        if course == "raise":
            signal.check()
        elif course == "stop":
            assert cap is not None
            self._warn(session, settings_of.cap_warning(cap))
            return {"kind": "reject"}
        elif course == "seal" and session.dialect == "v4":
            self.tape(session).seal(decision["messages"], lambda text: self._warn(session, text))
        return decision

    async def _fold(self, payload: Mapping[str, Any], next: Next) -> Any:
        """FD-01"""
        session = payload["agent"].session
        if session.dialect != "v4":
            return await next()
        folder = self.tape(session).folder
        decision = await next()
        if decision["kind"] == "enter" and not payload["signal"].aborted:
            folder.run()
        return decision

    # -- the request

    async def _effort(self, payload: Mapping[str, Any], next: Next) -> Any:
        """CF-30"""
        proposal = await next()
        configured, chosen = self.config.default_reasoning_effort, proposal.get("reasoningEffort")
        if configured == "inherit" or chosen is not None:
            return proposal
        declared = await self._declared(proposal.get("provider"), proposal.get("model"), payload["signal"])
        if settings_of.injects(configured, chosen, declared):
            return FrozenDict({**proposal, "reasoningEffort": configured})
        route = f"{proposal.get('provider')}/{proposal.get('model')}"
        if declared is not None and settings_of.lacks(configured, chosen, declared) and route not in self._told:
            self._told.add(route)
            self._warn(payload["agent"].session, settings_of.effort_warning(configured, route, declared))
        return proposal

    async def _declared(self, provider: Any, model: Any, signal: Any) -> tuple[str, ...] | None:
        """The efforts that the model declares; `None` when nobody knows."""
        adapter = self._harness.llm.adapter_of(provider)
        if adapter is None:
            return None
        try:
            facts = await adapter.resolve_model(provider, model, signal)
        except Exception:
            return None
        return tuple((facts.get("reasoning") or {}).get("efforts") or ())

    # -- results

    async def _spill(self, execution: Execution, result: FrozenDict, next: Next) -> Any:
        """FD-50  Any failure leaves the result as it is."""
        decision = await next()
        if decision.get("kind") != "accept" or "content" in decision or "value" in decision or result["isError"]:
            return decision
        tape = self._tape_of(execution)
        if tape is None or tape.session.dialect != "v4":
            return decision
        if execution.name in RECALL_TOOLS:
            return {**decision, "value": result["value"]}
        core = getattr(execution.agent, "core", None)
        if core is None or execution.parent is not None or self._store is None:
            return decision
        place = (core.turn, core.step, execution.call_id)
        index = tape.folder.advance()
        evidence = tape.folder.evidence_of(index.seq_of_call(*place, index.length))
        text, size = fold.spill_size(result["content"])
        if fold.forwards(text, evidence):
            return {**decision, "value": result["value"]}
        content = await self._stored(tape, execution, result, place, text, size)
        return decision if content is None else {**decision, "content": content}

    async def _stored(
        self,
        tape: SessionTape,
        execution: Execution,
        result: FrozenDict,
        place: tuple[int, int, str],
        text: str,
        size: int,
    ) -> list[Any] | None:
        limit = self.config.fold.spill_preview_min_bytes
        if self._store is None or not limit or size < limit or size != len(text.encode("utf-8", "ignore")):
            return None
        scope = fold.scope_of(execution.name, execution.arguments)
        arguments = execution.arguments if isinstance(execution.arguments, Mapping) else {}
        source = Source(execution.name, fold.path_of(arguments))
        subject = fold.Subject(-1, place[0], place[1], 1, source, scope)
        if scope in tape.folder.backed_off or fold.pinned(subject, result["content"], self.config.fold):
            return None
        found = fold.spill_digest(text, source, self.config.digest)
        if found is None:
            return None
        locator = self._store.locator(tape.session.id, place, execution.name)
        preview = fold.spill_view(source, found, size, locator, "expand_result returns it")
        if spill.fold_preview(preview) != (locator, size):
            return None
        try:
            await self._store.write(locator, text)
        except OSError as error:
            self._warn(tape.session, f"slice tape: a long result of {execution.name} could not be stored: {error}")
            return None
        others = [block for block in result["content"] if block["type"] != "text"]
        return [*others, {"type": "text", "text": preview}]

    def _affordance(self, about: Mapping[str, Any]) -> str:
        visible = self._harness.tools.get("recall_step", about.get("scope")) is not None
        return AFFORDANCE + (AFFORDANCE_STEP if visible else "")
