"""The published packages behind the protocol: what their adapter says, line for line, without any judge.

Skipped where the packages are not installed: `make interop` or `make conform-dsh` installs them.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.interop.peer import require_peer

from loopconform.protocol import read_reply

ADAPTER = Path(__file__).parents[2] / "conformance" / "adapters" / "node-dsh" / "adapter.mjs"
SETTLE = {"verb": "settle"}
TOOLS = [{"name": "t", "parallel": True}]


def do(*ops: dict[str, Any]) -> dict[str, Any]:
    return {"verb": "do", "ops": list(ops)}


def release(gate: str, kind: str, key: str = "", ops: tuple[dict[str, Any], ...] = (), **more: Any) -> dict[str, Any]:
    return {"verb": "release", "gate": gate, "agent": "a", "key": key, "outcome": {"kind": kind, **more}, "ops": [*ops]}


def chunks_of_calls(*ids: str) -> list[dict[str, Any]]:
    """Plans for one stream that calls tool `t` once for each id."""
    chunks: list[dict[str, Any]] = []
    for index, id in enumerate(ids):
        block = {"type": "tool-call", "id": id, "name": "t", "arguments": "{}"}
        chunks += [
            {"type": "block-start", "index": index, "blockType": "tool-call"},
            {"type": "tool-call-delta", "index": index, "id": id, "name": "t", "argumentsDelta": "{}"},
            {"type": "block-end", "index": index, "block": block},
        ]
    chunks.append({"type": "finish", "reason": {"kind": "tool-calls"}})
    outcomes = [*({"kind": "chunk", "chunk": chunk} for chunk in chunks), {"kind": "end"}]
    return [{"verb": "plan", "gate": "chunk", "outcome": outcome} for outcome in outcomes]


def replies(program: list[dict[str, Any]], *arguments: str) -> list[dict[str, Any]]:
    """Everything that the adapter says to a program, `hello` and `bye` left out; every line is checked."""
    home = require_peer()
    requests = [{"verb": "hello", "protocol": 1}, *program, {"verb": "bye"}]
    text = "".join(json.dumps({"id": number, **request}) + "\n" for number, request in enumerate(requests))
    command = [str(home / "node_modules" / ".bin" / "node"), str(ADAPTER), "--home", str(home), *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for line in lines:
        read_reply(line)
    return [json.loads(line) for line in lines[1:-1]]


def shown(reply: dict[str, Any]) -> str:
    """A reply as a few words."""
    match reply["type"]:
        case "record":
            return str(reply["event"]["type"])
        case "live":
            return " ".join(map(str, (reply["name"], *reply["data"].values()))) if reply["data"] else reply["name"]
        case "gate":
            return f"gate {reply['gate']} {reply['key']}".strip()
        case kind:
            return str(kind)


def windows(program: list[dict[str, Any]], *arguments: str) -> list[list[str]]:
    """The replies by settle window, in a few words each."""
    found: list[list[str]] = [[]]
    for reply in replies(program, *arguments):
        if reply["type"] == "settled":
            found.append([])
        elif reply["type"] != "ok":
            found[-1].append(shown(reply))
    return found


def test_a_plain_turn_is_the_golden_trace() -> None:
    """G1: what comes before a waking send returns, and what after."""
    program = [{"verb": "open"}, do({"op": "create"}), SETTLE, do({"op": "followup", "message": "m1"}), SETTLE]
    assert windows(program)[1] == [
        "agent/inbox/spliced",
        "agent/inbox/inserted {'id': 'm1'}",
        "agent/status running",
        "turn/start",
        "agent/inbox/spliced",
        "agent/inbox/claimed {'id': 'm1'} 1",
        "returned",
        "step/start",
        "user/message",
        "request/header",
        "request/context",
        *["assistant/chunk"] * 5,
        "assistant/message",
        "step/end",
        "turn/end",
        "agent/status idle",
    ]


def test_a_gate_holds_until_its_release_and_its_operations_run_in_the_hook() -> None:
    held = {"verb": "open", "hold": [{"gate": "pre-step"}]}
    steering = ({"op": "steer", "message": "m2"},)
    program = [held, do({"op": "create"}, {"op": "when-idle"}), SETTLE, do({"op": "followup", "message": "m1"}), SETTLE]
    seen = windows([*program, release("pre-step", "reject", ops=steering), SETTLE])
    assert seen[1][-1] == "gate pre-step"
    # The steering comes before the verdict, is parked by it, and nothing else happens.
    assert seen[2] == [
        "agent/inbox/spliced",
        "agent/inbox/inserted {'id': 'm2'}",
        "returned",
        "turn/end",
        "agent/status idle",
    ]


def test_an_honoured_gate_rejects_when_its_signal_is_aborted() -> None:
    for honour in (True, False):
        program = [
            {"verb": "open", "hold": [{"gate": "request", "honour": honour}]},
            do({"op": "create"}),
            SETTLE,
            do({"op": "followup", "message": "m1"}),
            SETTLE,
            do({"op": "cancel"}),
            SETTLE,
        ]
        last = replies(program)[-1]
        assert last["agents"]["a"]["status"] == ("idle" if honour else "running")
        assert [place["gate"] for place in last["parked"]] == ([] if honour else ["request"])


def test_a_reaction_runs_inside_the_dispatch_and_a_veto_before_it() -> None:
    program = [
        {"verb": "open"},
        do({"op": "create"}),
        SETTLE,
        {"verb": "react", "on": {"live": "agent/status", "where": {"status": "running"}}, "ops": [{"op": "cancel"}]},
        do({"op": "followup", "message": "m1"}),
        SETTLE,
        {"verb": "veto", "record": "turn/start"},
        do({"op": "followup", "message": "m2"}),
        SETTLE,
    ]
    seen = windows(program)
    assert seen[1] == [
        "agent/inbox/spliced",
        "agent/inbox/inserted {'id': 'm1'}",
        "agent/status running",
        "agent/inbox/spliced",
        "agent/inbox/discarded {'id': 'm1'}",
        "returned",
        "returned",
        "agent/status idle",
    ]
    assert [line for line in seen[2] if line.startswith(("turn", "agent/error"))] == [
        "agent/error 0 0 {'name': 'Error', 'message': 'planned'}"
    ]


def test_what_was_stored_survives_a_restart() -> None:
    program = [
        {"verb": "open", "storage": True, "hold": [{"gate": "load"}]},
        do({"op": "create"}),
        SETTLE,
        do({"op": "followup", "message": "m1"}),
        SETTLE,
        do({"op": "restart"}),
        SETTLE,
        do({"op": "resume"}),
        SETTLE,
        release("load", "done", key="a"),
        SETTLE,
    ]
    all_replies = replies(program)
    settled = [reply for reply in all_replies if reply["type"] == "settled"]
    before, after = settled[1]["agents"]["a"]["length"], settled[-1]["agents"]["a"]["length"]
    assert settled[2]["agents"] == {}
    assert after == before + 1  # the mark between what was loaded and what is new
    (started,) = [reply["data"] for reply in all_replies if reply.get("name") == "agent/session-start"][1:]
    assert started == {"source": "resume"}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_delays_of_hooks_change_nothing_but_when_they_arrive(seed: int) -> None:
    """The records and events of each window are one total order; arrivals at gates are a multiset."""
    held = [{"gate": gate} for gate in ("assembly", "tool-pre", "tool", "tool-post")]
    program = [{"verb": "open", "hold": held, "tools": TOOLS, "cap": 2}, do({"op": "create"}), SETTLE]
    program += [*chunks_of_calls("c1", "c2", "c3"), do({"op": "followup", "message": "m1"}), SETTLE]
    program += [release("assembly", "done"), SETTLE, release("tool-pre", "done", "c1"), SETTLE]
    program += [release("tool-pre", "deny", "c2"), SETTLE, release("tool", "success", "c1"), SETTLE]
    program += [do({"op": "cancel", "keepInbox": True}), SETTLE, release("tool-pre", "done", "c3"), SETTLE]
    program += [release("tool-post", "accept", "c1", contexts=["x"]), SETTLE]
    program += [release("tool-post", "done", "c2"), SETTLE, release("tool-post", "done", "c3"), SETTLE]

    def parts(seen: list[list[str]]) -> list[tuple[list[str], Counter[str]]]:
        return [
            (
                [line for line in window if not line.startswith("gate")],
                Counter(line for line in window if line.startswith("gate")),
            )
            for window in seen
        ]

    plain, delayed = windows(program), windows(program, "--jitter", str(seed))
    assert parts(delayed) == parts(plain)
    assert "turn/end" in plain[-2]
