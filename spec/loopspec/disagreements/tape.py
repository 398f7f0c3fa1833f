"""What the tape seals, and how it is got back: where the sources differ."""

from __future__ import annotations

from loopspec.disagreements.row import Disagreement

TAPE: tuple[Disagreement, ...] = (
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
)
