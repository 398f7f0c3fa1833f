"""Scripted runs through the creation machine, in the way an interpreter of it works; and broken copies of it."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from loopspec import creation
from loopspec.kernel.machine import Config
from loopspec.profile import Profile, law
from loopspec.transaction import Creation

TOLD = {
    "session/created": "s+",
    "agent/created": "a+",
    "agent/session-start": "ss",
    "agent/disposed": "a-",
    "session/disposed": "s-",
}

Listeners = Mapping[tuple[Any, ...], Sequence[tuple[Any, ...]]]


class Run:
    """One run: call operations, answer await points, and let listeners call back inside a dispatch.

    `listeners` maps an effect, such as `("session/created", 1)`, to the operations that its listeners call, in order;
    each effect's listeners act once. `trace` holds every effect, `told` the five events in short.
    """

    def __init__(self, profile: Profile = "seed", callers: int = 2, listeners: Listeners | None = None) -> None:
        self.config: Config[Creation] = creation.initial(law(profile), callers)
        self.listeners = dict(listeners or {})
        self.trace: list[tuple[Any, ...]] = []

    def call(self, *operation: Any) -> tuple[Any, ...]:
        """Call an operation and run it until it leaves or parks; the effect that ended it."""
        depth = len(self.config.stack)
        self.config = creation.MACHINE.call(self.config, operation)
        return self._run(depth)

    def answer(self, *point_and_answer: Any) -> tuple[Any, ...]:
        """Answer one await point: its parts, then the answer. It must be one that the machine allows now."""
        *point, kind = point_and_answer
        (index,) = [i for i, (parked, _) in enumerate(self.config.parked) if parked[: len(point)] == tuple(point)]
        assert (kind,) in creation.answers(self.config.core, self.config.parked[index][0]), (point, kind)
        self.config = creation.MACHINE.resume(self.config, (kind,), index)
        return self._run(0)

    def may(self, *point_and_answer: Any) -> bool:
        """Whether some await point that begins so may get this answer now."""
        *point, kind = point_and_answer
        return any(
            parked[: len(point)] == tuple(point) and (kind,) in creation.answers(self.config.core, parked)
            for parked, _ in self.config.parked
        )

    def settle(self, *held: str) -> None:
        """Answer everything that nobody outside decides, until nothing is left; `held` names points to leave alone."""
        moved = True
        while moved:
            moved = False
            for point, _ in self.config.parked:
                kinds = {kind for (kind,) in creation.answers(self.config.core, point)} & {
                    "done",
                    "teardown",
                    "deactivated",
                }
                if point[0] not in held and kinds:
                    self.answer(*point, kinds.pop())
                    moved = True
                    break

    def _run(self, depth: int) -> tuple[Any, ...]:
        effect: tuple[Any, ...] = ()
        while len(self.config.stack) > depth:
            verb, effect, self.config = creation.MACHINE.step(self.config)
            self.trace.append(effect)
            if verb == "notify":
                for operation in self.listeners.pop(effect, ()):
                    self.call(*operation)
        return effect

    @property
    def told(self) -> str:
        """The creation and disposal events so far: `s+1 a+1 …`."""
        return " ".join(f"{TOLD[effect[0]]}{effect[1]}" for effect in self.trace if effect[0] in TOLD)

    def of(self, *names: str) -> list[tuple[Any, ...]]:
        """The effects with one of these names, in order."""
        return [effect for effect in self.trace if effect[0] in names]

    @property
    def empty(self) -> bool:
        """Both registries are empty and no transaction is left."""
        core = self.config.core
        return not core.sessions and not core.agents and not core.members


def create(run: Run, number: int, id: int = 1, owner: Any = ("fiber", 2), flaw: str = "", verb: str = "create") -> Any:
    """Call create, with the usual owner."""
    return run.call(verb, number, id, owner, flaw)


def alive(run: Run, number: int, id: int = 1, owner: Any = ("fiber", 2)) -> None:
    """Create an agent and let it go live."""
    create(run, number, id, owner)
    run.answer("setup", number, "settles")


# --- broken copies -------------------------------------------------------------------------------------------

MODULES = (
    "loopspec.registry",
    "loopspec.transaction",
    "loopspec.fibers",
    "loopspec.teardown",
    "loopspec.creation",
    "loopspec.worlds.creation_past",
    "loopspec.properties.creation",
    "loopspec.worlds.creation_world",
    "loopspec.properties.creation_explorations",
)


class _Patched(SourceFileLoader):
    """Loads a module from its source with one text replaced by another."""

    def __init__(self, name: str, path: str, original: str, replacement: str) -> None:
        super().__init__(name, path)
        self.texts = (original, replacement)

    def get_code(self, fullname: str) -> Any:
        """The code of the changed source; nothing is cached."""
        source = Path(self.path).read_text(encoding="utf-8")
        original, replacement = self.texts
        assert source.count(original) == 1, f"{original!r} occurs {source.count(original)} times in {fullname}"
        return compile(source.replace(original, replacement), self.path, "exec")


class _Finder(MetaPathFinder):
    def __init__(self, name: str, loader: _Patched) -> None:
        self.name, self.loader = name, loader

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Only the one module is ours."""
        return importlib.util.spec_from_loader(fullname, self.loader) if fullname == self.name else None


@contextmanager
def broken(name: str, original: str, replacement: str) -> Iterator[ModuleType]:
    """The module of explorations, over a machine with one text of `loopspec.<name>` replaced."""
    full = f"loopspec.{name}"
    path = importlib.import_module(full).__file__
    assert path is not None
    saved = {module: sys.modules.pop(module) for module in MODULES if module in sys.modules}
    for module in MODULES:
        package, _, attribute = module.rpartition(".")
        vars(sys.modules[package]).pop(attribute, None)
    finder = _Finder(full, _Patched(full, path, original, replacement))
    sys.meta_path.insert(0, finder)
    try:
        yield importlib.import_module("loopspec.properties.creation_explorations")
    finally:
        sys.meta_path.remove(finder)
        for module in MODULES:
            sys.modules.pop(module, None)
            if module in saved:
                package, _, attribute = module.rpartition(".")
                sys.modules[module] = saved[module]
                setattr(sys.modules[package], attribute, saved[module])
