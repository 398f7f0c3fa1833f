"""Retries, compactions and other brackets (`S-LNT-92` to `S-LNT-104`)."""

from __future__ import annotations

from typing import Any

from loopspec.log.looking import retry_chain
from loopspec.log.rule import ANY, END, Breach, Rule, breach, rule
from loopspec.log.state import DISPATCH_ENDS, DISPATCH_STARTS, Log, Row, items, name, record
from loopspec.surface import protected_head

_DELAY = 2147483647


@rule("S-LNT-92", "E", "llm/retry stands in the open step, and its numbers are in range.", "llm/retry")
def retry_ranges(log: Log, row: Row) -> list[Breach]:
    data = row.data
    found = []
    if log.step is None:
        found.append(breach("A retry is scheduled outside a step.", "a place in the step whose request failed"))
    retry, delay, most = data.get("retry"), data.get("delayMs"), data.get("maxRetries")
    if type(retry) is not int or retry < 1:
        found.append(breach(f"retry is {retry!r}.", "an integer from 1"))
    if not isinstance(delay, int | float) or isinstance(delay, bool) or not 0 <= delay <= _DELAY:
        found.append(breach(f"delayMs is {delay!r}.", f"0 to {_DELAY}"))
    mode = data.get("mode")
    if mode == "normal" and (type(most) is not int or type(retry) is not int or retry > most):
        found.append(breach(f"retry is {retry!r} of maxRetries {most!r}.", "at most maxRetries"))
    elif mode == "always" and "maxRetries" in data:
        found.append(breach("The mode is always, but there is a maxRetries.", "no maxRetries"))
    elif mode not in ("normal", "always"):
        found.append(breach(f"The mode is {mode!r}.", "normal or always"))
    return found


@rule("S-LNT-93", "E", "retry counts 1, 2, 3 in its chain; one retryId per chain, never reused.", "llm/retry")
def retry_counts(log: Log, row: Row) -> Breach | None:
    key, retry, retry_id = retry_chain(row), row.data.get("retry"), row.data.get("retryId")
    count, chain_id = log.retry_counts.get(key, (0, None))
    if retry != count + 1:
        return breach(f"The retry is numbered {retry!r}.", f"{count + 1}")
    if count and retry_id != chain_id:
        return breach(f"The chain changes its retryId from {chain_id!r} to {retry_id!r}.", "one id per chain")
    if not count and name(retry_id) in log.retry_ids:
        return breach(f"The retryId {retry_id!r} belongs to an earlier chain.", "a fresh id")
    return None


@rule("S-LNT-94", "E", "A retry's provider is the header's.", "llm/retry")
def retry_provider(log: Log, row: Row) -> Breach | None:
    if log.header is None or row.data.get("provider") == log.config().get("provider"):
        return None
    text = f"The retry's provider is {row.data.get('provider')!r}."
    return breach(text, f"the header's: {log.config().get('provider')!r}")


@rule("S-LNT-95", "E", "llm/retry-started starts exactly the retry that was scheduled last.", "llm/retry-started")
def retry_started(log: Log, row: Row) -> Breach | None:
    named = (row.data.get("retryId"), row.data.get("retry"))
    if log.scheduled_retry is None:
        return breach(f"Retry {named[1]!r} starts, but none is scheduled.", "llm/retry first")
    if named != log.scheduled_retry.key:
        return breach(
            f"Retry {named[1]!r} of {named[0]!r} starts.",
            "the scheduled one: {} of {!r}".format(*log.scheduled_retry.key[::-1]),
        )
    return None


@rule(
    "S-LNT-96",
    "E",
    "Compaction brackets do not nest, name their owner and id, and hold no turn boundary.",
    "compaction/start",
    "compaction/summary",
    "compaction/end",
    "turn/start",
    "turn/end",
)
def bracket(log: Log, row: Row) -> Breach | None:
    held = log.bracket
    if row.type in ("turn/start", "turn/end"):
        if held is None or record(row.data.get("reason")).get("kind") in ("interrupted", "forked"):
            return None
        text = f"{row.type} stands inside the compaction {held.id!r} that began at line {held.line}."
        return breach(text, "compaction/end first")
    if row.type == "compaction/start":
        if held is not None:
            return breach(f"A compaction starts inside {held.id!r} (line {held.line}).", "compaction/end first")
        if row.turn != log.turn:
            return breach(f"The compaction's owner is turn {row.turn!r}.", f"{log.turn!r}: the open turn, or null")
        return None
    if held is None:
        return breach(f"{row.type} stands outside a compaction.", "compaction/start first")
    if row.data.get("compactionId") != held.id:
        return breach(f"{row.type} names {row.data.get('compactionId')!r}.", f"the open compaction {held.id!r}")
    if row.type == "compaction/end" and row.turn != held.turn:
        return breach(f"The compaction ends with owner {row.turn!r}.", f"{held.turn!r}, as it began")
    return None


