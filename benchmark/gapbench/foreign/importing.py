"""A table of networks trained elsewhere becomes a population of its own: checked, measured, scored, on a board."""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapbench.foreign.table import ForeignNetwork, read_rows
from gapbench.runs.records import TrainedCell, json_text, stored_measurement
from gapbench_base.errors import GapbenchError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from gapbench.foreign.train_errors import Recomputed
    from gapbench.runs.run import Run

PROTOCOL = 2  # 1 took the table's errors unchecked, and its keys did not hold versions and options of proxies
Say = Callable[[str], None]
Read = Callable[[Path], "tuple[Tensor, Tensor]"]


@dataclass(frozen=True)
class Candidate:
    """A row with what its key is made of: checksums of every file that its results depend on."""

    row: ForeignNetwork
    cell: str
    description: dict[str, Any]
    sha256: str
    evaluated: str
    """Key of its recomputed errors: weights, code and data alone."""


def import_population(
    table: str | os.PathLike[str],
    weights: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    axes: Sequence[str],
    factory: str | None = None,
    data: str | os.PathLike[str] | None = None,
    test_data: str | os.PathLike[str] | None = None,
    test_size: int | None = None,
    proxies: Sequence[str] | None = None,
    samples: int = 256,
    say: Say = lambda text: None,
) -> Run:
    """Measure every network of `table` and put it with its errors into the run folder `out`; resumes.

    One row per network: `weights` (file in the folder `weights`), `train_error`, `test_error` (fractions),
    and `factory` (MODULE:FACTORY) and `data` (.npz with inputs, targets: the labels trained on, wrong ones
    included) unless given for all. Optional: `test_data` (.npz; also for all), `task` (default "imported"),
    `family` (default: the factory), `width` (1), `seed` (0), `initial` (weight file at initialisation),
    `test_size`, `train_loss` and `test_loss` (nats), `status` (converged). `axes` are the columns that were
    varied; their values and `width` are passed to no factory.

    The train error of every network is recomputed on its data, the test error where there are test data, before
    anything is measured; a table that disagrees is refused (`gapbench.foreign.train_errors` says by how much).
    A network with weights or outputs that are not finite is a cell with status `failed`, or `diverged` where the
    table says so, and is not measured. A measurement's key holds the proxy's version and options and all that the
    network depends on, so that the same call again measures what is new and what failed, and keeps nothing stale.

    Returns:
        The run in `out`.

    Raises:
        GapbenchError: naming the row for anything that does not fit; what was finished is kept.
    """
    from gapbench.foreign.networks import examples
    from gapbench.foreign.train_errors import check_errors
    from gapbench.proxies.registry import expanded, list_proxies, proxy_entry
    from gapbench.runs.environment import environment
    from gapbench.runs.folder import check_folder
    from gapbench.runs.identity import identity_in
    from gapbench.runs.known import META, of_proxies
    from gapbench.runs.lock import sole_driver
    from gapbench.runs.run import open_run
    from gapbench.runs.store import Store

    axes = list(dict.fromkeys(axes))
    given = {"factory": factory, "data": data, "test_data": test_data, "test_size": test_size}
    rows = read_rows(table, weights, axes, given)
    names = expanded(proxies) if proxies is not None else list_proxies()
    if not names:
        raise GapbenchError("No proxy is named: give at least one, or leave the option out.")
    for name in names:
        proxy_entry(name)
    folder = Path(out)
    check_folder(folder)
    stored = _as_suite(Path(table).stem or "imported", axes, samples)
    with sole_driver(folder), Store(folder) as store:
        if store.meta("suite") not in (None, stored):
            raise GapbenchError(
                f"{folder} holds another run. Choose another folder with --out; nothing was changed."
            )
        candidates = _candidates(rows, str(table), axes)
        read = functools.lru_cache(maxsize=2)(examples)  # networks with the same data stand together, mostly
        found = _recomputed(store, candidates, read, str(table), say)
        check_errors(rows, found, str(table))
        store.set_meta("suite", stored)
        store.set_meta("environment imported", environment("cpu"))
        store.set_meta("proxies", [[name, [], name] for name in names])
        store.set_meta(META, of_proxies(names))
        store.set_meta("plan", [candidate.cell for candidate in candidates])
        for candidate, result in zip(candidates, found):
            row = candidate.row
            try:
                _store_one(store, candidate, result, names, samples, read)
            except GapbenchError as error:
                raise GapbenchError(f"{table}, row {row.position} ({row.name}): {error}") from None
            say(f"[{row.position}/{len(rows)}] {row.name}{f': {result.defect}' if result.defect else ''}")
        store.set_meta("population", identity_in(store).as_dict())
    return open_run(folder)


