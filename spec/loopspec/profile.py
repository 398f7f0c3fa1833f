"""Which law a profile chooses, at every point where the seed documents, published DSH and our recommendation differ.

The points stand in one table, by area: `loopspec.disagreements`. A rule that asks `s.law.<field>` is a rule about which
the sources disagree. Everything else is common ground. `law(profile)` gives the choices of one profile as an object
with one attribute per row of `TABLE`.
"""

from __future__ import annotations

from typing import Literal

from loopspec.disagreements import TABLE, Choice

Profile = Literal["seed", "dsh-0.1", "dsh-0.1.7"]
PROFILES: tuple[Profile, ...] = ("seed", "dsh-0.1", "dsh-0.1.7")


class Law:
    """The choices of one profile. Compared and hashed by identity: there is one object per profile and format."""

    __slots__ = ("name", "session_format", *[row.field for row in TABLE])

    name: str
    session_format: int
    closing_run_latches: Choice
    observer_operations_wait: Choice
    verdict_is_read_a_tick_late: Choice
    any_disposal_bars_latch: Choice
    disposal_drops_latch: Choice
    observers_see_splice_done: Choice
    minus_zero_is_refused: Choice
    admission_follows_preparation: Choice
    streams_are_embedded: Choice
    stopped_pool_stays_stopped: Choice
    failed_batch_is_completed: Choice
    snapshot_sees_listeners: Choice
    driver_waits_for_publication: Choice
    every_owner_joins: Choice
    provider_keeps_order: Choice
    detaches_are_unconditional: Choice
    disposal_outlives_refusal: Choice
    abandoned_load_pins_id: Choice
    stored_ids_are_refused: Choice
    closing_wake_is_refused_whole: Choice
    disposed_agent_is_silent: Choice
    start_notice_is_contained: Choice
    created_is_awaited: Choice
    tape_pairs_by_multiset: Choice
    tape_names_by_execution: Choice
    tape_follows_every_rewrite: Choice
    tape_labels_cannot_forge: Choice
    tape_window_by_code_point: Choice
    recall_shows_dispatches: Choice
    recall_reads_own_spills_only: Choice
    recall_patterns_are_linear: Choice
    recall_snippets_by_code_point: Choice
    wire_call_ids_are_minted: Choice
    wire_new_id_opens_call: Choice
    wire_empty_is_absent: Choice
    wire_arguments_are_text: Choice
    wire_errors_fail_attempt: Choice
    wire_slips_are_forgiven: Choice
    wire_shapes_are_checked: Choice
    wire_numbers_are_bounded: Choice
    adapter_call_ids_are_checked: Choice
    cancel_wins_backoff_tie: Choice

    def __init__(self, name: str, session_format: int, choices: dict[str, Choice]) -> None:
        self.name = name
        self.session_format = session_format
        for field, choice in choices.items():
            setattr(self, field, choice)

    def __repr__(self) -> str:
        return f"{self.name}/v{self.session_format}"


def choices(profile: Profile) -> dict[str, Choice]:
    """One profile's column of the table, by field."""
    column = {"seed": 3, "dsh-0.1": 4, "dsh-0.1.7": 5}[profile]
    return {row.field: bool(row[column]) for row in TABLE}


def _laws() -> dict[tuple[str, int], Law]:
    laws: dict[tuple[str, int], Law] = {}
    for profile in PROFILES:
        for session_format in (0, 4):
            column = choices(profile)
            column["streams_are_embedded"] = column["admission_follows_preparation"] = session_format == 4
            column["failed_batch_is_completed"] = profile == "seed" and session_format == 4
            laws[profile, session_format] = Law(profile, session_format, column)
    return laws


_LAWS = _laws()


def law(profile: Profile = "seed", session_format: int = 0) -> Law:
    """The law of a profile, for a session of the given format (0 or 4). Raises `KeyError` for others."""
    return _LAWS[profile, session_format]
