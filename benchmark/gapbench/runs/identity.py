"""Which population a run holds: a fingerprint of all that its networks are, and how much of the plan that is."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gapbench.runs.records import TrainedCell
from gapbench.runs.store import Store
from gapbench_base.keys import content_key


@dataclass(frozen=True)
class Identity:
    """Which population it is.

    `fingerprint`: 16 hexadecimal digits, see `identity_of`; `networks` that have a result of the `planned`;
    `gapbench`, `devices`: versions and kinds of device that it was made with; `date` of the last network (UTC),
    empty where none is trained.
    """

    fingerprint: str
    networks: int
    planned: int
    gapbench: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    date: str = ""
    earlier: str = ""
    """The fingerprint of the same networks as entries have it that were submitted before there was this one."""

    @property
    def complete(self) -> bool:
        """Whether every planned network has a result."""
        return self.networks >= self.planned

    @property
    def words(self) -> str:
        """`12 networks`, or `4 of 12 networks: incomplete`."""
        if self.complete:
            return f"{self.networks} networks"
        return f"{self.networks} of {self.planned} networks: incomplete"

    def as_dict(self) -> dict[str, object]:
        """As plain JSON, with `complete` and `words`."""
        fields = {name: value for name, value in asdict(self).items() if name != "earlier"}
        return {
            **fields,
            "gapbench": list(self.gapbench),
            "devices": list(self.devices),
            "complete": self.complete,
            "words": self.words,
        }


def identity_of(
    suite: str,
    plan: Sequence[str],
    rows: Iterable[TrainedCell],
    environments: Sequence[Mapping[str, Any]] = (),
) -> Identity:
    """The identity of the networks `rows` (of the table `cells`) of a suite's text and plan (cell keys).

    The fingerprint is a hash of the suite's text, of each network's key, checksum of its weights, status and
    errors, and of the fingerprints of the data; not of the order, the machine, the date or the measurements.

    Returns:
        The identity, with versions, devices and dates of what was trained.
    """
    wanted = set(plan)
    own = [row for row in rows if row.cell in wanted]
    networks = [
        [row.cell, row.weights_sha256, row.status, row.train_error, row.test_error]
        for row in own
        if row.status != "failed"
    ]
    data = sorted({fingerprint for row in own for fingerprint in _data(row)})
    fingerprint = content_key(
        {"suite": suite, "networks": sorted(networks, key=lambda n: str(n[0])), "data": data}
    )
    finished = [row.finished or 0.0 for row in own if row.status != "failed"]
    versions = [record.get("versions", {}).get("gapbench") for record in environments]
    return Identity(
        fingerprint=fingerprint,
        networks=len(own),
        planned=len(plan),
        gapbench=tuple(
            dict.fromkeys("a checkout" if v == "not installed" else str(v) for v in versions if v)
        ),
        devices=tuple(sorted({str(row.device) for row in own if row.device})),
        date=datetime.datetime.fromtimestamp(max(finished), datetime.UTC).isoformat(timespec="seconds")
        if finished
        else "",
        earlier=_earlier(suite, own),
    )


def identity_in(store: Store, trained: Sequence[TrainedCell] | None = None) -> Identity:
    """Which population an open run database holds; `trained` are its rows, where they were read before."""
    suite = store.meta("suite") or {}
    rows = store.cells() if trained is None else trained
    return identity_of(suite.get("text", ""), store.meta("plan") or (), rows, store.environments())


def _data(row: TrainedCell) -> list[str]:
    """Fingerprints of the data that a network was trained and tested on."""
    try:
        description = json.loads(row.description)
    except ValueError:  # said where the tables are read
        return []
    if not isinstance(description, dict):
        return []
    task = description.get("task")
    found = [task.get("fingerprint") if isinstance(task, dict) else None]
    if "imported" in description:
        found += [description.get("data"), description.get("test_data")]
    return [str(value) for value in found if value]


def _earlier(suite: str, rows: Sequence[TrainedCell]) -> str:
    networks = [
        [row.cell, row.weights_sha256, row.status, row.gap, row.test_error] for row in rows if row.measurable
    ]
    return content_key({"suite": suite, "networks": sorted(networks, key=lambda n: str(n[0]))})
