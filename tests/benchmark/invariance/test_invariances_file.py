"""The stored audit is read whole or refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gapbench.runs.audits import read_invariances
from gapbench_base.errors import GapbenchError

ROW = {"kind": "k", "strength": 0.5, "relative_change": None, "rank_correlation": 0.5}
GOOD = {
    "networks": 2,
    "seed": 0,
    "proxies": {"a": [{**ROW, "verdict": "invariant", "reason": None}]},
}


def test_none_and_good(tmp_path: Path) -> None:
    assert read_invariances(tmp_path) is None
    (tmp_path / "invariances.json").write_text(json.dumps(GOOD))
    assert read_invariances(tmp_path) == GOOD


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        json.dumps({**GOOD, "networks": "2"}),
        json.dumps({**GOOD, "proxies": {"a": {}}}),
        json.dumps({**GOOD, "proxies": {"a": [{**ROW, "verdict": "maybe"}]}}),
        json.dumps({**GOOD, "proxies": {"a": [{"verdict": "invariant"}]}}),
        json.dumps(GOOD).replace("null", "NaN", 1),
    ],
)
def test_damaged_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "invariances.json").write_text(text)
    with pytest.raises(GapbenchError, match=r"invariances\.json is damaged"):
        read_invariances(tmp_path)
