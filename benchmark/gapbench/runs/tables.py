"""The run database as tables with documented columns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from gapbench.runs.details import COLUMNS as DETAIL_COLUMNS
from gapbench.runs.details import NOTHING, says, stated
from gapbench.runs.entry import Entry
from gapbench.runs.image_groups import unpacked
from gapbench.runs.kinds import Kind, Kinds
from gapbench.runs.known import Known, known_in
from gapbench.runs.noisy_gap import noise_of, noisy_gap, slope
from gapbench.runs.records import TrainedCell
from gapbench.runs.store import Measured, Store
from gapbench.suites.columns import CELL_COLUMNS, EXTRA_COLUMNS, NOISY_GAP, RECORDED_AXES
from gapbench.suites.hyperparameters import Hyperparameters
from gapbench_base.errors import GapbenchError
from gapbench_base.keys import content_key

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


def population_table(
    store: Store, cells: Sequence[str], axes: Sequence[str], trained: Sequence[TrainedCell] | None = None
) -> pd.DataFrame:
    """One row per trained cell of the plan `cells`, in the plan's order.

    `gap` = test error - train error (fractions), `loss_gap` the same in cross-entropy (nats); one column per
    axis that is none of these (a training or test size that is an axis has the one column, which failed
    networks fill as well); `seconds` of training; `shift` 1 where training and test inputs differ in
    distribution; `source` of the data; where training labels are noisy, `gap_noisy` is the gap on test labels with
    the same noise (`gapbench_tasks.selection.noisy_test_error`). `trained`: the rows of the store, where they were
    read before.

    Returns:
        The table; its columns are documented above.
    """
    wanted, known = set(cells), known_in(store)
    every = store.cells() if trained is None else trained
    rows = {row.cell: row for row in every if row.cell in wanted}
    described = {key: description_of(store, row) for key, row in rows.items()}
    others = [axis for axis in axes if axis != "width"]
    noisy = any((noise_of(described[key], row, known) or (0.0, 2))[0] > 0 for key, row in rows.items())
    names = list(dict.fromkeys([*CELL_COLUMNS, *others, *EXTRA_COLUMNS, *([NOISY_GAP] if noisy else [])]))
    table = []
    for key in cells:
        if key in rows:
            values = axis_values(described[key], others, known)
            own = {k: v for k, v in values.items() if k not in RECORDED_AXES or v is not None}
            noisy_one = noisy_gap(described[key], rows[key], known)
            table.append({**vars(rows[key]), **own, NOISY_GAP: noisy_one})
    return pd.DataFrame(table, columns=names)


def noise_slopes(store: Store, cells: Sequence[str]) -> dict[str, float]:
    """Cell -> what test noise is multiplied by in its `gap_noisy`, where that is known."""
    wanted, known = set(cells), known_in(store)
    rows = [row for row in store.cells() if row.cell in wanted]
    found = {row.cell: slope(description_of(store, row), row, known) for row in rows}
    return {cell: value for cell, value in found.items() if value is not None}


def description_of(store: Store, row: TrainedCell) -> dict[str, object]:
    """A cell's description.

    Returns:
        Plain JSON values, of which the cell's key is the hash.

    Raises:
        GapbenchError: for a damaged row: one whose key is not that of its description, or whose gap is not the
            difference of its errors.
    """
    where = f"The run database {store.path} is damaged: network {row.cell}"
    try:
        description = json.loads(row.description)
        whole = isinstance(description, dict) and content_key(description) == row.cell
    except ValueError:
        whole = False
    if not whole:
        raise GapbenchError(f"{where} has another description than the one that it was trained by.")
    train, test, gap = row.train_error, row.test_error, row.gap
    if row.measurable and (train is None or test is None or gap is None or abs(test - train - gap) > 1e-9):
        raise GapbenchError(f"{where} has a gap that is not its test error minus its train error.")
    return dict(description)


def axis_values(
    description: Mapping[str, Any], axes: Sequence[str], known: Known | None = None
) -> dict[str, object]:
    """The values of axes beside the width in a cell's description, by name."""
    if "imported" in description:  # its axes are columns of somebody's table
        return {axis: description["training"].get(axis) for axis in axes}
    options = (known or Known()).task_options(description["task"]["name"]) | description["task"]["options"]
    defaults = Hyperparameters()
    values: dict[str, object] = {}
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
    store: Store,
    cells: Sequence[str],
    labels: Sequence[str] | None = None,
    submitted: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """One row per measurement of a cell of the plan.

    `proxy` is its label, `seconds` and `peak_memory` (bytes) its cost, `details` a JSON text; where proxies were
    measured twice, `repeat` is 0 or 1; where any details say so, `coverage` and `converged`
    (`gapbench.runs.details`). `labels` (default: all) chooses and orders proxies. `submitted`: the identity of each
    entry -> its label now; other submissions are left out (default: all, with the labels that they began with).

    Of a label that was measured with several versions or protocols only the latest measured stands here: values of
    two versions are never ranked together.

    Returns:
        The table, by network in the plan's order, then by label.

    Raises:
        GapbenchError: for a damaged row.
    """
    import numpy as np

    position = {key: i for i, key in enumerate(cells)}
    kinds = Kinds(store.path)
    read, kind = _read(store, kinds)
    keys, networks, status, label = (read[name] for name in ("measurement", "cell", "status", "label"))
    if submitted is not None:
        label = [n if k.submission is None else submitted.get(k.submission) for n, k in zip(label, kind)]
    place = np.array([position.get(cell, -1) for cell in networks], dtype=np.int64)
    rows = [i for i in np.flatnonzero(place >= 0).tolist() if label[i] is not None]
    for i in rows:
        if read["value"][i] is None and status[i] == "ok":
            raise GapbenchError(f"{kinds.where(keys[i])} is damaged: its status is ok, but it has no value.")
    latest = {label[i]: kind[i].generation for i in rows}
    rows = [i for i in rows if kind[i].generation is latest[label[i]]]
    if kinds.several:  # of one network the last: with another sibling it was measured again
        rows = list({(networks[i], label[i], kind[i].repeat): i for i in rows}.values())
    number = {name: i for i, name in enumerate(sorted(latest))}
    repeat = np.array([kind[i].repeat for i in rows], dtype=np.int64)
    order = np.lexsort((repeat, np.array([number[label[i]] for i in rows], dtype=np.int64), place[rows]))
    shown = {"proxy": label, "repeat": [k.repeat for k in kind]}
    table = _as_table(read | shown, [rows[i] for i in order.tolist()], kinds)
    if labels is not None and not latest.keys() <= set(labels):
        table = table[table["proxy"].isin(list(labels))].reset_index(drop=True)
    return table


