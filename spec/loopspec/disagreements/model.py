"""Answers of a model, from the wire to the retry: where the sources differ."""

from __future__ import annotations

from loopspec.disagreements.row import Disagreement

MODEL: tuple[Disagreement, ...] = (
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
