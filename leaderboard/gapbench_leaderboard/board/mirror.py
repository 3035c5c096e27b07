"""What a board says about each of its entries, as records for a remote mirror. Imports no wandb."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from gapbench_base.keys import text_key
from gapbench_leaderboard.board.content import BoardEntry, BoardSuite, Content, Json
from gapbench_leaderboard.board.numbers import plain, plain_members
from gapbench_leaderboard.board.shortening import shortened
from gapbench_leaderboard.board.standing import standing
from gapbench_leaderboard.board.trained import trained_networks
from gapbench_leaderboard.scoring.registry import HEADLINE, MIRROR, estimators

LONGEST_NAME = 128
"""Characters that a remote run's name may have."""
IDENTITY = ("proxy", "version", "options", "higher_means")


@dataclass(frozen=True)
class Record:
    """One remote run. `identifier` depends on the entry's identity alone, so publishing again replaces it."""

    identifier: str
    name: str
    kind: str
    config: dict[str, Json]
    summary: dict[str, float | int]
    tags: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)


def entry_records(document: Content, scores: pd.DataFrame) -> list[Record]:
    """A record per entry of a board's document, in its order.

    The summary's keys are `target/scope/estimator` with the scope `all` (mean over tasks) or the task's name
    (`/` and `%` in it as `%2F` and `%25`, a task of the name `all` as `%61ll`); where an interval exists, also
    `.../estimator_low` and `..._high`; `.../models` counts the networks
    ranked, `.../trained` all that were trained.

    Returns:
        Numbers stay numbers; what is undefined is absent.
    """
    suite = document["suite"]
    shown = [estimator.name for estimator in estimators(MIRROR)]
    chosen = scores[(scores["family"].fillna("") == "") & scores["estimator"].isin(shown)]
    by_proxy = {str(proxy): rows for proxy, rows in chosen.groupby("proxy", sort=False)}
    scopes = {
        (str(target), str(task or "")) for target, task in zip(chosen["target"], chosen["task"].fillna(""))
    }
    trained = {scope: trained_networks(scores, *scope) for scope in scopes}
    names = shortened([entry["label"] for entry in document["proxies"]], LONGEST_NAME)
    return [
        _record(entry, suite, by_proxy.get(entry["label"]), trained, names[entry["label"]])
        for entry in document["proxies"]
    ]


def leaderboard_identifier(suite: BoardSuite) -> str:
    """The identifier of the run that holds a suite's tables."""
    return identifier({"leaderboard": suite.get("name"), "version": suite.get("version"), **_text_of(suite)})


def _text_of(suite: BoardSuite) -> dict[str, str]:
    """What tells suites of one name and version, and populations of one suite, apart."""
    text = {"suite_fingerprint": suite["fingerprint"]} if suite.get("fingerprint") else {}
    population = (suite.get("population") or {}).get("fingerprint")
    return text | ({"population": population} if population else {})


def made_with(suite: BoardSuite) -> dict[str, Json]:
    """What a run says beside its identity of the population that it is about, where a board knows it."""
    known: Mapping[str, object] = suite.get("population") or {}
    found = {
        f"population_{name}": known[name]
        for name in ("words", "networks", "planned", "date")
        if name in known
    }
    found |= {name: known[name] for name in ("gapbench", "devices") if known.get(name)}
    found |= {"made_with": suite["made_with"]} if suite.get("made_with") else {}
    return plain_members(found)


def is_trial(suite: BoardSuite) -> bool:
    """Whether some of the suite's networks are missing; a board that does not say is no trial."""
    return (suite.get("population") or {}).get("complete") is False


def group(suite: BoardSuite) -> str:
    """The group of all runs of one population: suite, version, fingerprint, and whether it is a trial."""
    fingerprint = (suite.get("population") or {}).get("fingerprint")
    parts = [
        f"{suite.get('name')}-v{suite.get('version')}"[:96],
        *([str(fingerprint)[:8]] if fingerprint else []),
    ]
    return "-".join([*parts, *(["trial"] if is_trial(suite) else [])])


def population_tags(suite: BoardSuite) -> tuple[str, ...]:
    """Tags of every run of a population."""
    return (f"{suite.get('name')}-v{suite.get('version')}"[:64], *(("trial",) if is_trial(suite) else ()))


def identifier(identity: Mapping[str, object]) -> str:
    """16 hexadecimal digits that depend on the content alone."""
    return text_key(json.dumps(plain_members(identity), sort_keys=True, ensure_ascii=True))


def _record(
    entry: BoardEntry,
    suite: BoardSuite,
    rows: pd.DataFrame | None,
    trained: Mapping[tuple[str, str], int | None],
    lines: Sequence[str],
) -> Record:
    told: Mapping[str, object] = entry
    identity = {
        "suite": suite.get("name"),
        "suite_version": suite.get("version"),
        **_text_of(suite),
        "label": entry["label"],
        **{key: told.get(key) for key in IDENTITY},
    }
    summary: dict[str, float | int] = {}
    for row in [] if rows is None else rows.to_dict("records"):
        scope = f"{_part(row['target'])}/{_scope(row['task'])}"
        for suffix, column in (("", "value"), ("_low", "low"), ("_high", "high")):
            number = plain(row[column])
            if isinstance(number, (int, float)):
                summary[f"{scope}/{row['estimator']}{suffix}"] = number
        if row["estimator"] == HEADLINE:
            summary[f"{scope}/models"] = int(row["models"])
            known = trained[str(row["target"]), str(plain(row["task"]) or "")]
            summary |= {} if known is None else {f"{scope}/trained": known}
    return Record(
        identifier=(found := identifier(identity)),
        name=_name(lines, found),
        kind="entry",
        config={
            **plain_members(identity),
            **made_with(suite),
            "standing": standing(entry).words,
            **{key: plain(told.get(key)) for key in ("summary", "reference")},
            **{key: plain(told[key]) for key in ("authors", "source_sha256", "measured_on") if told.get(key)},
        },
        summary=summary,
        tags=(
            *standing(entry).tags,
            *(("other_population",) if entry.get("other_population") else ()),
            *population_tags(suite),
        ),
    )


def _name(lines: Sequence[str], found: str) -> str:
    """A label as the name of a run; one that no cut tells from another ends with its identifier."""
    if len(lines) == 1 and len(lines[0]) <= LONGEST_NAME:
        return lines[0]
    return f"{lines[0][: LONGEST_NAME - 9]} {found[:8]}"


def _scope(task: object) -> str:
    """`all` for the mean over tasks, and nothing else."""
    name = _part(task)
    return "%61ll" if name == "all" else name or "all"


def _part(name: object) -> str:
    """A name as one part of a key."""
    return str(plain(name) or "").replace("%", "%25").replace("/", "%2F")
