"""Small session logs built by hand, for tests: a legal one per format, edits that break one rule each."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

Event = dict[str, Any]
Rows = list[Event]
"""The header and then the events, as they stand in the file."""

_TOOLS = [{"name": "read", "description": "read tool", "parameters": {"type": "object", "properties": {}}}]


def render(rows: Rows) -> bytes:
    """The rows as a plain file."""
    return b"".join(json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode() + b"\n" for row in rows)


class Builder:
    """Appends events with the next seq and a time one millisecond later."""

    def __init__(self, version: int, **header: Any) -> None:
        seeded = {"isSeeded": False} if version == 4 else {}
        self.version = version
        self.rows: Rows = [
            {"type": "session", "version": version, "id": "made", "createdAt": 1000, "cwd": "/workspace"}
            | seeded
            | {"delegationDepth": 0}
            | header
        ]
        self.turn = 0
        self.step = 0
        self.messages = 0

    @property
    def seq(self) -> int:
        return len(self.rows) - 1

    def add(self, kind: str, data: Any, **envelope: Any) -> int:
        """Append one event; its seq."""
        seq = self.seq
        self.rows.append({"type": kind, "seq": seq, "time": 1001 + seq, "data": data, **envelope})
        return seq

    def at(self, **data: Any) -> Event:
        """Data that name the open turn and step."""
        return {"turn": self.turn, "step": self.step, **data}

    def user(self, text: str, message_id: str, kind: str = "user") -> Event:
        return {
            "id": message_id,
            "role": "user",
            "content": [{"type": "text", "text": text}],
            "source": {"kind": kind},
        }

    def queue(self, message: Event, target: str = "next-turn", start: int = 0) -> int:
        return self.add("agent/inbox/spliced", {"target": target, "start": start, "inserted": [message]})

    def claim(self, target: str = "next-turn", count: int = 1) -> int:
        return self.add("agent/inbox/spliced", {"target": target, "start": 0, "removedCount": count, "inserted": []})

    def begin(self, text: str, message_id: str) -> None:
        """Queue and claim a prompt, open a turn and its first step, let the prompt enter."""
        message = self.user(text, message_id)
        self.queue(message)
        self.turn += 1
        self.step = 0
        self.add("turn/start", {"turn": self.turn})
        self.claim()
        self.open_step()
        if self.version == 4 and self.turn == 1:
            self.system("You are a test agent.", "s1")
        self.add("user/message", message, surfaceOp="append")
        if self.turn == 1:
            self.header("initial")
            self.add("request/context", {"provider": "mock", "model": "m"})

    def system(self, text: str, message_id: str, **envelope: Any) -> int:
        content = [{"type": "text", "text": text}] if text else []
        message = {"id": message_id, "role": "system", "content": content, "source": {"kind": "system-prompt"}}
        return self.add("system/message", self.at(message=message), **({"surfaceOp": "append"} | envelope))

    def header(self, reason: str, **more: Any) -> int:
        header = {"config": {"provider": "mock", "model": "m"}, "tools": copy.deepcopy(_TOOLS)}
        return self.add("request/header", {"header": header, "reason": reason, **more})

    def open_step(self) -> None:
        self.step += 1
        self.add("step/start", self.at())

    def close_step(self) -> None:
        self.add("step/end", self.at())

    def end(self, kind: str = "completed", **more: Any) -> None:
        self.close_step()
        self.add("turn/end", {"turn": self.turn, "reason": {"kind": kind, **more}})

    def answer(self, *blocks: Event, finish: str = "stop", deltas: int = 1) -> int:
        """A streamed assistant message of these blocks, each text in so many deltas; its seq."""
        chunks: list[Event] = []
        for index, block in enumerate(blocks):
            chunks.append({"type": "block-start", "index": index, "blockType": block["type"]})
            if block["type"] == "tool-call":
                chunks.append(
                    {
                        "type": "tool-call-delta",
                        "index": index,
                        "id": block["id"],
                        "name": block["name"],
                        "argumentsDelta": block["arguments"],
                    }
                )
            else:
                words = block["text"]
                size = max(1, -(-len(words) // deltas))
                parts = [words[at : at + size] for at in range(0, len(words), size)] or [""]
                chunks += [{"type": f"{block['type']}-delta", "index": index, "text": part} for part in parts]
            chunks.append({"type": "block-end", "index": index, "block": block})
        usage = {"inputTokens": 10, "outputTokens": 5}
        chunks.append({"type": "usage", "usage": usage})
        chunks.append({"type": "finish", "reason": {"kind": finish}})
        self.messages += 1
        message = {
            "id": f"a{self.messages}",
            "role": "assistant",
            "content": list(blocks),
            "source": {"kind": "model", "provider": "mock", "model": "m"},
        }
        if self.version == 0:
            sources = [self.add("assistant/chunk", self.at(chunk=chunk)) for chunk in chunks]
            data = self.at(message=message, usage=usage)
            return self.add("assistant/message", data, sourceEventSeqs=sources, surfaceOp="append")
        stream = packed([stream_record(chunk, 1001 + self.seq) for chunk in chunks])
        return self.add("assistant/message", self.at(message=message, usage=usage, stream=stream), surfaceOp="append")

    def call(self, call_id: str, arguments: str = "{}") -> int:
        return self.add("tool/call", self.at(callId=call_id, name="read", arguments=arguments))

    def result(self, call_id: str, cites: int | None, text: str = "ok", **more: Any) -> int:
        """An appended tool result; `more` goes into its data, with `is_error` and `message_id` taken out."""
        is_error = more.pop("is_error", False)
        message = self.result_message(call_id, text, is_error, more.pop("message_id", f"r-{call_id}-{self.seq}"))
        sources = {} if cites is None else {"sourceEventSeqs": [cites]}
        return self.add("tool/result", self.at(message=message, **more), **sources, surfaceOp="append")

    def result_message(self, call_id: str, text: str, is_error: bool, message_id: str) -> Event:
        blocks = [{"type": "text", "text": text}]
        source = {"kind": "tool", "callId": call_id}
        if self.version == 0:
            block = {"type": "tool-result", "toolCallId": call_id, "content": blocks, "isError": is_error}
            return {"id": message_id, "role": "user", "content": [block], "source": source}
        return {
            "id": message_id,
            "role": "tool",
            "toolCallId": call_id,
            "content": blocks,
            "isError": is_error,
            "source": source,
        }


def stream_record(chunk: Event, time: int) -> Event:
    """One chunk as a record of an embedded stream, deltas packed as the format wants them."""
    kind = chunk["type"]
    if kind in ("text-delta", "reasoning-delta"):
        packed = kind.replace("-delta", "-chunks")
        return {"type": packed, "time0": time, "index": chunk["index"], "dt": [], "texts": [chunk["text"]]}
    if kind == "tool-call-delta":
        return {
            "type": "tool-call-chunks",
            "time0": time,
            "index": chunk["index"],
            "dt": [],
            "id": chunk["id"],
            "name": chunk["name"],
            "args": [chunk["argumentsDelta"]],
        }
    return {"type": "chunk", "time": time, "chunk": chunk}


def packed(records: list[Event]) -> list[Event]:
    """Neighbouring text runs of one block joined, as a writer would."""
    joined: list[Event] = []
    for record in records:
        last = joined[-1] if joined else None
        if last is not None and "texts" in record and last.get("index") == record["index"] and "texts" in last:
            last["dt"].append(0)
            last["texts"] += record["texts"]
        else:
            joined.append(record)
    return joined


def text(words: str) -> Event:
    return {"type": "text", "text": words}


def tool_call(call_id: str, name: str = "read", arguments: str = "{}") -> Event:
    return {"type": "tool-call", "id": call_id, "name": name, "arguments": arguments}


def legal(version: int) -> Builder:
    """Two turns: one with two parallel calls, then one plain answer."""
    log = Builder(version)
    log.begin("Read two files.", "u1")
    log.answer(tool_call("c1"), tool_call("c2"), finish="tool-calls")
    first, second = log.call("c1"), log.call("c2")
    log.result("c1", first)
    log.result("c2", second)
    log.close_step()
    log.open_step()
    log.answer(text("Done."))
    log.end()
    log.begin("Thanks.", "u2")
    log.answer(text("Welcome."))
    log.end()
    return log


def many_turns(version: int, turns: int, deltas: int = 1) -> Builder:
    """A long legal log of plain turns; every answer streams so many deltas."""
    log = Builder(version)
    for number in range(1, turns + 1):
        log.begin(f"Question {number}", f"u{number}")
        log.answer(text(f"Answer {number}. " + "word " * deltas), deltas=deltas)
        log.end()
    return log


Edit = Callable[[Rows], None]


def find(rows: Rows, kind: str, nth: int = 0) -> int:
    """The position of the nth row of a type, from 0; negative counts from the end."""
    return [at for at, row in enumerate(rows) if row["type"] == kind][nth]
