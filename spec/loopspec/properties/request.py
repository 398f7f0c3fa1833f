"""What is promised of model requests, judged by records, answers and the requests that leave.

The bystander folds the log for itself, from the labels: the last header, the last context, the changes of the
surface. `INV-L4`, `INV-L5` and `INV-R6` to `INV-R9`, `INV-R11` are invariants of the requirements; the other retry
invariants are about the retries alone (`loopspec.properties.retry`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from loopspec.kernel.claims import Answer
from loopspec.kernel.machine import state
from loopspec.profile import Law
from loopspec.properties.claims import Promise, Witness

Label = tuple[Any, ...]
Settings = tuple[str, str, str, int]

SUPPLIED: dict[int, tuple[str, int, int]] = {1: ("low", 10, 100), 2: ("", 20, 0), 3: ("high", 10, 100)}
"""What each registration of the bounds fills in, by hand: effort, cap; and the window that it knows."""


class Folded(NamedTuple):
    """A header as its record told it."""

    config: Settings
    marks: tuple[str, ...]
    system: str
    tools: str


@state
class Seen(NamedTuple):
    """What a bystander remembers."""

    head: Folded | None = None
    context: tuple[str, str, int] | None = None
    surface: int = 0
    replaced: bool = False
    """The surface was replaced in part since the last request."""
    asked: bool = False
    """There was a request already."""
    headed: bool = False
    """This loop has written a header."""
    system: str = "s1"
    tools: str = "t1"
    prompt: str = ""
    routes: tuple[tuple[str, int], ...] = (("a", 1), ("b", 2))
    proposal: Settings = ("", "", "", 0)
    bound: int = -1
    """The registration that was found for the attempt at hand; -1 before the look-up."""
    sends: int = 0
    """Requests sent in this attempt."""
    derived: int = 0
    """The surface when the messages of this attempt are to be derived."""
    foreign: bool = False
    """Somebody else has changed the surface since then."""
    sent: tuple[Any, ...] = ()
    """The request that is under way: config, messages, prompt, tools."""
    before: int = -1
    """The messages of the last request of this step, -1 before the first."""
    moved: bool = False
    """The surface has changed since that."""
    attempts: int = 0
    granted: int = 0
    repairs: int = 0
    """Retries that compaction has granted since the last answer."""
    failed: bool = False
    """The attempt at hand has failed."""
    cancelled: bool = False
    due: str = ""
    """What has to be recorded before the request: the reason of the header."""
    refused: bool = False
    """A record of this step was refused."""

    def put(self, **changes: Any) -> Seen:
        """A copy with some fields changed."""
        return self._replace(**changes)


def completed(seen: Seen) -> tuple[Settings, tuple[str, ...], int]:
    """What the attempt at hand must say: the proposal with what its registration fills in, marks, window."""
    provider, model, effort, cap = seen.proposal
    low, most, window = SUPPLIED.get(seen.bound, ("", 0, 0))
    marks = tuple(
        name for name, own, given in (("maxTokens", cap, most), ("reasoningEffort", effort, low)) if given and not own
    )
    return (provider, model, effort or low, cap or most), marks, window


def expected_head(seen: Seen, law: Law) -> Folded:
    """The header of the attempt at hand."""
    config, marks, _ = completed(seen)
    return Folded(config, marks, "" if law.session_format == 4 else seen.system, seen.tools)


def reason_due(seen: Seen, law: Law) -> str:
    """Why a header record is due before this request; empty when none is."""
    head = expected_head(seen, law)
    if not seen.headed:
        return "initial" if seen.head is None else "resume"
    if head != seen.head:
        return "change"
    return "series" if law.session_format == 4 and seen.asked and seen.replaced else ""


def expected_seed(seen: Seen) -> Settings:
    """What has to be offered to `agent/request`."""
    head = seen.head
    if seen.headed and head is not None:
        provider, model, effort, cap = head.config
        open_effort, open_cap = ("reasoningEffort" in head.marks, "maxTokens" in head.marks)
        return provider, model, "" if open_effort else effort, 0 if open_cap else cap
    if head is not None and head.config[:2] == ("a", "m") and "reasoningEffort" not in head.marks:
        return "a", "m", head.config[2], 0
    return "a", "m", "", 0


# --- the fold ------------------------------------------------------------------------------------------------


def watcher(law: Law) -> Callable[[Seen, Label], Seen]:
    """The bystander's fold under a law."""

    def watch(seen: Seen, label: Label) -> Seen:
        fold = _FOLDS.get(label[0])
        return seen if fold is None else fold(seen, label, law)

    return watch


