"""Folding: which results are shown condensed from their first request on, and when folding gives way.

Every question is about records of the log, so a resumed session decides as the uninterrupted one would (INV-22).
Rules: FD-01 to FD-05, FD-10 to FD-12, FD-20, FD-30 to FD-33, FD-50.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, NamedTuple

from loopspec.tape import pages, spill
from loopspec.tape.config import Fold
from loopspec.tape.digest import Digest, Source, digest
from loopspec.tape.digest_policy import DigestPolicy
from loopspec.tape.entry import FORMAT_VERSION
from loopspec.tape.index import LogIndex, arguments_of
from loopspec.tape.recall import RECALL_TOOLS
from loopspec.tape.text import canonical_json, one_line, origin, outcome, quoted, text_parts, units, utf8
from loopspec.values import Json, Record, same_value

STALE_VERSIONS: Final = (3, 2, 1)


class Subject(NamedTuple):
    """A result about to be shown: its address, what made it, and its text parts."""

    seq: int
    turn: int
    step: int
    call: int
    source: Source
    scope: str


def watermark(events: Sequence[Record]) -> int:
    """FD-02  Seq of the last event that may have followed a request; results up to it may have been seen."""
    for seq in range(len(events) - 1, -1, -1):
        kind = events[seq]["type"]
        if kind in ("request/header", "assistant/message", "assistant/attempt"):
            return seq
        if kind == "turn/end" and events[seq]["data"]["reason"]["kind"] in ("error", "aborted", "interrupted"):
            return seq
    return -1


def scope_of(tool: str, arguments: Json) -> str:
    """FD-30  What backoff is counted for: a tool and its path, or a tool and all its arguments."""
    given = arguments_of(arguments)
    path = None if given is None else path_of(given)
    if path is not None:
        return canonical_json([tool, "path", path])
    return canonical_json([tool, "arguments", arguments if given is None else given])


def path_of(arguments: Record) -> str | None:
    """FD-10  The path that a view names: `file_path`, else `path`, if it is a string."""
    for key in ("file_path", "path"):
        if isinstance(arguments.get(key), str):
            return str(arguments[key])
    return None


def subject_of(index: LogIndex, seq: int) -> Subject | None:
    """The result at `seq` as folding sees it; `None` when no call of its own step made it."""
    data = index.events[seq]["data"]
    call = index.call_of(data["turn"], data["step"], outcome(data).call_id, seq)
    if call is None:
        return None
    name, arguments = call["data"]["name"], call["data"]["arguments"]
    given = arguments_of(arguments)
    source = Source(name, None if given is None else path_of(given))
    ordinal = list(index.results_in(data["turn"], data["step"])).index(seq) + 1
    return Subject(seq, data["turn"], data["step"], ordinal, source, scope_of(name, arguments))


# -- the view ------------------------------------------------------------------------------------------------


def hint(subject: Subject, version: int = FORMAT_VERSION) -> str:
    """FD-10  The two calls that return the full text; with spaces, unlike the locators of the tape."""
    place = f'{{"turn": {subject.turn}, "step": {subject.step}, "call": {subject.call}}}'
    numeric = f'{{"seq": {subject.seq}, "formatVersion": {version}}}'
    return f"expand_result({place}) or expand_result({numeric})"


def title(source: Source) -> str:
    """`TOOL` or `TOOL PATH`, quoted when one of them could end the line or imitate a locator."""
    words = (source.tool,) if source.path is None else (source.tool, source.path)
    return " ".join(one_line(word) if '"' in word or not word.isprintable() else word for word in words)


def view(subject: Subject, found: Digest, version: int = FORMAT_VERSION) -> str:
    """FD-10  A condensed part as the model sees it."""
    counts = f"{found.total} lines, {found.kept} kept"
    head = f"[{title(subject.source)} · {found.kind} · {counts} · {hint(subject, version)} returns the full text]"
    return f"{head}\n{found.body}"


def hinted(preview: str, subject: Subject, version: int = FORMAT_VERSION) -> str:
    """FD-11  A spill preview with the calls that return the full text added to its first line."""
    first, *rest = preview.split("\n", 1)
    return "\n".join([f"{first[:-1]} · {hint(subject, version)} returns the full text]", *rest])


def spill_view(source: Source, found: Digest, size: int, locator: str, retrieval: str) -> str:
    """FD-50  A condensed result whose full text was stored; `retrieval` says how to read it."""
    counts = f"{found.total} lines, {found.kept} kept"
    stored = f"full text ({size} bytes) stored at {locator} — {retrieval}"
    return f"[{title(source)} · {found.kind} · {counts} · {stored}]\n{found.body}"


def folded(
    content: Sequence[Record],
    subject: Subject,
    policy: DigestPolicy,
    owned: Callable[[str], bool],
    evidence: Sequence[str] = (),
    version: int = FORMAT_VERSION,
) -> list[Record] | None:
    """FD-05, FD-11 to FD-13  The content with every long text part condensed; `None` when nothing changes."""
    changed = False
    blocks: list[Record] = []
    for block in content:
        text = _shown(block["text"], subject, policy, owned, evidence, version) if block["type"] == "text" else None
        changed = changed or text is not None
        blocks.append(block if text is None else {**block, "text": text})
    return blocks if changed else None


def _shown(
    text: str,
    subject: Subject,
    policy: DigestPolicy,
    owned: Callable[[str], bool],
    evidence: Sequence[str],
    version: int,
) -> str | None:
    if forwards(text, evidence):
        return None
    preview = spill.fold_preview(text)
    if preview is not None and owned(preview[0]):
        return hinted(text, subject, version)
    found = digest(text, subject.source, policy)
    return None if found.body is None else view(subject, found, version)


def forwards(text: str, evidence: Sequence[str]) -> bool:
    """FD-32  Whether a text hands on something that was retrieved, as it is or inside a JSON string."""
    return any(piece in text or quoted(piece)[1:-1] in text for piece in evidence)


def pinned(subject: Subject, content: Sequence[Record], settings: Fold) -> bool:
    """FD-20  Whether a small result of the first steps stays raw."""
    return subject.step <= settings.pin_steps and sum(map(units, text_parts(content))) < settings.pin_max_chars


def candidate(
    index: LogIndex,
    seq: int,
    settings: Fold,
    policy: DigestPolicy,
    owned: Callable[[str], bool],
    backed_off: Collection[str] = (),
    evidence: Sequence[str] = (),
) -> list[Record] | None:
    """FD-03  The content that the append-origin result at `seq` is shown with, or `None` to show it as it is."""
    message = index.events[seq]["data"]["message"]
    subject = subject_of(index, seq)
    if subject is None or message.get("isError") is True or subject.source.tool in RECALL_TOOLS:
        return None
    if subject.scope in backed_off or pinned(subject, message["content"], settings):
        return None
    return folded(message["content"], subject, policy, owned, evidence)


def is_fold(
    index: LogIndex,
    event: Record,
    policy: DigestPolicy,
    owned: Callable[[str], bool],
    evidence: Sequence[str] = (),
) -> Subject | None:
    """FD-33  The subject of a replacement that is a fold: rebuilding it from its original gives the same message.

    Texts that name an older format version are rebuilt with that version, so that folds survive a migration.
    """
    first = folded_seq(index, event)
    subject = None if first is None else subject_of(index, first)
    if first is None or subject is None:
        return None
    original, content = index.events[first]["data"]["message"], event["data"]["message"]["content"]
    for version in (FORMAT_VERSION, *STALE_VERSIONS):
        rebuilt = folded(original["content"], subject, policy, owned, evidence, version)
        if rebuilt is not None and same_value(rebuilt, content):
            return subject
    return None


def folded_seq(index: LogIndex, event: Record) -> int | None:
    """Seq of the append-origin result that a replacement cites first, or `None`."""
    sources = event.get("sourceEventSeqs") or ()
    if not sources or not 0 <= sources[0] < index.length:
        return None
    first = index.events[sources[0]]
    return sources[0] if first["type"] == "tool/result" and origin(first) else None


# -- folds and expansions -----------------------------------------------------------------------------------


class Tally(NamedTuple):
    """FD-31  Per scope: blocks folded, and blocks fully retrieved."""

    folded: int = 0
    expanded: int = 0

    def backs_off(self, after: int) -> bool:
        """Enough blocks were retrieved, and at least half of what was folded."""
        return self.expanded >= after and 2 * self.expanded >= self.folded


def is_full(arguments: Record) -> bool:
    """FD-31, RC-36  Whether a retrieval has no effective filter: blank patterns and malformed ranges are none."""
    pattern = arguments.get("grep")
    if isinstance(pattern, str) and pattern.strip():
        return False
    return pages.line_range(arguments.get("lines")) is None


def pieces(text: str) -> Iterator[str]:
    """What a program may hand on of a retrieved text: all of it, or what stands under its heading."""
    if text.strip():
        yield text
    _, _, body = text.partition("\n")
    if body.strip():
        yield body


# -- the spill arm -------------------------------------------------------------------------------------------


def spill_size(content: Sequence[Record]) -> tuple[str, int]:
    """FD-50  The text of a result as it would be stored, and its size in bytes."""
    text = "\n".join(text_parts(content))
    return text, len(utf8(text))


def spill_digest(text: str, source: Source, policy: DigestPolicy) -> Digest | None:
    """FD-50  The digest of a text that is about to be stored; `None` when it would be shown whole."""
    if source.tool in ("read", "read_file"):
        return None
    found = digest(text, source, policy)
    return None if found.body is None else found
