"""The published packages as a subprocess: one life of one session for each call."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent / "node"


def peer_home() -> Path:
    """Where `make interop` installs the packages."""
    chosen = os.environ.get("LOOPSPEC_DSH_HOME")
    if chosen:
        return Path(chosen)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "loopspec" / "dsh-0.1.0-rc.8"


def require_peer() -> Path:
    """The packages, or a skip that says how to get them."""
    home = peer_home()
    if not (home / ".ready").exists():
        pytest.skip(f"the published packages are not installed in {home}: run `make interop` once, it needs npm")
    return home


class Refused(Exception):
    """The packages ended with an error; the text is what they printed."""


def converse(home: Path, **job: Any) -> dict[str, Any]:
    """Let the packages play one job (see `node/converse.mjs`). Raises `Refused`."""
    command = [str(home / "node_modules" / ".bin" / "node"), str(HERE / "converse.mjs"), str(home)]
    job = {"turns": [], "responses": [], "stop": "dispose", **job}
    done = subprocess.run(command, input=json.dumps(job), capture_output=True, text=True, timeout=60, check=False)
    lines = [line for line in done.stdout.split("\n") if line.startswith("{")]
    if done.returncode or not lines:
        raise Refused(done.stdout + done.stderr)
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer
