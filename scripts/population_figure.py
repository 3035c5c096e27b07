"""Draw what explains the gap in a population, and which headlines it gives, from the board of a run.

gapbench run quick
python scripts/population_figure.py runs/quick docs/pictures/population-quick.png

Left: the share of the gap's variance that every axis explains within each problem and family; what is missing to 1
is interactions. Right: the headline of every proxy with its 95 % interval. Needs matplotlib.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd

SHORT = {"augmentation_strength": "augmentation", "learning_rate": "rate", "init_scale": "initial scale"}


def main(run: str, picture: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    board = json.loads((Path(run) / "board" / "data.json").read_text(encoding="utf-8"))
    strata = board["decision"]["strata"]
    height = max(3.2, 0.55 * len(strata) + 1.6)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11.5, height), width_ratios=[1.35, 1])
    shares(left, strata)
    headlines(
        right, pd.read_csv(Path(run) / "board" / "scores.csv").fillna({"task": "", "family": "", "proxy": ""})
    )
    figure.tight_layout()
    figure.savefig(picture, dpi=110)


def shares(axes: Any, strata: list[dict[str, Any]]) -> None:
    """A bar for every problem and family, in parts: its axes, and seeds with the test noise."""
    from matplotlib import colormaps

    names = list(dict.fromkeys(axis for stratum in strata for axis in stratum["shares"]))
    colour = {
        name: colormaps["tab10" if place < 7 else "Pastel1"](place % 7) for place, name in enumerate(names)
    }
    for place, stratum in enumerate(reversed(strata)):
        parts = {**stratum["shares"], "seeds": stratum["seeds"]}
        start = 0.0
        for name, value in parts.items():
            width = max(0.0, value or 0.0)
            axes.barh(place, width, left=start, color=colour.get(name, "0.6"), edgecolor="white")
            if width > 0.07:
                axes.text(start + width / 2, place, f"{width:.2f}", ha="center", va="center", fontsize=8)
            start += width
    axes.set_yticks(range(len(strata)), [stratum["name"] for stratum in reversed(strata)], fontsize=8)
    for name, shade in [*colour.items(), ("seeds", "0.6")]:
        axes.bar(0, 0, color=shade, label=SHORT.get(name, name).replace("_", " "))
    axes.legend(fontsize=7, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.12), frameon=False)
    axes.axvline(0.5, color="black", linewidth=0.8, linestyle=":")
    axes.set_xlim(0, None)
    axes.set_title("share of the gap's variance", fontsize=10)


def headlines(axes: Any, scores: pd.DataFrame) -> None:
    """Points with intervals, the best proxy on top; what is no proxy in grey."""
    over_all = scores[(scores["family"] == "") & (scores["target"] == "gap") & (scores["proxy"] != "")]
    tasks = sorted(set(over_all["task"]))
    over_all = over_all[
        over_all["task"] == ("" if "" in tasks else tasks[0])
    ]  # one task has no mean over tasks
    ranked = set(over_all[(over_all["estimator"] == "rank") & over_all["value"].notna()]["proxy"])
    own = over_all[(over_all["estimator"] == "tau") & over_all["value"].notna()]
    found = own[["proxy", "value", "low", "high"]].to_dict("records")
    found.sort(key=lambda r: (r["proxy"] in ranked, r["value"]))
    for place, row in enumerate(found):
        shade = "tab:blue" if row["proxy"] in ranked else "0.55"
        axes.plot([row["low"], row["high"]], [place, place], color=shade, linewidth=2)
        axes.plot(row["value"], place, "o", color=shade, markersize=4)
    axes.set_yticks(range(len(found)), [row["proxy"] for row in found], fontsize=8)
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.set_title("tau and 95 % interval; grey: baselines", fontsize=10)


if __name__ == "__main__":
    main(*sys.argv[1:3])
