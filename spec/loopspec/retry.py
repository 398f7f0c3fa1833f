"""The retry of a failed model request: may it be tried again, when, and how often.

One machine serves one agent. The plugin that it drives listens to `agent/request-error`, inside the open step, and
asks `recover` for each failure; the failure's facts, the policy of whoever served the request, and one number between
0 and 1 from a random source are all that it gets. The routine ends with `("give", answer)`:

| answer | what the listener gives back |
|---|---|
| `retry` | another attempt, please |
| `none` | nothing: the failure stands |
| `downstream` | whatever the listeners behind this one gave, be it an answer or an error |
| `throws` | the error with which a record of it was refused |

**Await points**: `("downstream",)`, the listeners behind this one, with `retry`, `none` or `throws`; and
`("wait", milliseconds)`, the backoff, with `elapsed` or `cut`.

**Operations**: `recover <turn> <step> <provider> <policy> <code> <advised> <random> <aborted>`, a failure, where
`advised` is the time that the provider asked for (0 when it did not say), `random` the number from the random source
and `aborted` the signal as it is; `abort`, the signal of the turn was aborted; `dispose`, the plugin ends.

**Records**: `("llm/retry", chain, retry, milliseconds)` and `("llm/retry-started", chain, retry)`; the number of a
chain stands for its `retryId`, and everything else in their payload is what `recover` was given.

**Silent changes**: `("cut",)`: the running timer is to be stopped; `("warn",)`: a listener behind this one threw and
is overruled; `("drained",)`: the plugin has ended and nothing of it is under way.

Facts: llm-and-tools 6. Numbers are milliseconds and may have fractions; nothing is rounded (M-610).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from loopspec.kernel.machine import Answer, Config, Machine, Outcome, Rules, append, go, leave, note, park, state
from loopspec.profile import Law

LONGEST_DELAY = 2147483647
"""The longest time that a policy may name, in milliseconds (M-602)."""

RETRYABLE = ("EMPTY_RESPONSE", "RATE_LIMIT", "SERVER", "TIMEOUT", "TRANSPORT")
"""The codes that are tried again unless a policy says otherwise (3.1, M-602)."""

GROWTH = 1024
"""Delays stop doubling after so many steps, so that the number stays finite (M-610)."""


class Policy(NamedTuple):
    """How failures of one provider are tried again (M-602). In mode `always` the first two limits mean nothing."""

    mode: str = "normal"
    max_retries: int = 5
    codes: tuple[str, ...] = RETRYABLE
    initial: float = 500
    longest: float = 10000
    jitter: float = 0.1


Terms = tuple[Any, ...]
"""A policy as a plain tuple, or `NO_POLICY`: so it stands in the operation `recover`."""

NO_POLICY: tuple[()] = ()
"""The route was served by a listener of `llm/stream`: nobody gave it a policy (M-422)."""


def always(initial: float = 500, longest: float = 10000, jitter: float = 0.1) -> Policy:
    """The policy that never gives up (M-602, M-623)."""
    return Policy("always", 0, (), initial, longest, jitter)


def policy_refusal(policy: Policy) -> str | None:
    """Why a policy is out of bounds, or `None` (M-602)."""
    mode, most, codes, initial, longest, jitter = policy
    if mode not in ("normal", "always"):
        return f'mode must be "normal" or "always", not {mode!r}'
    for name, delay in (("initialDelayMs", initial), ("maxDelayMs", longest)):
        if not _is_number(delay) or not 0 < delay <= LONGEST_DELAY:
            return f"{name} must be above 0 and at most {LONGEST_DELAY}, not {delay!r}"
    if initial > longest:
        return f"initialDelayMs must not be above maxDelayMs: {initial!r} is above {longest!r}"
    if not _is_number(jitter) or not 0 <= jitter <= 1:
        return f"jitterRatio must be between 0 and 1, not {jitter!r}"
    if mode == "always":
        return None
    if type(most) is not int or not 0 <= most < 2**53:
        return f"maxRetries must be a whole number from 0, not {most!r}"
    if any(not isinstance(code, str) or not code for code in codes) or len(set(codes)) != len(codes):
        return f"retryableCodes must be different texts that are not empty, not {list(codes)!r}"
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def key_parts(policy: Policy) -> tuple[Any, ...]:
    """What the JSON text of a policy key holds, in order (M-603)."""
    mode, most, codes, initial, longest, jitter = policy
    numbers = (plain(initial), plain(longest), plain(jitter))
    return ("always", *numbers) if mode == "always" else ("normal", most, tuple(sorted(codes)), *numbers)


def plain(number: float) -> float:
    """A number without a fraction is written without one (H-11)."""
    return int(number) if number == int(number) else number


def local_delay(policy: Policy, retry: int, jitter: float) -> float:
    """The delay before a retry when the provider names none (M-610); `jitter` is drawn evenly from 0 to 1."""
    doublings = min(retry - 1, GROWTH)
    half = doublings // 2  # in two halves, each of which is still a number for a float
    grown = min(policy.initial * 2**half * 2 ** (doublings - half), policy.longest)
    spread = 1 - policy.jitter + 2 * policy.jitter * jitter
    delay: float = max(0, min(grown * spread, policy.longest))
    return delay


class Failure(NamedTuple):
    """What a decision needs of a failed attempt: whose it was, and the facts of the failure.

    `advised` is how long the provider asked to wait, 0 when it did not say.
    """

    provider: str
    policy: Policy | tuple[()]
    code: str
    advised: float


class Chain(NamedTuple):
    """The retries of one provider under one policy within one step (M-612). `number` stands for its `retryId`."""

    number: int
    provider: str
    policy: Policy
    retries: int


@state
class Retry(NamedTuple):
    """The core state."""

    law: Law
    over: bool = False
    """The plugin has ended."""
    active: bool = False
    """A recovery is under way."""
    aborted: bool = False
    """The signal of its turn is aborted."""
    waiting: bool = False
    """Its timer runs."""
    place: tuple[int, int] = (0, 0)
    """The turn and step that the chains belong to."""
    chains: tuple[Chain, ...] = ()
    opened: int = 0
    """How many chains there have been."""

    def put(self, **changes: Any) -> Retry:
        """A copy with some fields changed."""
        return self._replace(**changes)


rules = Rules()


# --- guards --------------------------------------------------------------------------------------------------


def cancelled(s: Retry) -> bool:
    """M-611  The turn was cancelled, or the plugin has ended."""
    return s.aborted or s.over


def is_retryable(policy: Policy, code: str) -> bool:
    """M-602  The policy names this failure."""
    return code in policy.codes


def chain_of(s: Retry, failure: Failure) -> Chain:
    """M-612  The chain that a failure continues, or the new one that it would begin."""
    for chain in s.chains:
        if (chain.provider, chain.policy) == (failure.provider, failure.policy):
            return chain
    assert failure.policy
    return Chain(s.opened + 1, failure.provider, failure.policy, 0)


def is_exhausted(chain: Chain) -> bool:
    """M-612, INV-R2  A normal policy has granted all it may."""
    return chain.policy.mode == "normal" and chain.retries >= chain.policy.max_retries


def is_beyond(policy: Policy, advised: float) -> bool:
    """M-602  The provider asks for more patience than the policy has."""
    return advised > policy.longest


def with_retry(s: Retry, chain: Chain) -> Retry:
    """The chains after one more retry was recorded."""
    others = [other for other in s.chains if other.number != chain.number]
    grown = chain._replace(retries=chain.retries + 1)
    return s.put(chains=tuple(sorted((*others, grown))), opened=max(s.opened, chain.number))


# --- operations from outside ---------------------------------------------------------------------------------


@rules("recover")
def recover(
    s: Retry,
    turn: int,
    step: int,
    provider: str,
    policy: Terms,
    code: str,
    advised: float,
    jitter: float,
    aborted: bool,
) -> Outcome[Retry]:
    """M-601, M-612, M-621  A failure of the open step. After the end of the plugin nobody is asked any more."""
    if s.over:
        return leave(s, ("give", "none"))
    if s.active:
        return leave(s, ("raise", "busy"))
    chains = s.chains if s.place == (turn, step) else ()
    s = s.put(active=True, aborted=aborted, place=(turn, step), chains=chains)
    failure = Failure(provider, Policy(*policy) if policy else NO_POLICY, code, advised)
    return go(s, ("classify", failure, jitter))


@rules("abort")
def abort(s: Retry) -> Outcome[Retry]:
    """M-622  The signal of the turn was aborted: a running backoff is cut."""
    s = s.put(aborted=True)
    if s.waiting:
        return note(s, ("cut",), ("done",))
    return go(s, ("done",))


@rules("dispose")
def dispose(s: Retry) -> Outcome[Retry]:
    """M-621  The plugin ends: a running backoff is cut, and whatever is under way is waited for."""
    s = s.put(over=True)
    if s.waiting:
        return note(s, ("cut",), ("done",))
    if not s.active:
        return note(s, ("drained",), ("done",))
    return go(s, ("done",))


@rules("done")
def done(s: Retry) -> Outcome[Retry]:
    """The operation has nothing more to do."""
    return leave(s, ("return", None))


# --- the decision --------------------------------------------------------------------------------------------


@rules("classify")
def classify(s: Retry, failure: Failure, jitter: float) -> Outcome[Retry]:
    """M-601, M-602, M-623  Without a policy, or for a code that it does not name, the others decide."""
    if not failure.policy:
        return go(s, ("delegate",))
    if failure.policy.mode == "always":
        if cancelled(s):
            return go(s, ("give", "none"))
        return park(s, ("downstream",), ("heard", failure, jitter))
    if not is_retryable(failure.policy, failure.code):
        return go(s, ("delegate",))
    return go(s, ("budget", failure, jitter))


@rules("delegate")
def delegate(s: Retry) -> Outcome[Retry]:
    """M-601  The listeners behind this one decide; whatever they say is passed on."""
    return park(s, ("downstream",), ("delegated",))


@rules("delegated")
def delegated(s: Retry, answer: Answer) -> Outcome[Retry]:
    """M-601  An answer or an error, as it is."""
    return go(s, ("give", "downstream"))


@rules("heard")
def heard(s: Retry, failure: Failure, jitter: float, answer: Answer) -> Outcome[Retry]:
    """M-623, RACE-18  Under `always` the others come first and are waited for; a cancel beats what they say."""
    if cancelled(s):
        return go(s, ("give", "none"))
    if answer[0] == "retry":
        return go(s, ("give", "downstream"))
    if answer[0] == "throws":
        return note(s, ("warn",), ("budget", failure, jitter))
    return go(s, ("budget", failure, jitter))


@rules("budget")
def budget(s: Retry, failure: Failure, jitter: float) -> Outcome[Retry]:
    """M-610, M-612  One more in its chain, after the time that the provider asked for or the policy works out."""
    chain = chain_of(s, failure)
    if is_exhausted(chain):
        return go(s, ("delegate",))
    if failure.advised and not is_beyond(chain.policy, failure.advised):
        return go(s, ("schedule", chain, failure.advised))
    if failure.advised and chain.policy.mode == "normal":
        return go(s, ("delegate",))
    return go(s, ("schedule", chain, local_delay(chain.policy, chain.retries + 1, jitter)))


@rules("schedule")
def schedule(s: Retry, chain: Chain, delay: float) -> Outcome[Retry]:
    """M-620, INV-R4  The retry is recorded before its wait; after a cancel nothing is."""
    if cancelled(s):
        return go(s, ("give", "none"))
    record = ("llm/retry", chain.number, chain.retries + 1, delay)
    return append(s, record, ("scheduled", chain, delay), ("give", "throws"))


@rules("scheduled")
def scheduled(s: Retry, chain: Chain, delay: float) -> Outcome[Retry]:
    """M-612, M-622  The record counts. An observer of it may have cancelled; then there is no timer."""
    s = with_retry(s, chain)
    if cancelled(s):
        return go(s, ("give", "none"))
    return park(s.put(waiting=True), ("wait", delay), ("waited", chain.number, chain.retries + 1))


@rules("waited")
def waited(s: Retry, number: int, retry: int, answer: Answer) -> Outcome[Retry]:
    """M-622, RACE-16  A wait that was cut starts nothing; of a tie between timer and cancel the law knows."""
    s = s.put(waiting=False)
    if answer[0] == "cut" or (s.law.cancel_wins_backoff_tie and cancelled(s)):
        return go(s, ("give", "none"))
    return go(s, ("start", number, retry))


@rules("start")
def start(s: Retry, number: int, retry: int) -> Outcome[Retry]:
    """INV-R3  The start of the next attempt is recorded, and the attempt is granted."""
    return append(s, ("llm/retry-started", number, retry), ("give", "retry"), ("give", "throws"))


@rules("give")
def give(s: Retry, answer: str) -> Outcome[Retry]:
    """M-621  The recovery is over; a plugin that has ended in the meantime is now drained."""
    s = s.put(active=False, aborted=False)
    if s.over:
        return note(s, ("drained",), ("answer", answer))
    return go(s, ("answer", answer))


@rules("answer")
def answered(s: Retry, answer: str) -> Outcome[Retry]:
    """The listener gives its answer."""
    return leave(s, ("give", answer))


MACHINE: Machine[Retry] = Machine(rules)


def initial(law: Law) -> Config[Retry]:
    """The retries of an agent, before its first failure."""
    return Config(Retry(law))


def resumed(law: Law, place: tuple[int, int], chains: tuple[tuple[str, Policy, int], ...]) -> Config[Retry]:
    """The retries of an agent whose open step has had some already: provider, policy and count of each chain (M-612).

    Chains are numbered in the order given.
    """
    known = tuple([Chain(number, *chain) for number, chain in enumerate(chains, 1)])
    return Config(Retry(law, place=place, chains=known, opened=len(known)))
