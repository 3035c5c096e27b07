"""The board's data as one JSON document, from which the page is drawn."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import pandas as pd

from gapbench_leaderboard.board.agreement import agreement
from gapbench_leaderboard.board.bibliography import sources_of
from gapbench_leaderboard.board.columns import heat_maps, meanings_of_estimators, page_columns
from gapbench_leaderboard.board.content import (
    Audit,
    BoardAudit,
    BoardEntry,
    BoardSuite,
    Cells,
    Coded,
    Columns,
    Content,
    Json,
)
from gapbench_leaderboard.board.deciding import decision_of
from gapbench_leaderboard.board.doubts import doubts_of
from gapbench_leaderboard.board.invariances import invariance_mark
from gapbench_leaderboard.board.marks import page_marks
from gapbench_leaderboard.board.numbers import plain_cells, plain_members, plain_text
from gapbench_leaderboard.board.standing import standing
from gapbench_leaderboard.board.verdicts import WIDTH, head_tests, invariance_verdict, verdicts
from gapbench_leaderboard.scores import BASELINES, MEASURED_BASELINES, PopulationDecision
from gapbench_leaderboard.scoring.baselines import HYPERPARAMETER_ORACLE
from gapbench_leaderboard.scoring.estimators.differences import DIFFERENCE, DIFFERENCE_P

FORMAT = 1
EXACT_IN_SCRIPTS = 2**53 - 1

SCORER_BASELINES = {
    "width": "The width multiplier itself. Made by the scorer; no proxy may see it.",
    "hyperparameter_oracle": "Cross-fitted regression of the target on family, width and all axes. Made by "
    "the scorer; no proxy may see them.",
    "noisy_oracle": "The target plus Gaussian noise of half its standard deviation within problem and family. Made "
    "by the scorer.",
}


def document(
    population: pd.DataFrame,
    measurements: pd.DataFrame,
    scores: pd.DataFrame,
    axes: Sequence[str],
    suite: Mapping[str, object],
    entries: Mapping[str, Mapping[str, object]],
    notes: Sequence[str],
    audit: Audit | None = None,
    problem: Sequence[str] = (),
    decision: PopulationDecision | None = None,
    within: str = WIDTH,
) -> Content:
    """The content of `data.json`.

    `population`, `measurements` and `scores` are tables by column. A column is a list of cells (null where
    missing), or, for text that repeats, `{"names": [...], "codes": [...]}` with code -1 where missing. Whole
    numbers beyond 2^53 are texts: a script would round them. `within` is what strata have in common beside problem
    and family.

    Returns:
        `format`, `suite`, `notes`, `axes`, `problem` (those that change the data), `targets`, `tasks`, `families`;
        how the page shows estimators (`columns`, `marks`, `heat_maps`, `meanings`: see `board.columns` and
        `board.marks`; `tests`, `difference`, `oracle`: whose outcomes the head tells, and what names the difference
        of two proxies and the oracle); `proxies`, the entries: what was measured, under which label, with which
        options; `agreement`; `decision`: what the population can decide; and the tables.
    """
    described = proxy_entries(measurements, scores, entries)
    audited = {} if audit is None else {plain_text(label): rows for label, rows in audit["proxies"].items()}
    doubts = {plain_text(label): found for label, found in doubts_of(measurements).items()}
    targets = _texts(scores["target"].unique())
    by_target = {target: verdicts(scores, target, within) for target in targets}
    for entry in described:
        if entry["label"] in doubts:
            entry["doubts"] = doubts[entry["label"]].as_dict()
        if sources := sources_of(entry.get("reference")):
            entry["sources"] = sources
        found = standing(entry)
        entry["standing"] = {"kind": found.kind, "words": found.words}
        if audited.get(entry["label"]):
            entry["audit"] = [cast(BoardAudit, plain_members(row)) for row in audited[entry["label"]]]
            entry["audit_mark"] = invariance_mark(entry["audit"])
        invariant = invariance_verdict(entry.get("audit", []))
        told = {target: words_of.get(entry["label"], []) for target, words_of in by_target.items()}
        said = {
            target: [*words, *([invariant] if invariant else [])] for target, words in told.items() if words
        }
        if said and not entry["baseline"]:
            entry["verdicts"] = said
    return {
        "format": FORMAT,
        "suite": cast(BoardSuite, _unrounded(plain_members(suite))),
        "notes": list(map(plain_text, notes)),
        "axes": list(map(plain_text, axes)),
        "problem": list(map(plain_text, problem)),
        "within": plain_text(within),
        "targets": targets,
        "tasks": _levels(population, "task"),
        "families": _levels(population, "family"),
        "columns": page_columns(set(scores["estimator"]), described, within),
        "marks": page_marks(within),
        "heat_maps": heat_maps(),
        "meanings": meanings_of_estimators(),
        "tests": head_tests(within),
        "difference": {"value": DIFFERENCE.name, "p": DIFFERENCE_P.name},
        "oracle": HYPERPARAMETER_ORACLE,
        "proxies": described,
        "agreement": agreement(population, measurements, described, problem),
        "decision": decision_of(population, scores, axes, problem, suite, decision),
        "population": columns(population),
        "measurements": columns(measurements),
        "scores": columns(scores),
    }


def proxy_entries(
    measurements: pd.DataFrame, scores: pd.DataFrame, entries: Mapping[str, Mapping[str, object]]
) -> list[BoardEntry]:
    """One entry per label: those described, then others that were measured, then the scorer's baselines."""
    scored = [name for name in dict.fromkeys(scores["proxy"].dropna().astype(str)) if name]
    labels = list(dict.fromkeys([*map(str, entries), *measurements["proxy"].astype(str).unique(), *scored]))
    found: list[BoardEntry] = []
    for label in labels:
        entry: dict[str, object] = dict(entries.get(label, {}))
        made = label in BASELINES and label not in entries
        if made:
            entry = {"proxy": label, "summary": SCORER_BASELINES.get(label, "Made by the scorer.")}
        entry = {**entry, "label": label, "made_by_scorer": made}
        entry["baseline"] = label in BASELINES or str(entry.get("proxy", label)) in MEASURED_BASELINES
        found.append(cast(BoardEntry, _unrounded(plain_members(entry))))
    return found


