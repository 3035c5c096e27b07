"""An entry's content, from what was measured."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any

from gapbench.population.stored import Population
from gapbench.runs.details import COLUMNS
from gapbench.runs.entries import FORMAT, RULES, Entry
from gapbench.sandbox.limits import Limits
from gapbench.sandbox.source import Source
from gapbench.submission.request import Request

Say = Callable[[str], None]


def draft_entry(
    population: Population,
    source: Source,
    request: Request,
    limits: Limits,
    about: Mapping[str, Any],
    before: Entry | None,
    say: Say,
) -> tuple[Entry, Any]:
    """The entry, not yet written, and the scores of the whole board with it."""
    from gapbench.runs.environment import environment
    from gapbench.runs.run import open_run
    from gapbench_base.version import __version__

    say("Scoring.")
    draft: Entry = {
        "format": FORMAT,
        "id": request.identity,
        "name": request.name,
        "label": request.label,
        "version": request.version,
        "proxy": request.description["name"],
        "summary": request.description.get("summary", ""),
        "reference": request.description.get("reference", ""),
        "higher_means": request.description["higher_means"],
        **about,
        "rules": RULES,
        "gapbench": __version__,
        "submitted": (before or {}).get("submitted")
        or datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "source_sha256": source.sha256,
        "options": request.options,
        "default_options": request.description["options"],
        "seed": request.seed,
        "limits": limits.as_dict(),
        "suite": {"name": population.suite.name, "version": population.suite.version},
        "population": {**population.identity.as_dict(), "networks": len(population.members)},
        "environment": environment(population.device),
    }
    run = open_run(population.folder, drafts=[draft])
    rows = run.measurements[run.measurements["proxy"] == request.label]
    ok = rows[rows["status"] == "ok"]
    draft["statuses"] = {str(k): int(v) for k, v in rows["status"].value_counts().items()}
    draft["cost"] = {
        "seconds_median": ok["seconds"].median(),
        "seconds_total": rows["seconds"].sum(),
        "peak_memory_max": ok["peak_memory"].max(),
    }
    scores = run.scores()
    own = scores[scores["proxy"] == request.label]
    draft["claimed"] = headline(own)
    draft["scores"] = own.drop(columns=["proxy"]).to_dict("records")
    checksums = {member.key: member.sha256 for member in population.members}
    draft["values"] = {
        row["cell"]: {
            **{key: row[key] for key in ("status", "value", "standard_error", "reason")},
            **{key: row[key] for key in COLUMNS if row.get(key) is not None and row[key] == row[key]},
            "weights": checksums[row["cell"]],
        }
        for row in rows.to_dict("records")
    }
    draft["verifications"] = []
    draft["source"] = source.content.decode("utf-8")
    return draft, scores


def headline(scores: Any) -> dict[str, Any]:
    """tau with the gap, mean over tasks, of one proxy's rows in the long form."""
    rows = scores[
        (scores["estimator"] == "tau")
        & (scores["target"] == "gap")
        & (scores["task"].fillna("") == "")
        & (scores["family"].fillna("") == "")
    ]
    if not len(rows):
        return {"estimator": "tau", "target": "gap", "value": None, "low": None, "high": None, "models": 0}
    row = rows.iloc[0]
    found = {key: float(row[key]) for key in ("value", "low", "high")}
    return {"estimator": "tau", "target": "gap", **found, "models": int(row["models"])}
