"""The files of a board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import pandas as pd

from gapbench_base.files import write_atomically
from gapbench_leaderboard.board.content import Audit
from gapbench_leaderboard.board.csv_text import csv_text
from gapbench_leaderboard.board.document import document, json_text
from gapbench_leaderboard.board.invariances import invariance_table
from gapbench_leaderboard.board.markdown import markdown_text
from gapbench_leaderboard.board.page import page_text
from gapbench_leaderboard.board.verdicts import WIDTH
from gapbench_leaderboard.scores import PopulationDecision


def build(
    folder: Path,
    *,
    population: pd.DataFrame,
    measurements: pd.DataFrame,
    scores: pd.DataFrame,
    axes: Sequence[str],
    suite: Mapping[str, object],
    entries: Mapping[str, Mapping[str, object]],
    notes: Sequence[str] = (),
    problem: Sequence[str] = (),
    audit: Mapping[str, object] | None = None,
    decision: PopulationDecision | None = None,
    within: str = WIDTH,
) -> list[Path]:
    """Write `scores.csv`, `population.csv`, `measurements.csv`, `data.json`, `board.md` and `index.html`.

    Every file is replaced whole. Numbers are written in full precision, the same in every file; missing
    cells are empty in CSV and null in JSON.

    Args:
        folder: of the board; made if it does not exist.
        population: one row per network; at least `cell`, `task`, `status` and the targets.
        measurements: one row per network and proxy: `cell`, `proxy`, `value`, `status`; `coverage` and `converged`
            where a proxy says so (`doubts`).
        scores: the long form of `gapbench_leaderboard.scores.score_population`.
        axes: columns of the population that the grid varies.
        suite: `name`, `version`, `fingerprint` (of its text), `summary`, `planned` (networks), `samples` (that
            proxies see), `made_with` (software and devices, a list of texts), `population` (`fingerprint`, `words`,
            `networks`, `planned`, `complete`, `gapbench`, `devices`, `date`).
        entries: label -> `proxy`, `version`, `summary`, `reference`, `higher_means`, `options`; for submissions
            also `submitted` (True), `verified` (bool: the latest verification confirmed it), `verifications` (list
            with `outcome`, `kind`, `date`, `by`, `role`), `authors`, `source_sha256`, `measured_on` (population),
            `other_population` (a sentence, where that is another); where somebody says so in words, `invariances`
            (list of texts).
        problem: those of the axes that change the data; see `score_population`.
        notes: sentences that a reader of the board must know.
        audit: of invariance: `networks`, `seed`, and `proxies` (label -> list of results, each with `kind`,
            `strength`, `relative_change`, `rank_correlation`, `verdict` ("invariant", "not invariant" or "not
            applicable"), `reason`); also written to `invariances.csv`.
        decision: what the population can decide; made of the tables if not given.
        within: what the strata of tau within them have in common beside problem and family.

    Returns:
        The paths written.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    audited = None if audit is None else cast(Audit, audit)
    content = document(
        population, measurements, scores, axes, suite, entries, notes, audited, problem, decision, within
    )
    data = json_text(content)
    title = f"gapbench board: {content['suite'].get('name', '')} {content['suite'].get('version', '')}"
    texts = {
        "scores.csv": csv_text(scores),
        "population.csv": csv_text(population),
        "measurements.csv": csv_text(measurements),
        "data.json": data,
        "board.md": markdown_text(content, population, measurements, scores),
        "index.html": page_text(title.strip(), data),
    }
    if audited is not None:
        texts["invariances.csv"] = csv_text(invariance_table(audited))
    else:
        (folder / "invariances.csv").unlink(missing_ok=True)  # of an earlier audit
    return [write_atomically(folder / name, text) for name, text in texts.items()]
