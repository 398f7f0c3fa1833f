"""Reading a format 0 log as format 4: one pass, in memory, nothing stored is changed.

What changes on the way (S-MIG-2, its four steps at once): the chunks of an attempt move into the event that
settles it, or into an `assistant/attempt` of their own when nothing did; the system prompt leaves the request
header and becomes a message at node 0; tool results get their own role; sources name their producer; nested
dispatches get their new name; turns that a restart left open are closed. All seqs are new, so every reference is
rewritten; a reference to a chunk becomes one to its settlement.

Not done: the repair of vocabulary older than 0.1.0, and catalogue facts about children, which need the children.
A log whose first message stands outside a step gets its head there too, named after the step that would be open.
Which ids the writers give to migrated system messages is known only in form; ours have the same form.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple

from loopspec.log import repair
from loopspec.log.packed import TimedChunk, pack_stream
from loopspec.log.types import KNOWN_TYPES
from loopspec.request import canonical_header, same_header
from loopspec.system_prompt import content_of
from loopspec.values import Json, Record, seqs_of, without

PRODUCERS = {
    "compact": "compact-checkpoint",
    "@deepseek-ai/dsh-system-prompt": "runtime-context",
    "code-mode": "ptc-mode",
    "compaction-basic": "compact-basic",
}
"""Format 0 plugin names whose messages have a source kind of their own in format 4 (S-MSG-5)."""

SYSTEM_ID = "v2-to-v3-system-"
"""How the ids of the system messages begin that a migration makes of request headers; the rest is the session's."""

_CLOSES_ATTEMPT = frozenset({"step/end", "turn/end", "llm/retry", "llm/retry-started", "session/end-seed"})
_SEQ_LISTS = ("shadowedSeqs", "messageSeqs")


class MigrationError(ValueError):
    """A format 0 log that cannot become a format 4 log: event `seq` says something that cannot be carried over."""

    def __init__(self, seq: int, text: str) -> None:
        super().__init__(f"event {seq}: {text}")
        self.seq = seq


class Migrated(NamedTuple):
    """The format 4 log: header row, events, and for every old seq the new one that stands for it."""

    header: Record
    events: tuple[Record, ...]
    seqs: tuple[int, ...]


def migrate(header: Record, events: Iterable[Record]) -> Migrated:
    """A format 0 log, packed rows opened, as a format 4 log (S-MIG-2). Raises `MigrationError`."""
    old = tuple(events)
    run = _Migration(header, _inherited_marker(header, old))
    for seq, event in enumerate(old):
        run.take(seq, event)
    run.finish()
    return Migrated(_header(header), tuple(run.events), tuple(run.seqs[seq] for seq in range(len(old))))


def _header(header: Record) -> Record:
    names = ("type", "version", "id", "createdAt", "cwd", "parentSession", "isSeeded", "origin")
    known = {**header, "version": 4, "isSeeded": bool(header.get("seedLength"))}
    row = {name: known[name] for name in names if name in known}
    row["delegationDepth"] = header.get("delegationDepth", 0)
    if "agentPreset" in header:
        row["agentPreset"] = header["agentPreset"]
    return row


def _inherited_marker(header: Record, events: tuple[Record, ...]) -> int | None:
    """The seq of the end-seed that ends the inherited part: at the cut, or the last inherited event (S-HDR-3)."""
    cut = header.get("seedLength")
    if not cut:
        return None
    for seq in (cut, cut - 1):
        if seq < len(events) and events[seq]["type"] == "session/end-seed":
            return int(seq)
    raise MigrationError(cut, "seedLength does not point at a session/end-seed")