def _open(seen: Seen, label: Label, law: Law) -> Seen:
    late = law.session_format == 4
    seen = seen.put(
        surface=seen.surface + (not late),
        before=-1,
        attempts=0,
        granted=0,
        cancelled=False,
        refused=False,
        failed=False,
    )
    if label[1] == "prompt":
        return seen.put(system="s2" if seen.system == "s1" else "s1")
    if label[1] == "tools":
        return seen.put(tools="t2" if seen.tools == "t1" else "t1")
    return seen.put(headed=False, asked=False) if label[1] == "resumed" else seen


def _adapters(seen: Seen, label: Label, law: Law) -> Seen:
    routes = {provider: held for provider, held in seen.routes if provider != label[2]}
    if len(label) > 3:
        routes[label[2]] = label[3]
    return seen.put(routes=tuple(sorted(routes.items())))


def _park(seen: Seen, label: Label, law: Law) -> Seen:
    if label[1] != "request":
        return seen
    return seen.put(
        bound=-1, sends=0, sent=(), failed=False, derived=seen.surface, foreign=False, attempts=seen.attempts + 1
    )


def _answer(seen: Seen, label: Label, law: Law) -> Seen:
    if label[1] == "request":
        return seen if label[2] == "throws" else seen.put(proposal=label[2:])
    point, answer = label[1][0], label[2]
    if point == "chunk" and answer[0] == "end":
        return seen.put(failed=answer[1] == "failure", repairs=seen.repairs if answer[1] == "failure" else 0)
    return seen.put(granted=seen.granted + 1) if answer[0] == "retry" and not seen.cancelled else seen


def _prepare(seen: Seen, label: Label, law: Law) -> Seen:
    seen = seen.put(bound=label[1])
    return seen.put(due=reason_due(seen, law)) if not label[1] else seen


def _resolved(seen: Seen, label: Label, law: Law) -> Seen:
    return seen.put(due=reason_due(seen, law))


def _touch(seen: Seen, label: Label, law: Law) -> Seen:
    replaced = seen.replaced or label[1] == "replace"
    return seen.put(surface=seen.surface + 1, foreign=True, moved=True, replaced=replaced)


def _repair(seen: Seen, label: Label, law: Law) -> Seen:
    if label[1]:
        seen = seen.put(surface=seen.surface + 1, moved=True, replaced=True)
    if label[-1][0] == "retry":
        seen = seen.put(granted=seen.granted + (not seen.cancelled), repairs=seen.repairs + 1)
    return seen


def _append(seen: Seen, label: Label, law: Law) -> Seen:
    name = label[1]
    if name == "request/header":
        return seen.put(head=Folded(*label[3:]), headed=True, due="")
    if name == "request/context":
        return seen.put(context=label[2:])
    if name == "system/message":
        seen = seen.put(prompt=label[2])
    if name in ("system/message", "user/message", "assistant/message"):
        derived = seen.derived + 1 if name != "assistant/message" else seen.derived
        return seen.put(surface=seen.surface + 1, derived=derived, moved=True)
    return seen


def _send(seen: Seen, label: Label, law: Law) -> Seen:
    _, _, config, messages, *rest = label
    derived = {"derived": seen.surface, "foreign": False} if law.session_format == 4 else {}
    seen = seen.put(sends=seen.sends + 1, sent=(config, messages, *rest), asked=True, replaced=False, **derived)
    return seen.put(before=messages, moved=seen.foreign)


_FOLDS: dict[str, Callable[[Seen, Label, Law], Seen]] = {
    "open": _open,
    "adapters": _adapters,
    "park": _park,
    "answer": _answer,
    "prepare": _prepare,
    "resolved": _resolved,
    "touch": _touch,
    "repair": _repair,
    "append": _append,
    "send": _send,
    "abort": lambda seen, label, law: seen.put(cancelled=True),
    "refuse": lambda seen, label, law: seen.put(refused=True),
}


# --- promises ------------------------------------------------------------------------------------------------


def is_anchor(label: Label) -> bool:
    """The move writes the record that proves that a request was sent."""
    return label[0] == "append" and label[1] in ("assistant/chunk", "assistant/message", "assistant/attempt")


def parting(seen: Seen, law: Law) -> tuple[str, ...]:
    """Where the request under way and the one that the log proves part, field by field."""
    head = seen.head
    assert head is not None
    config, messages, system, tools = seen.sent
    proved = ("config", head.config), ("messages", seen.surface), ("system", head.system), ("tools", head.tools)
    found = {"config": config, "messages": messages, "system": system, "tools": tools}
    return tuple(name for name, value in proved if found[name] != value)


