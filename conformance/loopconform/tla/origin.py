"""Where the run of an instance comes from: which machine, under whose law, and what of the law was out of force."""

from __future__ import annotations

import re
from typing import Any

from loopconform.tla.instances import Instance
from loopconform.tla.model import assignments
from loopconform.tla.subjects import constant, subjects
from loopspec.disagreements import TABLE
from loopspec.profile import PROFILES, law

_MACHINES = {"Loop": "driver", "DriverCyclic": "driver", "LoopBatch": "loop"}
_ENDINGS = re.compile(r"(History|Claims|Promise|Fair)$")


def machine_of(module: str) -> str:
    """The machine whose labels the runs of a module have."""
    name = _ENDINGS.sub("", module.removeprefix("MC"))
    return _MACHINES.get(name, name.lower())


def origin(one: Instance) -> dict[str, Any]:
    """The head of a replay file: the law that the instance comes nearest to, and what is otherwise."""
    given = {name: value for name, (_, value) in assignments(one.config).items()}
    machine = machine_of(one.module)
    known = [row.field for row in TABLE if constant(row.field) in given]
    nearest: tuple[int, str, int, list[str]] | None = None
    for session_format in (0, 4):
        for profile in PROFILES:
            wanted = law(profile, session_format)
            apart = [
                constant(name) for name in known if (given[constant(name)] == "TRUE") != bool(getattr(wanted, name))
            ]
            if nearest is None or len(apart) < nearest[0]:
                nearest = (len(apart), profile, session_format, apart)
    assert nearest is not None
    broken = re.findall(r'"([^"]*)"', given.get("Broken", ""))
    if machine in subjects():
        head = {
            "machine": machine,
            "profile": nearest[1],
            "sessionFormat": nearest[2],
            "broken": [*broken, *nearest[3]],
        }
        return {**head, "calls": int(given["Calls"])} if machine == "scheduler" else head
    return {"machine": machine, "broken": broken}
