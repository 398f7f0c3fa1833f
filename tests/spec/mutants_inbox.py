"""One named fault for every branch of the inbox, explored with the inbox alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.spec import mutation
from tests.spec.mutation import Mutant

from loopspec import inbox
from loopspec.worlds import inbox_world
from loopspec.worlds.inbox_world import bound

WORLD = inbox_world
BOUNDS = {
    "flat": bound("flat", depth=0, messages=2, edits=1, takes=1, refusals=1),
    "nested": bound("nested", depth=1, messages=2, edits=1, takes=0),
}

MUTANTS: tuple[Mutant, ...] = mutation.loaded("inbox")

BOOKS = {"inbox": inbox.rules, "inbox alone": inbox.alone}
MODULES = {"inbox": inbox}


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """Put a mutant of the inbox in place."""
    with mutation.applied(mutant, BOOKS, MODULES):
        yield
