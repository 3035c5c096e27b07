"""Which axes of a suite change the data, from its file to the scores of its run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gapbench
from gapbench.suites.suite import list_suites, load_suite, parse_suite
from gapbench_tasks import load_task

HEAD = """
name = "problems"
version = 1
[training]
max_epochs = 60
stop_loss = 0.1
[measure]
samples = 20
proxies = ["param_norm", "parameter_count", "random"]
"""
GRID = """
[[grid]]
task = "separable"
task_options = {{ shape = [1, 4, 4], test_size = 100, train_size = {size} }}
[grid.axes]
family = ["plain/mlp"]
width = [0.25, 0.5]
seed = [0, 1]
{axes}
"""


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        ("learning_rate = [0.1, 0.2]", ()),
        ("input_noise = [0.0, 0.1]\nweight_decay = [0.0, 0.1]", ()),
        ("label_noise = [0.0, 0.2]\nlearning_rate = [0.1, 0.2]", ("label_noise",)),
        (
            "data_seed = [0, 1]\nmargin = [0.1, 0.2]\nlabel_noise = [0.0, 0.1]",
            ("data_seed", "label_noise", "margin"),
        ),
    ],
)
def test_options_of_tasks_tell_problems_apart_and_training_does_not(
    axes: str, expected: tuple[str, ...]
) -> None:
    assert parse_suite(HEAD + GRID.format(size=40, axes=axes), "s").problem == expected


def test_networks_trained_elsewhere_are_taken_at_the_word_of_their_axes() -> None:
    suite = replace(parse_suite(HEAD + GRID.format(size=40, axes=""), "s"), configurations=())
    axes = ("width", "label_noise", "lr", "train_size", "margin")
    assert replace(suite, axes=axes).problem == ("label_noise", "train_size")


def test_another_test_set_is_the_same_problem() -> None:
    text = HEAD + GRID.format(size=40, axes="test_size = [100, 200]").replace("test_size = 100, ", "")
    suite = parse_suite(text, "s")
    assert suite.axes == ("width", "test_size")
    assert suite.problem == ()


@pytest.mark.parametrize("name", list_suites())
def test_label_noise_is_a_problem_of_every_bundled_suite(name: str) -> None:
    suite = load_suite(name)
    assert set(suite.problem) <= {"label_noise", "shape", "margin", "train_size", "spectrum"}
    assert ("label_noise" in suite.problem) == ("label_noise" in suite.axes)


def test_grids_that_differ_in_training_size_and_label_noise_are_scored(tmp_path: Path) -> None:
    """One column each, though a cell has its training size from its task as well; and a gap on noisy labels."""
    text = HEAD + "".join(GRID.format(size=size, axes="label_noise = [0.0, 0.1]") for size in (40, 60))
    (tmp_path / "s.toml").write_text(text)
    run = gapbench.run(tmp_path / "s.toml", tmp_path / "run", workers=0)
    assert run.suite.problem == ("label_noise", "train_size")
    table = run.population
    assert table.columns.is_unique
    assert sorted(set(table["train_size"])) == [40, 60]
    scores = run.scores(replicates=20, workers=1)
    assert set(scores["target"]) == {"gap", "gap_noisy", "loss_gap", "test_error"}
    own = scores[(scores["proxy"] == "param_norm") & (scores["target"] == "gap")]
    assert {"tau", "tau_across_problems", "granulated:train_size"} <= set(own["estimator"])
    page = (tmp_path / "run" / "board" / "board.md").read_text()
    assert "across problems" in page
    assert "gap\\_noisy" in page
    # k = 2: rho + e (1 - 2 rho), where rho is the share of the labels that are wrong indeed
    for row in table.to_dict("records"):
        options = {"shape": (1, 4, 4), "train_size": int(row["train_size"])}
        clean, noisy = (
            load_task("separable", **options, label_noise=share).train.targets
            for share in (0.0, row["label_noise"])
        )
        rho = float((clean != noisy).double().mean())
        expected = rho + row["test_error"] * (1 - 2 * rho) - row["train_error"]
        assert row["gap_noisy"] == pytest.approx(expected, abs=1e-12)
    quiet = table["label_noise"] == 0
    assert np.allclose(table.loc[quiet, "gap_noisy"], table.loc[quiet, "gap"], atol=1e-15)