def _as_suite(name: str, axes: Sequence[str], samples: int) -> dict[str, object]:
    """What stands in the run for its suite."""
    return {"name": name, "version": 1, "text": "", "axes": list(axes), "samples": samples, "imported": True}


def _candidates(rows: Sequence[ForeignNetwork], table: str, axes: Sequence[str]) -> list[Candidate]:
    from gapbench_base.keys import content_key

    hashes: dict[Path, str] = {}

    def hashed(path: Path | None) -> str | None:
        if path is None:
            return None
        if path not in hashes:
            hashes[path] = hashlib.sha256(path.read_bytes()).hexdigest()
        return hashes[path]

    found: list[Candidate] = []
    same: dict[str, ForeignNetwork] = {}
    for row in rows:
        files = {
            "weights": hashed(row.weights),
            "data": hashed(row.data),
            "test_data": hashed(row.test_data),
            "factory": row.factory,
            "code": _code_of(row, table),
        }
        description = {
            "imported": PROTOCOL,
            **files,
            "initial": hashed(row.initial),
            "task": {"name": row.task, "options": {}},
            "family": row.family,
            "width": row.width,
            "seed": row.seed,
            "training": dict(row.axes),
            "status": row.status,
            "train_error": row.train_error,
            "test_error": row.test_error,
            "train_loss": row.train_loss,
            "test_loss": row.test_loss,
            "test_size": row.test_size,
        }
        evaluated = content_key(files)
        twin = same.setdefault(evaluated, row)
        if twin is not row:
            raise GapbenchError(
                f"{table} lists the same network twice: the weight files {twin.name} (row {twin.position}) and "
                f"{row.name} (row {row.position}) hold the same bytes."
            )
        sha256 = files["weights"]
        assert sha256 is not None
        found.append(Candidate(row, content_key(description), description, sha256, evaluated))
    return found


def _code_of(row: ForeignNetwork, table: str) -> str:
    """Checksum of the file that defines the factory: the same weights in another function are another network."""
    from gapbench.foreign.networks import factory_of

    try:
        source = inspect.getsourcefile(inspect.unwrap(factory_of(row.factory)))
    except TypeError:  # built in, or a callable object
        return ""
    except GapbenchError as error:
        raise GapbenchError(f"{table}, row {row.position}: {error}") from None
    file = Path(source) if source else None
    return hashlib.sha256(file.read_bytes()).hexdigest() if file is not None and file.is_file() else ""


def _recomputed(
    store: Any, candidates: Sequence[Candidate], read: Read, table: str, say: Say
) -> list[Recomputed]:
    """The errors that the networks make; those of an earlier call with the same files are taken from the run."""
    from gapbench.foreign.train_errors import Recomputed, recompute

    known: dict[str, Any] = store.meta("recomputed errors") or {}
    fresh = [c for c in candidates if c.evaluated not in known]
    if fresh:
        say(f"Recomputing the errors of {len(fresh)} networks.")
    try:
        for candidate in fresh:
            row = candidate.row
            try:
                result = recompute(_network(row), _sets(row, read))
            except GapbenchError as error:
                raise GapbenchError(f"{table}, row {row.position} ({row.name}): {error}") from None
            known[candidate.evaluated] = [dict(result.errors), dict(result.counts), result.defect]
    finally:
        store.set_meta("recomputed errors", known)
    return [Recomputed(*known[candidate.evaluated]) for candidate in candidates]


