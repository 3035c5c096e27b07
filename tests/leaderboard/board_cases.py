"""Boards for tests: scored for real, small, with everything that can be awkward."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gapbench_leaderboard.board import build
from gapbench_leaderboard.scores import score_population

AWKWARD = (
    "</script><script>document.title='broken'</script>",
    "a\"b'c`d",
    "back\\slash|pipe*star_under",
    "<img src=x onerror=alert(1)>",
    "emoji 😀 e\u0301",
    "x" * 200,
    "comma, semicolon; tab\tnew\nline",
    "&amp; &lt; \u2028 \u2029",
    "=1+1",
    "{{data}} {{script}}",
    "hidden:failed",
    "__proto__",
)
"""Names that a file format or a page might trip over."""


def population(
    tasks: tuple[str, ...] = ("one", "two"), configurations: int = 16, seeds: int = 2, random_seed: int = 0
) -> pd.DataFrame:
    """Networks of two families at four widths whose gap falls with the width; a few did not converge."""
    random = np.random.default_rng(random_seed)
    rows = []
    for task in tasks:
        for number in range(configurations):
            for seed in range(seeds):
                width = float(2.0 ** (number % 4 - 2))
                test_error = 0.3 - 0.03 * np.log2(width) + 0.03 * random.standard_normal()
                rows.append(
                    {
                        "cell": f"{task}-{number:03d}-{seed}",
                        "task": task,
                        "family": ("plain/mlp", "timm/resnet18")[number // 4 % 2],
                        "width": width,
                        "seed": seed,
                        "status": "converged",
                        "train_error": 0.0,
                        "test_error": test_error,
                        "gap": test_error,
                        "loss_gap": 3 * test_error + 0.1 * random.standard_normal(),
                        "parameters": int(1000 * width),
                        "train_size": 200,
                        "test_size": 1000,
                        "learning_rate": (0.05, 0.2)[number // 8 % 2] + 0.01 * (number // 16),
                        "reason": "",
                    }
                )
    table = pd.DataFrame(rows)
    if len(table) > 8:
        table.loc[len(table) - 1, ["status", "gap", "loss_gap"]] = ["diverged", np.nan, np.nan]
        table.loc[len(table) - 2, "status"] = "not_converged"
    return table


def measurements(networks: pd.DataFrame, names: list[str], random_seed: int = 1) -> pd.DataFrame:
    """Values of proxies: informative to a different degree, one constant, one failed, one missing in part."""
    random = np.random.default_rng(random_seed)
    rows = []
    for position, name in enumerate(names):
        for number, network in enumerate(networks.to_dict("records")):
            value = float(
                np.exp(10 * network["test_error"] + 0.3 * (1 + position) * random.standard_normal())
            )
            row = {
                "cell": network["cell"],
                "proxy": name,
                "value": value,
                "standard_error": 0.01 * value if position % 2 else np.nan,
                "seconds": 0.001 * (1 + position) + 1e-5 * random.random(),
                "status": "ok",
                "reason": "",
                "peak_memory": 12345 + position,
            }
            if name == "constant":
                row["value"] = 1.5
            if name == "broken":
                row |= {
                    "value": np.nan,
                    "status": "failed",
                    "reason": "RuntimeError: <b>no</b> | convergence",
                }
            if name == "partial" and number % 3 == 0:
                row |= {"value": np.nan, "status": "not_applicable", "reason": "the margins are not positive"}
            if name == "absent" and number % 2 == 0:
                continue
            rows.append(row)
    return pd.DataFrame(rows)


def entries(names: list[str]) -> dict[str, dict[str, Any]]:
    """Descriptions as a run gives them."""
    return {
        name: {
            "proxy": name,
            "version": 1,
            "summary": f"Summary of {name}",
            "reference": "Nobody 2020" if position % 2 else None,
            "higher_means": "worse",
            "options": {"radius": 0.1 * position, "note": name},
        }
        for position, name in enumerate(names)
    }


@cache
def scored(
    tasks: tuple[str, ...], configurations: int, seeds: int, names: tuple[str, ...]
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Networks, measurements and their real scores, made once; not to be changed in place."""
    networks = population(tasks, configurations, seeds)
    values = measurements(networks, list(names))
    scores = score_population(
        networks,
        values,
        targets=("gap", "loss_gap"),
        axes=("width", "learning_rate"),
        replicates=20,
        pair_replicates=5,
        prediction_replicates=3,
        workers=1,
    )
    return networks, values, scores