def baseline_labels(entries: Sequence[BoardEntry]) -> list[str]:
    """Labels of the entries that are baselines."""
    return [entry["label"] for entry in entries if entry["baseline"]]


def columns(frame: pd.DataFrame) -> Columns:
    """A table by column; text that repeats is coded."""
    result: Columns = {}
    for position, name in enumerate(frame.columns):
        column = frame.iloc[:, position]
        cells = plain_cells(column)
        whole = cells if column.dtype.kind == "f" else [_unrounded(cell) for cell in cells]
        result[plain_text(str(name))] = _coded(whole)
    return result


def _unrounded(value: Json) -> Json:
    """Whole numbers that scripts cannot hold as text, also within lists and tables."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) <= EXACT_IN_SCRIPTS else str(value)
    if isinstance(value, dict):
        return {key: _unrounded(entry) for key, entry in value.items()}
    return [_unrounded(entry) for entry in value] if isinstance(value, list) else value


def _levels(population: pd.DataFrame, column: str) -> list[str]:
    """The values of a column, sorted; none where there is no such column."""
    return (
        _texts(sorted(map(str, population[column].dropna().unique()))) if column in population.columns else []
    )


def _texts(values: Iterable[object]) -> list[str]:
    return [plain_text(str(value)) for value in values]


def _coded(cells: Cells) -> Cells | Coded:
    texts = [cell for cell in cells if isinstance(cell, str)]
    if not cells or len(texts) + sum(cell is None for cell in cells) < len(cells):
        return cells
    names = {name: code for code, name in enumerate(dict.fromkeys(texts))}
    if 2 * len(names) > len(cells):
        return cells
    return {"names": list(names), "codes": [names[cell] if isinstance(cell, str) else -1 for cell in cells]}


def json_text(content: Content) -> str:
    """JSON that may stand inside an HTML script element: the characters that could end it are escaped."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
