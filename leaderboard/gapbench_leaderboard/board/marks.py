"""Marks beside a proxy: those that its scores give it, and those that say what its values or its entry are."""

from __future__ import annotations

from collections.abc import Mapping

from gapbench_base.errors import TableError
from gapbench_leaderboard.board import doubts as doubting
from gapbench_leaderboard.board import standing
from gapbench_leaderboard.board.content import PageMark
from gapbench_leaderboard.board.doubts import Doubts, marks_in
from gapbench_leaderboard.board.numbers import TableRow
from gapbench_leaderboard.board.verdicts import WIDTH, stratified
from gapbench_leaderboard.scoring.registry import PAGE, TERMINAL, marked


def meanings() -> dict[str, str]:
    """Letter -> what it means, in the order of the letters.

    Returns:
        Those that scores give, then those of values.

    Raises:
        TableError: for a mark of an estimator that already means something else.
    """
    scored = {mark.letter: mark.meaning for _, mark in marked(TERMINAL)}
    names = {mark.name for _, mark in marked(TERMINAL)} & {*doubting.NAMES.values(), *standing.ABOUT}
    taken = sorted(scored.keys() & doubting.MEANINGS) or sorted(names)
    if taken:
        raise TableError(
            f"The mark {taken[0]!r} of an estimator is one that values or entries bear; choose another."
        )
    return scored | doubting.MEANINGS


def marks_of(row: TableRow, doubts: Mapping[str, Doubts]) -> str:
    """The letters of one row of `ranked`, keys of `meanings`."""
    scored = [
        mark.letter
        for estimator, mark in marked(TERMINAL)
        if mark.applies(float(row[estimator.key]), bool(row["baseline"]))
    ]
    return "".join(scored) + marks_in(doubts, row["proxy"])


def page_marks(within: str = WIDTH) -> list[PageMark]:
    """All marks of the page in their order.

    Args:
        within: what strata have in common beside problem and family.

    Returns:
        For each its `name` and what it says (`about`); for those that scores give also `estimator`, `whole`,
        `at_least`, `below` and `of_baselines`, as in `scoring.registry.Mark`.
    """
    scored: list[PageMark] = [
        {
            "name": mark.name,
            "about": stratified(mark.about, within),
            "estimator": estimator.name,
            "whole": estimator.whole,
            "at_least": mark.at_least,
            "below": mark.below,
            "of_baselines": mark.of_baselines,
        }
        for estimator, mark in marked(PAGE)
    ]
    told = {doubting.NAMES[letter]: about for letter, about in doubting.ABOUT.items()} | standing.ABOUT
    said: list[PageMark] = [{"name": name, "about": about} for name, about in told.items()]
    return scored + said
