"""Model requests within bounds: the attempts of a step, the call that each prepares, and everybody who interferes.

Three statements of the law run together here, each of them the one that the harness runs: the attempt rules of the
driver (`loopspec.attempt`), the call that is bound to a registration (`loopspec.calls`), and the folds over headers
(`loopspec.request`). Around them:

* listeners of `agent/request` set an effort or a cap, choose another provider, or leave none;
* adapters are removed, added and replaced, while a call is prepared and afterwards;
* the system prompt and the tools change between steps, plugins append to the surface and rewrite it;
* the request fails, is tried again, or is repaired by a smaller history;
* the turn is cancelled in any window and at any await point, a record is refused, a new loop takes the log up.

Payloads are small here: see `loopspec.worlds.request_scene`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from loopspec import attempt, calls, compaction
from loopspec import request as requests
from loopspec.calls import rerouted, serving
from loopspec.kernel.machine import (
    Activation,
    Answer,
    Config,
    Effect,
)
from loopspec.profile import Law
from loopspec.properties.claims import Claims, claims_for
from loopspec.properties.request import PROMISES, WITNESSES, Seen, watcher
from loopspec.values import Record
from loopspec.worlds.request_scene import (
    FACTS,
    LAST,
    OPTIONS,
    STEPS,
    Log,
    Own,
    Scene,
    Settings,
    Step,
    as_config,
    as_head,
    as_header,
    as_settings,
    as_tools,
)
from loopspec.worlds.world import Bound, Left, Node

Offer = tuple[tuple[Any, ...], Scene, str]
"""A label, the scene after it, and the budget that it spends."""


class RequestWorld:
    """The composition under one law within a bound, as a `loopspec.kernel.system.System`."""

    def __init__(self, law: Law, limits: Bound, memory: Any = (), advance: Any = None) -> None:
        self.law = law
        self.bound = limits
        self.memory = memory
        self.advance = advance
        self.machine = STEPS
        self._index = {name: at for at, (name, _) in enumerate(limits.budgets)}
        self._ids: dict[Any, Any] = {}

    def initial(self) -> Iterator[Node]:
        """A fresh session, between steps."""
        yield Node(Scene(Config(Step(self.law))), tuple(amount for _, amount in self.bound.budgets), self.memory)  # type: ignore[arg-type]

    def moves(self, node: Node) -> Iterator[tuple[Any, Node]]:
        """Everything that may happen next."""
        scene: Any = node.config
        for raw, after, price in self._offers(scene):
            left = self._paid(node.left, price)
            if left is not None:
                label = self._ids.setdefault(raw, raw)
                memory = node.memory if self.advance is None else self.advance(node.memory, label)
                yield label, Node(after, left, memory)  # type: ignore[arg-type]

    def is_final(self, node: Node) -> bool:
        """A run may stop between two steps."""
        scene: Any = node.config
        return not scene.loop.stack and not scene.loop.parked

    def is_cut(self, node: Node) -> bool:
        """Every step ends within the bound; only further steps are cut."""
        return False

    def _paid(self, left: Left, price: str) -> Left | None:
        if not price:
            return left
        at = self._index[price]
        return (*left[:at], left[at] - 1, *left[at + 1 :]) if left[at] else None

    # -- what happens

    def _offers(self, scene: Scene) -> Iterator[Offer]:
        loop = scene.loop
        if loop.stack:
            if loop.stack[-1].window != "closed":
                yield from self._interference(scene)
            yield from self._effects(scene)
        elif loop.parked:
            yield from self._interference(scene)
            yield from self._touches(scene)
            yield from self._answers(scene, loop.parked[0][0])
        else:
            yield from self._adapters(scene)
            yield from self._openings(scene)

    def _openings(self, scene: Scene) -> Iterator[Offer]:
        """A step begins; the prompt or the tools may be others, or a new loop has taken the log up."""
        yield ("open", "same"), self._opened(scene), "steps"
        prompt = scene._replace(system="s2" if scene.system == "s1" else "s1")
        tools = scene._replace(tools="t2" if scene.tools == "t1" else "t1")
        yield ("open", "prompt"), self._opened(prompt), "changes"
        yield ("open", "tools"), self._opened(tools), "changes"
        if scene.loop.core.step:
            core = scene.loop.core.put(headed=False)
            resumed = scene._replace(loop=scene.loop._replace(core=core), own=Own())
            yield ("open", "resumed"), self._opened(resumed), "resumes"

    def _opened(self, scene: Scene) -> Scene:
        late = self.law.admission_follows_preparation
        core = scene.loop.core.put(signal=attempt.LIVE, step=scene.loop.core.step + 1)
        batch = (core.step,) if late else ()
        log = scene.log if late else scene.log._replace(messages=scene.log.messages + 1)
        return scene._replace(loop=Config(core, (Activation(("attempt", batch), "closed", False),)), log=log)

    def _interference(self, scene: Scene) -> Iterator[Offer]:
        core = scene.loop.core
        if core.signal == attempt.LIVE:
            yield ("abort",), scene._replace(loop=scene.loop._replace(core=core.put(signal="user"))), "cancels"
        yield from self._adapters(scene)

    def _adapters(self, scene: Scene) -> Iterator[Offer]:
        """An adapter gives its route back, a new one takes a free route, or takes over from another in one go."""
        held = dict(scene.routes)
        for provider in ("a", "b"):
            holder = serving(held, provider)
            if holder is not None:
                routes = rerouted(held, holder, ())
                yield ("adapters", "remove", provider), scene._replace(routes=_sorted(routes)), "adapters"
                held_by_new = rerouted(routes, LAST, (provider,))
            else:
                held_by_new = rerouted(held, LAST, (provider,))
            if scene.made < LAST:
                after = scene._replace(routes=_sorted(held_by_new), made=LAST)
                yield ("adapters", "replace" if holder else "add", provider, LAST), after, "adapters"

    def _touches(self, scene: Scene) -> Iterator[Offer]:
        """A plugin changes the surface while the loop waits."""
        log = scene.log
        yield ("touch", "append"), scene._replace(log=log._replace(messages=log.messages + 1)), "touches"
        replaced = log._replace(messages=log.messages + 1, generation=log.generation + 1)
        yield ("touch", "replace"), scene._replace(log=replaced), "touches"

    # -- effects of the loop

    def _effects(self, scene: Scene) -> Iterator[Offer]:
        move = STEPS.step(scene.loop)
        after = scene._replace(loop=move.config)
        if move.verb != "append":
            yield from self._announced(after, move.verb, move.effect)
            return
        payload, log, own = self._record(scene, move.effect)
        yield ("append", *payload), after._replace(log=log, own=own), ""
        refusal = STEPS.refuse(scene.loop)
        yield ("refuse", *payload), scene._replace(loop=refusal.config), "refusals"

    def _announced(self, after: Scene, verb: str, effect: Effect) -> Iterator[Offer]:
        if effect == ("request",):
            own = after.own._replace(derived=after.log.messages, plan=None, failure="")
            head = None if after.log.head is None else as_header(after.log.head)
            seed = requests.seed(OPTIONS, head, headed=after.loop.core.headed)
            own = own._replace(proposal=as_settings(seed))
            yield ("park", "request", *own.proposal), after._replace(own=own, call=calls.NEW), ""
            return
        if effect[0] == "step":
            own = after.own._replace(plan=None, derived=0, proposal=("", "", "", 0), failure="")
            after = after._replace(own=own, call=calls.NEW)
        yield (verb, *effect), after, ""

    def _record(self, scene: Scene, effect: Effect) -> tuple[Effect, Log, Own]:
        """The payload of a record; the log with it, and what the loop still has to know of its attempt then."""
        log, own, name = scene.log, scene.own, effect[0]
        if name == "request/header":
            assert own.plan is not None
            head, series, _ = own.plan
            logged = None if log.head is None else as_header(log.head)
            reason = requests.header_reason(
                logged, as_header(head), first_of_instance=not effect[1], starts_series=series
            )
            return (name, str(reason), *head), log._replace(head=head), own
        if name == "request/context":
            assert own.plan is not None
            head, series, context = own.plan
            assert context is not None
            return (name, *context), log._replace(context=context), own._replace(plan=(head, series, None))
        if name == "system/message":
            return (name, scene.system), log._replace(prompt=scene.system, messages=log.messages + 1), own
        if name in ("user/message", "assistant/message"):
            return effect, log._replace(messages=log.messages + 1), own
        return effect, log, own

    # -- answers

    def _answers(self, scene: Scene, point: Effect) -> Iterator[Offer]:
        name = point[0]
        if name == "request":
            yield from self._proposals(scene)
        elif name == "prepare":
            yield from self._preparation(scene)
        elif name == "chunk" and scene.own.plan is not None:
            yield from self._sending(scene)
        elif name == "chunk":
            yield from self._chunks(scene, point[1])
        elif name == "close":
            yield self._answered(scene, point, ("closed", point[1]))
        else:
            yield from self._recovery(scene, point)

    def _answered(self, scene: Scene, point: Effect, answer: Answer, price: str = "") -> Offer:
        return ("answer", point, answer), scene._replace(loop=STEPS.resume(scene.loop, answer)), price

    def _proposals(self, scene: Scene) -> Iterator[Offer]:
        provider, model, effort, cap = scene.own.proposal
        chosen: Iterable[tuple[Settings, str]] = (
            ((provider, model, effort, cap), ""),
            ((provider, model, "high", cap), "listeners"),
            ((provider, model, effort, 10), "listeners"),
            (("b" if provider == "a" else "a", model, effort, cap), "listeners"),
            (("b" if provider == "a" else "a", model, "low", cap), "listeners"),
            (("", model, effort, cap), "listeners"),
        )
        for settings, price in chosen:
            if price and settings == scene.own.proposal:  # that is no choice
                continue
            if requests.route_refusal("main", as_config(settings)) is not None:
                loop = STEPS.resume(scene.loop, ("throws",))
                yield ("answer", "request", "throws"), scene._replace(loop=loop), price
                continue
            own = scene.own._replace(proposal=settings)
            after = scene._replace(loop=STEPS.resume(scene.loop, ("done",)), own=own)
            yield ("answer", "request", *settings), after, price

    def _preparation(self, scene: Scene) -> Iterator[Offer]:
        call = scene.call
        if not call.parked:
            found = serving(dict(scene.routes), scene.own.proposal[0]) or calls.NOBODY
            move = calls.MACHINE.step(calls.MACHINE.call(call, ("prepare", found)))
            after = scene._replace(call=move.config)
            if move.verb == "leave":  # NO_ADAPTER: the proposal stays as it is (L-REQ-8)
                after = self._planned(after, as_config(scene.own.proposal), {})
            yield ("prepare", found), after, ""
            return
        registration = call.core.registration
        facts, proposal = FACTS[registration], as_config(scene.own.proposal)
        config = {**proposal, **requests.supplied(proposal, facts)}
        if requests.supports_effort(config, facts):
            move = calls.MACHINE.step(calls.MACHINE.resume(call, ("facts",)))
            yield ("resolved", registration), self._planned(scene._replace(call=move.config), config, facts), ""
        move = calls.MACHINE.step(calls.MACHINE.resume(call, ("throws",)))
        after = scene._replace(call=move.config, loop=STEPS.resume(scene.loop, ("throws",)))
        yield ("unresolved", registration), after, "" if not requests.supports_effort(config, facts) else "faults"

    def _planned(self, scene: Scene, config: Record, facts: Record) -> Scene:
        """The preparation has ended: which records are due?"""
        log, own, core = scene.log, scene.own, scene.loop.core
        last = None
        if log.context is not None:
            provider, model, window = log.context
            last = {"provider": provider, "model": model, **({"contextWindow": window} if window else {})}
        planned = requests.plan(
            self.law,
            headed=core.headed,
            logged=None if log.head is None else as_header(log.head),
            last_context=last,
            config=config,
            defaults=requests.adapter_defaults(as_config(own.proposal), config),
            window=facts.get("window"),
            system=scene.system,
            tools=as_tools(scene.tools),
            generation=log.generation,
            last_generation=None if own.last_generation < 0 else own.last_generation,
        )
        due = planned.context
        context = None if due is None else (due["provider"], due["model"], due.get("contextWindow", 0))
        systems = int(self.law.streams_are_embedded and log.prompt != scene.system)
        answer = ("prepared", planned.changed, context is not None, systems)
        plan = (as_head(planned.header), planned.starts_series, context)
        return scene._replace(own=own._replace(plan=plan), loop=STEPS.resume(scene.loop, answer))

    def _sending(self, scene: Scene) -> Iterator[Offer]:
        """The first pull: the request is built, and goes to whoever serves it."""
        assert scene.own.plan is not None
        head, log = scene.own.plan[0], scene.log
        messages = log.messages if requests.derives_at_dispatch(self.law) else scene.own.derived
        built = requests.build_request(as_header(head), ({"id": messages},), "main")
        sent = (as_settings(built), built["messages"][0]["id"], built.get("system", ""), built["tools"][0]["name"])
        if scene.call.core.registration:
            move = calls.MACHINE.step(calls.MACHINE.call(scene.call, ("dispatch", False)))
            registration, call = move.effect[1], move.config
        else:
            registration, call = serving(dict(scene.routes), head.config[0]) or calls.NOBODY, scene.call
        own = scene.own._replace(plan=None, last_generation=log.generation)
        if registration == calls.NOBODY:
            own = own._replace(failure="NO_ADAPTER")
        yield ("send", registration, *sent), scene._replace(own=own, call=call), ""

    def _chunks(self, scene: Scene, started: bool) -> Iterator[Offer]:
        point = ("chunk", started)
        if scene.own.failure == "NO_ADAPTER":
            yield self._answered(scene, point, ("end", "failure", False, False))
            return
        if not started:
            yield self._answered(scene, point, ("chunk",))
        else:
            answered = scene._replace(own=scene.own._replace(repairs=0))
            yield self._answered(answered, point, ("end", "stop", False, True))
        for code in ("SERVER", compaction.OVERFLOW):
            failed = scene._replace(own=scene.own._replace(failure=code))
            label, after, _ = self._answered(failed, point, ("end", "failure", False, started))
            yield (*label, code), after, "failures"

    def _recovery(self, scene: Scene, point: Effect) -> Iterator[Offer]:
        """Nobody helps; a retry; or compaction, which makes the history smaller and may then ask for a retry."""
        log, aborted = scene.log, scene.loop.core.signal != attempt.LIVE
        failure, own = scene.own.failure, scene.own._replace(failure="")
        scene = scene._replace(own=own)
        yield self._answered(scene, point, ("none",))
        if failure == "SERVER":
            yield self._answered(scene, point, ("retry",))
        elif compaction.may_repair(failure, own.repairs, aborted, compaction.Settings()):
            for replaced in (False, True):
                smaller = log._replace(messages=log.messages + replaced, generation=log.generation + replaced)
                again = compaction.repaired(log.generation, smaller.generation, aborted)
                repairs = own.repairs + 1
                after = scene._replace(log=smaller, own=own._replace(repairs=repairs))
                label, after, _ = self._answered(after, point, ("retry",) if again else ("none",))
                yield ("repair", replaced, *label), after, ""


def _sorted(routes: dict[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(routes.items()))


def bound(name: str, **budgets: int) -> Bound:
    """A bound of the requests; what is not named is 0."""
    names = (
        "steps",
        "changes",
        "resumes",
        "listeners",
        "adapters",
        "touches",
        "failures",
        "cancels",
        "refusals",
        "faults",
    )
    unknown = sorted(set(budgets) - set(names))
    if unknown:
        raise KeyError(f"The requests have no budgets {unknown}. They have: {', '.join(names)}.")
    return Bound(name, tuple((budget, budgets.get(budget, 0)) for budget in names), 0)


ROUTES = bound("routes", steps=2, listeners=1, adapters=2)
"""Adapters come and go around two steps and one choice of a listener."""

HEADERS = bound("headers", steps=2, changes=1, resumes=1, listeners=2)
"""What headers say: two choices of listeners, one other prompt or tool list, one new loop over the same log."""

CHOICE = bound("choice", steps=2, changes=1, resumes=1, listeners=1)
"""The same with one choice: for faults."""

SURFACE = bound("surface", steps=2, touches=1, failures=2)
"""The surface changes under a request that fails and is tried again or repaired."""

FAULTS = bound("faults", steps=2, adapters=1, failures=1, cancels=1, refusals=1, faults=1)
"""One cancel in any window, one refused record, one adapter that does not answer."""

QUICK = bound("quick", steps=2, listeners=1, adapters=1, touches=1, failures=1)
"""A little of everything but cancels and faults."""

DEEP = bound("deep", steps=2, changes=1, resumes=1, listeners=1, adapters=1, touches=1, cancels=1)
"""By command only."""

BOUNDS = {one.name: one for one in (QUICK, ROUTES, HEADERS, CHOICE, SURFACE, FAULTS, DEEP)}


def world(law: Law, limits: Bound = ROUTES) -> RequestWorld:
    """The requests under a law, within limits, watched by a bystander."""
    return RequestWorld(law, limits, Seen(), watcher(law))


def bare_world(law: Law, limits: Bound) -> RequestWorld:
    """The same without the bystander."""
    return RequestWorld(law, limits)


def claims(law: Law, limits: Bound = ROUTES) -> Claims:
    """Everything that is checked of them."""
    return claims_for(law, PROMISES, WITNESSES, dict(limits.budgets))
