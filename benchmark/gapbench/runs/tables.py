"""The run database as tables with documented columns."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from gapbench.runs.details import COLUMNS as DETAIL_COLUMNS
from gapbench.runs.details import said_in
from gapbench.runs.entry import Entry
from gapbench.runs.image_groups import unpacked
from gapbench.runs.kinds import Kinds
from gapbench.runs.known import Known, known_in
from gapbench.runs.noisy_gap import noise_of, noisy_gap, slope
from gapbench.runs.records import TrainedCell
from gapbench.runs.store import Store
from gapbench.suites.columns import CELL_COLUMNS, EXTRA_COLUMNS, NOISY_GAP, RECORDED_AXES
from gapbench.suites.hyperparameters import Hyperparameters
from gapbench_base.errors import GapbenchError
from gapbench_base.keys import content_key

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
RECURRING = ("cell", "reason")
"""Columns of texts of which a large run has few different ones, beside those of a `Sort`."""
NUMBERS = ("value", "standard_error", "seconds", "peak_memory")


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

    kinds, read = Kinds(store.path), _read(store)
    sorts, of_sort = _coded(read["sort"])
    some = dict(zip(read["sort"], read["measurement"]))  # a measurement of each
    kind = [kinds.of(some[own], own.description) for own in sorts]
    label: list[str | None] = [own.label for own in sorts]
    if submitted is not None:
        label = [n if k.submission is None else submitted.get(k.submission) for n, k in zip(label, kind)]
    position = {key: i for i, key in enumerate(cells)}
    place = np.fromiter(map(position.get, read["cell"], itertools.repeat(-1)), np.int64, len(of_sort))
    rows = np.flatnonzero((place >= 0) & np.array([name is not None for name in label], dtype=bool)[of_sort])
    _refuse_missing_values(read, rows, kinds)
    found, last = np.unique(of_sort[rows[::-1]], return_index=True)
    latest = {str(label[own]): kind[own].generation for own in found[np.argsort(-last)].tolist()}
    kept = [own for own in found.tolist() if kind[own].generation is latest[str(label[own])]]
    rows = rows[np.isin(of_sort[rows], kept)]
    shown = {name: i for i, name in enumerate(sorted(latest))}
    number = np.array([shown.get(str(name), -1) for name in label], dtype=np.int64)[of_sort]
    repeat = np.array([own.repeat for own in kind], dtype=np.int64)[of_sort]
    rows = rows[np.lexsort((repeat[rows], number[rows], place[rows]))]
    if kinds.several and len(rows):  # of one network the last: with another sibling it was measured again
        one = np.column_stack((place[rows], number[rows], repeat[rows]))
        rows = rows[np.append((one[1:] != one[:-1]).any(axis=1), True)]
    texts = {"proxy": label, "status": [own.status for own in sorts]}
    table = _as_table(read, {name: (own, of_sort) for name, own in texts.items()}, rows, repeat[rows], kinds)
    if labels is not None and not latest.keys() <= set(labels):
        table = table[table["proxy"].isin(list(labels))].reset_index(drop=True)
    return table


def _coded(column: Sequence[Any]) -> tuple[list[Any], NDArray[np.int64]]:
    """The different values of a column, and of each row which it has."""
    import numpy as np

    number = dict.fromkeys(column)
    values = list(number)
    number.update(zip(values, itertools.count()))
    return values, np.fromiter(map(number.__getitem__, column), np.int64, len(column))


def _refuse_missing_values(read: Mapping[str, Sequence[Any]], rows: NDArray[np.intp], kinds: Kinds) -> None:
    """Refuse a measurement of these rows that is ok without a value."""
    shown: set[int] | None = None
    for i, value in enumerate(read["value"]):
        if value is None and read["sort"][i].status == "ok":
            shown = set(rows.tolist()) if shown is None else shown
            if i in shown:
                where = kinds.where(read["measurement"][i])
                raise GapbenchError(f"{where} is damaged: its status is ok, but it has no value.")


def _read(store: Store) -> dict[str, list[Any]]:
    """What there is of every measurement, column by column; a large run has many rows."""
    found: dict[str, list[Any]] = {name: [] for name in ("measurement", "sort", *MEASUREMENT_COLUMNS)}
    for part in store.measured_columns():  # in the order of their insertion
        for name, column in part.items():
            found[name] += column
    return found


def _as_table(
    read: Mapping[str, Sequence[Any]],
    texts: Mapping[str, tuple[list[Any], NDArray[np.int64]]],
    rows: NDArray[np.intp],
    repeat: NDArray[np.int64],
    kinds: Kinds,
) -> pd.DataFrame:
    """Some rows of the columns that were read, as `measurement_table` has them; `texts` are columns in codes."""
    import numpy as np

    named: dict[str, Any] = {}
    chosen = rows.tolist()
    for name in MEASUREMENT_COLUMNS:
        if (
            name in (*texts, *RECURRING) and chosen
        ):  # only the few different texts become what pandas makes of them
            values, codes = texts[name] if name in texts else _coded(read[name])
            named[name] = pd.Series(values).take(codes[rows]).array
            continue
        numbers = np.array(read[name] if name in NUMBERS else (), dtype=np.float64)
        if numbers.size and not np.isnan(numbers := numbers[rows]).all():
            named[name] = numbers
        else:
            named[name] = [read[name][i] for i in chosen]
    if repeat.any():
        named["repeat"] = repeat
    said = said_in(named["details"], lambda row: kinds.where(read["measurement"][chosen[row]]))
    if any(value is not None for column in said.values() for value in column):
        named |= said
    return pd.DataFrame(named)


def generations(store: Store, cells: Sequence[str]) -> dict[str, str]:
    """Label -> the version, options and protocol of its values in `measurement_table`, as a text."""
    wanted, kinds = set(cells), Kinds(store.path)
    return {
        row.label: kinds.of(row.measurement, row.description.replace(row.cell, "")).generation
        for row in store.measurements()
        if row.cell in wanted
    }


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
