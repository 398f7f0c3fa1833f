"""One named fault for every guard of the tool scheduler, and the worlds in which they are explored."""

from __future__ import annotations

from typing import NamedTuple

from loopconform.mutants.named import entries
from loopspec.profile import Profile
from loopspec.worlds.scheduler_world import EVERYTHING, Freedom

ORDER = Freedom(calls=3, caps=(1, 2), prepare=("dispatch", "final-result"), body=("success",))
RESULTS = EVERYTHING


class Mutant(NamedTuple):
    """A fault, the text that becomes another, the claim that kills it, and where to look."""

    fault: str
    original: str
    replacement: str
    claim: str
    freedom: Freedom = ORDER
    profile: Profile = "seed"
    target: str = ""
    """The function that it is in."""
    sentence: str = ""


WHERE = {
    "order": ORDER,
    "results": RESULTS,
    "cap of three": ORDER._replace(caps=(3,)),
    "denials": RESULTS._replace(prepare=("dispatch", "post-result")),
}
"""The worlds that `conformance/mutants/scheduler.yaml` names."""

MUTANTS = tuple(
    Mutant(
        entry["name"],
        entry["old"],
        entry["new"],
        entry["breaks"],
        WHERE[entry.get("where", "order")],
        entry.get("profile", "seed"),
        entry["in"],
        entry["sentence"],
    )
    for entry in entries("scheduler")
)

EQUIVALENT = (
    (
        "looks for the failure before the answer: the first failure wins anyway",
        '    if answer[0] == "throws":\n        return go(s, ("fail", ("prepare", call)))\n'
        '    if s.failure:\n        return go(s, ("drain",))\n',
        '    if s.failure:\n        return go(s, ("drain",))\n'
        '    if answer[0] == "throws":\n        return go(s, ("fail", ("prepare", call)))\n',
    ),
    (
        "asks about the group as well: where the batch has nothing left, neither has its last group",
        'if s.next > s.calls:\n        return go(s, ("end",))\n    return park(s, ("classify"',
        'if s.next > s.last and s.next > s.calls:\n        return go(s, ("end",))\n    return park(s, ("classify"',
    ),
)