@rule(
    "S-LNT-97",
    "E",
    "A successful compaction has one summary, whose shadowed seqs are a contiguous slice of the surface.",
    "compaction/summary",
    "compaction/end",
)
def summary(log: Log, row: Row) -> list[Breach]:
    held = log.bracket
    if held is None:
        return []
    if row.type == "compaction/end":
        if "error" in row.data or held.summaries == 1:
            return []
        return [breach(f"The compaction ends well with {held.summaries} summaries.", "exactly one, or an error")]
    found = []
    if held.summaries:
        found.append(breach("The compaction has a second summary.", "exactly one"))
    seqs, span = items(row.data.get("shadowedSeqs")), record(row.data.get("shadowedRange"))
    if not seqs:
        return [*found, breach("shadowedSeqs is empty.", "the nodes that the checkpoint replaces")]
    nodes = log.surface.nodes
    first = nodes.position(seqs[0]) if type(seqs[0]) is int else None
    if first is None or list(nodes[first : first + len(seqs)]) != seqs:
        found.append(
            breach(f"shadowedSeqs {_short(seqs)} is no slice of the surface.", "current nodes, in surface order")
        )
    if (span.get("start"), span.get("end")) != (seqs[0], seqs[-1]):
        found.append(breach(f"shadowedRange is {span!r}.", f"start {seqs[0]}, end {seqs[-1]}"))
    head = protected_head(log.surface) if log.format == 4 else None
    if head is not None and head in seqs:
        found.append(breach(f"The compaction shadows the head, seq {head}.", "a range behind the system message"))
    return found


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"


@rule(
    "S-LNT-98",
    "E",
    "The checkpoint follows its summary, replaces exactly that range and carries the compaction's id.",
    "user/message",
    "compaction/end",
)
def checkpoint(log: Log, row: Row) -> list[Breach]:
    held = log.bracket
    if row.type == "compaction/end":
        if held is None or "error" in row.data or held.checkpoint or not held.summaries:
            return []
        return [breach("The compaction ends well, but no checkpoint replaced its range.", "a user/message replace")]
    if row.appends:
        return []
    named = record(row.message.get("source")).get("compactionId")
    if held is None:
        if named is None:
            return []
        return [
            breach(f"A checkpoint of {named!r} stands outside its compaction.", "between summary and compaction/end")
        ]
    if held.range is None:
        return [breach("A checkpoint stands before its summary.", "compaction/summary first")]
    found = []
    if named != held.id:
        found.append(breach(f"The checkpoint names the compaction {named!r}.", f"{held.id!r}"))
    if row.replaces(log.format) != held.range:
        found.append(breach(f"The checkpoint replaces {row.op!r}.", f"from {held.range[0]} to {held.range[1]}"))
    return found


@rule(
    "S-LNT-99", "W", "No compaction is unfinished at the end of the log or cut by an end-seed.", "session/end-seed", END
)
def unfinished(log: Log, row: Row) -> Breach | None:
    held = log.bracket
    if held is None:
        return None
    what = "the log ends" if row.type == END else "the session was opened again"
    text = f"The compaction {held.id!r} began here and is not finished when {what}."
    return breach(text, "compaction/end; readers count it as closed", line=held.line, seq=held.seq)


@rule("S-LNT-100", "W", "compaction/prune is followed at once by its replace.", ANY, END)
def prune(log: Log, row: Row) -> Breach | None:
    held = log.prune
    if held is None:
        return None
    span = record(held.value.get("shadowedRange"))
    if row.type != END and row.replaces(log.format) == (span.get("start"), span.get("end")):
        return None
    text = f"The prune of {span!r} is followed by {'nothing' if row.type == END else row.type}, not by its replace."
    return breach(text, "a replace of exactly that range", line=held.line, seq=held.seq)


