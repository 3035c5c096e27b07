"""Agreement between proxies against scipy's tau-b, group by group."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau

from gapbench_leaderboard.board import agreement as module
from gapbench_leaderboard.board.agreement import agreement, clustered, pairwise_tau_b


@pytest.fixture
def values() -> np.ndarray:
    random = np.random.default_rng(3)
    table = random.integers(0, 6, (30, 5)).astype(float)  # many ties
    table[random.random(table.shape) < 0.2] = np.nan
    table[:, 4] = 2.0  # constant
    return table


@pytest.mark.parametrize("block", [1, 300, 10**7])
def test_pairwise_tau_b_is_scipys_on_the_common_rows(
    values: np.ndarray, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BLOCK", block)
    tau, pairs = pairwise_tau_b(values)
    for i in range(5):
        for j in range(5):
            both = np.isfinite(values[:, i]) & np.isfinite(values[:, j])
            expected = kendalltau(values[both, i], values[both, j]).statistic
            assert tau[i, j] == pytest.approx(expected, abs=1e-12, nan_ok=True)
            assert pairs[i, j] == both.sum() * (both.sum() - 1) / 2


def test_agreement_averages_families_and_tasks_equally() -> None:
    random = np.random.default_rng(0)
    sizes = {("a", "f"): 7, ("a", "g"): 12, ("b", "f"): 5}
    rows = [(task, family) for (task, family), size in sizes.items() for _ in range(size)]
    population = pd.DataFrame(rows, columns=["task", "family"]).assign(
        cell=[str(i) for i in range(len(rows))], status="converged", width=random.random(len(rows))
    )
    extra = pd.DataFrame([{"task": "a", "family": "f", "cell": "lost", "status": "diverged", "width": 1.0}])
    population = pd.concat([population, extra], ignore_index=True)
    x = random.random(len(population))
    frames = []
    for name, value in (("x", x), ("opposite", -x), ("y", x + random.random(len(population)))):
        frames.append(
            pd.DataFrame({"cell": population["cell"], "proxy": name, "value": value, "status": "ok"})
        )
    measurements = pd.concat(frames, ignore_index=True)
    described = [
        {"label": "x", "higher_means": "worse"},
        {"label": "opposite", "higher_means": "better"},
        {"label": "y"},
        {"label": "width"},
        {"label": "noisy_oracle"},
    ]
    found = agreement(population, measurements, described)
    assert sorted(found["proxies"]) == ["opposite", "width", "x", "y"]
    at = {name: i for i, name in enumerate(found["proxies"])}
    assert found["tau"][at["x"]][at["opposite"]] == pytest.approx(1.0)  # oriented: both predict alike

    def tau(task: str, family: str) -> float:
        rows = (population["task"] == task) & (population["family"] == family)
        own = (rows & (population["status"] == "converged")).to_numpy()
        return float(kendalltau(x[own], frames[2]["value"].to_numpy()[own]).statistic)

    first = (tau("a", "f") + tau("a", "g")) / 2
    expected = (first + tau("b", "f")) / 2
    assert found["tau"][at["x"]][at["y"]] == pytest.approx(expected, abs=1e-12)


def test_clustering_puts_like_beside_like() -> None:
    group = np.array([0, 1, 0, 1, 0, 1])
    tau = np.where(group[:, None] == group, 0.9, -0.2)
    np.fill_diagonal(tau, 1.0)
    order = group[clustered(tau)]
    assert (np.diff(order) != 0).sum() == 1
    assert clustered(np.full((2, 2), np.nan)) == [0, 1]
    assert sorted(clustered(np.full((4, 4), np.nan))) == [0, 1, 2, 3]
