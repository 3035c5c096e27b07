"""The columns of the page's ranking, and its heat maps, as the page's script reads them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gapbench_leaderboard.board.content import BoardEntry, PageColumn, PageHeatMap
from gapbench_leaderboard.board.verdicts import WIDTH, stratified
from gapbench_leaderboard.scoring.estimators.within import WITHIN
from gapbench_leaderboard.scoring.registry import (
    HEADLINE,
    NETWORKS_AT,
    PAGE,
    RANK,
    Estimator,
    HeatMap,
    estimators,
)

KINDS = {"coefficient": "number", "quantity": "quantity", "count": "count"}
LIMITS = {
    None: "",
    "confidence": " Low and high: a 95 % interval.",
    "range": " Low and high: a range of resamples, without a claim of coverage.",
}
PROXY: PageColumn = {
    "key": "proxy",
    "title": "Proxy",
    "about": "The label of the entry. Choose it to see it below: its definition, its measurements and its"
    " scatter.",
    "text": True,
    "ascending": True,
}
BAR: PageColumn = {
    "key": "bar",
    "title": f"{HEADLINE} with its 95 % interval",
    "about": "The headline as a point, its bootstrap interval over configurations as a bar; 1 is a "
    "perfect ranking, 0 none. Dashed: the ceilings that test sampling and seeds leave to any proxy.",
    "text": True,
    "sort": HEADLINE,
}
NETWORKS: PageColumn = {
    "key": "models",
    "title": "networks",
    "about": "n/N: networks that it was measured on, of all that can be ranked. What is missing is never "
    "filled in; the reasons are below.",
}
INVARIANCES: PageColumn = {
    "key": "invariances",
    "title": "invariant to",
    "about": "Changes of the parameters that leave the network's function and, for this proxy, its value "
    "unchanged.",
    "text": True,
}
AUDIT: PageColumn = {
    "key": "audit",
    "title": "audit",
    "about": "Transformations that leave a network's function unchanged: under how many of those that "
    "apply the proxy's value stays too. The kinds appear on hover and in the details.",
    "text": True,
}


def page_columns(
    scored: Collection[str], entries: Sequence[BoardEntry], within: str = WIDTH
) -> list[PageColumn]:
    """The columns in their order.

    Args:
        scored: the estimators that the board's scores have; what they lack has no column.
        entries: the board's entries; columns of what none of them has are left out.
        within: what strata have in common beside problem and family.

    Returns:
        For each its `key`, `title`, `about`, and `kind`: `number`, `quantity` or `count` with the `estimator` that
        it shows and whether that is one number for the `whole` board; else the key. `text`: aligned as text.
        `ascending`: smaller values first; `sort`: the key by which it sorts, if another.
    """
    shown = {
        estimator.name: _column(estimator)
        for estimator in estimators(PAGE)
        if estimator.name in (RANK, HEADLINE, *scored)
    }
    order = {estimator.name: estimator.order for estimator in estimators(PAGE)}
    lead = [shown.pop(RANK), PROXY, BAR, shown.pop(HEADLINE)]
    before = [column for name, column in shown.items() if order[name] < NETWORKS_AT]
    after = [column for name, column in shown.items() if order[name] >= NETWORKS_AT]
    own = [
        column for column in (INVARIANCES, AUDIT) if any(entry.get(str(column["key"])) for entry in entries)
    ]
    return [
        {**_stratified(column, within), "kind": column.get("kind", column["key"])}
        for column in (*lead, *before, NETWORKS, *after, *own)
    ]


def heat_maps() -> list[PageHeatMap]:
    """The choices of the page's heat map, in their order.

    Returns:
        For each its `key`, `title`, `about`, the `estimator` of the cells, the `columns` (axis,
        task or family), and `single_tasks`, as in `scoring.registry.HeatMap`.
    """
    found = [(heat, estimator) for estimator in estimators() for heat in estimator.heat_maps]
    kinds = ("axis", "task", "family")

    def order(pair: tuple[HeatMap, Estimator]) -> tuple[int, bool]:
        return kinds.index(pair[0].columns), pair[0].single_tasks

    return [
        {
            "key": heat.key,
            "title": heat.title,
            "about": heat.about,
            "estimator": estimator.name,
            "columns": heat.columns,
            "single_tasks": heat.single_tasks,
        }
        for heat, estimator in sorted(found, key=order)
    ]


def meanings_of_estimators() -> dict[str, str]:
    """Estimator -> what it is and what its limits are, for the table of all scores of a proxy."""
    return {known.name: f"{known.meaning}{LIMITS[known.interval]}" for known in estimators()}


def _stratified(column: PageColumn, within: str) -> PageColumn:
    """The column of tau within strata under the name of what these have in common."""
    if column.get("estimator") != WITHIN.name or within == WIDTH:
        return column
    about = f"The same among networks of equal problem, family and {within}."
    return {**column, "title": stratified(column["title"], within), "about": about}


def _column(estimator: Estimator) -> PageColumn:
    first, *rest = estimator.key.split("_")
    return {
        "key": first
        + "".join(part.capitalize() for part in rest),  # the key is part of addresses: sort=withWidth
        "title": estimator.heading_in(PAGE),
        "about": estimator.meaning,
        "kind": "rank" if estimator.name == RANK else KINDS[estimator.form],
        "estimator": estimator.name,
        "whole": estimator.whole,
        "ascending": estimator.ascending,
    }
