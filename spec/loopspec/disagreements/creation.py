"""Creation, disposal and ownership of agents: where the sources differ."""

from __future__ import annotations

from loopspec.disagreements.row import Disagreement

CREATION: tuple[Disagreement, ...] = (
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
)
