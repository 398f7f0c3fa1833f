"""`python -m loopconform.protocol`: write the JSON Schemas anew, and the content hashes of hand-written cases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from loopconform.protocol.case import Case
from loopconform.protocol.replies import Reply
from loopconform.protocol.requests import Request

HOME = Path(__file__).parents[2]
SCHEMAS = HOME / "schemas"
HAND = HOME / "cases" / "hand"


def schemas() -> dict[str, str]:
    """File name to schema text: `request`, `reply` and `case`."""
    parts: dict[str, Any] = {"request": Request, "reply": Reply, "case": Case}
    found = {}
    for name, part in parts.items():
        schema = TypeAdapter(part).json_schema(by_alias=True, mode="validation")
        if name == "request":
            schema = _numbered(schema)
        schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"Loopspec {name}", **schema}
        found[f"{name}.json"] = json.dumps(schema, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    return found


def _numbered(schema: dict[str, Any]) -> dict[str, Any]:
    """On the wire every request carries its number beside its own members."""
    names = [reference.rsplit("/", 1)[1] for reference in schema["discriminator"]["mapping"].values()]
    for name in names:
        definition = schema["$defs"][name]
        definition["properties"] = {"id": {"type": "integer"}, **definition["properties"]}
        definition["required"] = ["id", *definition["required"]]
    return schema


def hand_cases() -> Iterator[tuple[Path, str]]:
    """Each hand-written case with the text that its file should have."""
    for path in sorted(HAND.rglob("*.json")):
        case = Case.model_validate_json(path.read_bytes())
        yield path, case.with_hash().dumped()


def main() -> None:
    """Write both."""
    SCHEMAS.mkdir(exist_ok=True)
    for name, text in schemas().items():
        (SCHEMAS / name).write_text(text, encoding="utf-8")
    for path, text in hand_cases():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
