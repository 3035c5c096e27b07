"""What the tests say of a proxy, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from gapbench_leaderboard.board.content import BoardAudit, PageTest
from gapbench_leaderboard.scoring.baselines import HYPERPARAMETER_ORACLE
from gapbench_leaderboard.scoring.registry import HEADLINE

SAID = {
    "beats_size": ("beats size, either way up", "does not beat size either way up"),
    "beats_random": ("beats a random proxy", "not told from a random proxy"),
    "beats_oracle": ("beats the hyper-parameter oracle", "does not beat the hyper-parameter oracle"),
    "survives_within": ("survives within width", "not borne out within width"),
    "repeatable": ("repeatable", "not shown to be repeatable"),
}
"""Estimator of `scoring.estimators.verdicts` -> what is said where the test succeeds, and where it does not."""
REVERSED = "ranks the wrong way round: significantly below a random proxy"
WIDTH = "width"


def stratified(words: str, within: str) -> str:
    """Words about strata of equal width, of strata that have something else in common beside problem and family."""
    return words.replace("within width", f"within {within}").replace(
        "family and width", f"family and {within}"
    )


HEAD: tuple[PageTest, ...] = (
    {
        "estimator": "beats_oracle",
        "one": "significantly beats the hyper-parameter oracle",
        "many": "significantly beat the hyper-parameter oracle",
        "about": "it knows the settings of each network, not its weights",
        "against": HYPERPARAMETER_ORACLE,
    },
    {
        "estimator": "beats_size",
        "one": "significantly beats the number of parameters",
        "many": "significantly beat the number of parameters",
        "about": "either way up",
        "against": "parameter_count",
    },
    {
        "estimator": "survives_within",
        "one": "is borne out",
        "many": "are borne out",
        "about": "among networks of equal width",
    },
)
"""The tests that the head of the page tells the outcome of; `against`: whose headline stands beside it."""


def verdicts(scores: pd.DataFrame, target: str, within: str = WIDTH) -> dict[str, list[str]]:
    """What the tests over all tasks say of each proxy.

    Args:
        scores: the long form.
        target: whose tests.
        within: what strata have in common beside problem and family.

    Returns:
        Proxy -> phrases in the order of `SAID`; tests that were not made are left out.
    """
    own = scores[
        (scores["target"] == target)
        & scores["estimator"].isin([*SAID, HEADLINE])
        & (scores["task"].fillna("") == "")
        & (scores["family"].fillna("") == "")
    ]
    found: dict[str, dict[str, float]] = {}
    turned = set()
    for row in own.to_dict("records"):
        proxy = str(row["proxy"])
        if row["estimator"] != HEADLINE:
            found.setdefault(proxy, {})[str(row["estimator"])] = float(row["value"])
        elif row["high"] < 0:
            turned.add(proxy)
    return {proxy: _said(outcomes, proxy in turned, within) for proxy, outcomes in found.items()}


def _said(outcomes: Mapping[str, float], turned: bool, within: str) -> list[str]:
    said = {name: words[0 if outcomes[name] == 1 else 1] for name, words in SAID.items() if name in outcomes}
    if turned and "beats_random" in said:
        said["beats_random"] = REVERSED
    return [stratified(words, within) for words in said.values()]


def head_tests(within: str = WIDTH) -> list[PageTest]:
    """The tests of `HEAD`, with what strata have in common beside problem and family."""
    return [
        {**test, "about": f"among networks of equal {within}"}
        if test["estimator"] == "survives_within"
        else test
        for test in HEAD
    ]


def invariance_verdict(audit: Sequence[BoardAudit]) -> str:
    """What the audit of invariance says: unchanged under all kinds that apply, or not; "" without an audit."""
    kinds: dict[str, bool] = {}
    for result in audit:
        if result["verdict"] != "not applicable":
            kinds[result["kind"]] = kinds.get(result["kind"], True) and result["verdict"] == "invariant"
    if not kinds:
        return ""
    kept = sum(kinds.values())
    if kept == len(kinds):
        return "invariant"
    changed = ", ".join(kind for kind, same in kinds.items() if not same)
    return f"not invariant ({changed})"
