"""What a contract version requires stays in the suite: no clause vanishes, and none loses its last case."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopconform.cli import version
from loopconform.protocol.case import Case, load_cases
from loopconform.requirements import FOLDER, HOME, Required, load, lost, offered, path_of, text


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return list(load_cases([HOME / "cases"]))


def test_the_version_of_now_has_a_list() -> None:
    assert path_of(version()).exists()


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_nothing_that_is_required_is_lost(cases: list[Case], path: Path) -> None:
    required = load(path)
    assert len({one.clause for one in required if one.level == "L2"}) > 200
    assert {one.level for one in required} == {"L0", "L1", "L2"}
    assert lost(required, offered(cases)) == [], "a clause that is to go needs a new contract version"


def test_the_last_case_of_a_clause_is_missed(cases: list[Case]) -> None:
    required = load(path_of(version()))
    rest = [case for case in cases if "L-IDLE-2" not in case.clauses]
    assert lost(required, offered(rest)) == [
        Required("L-IDLE-2", "L2", "dsh-0.1"),
        Required("L-IDLE-2", "L2", "seed"),
    ]
    elsewhere = [case.model_copy(update={"profiles": ("seed",)}) for case in cases]
    assert Required("L-IDLE-2", "L2", "dsh-0.1") in lost(required, offered(elsewhere))


def test_a_list_reads_back(tmp_path: Path) -> None:
    required = {Required("L-A-1", "L2", "seed"), Required("L-A-1", "L0", "logs"), Required("L-B-1", "L2", "dsh-0.1")}
    path = tmp_path / "9.yaml"
    path.write_text(text(required, "9"), encoding="utf-8")
    assert load(path) == required
    path.write_text("[]", encoding="utf-8")
    with pytest.raises(ValueError, match="must map clauses"):
        load(path)
