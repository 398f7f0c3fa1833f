"""Where the seed documents, published DSH and our recommendation differ: every such point, in one table.

A rule that asks `s.law.<field>` is a rule about which the sources disagree. Everything else is common ground.
`law(profile)` gives the choices of one profile as an object with one attribute per row of `TABLE`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Profile = Literal["seed", "dsh-0.1", "dsh-0.1.7"]
PROFILES: tuple[Profile, ...] = ("seed", "dsh-0.1", "dsh-0.1.7")

Choice = bool


class Disagreement(NamedTuple):
    """One row: the question, the rules it touches, each profile's answer, and why `seed` answers so."""

    field: str
    question: str
    rules: tuple[str, ...]
    seed: Choice
    dsh_0_1: Choice
    dsh_0_1_7: Choice
    why: str


TABLE: tuple[Disagreement, ...] = (
    Disagreement(
        "closing_run_latches",
        "Is a waking send latched once its run has decided to end, but is not idle yet?",
        ("L-WAKE-10", "L-WAKE-11", "LR-070", "LR-084"),
        True,
        False,
        False,
        "Published loops park it until somebody wakes the agent again. A wake after the decision is a wake.",
    ),
    Disagreement(
        "observer_operations_wait",
        "Does a send, cancel or maintenance call made from a record's observer wait until the log is free?",
        ("L-LOG-3", "L-SEND-9", "L-CAN-6", "LR-006", "LR-009", "LR-074", "LR-075"),
        True,
        False,
        False,
        "Published loops refuse the append inside it and contain the error, so that the cancel or the message "
        "is lost without a word. Appends stay non-reentrant; the operation is kept and begins at the next moment.",
    ),
    Disagreement(
        "verdict_is_read_a_tick_late",
        "Does the turn routine look at the pre-step verdict one scheduler tick after the abort check?",
        ("L-PRE-9", "LR-047", "LR-095"),
        False,
        True,
        True,
        "An abort in that tick is overtaken by the verdict and its cause is recorded nowhere.",
    ),
    Disagreement(
        "any_disposal_bars_latch",
        "Does a disposal bar the latch although another cause had aborted the signal first?",
        ("L-DSP-6", "L-WAKE-9", "LR-222"),
        True,
        False,
        False,
        "Disposal never waits for another model turn, says the seed; published loops look at the first cause.",
    ),
    Disagreement(
        "disposal_drops_latch",
        "Is a latch that was set before a disposal that keeps the inbox dropped when the activity ends?",
        ("L-MNT-7", "VD-20", "LR-194"),
        True,
        False,
        True,
        "The same promise: no further turn once disposal has been asked for.",
    ),
    Disagreement(
        "observers_see_splice_done",
        "Do observers of an inbox record see the lists after the change?",
        ("L-IN-9", "VD-14", "DS-12"),
        False,
        False,
        True,
        "The seeds promise the lists before the change, from which removed messages can be rebuilt.",
    ),
    Disagreement(
        "minus_zero_is_refused",
        "Is a splice start in (-1, 0) refused, because it truncates to negative zero?",
        ("L-IN-5", "RC-05"),
        False,
        True,
        True,
        "An accident of one language's numbers; 0 is what was meant.",
    ),
    Disagreement(
        "admission_follows_preparation",
        "Are entered messages written only after the request was prepared?",
        ("VD-06", "VD-07", "CW7", "S-REQ-22"),
        False,
        False,
        True,
        "A matter of the log dialect: in V4 the system prompt is a message too and must come first, and it is known "
        "only then. V0 writes them right after the step opens; a cancel during preparation then loses nothing.",
    ),
    Disagreement(
        "streams_are_embedded",
        "Is a model stream stored inside its settlement record instead of one record per chunk?",
        ("VD-01", "VD-02", "VD-03", "VS-1", "VS-5"),
        False,
        False,
        True,
        "A matter of the log dialect: V0 stores chunks, V4 embeds them. The seed text describes chunks; "
        "`law(profile, session_format=4)` switches it on.",
    ),
    Disagreement(
        "stopped_pool_stays_stopped",
        "Does a call that was no longer parallel keep the pool stopped, even if it turns parallel while it drains?",
        ("L-TOOL-2", "L-TOOL-3", "T-402", "LR-150"),
        True,
        False,
        False,
        "The text says that such a call waits for a group of its own; the published procedure asks again at every "
        "settlement. One question per start gives one answer that everybody can see.",
    ),
    Disagreement(
        "failed_batch_is_completed",
        "Does a batch whose scheduler failed still record a result for every call that has none?",
        ("L-TOOL-22", "VD-40", "S-LIF-7", "LR-160"),
        False,
        False,
        False,
        "The seed says that no result is fabricated, and in format V0 none is. Format V4 refuses to load a log with an "
        "unanswered call, and what the harness writes it must be able to resume: so in V4, `seed` completes the batch "
        "with the results of crash repair, outcome unknown or never started.",
    ),
    Disagreement(
        "snapshot_sees_listeners",
        "Is the runtime-context snapshot worked out after the outer listeners of pre-step have done their part?",
        ("P-204", "P-205", "L-CTX-2", "RACE-21"),
        True,
        False,
        False,
        "Published loops work it out before. A compaction in such a listener may take the snapshot off the surface; "
        "the request of that very step then has no runtime context at all.",
    ),
    Disagreement(
        "driver_waits_for_publication",
        "Is a wake that reaches an unpublished agent kept until `agent/session-start` has been delivered?",
        ("N-1", "C-TXN-15", "C-SET-7", "R-57", "R-58", "R-59", "INV-19"),
        True,
        False,
        True,
        "Published loops start the driver at the first wake, so that a turn may open on an agent in no registry.",
    ),
    Disagreement(
        "every_owner_joins",
        "Does the unload of an owner wait for a teardown that somebody else has begun?",
        ("N-2", "C-OWN-9", "R-34", "R-35", "INV-20"),
        True,
        False,
        False,
        "The seed has one quiescence boundary; in published loops an owner ends while its agent still drains.",
    ),
    Disagreement(
        "provider_keeps_order",
        "Does the unload of the provider drain an agent before it unwinds the agent's scope?",
        ("N-3", "C-OWN-10", "R-28", "INV-14"),
        True,
        False,
        False,
        "Published loops unwind every scope at once, so that scoped listeners miss the closing of the turn.",
    ),
    Disagreement(
        "detaches_are_unconditional",
        "Is the session detached although the dispatch of `agent/disposed` failed?",
        ("N-4", "C-TDN-14", "C-RBK-6", "R-75"),
        True,
        False,
        True,
        "Published loops leave the session in its registry for ever, and its id with it.",
    ),
    Disagreement(
        "disposal_outlives_refusal",
        "Does a disposal go its whole road although the log refuses its cancel?",
        ("L-DSP-4", "LR-228", "L-LOG-3", "C-REE-1", "INV-14"),
        True,
        False,
        True,
        "Asked for by an observer of the session's own record, with input pending, published loops detach agent and "
        "session at once and fail the disposal with the text of the log, while the driver goes on. The seed has no "
        "such refusal (`observer_operations_wait`); nobody has measured it on the later version, which is said to run "
        "every cleanup to the end.",
    ),
    Disagreement(
        "abandoned_load_pins_id",
        "May a load that nobody waits for any more keep the next resume of its id waiting?",
        ("C-RES-3", "C-ABT-9", "R-65"),
        False,
        True,
        False,
        "The seed has the same id resumed again at once. The published loop gives up as it should, but the published "
        "storage shares one load among all who ask for an id, so that a hung one holds up whoever comes later.",
    ),
    Disagreement(
        "stored_ids_are_refused",
        "Is a fresh create refused before it composes anything when a stored session has its id?",
        ("C-RES-8", "C-RES-9", "R-64"),
        True,
        False,
        True,
        "Published loops notice at the announcement of the session, and only while a resume has reserved the id; else "
        "the agent lives, and nothing of it is ever written. Later versions own a session before they publish it.",
    ),
    Disagreement(
        "closing_wake_is_refused_whole",
        "Does a wake that the closing initiator scope refuses leave an idle agent idle?",
        ("N-8", "C-REE-6", "R-72"),
        True,
        False,
        False,
        "Published loops leave the agent running for ever, and the unload waits for it.",
    ),
    Disagreement(
        "disposed_agent_is_silent",
        "Is a wake refused once the agent has been drained for its disposal?",
        ("N-7", "C-TDN-17", "R-76"),
        True,
        False,
        False,
        "Published loops run a ghost turn on a log that nobody watches. Stricter than the seed, which is silent here.",
    ),
    Disagreement(
        "start_notice_is_contained",
        "Does the creation survive a failure of the dispatch of `agent/session-start` itself?",
        ("C-TXN-C8", "F25", "C-DSP-2"),
        True,
        False,
        True,
        "The notice cannot veto, whichever part of its dispatch fails. The later version has no such notice.",
    ),
    Disagreement(
        "created_is_awaited",
        "Is `agent/created` awaited, listener by listener, and `agent/session-start` gone?",
        ("N-11", "C-EVT-2", "C-RBK-8", "R-48"),
        False,
        False,
        True,
        "A matter of the version; the seed describes the synchronous notification.",
    ),
    Disagreement(
        "tape_pairs_by_multiset",
        "Does every use of a tool-call id need a result of its own before its span is sealed?",
        ("TP-22", "INV-08", "RE-69", "BG-40"),
        True,
        False,
        False,
        "The original compares sets of ids: when an id is used twice and answered once, sealing hides one call of an "
        "unanswered pair.",
    ),
    Disagreement(
        "tape_names_by_execution",
        "Is the tool name of a sealed result that of the call of its own turn and step?",
        ("TP-46", "RE-40", "BG-32"),
        True,
        False,
        False,
        "The original takes the last call with that id in the log, so that a reused id prints a wrong name.",
    ),
    Disagreement(
        "tape_follows_every_rewrite",
        "Does a sealed result that was rewritten several times point at the record it began with?",
        ("TP-47", "RC-33", "BG-33"),
        True,
        False,
        False,
        "The original follows one rewrite only; the locator then names an intermediate copy, and its read is lost.",
    ),
    Disagreement(
        "tape_labels_cannot_forge",
        "Are tool names and paths quoted when they could end their line or imitate a locator?",
        ("TP-58", "TP-62", "BG-36"),
        True,
        False,
        False,
        "A name is chosen by whoever makes the call. Ordinary names and paths look the same either way.",
    ),
    Disagreement(
        "tape_window_by_code_point",
        "Are the keys of a read window sorted by code point?",
        ("TP-63", "BG-35"),
        True,
        False,
        False,
        "The original sorts by the collation of the host, so that two machines print different entries. What we do "
        "in its place under the other profiles is an approximation of a western collation.",
    ),
    Disagreement(
        "recall_shows_dispatches",
        "Does the full page of a turn hold the records of calls that were made inside a program?",
        ("RC-14", "INV-13", "BG-29"),
        True,
        False,
        False,
        "The original attributes them to no turn, although its read line points at exactly that page.",
    ),
    Disagreement(
        "recall_reads_own_spills_only",
        "Is a stored full text read only where our own store of that session has put one?",
        ("RC-38", "RE-56", "BG-30"),
        True,
        False,
        False,
        "The original opens whatever path a tool output names. The harness never does, under no profile.",
    ),
    Disagreement(
        "recall_patterns_are_linear",
        "Is a pattern of the model matched by an engine whose time grows only with the text?",
        ("RC-39", "RE-57", "BG-31"),
        True,
        False,
        False,
        "The original backtracks without a limit. The harness never does, under no profile; look-around and "
        "back-references are refused with a reason.",
    ),
    Disagreement(
        "recall_snippets_by_code_point",
        "Is a search snippet cut around the match itself?",
        ("RC-25", "BG-34"),
        True,
        False,
        False,
        "The original uses an offset in UTF-16 units as one in code points, and drifts behind text such as emoji.",
    ),
    Disagreement(
        "wire_call_ids_are_minted",
        "Does a tool call that the model server gave no id get one before anybody sees it?",
        ("M-546", "M-206", "RACE-23", "S-MSG-3", "S-LNT-67"),
        True,
        False,
        False,
        "Published adapters hand the empty id on, and the log that results cannot be resumed. The pieces of such a "
        "call are held back until an id comes or the stream ends; a call without a name fails the attempt.",
    ),
    Disagreement(
        "wire_new_id_opens_call",
        "Is a tool call told from its neighbour by its id where its index is missing or used twice?",
        ("M-545", "M-546"),
        True,
        False,
        False,
        "Published adapters merge two calls under one index: the last id wins and the arguments are glued together. "
        "What stays ambiguous is a malformed response.",
    ),
    Disagreement(
        "wire_empty_is_absent",
        "Does an empty id or name of a later piece leave the known one alone?",
        ("M-203", "M-546"),
        True,
        False,
        False,
        "Published adapters let the empty text erase what they knew.",
    ),
    Disagreement(
        "wire_arguments_are_text",
        "Are arguments that come as a JSON object instead of text a malformed response?",
        ("M-546", "M-542"),
        True,
        False,
        False,
        "Published adapters turn the object into the text `[object Object]`. Writing it as JSON text would be a guess "
        "at what the model meant to say, and at how its pieces are joined.",
    ),
    Disagreement(
        "wire_errors_fail_attempt",
        "Does an error inside a stream that began well end the attempt with the message of that error?",
        ("M-543", "M-549", "L-STR-4"),
        True,
        False,
        False,
        "Published adapters skip it: half an answer is committed, or an empty one is retried although the request is "
        "refused for good. The code is the one that the status table would give.",
    ),
    Disagreement(
        "wire_slips_are_forgiven",
        "Are an empty event, blanks around `[DONE]`, a comment sent as data and a final CR read as they are meant?",
        ("M-540", "M-541", "M-542"),
        True,
        False,
        False,
        "None of them can be content, so nothing is guessed; published adapters fail complete answers over them.",
    ),
    Disagreement(
        "wire_shapes_are_checked",
        "Is JSON of the wrong shape a malformed response, and not a transport failure?",
        ("M-542",),
        True,
        False,
        False,
        "Published adapters trip over it and call that a transport failure, which is tried again.",
    ),
    Disagreement(
        "wire_numbers_are_bounded",
        "Are a waiting time without measure and token counts below zero brought into range?",
        ("M-531", "M-550", "S-LNT-8"),
        True,
        False,
        False,
        "Forty digits of `retry-after` become a number in a durable record, and a negative count breaks the log.",
    ),
    Disagreement(
        "adapter_call_ids_are_checked",
        "Does an answer whose tool calls have no id, or share one, fail its attempt?",
        ("M-206", "RACE-23", "S-MSG-3", "S-LNT-67", "L-STR-11"),
        True,
        False,
        False,
        "Published loops commit such an answer; pairing by id is then ambiguous, and the log cannot be resumed. An "
        "adapter may mint ids, as ours does; what reaches the loop without them is a malformed response.",
    ),
    Disagreement(
        "cancel_wins_backoff_tie",
        "Does a retry whose waiting time is over stay unstarted if a cancel came before anybody looked?",
        ("M-622", "RACE-16", "INV-R9"),
        True,
        False,
        False,
        "Published loops may record the start of an attempt that never comes. One more look costs nothing.",
    ),
)


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
