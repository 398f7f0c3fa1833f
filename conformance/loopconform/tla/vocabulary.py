"""Writes `tla/VOCABULARY.md`: what a TLA+ model of a machine has to name as `loopspec` does, and nothing of its rules.

python -m loopconform.tla.vocabulary
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from loopconform.tla.subjects import Compared, Subject, choice, compared, constant, subjects, switch_rows
from loopconform.tla.values import Value, label_of, text
from loopspec.kernel.explore import explore
from loopspec.profile import PROFILES

FILE = Path(__file__).resolve().parents[3] / "tla" / "VOCABULARY.md"

HEAD = Path(__file__).with_suffix(".md")


def alphabet(subject: Subject, within: Iterable[Compared]) -> dict[tuple[str, ...], list[tuple[Value, ...]]]:
    """Every label of these complete explorations, grouped by what stands in front of the arguments."""
    groups: dict[tuple[str, ...], dict[str, tuple[Value, ...]]] = {}
    for bound, profile in within:
        found = explore(subject.system(subject.law(profile), bound), is_final=lambda node: True, keep_edges=True)
        assert found.complete, f"{subject.name} {bound} is not explored completely"
        for raw in found.labels:
            label = label_of(raw)
            groups.setdefault(_head(label), {})[text(label)] = label
    return {head: list(labels.values()) for head, labels in sorted(groups.items())}


def _head(label: tuple[Value, ...]) -> tuple[str, ...]:
    if label[0] == "answer" and len(label) > 2 and isinstance(label[1], tuple):
        return "answer", str(label[1][0]), str(label[2][0])
    return tuple(str(part) for part in label[:2] if isinstance(part, str))


def _flat(head: tuple[str, ...], label: tuple[Value, ...]) -> tuple[Value, ...]:
    if len(head) == 3:
        return (*label[1][1:], "│", *label[2][1:])
    return label[len(head) :]


def _domain(values: Iterable[Value]) -> str:
    texts = {text(value): value for value in values}
    if len(texts) == 1 and next(iter(texts.values())) == "│":
        return "│"
    ordered = sorted(texts, key=lambda one: (len(one), one))
    shown = ", ".join(f"`{one}`" for one in ordered[:8])
    return shown if len(ordered) <= 8 else f"{shown}, … ({len(ordered)})"


def _alphabet_table(groups: dict[tuple[str, ...], list[tuple[Value, ...]]]) -> Iterator[str]:
    yield "| label | arguments as seen | labels |"
    yield "|---|---|---|"
    for head, labels in groups.items():
        rows: dict[int, list[tuple[Value, ...]]] = {}
        for label in labels:
            flat = _flat(head, label)
            rows.setdefault(len(flat), []).append(flat)
        for count, flats in sorted(rows.items()):
            columns = [_domain(flat[at] for flat in flats) for at in range(count)]
            name = " ".join(head)
            yield f"| `{name}` | {' · '.join(columns) if columns else '(none)'} | {len(flats)} |"


def section(subject: Subject) -> Iterator[str]:
    """The section of one machine."""
    yield f"\n## {subject.module} (`{subject.name}`)\n"
    yield subject.sentence
    yield "\n### State\n"
    yield "Variables that are compared (one TLA+ variable each; any further ones are control, and free):\n"
    yield "| variable | values | meaning |"
    yield "|---|---|---|"
    for one in subject.fields:
        yield f"| `{one.variable}` | {one.domain} | {one.meaning} |"
    if subject.switches:
        yield "\n### Switches\n"
        yield "| constant | question | rules | " + " | ".join(PROFILES) + " |"
        yield "|---|---|---|" + "---|" * len(PROFILES)
        for row in switch_rows(subject.switches):
            sides = " | ".join(str(choice(row.field, profile, subject.session_format)).upper() for profile in PROFILES)
            yield f"| `{constant(row.field)}` | {row.question} {row.why} | {', '.join(row.rules)} | {sides} |"
        if subject.session_format != 0 or "streams_are_embedded" in subject.switches:
            yield f"\nSession format: {subject.session_format}."
    yield "\n### Environment\n"
    yield subject.environment.strip()
    yield "\n### Bounds\n"
    yield f"Constants by bound; the quick one in CI is `{subject.quick}`, the deep one `{subject.deep}`.\n"
    names = list(next(iter(subject.bounds.values())))
    yield "| constant | " + " | ".join(subject.bounds) + " |"
    yield "|---|" + "---|" * len(subject.bounds)
    for name in names:
        yield f"| `{name}` | " + " | ".join(f"`{text(bound[name])}`" for bound in subject.bounds.values()) + " |"


def listed(subject: Subject) -> tuple[Compared, ...]:
    """The explorations whose labels are listed: every small one."""
    return compared(subject.extra.get("alphabet", subject.quick))


def _named(one: Compared) -> str:
    return f"`{one.bound}`" if one.profile is None else f"`{one.bound}` (`{one.profile}`)"


def document() -> str:
    """The whole document."""
    lines = [HEAD.read_text().rstrip()]
    for subject in subjects().values():
        lines.extend(section(subject))
        within = listed(subject)
        lines.append("\n### Alphabet\n")
        lines.append(
            "As seen in complete explorations, under `seed` where nothing else is said: "
            f"{', '.join(map(_named, within))}. "
            "For an answer the arguments of the await point stand before the bar, those of the answer behind it.\n"
        )
        lines.extend(_alphabet_table(alphabet(subject, within)))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the document."""
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(document())
    print(f"{FILE}")


if __name__ == "__main__":
    main()
