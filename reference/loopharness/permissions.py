"""Who may call which tool: rules that allow, deny or ask, a person who answers, and answers that are remembered.

    permissions.install(harness, [Rule("read", "allow"), Rule("command", "deny", {"command": "rm *"})], asker=ask)

The plugin listens to `tools/pre-execute` and answers approvals of the pipeline (llm-and-tools 9.2, 9.3). The strictest
answer wins: what another listener denies stays denied, what another one wants to ask is asked. Every question and its
outcome stands in the session as `approval/asked` and `approval/decided`. When the turn is cancelled while a question is
open, the question is taken back and its outcome is `cancelled` (T-303).
"""

from __future__ import annotations

import fnmatch
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import anyio

from loopharness.bus import Context
from loopharness.frozen import FrozenDict, dumps
from loopharness.harness import Harness
from loopharness.tools.execution import Execution

__all__ = ["Answer", "Asker", "Permissions", "Question", "Rule", "Verdict", "install"]

Verdict: TypeAlias = Literal["allow", "deny", "ask"]
Answer: TypeAlias = Literal["once", "always", "no", "never"]
"""What a person says: this call, this and all like it, not this call, neither this nor any like it."""

Next = Callable[[], Awaitable[Any]]


class Rule(NamedTuple):
    """One rule: calls of tools with such a name, with such arguments, get this verdict.

    `tool` and the patterns in `where` are shell patterns (`*`, `?`, `[…]`). An argument that is no text is compared as
    JSON; one that is missing fits no pattern.
    """

    tool: str
    verdict: Verdict
    where: Mapping[str, str] = FrozenDict()
    reason: str = ""

    def fits(self, execution: Execution) -> bool:
        """Whether the rule speaks of this call."""
        if not fnmatch.fnmatchcase(execution.name, self.tool):
            return False
        arguments = execution.arguments if isinstance(execution.arguments, Mapping) else {}
        return all(
            name in arguments and fnmatch.fnmatchcase(_as_text(arguments[name]), pattern)
            for name, pattern in self.where.items()
        )


class Question(NamedTuple):
    """What a person is asked: may this agent make this call?"""

    agent: str
    tool: str
    arguments: Any
    reason: str


Asker: TypeAlias = Callable[[Question], Awaitable[Answer]]
"""Asks a person. Is cancelled, as a task, when the turn of the call is cancelled."""


class Permissions:
    """The mounted policy. Made by `install`.

    The first rule that fits a call decides. Where it says `ask`, answers that are remembered come first, the youngest
    before the others: they can spare a question, and never overrule a rule that denies. `exact` names the tools for
    which an answer is remembered with its very arguments: to allow one command for ever is not to allow every command.
    """

    def __init__(
        self, harness: Harness, rules: Iterable[Rule], default: Verdict, asker: Asker | None, exact: Sequence[str]
    ) -> None:
        self.rules: tuple[Rule, ...] = tuple(rules)
        self.remembered: tuple[Rule, ...] = ()
        self.default: Final[Verdict] = default
        self.asker = asker
        self._exact: Final = tuple(exact)
        self._harness: Final = harness
        self._one_at_a_time: Final = anyio.Lock()

    def rule_for(self, execution: Execution) -> Rule:
        """The rule that decides about a call."""
        rule = next((rule for rule in self.rules if rule.fits(execution)), Rule("*", self.default))
        return rule if rule.verdict != "ask" else self._remembered(execution) or rule

    async def decide(self, execution: Execution, next: Next) -> Any:
        """For `tools/pre-execute`."""
        rule = self.rule_for(execution)
        if rule.verdict == "deny":
            reason = f": {rule.reason}" if rule.reason else ""
            return {"kind": "deny", "reason": f'the permission policy denies tool "{execution.name}"{reason}'}
        decision = await next()
        if rule.verdict == "ask" and isinstance(decision, Mapping) and decision.get("kind") == "allow":
            return {"kind": "ask", "reason": rule.reason} if rule.reason else {"kind": "ask"}
        return decision

    async def approve(self, execution: Execution, reason: str | None) -> str:
        """For the pipeline: ask, and say what came of it (`allowed-once`, `rejected`, `cancelled`, `unavailable`)."""
        session = execution.agent.session  # type: ignore[attr-defined]  # the pipeline asks for agents only
        id = self._harness.new_id()
        asked = {"id": id, "toolName": execution.name, "callId": execution.call_id}
        session.append("approval/asked", {**asked, "reason": reason} if reason else asked)
        outcome = "unavailable"
        try:
            outcome = await self._outcome(execution, reason or "")
        finally:
            session.append("approval/decided", {"id": id, "outcome": outcome})
        return outcome

    async def _outcome(self, execution: Execution, reason: str) -> str:
        if self.asker is None:
            return "unavailable"
        question = Question(execution.agent.id, execution.name, execution.arguments, reason)  # type: ignore[attr-defined]
        answer: Answer | None = None
        with anyio.CancelScope() as scope:
            remove = execution.signal.on_abort(lambda _: scope.cancel())
            try:
                if execution.aborted:
                    return "cancelled"
                async with self._one_at_a_time:
                    answer = self._known(execution) or await self.asker(question)
            finally:
                remove()
        if answer is None:
            return "cancelled"
        if answer in ("always", "never"):
            self.remember(execution, "allow" if answer == "always" else "deny")
        return "allowed-once" if answer in ("once", "always") else "rejected"

    def _known(self, execution: Execution) -> Answer | None:
        """What an answer to an earlier question, still open when this one was put, says about this call."""
        rule = self._remembered(execution)
        return None if rule is None else "once" if rule.verdict == "allow" else "no"

    def _remembered(self, execution: Execution) -> Rule | None:
        return next((rule for rule in self.remembered if rule.fits(execution)), None)

    def remember(self, execution: Execution, verdict: Verdict) -> Rule:
        """Decide about calls like this one from now on, until the policy is unmounted."""
        where: dict[str, str] = {}
        if execution.name in self._exact and isinstance(execution.arguments, Mapping):
            where = {name: _literally(_as_text(value)) for name, value in execution.arguments.items()}
        reason = "" if verdict == "allow" else "the user said never"
        rule = Rule(_literally(execution.name), verdict, where, reason)
        self.remembered = (rule, *self.remembered)
        return rule


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value)


def _literally(text: str) -> str:
    """A pattern for exactly this text."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in text)


def install(
    harness: Harness,
    rules: Iterable[Rule] = (),
    *,
    default: Verdict = "ask",
    asker: Asker | None = None,
    exact: Sequence[str] = ("command",),
    context: Context | None = None,
) -> Permissions:
    """Mount a policy, until `context` (or the harness) ends. Without an asker, what would be asked is refused.

    Raises `ValueError` when approvals are answered by somebody else already.
    """
    if harness.pipeline.approval is not None:
        raise ValueError("approvals have somebody who answers them already; unmount that first")
    own = (context or harness.context).child("permissions")
    permissions = Permissions(harness, rules, default, asker, exact)
    own.on("tools/pre-execute", permissions.decide, prepend=True)
    harness.pipeline.approval = permissions.approve

    def release() -> None:
        harness.pipeline.approval = None

    own.effect(release, "approvals")
    return permissions
