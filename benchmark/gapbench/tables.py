"""The run database as tables with documented columns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from gapbench.columns import CELL_COLUMNS, EXTRA_COLUMNS, RECORDED_AXES
from gapbench.population.hyperparameters import Hyperparameters
from gapbench.population.store import Store
from gapbench_tasks import task_options

MEASUREMENT_COLUMNS = [
    "cell",
    "proxy",
    "value",
    "standard_error",
    "seconds",
    "status",
    "reason",
    "peak_memory",
    "details",
]


def population_table(store: Store, cells: Sequence[str], axes: Sequence[str]) -> pd.DataFrame:
    """One row per trained cell of the plan `cells`, in the plan's order.

    `gap` = test error - train error (fractions), `loss_gap` the same in cross-entropy (nats); one column per
    axis that is none of these (a training or test size that is an axis has the one column, which failed
    networks fill as well); `seconds` of training; `shift` 1 where training and test inputs differ in
    distribution; `source` of the data.
    """
    rows = {row["cell"]: dict(row) for row in store.cells()}
    others = [axis for axis in axes if axis != "width"]
    names = list(dict.fromkeys([*CELL_COLUMNS, *others, *EXTRA_COLUMNS]))
    table = []
    for key in cells:
        if key in rows:
            values = _axis_values(json.loads(rows[key]["description"]), others)
            known = {k: v for k, v in values.items() if k not in RECORDED_AXES or v is not None}
            table.append({**rows[key], **known})
    return pd.DataFrame(table, columns=names)


def _axis_values(description: Mapping[str, Any], axes: Sequence[str]) -> dict[str, Any]:
    if "imported" in description:  # its axes are columns of somebody's table
        return {axis: description["training"].get(axis) for axis in axes}
    defaults_of_task = task_options(description["task"]["name"])
    if "seed" in defaults_of_task:
        defaults_of_task["data_seed"] = defaults_of_task.pop("seed")
    options = defaults_of_task | description["task"]["options"]
    defaults = Hyperparameters()
    values: dict[str, Any] = {}
    for axis in axes:
        if axis in description["training"]:
            values[axis] = description["training"][axis]
        elif axis in options:
            values[axis] = (
                str(list(options[axis])) if isinstance(options[axis], list | tuple) else options[axis]
            )
        else:
            values[axis] = getattr(defaults, axis, None)
    return values


def measurement_table(
    store: Store, cells: Sequence[str], labels: Sequence[str] | None = None
) -> pd.DataFrame:
    """One row per measurement of a cell of the plan: `proxy` is its label, `seconds` and `peak_memory` (bytes)
    its cost, `details` a JSON text; where proxies were measured twice, `repeat` is 0 or 1. `labels` (default:
    all) chooses and orders proxies."""
    wanted = set(cells)
    rows = [dict(row) for row in store.measurements() if row["cell"] in wanted]
    for row in rows:
        row["proxy"] = row["label"]
        # most descriptions have no such word, and a large run has many of them to read
        row["repeat"] = (
            json.loads(row["description"]).get("repeat", 0) if '"repeat"' in row["description"] else 0
        )
    repeated = any(row["repeat"] for row in rows)
    table = pd.DataFrame(rows, columns=[*MEASUREMENT_COLUMNS, *(["repeat"] if repeated else [])])
    if labels is not None:
        table = table[table["proxy"].isin(list(labels))]
    position = {key: i for i, key in enumerate(cells)}
    return table.sort_values(
        ["cell", "proxy", *(["repeat"] if repeated else [])],
        key=lambda c: c.map(position) if c.name == "cell" else c,
        kind="stable",
    ).reset_index(drop=True)


def entry_table(entry: Mapping[str, Any]) -> pd.DataFrame:
    """The values of a submission (`gapbench.submission.entry`) as measurements."""
    rows = [
        {name: value.get(name) for name in MEASUREMENT_COLUMNS}
        | {"cell": cell, "proxy": entry["label"], "reason": value.get("reason") or "", "details": "{}"}
        for cell, value in entry["values"].items()
    ]
    return pd.DataFrame(rows, columns=MEASUREMENT_COLUMNS)


def correctness(store: Store, cells: Sequence[str]) -> dict[str, Any]:
    """Test correctness (test_size,) bool by cell, where it was kept."""
    import numpy as np

    wanted, found = set(cells), {}
    for row in store.cells():
        if row["cell"] in wanted and row["test_correct"] is not None:
            bits = np.frombuffer(row["test_correct"], dtype=np.uint8)
            found[row["cell"]] = np.unpackbits(bits, count=row["test_size"]).astype(bool)
    return found
