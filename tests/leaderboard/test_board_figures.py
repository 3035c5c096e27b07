"""Static figures: every point drawn, whatever the names; the same bytes twice."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gapbench_leaderboard.board.document import proxy_entries
from gapbench_leaderboard.board.figures import figures
from gapbench_leaderboard.scores import TableError
from leaderboard.board_cases import STATES, entries, scored

pytest.importorskip("matplotlib", reason="needs matplotlib (the extra plot)")
CASE = (("one",), 8, 2, tuple(STATES))


def draw(folder: Path, **changes: Any) -> list[Path]:
    networks, values, scores = scored(*CASE)
    described = proxy_entries(values, scores, entries(STATES))
    given = {"proxies": ["plain"], "formats": ["svg"], "entries": described, **changes}
    return figures(folder, population=networks, measurements=values, scores=scores, **given)


def test_scatter_has_a_point_for_every_ranked_network(tmp_path: Path) -> None:
    networks = scored(*CASE)[0]
    ranking, scatter = draw(tmp_path)
    assert (ranking.name, scatter.name) == ("ranking_gap.svg", "scatter_gap_1_plain.svg")
    groups = re.split(r'<g id="(?=\w+_\d+")', scatter.read_text())
    drawn = [max(g.count("<use "), g.count("<path ")) for g in groups if g.startswith("PathCollection_")]
    families = networks.loc[networks["status"] == "converged", "family"].value_counts().sort_index()
    assert drawn == [*families, *[1] * len(families)]  # the points, then the legend's


def test_figures_are_reproducible(tmp_path: Path) -> None:
    first = [path.read_bytes() for path in draw(tmp_path / "a")]
    assert first == [path.read_bytes() for path in draw(tmp_path / "b")]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"formats": []}, "at least one format"),
        ({"formats": ["gif"]}, "unknown format 'gif'"),
        ({"proxies": ["nothing"]}, "'nothing' has no usable measurement"),
        ({"proxies": ["broken"]}, "'broken' has no usable measurement"),
        ({"target": "nothing"}, "no ranking by 'nothing'"),
    ],
)
def test_wrong_requests_are_said(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TableError, match=message):
        draw(tmp_path, **changes)