def log_proves_request(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """At the anchor: equal, unless somebody else has changed the surface; then in the messages alone."""
    if not is_anchor(label) or not seen.sent or seen.head is None:
        return seen.head is not None or not is_anchor(label)
    apart = parting(seen, law)
    allowed = ("messages",) if seen.foreign else ()
    return set(apart) <= set(allowed) or f"they part in {', '.join(apart)}"


def request_is_the_plan(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """What leaves is what the registration made of the proposal, with the messages of the right moment."""
    if label[0] != "send":
        return True
    expected = expected_head(seen, law)
    messages = seen.surface if law.session_format == 4 else seen.derived
    wanted = (expected.config, messages, expected.system, expected.tools)
    return bool(label[2:] == wanted) or f"{label[2:]} instead of {wanted}"


def one_registration(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    if label[0] == "prepare":
        return bool(label[1] == dict(seen.routes).get(seen.proposal[0], 0))
    if label[0] in ("resolved", "unresolved"):
        return bool(label[1] == seen.bound)
    if label[0] != "send":
        return True
    serves = seen.bound or dict(seen.routes).get(seen.proposal[0], 0)
    return label[1] == serves and seen.sends == 0


def header_when_due(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    if label[:2] == ("append", "request/header"):
        wanted = (seen.due, *expected_head(seen, law))
        return bool(label[2:] == wanted) or f"{label[2:]} instead of {wanted}"
    return label[0] != "send" or not seen.due or f"no header, although {seen.due} was due"


def context_when_due(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    if label[0] != "send" and label[:2] != ("append", "request/context"):
        return True
    config, _, window = completed(seen)
    wanted = (*config[:2], window)
    if label[0] == "send":
        return bool(seen.context == wanted)
    return bool(label[2:] == wanted) and seen.context != wanted


def seed_is_folded(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    if label[:2] != ("park", "request"):
        return True
    return label[2:] == expected_seed(seen) or f"{label[2:]} instead of {expected_seed(seen)}"


def attempts_are_granted(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    return label[:2] != ("park", "request") or seen.attempts <= seen.granted


def failures_leave_nothing(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    if not seen.failed or seen.cancelled:
        return True
    return label[:2] not in (("append", "assistant/message"), ("park", "tools"))


def same_messages(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    return label[0] != "send" or seen.before < 0 or seen.moved or label[3] == seen.before


def cancel_sends_nothing(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """What comes behind a check. The request follows the last check, by way of the announcement in format 4."""
    last = ("notify", "agent/assistant-stream", "start") if law.session_format == 4 else ("park", "chunk", False)
    return not seen.cancelled or (label[:2] not in (("park", "request"), ("park", "prepare")) and label != last)


def repairs_are_few(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """At most one between two answers, and only when something was replaced."""
    if label[0] != "repair" or label[-1][0] != "retry":
        return True
    return seen.repairs == 0 and bool(label[1])


def records_before_request(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """Header, then context, then the request; in format 4 behind the prompt and the batch."""
    if label[0] != "append" or label[1] not in ("request/header", "request/context", "system/message", "user/message"):
        return True
    if label[1] == "request/context":
        return seen.bound >= 0 and not seen.sends and not seen.due
    if label[1] == "request/header":
        return seen.bound >= 0 and not seen.sends and (law.session_format == 0 or seen.prompt == seen.system)
    return law.session_format == 4 and seen.bound >= 0 and not seen.sends


def refused_record_stops(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    return not seen.refused or label[0] not in ("send", "append")


PROMISES: tuple[Promise, ...] = (
    Promise("INV-L4", "The request that was sent is the one that the log proves, or they part only in the messages, "
            "and only because somebody else has changed the surface.", log_proves_request),
    Promise("L-REQ-13", "What leaves is what the plan says, with the messages of the right moment.",
            request_is_the_plan),
    Promise("INV-L5", "A call is sent once, to the registration that was found before anything was awaited.",
            one_registration),
    Promise("L-REQ-9", "A header record is written exactly when it is due, with its reason.", header_when_due),
    Promise("L-REQ-11", "A context record is written exactly when one of its three facts has changed.",
            context_when_due),
    Promise("L-REQ-4", "The proposal is the folded header without what an adapter had filled in.", seed_is_folded),
    Promise("INV-R6", "There is one attempt, and one more for each retry that was granted.", attempts_are_granted),
    Promise("INV-R7", "A failed attempt leaves no message and runs no tool.", failures_leave_nothing),
    Promise("INV-R8", "Two attempts of a step have the same messages, unless the surface has changed.", same_messages),
    Promise("INV-R9", "After a cancel no attempt begins, and none is prepared.", cancel_sends_nothing),
    Promise("INV-R11", "Compaction repairs once between two answers, and only by a smaller history.",
            repairs_are_few),
    Promise("L-REQ-12", "Records stand in their order before the request.", records_before_request),
    Promise("L-ERR-6", "After a refused record of the step nothing is sent or written by the attempt.",
            refused_record_stops),
)  # fmt: skip


def _header(reason: str) -> Callable[[Seen, Label, Seen], bool]:
    return lambda seen, label, after: label[:3] == ("append", "request/header", reason)


def _parts(seen: Seen, label: Label, after: Seen) -> bool:
    return (
        is_anchor(label) and bool(seen.sent) and seen.head is not None and seen.foreign and seen.surface != seen.sent[1]
    )


WITNESSES: tuple[Witness, ...] = (
    Witness("resume", "A new loop over a log with a header says so.", _header("resume"), needs=("resumes",)),
    Witness("change", "A listener changes the config: a new header.", _header("change"), needs=("listeners",)),
    Witness("series", "The surface was rewritten: in format 4 a new series begins.", _header("series"),
            applies=lambda law: law.session_format == 4, needs=("touches", "steps=2")),
    Witness("explicit effort", "An effort that a listener has set is offered to the next request.",
            lambda s, e, _: e[:2] == ("park", "request") and e[4] == "high" and s.headed,
            needs=("listeners", "steps=2")),
    Witness("effort survives resume", "An explicit effort of the same route is taken up again.",
            lambda s, e, _: e[:2] == ("park", "request") and e[4] == "high" and not s.headed,
            needs=("listeners", "resumes")),
    Witness("RACE-12", "The adapter is replaced while the call is prepared: the old one serves.",
            lambda s, e, _: e[0] == "send" and e[1] == 1 and dict(s.routes).get("a") == 3, needs=("adapters",)),
    Witness("RACE-12 gone", "The adapter is gone by the time of the request, and serves it.",
            lambda s, e, _: e[0] == "send" and e[1] == 1 and "a" not in dict(s.routes), needs=("adapters",)),
    Witness("LR-114", "Nobody serves the route at preparation, somebody does at dispatch.",
            lambda s, e, _: e[0] == "send" and s.bound == 0 and e[1] > 0, needs=("adapters=2",)),
    Witness("LR-115", "Nobody serves the route at all: offered to recovery.",
            lambda s, e, _: e == ("park", "recovery") and s.bound == 0, needs=("adapters",)),
    Witness("other defaults", "The next route fills in something else; the marked fields are resolved anew.",
            lambda s, e, _: e[0] == "send" and e[1] == 2 and s.head is not None and s.head.marks == ("maxTokens",),
            needs=("listeners",)),
    Witness("unsupported", "The route has no such effort: the turn ends.",
            lambda s, e, _: e[0] == "unresolved" and s.bound == 2 and s.proposal[2] == "high",
            needs=("listeners=2", "steps=2")),
    Witness("no route", "A listener leaves no provider.",
            lambda s, e, _: e == ("answer", "request", "throws"), needs=("listeners",)),
    Witness("parts", "Somebody changes the surface at a bad moment: the log proves other messages.", _parts,
            needs=("touches",)),
    Witness("LR-116", "A cancel from an observer of the header: it counts as written, nothing is sent.",
            lambda s, e, _: e[:2] == ("leave", "step") and s.cancelled and s.headed and s.bound >= 0 and not s.sends,
            needs=("cancels",)),
    Witness("LR-113", "A cancel during preparation: no header.",
            lambda s, e, _: e[:2] == ("leave", "step") and s.cancelled and s.bound >= 0 and s.head is None,
            needs=("cancels",)),
    Witness("RACE-20", "Compaction repairs once, the second overflow stands.",
            lambda s, e, _: e[0] == "answer" and e[1] == ("recovery",) and e[2] == ("none",) and s.repairs == 1
            and s.failed, needs=("failures=2",)),
    Witness("retry", "A second attempt with the same messages.",
            lambda s, e, _: e[0] == "send" and s.attempts == 2 and s.before == e[3], needs=("failures",)),
)  # fmt: skip
