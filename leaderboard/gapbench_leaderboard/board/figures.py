"""Static figures of a board for papers; needs matplotlib (the extra `plot`)."""

from __future__ import annotations

import importlib
import io
import os
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gapbench_leaderboard.board.agreement import oriented_values
from gapbench_leaderboard.board.content import BoardEntry
from gapbench_leaderboard.board.ranked import Ranked, ranked
from gapbench_leaderboard.board.shortening import shortened
from gapbench_leaderboard.scores import TableError

FORMATS = ("svg", "png", "pdf")
LABEL = 44
"""Characters of a name on one line of a figure."""
ACCENT, BASE = "#0b5cad", "#6b7280"


def figures(
    folder: Path,
    *,
    population: pd.DataFrame,
    measurements: pd.DataFrame,
    scores: pd.DataFrame,
    entries: Sequence[BoardEntry],
    target: str = "gap",
    formats: Sequence[str] = ("svg", "png"),
    proxies: Sequence[str] = (),
) -> list[Path]:
    """Write `ranking_<target>` and, for each of `proxies`, `scatter_<target>_<number>_<proxy>`.

    Scatters have a panel per task; colour is the width, the marker the family; converged networks only, as
    ranked.

    Returns:
        The paths written.

    Raises:
        TableError: matplotlib is missing, a format is unknown, the target was not scored, or a proxy has no
            usable measurement.
    """
    os.environ.setdefault("MPLBACKEND", "agg")
    try:
        plt: Any = importlib.import_module("matplotlib.pyplot")
    except ImportError as error:
        raise TableError("figures need matplotlib: pip install 'gapbench[plot]'") from error
    if not formats:
        raise TableError(f"at least one format is needed: {', '.join(FORMATS)}")
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise TableError(f"unknown format {unknown[0]!r}; known are {', '.join(FORMATS)}")
    found = ranked(scores, target=target, baselines=[e["label"] for e in entries if e["baseline"]])
    if found is None:
        raise TableError(f"the board has no ranking by {target!r}")
    values = oriented_values(population, measurements, entries)
    missing = [name for name in proxies if name not in values.columns]
    if missing:
        raise TableError(f"{missing[0]!r} has no usable measurement; there are: {', '.join(values.columns)}")
    folder.mkdir(parents=True, exist_ok=True)
    style = {"font.size": 8, "svg.hashsalt": "gapbench", "axes.grid": True}
    style |= {"grid.linewidth": 0.4, "grid.color": "#d5d9df", "axes.axisbelow": True}
    written = []
    with plt.rc_context(style):
        written += _save(_ranking(plt, found, target), folder / f"ranking_{target}", formats, plt)
        for number, proxy in enumerate(proxies, 1):
            signs = {e["label"]: -1.0 if e.get("higher_means") == "better" else 1.0 for e in entries}
            raw = values[proxy] * signs.get(proxy, 1.0)
            figure = _scatter(plt, population.loc[values.index], raw, proxy, target)
            safe = re.sub(r"[^A-Za-z0-9_.-]+", "-", proxy)[:60].strip("-.")
            written += _save(figure, folder / f"scatter_{target}_{number}_{safe}", formats, plt)
    return written


def _ranking(plt: Any, found: Ranked, target: str) -> Any:
    table = found.table[found.table["value"].notna()]
    figure, axes = plt.subplots(figsize=(5.5, 0.8 + 0.2 * max(1, len(table))), layout="constrained")
    for position, row in enumerate(table.to_dict("records")):
        colour = BASE if row["baseline"] else ACCENT
        if row["low"] == row["low"]:
            axes.plot([row["low"], row["high"]], [position, position], color=colour, linewidth=1.5)
        axes.plot([row["value"]], [position], "o", color=colour, markersize=4)
        if row["within"] == row["within"]:
            axes.plot([row["within"]], [position], "|", color=colour, markersize=7)
    axes.axvline(0, color="black", linewidth=0.6)
    for value, _, _ in found.ceilings.values():
        axes.axvline(value, color="#8a4b00", linewidth=0.8, linestyle="--")
    labels = [str(name) for name in table["proxy"]]
    lines = shortened(labels, LABEL)
    axes.set_yticks(range(len(table)), [_text("\n".join(lines[label])) for label in labels])
    axes.invert_yaxis()
    axes.set_xlabel(
        f"tau with {_text(target)} (95 % interval)\nstroke: within width; dashed: ceilings; grey: baselines"
    )
    return figure


def _scatter(plt: Any, networks: pd.DataFrame, values: pd.Series[Any], proxy: str, target: str) -> Any:
    tasks = sorted(networks["task"].astype(str).unique())
    figure, panels = plt.subplots(
        1, len(tasks), figsize=(3.2 * len(tasks) + 0.6, 2.8), layout="constrained", squeeze=False
    )
    has_width = "width" in networks.columns
    width = networks["width"].to_numpy(float) if has_width else np.ones(len(networks))
    levels = np.log2(np.where(width > 0, width, np.nan))
    low, high = (
        (float(np.nanmin(levels)), float(np.nanmax(levels))) if np.isfinite(levels).any() else (0.0, 1.0)
    )
    family = networks["family"].astype(str) if "family" in networks.columns else networks["task"].astype(str)
    families = sorted(family.unique())
    points = None
    for axes, task in zip(panels[0], tasks):
        known = np.isfinite(values.to_numpy()) & np.isfinite(networks[target].to_numpy(float))
        for name, marker in zip(families, "os^DvPX*" * (1 + len(families) // 8)):
            own = ((networks["task"].astype(str) == task) & (family == name)).to_numpy() & known
            if own.any():
                points = axes.scatter(
                    values.to_numpy()[own], networks[target].to_numpy(float)[own], c=levels[own], cmap="viridis",
                    vmin=low, vmax=max(high, low + 1e-9), marker=marker, s=14, label=_text(name),
                )  # fmt: skip
        axes.set_title(_text(task))
        axes.set_xlabel("\n".join(map(_text, textwrap.wrap(proxy, LABEL) or [proxy])))
        axes.set_ylabel(_text(target))
        shown = values.to_numpy()[(networks["task"].astype(str) == task).to_numpy() & known]
        if len(shown) and shown.min() > 0 and shown.max() / shown.min() > 30:
            axes.set_xscale("log")
        if axes.get_legend_handles_labels()[1] and len(families) > 1:
            legend = axes.legend(fontsize=5, frameon=False)
            for handle in legend.legend_handles:  # its shapes stand for families; colours are widths
                handle.set_array(None)
                handle.set_facecolor(BASE)
    if has_width and points is not None and high > low:
        figure.colorbar(points, ax=list(panels[0]), label="log2 width")
    return figure


def _save(figure: Any, stem: Path, formats: Sequence[str], plt: Any) -> list[Path]:
    written = []
    for name in formats:
        stream = io.BytesIO()
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(name)
        figure.savefig(stream, format=name, dpi=200, metadata=metadata)
        path = stem.with_name(f"{stem.name}.{name}")
        path.write_bytes(stream.getvalue())
        written.append(path)
    plt.close(figure)
    return written


def _text(name: object) -> str:
    """A name as it is: without control characters, and with dollars that start no formula."""
    return "".join(c if c.isprintable() else " " for c in str(name)).replace("$", r"\$")
