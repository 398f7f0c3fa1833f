"""What the plugin remembers of a session: nothing that the log does not say, the warnings given excepted."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Final
from weakref import ref

from loopharness.session import Session
from loopharness.slice.spill import SpillStore
from loopspec.profile import Law
from loopspec.tape import fold, recall, seal
from loopspec.tape.config import SliceConfig
from loopspec.tape.fold import Tally
from loopspec.tape.index import LogIndex, arguments_of
from loopspec.tape.text import origin, outcome, text_parts
from loopspec.values import Json, Record

__all__ = ["Folder", "SessionTape"]


class SessionTape:
    """The index of one session's log, and who was warned about what (TP-25, TP-45)."""

    def __init__(self, session: Session, config: SliceConfig, law: Law, store: SpillStore | None) -> None:
        self._session: Final = ref(session)
        self.law: Final = law
        self._config: Final = config
        self._store: Final = store
        self._index = LogIndex()
        self._start = 0
        self._warned: set[tuple[int, tuple[str, ...]]] = set()
        self.folder: Final = Folder(self)

    @property
    def session(self) -> Session:
        """The session. Nothing here keeps it alive."""
        session = self._session()
        assert session is not None
        return session

    @property
    def index(self) -> LogIndex:
        """The index of the log as it is now."""
        self._index = self._index.grown(self.session.events)
        return self._index

    @property
    def config(self) -> SliceConfig:
        """The settings of the plugin."""
        return self._config

    def seal(self, pending: Iterable[Record], warn: Callable[[str], None]) -> int:
        """TP-30  Plan, warn, append; one synchronous block. Answers how many entries were appended."""
        session = self.session
        surface = session.surface
        # Behind an entry little is left to look at; without any replacement there is no entry to stop at.
        self._start = 0 if surface.replacements else seal.settled(surface, self._start)
        plan = seal.seal(self.index, surface, pending, self._config.history, self.law, self._start)
        for portion in plan.broken:
            if portion.key not in self._warned:
                self._warned.add(portion.key)
                warn(portion.text)
        for entry in plan.entries:
            message = seal.entry_message(str(uuid.uuid4()), entry.text)
            session.append("user/message", message, entry.operation, entry.sources)
        return len(plan.entries)

    def owns(self, seq: int, locator: str) -> bool:
        """RC-38  Whether our store issued the locator for the original result at `seq`."""
        return self._store is not None and self._store.owns(self.session.id, self.place(seq), locator)

    def place(self, seq: int) -> tuple[int, int, str]:
        """Turn, step and call id of a result."""
        data = self.session.events[seq]["data"]
        return (data["turn"], data["step"], outcome(data).call_id)


