"""What the subjects of machines with an environment have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from loopconform.tla.subjects import Field
from loopconform.tla.values import Value, camel, from_python, record
from loopspec.worlds.world import Bound, World


def core(
    name: str, domain: str, meaning: str, log: str, *rules: str, read: Callable[[Any], Value] = from_python
) -> Field:
    """A field of the machine's core state, in a `World`."""
    return Field(
        f"core.{name}", camel(name), domain, meaning, log, rules, lambda node: read(getattr(node.config.core, name))
    )


def unwatched(world: World[Any]) -> World[Any]:
    """The same world without its monitor: a memory of the past is no part of the law."""
    return World(world.machine, world.first, world.environment, world.bound)


def constants_of(bound: Bound) -> Mapping[str, Any]:
    """A bound as the constants of a model: one number per budget, and the depth of calls."""
    named = {camel(name)[:1].upper() + camel(name)[1:]: amount for name, amount in bound.budgets}
    return {**named, "Depth": bound.depth}


def left_named(names: tuple[str, ...]) -> Field:
    """What is left of each budget, as a record whose fields are the budgets in camelCase."""
    keys = [camel(name) for name in names]
    return Field(
        "Node.left",
        "left",
        "record of numbers: " + ", ".join(keys),
        "What the environment has left of each budget.",
        "",
        (),
        lambda node: record(**dict(zip(keys, node.left, strict=True))),
    )


def prose(machine: str) -> str:
    """What the environment of a machine may do, in Markdown: the file beside its subject."""
    return Path(__file__).with_name(f"{machine}.md").read_text()