@rule(
    "S-LNT-101",
    "E",
    "command/done follows one command/run, approval/decided one approval/asked; ids are unique.",
    "command/run",
    "command/done",
    "approval/asked",
    "approval/decided",
)
def paired(log: Log, row: Row) -> Breach | None:
    is_command = row.type.startswith("command/")
    key = row.data.get("commandId" if is_command else "id")
    known = log.commands if is_command else log.approvals
    state = known.get(key) if type(key) is str else None
    if row.type in ("command/run", "approval/asked"):
        if state is None:
            return None
        return breach(f"The id {key!r} was used before.", "a fresh id")
    if state is None:
        return breach(f"{row.type} names {key!r}, which was never opened.", "the opening row first")
    if state:
        return breach(f"{row.type} names {key!r}, which is closed already.", "once per id")
    return None


@rule(
    "S-LNT-102",
    "E",
    "Nested dispatches have unique ids, a parent under the same root, and start and end paired.",
    *sorted(DISPATCH_STARTS | DISPATCH_ENDS),
    "turn/end",
)
def dispatches(log: Log, row: Row) -> list[Breach]:
    if row.type == "turn/end":
        if record(row.data.get("reason")).get("kind") in ("interrupted", "forked"):
            return []
        return [
            breach(f"The dispatch {held.key!r} never ended.", "its end before the turn's", line=held.line, seq=held.seq)
            for held in log.dispatches.values()
        ]
    data = row.data
    sub, parent, root = data.get("subCallId"), data.get("parentCallId"), data.get("rootCallId")
    if row.type in DISPATCH_ENDS:
        held = log.dispatches.get(name(sub))
        if held is None:
            return [breach(f"The dispatch {sub!r} ends, but is not open.", "its start first")]
        return []
    found = []
    if name(sub) in log.dispatch_ids:
        found.append(breach(f"The subCallId {sub!r} was used before.", "a fresh id"))
    call = log.calls.get(root) if type(root) is str else None
    if call is None or call.seq is None or call.result is not None:
        found.append(
            breach(f"The root {root!r} is no running call of this step.", "a call between tool/call and its result")
        )
    parent_held = log.dispatches.get(name(parent))
    if parent != root and (parent_held is None or parent_held.value != root):
        found.append(
            breach(
                f"The parent {parent!r} does not belong to the root {root!r}.", "the root, or an open dispatch of it"
            )
        )
    word = "code" if log.format == 0 else "ptc"
    prefix = f"{parent}:{word}:"
    if not (type(sub) is str and sub.startswith(prefix) and sub[len(prefix) :].isdigit()):
        found.append(breach(f"The subCallId is {sub!r}.", f"{prefix}<number>"))
    return found


@rule(
    "S-LNT-103",
    "E",
    "A title cites distinct earlier messages of the user, none exactly when the user wrote it.",
    "session/title",
)
def title(log: Log, row: Row) -> Breach | None:
    seqs = items(row.data.get("messageSeqs"))
    kind = record(row.data.get("source")).get("kind")
    if (kind == "user") != (not seqs):
        return breach(
            f"The title's source is {kind!r} and it cites {len(seqs)} messages.", "none exactly when the user wrote it"
        )
    wrong = [seq for seq in seqs if type(seq) is not int or seq not in log.human_seqs]
    if wrong or len(set(map(repr, seqs))) != len(seqs):
        return breach(
            f"The title cites {_short(seqs)}; wrong or repeated: {_short(wrong or seqs)}.",
            "seqs of earlier user messages",
        )
    return None


@rule(
    "S-LNT-104",
    "E",
    "Format 4: catalog children are unique after the cut, and markers name this session.",
    "subagent/catalog",
    "session-log-deepseek/delivery-accepted",
    "feedback/message-put",
    "feedback/message-delete",
    formats=(4,),
)
def belongs_here(log: Log, row: Row) -> list[Breach]:
    if log.seeded and not log.inherited_marker:
        return []
    data = row.data
    if row.type == "subagent/catalog":
        child = data.get("childId")
        if type(child) is not str or child not in log.children:
            return []
        return [breach(f"The child {child!r} is in the catalog already.", "once per child")]
    found = []
    if data.get("sessionId") != log.header_row.get("id"):
        found.append(breach(f"The marker names the session {data.get('sessionId')!r}.", repr(log.header_row.get("id"))))
    through = data.get("throughSeq")
    if row.type.endswith("delivery-accepted") and not (type(through) is int and through < row.index):
        found.append(breach(f"throughSeq is {through!r}.", f"a seq before {row.index}"))
    return found


RULES: tuple[Rule, ...] = (
    retry_ranges,
    retry_counts,
    retry_provider,
    retry_started,
    bracket,
    summary,
    checkpoint,
    unfinished,
    prune,
    paired,
    dispatches,
    title,
    belongs_here,
)