def _network(row: ForeignNetwork) -> nn.Module:
    from gapbench.foreign.networks import load_network

    return load_network(row.factory, row.weights)


def _sets(row: ForeignNetwork, read: Read) -> dict[str, tuple[Tensor, Tensor]]:
    sets = {"train_error": read(row.data)}
    if row.test_data is not None:
        sets["test_error"] = read(row.test_data)
        if row.test_size not in (None, len(sets["test_error"][1])):
            raise GapbenchError(
                f"test_size is {row.test_size}, but {row.test_data} holds {len(sets['test_error'][1])} examples."
            )
    return sets


def measurement_description(cell: str, proxy: str, samples: int) -> dict[str, object]:
    """All that an imported network's measurement depends on; its key is the hash of this."""
    from gapbench.population.wanted import MEASURE_PROTOCOL
    from gapbench.proxies.registry import checked_options, proxy_entry

    entry = proxy_entry(proxy)
    return {
        "imported": PROTOCOL,
        "protocol": MEASURE_PROTOCOL,
        "cell": cell,
        "proxy": entry.name,
        "version": entry.version,
        "options": checked_options(entry, {}),
        "samples": samples,
    }


def _store_one(
    store: Any,
    candidate: Candidate,
    result: Recomputed,
    names: Sequence[str],
    samples: int,
    read: Read,
) -> None:
    """Store one network and measure what is missing or failed before."""
    from gapbench.foreign.measuring import measurements_of
    from gapbench.foreign.networks import load_network
    from gapbench.proxies.results import Measurement
    from gapbench_base.keys import content_key

    row = candidate.row
    described = {name: measurement_description(candidate.cell, name, samples) for name in names}
    keys = {name: content_key(text) for name, text in described.items()}
    measured = store.statuses("measurements")
    missing = [name for name in names if measured.get(keys[name], "failed") == "failed"]
    stored = store.statuses("cells").get(candidate.cell)
    if stored is not None and not missing:
        return
    inputs, targets = read(row.data)
    network = _network(row)
    if stored is None:
        store.add_cell(_record(candidate, result, network, len(inputs)))
    if result.defect:  # told at once; what diverged is no failure of a proxy
        if row.status == "diverged":
            return
        told = [name for name in missing if keys[name] not in measured]
        found = [Measurement(name, None, None, 0.0, "failed", result.defect) for name in told]
    else:
        start = None if row.initial is None else load_network(row.factory, row.initial)
        found = measurements_of(
            network, inputs, targets, missing, initial=start, samples=samples, key=candidate.cell
        )
    store.add_measurements(
        [
            stored_measurement(
                m,
                key=keys[m.proxy],
                cell=candidate.cell,
                label=m.proxy,
                description=described[m.proxy],
                device="cpu",
            )
            for m in found
        ]
    )


def _record(candidate: Candidate, result: Recomputed, network: nn.Module, train_size: int) -> TrainedCell:
    row, usable = candidate.row, not result.defect
    train_loss, test_loss = (row.train_loss, row.test_loss) if usable else (None, None)
    return TrainedCell(
        cell=candidate.cell,
        description=json_text(candidate.description),
        task=row.task,
        family=row.family,
        width=row.width,
        seed=row.seed,
        status=row.status if usable or row.status == "diverged" else "failed",
        reason=result.defect,
        train_error=row.train_error if usable else None,
        test_error=row.test_error if usable else None,
        gap=row.test_error - row.train_error if usable else None,
        loss_gap=None if train_loss is None or test_loss is None else test_loss - train_loss,
        train_loss=train_loss,
        test_loss=test_loss,
        parameters=sum(p.numel() for p in network.parameters()),
        train_size=train_size,
        test_size=row.test_size or result.counts.get("test_error"),
        source="imported",
        shift=0,
        weights_sha256=candidate.sha256,
        weights_bytes=row.weights.stat().st_size,
        device="cpu",
    )
