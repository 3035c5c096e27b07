"""The tables of runs that are kept in `leaderboard/results`: what is published of them follows from them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from gapbench.suites.suite import load_suite
from gapbench_leaderboard.board import ranking_text
from gapbench_leaderboard.board.doubts import doubts_of
from gapbench_leaderboard.scores import decide, decision_text, score_population

ROOT = Path(__file__).parents[2]
RUNS = sorted(path for path in (ROOT / "leaderboard" / "results").iterdir() if path.is_dir())


def tables(run: Path) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Networks, measurements and scores."""
    population = pd.read_csv(run / "population.csv", keep_default_na=False, na_values=[""])
    measurements = pd.read_csv(run / "measurements.csv", keep_default_na=False, na_values=[""])
    return population, measurements, pd.read_csv(run / "scores.csv", keep_default_na=False, na_values=[""])


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_headlines_are_those_of_the_tables(run: Path) -> None:
    population, measurements, kept = tables(run)
    suite = load_suite(run.name.partition("-")[0])
    assert len(population) == len(suite.configurations)
    found = score_population(
        population,
        measurements,
        targets=("gap",),
        axes=suite.axes,
        problem=suite.problem,
        replicates=20,
        pair_replicates=2,
        prediction_replicates=2,
    )

    def headlines(scores: pd.DataFrame) -> pd.Series:
        own = scores[(scores["estimator"] == "tau") & (scores["target"] == "gap")]
        names = ["task", "family", "proxy"]
        return own.assign(**own[names].fillna("")).set_index(names)["value"].sort_index()

    oracle = "noisy_oracle"  # drawn anew where the replicates are others
    first, second = (own.drop(index=oracle, level="proxy") for own in (headlines(found), headlines(kept)))
    pd.testing.assert_series_equal(first, second, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_boards_in_the_documents_are_those_of_the_tables(run: Path) -> None:
    """Every line of the ranking and of what the population can decide stands in the README as it is printed."""
    population, measurements, scores = tables(run)
    suite = load_suite(run.name.partition("-")[0])
    readme = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    decision = decide(population, scores, suite.axes, suite.problem)
    for text in (ranking_text(scores, doubts=doubts_of(measurements)), decision_text(decision)):
        missing = [line for line in text.splitlines() if line.rstrip() not in readme]
        assert not missing
