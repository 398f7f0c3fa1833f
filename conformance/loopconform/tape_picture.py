"""The prefix report as a picture: one bar a request, what was reused on the left, what was new on the right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from loopconform.plain import printable
from loopspec.tape.prefix import Compared, Part
from loopspec.tape.select import ENTRY_SOURCE

__all__ = ["picture"]

WIDTH: Final = 900
LEFT: Final = 90
BAR: Final = 14
GAP: Final = 6
TOP: Final = 64

COLOURS: Final = {
    "kept": "#7fb069",
    "kept entry": "#3f7d20",
    "new": "#e6aa68",
    "new entry": "#ca3c25",
    "lost": "#d9d9d9",
}
WORDS: Final = {
    "kept": "reused",
    "kept entry": "reused tape entry",
    "new": "new",
    "new entry": "new tape entry",
    "lost": "of the last request, not reused",
}


def picture(requests: Sequence[Compared], title: str) -> str:
    """An SVG document. Every rectangle has a tooltip that says which part it is and how many bytes it has."""
    longest = max((item.size + item.lost_bytes for item in requests), default=1) or 1
    height = TOP + len(requests) * (BAR + GAP) + GAP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="10" y="20" font-size="14">{_safe(title)}</text>',
        *_legend(),
    ]
    for number, item in enumerate(requests):
        lines += _bar(item, TOP + number * (BAR + GAP), WIDTH / longest)
    return "\n".join([*lines, "</svg>", ""])


def _legend() -> list[str]:
    lines = []
    x = 10
    for name, colour in COLOURS.items():
        lines.append(f'<rect x="{x}" y="32" width="12" height="12" fill="{colour}"/>')
        lines.append(f'<text x="{x + 16}" y="42">{_safe(WORDS[name])}</text>')
        x += 40 + 7 * len(WORDS[name])
    return lines


def _bar(item: Compared, y: float, scale: float) -> list[str]:
    lines = [f'<text x="10" y="{y + BAR - 3}">{item.turn}.{item.step}</text>', "<g>"]
    lines.append(f"<title>{_safe(item.cause)}</title>")
    x = float(LEFT)
    for at, part in enumerate(item.parts):
        width = part.size * scale
        lines.append(_box(x, y, width, _colour(part, at < item.kept), f"{part.name}: {part.size:,} bytes"))
        x += width
    if item.lost_bytes:
        lines.append(_box(x + 2, y, item.lost_bytes * scale, "lost", f"lost: {item.lost_bytes:,} bytes; {item.cause}"))
    edge = LEFT + item.kept_bytes * scale
    lines.append(f'<line x1="{edge:.1f}" x2="{edge:.1f}" y1="{y - 2}" y2="{y + BAR + 2}" stroke="black"/>')
    return [*lines, "</g>"]


def _colour(part: Part, kept: bool) -> str:
    source = part.value.get("source") if isinstance(part.value, Mapping) else None
    entry = isinstance(source, Mapping) and source.get("kind") == ENTRY_SOURCE
    return ("kept" if kept else "new") + (" entry" if entry else "")


def _box(x: float, y: float, width: float, colour: str, words: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y}" width="{max(width, 0.5):.1f}" height="{BAR}" fill={quoteattr(COLOURS[colour])} '
        f'stroke="white" stroke-width="0.5"><title>{_safe(words)}</title></rect>'
    )


def _safe(text: str) -> str:
    return escape(printable(text))
