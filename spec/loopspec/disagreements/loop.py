"""Inbox, driver, tools and requests of a running agent: where the sources differ."""

from __future__ import annotations

from loopspec.disagreements.row import Disagreement

LOOP: tuple[Disagreement, ...] = (
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
)
