"""Cells of the heat map, by the page's own script: what is pale, and on how many pairs a cell rests."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest

import gapbench_leaderboard.board as board_package
from gapbench_leaderboard.board.columns import heat_maps
from gapbench_leaderboard.scores import score_table

SCRIPT = Path(board_package.__file__).parent / "assets" / "heatmap.js"
STUBS = """
const rounded = (value, digits = 3) => Number(value).toFixed(digits);
const exact = (value) => String(value);
const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
const interval = (low, high) => typeof low === "number" ? `[${rounded(low)}, ${rounded(high)}]` : "";
const element = (tag, attributes, text) => ({ ...attributes, text, style: {}, addEventListener() {} });
const hideTip = () => {};
const scores = INPUT;
const board = { tasks: [""], families: [], heat_maps: MAPS };
const index = new Map();
scores.estimator.forEach((name, row) => {
  if (!index.has(name)) index.set(name, new Map());
  index.get(name).set(scores.proxy[row], row);
});
const scope = () => index;
const scoreRow = (found, name, proxy) => found.get(name)?.get(proxy) ?? -1;
const score = (found, name, proxy) => {
  const row = scoreRow(found, name, proxy);
  return row < 0 ? null : scores.value[row];
};
"""
ASK = """
const shown = {}, state = { target: "gap", task: "", family: "" };
for (const kind of HEAT_KINDS)
  for (const column of heatColumns(kind, state))
    shown[`${kind.key} ${column.title}`] = heatCell(column.row("m"), column.pairs("m"), column.title);
console.log(JSON.stringify(shown));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js to run the page's script")
@pytest.mark.parametrize(
    ("agreeing", "count", "firm"), [(2, 10, False), (7, 7, True), (5, 5, False), (1, 12, True)]
)
def test_a_cell_is_pale_unless_the_sign_test_is_significant_and_says_its_pairs(
    tmp_path: Path, agreeing: int, count: int, firm: bool
) -> None:
    frame = pd.DataFrame({"problem": [k // 2 for k in range(2 * count)], "switch": ["off", "on"] * count})
    frame["gap"] = [k / 1000 for k in range(2 * count)]
    frame["m"] = [(k % 2) * (1 if k // 2 < agreeing else -1) for k in range(2 * count)]
    scores = score_table(
        frame, ["m"], "gap", ["problem", "switch"], replicates=20, pair_replicates=2, prediction_replicates=1
    )
    columns = {name: json.loads(scores[name].to_json(orient="values")) for name in scores.columns}
    script = tmp_path / "script.js"
    script.write_text(
        STUBS.replace("INPUT", json.dumps(columns)).replace("MAPS", json.dumps(heat_maps()))
        + SCRIPT.read_text()
        + ASK
    )
    done = subprocess.run(["node", str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-600:]
    cells = json.loads(done.stdout)
    for name in ("axis switch", "fixed problem"):
        cell = cells[name]
        assert cell["class"] == (None if firm else "weak")
        assert f"{count} pairs of {2 * count} networks" in cell["aria-label"]
        assert "[" in cell["aria-label"]
    assert float(cells["axis switch"]["data-value"]) == pytest.approx(2 * agreeing / count - 1)
    assert f"{count * (2 * count - 1)} pairs of" in cells["task "]["aria-label"]
