"""A run as one HTML file that needs nothing else: no network, no other file, not even a script to be read."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from loopconform.report_html.kills import Kills
from loopconform.report_html.view import VERDICT_SHAPES, view
from loopconform.runner.results import Run

__all__ = ["render"]

HOME = Path(__file__).parent


def render(run: Run, version: str, kills: Kills | None = None) -> str:
    """The page. `kills` is what `kills.load` says of the kill matrix; without it the page has no such section.

    Everything that came from an adapter is escaped, and the page's own policy lets only its own script run.
    """
    environment = Environment(
        loader=FileSystemLoader(HOME), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    style, script = ((HOME / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    page = view(run)
    return environment.get_template("page.html").render(
        page=page,
        kills=kills,
        version=version,
        shapes=VERDICT_SHAPES,
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
        data=_embedded({"cases": page.listing, "clauses": {clause.id: clause.cases for clause in page.clauses}}),
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256-" + base64.b64encode(digest).decode()


def _embedded(data: object) -> Markup:
    """JSON that cannot end the element that it stands in."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
