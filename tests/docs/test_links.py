"""Whoever reads our pages finds what they point to: links, files that are named, and targets of make."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ELSEWHERE = {"node_modules", "build", "dist"}
TOP = "|".join(sorted(path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")))

FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED = re.compile(rf"`((?:{TOP})/[\w./-]+)`")
MADE = re.compile(r"(?:^|`)make ([a-z][a-z0-9-]*)", re.MULTILINE)


def pages(folder: Path = ROOT) -> Iterator[Path]:
    """Every Markdown page of the repository."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.name.startswith(".") and path.name not in ELSEWHERE:
            yield from pages(path)
        elif path.suffix == ".md":
            yield path


def missing(text: str, folder: Path) -> list[str]:
    """What a page of this folder points to, and is not there."""
    prose = FENCED.sub("", text)
    links = [link.partition("#")[0] for link in LINK.findall(prose) if not re.match(r"[a-z]+:|#", link)]
    lost = [link for link in links if not (folder / link).exists()]
    lost += [
        name for name in NAMED.findall(prose) if not (ROOT / name).exists() and not (ROOT / "spec" / name).exists()
    ]
    rules = (ROOT / "Makefile").read_text("utf-8")
    lost += [f"make {name}" for name in MADE.findall(text) if not re.search(rf"^{name}:", rules, re.MULTILINE)]
    return lost


@pytest.mark.parametrize("page", [*pages()], ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_points_to_what_is_there(page: Path) -> None:
    assert missing(page.read_text("utf-8"), page.parent) == []


def test_what_is_lost_is_found_out() -> None:
    text = "[a](README.md) [b](lost.md#x) [c](https://x.invalid) `tests/docs` `tests/lost.py` `make test`\nmake lost\n"
    assert missing(text, ROOT) == ["lost.md", "tests/lost.py", "make lost"]
    assert len([*pages()]) > 20
