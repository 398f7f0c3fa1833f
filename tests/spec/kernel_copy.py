"""The functions of the kernel behind one value, and copies of it with one fault each.

A mutant is made from the source text of a module: a snippet that occurs exactly once is replaced, and the
result is executed as a module of its own. So a mutant that does not apply any more is an error, not a
silent pass.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

MODULES = (
    "claims",
    "encoding",
    "graph",
    "report",
    "explore",
    "compare",
    "components",
    "liveness",
    "budget",
    "canonical",
    "sequence",
)


class Kernel:
    """The modules of the kernel as attributes; `replaced` holds copies to use instead."""

    def __init__(self, replaced: Mapping[str, ModuleType] | None = None) -> None:
        """Take the real modules, save for the replaced ones."""
        self.modules = {name: importlib.import_module(f"loopspec.kernel.{name}") for name in MODULES}
        self.modules.update(replaced or {})

    def __getattr__(self, name: str) -> Any:
        """Return the function or class called `name`, from the module that defines it."""
        for module in self.modules.values():
            found = vars(module).get(name)
            if getattr(found, "__module__", None) == module.__name__:
                return found
        raise AttributeError(f"No kernel module defines {name!r}.")


def mutated(name: str, original: str, replacement: str) -> Kernel:
    """Return a kernel in which `original`, which must occur once in the module `name`, is `replacement`.

    Modules that import the mutated one are executed again as well, so that they see the copy.
    """
    real = importlib.import_module(f"loopspec.kernel.{name}")
    assert real.__file__ is not None
    source = Path(real.__file__).read_text(encoding="utf-8")
    count = source.count(original)
    assert count == 1, f"{original!r} occurs {count} times in {name}; the mutant must be brought up to date"
    copies = {name: _execute(name, source.replace(original, replacement), {})}
    for other in MODULES[MODULES.index(name) + 1 :]:
        module = importlib.import_module(f"loopspec.kernel.{other}")
        assert module.__file__ is not None
        text = Path(module.__file__).read_text(encoding="utf-8")
        if any(f"from loopspec.kernel.{copied} import" in text for copied in copies):
            copies[other] = _execute(other, text, dict(copies))
    return Kernel(copies)


def _execute(name: str, source: str, replaced: Mapping[str, ModuleType]) -> ModuleType:
    full = f"loopspec.kernel.{name}"
    copy = ModuleType(f"mutant of {full}")
    hidden = {f"loopspec.kernel.{other}": module for other, module in replaced.items()}
    hidden[copy.__name__] = copy  # dataclasses look their own module up by its name
    saved = {key: sys.modules.get(key) for key in hidden}
    sys.modules.update(hidden)
    try:
        exec(compile(source, f"<mutant of {name}>", "exec"), vars(copy))
    finally:
        for key, module in saved.items():
            if module is None:
                del sys.modules[key]
            else:
                sys.modules[key] = module
    return copy


def for_all(*strategies: SearchStrategy[Any], examples: int = 100) -> Callable[[Callable[..., None]], Any]:
    """Decorate a test of the kernel that holds for all drawn values.

    The result has a twin, `searching`, for running it against mutants: it does not shrink, looks at more examples,
    and always at the same ones, so that a mutant that is dead once stays dead.
    """

    def decorate(test: Callable[..., None]) -> Any:
        decorated: Any = settings(max_examples=examples, deadline=None)(given(*strategies)(test))
        decorated.searching = settings(
            max_examples=500,
            phases=[Phase.generate],
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )(given(*strategies)(test))
        return decorated

    return decorate