def _read(store: Store, kinds: Kinds) -> tuple[dict[str, list[Any]], list[Kind]]:
    """What there is of every measurement, column by column, and its kind; a large run has many rows."""
    found: dict[str, list[Any]] = {name: [] for name in Measured._fields}
    kind: list[Kind] = []
    for part in store.measured_columns():  # in the order of their insertion
        kind += kinds.of(part["measurement"], part["cell"], part.pop("description"))
        for name, column in part.items():
            found[name] += column
    return found, kind


def _as_table(read: Mapping[str, list[Any]], rows: Sequence[int], kinds: Kinds) -> pd.DataFrame:
    """Some rows of the columns that were read, as `measurement_table` has them."""
    named = {name: [read[name][i] for i in rows] for name in (*MEASUREMENT_COLUMNS, "repeat")}
    if not any(named["repeat"]):
        del named["repeat"]
    found = [
        stated(text, kinds.where(read["measurement"][i])) if says(text) else NOTHING
        for text, i in zip(named["details"], rows)
    ]
    said = {name: [own[name] for own in found] for name in DETAIL_COLUMNS}
    if any(value is not None for column in said.values() for value in column):
        named |= said
    return pd.DataFrame(named)


def generations(store: Store, cells: Sequence[str]) -> dict[str, str]:
    """Label -> the version, options and protocol of its values in `measurement_table`, as a text."""
    wanted = set(cells)
    rows = [row for row in store.measurements() if row.cell in wanted]
    kinds = Kinds(store.path).of(
        [row.measurement for row in rows], [row.cell for row in rows], [row.description for row in rows]
    )
    return {row.label: kind.generation for row, kind in zip(rows, kinds)}


def entry_table(entry: Entry) -> pd.DataFrame:
    """The values of a submission (`gapbench.runs.entries`) as measurements."""
    rows = [
        {name: getattr(value, name, None) for name in MEASUREMENT_COLUMNS}
        | {name: getattr(value, name) for name in DETAIL_COLUMNS}
        | {"cell": cell, "proxy": entry.label, "reason": value.reason or "", "details": "{}"}
        for cell, value in entry.values.items()
    ]
    said = any(row[name] is not None for row in rows for name in DETAIL_COLUMNS)
    return pd.DataFrame(rows, columns=[*MEASUREMENT_COLUMNS, *(DETAIL_COLUMNS if said else ())])


def images_shown(store: Store, cells: Sequence[str]) -> dict[str, Any]:
    """The image that each test example shows (test_size,), by cell, where several show one."""
    wanted, found = set(cells), {}
    for row in store.cells():
        if row.cell not in wanted or row.test_groups is None:
            continue
        try:
            found[row.cell] = unpacked(row.test_groups)
            whole = len(found[row.cell]) == row.test_size
        except ValueError:
            whole = False
        if not whole:
            raise GapbenchError(
                f"The run database {store.path} is damaged: network {row.cell} does not tell which image each of "
                f"its {row.test_size} test examples shows."
            )
    return found


def correctness(store: Store, cells: Sequence[str]) -> dict[str, Any]:
    """Test correctness (test_size,) bool by cell, where it was kept."""
    import numpy as np

    wanted, found = set(cells), {}
    for row in store.cells():
        if row.cell in wanted and row.test_correct is not None and row.test_size is not None:
            bits = np.frombuffer(row.test_correct, dtype=np.uint8)
            if len(bits) != -(-row.test_size // 8):
                raise GapbenchError(
                    f"The run database {store.path} is damaged: network {row.cell} has {len(bits)} bytes "
                    f"of test correctness for {row.test_size} examples."
                )
            found[row.cell] = np.unpackbits(bits, count=row.test_size).astype(bool)
    return found
