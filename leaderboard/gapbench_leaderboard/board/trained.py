"""How many networks were trained in a scope: what a number of ranked networks is to be compared with."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_leaderboard.board.numbers import TableRow

LEFT_OUT = "left_out:"


def trained_networks(scores: pd.DataFrame, target: str, task: str = "", family: str = "") -> int | None:
    """All networks of a scope, whether they are ranked or not; for a researcher's own table all its rows.

    The scores count what they leave out by reason (not converged, diverged, not measured, ...), so that of each
    measured proxy the networks ranked and left out are all there are. Networks under distribution shift were never
    scored and are not counted.

    Args:
        scores: the long form.
        target: whose scores.
        task: of the scope; all if empty.
        family: likewise.

    Returns:
        The number; None where nothing is known of the scope.
    """
    text = scores[["task", "family", "proxy"]].fillna("").astype(str)
    own = (scores["target"] == target).to_numpy() & (text["proxy"] != "").to_numpy()
    in_family = own & (text["family"] == family).to_numpy()
    in_scope = in_family & (text["task"] == task).to_numpy()
    kind = scores["estimator"].astype(str)
    of_reason = kind.str.startswith(LEFT_OUT).to_numpy()
    # those of a family are counted by task
    left = of_reason & (in_family & (text["task"] != "").to_numpy() if family and not task else in_scope)
    ranked = _by_proxy(scores, text, "models", in_scope & (kind == "tau").to_numpy())
    share = _by_proxy(scores, text, "value", in_scope & (kind == "coverage").to_numpy())
    missing = _by_proxy(scores, text, "value", left)
    totals = [ranked.get(proxy, 0.0) + missing.get(proxy, 0.0) for proxy in {*ranked, *missing}]
    totals += [ranked[proxy] / part for proxy, part in share.items() if proxy in ranked and part > 0]
    return round(max(totals)) if totals else None


def _by_proxy(
    scores: pd.DataFrame, text: pd.DataFrame, column: str, chosen: NDArray[np.bool_]
) -> dict[str, float]:
    """The sum of a column over the chosen rows of each proxy."""
    found: dict[str, float] = {}
    for proxy, number in zip(text["proxy"][chosen], scores[column][chosen]):
        found[proxy] = found.get(proxy, 0.0) + float(number)
    return found


def networks_text(row: TableRow) -> str:
    """Of how many networks trained a row's score is: "367 of 368"."""
    trained = row.get("trained", math.nan)
    return f"{int(row['models'])} of {'?' if trained is None or trained != trained else int(trained)}"
