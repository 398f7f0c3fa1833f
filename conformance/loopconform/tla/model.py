"""The TLA+ side of a comparison: an instance of a model within a named bound and under a law, and its graph."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loopconform.tla.dump import Moves, NotComparable, read
from loopconform.tla.instances import TLA, configs
from loopconform.tla.subjects import Subject, constant
from loopconform.tla.tlc import Run, run
from loopconform.tla.values import from_python, text
from loopspec.profile import Law

_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*(=|<-)\s*((?:\{[^}]*\}|\"[^\"]*\"|[^\s{}\"]+))")
_DECLARED = re.compile(r"^\s*(?:CONSTANTS?)\b(.*?)(?=^\S|\Z)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Model:
    """A model that can be compared: the module that has `Spec`, and a `.cfg` that shows how it is instantiated."""

    directory: Path
    module: str
    base: Path | None


def model_of(subject: Subject, directory: Path = TLA) -> Model:
    """The model of a machine. Raises `NotComparable` when there is none (yet).

    It is `MC<Module>.tla` if there is one, else `<Module>.tla`. Constants that neither the bound nor the law names are
    taken from the first instance in the directory that is expected to pass.
    """
    for module in (f"MC{subject.module}", subject.module):
        if (directory / f"{module}.tla").is_file():
            return Model(directory, module, _base(directory, module))
    raise NotComparable(f"there is no model of {subject.name}: {directory / subject.module}.tla is not there")


def _base(directory: Path, module: str) -> Path | None:
    for config in configs(directory, module):
        if not config.stem.endswith(("_Unsafe", "_Witness")) and not _says_otherwise(config):
            return config
    return None


def _says_otherwise(config: Path) -> bool:
    heads = config.read_text()
    return re.search(r"^\\\*\s*expect:\s*(violates|reaches|deadlock)", heads, re.MULTILINE) is not None


def assignments(config: Path) -> dict[str, tuple[str, str]]:
    """The constants that a `.cfg` assigns, as name to (`=` or `<-`, value)."""
    plain = re.sub(r"\\\*.*", "", config.read_text())
    return {name: (sign, value) for name, sign, value in _ASSIGNED.findall(plain)}


def declared(directory: Path, module: str) -> set[str]:
    """The constants that a module and those that it extends (in the same directory) declare."""
    found: set[str] = set()
    work, seen = [module], set()
    while work:
        name = work.pop()
        file = directory / f"{name}.tla"
        if name in seen or not file.is_file():
            continue
        seen.add(name)
        plain = re.sub(r"\(\*.*?\*\)", " ", re.sub(r"\\\*.*", "", file.read_text()), flags=re.DOTALL)
        for extended in re.findall(r"^\s*EXTENDS\s+([^\n]*)", plain, re.MULTILINE):
            work.extend(re.findall(r"\w+", extended))
        for block in re.findall(r"\bCONSTANTS?\s+((?:\w+\s*,\s*)*\w+)", plain):
            found.update(re.findall(r"\w+", block))
    return found


def instance_text(model: Model, subject: Subject, bound: str, law: Law, changes: dict[str, Any]) -> tuple[str, str]:
    """The module and the `.cfg` of the instance that is compared.

    Raises `NotComparable` when the model declares constants for which nobody has a value.
    """
    wanted = declared(model.directory, model.module)
    base = assignments(model.base) if model.base is not None else {}
    values = {name: from_python(value) for name, value in subject.bounds[bound].items()}
    values |= {constant(switch): bool(getattr(law, switch)) for switch in subject.switches}
    values |= {"SessionFormat": law.session_format, **changes}
    used = {name: value for name, value in values.items() if name in wanted}
    rest = {name: one for name, one in base.items() if name in wanted and name not in used}
    for name in ("Broken", "Removed"):
        if name in wanted and name not in used and name not in rest:
            rest[name] = ("=", "{}")
    missing = sorted(wanted - used.keys() - rest.keys())
    if missing:
        raise NotComparable(
            f"{model.module}.tla declares {', '.join(missing)}, which no bound, no law and no instance gives a value"
        )
    lines = [f"---- MODULE Compared ----\nEXTENDS {model.module}"]
    lines += [f"Compared_{name} == {text(value)}" for name, value in used.items()]
    lines.append("====")
    config = [f"SPECIFICATION {subject.specification}", "CONSTANTS"]
    config += [f"  {name} <- Compared_{name}" for name in used]
    config += [f"  {name} {sign} {value}" for name, (sign, value) in rest.items()]
    return "\n".join(lines) + "\n", "\n".join(config) + "\n"


def guards_of(directory: Path) -> set[str]:
    """The guards that the models in a directory can do without, by name."""
    return {
        name
        for module in directory.glob("*.tla")
        for name in re.findall(r'\b(?:Guarded|Intact)\("([^"]+)"\)', module.read_text())
    }


def _known_guards_only(model: Model, changes: dict[str, Any]) -> None:
    """A guard that there is not is never missed: a comparison without it would be equal, and say nothing."""
    known = guards_of(model.directory)
    broken = changes.get("Broken", frozenset())
    unknown = sorted(str(name) for name in broken if name not in known) if isinstance(broken, frozenset) else []
    if known and unknown:
        raise NotComparable(f"no guard is called {', '.join(unknown)}; there are {', '.join(sorted(known))}")


def witness(subject: Subject, bound: str, law: Law, wanted: str, *, model: Model | None = None) -> Run:
    """A shortest run of a model to a state where `wanted`, a TLA+ formula, is true; its trace is empty without one."""
    model = model or model_of(subject)
    module, config = instance_text(model, subject, bound, law, {})
    module = module.replace("\n====\n", f"\nNotWanted == ~({wanted})\n====\n")
    with tempfile.TemporaryDirectory(prefix="loopspec-witness-") as private:
        place = Path(private)
        (place / "Compared.tla").write_text(module)
        (place / "Compared.cfg").write_text(config + "VIEW view\nINVARIANT NotWanted\n")
        done = run(place / "Compared.tla", place / "Compared.cfg", library=model.directory.resolve())
    if done.broken:
        raise NotComparable("TLC could not judge: " + " | ".join(done.errors)[:1500])
    return done


def graph_of(
    subject: Subject,
    bound: str,
    law: Law,
    *,
    model: Model | None = None,
    changes: dict[str, Any] | None = None,
    other_jar: Path | None = None,
    timeout: float = 1800,
    heap: str = "1500m",
    small: bool = True,
) -> tuple[Moves, Run]:
    """Run TLC on a model, within a bound and under a law, and read the graph that it dumps.

    `changes` sets constants to other values than the bound and the law say. Raises `NotComparable` when TLC does not
    finish cleanly or the dump cannot be used.
    """
    model = model or model_of(subject)
    _known_guards_only(model, changes or {})
    module, config = instance_text(model, subject, bound, law, changes or {})
    with tempfile.TemporaryDirectory(prefix="loopspec-equal-") as private:
        place = Path(private)
        (place / "Compared.tla").write_text(module)
        (place / "Compared.cfg").write_text(config)
        done = run(
            place / "Compared.tla",
            place / "Compared.cfg",
            dump=place / "graph.dot",
            library=model.directory.resolve(),
            other_jar=other_jar,
            timeout=timeout,
            heap=heap,
            small=small,
        )
        if not done.clean:
            why = " | ".join(done.errors)[:1500] or f"exit code {done.exit_code}, {done.left} states left"
            raise NotComparable(f"TLC did not finish: {why}")
        fields = tuple(field.variable for field in subject.fields)
        return read(place / "graph.dot", fields, done.distinct, done.generated), done
