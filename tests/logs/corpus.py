"""The corpora that the checker is measured on, and where they lie."""

from __future__ import annotations

import base64
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import zstandard

HERE = Path(__file__).parent
REAL = HERE / "upstream-rc8"
FIELD = HERE / "field-cases"
SHARED = Path(os.environ.get("LOOPSPEC_CORPUS", Path(__file__).parents[3] / "shared" / "corpus"))
"""Corpora that may not be copied into the repository; tests that need them are skipped where they are missing."""


@cache
def mutations() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((REAL / "mutations.json").read_bytes())
    return found


@cache
def _bodies() -> dict[str, dict[str, str]]:
    packed = (REAL / "mutations.bodies.json.zstd").read_bytes()
    found: dict[str, dict[str, str]] = json.loads(zstandard.ZstdDecompressor().decompressobj().decompress(packed))
    return found


def is_zstd(name: str) -> bool:
    return name in _bodies()["zstdBase64"]


def body(name: str) -> bytes:
    """The bytes of a mutated log."""
    if is_zstd(name):
        return base64.b64decode(_bodies()["zstdBase64"][name])
    return _bodies()["plain"][name].encode("utf-8", "surrogatepass")


def write(mutation: dict[str, Any], root: Path) -> Path:
    """The mutated log in a session directory of its own, as the writer lays them out."""
    base = (REAL / f"{mutation['base']}.jsonl").read_bytes().split(b"\n", 1)[0]
    session: str = mutation.get("dirId") or json.loads(base)["id"]
    folder = root / "--workspace--" / session
    folder.mkdir(parents=True)
    path = folder / ("session.jsonl.zstd" if is_zstd(mutation["name"]) else "session.jsonl")
    path.write_bytes(body(mutation["name"]))
    return path


def unpacked(path: Path) -> list[bytes]:
    """The rows of a real log with packed rows opened, as the mutations were made from them.

    Written out here on purpose: the expected line of a mutation must not depend on our own unpacking.
    """
    lines: list[bytes] = []
    for line in path.read_bytes().splitlines():
        row = json.loads(line)
        if "seq0" not in row:
            lines.append(line)
            continue
        data = row["data"]
        time = row["time0"]
        is_call = row["type"] == "tool-call-chunks"
        for at, words in enumerate(data["args"] if is_call else data["texts"]):
            if at:
                time += data["dt"][at - 1]
            chunk: dict[str, Any] = {"type": row["type"].replace("-chunks", "-delta"), "index": data["index"]}
            if is_call:
                chunk["id"] = data["id"]
                if "name" in data:
                    chunk["name"] = data["name"]
                chunk["argumentsDelta"] = words
            else:
                chunk["text"] = words
            place = {"turn": data["turn"], "step": data["step"], "chunk": chunk}
            event = {"type": "assistant/chunk", "seq": row["seq0"] + at, "time": time, "data": place}
            lines.append(json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode())
    return lines


def changed_lines(mutation: dict[str, Any]) -> list[int]:
    """The physical lines of a mutated log that its base does not have there, from a plain comparison of the rows."""
    new = body(mutation["name"]).split(b"\n")
    if new and new[-1] == b"":
        new.pop()
    path = REAL / f"{mutation['base']}.jsonl"
    candidates = [path.read_bytes().splitlines(), unpacked(path)]
    return min((_different(old, new) for old in candidates), key=len)


def _different(old: list[bytes], new: list[bytes]) -> list[int]:
    if len(old) == len(new):
        return [at + 1 for at, (left, right) in enumerate(zip(old, new, strict=True)) if left != right]
    start = next(
        (at for at, (left, right) in enumerate(zip(old, new, strict=False)) if left != right), min(len(old), len(new))
    )
    return list(range(start + 1, len(new) + 1)) or [len(new)]
