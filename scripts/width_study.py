"""Write docs/width.md and its figures from a finished run of the suite `width_study`.

gapbench run width_study --out RUN
python scripts/width_study.py RUN
"""

from __future__ import annotations

import json
import sqlite3
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from gapbench_leaderboard.statistics import kendall_tau

PAIRS = [
    ("sharpness_full[radius=0.5]", "sharpness_quotient[radius=0.5]", "worst case, radius 0.5"),
    ("sharpness_full_relative", "sharpness_quotient_relative", "worst case, 5 % of the balanced norm"),
    ("sharpness_average_full", "sharpness_average_quotient", "average, radius 2"),
    ("hessian_trace", "hessian_trace_quotient", "trace"),
    ("hessian_trace_balanced", "hessian_trace_quotient_balanced", "trace, balanced"),
    (
        "hessian_trace_per_dimension",
        "hessian_trace_quotient_per_dimension",
        "trace per dimension",
    ),
    ("sharpness_adaptive", "sharpness_adaptive_quotient", "adaptive worst case"),
]
FORMS = [
    "sharpness_full[radius=0.5]",
    "sharpness_full_relative",
    "sharpness_full_balanced",
    "sharpness_average_full",
    "hessian_trace",
    "hessian_trace_balanced",
    "hessian_trace_per_dimension",
    "adaptive_trace",
    "sharpness_adaptive",
    "spectral_margin_bound",
    "param_norm",
    "parameter_count",
]


def interval(row: pd.Series, digits: int = 2) -> str:
    """value [low, high]"""
    if pd.isna(row["low"]):
        return f"{row['value']:.{digits}f}"
    return f"{row['value']:.{digits}f} [{row['low']:.{digits}f}, {row['high']:.{digits}f}]"


def score(scores: pd.DataFrame, proxy: str, estimator: str, task: str | None = None) -> pd.Series:
    """One row for the target gap; over both tasks unless one is named."""
    where = (scores["proxy"] == proxy) & (scores["estimator"] == estimator) & (scores["target"] == "gap")
    where &= scores["family"].isna()
    where &= scores["task"].isna() if task is None else scores["task"] == task
    found = scores[where]
    return found.iloc[0] if len(found) else pd.Series({"value": np.nan, "low": np.nan, "high": np.nan})


def wide_table(run: Path) -> pd.DataFrame:
    """One row a converged network, with all proxies as columns and the detected k."""
    population = pd.read_csv(run / "board" / "population.csv")
    measurements = pd.read_csv(run / "board" / "measurements.csv")
    values = measurements[measurements["status"] == "ok"].pivot(index="cell", columns="proxy", values="value")
    with sqlite3.connect(run / "run.sqlite") as store:
        details = store.execute(
            "SELECT cell, details FROM measurements WHERE label = 'hessian_trace_quotient' AND status = 'ok'"
        ).fetchall()
    shares = {cell: json.loads(text).get("k_over_d") for cell, text in details}
    table = population[population["status"] == "converged"].merge(values, left_on="cell", right_index=True)
    table["k_over_d"] = table["cell"].map(shares)
    return table


def agreement(table: pd.DataFrame) -> str:
    """How close each quotient value is to its full counterpart, and whether it orders networks differently."""
    lines = [
        "| form | largest ratio - 1 | median ratio - 1 | tau between the two | pairs in another order |",
        "|---|--:|--:|--:|--:|",
    ]
    for full, quotient, name in PAIRS:
        both = table[[full, quotient, "task"]].dropna()
        ratio = (both[quotient] / both[full] - 1).abs()
        taus, swapped, pairs = [], 0, 0
        for _, part in both.groupby("task"):
            a, b = part[full].to_numpy(), part[quotient].to_numpy()
            taus.append(kendall_tau(a, b, variant="b"))
            i, j = np.triu_indices(len(a), 1)
            swapped += int(((a[i] - a[j]) * (b[i] - b[j]) < 0).sum())
            pairs += len(i)
        lines.append(
            f"| {name} | {ratio.max():.1e} | {ratio.median():.1e} | {np.mean(taus):.4f} | "
            f"{swapped:,} of {pairs:,} |"
        )
    return "\n".join(lines)


def differences(scores: pd.DataFrame) -> str:
    lines = [
        "| form | full: tau with the gap | quotient: tau with the gap | quotient - full |",
        "|---|--:|--:|--:|",
    ]
    for full, quotient, name in PAIRS:
        difference = score(scores, quotient, f"tau_minus:{full}")
        if pd.isna(difference["value"]):  # each pair is listed once, in one direction
            other = score(scores, full, f"tau_minus:{quotient}")
            difference = pd.Series({"value": -other["value"], "low": -other["high"], "high": -other["low"]})
        lines.append(
            f"| {name} | {interval(score(scores, full, 'tau'))} | {interval(score(scores, quotient, 'tau'))} | "
            f"{interval(difference, 4)} |"
        )
    return "\n".join(lines)


