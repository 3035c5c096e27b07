"""What the scores say of resolution and survivorship."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd

from gapbench_leaderboard.scoring.decision.tree import NAN, Resolution, Survivor, Survivorship

Numbers = Mapping[tuple[str, str], float]
"""Proxy and estimator -> value."""


FEWEST_FOR_PLAN = 48
"""Networks below which an interval tells nothing of that of more: 24 of `quick` foretold 1.8 times what it was."""


def overall(scores: pd.DataFrame, target: str) -> pd.DataFrame:
    """The rows of a target over all tasks and families."""
    chosen = scores[
        (scores["target"].astype(str) == target)
        & (scores["task"].fillna("").astype(str) == "")
        & (scores["family"].fillna("").astype(str) == "")
    ]
    return chosen.assign(proxy=chosen["proxy"].fillna("").astype(str))


def resolution_of(rows: pd.DataFrame, networks: int, planned: int | None = None) -> Resolution:
    """The resolution that the scores over all tasks show.

    Args:
        rows: of one target, see `overall`.
        networks: that the population has.
        planned: networks that there are to be; None where that is not known.

    Returns:
        The resolution; errors fall with the root of the number of networks, while the number of proxies, of
        problems and of families stays as it is. Of few networks nothing is foretold (`FEWEST_FOR_PLAN`).
    """
    competing = list(rows.loc[(rows["estimator"] == "rank") & rows["value"].notna(), "proxy"])
    tau = rows[(rows["estimator"] == "tau") & rows["proxy"].isin(competing)]
    half = float((0.5 * (tau["high"] - tau["low"])).median()) if len(tau) else NAN
    smallest = _of_population(rows, "smallest_significant_difference")
    more = planned is not None and 0 < networks < planned
    tells = more and networks >= FEWEST_FOR_PLAN
    factor = math.sqrt(networks / planned) if tells and planned is not None else NAN
    return Resolution(
        competing=len(competing),
        half_width=half,
        smallest_difference=smallest,
        rank_groups=_groups(rows, competing),
        planted_alone=_of_population(rows, "planted_told_apart"),
        planted_among=_of_population(rows, "planted_told_apart_among_all"),
        planned=planned if more else None,
        planned_half_width=half * factor,
        planned_smallest_difference=smallest * factor,
    )


def survivorship_of(rows: pd.DataFrame, left_out: int) -> Survivorship:
    """How headlines change where networks are kept that trained but did not converge.

    Args:
        rows: of one target, see `overall`.
        left_out: networks that are not ranked.

    Returns:
        Of the best proxy, and of that whose headline changes most; None where no such network was measured.
    """
    values: Numbers = {
        (str(proxy), str(name)): float(value)
        for proxy, name, value in zip(rows["proxy"], rows["estimator"], rows["value"])
    }
    ranked = [proxy for proxy, name in values if name == "rank"]
    found = [
        Survivor(proxy, values[proxy, "tau"], values[proxy, "tau_with_not_converged"])
        for proxy in ranked
        if (proxy, "tau_with_not_converged") in values and (proxy, "tau") in values
    ]
    if not found:
        return Survivorship(left_out)
    return Survivorship(
        left_out,
        best=max(found, key=lambda own: (own.tau, own.proxy)),
        most=max(found, key=lambda own: (abs(own.tau_all - own.tau), own.proxy)),
    )


def _of_population(rows: pd.DataFrame, estimator: str) -> float:
    own = rows[(rows["estimator"] == estimator) & (rows["proxy"] == "")]
    return float(own["value"].iloc[0]) if len(own) else NAN


def _groups(rows: pd.DataFrame, competing: list[str]) -> int:
    """The most proxies whose sets of ranks do not meet: the set that ends first, then the next beyond it, ..."""
    own = rows[(rows["estimator"] == "rank") & rows["proxy"].isin(competing)]
    number, end = 0, 0.0
    for low, high in sorted(zip(own["low"], own["high"]), key=lambda pair: (pair[1], pair[0])):
        if low > end:
            number, end = number + 1, high
    return number
