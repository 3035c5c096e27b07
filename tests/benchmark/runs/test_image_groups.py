"""From a task whose test set shows images several times to the noise of the scores."""

import sqlite3

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gapbench
from benchmark.tiny_suite import TINY
from gapbench import GapbenchError
from gapbench.runs.image_groups import packed, unpacked
from gapbench.runs.store import Store
from gapbench.runs.tables import correctness, images_shown

ROTATED = (
    TINY.replace('"separable"', '"digits_rotations"')
    .replace("shape = [1, 4, 4], train_size = 60, test_size = 200", "train_size = 60, test_copies = 3")
    .replace("learning_rate = [0.1, 0.2]", "learning_rate = [0.1]")
    .replace("max_epochs = 12", "max_epochs = 2")
)


@given(st.lists(st.integers(0, 2**40), max_size=50))
def test_groups_are_kept_as_they_are(groups):
    array = np.array(groups, dtype=np.int64)
    np.testing.assert_array_equal(unpacked(packed(array)), array)


def test_many_copies_take_little_room():
    assert len(packed(np.tile(np.arange(10_000), 5))) < 1000


@pytest.mark.parametrize("text", ["", "%%", "AAAA"])
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError, match="no packed test groups"):
        unpacked(text)


@pytest.fixture(scope="module")
def rotated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("groups")
    (folder / "t.toml").write_text(ROTATED)
    return gapbench.run(folder / "t.toml", folder / "run", workers=0, board=False, proxies=["param_norm"])


def test_a_run_keeps_which_image_each_test_example_shows_and_scores_by_images(rotated, monkeypatch):
    assert set(rotated.population["test_size"]) == {3 * 997}
    cells = list(rotated.population["cell"])
    with Store(rotated.folder, readonly=True) as store:
        groups, bits = images_shown(store, cells), correctness(store, cells)
    assert set(groups) == set(bits) == set(cells)
    for cell, error in zip(cells, rotated.population["test_error"]):
        np.testing.assert_array_equal(groups[cell], np.tile(np.arange(997), 3))
        assert 1 - bits[cell].mean() == pytest.approx(error, abs=1e-12)
    asked = {}
    monkeypatch.setattr(
        "gapbench_leaderboard.scores.score_population", lambda *_, **options: asked.update(options)
    )
    rotated.scores()
    assert set(asked["test_groups"]) == set(cells)
    np.testing.assert_array_equal(asked["test_groups"][cells[0]], groups[cells[0]])
    assert rotated.suite.problem == ()


def test_groups_of_another_length_are_damage(rotated):
    with sqlite3.connect(rotated.folder / "run.sqlite") as db:
        db.execute("DROP TRIGGER cells_keep")
        db.execute("UPDATE cells SET test_groups = ?", (packed(np.arange(5)),))
    with pytest.raises(GapbenchError, match=r"damaged: network .* its 2991 test examples shows"):
        gapbench.open_run(rotated.folder).scores(targets=("gap",), replicates=2)


def test_the_number_of_copies_changes_nothing_that_is_learned_from(tmp_path):
    from gapbench.suites.suite import parse_suite

    suite = parse_suite(
        ROTATED.replace(", test_copies = 3", "").replace("seed = [0, 1]", "seed = [0]\ntest_copies = [1, 2]"),
        "t",
    )
    assert "test_copies" in suite.axes
    assert suite.problem == ()
