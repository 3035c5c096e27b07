"""What a planned layout is said to resolve is what it resolves, with known truth."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from gapbench_leaderboard.scores import decide, score_population
from gapbench_leaderboard.scoring.decision.forecast import Assumed, Forecast, assumed_of, forecast, simulate

AXES = ["width", "lr", "noise"]


def layout(configurations: int, seeds: int = 1) -> pd.DataFrame:
    """Two tasks; the first with two families, the first of them with two problems."""
    rows = []
    for task, family, noise, share in (
        ("one", "a", 0.0, 0.3), ("one", "a", 0.2, 0.3), ("one", "b", 0.0, 0.2), ("two", "a", 0.0, 0.2),
    ):  # fmt: skip
        rows += [
            (task, family, noise, number % 4, number, seed)
            for number in range(round(share * configurations))
            for seed in range(seeds)
        ]
    return pd.DataFrame(rows, columns=["task", "family", "noise", "width", "lr", "seed"])


def trained(table: pd.DataFrame, seed: int, proxies: int = 6) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A gap with a tenth of its variance between seeds, and proxies that follow it more and more."""
    random = np.random.default_rng(seed)
    table = table.assign(cell=[f"{k:04d}" for k in range(len(table))], status="converged")
    keys = table[["task", "family", "noise", "lr"]].astype(str).agg("|".join, axis=1)
    group = pd.factorize(keys)[0]
    level = random.standard_normal(group.max() + 1)[group]
    table["gap"] = np.sqrt(0.9) * level + np.sqrt(0.1) * random.standard_normal(len(table)) + table["noise"]
    parts = []
    for number in range(proxies):
        own = np.sqrt(0.7) * random.standard_normal(group.max() + 1)[group]
        own += np.sqrt(0.3) * random.standard_normal(len(table))
        value = table["gap"] + (1 + number) * own
        parts.append(
            pd.DataFrame({"cell": table["cell"], "proxy": f"p{number}", "value": value, "status": "ok"})
        )
    return table, pd.concat(parts, ignore_index=True)


def scored(table: pd.DataFrame, values: pd.DataFrame) -> pd.DataFrame:
    return score_population(
        table, values, axes=AXES, problem=["noise"], replicates=300, pair_replicates=3, prediction_replicates=1,
        workers=1,
    )  # fmt: skip


@pytest.fixture(scope="module")
def whole() -> dict[tuple[int, int], tuple[float, float, float]]:
    """Half-width, smallest difference and power that whole populations show, means over several."""
    found = {}
    for size, seeds in ((160, 1), (100, 2)):
        shown = []
        for seed in range(4):
            table, values = trained(layout(size, seeds), 100 + seed)
            own = decide(table, scored(table, values), AXES, ["noise"]).resolution
            shown.append((own.half_width, own.smallest_difference, own.planted_alone))
        half, smallest, alone = (float(np.mean(column)) for column in zip(*shown))
        found[size, seeds] = (half, smallest, alone)
    return found


@pytest.mark.parametrize(("size", "seeds"), [(160, 1), (100, 2)])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_pilot_predicts_the_whole(
    size: int, seeds: int, seed: int, whole: dict[tuple[int, int], tuple[float, float, float]]
) -> None:
    small = layout(36)
    again = small.iloc[::3].assign(seed=1)
    table, values = trained(pd.concat([small, again], ignore_index=True), seed)
    scores = scored(table, values)
    decision = decide(table, scores, AXES, ["noise"])
    assumed = assumed_of(table, values, scores, decision, AXES, ["noise"])
    found = forecast(table, layout(size, seeds), AXES, ["noise"], decision, assumed)
    half, smallest, alone = whole[size, seeds]
    assert half / 1.3 < found.half_width < 1.3 * half
    assert smallest / 1.5 < found.smallest_difference < 1.5 * smallest
    assert found.planted.alone == pytest.approx(alone, abs=0.3)
    assert half < 0.75 * decision.resolution.half_width  # the pilot itself is far from it


def test_what_the_networks_are_like_is_found() -> None:
    table, values = trained(layout(200, 2), 5)
    scores = scored(table, values)
    found = assumed_of(table, values, scores, decide(table, scores, AXES, ["noise"]), AXES, ["noise"])
    assert len(found.taus) == 6
    assert found.seeds == pytest.approx(0.1, abs=0.03)
    assert found.common == pytest.approx(0.7, abs=0.1)


def test_networks_that_will_not_be_kept_resolve_nothing() -> None:
    assumed = Assumed((0.1, 0.3, 0.5))
    every = simulate(layout(100), AXES, ["noise"], assumed, replicates=100)
    half = {("one", "a"): 0.5, ("one", "b"): 0.5, ("two", "a"): 0.5}
    some = simulate(layout(100), AXES, ["noise"], assumed, kept=half, replicates=100)
    assert 1.2 < some.half_width / every.half_width < 1.8
    none = simulate(layout(100), AXES, ["noise"], assumed, kept=dict.fromkeys(half, 0.0), replicates=100)
    assert np.isnan([none.half_width, none.smallest_difference, none.planted.alone]).all()


def test_four_times_as_many_configurations_halve_the_interval() -> None:
    assumed = Assumed(tuple(np.linspace(0.1, 0.6, 12)))
    one = simulate(layout(200), AXES, ["noise"], assumed, replicates=200)
    four = simulate(layout(800), AXES, ["noise"], assumed, replicates=200)
    assert 1.8 < one.half_width / four.half_width < 2.3
    assert four.planted.alone > one.planted.alone


@pytest.mark.parametrize("taus", [(), (0.3,), (float("inf"), 0.3), tuple(np.linspace(-0.5, 0.9, 60))])
def test_few_and_many_proxies(taus: tuple[float, ...]) -> None:
    found = simulate(layout(60), AXES, ["noise"], Assumed(taus), replicates=60, draws=1)
    assert isinstance(found, Forecast)
    assert np.isfinite(found.half_width) == bool(taus)
    assert np.isfinite(found.smallest_difference) == (len(taus) > 1)
    assert np.isfinite(found.planted.alone)
