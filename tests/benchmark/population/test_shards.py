"""Parts of a plan: balanced, disjoint, together the whole; a run remembers which part it is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import gapbench
from benchmark.tiny_suite import TINY
from gapbench.pilot.estimating import estimate
from gapbench.population.plan import Cell, balanced
from gapbench.population.shards import Shard, parse_shard, part_of
from gapbench.runs.run import open_run
from gapbench.suites.hyperparameters import Hyperparameters
from gapbench.suites.suite import Configuration, load_suite
from gapbench_base.errors import GapbenchError
from gapbench_base.keys import content_key


def cell(family: str, width: float, epochs: int, seed: int, rate: float = 0.1) -> Cell:
    training = Hyperparameters(max_epochs=epochs, learning_rate=rate)
    configuration = Configuration(
        task="separable", family=family, width=width, seed=seed, training=training, task_options=()
    )
    description = {"family": family, "width": width, "epochs": epochs, "rate": rate, "seed": seed}
    return Cell(content_key(description), configuration, description)


PLAN = balanced(
    [
        cell(family, width, epochs, seed, rate)
        for family in ("plain/mlp", "plain/cnn")
        for width in (0.5, 1.0, 2.0)
        for epochs in (5, 50)
        for rate in (0.1, 0.2, 0.3)
        for seed in range(3)
    ]
)


def kinds(cells: list[Cell]) -> Counter[tuple[object, ...]]:
    return Counter((c.configuration.family, c.configuration.width, c.description["epochs"]) for c in cells)


@settings(max_examples=40, deadline=None)
@given(some.integers(1, 12), some.integers(20, len(PLAN)), some.randoms(use_true_random=False))
def test_parts_are_disjoint_together_the_whole_and_have_as_many_of_each_kind(count, size, random) -> None:
    plan = random.sample(PLAN, size)
    parts = [part_of(plan, Shard(index, count)) for index in range(count)]
    assert sorted(c.key for part in parts for c in part) == sorted(c.key for c in plan)
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    for kind in kinds(plan):
        own = [kinds(part)[kind] for part in parts]
        assert max(own) - min(own) <= 1
    shuffled = random.sample(plan, size)
    for index, part in enumerate(parts):
        again = part_of(shuffled, Shard(index, count))
        assert {c.key for c in again} == {c.key for c in part}  # whatever the order of the plan
        positions = [plan.index(c) for c in part]
        assert positions == sorted(positions)


def test_seeds_stay_together_where_proxies_need_both() -> None:
    parts = [part_of(PLAN, Shard(index, 5), seeds_together=True) for index in range(5)]
    assert sorted(c.key for part in parts for c in part) == sorted(c.key for c in PLAN)
    where = {}
    for index, part in enumerate(parts):
        for c in part:
            point = tuple(value for name, value in c.description.items() if name != "seed")
            assert where.setdefault(point, index) == index
    assert len(where) == len(PLAN) // 3
    assert {len(part) for part in parts} <= {21, 24}


@pytest.mark.parametrize("text", ["", "1", "2/2", "-1/2", "0/0", "a/b", "1/2/3", "0.5/2"])
def test_what_is_no_part_is_refused(text: str) -> None:
    with pytest.raises(GapbenchError, match="--shard"):
        parse_shard(text)


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("suite") / "tiny.toml"
    file.write_text(TINY)
    return file


def run(suite: Path, folder: Path | None, **options: object) -> gapbench.Run:
    return gapbench.run(suite, folder, device="cpu", workers=0, proxies=["random"], board=False, **options)


def test_a_run_of_a_part_remembers_it_goes_on_with_it_and_can_be_widened(
    suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = run(suite, None, shard="1/4", limit=2)
    assert first.folder == Path("runs/tiny-1-of-4")
    assert (len(first.population), len(first.cells), first.shard) == (2, 12, "1/4")
    assert "part 1/4" in first.notes()[0]
    again = run(first.folder, None)
    assert len(again.population) == 3
    assert set(first.population["cell"]) < set(again.population["cell"])
    assert len(again.measurements) == 3
    with pytest.raises(GapbenchError, match="holds the part 1/4 of its suite, not 0/4"):
        run(suite, first.folder, shard="0/4")
    assert len(open_run(first.folder).population) == 3
    whole = run(suite, first.folder, shard="0/1")
    assert (len(whole.population), whole.shard) == (12, None)
    assert len(run(suite, first.folder, shard="2/3").population) == 12  # of an ordinary run, which stays one
    assert open_run(first.folder).shard is None


def test_an_empty_part_is_refused_and_makes_no_folder(suite: Path, tmp_path: Path) -> None:
    with pytest.raises(GapbenchError, match=r"--shard 12/13: the suite has only 12 networks"):
        run(suite, tmp_path / "run", shard="12/13")
    assert not (tmp_path / "run").exists()


def test_an_estimate_is_of_the_part(suite: Path, trained: Path, tmp_path: Path) -> None:
    folder = trained.parent / "other"
    found = estimate(suite, folder, device="cpu", workers=1, shard="0/5", proxies=["random", "param_norm"])
    assert (found.networks, found.planned, found.known) == (3, 3, 3)
    assert not folder.exists()


def test_shipped_suites_are_cut_evenly() -> None:
    configurations = load_suite("quick").configurations
    cells = [
        Cell(content_key({"n": n}), configuration, {"n": n}) for n, configuration in enumerate(configurations)
    ]
    parts = [part_of(cells, Shard(index, 7)) for index in range(7)]
    families = {c.configuration.family for c in cells}
    for family in families:
        own = [sum(c.configuration.family == family for c in part) for part in parts]
        assert max(own) - min(own) <= 2  # of each of its two tasks up to one
    epochs = [sum(c.configuration.training.max_epochs for c in part) for part in parts]
    assert max(epochs) - min(epochs) <= 2 * max(c.configuration.training.max_epochs for c in cells)