def width_dependence(scores: pd.DataFrame) -> str:
    lines = [
        "| form | full: tau with width | quotient: tau with width | full: tau with the gap, within width |",
        "|---|--:|--:|--:|",
    ]
    quotients = {full: quotient for full, quotient, _ in PAIRS}
    for form in FORMS:
        quotient = quotients.get(form)
        other = interval(score(scores, quotient, "tau_with_width")) if quotient else "-"
        lines.append(
            f"| {form} | {interval(score(scores, form, 'tau_with_width'))} | {other} | "
            f"{interval(score(scores, form, 'tau_within'))} |"
        )
    return "\n".join(lines)


def shares(table: pd.DataFrame) -> str:
    part = table[table["task"] == "digits_rotations"]
    found = part.pivot_table(index="depth", columns="width", values="k_over_d")
    header = "| hidden layers | " + " | ".join(f"{w:g}" for w in found.columns) + " |"
    lines = [header, "|---" + "|--:" * len(found.columns) + "|"]
    for depth, row in found.iterrows():
        lines.append(f"| {depth} | " + " | ".join("–" if pd.isna(v) else f"{v:.4f}" for v in row) + " |")
    return "\n".join(lines)


def figures(table: pd.DataFrame, folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    forms = [
        ("sharpness_full[radius=0.5]", "sharpness_quotient[radius=0.5]", "worst case, radius 0.5"),
        ("sharpness_average_full", "sharpness_average_quotient", "average, radius 2"),
        ("hessian_trace", "hessian_trace_quotient", "tr H"),
        ("hessian_trace_per_dimension", "hessian_trace_quotient_per_dimension", "tr H / d"),
        ("hessian_trace_balanced", "hessian_trace_quotient_balanced", "tr H, balanced"),
        ("sharpness_adaptive", "sharpness_adaptive_quotient", "adaptive worst case"),
    ]
    part = table[(table["task"] == "digits_rotations") & (table["label_noise"] == 0)]
    figure, axes = plt.subplots(2, 3, figsize=(10, 5.6), sharex=True, layout="constrained")
    for axis, (full, quotient, title) in zip(axes.flat, forms):
        for depth, colour in ((1, "tab:blue"), (2, "tab:orange")):
            rows = part[part["depth"] == depth]
            for column, style, label in ((full, "o-", "full"), (quotient, "x--", "quotient")):
                middle = rows.groupby("width")[column].median()
                axis.plot(
                    middle.index, middle, style, color=colour, label=f"{label}, {depth} hidden", markersize=5
                )
        axis.set(xscale="log", yscale="log", title=title)
        axis.set_xticks([0.125, 1, 8], ["1/8", "1", "8"])
        axis.minorticks_off()
    for axis in axes[1]:
        axis.set_xlabel("width (1 = 64 units)")
    axes[0, 0].legend(fontsize=7)
    figure.savefig(folder / "width-values.png", dpi=110)
    plt.close(figure)

    figure, axes = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
    for axis, (task, part) in zip(axes, table.groupby("task")):
        for depth, colour in ((1, "tab:blue"), (2, "tab:orange")):
            rows = part[part["depth"] == depth]
            grouped = rows.groupby("width")["gap"]
            axis.errorbar(
                grouped.mean().index,
                grouped.mean(),
                grouped.std(),
                fmt="o-",
                color=colour,
                label=f"{depth} hidden",
            )
        axis.set(xscale="log", title=task, xlabel="width", ylabel="gap")
        axis.set_xticks([0.125, 1, 8], ["1/8", "1", "8"])
        axis.minorticks_off()
    axes[0].legend(fontsize=8)
    figure.savefig(folder / "width-gap.png", dpi=110)
    plt.close(figure)


def main() -> None:
    """Fill the page's tables; its words stand in docs/width.template.md."""
    run = Path(sys.argv[1])
    docs = Path(__file__).parent.parent / "docs"
    scores = pd.read_csv(run / "board" / "scores.csv", low_memory=False)
    table = wide_table(run)
    planned = pd.read_csv(run / "board" / "population.csv")
    figures(table, docs / "pictures")
    text = (docs / "width.template.md").read_text()
    values = {
        "NETWORKS": str(len(planned)),
        "CONVERGED": str(len(table)),
        "AGREEMENT": agreement(table),
        "DIFFERENCES": differences(scores),
        "WIDTH": width_dependence(scores),
        "SHARES": shares(table),
    }
    for name, value in values.items():
        text = text.replace("{{" + name + "}}", value)
    (docs / "width.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
