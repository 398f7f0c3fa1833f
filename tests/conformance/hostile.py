"""Adapters that mean no good, or are broken: `python hostile.py KIND`. They know no more than the suite tells them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

Request = dict[str, Any]


def say(reply: dict[str, Any]) -> None:
    """One reply."""
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()


def requests() -> Any:
    """Requests, one by one."""
    while line := sys.stdin.readline():
        yield json.loads(line)


def hello(request: Request, **more: Any) -> None:
    """A polite beginning."""
    body = {"protocol": 1, "implementation": {"name": "hostile"}, "level": "L2", "profiles": ["seed"]}
    ops = ["create", "followup", "dispose"]
    say({"type": "hello", "id": request["id"], **body, "ops": ops, "gates": ["pre-step"], **more})


def polite(then: Callable[[Request], None], **more: Any) -> None:
    """Answer `hello`; then something else."""
    for request in requests():
        if request["verb"] == "hello":
            hello(request, **more)
        else:
            then(request)


def silent() -> None:
    """Says nothing, ever."""
    for _ in requests():
        pass


def mute_later() -> None:
    """Falls silent after `hello`."""
    polite(lambda request: None)


def garbage() -> None:
    """Bytes that are no text."""
    sys.stdin.readline()
    sys.stdout.buffer.write(b"\xff\xfe\x00 not json at all\n")
    sys.stdout.flush()
    silent()


def invalid() -> None:
    """JSON, but no reply."""
    polite(lambda request: say({"type": "ok"}))


def unknown() -> None:
    """A type that does not exist."""
    polite(lambda request: say({"type": "wonder", "id": request["id"]}))


def flood() -> None:
    """Valid messages without end."""

    def then(request: Request) -> None:
        while True:
            say({"type": "live", "agent": "a", "name": "agent/wonder"})

    polite(then)


def long_line() -> None:
    """A line without an end."""

    def then(request: Request) -> None:
        while True:
            sys.stdout.write("x" * 65536)

    polite(then)


def twice() -> None:
    """Closes every request twice."""

    def then(request: Request) -> None:
        for _ in range(2):
            say({"type": "ok", "id": request["id"]})

    polite(then)


def late() -> None:
    """Closes the request before the last one."""
    polite(lambda request: say({"type": "ok", "id": request["id"] - 1}))


def ahead() -> None:
    """Speaks of requests that nobody has made."""
    polite(lambda request: say({"type": "returned", "id": request["id"] + 7, "op": 0}))


def dies() -> None:
    """Ends in the middle."""

    def then(request: Request) -> None:
        sys.stderr.write("out of luck\n")
        sys.stderr.flush()
        os._exit(3)

    polite(then)


def lies() -> None:
    """Cannot do what it says it can."""
    polite(lambda request: say({"type": "unsupported", "id": request["id"], "reason": "never learnt it"}))


def never_settles() -> None:
    """Does everything but settle."""

    def then(request: Request) -> None:
        if request["verb"] != "settle":
            for at, _ in enumerate(request.get("ops", ())):
                say({"type": "returned", "id": request["id"], "op": at})
            say({"type": "ok", "id": request["id"]})

    polite(then)


def stderr() -> None:
    """Writes to stderr without end, and nothing else."""
    while True:
        sys.stderr.write("complaint " * 1000)


def other_protocol() -> None:
    """Speaks a protocol of its own."""
    for request in requests():
        hello(request, protocol=7)


def wrong_closing() -> None:
    """Answers `settle` with `ok`, and everything else with `settled`."""

    def then(request: Request) -> None:
        kind = "ok" if request["verb"] == "settle" else "settled"
        say({"type": kind, "id": request["id"]})

    polite(then)


KINDS: dict[str, Callable[[], None]] = {
    work.__name__: work
    for work in (
        silent, mute_later, garbage, invalid, unknown, flood, long_line, twice, late, ahead, dies, lies, never_settles,
        stderr, other_protocol, wrong_closing,
    )
}  # fmt: skip

if __name__ == "__main__":
    KINDS[sys.argv[1]]()