class Folder:
    """Folds of one session: what was folded, what was taken back, and where folding has given way.

    All of it is read off the log, also after a resume (INV-22). The watermark alone is set when the folder is
    made: what a request may have shown before is never folded (FD-02).
    """

    def __init__(self, tape: SessionTape) -> None:
        self._tape = tape
        self._seen = 0
        self._cursor = fold.watermark(tape.session.events) + 1
        self.backed_off: Final[set[str]] = set()
        """Scopes that are not folded any more; only grows (INV-20)."""
        self.expansions = 0
        """How many calls have retrieved a folded result (FD-31)."""
        self._written: set[int] = set()
        self._folded: dict[int, str] = {}
        self._retrieved: set[int] = set()
        self._tallies: dict[str, Tally] = {}
        self._evidence: dict[int, list[str]] = {}
        self._counted: set[tuple[int, str]] = set()

    def run(self) -> int:
        """FD-01, FD-04, FD-05  Fold what has landed since the last time. Answers how many results were folded."""
        tape = self._tape
        session = tape.session
        index = self.advance()
        bound = index.length
        # What was appended since then stands at the end of the surface; replacements never push anything back.
        shown = frozenset(session.surface.nodes[max(0, len(session.surface.nodes) - (bound - self._cursor)) :])
        count = 0
        for seq in range(self._cursor, bound):
            event = index.events[seq]
            if event["type"] != "tool/result" or not origin(event) or seq not in shown:
                continue
            content = self._candidate(index, seq)
            if content is not None:
                data = event["data"]
                replaced = {**data, "message": {**data["message"], "content": content}}
                self._written.add(len(session.events))
                session.append("tool/result", replaced, {"op": "replace", "startSeq": seq, "endSeq": seq}, [seq])
                count += 1
        self._cursor = bound
        return count

    def _candidate(self, index: LogIndex, seq: int) -> Sequence[Record] | None:
        config = self._tape.config
        owned = self._owner(seq)
        evidence = self._evidence_behind(index, seq)
        return fold.candidate(index, seq, config.fold, config.digest, owned, self.backed_off, evidence)

    def evidence_of(self, call: int | None) -> Sequence[str]:
        """FD-32  What the program of a call (by seq) has retrieved so far."""
        return () if call is None else self._evidence.get(call, ())

    def advance(self) -> LogIndex:
        """Take in what the log says since the last time."""
        index = self._tape.index
        for seq in range(self._seen, index.length):
            event = index.events[seq]
            if event["type"] == "tool/result":
                if origin(event):
                    self._answered(index, seq, event["data"])
                else:
                    self._replaced(index, seq, event)
            elif event["type"] == "tool/ptc-dispatch":
                self._dispatched(index, seq, event["data"])
        self._seen = index.length
        return index

    def _owner(self, seq: int) -> Callable[[str], bool]:
        return lambda locator: self._tape.owns(seq, locator)

    def _evidence_behind(self, index: LogIndex, seq: int) -> Sequence[str]:
        turn, step, call_id = self._tape.place(seq)
        return self.evidence_of(index.seq_of_call(turn, step, call_id, seq))

    def _replaced(self, index: LogIndex, seq: int, event: Record) -> None:
        first = fold.folded_seq(index, event)
        if first is None:
            return
        if seq in self._written:
            subject = fold.subject_of(index, first)
        else:
            evidence = self._evidence_behind(index, first)
            subject = fold.is_fold(index, event, self._tape.config.digest, self._owner(first), evidence)
        if subject is not None:
            self._folded[first] = subject.scope
            tally = self._tallies.get(subject.scope, Tally())
            self._tallies[subject.scope] = tally._replace(folded=tally.folded + 1)

    def _answered(self, index: LogIndex, seq: int, data: Record) -> None:
        turn, step, call_id = self._tape.place(seq)
        call = index.seq_of_call(turn, step, call_id, seq)
        if call is not None and not outcome(data).failed:
            made = index.events[call]["data"]
            self._expanded(index, (call, made["callId"]), made["name"], made["arguments"])

    def _dispatched(self, index: LogIndex, seq: int, data: Record) -> None:
        root = index.root_call(seq)
        if root is None or data.get("isError") is True or data.get("name") not in recall.RECALL_TOOLS:
            return
        for text in text_parts(data.get("content")):
            self._evidence.setdefault(root, []).extend(fold.pieces(text))
        self._expanded(index, (root, str(data.get("subCallId"))), str(data["name"]), data.get("arguments"))

    def _expanded(self, index: LogIndex, call: tuple[int, str], tool: str, arguments: Json) -> None:
        given = arguments_of(arguments)
        if tool != "expand_result" or given is None or call in self._counted:
            return
        try:
            found = recall.find_result(index, given).seq
        except recall.RecallError:
            return
        scope = self._folded.get(found)
        if scope is None:
            return
        self._counted.add(call)
        self.expansions += 1
        if found in self._retrieved or not fold.is_full(given):
            return
        self._retrieved.add(found)
        tally = self._tallies.get(scope, Tally())
        tally = self._tallies[scope] = tally._replace(expanded=tally.expanded + 1)
        if tally.backs_off(self._tape.config.fold.backoff_after_expansions):
            self.backed_off.add(scope)
