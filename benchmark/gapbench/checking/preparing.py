"""Make the population of `gapbench check` and keep it ready for use.

Called as `python -m gapbench.checking.preparing FOLDER`, with the suite in FOLDER/check.toml.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapbench.checking.population import AUDITED, INDEX, TOLD, AuditCase
from gapbench.population.network import handover_of
from gapbench.population.progress import Silent
from gapbench.population.stored import Population, open_population
from gapbench.runs.records import TrainedCell
from gapbench.sandbox.handover import Handover
from gapbench_base.errors import GapbenchError

if TYPE_CHECKING:
    import pandas as pd

WAIT_SECONDS = 180.0
STRENGTH = 0.5


def main() -> None:
    """Exit status 1 with a line on what was wrong."""
    try:
        prepare(Path(sys.argv[1]))
    except GapbenchError as error:
        print(error, file=sys.stderr)
        raise SystemExit(1) from None


def prepare(folder: Path) -> None:
    """Train what is missing, then write packed networks and, last, the index that makes them count."""
    run = _trained(folder)
    if (folder / INDEX).exists():
        return
    population = open_population(folder)
    networks = {member.key: handover_of(member, population) for member in population.members}
    for key, given in networks.items():
        _write(folder / f"{key}.packed", given.packed())
    audits = [case for family in AUDITED for case in _audit_cases(folder, family, population, networks)]
    rows = run.measurements[run.measurements["status"] == "ok"]
    configurations = population.suite.configurations
    content = {
        "data": population.data_dir,
        "fingerprint": population.fingerprint,
        "members": [
            {"cell": m.key, "sha256": m.sha256, "configuration": configurations.index(m.configuration)}
            for m in population.members
        ],
        "modules": sorted({module for given in networks.values() for module in given.modules()}),
        "baselines": {
            str(label): {str(k): float(v) for k, v in zip(own["cell"], own["value"])}
            for label, own in rows.groupby("proxy")
        },
        "passes": _passes(rows, [member.key for member in population.members]),
        "audits": [dataclasses.asdict(case) for case in audits],
    }
    _write(folder / INDEX, json.dumps(content, allow_nan=False).encode())


def _passes(rows: pd.DataFrame, cells: Sequence[str]) -> dict[str, float]:
    """The seconds of a pass over the data, as `train_loss` took; their median where a network has none."""
    own = rows[rows["proxy"] == "train_loss"].set_index("cell")["seconds"].astype(float)
    return {cell: float(own.get(cell, own.median())) for cell in cells}


def _trained(folder: Path) -> Any:
    from gapbench.running import run

    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            made = run(folder / "check.toml", folder, device="cpu", workers=0, board=False, progress=_Told())
        except GapbenchError as error:
            if "working on" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.5)  # another check makes it at this moment
            continue
        if made.problems or made.failures:
            raise GapbenchError("; ".join([*made.failures, *made.problems]))
        return made


class _Told(Silent):
    """Says of every network that it is made, to the process that waits for them."""

    def begin(self, cells: int, done: int, measurements: int, measured: int) -> None:
        """How many there are, and those of before."""
        self._cells = cells
        for _ in range(done):
            self._say()

    def trained(self, record: TrainedCell) -> None:
        """One more."""
        self._say()

    def _say(self) -> None:
        print(f"{TOLD}{self._cells}", flush=True)


def _audit_cases(
    folder: Path, family: str, population: Population, networks: dict[str, Handover]
) -> list[AuditCase]:
    """The widest network of a family in float64, and what each kind of transformation makes of it."""
    from gapbench.invariance.transformations import KINDS, NotPossible, Transformer

    members = [m for m in population.members if m.configuration.family == family]
    if not members:
        return []
    given = networks[max(members, key=lambda member: member.configuration.width).key]
    transformer = Transformer.of(given.model, given.inputs)

    def case(kind: str, network: Any) -> AuditCase:
        name = f"audit-{family.replace('/', '-')}-{kind.replace(' ', '-') or 'before'}.packed"
        _write(folder / name, dataclasses.replace(given, model=network).packed())
        return AuditCase(family, kind, STRENGTH, name, "")

    cases = [case("", transformer.network)]
    for kind in KINDS:
        try:
            cases.append(case(kind, transformer.apply(kind, STRENGTH, seed=0)))
        except NotPossible as reason:
            cases.append(AuditCase(family, kind, STRENGTH, "", str(reason)))
    return cases


def _write(path: Path, content: bytes) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_bytes(content)
    os.replace(temporary, path)


if __name__ == "__main__":
    main()
