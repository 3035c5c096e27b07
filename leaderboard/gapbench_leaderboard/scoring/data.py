"""What estimators are made from."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pandas as pd

from gapbench_leaderboard.scoring.ceilings import CeilingTable
from gapbench_leaderboard.scoring.scope import StudySet
from gapbench_leaderboard.scoring.settings import Settings


@dataclass(frozen=True)
class Tables:
    """The tables as they were given, with networks that are not ranked."""

    population: pd.DataFrame
    measurements: pd.DataFrame
    """First measurements."""
    values: pd.DataFrame
    """Oriented values: a row per network of `population`, a column per measured proxy."""
    axes: Sequence[str]
    ranked_status: Collection[str]
    problem: Sequence[str] = ()
    """Axes that change the data."""


@dataclass(frozen=True)
class ScoringData:
    """All that the rows of one target are made from."""

    target: str
    studies: StudySet
    ceilings: CeilingTable
    settings: Settings
    tables: Tables
    proxies: Sequence[str]
    """Those measured and the baselines made by the scorer, in the order of the table."""
    competing: Sequence[str]
    """Those that get a rank."""
