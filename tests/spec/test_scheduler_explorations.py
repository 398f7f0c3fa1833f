"""The tool scheduler within its bounds: every claim holds, every window is reached, and the graphs are pinned."""

from __future__ import annotations

import pytest
from tests.spec.mutants_scheduler import ORDER, RESULTS
from tests.spec.scheduler_runs import digest_of, graph_of_machine, log_of

from loopspec.kernel.claims import Verdict
from loopspec.kernel.explore import explore
from loopspec.profile import PROFILES, Law, Profile, law
from loopspec.properties.scheduler_explorations import explorations

COUNTS = {
    "windows seed": (131_922, 151_536, 49),
    "batch seed": (44_696, 61_364, 58),
    "pipeline seed": (33_906, 50_766, 34),
    "windows dsh-0.1": (62_388, 79_721, 49),
    "batch dsh-0.1": (34_553, 49_859, 56),
    "pipeline dsh-0.1": (24_294, 39_152, 34),
}
"""States, moves, and the length of the longest of all shortest runs."""

WITNESSES = {
    "LR-140": "c1 r1:synthetic c2 r2:synthetic c3 r3:synthetic, continue",
    "LR-141": "c1 r1:unentered c2 r2:synthetic",
    "LR-142": "c1 c2 r1:aborted",
    "LR-143": "c1 c2 r1:unentered r2:aborted",
    "LR-144": "c1",
    "LR-145": "c1",
    "LR-146 live": "c1 r1:success",
    "LR-146 log": "c1 r1:failure c2 r2:synthetic",
    "LR-147": "c1 c2 r1:aborted r2:aborted c3 r3:synthetic",
    "LR-148": "c1 r1:aborted c2 r2:synthetic",
    "LR-149": "c1 c2",
    "LR-150": "c1 r1:failure c2",
    "LR-151": "c1 r1:failure",
    "LR-152": "c1 r1:failure",
    "LR-156": "c1 r1:success",
    "LR-157": "c1 c2 r1:success",
    "LR-158": "c1 c2",
    "LR-159": "c1 r1:success, throws contexts 1",
    "LR-206 call": ", throws tool/call 1",
    "LR-206 result": "c1, throws tool/result 1",
    "RACE-1": "c1",
    "RACE-7 last": "c1 r1:failure c2 r2:failure c3 r3:failure, continue",
    "RACE-7 next": "c1 r1:failure",
    "RACE-10": "c1 c2 c3",
    "RACE-29": "c1 c2",
    "T-401": "c1 c2 c3",
    "T-305": "c1",
    "L-TOOL-7": "c1 r1:failure c2 c3",
    "S-LIF-8": "c1 c2",
    "INV-S11 later": "c1",
    "INV-S11 commits": "c1 c2 r1:success",
}
"""What the shortest run into each window has recorded up to there."""

OTHERWISE = {
    "seed": {"LR-160": "c1 r1:outcome-unknown r2:not-started r3:not-started, throws prepare 1"},
    "dsh-0.1": {"LR-160": "c1, throws prepare 1"},
}


@pytest.mark.parametrize("name", COUNTS)
def test_every_claim_holds_and_every_window_is_reached(name: str) -> None:
    system, claims, bound = explorations()[name]
    found = explore(system, **claims._asdict(), bound=bound)
    assert found.complete
    assert found.verdict is Verdict.PASS, (found.violations, [row.name for row in found.sometimes if not row.witness])
    assert (len(found.states), found.transitions, found.depth) == COUNTS[name]
    logs = {row.name: log_of(row.witness.labels) for row in found.sometimes if row.witness is not None}
    if logs:
        assert logs == WITNESSES | OTHERWISE[name.split()[1]]


def test_the_explorations_are_these() -> None:
    assert sorted(explorations()) == sorted(COUNTS)
    assert len(explorations(wide=True)) == len(COUNTS) + 4


GRAPHS: tuple[tuple[Profile, str, int, int, str], ...] = (
    ("seed", "order", 9322, 10739, "e5f73fbff4b861ebbc9def262be63226b25b448a3e659c94618f1eb8d076b875"),
    ("seed", "results", 26360, 37293, "17e8e197b9c9e0fc49061b0f2ed5584a4073e92f5ae801914390a52cf11b0ba0"),
    ("dsh-0.1", "order", 3695, 4488, "27b877bd00c78d548cef1827d7a6be76fc3738e7b0a1d47ed2056d210176e80a"),
    ("dsh-0.1", "results", 16116, 25031, "9a4cf4e9660e05764389492e654accbf2cd6fd59de4e110628f3983beed42737"),
)


@pytest.mark.parametrize(("profile", "name", "states", "moves", "digest"), GRAPHS)
def test_the_complete_graph_is_pinned(profile: Profile, name: str, states: int, moves: int, digest: str) -> None:
    """Without budgets: the machinery may fail any number of times. Changed on purpose? Then say so, and pin anew."""
    graph = graph_of_machine(law(profile, 4), {"order": ORDER, "results": RESULTS}[name])
    assert (len(graph.states), graph.edge_count, digest_of(graph)) == (states, moves, digest)


def test_later_dsh_schedules_like_the_first() -> None:
    """So the explorations of `dsh-0.1` speak for `dsh-0.1.7` too: no rule of the scheduler asks anything else."""

    def answers(rules: Law) -> tuple[bool, bool]:
        return rules.stopped_pool_stays_stopped, rules.failed_batch_is_completed

    assert answers(law("dsh-0.1.7", 4)) == answers(law("dsh-0.1", 4))
    assert {answers(law(profile, 4)) for profile in PROFILES} == {(True, True), (False, False)}
