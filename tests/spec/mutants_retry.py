"""One named fault for every guard and branch of the retries, explored with the retries alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.spec import mutation
from tests.spec.mutation import Mutant

from loopspec import retry
from loopspec.worlds import retry_world
from loopspec.worlds.retry_world import CHAINS, bound

WORLD = retry_world
BOUNDS = {
    "one": bound("one", failures=1, steps=1, cancels=1, ends=1, refusals=1),
    "two": bound("two", depth=1, failures=2, steps=2, ends=1, doubles=1),
    "chains": CHAINS,
}

M = Mutant
MUTANTS: tuple[Mutant, ...] = (
    M("a cancel is not a cancel", "cancelled", "s.aborted or s.over", "s.over", "Only the end counts.", "INV-R9"),
    M("an end is not a cancel", "cancelled", "s.aborted or s.over", "s.aborted", "Only a cancel counts.", "INV-R9"),
    M("every code is tried again", "is_retryable", "code in policy.codes", "True", "AUTH is tried again.", "M-602"),
    M("no code is tried again", "is_retryable", "code in policy.codes", "False", "SERVER is handed on.", "M-612"),
    M("one too many", "is_exhausted", "chain.retries >=", "chain.retries >", "The maximum is passed.", "INV-R2", "two"),
    M("one too few", "is_exhausted", "chain.retries >=", "chain.retries + 1 >=", "The last is kept.", "M-612"),
    M("always is counted", "is_exhausted", 'chain.policy.mode == "normal" and ', "", "No mode is asked.", "M-601"),
    M("patience has a strict end", "is_beyond", "advised >", "advised >=", "The longest is too long.", "INV-R5"),
    M("patience without end", "is_beyond", "advised > policy.longest", "False", "Any advice is taken.", "INV-R5"),
    M("no patience", "is_beyond", "advised > policy.longest", "True", "No advice is taken.", "M-612"),
    M(
        "one chain a provider",
        "chain_of",
        "(chain.provider, chain.policy) == (failure.provider, failure.policy)",
        "chain.provider == failure.provider",
        "A new policy continues the old chain.",
        "INV-R1",
        "two",
    ),
    M(
        "one chain a policy",
        "chain_of",
        "(chain.provider, chain.policy) == (failure.provider, failure.policy)",
        "chain.policy == failure.policy",
        "Two providers with equal policies share a chain.",
        "M-612",
        "two",
    ),
    M("a chain's number again", "chain_of", "s.opened + 1", "1", "All chains have one id.", "INV-R1", "two"),
    M("numbers leave gaps", "chain_of", "s.opened + 1", "s.opened + 2", "Ids are left out.", "INV-R1 ids"),
    M("nothing is counted", "with_retry", "chain.retries + 1", "chain.retries", "Always the first.", "INV-R1", "two"),
    M(
        "one chain is remembered",
        "with_retry",
        "(*others, grown)",
        "(grown,)",
        "Another provider erases the chains.",
        "INV-R1",
        "chains",
    ),
    M("asks after the end", "recover", "if s.over:", "if False:", "A kept callback still works.", "M-621 asks", "two"),
    M(
        "two at once",
        "recover",
        "if s.active:",
        "if False:",
        "A second recovery begins inside the first.",
        "M-621 single",
        "two",
    ),
    M(
        "chains outlive their step",
        "recover",
        "s.chains if s.place == (turn, step) else ()",
        "s.chains",
        "A new step continues the old count.",
        "INV-R1",
        "two",
    ),
    M(
        "chains end with every failure",
        "recover",
        "s.chains if s.place == (turn, step) else ()",
        "()",
        "Each failure is the first.",
        "INV-R1",
        "two",
    ),
    M(
        "the signal is not looked at",
        "recover",
        "aborted=aborted",
        "aborted=False",
        "A recovery under an aborted signal begins as usual.",
        "M-621 asks",
    ),
    M("a cancel leaves the timer", "abort", "if s.waiting:", "if False:", "The timer runs on.", "INV-R10 cut"),
    M("a cancel is forgotten", "abort", "aborted=True", "aborted=False", "Nothing is remembered.", "INV-R9"),
    M("an end leaves the timer", "dispose", "if s.waiting:", "if False:", "The timer runs on.", "INV-R10 cut"),
    M("an end is forgotten", "dispose", "over=True", "over=False", "Nothing is remembered.", "M-621"),
    M("drained too early", "dispose", "if not s.active:", "if True:", "Work goes on after it.", "M-621"),
    M("never drained", "dispose", "if not s.active:", "if False:", "An idle plugin never ends.", "M-621"),
    M("always is normal", "classify", 'failure.policy.mode == "always"', "False", "They are heard alone.", "M-601"),
    M(
        "always asks although cancelled",
        "classify",
        "        if cancelled(s):\n            return go(s, (\"give\", \"none\"))\n",
        "",
        "The listeners behind run under an aborted signal.",
        "M-621 asks",
    ),
    M("a cancel does not beat the others", "heard", "if cancelled(s):", "if False:", "Their retry wins.", "M-601"),
    M("the others do not win", "heard", 'if answer[0] == "retry":', "if False:", "Both retry.", "M-623"),
    M("silent overruling", "heard", 'if answer[0] == "throws":', "if False:", "No warning.", "M-623"),
    M("no budget", "budget", "if is_exhausted(chain):", "if False:", "Nothing is ever exhausted.", "INV-R2", "two"),
    M("advice is not taken", "budget", "if failure.advised and not", "if False and not", "Worked out.", "INV-R5"),
    M(
        "normal has no patience to spend",
        "budget",
        'if failure.advised and chain.policy.mode == "normal":',
        "if False:",
        "Too long an advice is replaced by the own delay.",
        "M-602",
    ),
    M(
        "always has no delay of its own",
        "budget",
        'if failure.advised and chain.policy.mode == "normal":',
        "if failure.advised:",
        "Too long an advice is handed on.",
        "M-601 once",
    ),
    M("the delay lags", "budget", "chain.retries + 1, jitter", "chain.retries, jitter", "One behind.", "INV-R5"),
    M("no growth", "local_delay", "retry - 1, GROWTH", "0, GROWTH", "Always the first delay.", "INV-R5", "two"),
    M("no last limit", "local_delay", "min(grown * spread, policy.longest)", "grown * spread", "Above.", "INV-R5",
      "chains"),
    M("no chance", "local_delay", "2 * policy.jitter * jitter", "policy.jitter", "No spread.", "INV-R5"),
    M("a cancel is recorded as a retry", "schedule", "if cancelled(s):", "if False:", "One more record.", "INV-R9"),
    M("an observer's cancel is missed", "scheduled", "if cancelled(s):", "if False:", "The timer begins.", "INV-R9"),
    M("the record does not count", "scheduled", "with_retry(s, chain)", "s", "Every retry is the first.", "INV-R1",
      "two"),
    M("a timer that nobody knows", "scheduled", "waiting=True", "waiting=False", "It is not cut.", "INV-R10 cut"),
    M("a timer that never ends", "waited", "waiting=False", "waiting=s.waiting", "It is cut again.", "INV-R10 cut"),
    M("a cut wait starts", "waited", 'answer[0] == "cut" or ', "", "Nothing, where the tie is looked at.",
      "equivalent"),
    M("a cut wait starts anyway", "waited", 'answer[0] == "cut" or ', "", "An attempt is announced.", "M-622 cut",
      profile="dsh-0.1"),
    M("ties are ignored", "waited", "s.law.cancel_wins_backoff_tie and ", "False and ", "It starts.", "INV-R9 tie"),
    M("starts another", "start", '"llm/retry-started", number, retry', '"llm/retry-started", number, retry + 1',
      "The record names another retry.", "INV-R3"),
    M("grants without a record", "start", ', ("give", "throws"))', ', ("give", "retry"))', "A refused start.", "M-601"),
    M("stays active", "give", "active=False", "active=True", "Never drained after it.", "M-621"),
    M("the end is not told", "give", "if s.over:", "if False:", "Nobody learns that it is drained.", "M-621"),
)  # fmt: skip


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """Put a mutant in place, and take it out again."""
    with mutation.applied(mutant, {"retry": retry.rules}, {"retry": retry}):
        yield
