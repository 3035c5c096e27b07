"""A pack with weights in half precision, where that is measured to move no score; refused by name where it does.

The rounded networks are another population: their files have other checksums, so the fingerprint is another one and
entries belong to one of the two. The run that is packed keeps all rows of the full one, beside a note of what was
compared (`gapbench.runs.half`).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapbench.population.stored import Population, open_population
from gapbench.proxies.registry import proxy_entry
from gapbench.running import setup_of
from gapbench.runs.entries import entries_folder
from gapbench.runs.half import META, Half, refuse_half
from gapbench.runs.identity import identity_in
from gapbench.runs.lock import sole_driver
from gapbench.runs.packing import DATABASE, Packed, pack, snapshot
from gapbench.runs.run import Run, open_run
from gapbench.runs.staging import staged
from gapbench.runs.store import SCHEMA, Store
from gapbench.runs.weight_files import WeightFile, size_of, told
from gapbench.runs.weight_location import weights_of
from gapbench.suites.requests import ProxyRequest
from gapbench_base.errors import GapbenchError

if TYPE_CHECKING:
    import pandas as pd

    from gapbench.population.jobs import Setup
    from gapbench.population.stored import Member

SHARE = 0.1
"""Of its standard error, by which a score may move."""
INTERVAL = 3.92
"""Standard errors in the width of a 95 % interval."""
CHEAP = 1.0
"""Seconds that a proxy which is compared without being named takes on most networks."""
UNMOVED = ("random", "parameter_count")
"""What no weights change."""
SHOWN = 5


@dataclass(frozen=True)
class HalfPacked:
    """What came of it: the pack, what is noted in it, and how many networks have other errors when rounded."""

    packed: Packed
    half: Half
    other_errors: int


def pack_half(
    run: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    compare: Sequence[str] = (),
    data_dir: str | os.PathLike[str] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> HalfPacked:
    """Pack a run with the weights of its measured networks rounded to half precision (float16).

    Proxies of the run are measured on the rounded networks, whose errors are taken anew as well. The pack is
    written only if no headline score of these proxies, over all networks, of any task or family, moves by more
    than a tenth of its standard error; a score that states none must stay as it is.

    Args:
        run: its folder, on which no other process may work meanwhile.
        out: the file (default: `<folder's name>-half-<fingerprint>.zip`, here).
        compare: labels of the run; without them all whose values state no error and took most networks a second or
            less.
        data_dir: of the tasks.
        say: hears what is done.

    Returns:
        The pack and what was compared.

    Raises:
        GapbenchError: for a weight that half precision cannot hold, and for scores that move, naming them.
    """
    folder = Path(run)
    open_run(folder)  # what is damaged is said now
    with Store(folder, readonly=True) as store:
        if (store.meta("suite") or {}).get("imported"):
            raise GapbenchError(f"{folder} is an imported population: its weights are not in its run.")
        refuse_half(store, folder)
    with (
        sole_driver(folder),
        staged(folder.absolute().parent / f"{folder.absolute().name}-half", "halving") as at,
    ):
        opened, population = open_run(folder), open_population(folder, data_dir)
        requests = _chosen(opened, compare)
        stage = at / folder.absolute().name
        rounded = _rounded_run(folder, stage, population)
        labels = [request.label for request in requests]
        say(f"Measuring {', '.join(labels)} on {len(population.members)} networks with rounded weights.")
        setup = setup_of(population.suite, stage, "cpu", data_dir, 1, "off")
        table, found = _measured(population, setup, requests, rounded)
        before = opened.population.set_index("cell").loc[table.index, list(table)]
        changed = int((before != table).any(axis=1).sum())
        largest = _compared(opened, table, found, labels)
        half = Half(
            of=opened.identity.fingerprint,
            networks=len(rounded),
            compared=tuple(labels),
            share=SHARE,
            largest=largest,
        )
        with Store(stage) as store:
            store.set_meta(META, asdict(half))
            fingerprint = identity_in(store).fingerprint
        name = f"{folder.absolute().name}-half-{fingerprint}.zip"
        packed = pack(stage, Path(out) if out is not None else Path(name))
    return HalfPacked(packed, half, changed)


def _chosen(run: Run, labels: Sequence[str]) -> list[ProxyRequest]:
    """What is compared."""
    known = {request.label: request for request in run.proxies}
    for label in labels:
        if label not in known:
            raise GapbenchError(f"--compare {label}: the run's suite measures {', '.join(known)}.")
    able = [r for r in known.values() if not {"sibling", "checkpoints"} & set(proxy_entry(r.proxy).needs)]
    if labels:
        chosen = [request for request in able if request.label in labels]
        if len(chosen) < len(set(labels)):
            needy = sorted(set(labels) - {request.label for request in chosen})
            raise GapbenchError(
                f"--compare {needy[0]}: it needs more than one network's weights; name another one."
            )
        return chosen
    own = run.measurements[run.measurements["status"] == "ok"]
    cheap = []
    for request in able:
        rows = own[own["proxy"] == request.label]
        quick = len(rows) and rows["seconds"].median() <= CHEAP and rows["standard_error"].isna().all()
        if quick and request.proxy not in UNMOVED:
            cheap.append(request)
    if not cheap:
        raise GapbenchError(
            f"{run.folder}: none of its proxies is cheap and states no error, so nothing tells whether rounding "
            "moves scores. Name some with --compare."
        )
    return cheap


def _rounded_run(folder: Path, stage: Path, population: Population) -> dict[str, tuple[str, int]]:
    """The run with rounded weights in `stage`; of each rounded file checksum and size, by cell."""
    (stage / "weights").mkdir(parents=True)
    snapshot(folder, stage / DATABASE)
    if entries_folder(folder).is_dir():
        shutil.copytree(entries_folder(folder), entries_folder(stage))
    rounded = {}
    for member in population.members:
        content = _rounded(weights_of(folder, member.key), member)
        weights_of(stage, member.key).write_bytes(content)
        rounded[member.key] = hashlib.sha256(content).hexdigest(), len(content)
    with Store(stage, readonly=True) as store:
        others = [row.cell for row in store.cells() if row.weights_sha256 and row.cell not in rounded]
    for cell in others:  # networks that nothing is measured on stay as they are
        file = weights_of(folder, cell)
        try:
            if size_of(file) is not None:
                weights_of(stage, cell).write_bytes(file.read_bytes())
        except OSError as error:
            raise GapbenchError(f"The weight file {file} cannot be copied: {told(error)}.") from None
    database = sqlite3.connect(stage / DATABASE)
    try:
        with database:
            database.execute("DROP TRIGGER cells_keep")
            for cell, (sha256, size) in rounded.items():
                database.execute(
                    "UPDATE cells SET weights_sha256 = ?, weights_bytes = ? WHERE cell = ? "
                    "AND weights_sha256 IS NOT NULL",
                    (sha256, size, cell),
                )
        database.executescript(SCHEMA)
    finally:
        database.close()
    with Store(stage) as store:
        store.set_meta("population", identity_in(store).as_dict())
    return rounded


def _rounded(path: WeightFile, member: Member) -> bytes:
    """A weight file with its numbers in half precision."""
    import torch
    from safetensors.torch import load, save

    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != member.sha256:
        raise GapbenchError(f"The weight file {path} changed while it was read: pack again.")
    found = {}
    for name, tensor in load(content).items():
        found[name] = tensor
        if tensor.is_floating_point():
            found[name] = half = tensor.to(torch.float16)
            beyond = torch.isfinite(tensor) & ~torch.isfinite(half)
            if bool(beyond.any()):
                own = member.configuration
                raise GapbenchError(
                    f"Half precision ends at 65504: network {member.key} ({own.task}, {own.family}, width "
                    f"{own.width:g}) has {float(tensor[beyond].flatten()[0]):.4g} in {name}. Nothing was packed; "
                    "pack without --half."
                )
    return save(found)


def _measured(
    population: Population,
    setup: Setup,
    requests: Sequence[ProxyRequest],
    rounded: Mapping[str, tuple[str, int]],
) -> tuple[pd.DataFrame, dict[tuple[str, str], tuple[str, float | None]]]:
    """Errors of the rounded networks, by cell, and status and value by cell and label."""
    import pandas as pd

    from gapbench.population.evaluation import evaluate
    from gapbench.population.facts import task_of
    from gapbench.population.jobs import MeasureJob
    from gapbench.population.network import trained_networks
    from gapbench.population.plan import Cell
    from gapbench.population.worker import measure_cell

    found: dict[tuple[str, str], tuple[str, float | None]] = {}

    def keep(kind: str, record: Any) -> None:
        if kind == "measurement":
            found[record.cell, record.label] = record.status, record.value

    rows = []
    for member in population.members:
        sha256, own = rounded[member.key][0], member.configuration
        wanted = tuple((request.label, request.on(own), dict[str, object]()) for request in requests)
        seed = Cell(member.key, own, {}).seed
        measure_cell(setup, MeasureJob(member.key, seed, own, sha256, wanted, member.history), keep)
        task = task_of(own, population.data_dir)
        network = trained_networks(own, task, weights_of(setup.run, member.key), sha256)[0]
        errors = [evaluate(network, part.inputs, part.targets).error for part in (task.train, task.test)]
        rows.append((member.key, *errors))
    return pd.DataFrame(rows, columns=["cell", "train_error", "test_error"]).set_index("cell"), found


def _compared(
    run: Run,
    errors: pd.DataFrame,
    found: Mapping[tuple[str, str], tuple[str, float | None]],
    labels: Sequence[str],
) -> float:
    """The largest move of a score, in standard errors; refuses one that is too large."""
    import numpy as np
    import pandas as pd

    first = run.measurements["proxy"].isin(labels)
    if "repeat" in run.measurements.columns:
        first &= run.measurements["repeat"] == 0
    before = run.measurements[first].reset_index(drop=True)
    keys = list(zip(before["cell"], before["proxy"]))
    here = [key in found for key in keys]
    before, keys = before[here].reset_index(drop=True), [key for key in keys if key in found]
    statuses = [found[key][0] for key in keys]
    other = [f"{k[1]} on {k[0]}" for k, old, new in zip(keys, before["status"], statuses) if old != new]
    if other:
        raise GapbenchError(_refused(run, [f"{text} is another result" for text in other]))
    after = before.assign(value=pd.Series([found[key][1] for key in keys], dtype="float64"))
    own = run.population.set_index("cell")
    own.loc[errors.index, list(errors)] = errors
    own.loc[errors.index, "gap"] = errors["test_error"] - errors["train_error"]
    rounded = replace(run, measurements=after, population=own.reset_index()[list(run.population.columns)])
    scores = [
        each.scores(targets=("gap",), proxies=labels).query("estimator == 'tau'")
        for each in (replace(run, measurements=before), rounded)
    ]
    columns = ["task", "family", "proxy"]
    joined = scores[0].merge(scores[1], on=columns, how="outer", suffixes=("", "_half"))
    joined = joined[joined["proxy"].isin(labels)]
    error = (joined["high"] - joined["low"]).fillna(0.0) / INTERVAL
    moved = (joined["value_half"] - joined["value"]).abs().fillna(np.inf)
    moved[joined["value"].isna() & joined["value_half"].isna()] = 0.0
    share = np.where(moved == 0, 0.0, moved / error.where(error > 0, 0.0).to_numpy().clip(1e-300))
    bad = joined[share > SHARE]
    if len(bad):
        raise GapbenchError(_refused(run, [_moved(row) for row in bad.to_dict("records")]))
    return float(share.max()) if len(share) else 0.0


def _moved(row: Mapping[Any, Any]) -> str:
    scope = ", ".join(str(row[name]) for name in ("task", "family") if row[name]) or "all networks"
    return (
        f"the score of {row['proxy']} over {scope} moves from {row['value']:.4f} to {row['value_half']:.4f}"
    )


def _refused(run: Run, found: Sequence[str]) -> str:
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return (
        f"Half precision changes what {run.folder} tells: {'; '.join(found[:SHOWN])}{more} (allowed is {SHARE:g} "
        "of a standard error). Nothing was packed; pack without --half."
    )
