"""From effects to durable records: the payload of each record that the driver machine names (agent-loop 1.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loopharness.frozen import freeze
from loopharness.model.failure import turn_error
from loopspec import inbox, system_prompt
from loopspec.kernel.machine import Effect

if TYPE_CHECKING:
    from loopharness.agent.agent import Agent

__all__ = ["Recorder"]


class Recorder:
    """Writes the records of one agent."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._outcome: dict[str, Any] = {"kind": "abandoned"}
        self._writers = {
            "agent/inbox/spliced": self._spliced,
            "turn/start": self._turn_start,
            "turn/end": self._turn_end,
            "step/start": self._step,
            "step/end": self._step,
            "system/message": self._system_message,
            "user/message": self._user_message,
            "request/header": self._request_header,
            "request/context": self._request_context,
            "assistant/chunk": self._chunk,
            "assistant/message": self._assistant_message,
            "assistant/attempt": self._assistant_attempt,
        }

    def write(self, record: Effect) -> None:
        """Append the record that an effect stands for. Raises what the append raises."""
        self._writers[record[0]](record)

    # -- inbox

    def _spliced(self, record: Effect) -> None:
        _, target, start, removed_count, inserted, outcome = record
        data: dict[str, Any] = {"target": target, "start": start}
        if removed_count:
            data["removedCount"] = removed_count
        data["inserted"] = self._agent.messages.all_of(inserted)
        if outcome:
            data["outcome"] = outcome
        self._agent.session.append("agent/inbox/spliced", data)

    def restored_lists(self) -> inbox.Lists:
        """The pending lists of a log that is taken up again (L-IN-16 to L-IN-18).

        Raises `ValueError` with `invalid persisted inbox splice at session seq <n>`; the cause says why.
        """
        agent = self._agent
        session = agent.session
        lists = inbox.Lists()
        first = session.header.get("seedLength", 0) if session.dialect == "v0" else 0
        for event in session.of_type("agent/inbox/spliced", first):
            try:
                lists = self._replayed(lists, event["data"])
            except ValueError as error:
                raise ValueError(f"invalid persisted inbox splice at session seq {event['seq']}") from error
        return lists

    def _replayed(self, lists: inbox.Lists, data: Any) -> inbox.Lists:
        messages = self._agent.messages
        target, start, removed_count = data["target"], data["start"], data.get("removedCount", 0)
        items = lists.next_turn if target == "next-turn" else lists.next_step
        leaving = items[start : start + removed_count]
        numbers = messages.offer(data["inserted"], lists.next_turn + lists.next_step, leaving)
        try:
            lists = inbox.replayed(lists, target, start, removed_count, numbers)
        except inbox.AlreadyPending as clash:
            raise ValueError(f'message "{messages.of(clash.message)["id"]}" is already pending') from None
        for number in leaving:
            messages.drop(number)
        return lists

    # -- turn and step

    def _turn_start(self, record: Effect) -> None:
        self._agent.session.append("turn/start", {"turn": record[1]})

    def _turn_end(self, record: Effect) -> None:
        agent = self._agent
        reason: dict[str, Any] = {"kind": record[2]}
        if record[2] == "aborted":
            reason["reason"] = dict(record[3].cause)
        elif record[2] == "error":
            reason["error"] = turn_error(agent.failure)
        agent.turn_over()
        agent.session.append("turn/end", {"turn": record[1], "reason": reason})

    def _step(self, record: Effect) -> None:
        self._agent.session.append(record[0], {"turn": record[1], "step": record[2]})

    # -- messages that enter history

    def _user_message(self, record: Effect) -> None:
        self._agent.session.append("user/message", self._agent.messages.of(record[1]), "append")

    def _system_message(self, record: Effect) -> None:
        core = self._agent.core
        change = self._agent.attempts.next_system_change()
        message = {
            "role": "system",
            "content": system_prompt.content_of(change.text),
            "source": {"kind": "system-prompt"},
            "id": self._agent.services.new_id(),
        }
        data = {"turn": core.turn, "step": core.step, "message": message}
        if isinstance(change, system_prompt.AppendSystem):
            self._agent.session.append("system/message", data, "append")
        else:
            operation = {"op": "replace", "startSeq": change.seq, "endSeq": change.seq}
            self._agent.session.append("system/message", data, operation, [change.seq])

    # -- request

    def _request_header(self, record: Effect) -> None:
        self._agent.session.append("request/header", freeze(dict(self._agent.attempts.header_data(record[1]))))

    def _request_context(self, record: Effect) -> None:
        context = self._agent.attempts.context
        assert context is not None, "the machine writes a context only when one is due"
        self._agent.session.append("request/context", dict(context))

    # -- stream

    def _chunk(self, record: Effect) -> None:
        agent = self._agent
        core = agent.core
        data = {"turn": core.turn, "step": core.step, "chunk": agent.attempts.chunk}
        seq = len(agent.session.events)
        agent.session.append("assistant/chunk", data)
        agent.attempts.take_chunk(0, seq)

    def frame(self, kind: str) -> dict[str, Any]:
        """The payload of a live stream frame; a chunk frame takes its chunk (VS-1)."""
        agent = self._agent
        core, attempts = agent.core, agent.attempts
        if kind == "start":
            attempts.open_stream()
            return {"type": "start", **attempts.frame(), "turn": core.turn, "step": core.step}
        frame = {"type": kind, **attempts.frame(), "index": attempts.chunk_count}
        if kind == "chunk":
            time = agent.session.now()
            attempts.take_chunk(time, None)
            return {**frame, "time": time, "chunk": attempts.chunk}
        return {**frame, "outcome": self._outcome}

    def _assistant_message(self, record: Effect) -> None:
        attempts = self._agent.attempts
        data, sources = attempts.interrupted() if record[1] == "interrupted" else attempts.settled()
        self._settle("assistant/message", data, "append", sources)

    def _assistant_attempt(self, record: Effect) -> None:
        core, attempts = self._agent.core, self._agent.attempts
        data = {"turn": core.turn, "step": core.step, "stream": attempts.stream_record()}
        self._settle("assistant/attempt", data, None, None)

    def _settle(self, type: str, data: dict[str, Any], operation: str | None, sources: list[int] | None) -> None:
        """Append a settlement, and remember how it went for the stream's end frame (VS-4)."""
        self._outcome = {"kind": "abandoned"}
        event = self._agent.session.append(type, data, operation, sources)
        self._outcome = {"kind": "committed", "eventType": type, "seq": event["seq"]}