class _Migration:
    """One run over one log. It is used up by `migrate` and never handed out."""

    def __init__(self, header: Record, inherited: int | None) -> None:
        self.session_id: str = header["id"]
        self.inherited = inherited
        self.events: list[Record] = []
        self.seqs: dict[int, int] = {}
        self.work = repair.NOTHING_OPEN
        self.header: Record | None = None
        self.head: int | None = None
        self.prompt = ""
        self.attempt: list[tuple[int, Record]] = []

    # -- one event after the other

    def take(self, seq: int, event: Record) -> None:
        event_type = event["type"]
        if event_type == "assistant/chunk":
            self.chunk(seq, event)
            return
        if event_type in _CLOSES_ATTEMPT:
            self.settle_attempt()
        if event_type in ("turn/start", "session/end-seed"):
            self.close_turn()
        if "surfaceOp" in event and self.head is None:
            self.add_head(event["time"])
        if event_type == "request/header":
            self.request_header(seq, event)
        elif event_type == "assistant/message":
            self.assistant(seq, event)
        else:
            data = self.payload(seq, event)
            self.seqs[seq] = self.add({**self.envelope(event), "type": _type(event), "data": data})

    def finish(self) -> None:
        self.settle_attempt()
        self.close_turn()

    def add(self, event: Record) -> int:
        seq = len(self.events)
        row = {"type": event["type"], "seq": seq, **without(event, "type", "seq")}
        self.events.append(row)
        self.work = repair.follow(self.work, row)
        return seq

    def close_turn(self) -> None:
        """A restart or the end of the log left a turn open: it was interrupted."""
        for closer in repair.closers("v4", self.work):
            self.add(closer)

    # -- streams

    def chunk(self, seq: int, event: Record) -> None:
        if self.attempt and self.attempt[-1][1]["data"]["chunk"]["type"] == "finish":
            self.settle_attempt()
        self.attempt.append((seq, event))
        chunk = event["data"]["chunk"]
        if chunk["type"] == "finish" and chunk["reason"]["kind"] in ("error", "aborted"):
            self.settle_attempt()

    def settle_attempt(self) -> None:
        """Chunks that no message settled become an attempt of their own, where the next event closes them."""
        if not self.attempt:
            return
        last = self.attempt[-1][1]
        data = {"turn": last["data"]["turn"], "step": last["data"]["step"], "stream": self.stream()}
        self.add_settlement({"type": "assistant/attempt", "time": last["time"], "data": data})

    def stream(self) -> list[Record]:
        return list(pack_stream(TimedChunk(event["time"], event["data"]["chunk"]) for _, event in self.attempt))

    def add_settlement(self, event: Record) -> int:
        settled = self.add(event)
        for seq, _ in self.attempt:
            self.seqs[seq] = settled
        self.attempt = []
        return settled

    def assistant(self, seq: int, event: Record) -> None:
        """A message takes over its stream. A message that replaces older nodes has none of its own."""
        replaces = event["surfaceOp"] != "append"
        cited = None if replaces else event.get("sourceEventSeqs")
        chunks = [at for at, _ in self.attempt]
        if cited is not None and sorted(seqs_of(cited)) != chunks:
            raise MigrationError(seq, "the message does not cite exactly the chunks of its attempt")
        if replaces:
            raise MigrationError(seq, "an assistant message replaces others, which format 4 cannot express")
        data = {**self.payload(seq, event), "stream": self.stream()}
        settled = {**self.envelope(without(event, "sourceEventSeqs")), "data": data}
        self.seqs[seq] = self.add_settlement(settled)

    # -- the system prompt

    def add_head(self, time: int) -> None:
        """Node 0 is reserved for the prompt before any other node exists (S-SUR-8)."""
        self.head = self.add({**self.system(time, ""), "surfaceOp": "append"})

    def request_header(self, seq: int, event: Record) -> None:
        """The prompt leaves the header; a changed prompt replaces the head first and starts a series (S-REQ-5)."""
        data = event["data"]
        header = canonical_header(data["header"])
        prompt = header.get("system", "")
        if self.head is None:
            self.add_head(event["time"])
        moved = prompt != self.prompt
        if moved:
            operation = {"op": "replace", "startSeq": self.head, "endSeq": self.head}
            row = self.system(event["time"], prompt)
            self.head = self.add({**row, "sourceEventSeqs": [self.head], "surfaceOp": operation})
            self.prompt = prompt
        header = without(header, "system")
        record: dict[str, Json] = {"header": header, "reason": data["reason"]}
        if data["reason"] == "change" and moved:
            if self.header is not None and same_header(self.header, header):
                record["reason"] = "series"
            else:
                record["startsSeries"] = True
        self.header = header
        self.seqs[seq] = self.add({**self.envelope(event), "type": "request/header", "data": record})

    def system(self, time: int, text: str) -> dict[str, Json]:
        digest = sha256(f"{self.session_id}\n{len(self.events)}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()
        message = {
            "role": "system",
            "content": list(content_of(text)),
            "source": {"kind": "system-prompt"},
            "id": f"{SYSTEM_ID}{digest}",
        }
        data = {"turn": self.work.turn or 1, "step": self.work.step or 1, "message": message}
        return {"type": "system/message", "time": time, "data": data}

    # -- payloads and references

    def envelope(self, event: Record) -> dict[str, Json]:
        """The envelope with its references rewritten."""
        row: dict[str, Json] = {"type": event["type"], "time": event["time"], "data": None}
        if "sourceEventSeqs" in event:
            row["sourceEventSeqs"] = list(dict.fromkeys(self.seqs[seq] for seq in event["sourceEventSeqs"]))
        if "surfaceOp" in event:
            operation = event["surfaceOp"]
            if operation != "append":
                start, end = self.seqs[operation["start"]], self.seqs[operation["end"]]
                operation = {"op": "replace", "startSeq": start, "endSeq": end}
            row["surfaceOp"] = operation
        if event.get("ignorable") is True:
            row["ignorable"] = True
        return row

    def payload(self, seq: int, event: Record) -> Record:
        event_type, data = event["type"], event["data"]
        if event_type == "user/message":
            return user_message(data)
        if event_type == "tool/result":
            return {**data, "message": tool_message(data["message"])}
        if event_type == "agent/inbox/spliced":
            return {**data, "inserted": [user_message(message) for message in data["inserted"]]}
        if event_type == "session/end-seed":
            return {"inherited": True} if seq == self.inherited else {}
        if event_type in ("tool/code-dispatch", "tool/code-dispatch-start"):
            return {**data, **{name: _renamed(data[name]) for name in ("parentCallId", "subCallId")}}
        return self.references(data) if event_type in KNOWN_TYPES["v0"] else data

    def references(self, data: Record) -> Record:
        changed: dict[str, Json] = {name: [self.seqs[seq] for seq in data[name]] for name in _SEQ_LISTS if name in data}
        if "shadowedRange" in data:
            changed["shadowedRange"] = {name: self.seqs[seq] for name, seq in data["shadowedRange"].items()}
        if "sourceEventSeq" in data:
            changed["sourceEventSeq"] = self.seqs[data["sourceEventSeq"]]
        return {**data, **changed} if changed else data


def user_message(message: Record) -> Record:
    """A user message with its source named by the producer; kind `plugin` does not exist in format 4 (S-MSG-5)."""
    source = message["source"]
    if source["kind"] != "plugin":
        return message
    name = source.get("plugin", "")
    kind = PRODUCERS.get(name, f"plugin:{name}")
    return {**message, "source": {"kind": kind, **without(source, "kind", "plugin")}}


def tool_message(message: Record) -> Record:
    """A tool result as a message of its own role (S-MSG-4); the one block becomes the message."""
    block = message["content"][0]
    lifted: dict[str, Json] = {
        "role": "tool",
        "source": message["source"],
        "toolCallId": block["toolCallId"],
        "content": block["content"],
    }
    if "isError" in block:
        lifted["isError"] = block["isError"]
    return {**lifted, "id": message["id"]}


def _renamed(call_id: str) -> str:
    """A nested dispatch may itself be the parent of another."""
    return call_id.replace(":code:", ":ptc:")


def _type(event: Record) -> str:
    event_type: str = event["type"]
    if event_type not in KNOWN_TYPES["v0"]:
        return f"plugin:{event_type}"
    return event_type.replace("tool/code-dispatch", "tool/ptc-dispatch")
