"""The protocol's documents: schemas and hand-written cases are what the models say; bad input gets a clear error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conformance.recorded import hand

from loopconform.protocol.__main__ import SCHEMAS, hand_cases, schemas
from loopconform.protocol.case import BadCase, Case, content_hash, load_case, load_cases
from loopconform.protocol.parts import OPS, GateName
from loopconform.protocol.replies import read_reply
from loopconform.protocol.requests import REQUEST, write_request


def test_schemas_are_up_to_date() -> None:
    """`python -m loopconform.protocol` writes them."""
    assert {path.name: path.read_text() for path in SCHEMAS.glob("*.json") if path.stem in NAMES} == schemas()


NAMES = ("request", "reply", "case")


def test_hand_written_cases_are_up_to_date() -> None:
    for path, text in hand_cases():
        assert path.read_text() == text, f"{path}: run python -m loopconform.protocol"


def test_the_page_names_every_gate_verb_and_reply() -> None:
    """PROTOCOL.md is the one page that an author reads."""
    page = Path("conformance/PROTOCOL.md").read_text()
    schema = json.loads((SCHEMAS / "reply.json").read_text())
    verbs = json.loads((SCHEMAS / "request.json").read_text())["discriminator"]["mapping"]
    for word in (*GateName.__args__, *verbs, *schema["discriminator"]["mapping"]):  # type: ignore[attr-defined]
        assert f"`{word}`" in page, word
    assert len(page.splitlines()) <= 100


def test_every_operation_has_a_model() -> None:
    schema = json.loads((SCHEMAS / "request.json").read_text())
    known: set[str] = set()
    for definition in schema["$defs"].values():
        op = definition.get("properties", {}).get("op", {})
        known |= set(op.get("enum", [op["const"]] if "const" in op else []))
    assert known == set(OPS)


def test_a_request_survives_the_wire() -> None:
    for id, request in enumerate(hand("creation/same-id-twice").program, 1):
        fields = json.loads(write_request(id, request))
        assert fields.pop("id") == id
        assert REQUEST.validate_python(fields) == request


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ('{"type":"ok"}', "id"),
        ('{"type":"gate","gate":"door","agent":"a"}', "gate"),
        ('{"type":"ok","id":1,"more":2}', "more"),
        ("[]", "dictionary|object"),
        ("{", "EOF"),
    ],
)
def test_a_bad_reply_is_refused_by_its_place(line: str, place: str) -> None:
    with pytest.raises(ValueError, match=place):
        read_reply(line)


def test_a_bad_case_is_refused_by_file_place_and_reason(tmp_path: Path) -> None:
    good = json.loads(hand("smoke/text").dumped())
    wrongs = {
        "hash": {**good, "hash": "sha256:0"},
        "open": {**good, "program": good["program"][1:], "hash": ""},
        "area": {**good, "area": "weather"},
        "outcomes": {
            **good,
            "hash": "",
            "program": [
                *good["program"],
                {"verb": "release", "gate": "pre-step", "outcome": {"kind": "retry"}},
            ],
        },
    }
    path = tmp_path / "case.json"
    for words, wrong in wrongs.items():
        path.write_text(json.dumps(wrong))
        with pytest.raises(BadCase, match=words):
            load_case(path)
    with pytest.raises(BadCase, match="cannot be read"):
        load_case(tmp_path / "absent.json")


def test_an_id_is_used_once(tmp_path: Path) -> None:
    for name in ("one.json", "two.json"):
        (tmp_path / name).write_text(hand("smoke/text").dumped())
    with pytest.raises(BadCase, match="is that of"):
        list(load_cases([tmp_path]))


def test_the_hash_covers_the_program_and_not_the_title() -> None:
    case = hand("smoke/text")
    assert content_hash(case) == case.hash
    assert content_hash(case.model_copy(update={"title": "other"})) == case.hash
    assert content_hash(case.with_program(case.program[:-1])) != case.hash
    assert Case.model_validate_json(case.dumped()) == case


def test_what_a_case_needs() -> None:
    assert hand("creation/same-id-twice").needs() == {"format:0", "gate:setup", "op:create"}
    assert "vetoes" in hand("turn/refused-opening").needs()
    assert "event:agent/error" in hand("wake/error-listener").needs()
