"""Short stories of creation and teardown, and what may be done at a place of them."""

from __future__ import annotations

from loopconform.grid.scenarios import Json, Scenario

CREATE: Json = {"op": "create", "owner": "o", "signal": "s", "setup": True}

STORIES: tuple[Scenario, ...] = (
    Scenario("create", "an agent is created and stays", "creation", (CREATE,), gates=("setup",)),
    Scenario("create-now", "an agent is created at once", "creation", ({"op": "create-now", "owner": "o"},)),
    Scenario(
        "twice",
        "two creates under one id",
        "creation",
        (CREATE, {**CREATE, "as": "y", "signal": "t"}),
        gates=("setup",),
    ),
    Scenario(
        "child",
        "an agent and a child of it",
        "creation",
        (CREATE, {"op": "create", "agent": "b", "parent": "a"}),
        gates=("setup",),
    ),
    Scenario(
        "gone", "an agent is created and disposed", "teardown", (CREATE, {"op": "dispose"}), gates=("setup", "unwind")
    ),
    Scenario(
        "woken",
        "an agent is created and runs a turn",
        "teardown",
        (CREATE, {"op": "followup", "message": "m1"}),
        gates=("setup", "pre-step", "unwind"),
    ),
)

OPERATIONS: dict[str, Json] = {
    "abort": {"op": "abort", "signal": "s"},
    "dispose": {"op": "dispose"},
    "unload-owner": {"op": "unload", "fiber": "o"},
    "unload-provider": {"op": "unload", "fiber": "provider"},
    "unload-agents": {"op": "unload", "fiber": "agents"},
    "create-same": {"op": "create", "as": "z"},
    "create-now-same": {"op": "create-now", "as": "z"},
    "create-other": {"op": "create", "agent": "c", "owner": "o"},
    "followup": {"op": "followup", "message": "m7"},
    "cancel": {"op": "cancel"},
    "append": {"op": "append", "type": "conformance/note"},
    "when-idle": {"op": "when-idle"},
}
"""What may be done at a place."""

PAIRED = ("abort", "dispose", "unload-owner", "unload-provider", "create-same", "followup")
