"""Checking a session log: the full check, acceptance included, beside a plain reader of the same file.

The peer is `zstdcat FILE | jq -c .` (CPU seconds of both processes) where both are installed, else one pass of
`json.loads` over the decompressed rows. A ratio above 1 means that the full check takes less CPU than the peer.
`LOOPSPEC_BENCH_MILLION=1` adds logs of a million events.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import zstandard

from benchmarks.measure import Figure, Status, peak, repeated
from loopconform.check import Options, check_file

Row = dict[str, Any]

_PROMPT = "Please look at the third file again and tell me what has changed since the last release of the tool."
_WORDS = ("The ", "file ", "holds ", "forty-two ", "functions, ", "one ", "of ", "them ", "new.\n")
_RESULT = "def measure(what: str) -> float:\n    return statistics.median(values[what])\n" * 6


class Writer:
    """Rows of a session that could be real: prompts, streamed answers, tool calls with results."""

    def __init__(self, version: int, deltas: int, packed: bool) -> None:
        self.version, self.deltas, self.packed = version, deltas, packed
        self.seq, self.clock, self.turn, self.step, self.number = 0, 1_796_000_000_000, 0, 0, 0

    def row(self, kind: str, data: Any, **more: Any) -> Row:
        """One event with the next seq."""
        self.clock += 7
        made = {"type": kind, "seq": self.seq, "time": self.clock, "data": data, **more}
        self.seq += 1
        return made

    def id(self) -> str:
        """The next message id, in the form of a UUID."""
        self.number += 1
        return f"00000000-0000-4000-8000-{self.number:012d}"

    def header(self) -> Row:
        """The first row."""
        made: Row = {"type": "session", "version": self.version, "id": "bench", "createdAt": 1_796_000_000_000}
        made["cwd"] = "/workspace"
        if self.version == 4:
            made["isSeeded"] = False
        return {**made, "delegationDepth": 0}

    def at(self, **data: Any) -> Row:
        """Data that name the open turn and step."""
        return {"turn": self.turn, "step": self.step, **data}

    def session_turn(self) -> Iterator[Row]:
        """One turn of two steps: two parallel calls, then an answer in words."""
        message: Row = {"content": [{"type": "text", "text": _PROMPT}], "source": {"kind": "user"}, "role": "user"}
        message["id"] = self.id()
        splice = "agent/inbox/spliced"
        yield self.row(splice, {"target": "next-turn", "start": 0, "inserted": [message]})
        self.turn, self.step = self.turn + 1, 1
        yield self.row("turn/start", {"turn": self.turn})
        yield self.row(splice, {"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []})
        yield self.row("step/start", self.at())
        if self.turn == 1 and self.version == 4:
            system: Row = {"id": self.id(), "role": "system", "source": {"kind": "system-prompt"}}
            system["content"] = [{"type": "text", "text": "You are a benchmark agent."}]
            yield self.row("system/message", self.at(message=system), surfaceOp="append")
        yield self.row("user/message", message, surfaceOp="append")
        if self.turn == 1:
            tool: Row = {"name": "read", "description": "Reads a file.", "parameters": {"type": "object"}}
            config: Row = {"provider": "mock", "model": "m1"}
            yield self.row("request/header", {"header": {"config": config, "tools": [tool]}, "reason": "initial"})
            yield self.row("request/context", config)
        calls = [f"call_{self.turn}_{n}" for n in (1, 2)]
        arguments = '{"path":"src/measure.py"}'
        yield from self.answer([{"type": "tool-call", "id": c, "name": "read", "arguments": arguments} for c in calls])
        seqs = []
        for call in calls:
            seqs.append(self.seq)
            yield self.row("tool/call", self.at(callId=call, name="read", arguments=arguments))
        for call, seq in zip(calls, seqs, strict=True):
            result = self.at(message=self.result(call))
            yield self.row("tool/result", result, sourceEventSeqs=[seq], surfaceOp="append")
        yield self.row("step/end", self.at())
        self.step = 2
        yield self.row("step/start", self.at())
        words = "".join(_WORDS[at % len(_WORDS)] for at in range(self.deltas))
        yield from self.answer([{"type": "text", "text": words}])
        yield self.row("step/end", self.at())
        yield self.row("turn/end", {"turn": self.turn, "reason": {"kind": "completed"}})

    def result(self, call: str) -> Row:
        """The message of a tool result."""
        blocks, source = [{"type": "text", "text": _RESULT}], {"kind": "tool", "callId": call}
        if self.version == 4:
            made = {"role": "tool", "source": source, "toolCallId": call, "content": blocks, "isError": False}
            return {**made, "id": self.id()}
        block = {"type": "tool-result", "toolCallId": call, "content": blocks, "isError": False}
        return {"role": "user", "content": [block], "source": source, "id": self.id()}

    def answer(self, blocks: list[Row]) -> Iterator[Row]:
        """A streamed assistant message."""
        usage = {"inputTokens": 1200, "outputTokens": 80}
        chunks: list[Row] = []
        for index, block in enumerate(blocks):
            chunks.append({"type": "block-start", "index": index, "blockType": block["type"]})
            if block["type"] == "text":
                parts = [_WORDS[at % len(_WORDS)] for at in range(self.deltas)]
                chunks += [{"type": "text-delta", "index": index, "text": part} for part in parts]
            else:
                given = {"index": index, "id": block["id"], "name": block["name"]}
                chunks.append({"type": "tool-call-delta", **given, "argumentsDelta": block["arguments"]})
            chunks.append({"type": "block-end", "index": index, "block": block})
        kind = "stop" if blocks[0]["type"] == "text" else "tool-calls"
        chunks += [{"type": "usage", "usage": usage}, {"type": "finish", "reason": {"kind": kind}}]
        source = {"kind": "model", "provider": "mock", "model": "m1"}
        message = {"role": "assistant", "content": blocks, "source": source, "id": self.id()}
        data = self.at(message=message, usage=usage)
        if self.version == 4:
            yield self.row("assistant/message", {**data, "stream": self.stream(chunks)}, surfaceOp="append")
            return
        first = self.seq
        yield from self.packed_rows(chunks) if self.packed else self.plain_rows(chunks)
        sources = list(range(first, self.seq))
        yield self.row("assistant/message", data, sourceEventSeqs=sources, surfaceOp="append")

    def plain_rows(self, chunks: list[Row]) -> Iterator[Row]:
        """One row per chunk."""
        for chunk in chunks:
            yield self.row("assistant/chunk", self.at(chunk=chunk))

    def packed_rows(self, chunks: list[Row]) -> Iterator[Row]:
        """Runs of three text deltas and more in one row each, as the published writer stores them."""
        texts = [chunk["text"] for chunk in chunks if chunk["type"] == "text-delta"]
        for chunk in chunks:
            if chunk["type"] != "text-delta" or len(texts) < 3:
                yield self.row("assistant/chunk", self.at(chunk=chunk))
            elif texts:
                data = self.at(index=chunk["index"], dt=[7] * (len(texts) - 1), texts=texts)
                yield {"type": "text-chunks", "seq0": self.seq, "time0": self.clock, "data": data}
                self.seq += len(texts)
                self.clock += 7 * (len(texts) - 1)
                texts = []
                chunks = [one for one in chunks if one["type"] != "text-delta"]
                rest = chunks[chunks.index(next(one for one in chunks if one["type"] == "block-end")) :]
                yield from self.plain_rows(rest)
                return

    def stream(self, chunks: list[Row]) -> list[Row]:
        """The embedded stream of format 4."""
        records: list[Row] = []
        for chunk in chunks:
            if chunk["type"] == "text-delta":
                if records and records[-1]["type"] == "text-chunks":
                    records[-1]["dt"].append(7)
                    records[-1]["texts"].append(chunk["text"])
                    continue
                run = {"time0": self.clock, "index": chunk["index"], "dt": [], "texts": [chunk["text"]]}
                records.append({"type": "text-chunks", **run})
            elif chunk["type"] == "tool-call-delta":
                given = {key: chunk[key] for key in ("index", "id", "name")}
                run = {"time0": self.clock, "dt": [], "args": [chunk["argumentsDelta"]]}
                records.append({"type": "tool-call-chunks", **run, **given})
            else:
                records.append({"type": "chunk", "time": self.clock, "chunk": chunk})
        return records


def rows(version: int, events: int, deltas: int, packed: bool) -> Iterator[Row]:
    """A session of at least so many events."""
    writer = Writer(version, deltas, packed)
    yield writer.header()
    while writer.seq < events:
        yield from writer.session_turn()


def write(path: Path, version: int, events: int, deltas: int, packed: bool) -> None:
    """The session as a file of frames: the header, then one frame per hundred rows."""
    frames = zstandard.ZstdCompressor(write_checksum=True, write_content_size=False)
    with path.open("wb") as stream:
        batch: list[bytes] = []
        for number, row in enumerate(rows(version, events, deltas, packed)):
            batch.append(json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")
            if number == 0 or len(batch) == 100:
                stream.write(frames.compress(b"".join(batch)))
                batch = []
        if batch:
            stream.write(frames.compress(b"".join(batch)))


def peer_name() -> str:
    """What the check is measured by on this machine."""
    return "zstdcat | jq -c ." if shutil.which("zstdcat") and shutil.which("jq") else "json.loads"


def peer_seconds(path: Path) -> float:
    """CPU seconds of one plain reading of the file."""
    if peer_name() == "json.loads":
        start = time.thread_time()
        with (
            path.open("rb") as stream,
            zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True) as r,
        ):
            for line in r.read().splitlines():
                json.loads(line)
        return time.thread_time() - start
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with subprocess.Popen(["zstdcat", str(path)], stdout=subprocess.PIPE) as reader:
        subprocess.run(["jq", "-c", "."], stdin=reader.stdout, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


def check_seconds(path: Path, accept: bool = True) -> float:
    """CPU seconds of the full check, in this process."""
    start = time.thread_time()
    report = check_file(path, Options("dsh-0.1", accept=accept))
    used = time.thread_time() - start
    assert report.verdict == "clean", report.findings[:3]
    return used


_CHECK_ONCE = """
import sys
from pathlib import Path
from benchmarks.measure import peak
from loopconform.check import Options, check_file
check_file(Path(sys.argv[1]), Options("dsh-0.1"))
print(peak())
"""


def check_memory(path: Path) -> float:
    """Peak memory of a process that checks the file and does nothing else, in MiB."""
    done = subprocess.run([sys.executable, "-c", _CHECK_ONCE, str(path)], capture_output=True, text=True, check=True)
    return float(done.stdout)


def peer_memory(path: Path) -> float:
    """Peak memory of jq on the same file, looked at while it runs, in MiB."""
    most = 0.0
    with subprocess.Popen(["zstdcat", str(path)], stdout=subprocess.PIPE) as reader:
        peer = subprocess.Popen(["jq", "-c", "."], stdin=reader.stdout, stdout=subprocess.DEVNULL)
        while peer.poll() is None:
            most = max(most, peak(peer.pid))
            time.sleep(0.01)
    return most


def peaks(what: str, path: Path) -> Iterator[Figure]:
    """The memory of the check and of the peer, where the system tells it."""
    if not Path("/proc/self/status").exists():
        return
    yield Figure(f"{what}: peak memory of the check", (check_memory(path),), "MiB")
    if peer_name() != "json.loads":
        yield Figure(f"{what}: peak memory of jq", (peer_memory(path),), "MiB")


def check_rate(path: Path, events: int, accept: bool) -> float:
    """Events per CPU second of the check."""
    return events / check_seconds(path, accept)


def workloads(status: Status) -> list[Figure]:
    """All figures of this file."""
    figures: list[Figure] = []
    sizes = [100_000, *([1_000_000] if os.environ.get("LOOPSPEC_BENCH_MILLION") else [])]
    shapes = (("format 0, packed", 0, 50, True), ("format 0, unpacked", 0, 50, False), ("format 4", 4, 50, False))
    with tempfile.TemporaryDirectory() as folder:
        for events in sizes:
            for name, version, deltas, packed in shapes:
                what = f"{events:,} events, {name}"
                path = Path(folder, "bench.jsonl.zstd")
                with status(what):
                    write(path, version, events, deltas, packed)
                    check_seconds(path)  # the automaton is worked out once per process
                    runs = 5 if events <= 100_000 else 3
                    for label, accept in (("check", True), ("without acceptance", False)):
                        rate = partial(check_rate, path, events, accept)
                        figures.append(repeated(f"{what}: {label}", "events / CPU s", rate, runs))
                    ratios = tuple(peer_seconds(path) / check_seconds(path) for _ in range(runs))
                    figures.append(Figure(f"{what}: {peer_name()} ÷ check", ratios, "ratio"))
                    figures.extend(peaks(what, path))
    return figures
