"""A table of networks trained elsewhere becomes a population of its own: measured, scored, on a board."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapbench.columns import taken
from gapbench.errors import GapbenchError, did_you_mean

if TYPE_CHECKING:
    import pandas as pd

    from gapbench.running import Run

PROTOCOL = 1
REQUIRED = ("weights", "train_error", "test_error")
OWN_COLUMNS = (
    *REQUIRED,
    "factory",
    "initial",
    "data",
    "task",
    "family",
    "width",
    "seed",
    "test_size",
    "train_loss",
    "test_loss",
    "status",
)


def import_population(
    table: str | os.PathLike[str],
    weights: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    axes: Sequence[str],
    factory: str | None = None,
    data: str | os.PathLike[str] | None = None,
    test_size: int | None = None,
    proxies: Sequence[str] | None = None,
    samples: int = 256,
    say: Callable[[str], None] = lambda text: None,
) -> Run:
    """Measure every network of `table` and put it with its errors into the run folder `out`; resumes.

    One row per network: `weights` (file in the folder `weights`), `train_error`, `test_error` (fractions),
    and `factory` (MODULE:FACTORY) and `data` (.npz with inputs, targets) unless given for all. Optional:
    `task` (default "imported"), `family` (default: the factory), `width` (1), `seed` (0), `initial` (weight
    file at initialisation), `test_size`, `train_loss` and `test_loss` (nats), `status` (converged). `axes` are
    the columns that were varied; their values and `width` are passed to no factory.

    Raises `GapbenchError` naming the row for anything that does not fit; what was finished is kept.
    """
    from gapbench.environment import environment
    from gapbench.population.driver import check_folder
    from gapbench.population.lock import sole_driver
    from gapbench.population.store import Store
    from gapbench.proxies.registry import list_proxies, proxy_entry
    from gapbench.running import open_run
    from gapbench_leaderboard.reading import read_table

    texts = ("weights", "factory", "data", "initial", "task", "family", "status")
    frame = _checked(read_table(Path(table), texts=texts), axes, factory, data, test_size)
    names = list(proxies) if proxies is not None else list_proxies()
    for name in names:
        proxy_entry(name)
    folder = Path(out)
    check_folder(folder)
    title = Path(table).stem or "imported"
    stored = {"name": title, "version": 1, "text": "", "axes": list(axes), "samples": samples}
    with sole_driver(folder), Store(folder) as store:
        known = store.meta("suite")
        if known is not None and known != {**stored, "imported": True}:
            raise GapbenchError(
                f"{folder} holds another run. Choose another folder with --out; nothing was changed."
            )
        store.set_meta("suite", {**stored, "imported": True})
        store.set_meta("environment imported", environment("cpu"))
        store.set_meta("proxies", [[name, [], name] for name in names])
        keys = []
        for position, row in enumerate(frame.to_dict("records"), start=1):
            try:
                keys.append(_one(store, row, Path(weights), axes, names, samples))
            except GapbenchError as error:
                raise GapbenchError(f"{table}, row {position}: {error}") from None
            say(f"[{position}/{len(frame)}] {row['weights']}")
        if len(set(keys)) < len(keys):
            raise GapbenchError(f"{table} lists the same network twice.")
        store.set_meta("plan", keys)
    return open_run(folder)


def _checked(
    frame: pd.DataFrame,
    axes: Sequence[str],
    factory: str | None,
    data: str | os.PathLike[str] | None,
    test_size: int | None,
) -> pd.DataFrame:
    """The table with every optional column filled in. Raises `GapbenchError`."""
    import pandas as pd

    from gapbench_leaderboard.statistics.cells import is_missing
    from gapbench_leaderboard.statistics.quantities import quantity

    for axis in taken(axes):
        own = "tells networks apart in any case" if axis in ("task", "family", "seed") else "is no axis"
        raise GapbenchError(
            f"--axes: {axis!r} is a column of population.csv that {own}; leave it out, or rename your column."
        )
    frame = frame.copy()
    for name, value in (("factory", factory), ("data", data), ("test_size", test_size)):
        if value is not None:
            frame[name] = value if isinstance(value, int) else str(value)
    for column in (*REQUIRED, "factory", "data", *axes):
        if column not in frame.columns:
            hint = did_you_mean(column, frame.columns) or f" Columns: {', '.join(map(str, frame.columns))}."
            raise GapbenchError(f"The table has no column {column!r}.{hint}")
    defaults: dict[str, Any] = {"task": "imported", "width": 1.0, "seed": 0, "status": "converged"}
    for name, default in defaults.items():
        if name not in frame.columns:
            frame[name] = default
    if "family" not in frame.columns:
        frame["family"] = frame["factory"]
    for name in ("initial", "train_loss", "test_loss", "test_size"):
        if name not in frame.columns:
            frame[name] = None
    frame["initial"] = [None if is_missing(value) else value for value in frame["initial"]]
    for name in ("train_loss", "test_loss", "test_size"):
        found = quantity(frame[name], name)
        if found.unreadable:
            raise GapbenchError(f"The table: {found.complaint(name)}.")
        frame[name] = found.values
    for name in ("train_error", "test_error", "width", "seed"):
        numbers = pd.to_numeric(frame[name], errors="coerce")
        bad = numbers.isna() | ((numbers < 0) | (numbers > 1) if name.endswith("error") else numbers < 0)
        if bad.any():
            first = int(bad.to_numpy().argmax())
            raise GapbenchError(
                f"The table, row {first + 1}: {name} = {frame[name].iloc[first]!r} is no "
                + ("fraction between 0 and 1." if name.endswith("error") else "number of at least 0.")
            )
        frame[name] = numbers
    return frame


def _one(
    store: Any, row: Mapping[Any, Any], weights: Path, axes: Sequence[str], names: Sequence[str], samples: int
) -> str:
    """Store one network and measure what is missing. Returns its key."""
    from gapbench.population.plan import content_key
    from gapbench.submission.foreign import load_network, read_examples
    from gapbench.submission.foreign_measuring import measurements_of

    file = weights / str(row["weights"])
    data = Path(str(row["data"]))
    data = data if data.is_file() else weights / data
    for path in (file, data):
        if not path.is_file():
            raise GapbenchError(f"There is no file {path}.")
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    description = {
        "imported": PROTOCOL,
        "weights": sha256,
        "data": hashlib.sha256(data.read_bytes()).hexdigest(),
        "factory": str(row["factory"]),
        "task": {"name": str(row["task"]), "options": {}},
        "family": str(row["family"]),
        "width": float(row["width"]),
        "seed": int(row["seed"]),
        "training": {axis: _plain(row[axis]) for axis in axes if axis != "width"},
        "train_error": float(row["train_error"]),
        "test_error": float(row["test_error"]),
    }
    cell = content_key(description)
    measured = store.statuses("measurements")
    described = {
        name: {"imported": PROTOCOL, "cell": cell, "proxy": name, "samples": samples} for name in names
    }
    keys = {name: content_key(text) for name, text in described.items()}
    missing = [name for name in names if keys[name] not in measured]
    if cell in store.statuses("cells") and not missing:
        return cell
    inputs, targets = read_examples(data)
    if "train_size" in axes and row["train_size"] != len(inputs):
        raise GapbenchError(
            f"train_size = {row['train_size']!r}, but {data} holds {len(inputs)} examples, and population.csv has "
            "one column train_size; correct it, or rename your column."
        )
    network = load_network(str(row["factory"]), file)
    start = None
    if isinstance(row["initial"], str) and row["initial"]:
        start = load_network(str(row["factory"]), weights / row["initial"])
    found = measurements_of(network, inputs, targets, missing, initial=start, samples=samples, key=cell)
    if cell not in store.statuses("cells"):
        losses = [_number(row["train_loss"]), _number(row["test_loss"])]
        loss_gap = losses[1] - losses[0] if losses[0] is not None and losses[1] is not None else None
        size = _number(row["test_size"])
        store.add_cell(
            {
                "cell": cell,
                "description": json.dumps(description, sort_keys=True),
                "task": description["task"]["name"],  # type: ignore[index]
                "family": description["family"],
                "width": description["width"],
                "seed": description["seed"],
                "status": str(row["status"]),
                "reason": "",
                "train_error": description["train_error"],
                "test_error": description["test_error"],
                "gap": float(row["test_error"]) - float(row["train_error"]),
                "loss_gap": loss_gap,
                "train_loss": losses[0],
                "test_loss": losses[1],
                "parameters": sum(p.numel() for p in network.parameters()),
                "train_size": len(inputs),
                "test_size": None if size is None else int(size),
                "source": "imported",
                "shift": 0,
                "weights_sha256": sha256,
                "weights_bytes": file.stat().st_size,
                "device": "cpu",
            }
        )
    store.add_measurements(
        [
            {
                "measurement": keys[m.proxy],
                "cell": cell,
                "proxy": m.proxy,
                "label": m.proxy,
                "description": json.dumps(described[m.proxy], sort_keys=True),
                "value": m.value,
                "standard_error": m.standard_error,
                "seconds": m.seconds,
                "peak_memory": m.peak_memory,
                "status": m.status,
                "reason": m.reason,
                "details": "{}",
                "device": "cpu",
            }
            for m in found
        ]
    )
    return cell


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _number(value: Any) -> float | None:
    if value is None or isinstance(value, str) or value != value:
        return None
    return float(value)
