"""Faults in the plugin, each with the check that notices it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.spec.mutation import changed
from tests.tape import test_plugin_folds as folds
from tests.tape import test_plugin_seals as seals

from loopharness.slice import SlicePlugin, SpillStore
from loopharness.slice.state import Folder, SessionTape

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("holder", "name", "old", "new", "killer"),
    [
        (SpillStore, "owns", "hmac.compare_digest(signature, self._sign(session, place))", "True", "another"),
        (SpillStore, "owns", "folder == str(self.folder) and", "", "moved"),
        (SpillStore, "_read", "os.O_RDONLY | os.O_NOFOLLOW", "os.O_RDONLY", "link"),
        (SlicePlugin, "_seal", 'course == "seal" and', 'course != "stop" and', "later"),
        (SlicePlugin, "_fold", 'decision["kind"] == "enter" and', "", "rejected"),
        (Folder, "_expanded", "found in self._retrieved or ", "", "once"),
        (Folder, "_expanded", " or call in self._counted", "", "once"),
        (Folder, "_replaced", "if subject is not None:", "if False:", "once"),
        (Folder, "run", "or seq not in shown", "", "late"),
        (SessionTape, "seal", "self._warned.add(portion.key)", "pass", "warn"),
    ],
)
async def test_a_fault_in_the_plugin_is_noticed(
    holder: Any, name: str, old: str, new: str, killer: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    patch = pytest.MonkeyPatch()
    patch.setattr(holder, name, changed(getattr(holder, name), old, new))
    checks: dict[str, Callable[[], Any]] = {
        "another": lambda: folds.test_another_call_cannot_name_a_stored_text(tmp_path),
        "moved": lambda: owned_elsewhere(tmp_path),
        "link": lambda: read_through_a_link(tmp_path),
        "later": seals.test_steps_after_the_first_never_seal,
        "rejected": folds.test_a_rejected_step_folds_nothing,
        "once": folds.test_nested_retrievals_back_off_and_survive_a_replay,
        "late": folds.test_sealed_results_are_not_folded,
        "warn": lambda: seals.test_a_retained_portion_is_warned_about_once(caplog),
    }
    try:
        with pytest.raises((Exception, pytest.fail.Exception)):
            await checks[killer]()
    finally:
        patch.undo()


async def owned_elsewhere(folder: Path) -> None:
    """A locator with our signature but in another folder is not ours."""
    store = SpillStore(folder / "spill")
    locator = store.locator("s", (1, 1, "c"), "get")
    assert store.owns("s", (1, 1, "c"), locator)
    assert not store.owns("s", (1, 1, "c"), str(folder / Path(locator).name))
    assert not store.owns("s", (1, 2, "c"), locator)
    assert not store.owns("t", (1, 1, "c"), locator)


async def read_through_a_link(folder: Path) -> None:
    """Not even one of our own names is followed when somebody has put a link there."""
    (folder / "secret").write_text("TOP SECRET")
    store = SpillStore(folder / "spill")
    locator = store.locator("s", (1, 1, "c"), "get")
    Path(locator).symlink_to(folder / "secret")
    with pytest.raises(OSError):
        await store.read(locator)


async def test_a_stored_text_is_ours_only_in_its_place(tmp_path: Path) -> None:
    await owned_elsewhere(tmp_path)
    await read_through_a_link(tmp_path)
