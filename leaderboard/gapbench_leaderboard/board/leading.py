"""Whether the first two of a ranking differ: the question that a reader of any ranking asks first."""

from __future__ import annotations

import pandas as pd

from gapbench_leaderboard.board.numbers import rounded
from gapbench_leaderboard.statistics.resampling import SIGNIFICANCE

DIFFERENCE, P = "tau_minus", "tau_minus_p"


def leading_text(scores: pd.DataFrame, ranks: pd.DataFrame, target: str) -> str:
    """The difference of the headlines of the first two, with its interval and p, as a line.

    Args:
        scores: the long form.
        ranks: of `ranking`, in its order.
        target: that is ranked by.

    Returns:
        "" where fewer than two have a rank, or their difference is not known.
    """
    first = ranks[~ranks["baseline"] & ranks["rank"].notna()]["proxy"].astype(str).tolist()[:2]
    if len(first) < 2:
        return ""
    one, two = first
    own = scores[(scores["target"] == target) & (scores["task"].fillna("") == "")]
    for proxy, other, sign in ((one, two, 1.0), (two, one, -1.0)):
        found = own[(own["proxy"] == proxy) & (own["estimator"] == f"{DIFFERENCE}:{other}")]
        if not len(found):
            continue
        value, low, high = (sign * float(found[column].iloc[0]) for column in ("value", "low", "high"))
        low, high = min(low, high), max(low, high)
        p = own[(own["proxy"] == proxy) & (own["estimator"] == f"{P}:{other}")]["value"]
        limits = f" [{rounded(low)}, {rounded(high)}]" if low == low else ""
        ahead = f"first and second: {one} is {rounded(value)}{limits} ahead of {two}"
        if value == 0:
            ahead = f"first and second: {one} and {two} are level, their difference {rounded(value)}{limits}"
        if not len(p):
            return ahead
        told = "differ" if float(p.iloc[0]) < SIGNIFICANCE else "cannot be told apart"
        return f"{ahead}; of this pair alone p = {float(p.iloc[0]):.2g}: they {told}"
    return ""
