"""Verdicts of proxies, made from tests whose outcome the construction decides."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from gapbench_leaderboard.board.verdicts import invariance_verdict, verdicts
from gapbench_leaderboard.scores import score_population
from leaderboard.test_scores_population import measurements

FAST = {"replicates": 200, "pair_replicates": 2, "prediction_replicates": 2, "workers": 1}


def population() -> pd.DataFrame:
    """A gap that falls with the width, and varies within it by something that no axis knows."""
    random = np.random.default_rng(0)
    grid = itertools.product((0.25, 0.5, 1.0, 2.0), range(12), (0, 1))
    table = pd.DataFrame(grid, columns=["width", "rate", "seed"])
    table["hidden"] = random.standard_normal(len(table))
    table["gap"] = 0.3 - 0.1 * np.log2(table["width"]) + 0.1 * table["hidden"]
    return table.assign(
        cell=[f"c{k}" for k in range(len(table))], task="a", family="mlp", status="converged",
        parameters=(1000 * table["width"]).astype(int),
    )  # fmt: skip


@pytest.fixture(scope="module")
def told() -> dict[str, list[str]]:
    table = population()
    random = np.random.default_rng(1)
    size = table["parameters"].to_numpy(dtype=float)
    proxies = {
        "perfect": table["gap"].to_numpy(),
        "size_reversed": -size + 1e-6 * random.standard_normal(len(table)),
        "noise": random.standard_normal(len(table)),
        "parameter_count": size,
    }
    first = measurements(table, **proxies).assign(repeat=0)
    again = first[first["proxy"].isin(["perfect", "noise"])].assign(repeat=1)
    again.loc[again["proxy"] == "noise", "value"] = random.standard_normal(len(table))
    scores = score_population(table, pd.concat([first, again]), axes=["rate"], **FAST)
    return verdicts(scores, "gap")


def test_a_perfect_proxy_passes_every_test(told: dict[str, list[str]]) -> None:
    assert told["perfect"] == [
        "beats size, either way up",
        "beats a random proxy",
        "beats the hyper-parameter oracle",
        "survives within width",
        "repeatable",
    ]


def test_size_turned_over_beats_chance_and_nothing_else(told: dict[str, list[str]]) -> None:
    """Its headline is that of the parameter count but for the sign, and within a width it is noise."""
    assert told["size_reversed"] == [
        "does not beat size either way up",
        "beats a random proxy",
        "does not beat the hyper-parameter oracle",
        "not borne out within width",
    ]


def test_noise_passes_none(told: dict[str, list[str]]) -> None:
    assert told["noise"] == [
        "does not beat size either way up",
        "not told from a random proxy",
        "does not beat the hyper-parameter oracle",
        "not borne out within width",
        "not shown to be repeatable",
    ]


def test_a_baseline_is_not_compared_with_itself(told: dict[str, list[str]]) -> None:
    assert "beats size, either way up" not in told["parameter_count"]
    assert "does not beat size either way up" not in told["parameter_count"]


def test_invariance_is_of_all_kinds_that_apply() -> None:
    def row(kind: str, verdict: str) -> dict[str, object]:
        return {
            "kind": kind,
            "strength": 1.0,
            "relative_change": 0.0,
            "rank_correlation": 1.0,
            "verdict": verdict,
        }

    assert invariance_verdict([]) == ""
    assert invariance_verdict([row("heads", "not applicable")]) == ""  # type: ignore[list-item]
    kept = [row("rescaling", "invariant"), row("permutation", "invariant"), row("heads", "not applicable")]
    assert invariance_verdict(kept) == "invariant"  # type: ignore[arg-type]
    changed = [*kept, row("rescaling", "not invariant")]
    assert invariance_verdict(changed) == "not invariant (rescaling)"  # type: ignore[arg-type]
