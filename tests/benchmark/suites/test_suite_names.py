"""Axes of a suite that are called like something else: one column with right values, or refused before training."""

from __future__ import annotations

import inspect
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import gapbench
from gapbench import GapbenchError
from gapbench.suites import hyperparameters as hp
from gapbench.suites.columns import CELL_COLUMNS, EXTRA_COLUMNS
from gapbench.suites.suite import parse_suite
from gapbench_tasks import TaskEntry, registry
from gapbench_tasks.loaders.separable import load_separable

SUITE = """
name = "named"
version = 1
[training]
max_epochs = 100
stop_loss = 0.1
[measure]
samples = 20
proxies = ["param_norm", "train_loss"]
"""
GRID = """
[[grid]]
task = "mine"
{options}
[grid.axes]
family = ["plain/mlp"]
width = [0.25, 0.5]
seed = [0, 1]
{axes}
"""
ALLOWED = ["train_size", "test_size"]
TAKEN = [name for name in [*CELL_COLUMNS, *EXTRA_COLUMNS] if name not in (*ALLOWED, "seed", "width")]
FREE = ["value", "models", "low", "index", "proxy", "stratum", "weight", "estimator", "repeat", "tau", "rank"]


@pytest.fixture
def task_with(monkeypatch: pytest.MonkeyPatch):
    """Register a task "mine" whose loader takes one more option of the given name."""

    def register(name: str, default: object = 1) -> None:
        def load(data_dir=None, **options):
            known = {"train_size": 40, "label_noise": 0.0, "seed": 0, "test_size": 100}
            own = {k: v for k, v in options.items() if k in known}
            return load_separable(shape=(1, 4, 4), **{**known, **own})

        kinds = {"train_size": 40, "label_noise": 0.0, "seed": 0, "test_size": 100, name: default}
        if name in ("train_size", "test_size") and default == 1:
            kinds.pop(name)
            kinds[name] = 40 if name == "train_size" else 100
        keyword = inspect.Parameter.KEYWORD_ONLY
        load.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter(k, keyword, default=v) for k, v in kinds.items()]
        )
        module = types.ModuleType("a_task_of_mine")
        module.load = load  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "a_task_of_mine", module)
        monkeypatch.setitem(
            registry._known()[0], "mine", TaskEntry("mine", "a_task_of_mine:load", "for tests")
        )

    return register


@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("place", ["axis", "option"])
def test_options_called_like_columns_are_refused_before_training(task_with, name: str, place: str) -> None:
    task_with(name)
    if place == "axis":
        text = GRID.format(options="", axes=f"{name} = [1, 2]") if name != "family" else None
    else:
        text = "".join(GRID.format(options=f"task_options = {{ {name} = {v} }}", axes="") for v in (1, 2))
    if text is None:
        return
    with pytest.raises(
        GapbenchError, match=f"the option '{name}' of the task mine .* Give the option another name"
    ):
        parse_suite(SUITE + text, "s")
    parse_suite(SUITE + GRID.format(options="", axes=""), "s")  # where it is not used it harms nobody


@pytest.mark.parametrize("name", ["width", *hp.NAMES])
def test_options_called_like_hyperparameters_are_never_mixed_up_with_them(task_with, name: str) -> None:
    task_with(name, 5)
    with pytest.raises(GapbenchError, match="a hyper-parameter of every network"):
        parse_suite(SUITE + GRID.format(options=f"task_options = {{ {name} = 2 }}", axes=""), "s")
    plain = parse_suite(SUITE + GRID.format(options="", axes=""), "s")
    assert plain.axes == ("width",)
    varied = parse_suite(SUITE + GRID.format(options="", axes="learning_rate = [0.1, 0.2]"), "s")
    assert varied.axes == ("width", "learning_rate")
    assert {c.training.learning_rate for c in varied.configurations} == {0.1, 0.2}
    assert all(c.task_options == () for c in varied.configurations)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*ALLOWED, *FREE])
def test_an_axis_of_any_other_name_has_one_column_with_right_values(
    task_with, tmp_path: Path, name: str
) -> None:
    task_with(name)
    values = {"train_size": [40, 60], "test_size": [100, 150]}.get(name, [2, 3])
    (tmp_path / "s.toml").write_text(SUITE + GRID.format(options="", axes=f"{name} = {values}"))
    run = gapbench.run(tmp_path / "s.toml", tmp_path / "run", workers=0)
    assert list(run.population.columns).count(name) == 1
    assert run.suite.axes == ("width", name)
    assert sorted(run.population[name].tolist()) == sorted(values * 4)
    if name in ALLOWED:
        other = {"train_size": "test_size", "test_size": "train_size"}[name]
        assert set(run.population[other]) == {100 if other == "test_size" else 40}
    assert {"converged"} <= set(run.population["status"])
    scores = run.scores(replicates=20, workers=1)
    assert {f"granulated:{name}", "ceiling_network"} <= set(scores["estimator"])
    assert np.isfinite(scores.loc[scores["estimator"] == "tau", "value"]).any()
    assert (tmp_path / "run" / "board" / "index.html").is_file()
    assert list(gapbench.open_run(tmp_path / "run").population[name]) == list(run.population[name])


@pytest.mark.parametrize("name", ALLOWED)
def test_a_size_that_means_something_else_is_refused_before_training(
    task_with, tmp_path: Path, name: str
) -> None:
    task_with(name, 0.5)
    module = sys.modules["a_task_of_mine"]
    real = module.load  # type: ignore[attr-defined]

    def fractions(data_dir=None, **options):
        return real(data_dir, **{k: v for k, v in options.items() if k != name})

    fractions.__signature__ = inspect.signature(real)  # type: ignore[attr-defined]
    module.load = fractions  # type: ignore[attr-defined]
    (tmp_path / "s.toml").write_text(SUITE + GRID.format(options="", axes=f"{name} = [0.25, 0.5]"))
    with pytest.raises(GapbenchError, match=f"{name} cannot be an axis of the task mine.*another name"):
        gapbench.run(tmp_path / "s.toml", tmp_path / "run", workers=0)
    assert not (tmp_path / "run" / "run.sqlite").exists()
