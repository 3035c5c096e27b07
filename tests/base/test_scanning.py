from __future__ import annotations

import pytest

from gapbench_base.errors import GapbenchError
from gapbench_base.scanning import modules_of


def test_modules_are_found_by_their_files(tmp_path, monkeypatch):
    package = tmp_path / "a_room_of_modules"
    (package / "within").mkdir(parents=True)
    for name in ("__init__", "second", "first", "_helper", "within/__init__"):
        (package / f"{name}.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    found = [module.__name__ for module in modules_of("a_room_of_modules")]
    assert found == ["a_room_of_modules.first", "a_room_of_modules.second"]


def test_a_module_that_cannot_be_imported_says_so(tmp_path, monkeypatch):
    package = tmp_path / "a_room_with_a_broken_module"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "broken.py").write_text("import what_is_not_there")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        GapbenchError, match=r"broken\.py cannot be used: ModuleNotFoundError.*what_is_not_there"
    ):
        modules_of("a_room_with_a_broken_module")
