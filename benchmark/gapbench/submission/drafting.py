"""An entry's content, from what was measured."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from gapbench.population.stored import Population
from gapbench.runs.details import COLUMNS
from gapbench.runs.entry import Cost, Entry, EntryPopulation, EntryValue, Score, ScoreRow, SuiteName
from gapbench.sandbox.limits import Limits
from gapbench.sandbox.source import ProxyFile
from gapbench.submission.request import Request
from gapbench_base.json_values import plain
from gapbench_base.validation import validated

Say = Callable[[str], None]


@dataclass(frozen=True)
class About:
    """What the submitter says, and which sandbox the proxy ran in (`bubblewrap` or `none`)."""

    authors: str
    paper: str
    sandbox: str


def draft_entry(
    population: Population,
    source: ProxyFile,
    request: Request,
    limits: Limits,
    about: About,
    before: Entry | None,
    say: Say,
) -> tuple[Entry, pd.DataFrame]:
    """The entry, not yet written, and the scores of the whole board with it."""
    from gapbench.runs.environment import environment
    from gapbench.runs.run import open_run
    from gapbench.runs.scoring_time import scored
    from gapbench_base.version import __version__

    identity = population.identity.as_dict() | {"networks": len(population.members)}
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    draft = Entry(
        id=request.identity,
        name=request.name,
        label=request.label,
        version=request.version,
        proxy=request.description["name"],
        summary=request.description.get("summary", ""),
        reference=request.description.get("reference", ""),
        higher_means=request.description["higher_means"],
        authors=about.authors,
        paper=about.paper,
        sandbox=about.sandbox,
        gapbench=__version__,
        submitted=before.submitted if before is not None and before.submitted else now,
        source_sha256=source.sha256,
        options=request.options,
        default_options=request.description["options"],
        seed=request.seed,
        limits=limits,
        suite=SuiteName(name=population.suite.name, version=population.suite.version),
        population=validated(identity, EntryPopulation, "The population"),
        environment=environment(population.device),
        statuses={},
        claimed=Score(value=None, low=None, high=None),
        scores=(),
        values={},
        verifications=(),
        source=source.content.decode("utf-8"),
    )
    run = open_run(population.folder, drafts=[draft])
    rows = run.measurements[run.measurements["proxy"] == request.label]
    scores = scored(run, say)
    own = scores[scores["proxy"] == request.label]
    checksums = {member.key: member.sha256 for member in population.members}
    entry = replace(
        draft,
        statuses={str(k): int(v) for k, v in rows["status"].value_counts().items()},
        cost=_cost(rows),
        claimed=headline(own),
        scores=tuple(ScoreRow(**plain(row)) for row in own.drop(columns=["proxy"]).to_dict("records")),
        values={row["cell"]: _value(row, checksums) for row in rows.to_dict("records")},
    )
    return entry, scores


def _cost(rows: pd.DataFrame) -> Cost:
    ok = rows[rows["status"] == "ok"]
    return Cost(
        seconds_median=plain(ok["seconds"].median()),
        seconds_total=plain(rows["seconds"].sum()),
        peak_memory_max=plain(ok["peak_memory"].max()),
    )


def _value(row: Mapping[Hashable, Any], checksums: Mapping[str, str]) -> EntryValue:
    said = ("status", "value", "standard_error", "reason", *COLUMNS)
    known = {name: plain(row[name]) for name in said if row.get(name) is not None}
    return validated(known | {"weights": checksums[row["cell"]]}, EntryValue, f"The value on {row['cell']}")


def headline(scores: pd.DataFrame) -> Score:
    """tau with the gap, mean over tasks, of one proxy's rows in the long form."""
    rows = scores[
        (scores["estimator"] == "tau")
        & (scores["target"] == "gap")
        & (scores["task"].fillna("") == "")
        & (scores["family"].fillna("") == "")
    ]
    if not len(rows):
        return Score(value=None, low=None, high=None)
    row = rows.iloc[0]
    value, low, high = (plain(float(row[key])) for key in ("value", "low", "high"))
    return Score(value=value, low=low, high=high, models=int(row["models"]))
