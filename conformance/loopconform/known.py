"""The defects and gaps of the published loop that were known before any program was played, and whether one shows them.

Each has a row of the profile table by which the two laws differ, a case that comes out the same on both sides, or the
reason why no program of the suite can show it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple


class Known(NamedTuple):
    """One of them. `row`: a field of the profile table; `case`: where both laws say the same; else `why` not."""

    id: str
    what: str
    row: str = ""
    case: str = ""
    why: str = ""


WIRE = "the suite is the model itself, without a wire: `tests/model`, level L1"
LOGS = "a matter of recorded logs: `loopspec check`, level L0"
FILES = "a matter of files: `loopspec check`, `tests/store`"
DOCUMENTS = "a matter of documents: both laws follow the code"

KNOWN: tuple[Known, ...] = (
    Known("LR-009", "a cancel from a record's observer is lost when something is pending", "observer_operations_wait"),
    Known("LR-052", "a cancel that keeps the inbox loses what was claimed in the same tick", case="races/lr-052"),
    Known("LR-070", "a send between the decision to end and idle is parked", "closing_run_latches"),
    Known(
        "LR-074",
        "a cancel from an observer of the turn's end is lost, and the next turn runs",
        "observer_operations_wait",
    ),
    Known("LR-084", "a send from a listener of `agent/error` is parked", "closing_run_latches"),
    Known("LR-092", "a send from a pre-step that rejects is parked", case="races/lr-092"),
    Known(
        "LR-177",
        "a turn whose first step hit the token limit leaves the results of a later step unanswered",
        case="races/lr-177",
    ),
    Known("LR-202", "what was claimed is lost when the second claim record is refused", case="races/lr-202"),
    Known("LR-222", "a turn runs during a disposal whose signal had another cause", "any_disposal_bars_latch"),
    Known(
        "LR-228",
        "a disposal that its own log refuses detaches the agent, and the driver runs on",
        "disposal_outlives_refusal",
    ),
    Known(
        "LR-231",
        "a wake that the closing service refuses leaves the agent running for ever",
        "closing_wake_is_refused_whole",
    ),
    Known("L-TOOL-22", "a scheduler failure leaves calls unanswered", case="races/lr-158"),
    Known("L-INV-2", "the reconstruction companion does not look at provider, effort and signal", why=LOGS),
    Known("N-1", "a driver starts before its agent is published", "driver_waits_for_publication"),
    Known("N-2", "an owner ends before a teardown that somebody else has begun", "every_owner_joins"),
    Known("N-3", "the provider's unload unwinds scopes before it drains", "provider_keeps_order"),
    Known(
        "N-4",
        "a failed dispatch of `agent/disposed` leaves the session in its registry",
        "detaches_are_unconditional",
        why="no listener of the protocol throws, and a dispatch fails as a whole by nothing else",
    ),
    Known("N-5", "whether a commit runs that is refused afterwards", why="both are allowed: nothing can diverge"),
    Known("N-6", "an unload inside a listener of the creation", case="races/r-23"),
    Known("N-7", "an agent that was disposed of runs a ghost turn", "disposed_agent_is_silent"),
    Known("N-8", "a wake refused by the closing scope changes the agent's phase", "closing_wake_is_refused_whole"),
    Known("C-RES-3", "a load that nobody waits for pins its id", "abandoned_load_pins_id"),
    Known("C-RES-8, C-RES-9", "a fresh create of a stored id lives, and is never written", "stored_ids_are_refused"),
    Known("RC-05", "a splice start in (-1, 0) is refused", "minus_zero_is_refused"),
    Known("VD-20", "a latch survives a disposal that keeps the inbox", "disposal_drops_latch"),
    Known("T-402", "a pool that was stopped starts again while it drains", "stopped_pool_stays_stopped"),
    Known(
        "LR-047, LR-095",
        "the verdict of pre-step is read a tick after the abort check",
        "verdict_is_read_a_tick_late",
        why="no hook stands in that tick",
    ),
    Known("DS-05", "the driver does not wait for the end of the construction", "driver_waits_for_publication"),
    Known("DS-08", "observers lose cancels and sends", "observer_operations_wait"),
    Known("DS-09", "a disposal waits for another model turn", "any_disposal_bars_latch"),
    Known("DS-01 to DS-19, the others", "what documents say and the code does not do", why=DOCUMENTS),
    Known("G1", "an empty call id is accepted, and its log not resumed", "wire_call_ids_are_minted", why=WIRE),
    Known("G2", "two calls under one wire index are merged", "wire_new_id_opens_call", why=WIRE),
    Known("G3", "an empty id or name of a later piece erases the known one", "wire_empty_is_absent", why=WIRE),
    Known("G4", "arguments as a JSON object become `[object Object]`", "wire_arguments_are_text", why=WIRE),
    Known("G5", "an error inside a stream that began well ends it as a success", "wire_errors_fail_attempt", why=WIRE),
    Known("G6", "an empty event and a blank behind `[DONE]` are malformed", "wire_slips_are_forgiven", why=WIRE),
    Known("G7", "foreign messages between an anchor and its last result", why=LOGS),
    Known("G8", "a replacement that tears a call from its result", why=LOGS),
    Known("G9", "who closes a compaction bracket", why="compaction is not of the protocol: `tests/compaction`"),
    Known("G10", "a finished body whose result waits is lost in a crash", case="resume/pool/crash-at-tool"),
    Known("G11", "what was claimed and never entered is lost without a word", case="races/lr-056"),
    Known("G12", "a late cancel hits the next turn", case="races/lr-050"),
    Known("G13", "a row that is too long is called corrupt", why=FILES),
    Known("G14", "damaged rows are all just unparsable", why=FILES),
    Known("G15", "a second writer is only an error of numbers", why=FILES),
    Known("G16", "a waiting time without measure is recorded", "wire_numbers_are_bounded", why=WIRE),
    Known("G17", "a call in a turn that a later one overran is never repaired", why=LOGS),
    Known(
        "G18",
        "unknown keys of the loop's configuration are accepted",
        why="configuration is not of the protocol: `tests/creation`",
    ),
)

UNREACHED: tuple[tuple[str, str], ...] = (
    ("tape_", "the slice policy is not published for this version: `tests/tape`"),
    ("recall_", "the slice policy is not published for this version: `tests/tape`"),
    ("wire_", WIRE),
    ("adapter_call_ids", WIRE),
    ("cancel_wins_backoff", "the waiting of a retry has no gate: `tests/model`"),
    ("snapshot_", "the protocol knows no runtime context: `tests/harness`"),
    ("verdict_is_read", "no hook stands in that tick"),
    ("detaches_are", "no listener of the protocol throws, and a dispatch fails as a whole by nothing else"),
    ("start_notice", "no listener of the protocol throws, and a dispatch fails as a whole by nothing else"),
)
"""Why no program can show a row, by how its field begins."""


BEYOND_THE_ROWS: dict[str, str] = {
    "teardown/cancel-is-vetoed": (
        "Published loops end a disposal at once when its cancel is refused. `disposal_outlives_refusal` says that of a "
        "log that is in the middle of a record (LR-228), and not of a listener's veto, where they go on otherwise: "
        "agent and session leave their registries; then a handle's disposal, and an unload of the provider, cancel a "
        "second time, outside of the log, wait for the run, and fail; the unload of an owner, or of the service, does "
        "not, and the run goes on in no registry."
    ),
}
"""What is known of a case that no row explains."""


def beyond(cases: Collection[str]) -> list[str]:
    """What is known of these cases, as paragraphs of Markdown."""
    return [line for case in cases if case in BEYOND_THE_ROWS for line in (BEYOND_THE_ROWS[case], "")]


def unreached(field: str) -> str:
    """Why no program can show this row; a row without a reason needs a case."""
    return next((why for start, why in UNREACHED if field.startswith(start)), "needs a case")


def lines(rows: Collection[str], divergent: Collection[str]) -> list[str]:
    """The table as Markdown. `rows`: fields that some program showed; `divergent`: cases that showed anything."""
    shown = sum(known.row in rows for known in KNOWN)
    words = [
        "## What was known before",
        "",
        f"{shown} of {len(KNOWN)} known defects and gaps are shown by the programs above; the others say why not.",
        "",
        "| known as | what happens | shown |",
        "|---|---|---|",
    ]
    return [*words, *(f"| {known.id} | {known.what} | {_answer(known, rows, divergent)} |" for known in KNOWN), ""]


def _answer(known: Known, rows: Collection[str], divergent: Collection[str]) -> str:
    if known.row in rows:
        return f"yes: `{known.row}`"
    if known.case:
        return f"`{known.case}` diverges" if known.case in divergent else f"no: both laws say so (`{known.case}`)"
    return f"no: {known.why}" if known.why else "**no**"