def board(
    folder: Path, tasks: tuple[str, ...], configurations: int, seeds: int, names: list[str], **changes: Any
) -> dict[str, Any]:
    """Score and build; returns what `build` was given."""
    networks, values, scores = scored(tasks, configurations, seeds, tuple(names))
    given: dict[str, Any] = {
        "population": networks,
        "measurements": values,
        "scores": scores,
        "axes": ("width", "learning_rate"),
        "suite": {"name": "made", "version": 1, "summary": "A <made> suite", "planned": 70, "samples": 128}
        | {"made_with": ["gapbench <1>, torch 2 on CPU (x86_64)"]},
        "entries": entries(names),
        "notes": ["A note with <b>markup</b>", "The same `gapbench run` goes on", "a lone ` stays"],
        **changes,
    }
    build(folder, **given)
    return given


def large(proxies: int, networks: int, families: int = 5, tasks: int = 3) -> dict[str, Any]:
    """Arguments of `build` for a large board; its scores are random, in the shape of the real ones."""
    random = np.random.default_rng(0)
    task = [f"task {k}" for k in range(tasks)]
    family = [f"family/{k}" for k in range(families)]
    number = np.arange(networks)
    gap = random.random(networks)
    table = pd.DataFrame(
        {
            "cell": [f"{k:016x}" for k in number],
            "task": [task[k % tasks] for k in number],
            "family": [family[k // tasks % families] for k in number],
            "width": 2.0 ** (number // 7 % 5 - 2),
            "seed": number % 2,
            "status": "converged",
            "train_error": 0.0,
            "test_error": gap,
            "gap": gap,
            "loss_gap": 3 * gap,
            "parameters": 1000 + number,
            "learning_rate": 0.1,
        }
    )
    names = [f"proxy_{k:03d}" for k in range(proxies)]
    values = pd.DataFrame(
        {
            "cell": np.tile(table["cell"].to_numpy(), proxies),
            "proxy": np.repeat(names, networks),
            "value": np.exp(random.standard_normal(proxies * networks)),
            "standard_error": np.nan,
            "seconds": 0.1,
            "status": "ok",
            "reason": "",
        }
    )
    scopes = [("", ""), *((t, "") for t in task), *(("", f) for f in family)]
    scopes += [(t, f) for t in task for f in family]
    estimators = ["tau", "coverage", "unreliable", "rank", "tau_within", "tau_b", "tau_partial", "simpson"]
    estimators += ["granulated", "granulated:width", "granulated:learning_rate", "seconds", "tau_true_gap"]
    keys = [
        (t, f, g, p, e) for g in ("gap", "loss_gap") for t, f in scopes for p in names for e in estimators
    ]
    scores = pd.DataFrame(keys, columns=["task", "family", "target", "proxy", "estimator"])
    value = random.uniform(-1, 1, len(scores))
    fixed = {"coverage": 1.0, "unreliable": 0.0, "simpson": 0.0, "seconds": 0.1}
    value = scores["estimator"].map(fixed).fillna(pd.Series(value)).to_numpy(copy=True)
    rank = (scores["estimator"] == "rank").to_numpy()
    value[rank] = random.integers(1, 5, int(rank.sum()))
    inside = (scores["estimator"].str.startswith("tau")).to_numpy()
    scores["value"] = value
    scores["low"] = np.where(inside, np.clip(value - 0.1, -1, 1), np.nan)
    scores["high"] = np.where(inside, np.clip(value + 0.1, -1, 1), np.nan)
    scores["models"] = networks
    return {
        "population": table,
        "measurements": values,
        "scores": scores,
        "axes": ("width", "learning_rate"),
        "suite": {"name": "large", "version": 1, "summary": "", "planned": networks, "samples": 128},
        "entries": entries(names),
        "notes": [],
    }


STATES = ["constant", "broken", "partial", "absent", "plain", "parameter_count", "random", "train_loss"]
