"""Which operations meet each class of variables, and in which roles."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from gapbench.symmetry.classes import Ids, distinct
from gapbench.symmetry.interpreter import Interpreter
from gapbench.symmetry.structure import Additive, BatchNormUse, LinearUse, NormUse, ScaleUse


def roles_of(run: Interpreter, representative: Ids) -> dict[int, set[str]]:
    """Representative -> names of the operations that meet its class."""
    roles: dict[int, set[str]] = defaultdict(set)
    for meeting in run.found.meetings:
        for r in distinct(representative[meeting.variables]):
            roles[int(r)].add(str(meeting.role[0]))
    return roles


def owners_of(run: Interpreter, representative: Ids) -> dict[int, int]:
    """Representative -> number of parameters and layers that write its class."""
    owners: dict[int, int] = defaultdict(int)
    for use in writers(run):
        for r in representative[use.writes.reshape(-1)]:
            owners[int(r)] += 1
    return owners


def writers(run: Interpreter) -> list[LinearUse | ScaleUse | BatchNormUse | NormUse | Additive]:
    """Everything that gives an activation variables of its own."""
    found = run.found
    return [*found.linear, *found.scales, *found.batch_norms, *found.norms, *found.additive]


def not_mixed(run: Interpreter, representative: Ids, norms: bool = True) -> np.ndarray:
    """Which classes may be rescaled but not mixed; without the outputs of normalisations if not `norms`."""
    marked = np.zeros(len(representative), bool)
    for variables in run.found.diagonal + (run.found.norm_diagonal if norms else []):
        marked[representative[variables]] = True
    return marked


def signatures(run: Interpreter, representative: Ids, sign: np.ndarray) -> dict[bytes, list[int]]:
    """Signature -> classes that meet the same operations in the same roles and with the same signs."""
    classes, meetings = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for number, meeting in enumerate(run.found.meetings):
        codes = distinct(representative[meeting.variables] * 3 + sign[meeting.variables] + 1)
        classes.append(codes // 3)
        meetings.append(number * 3 + codes % 3)
    of, met = np.concatenate(classes), np.concatenate(meetings)
    order = np.argsort(of, kind="stable")
    of, met = of[order], met[order]
    groups: dict[bytes, list[int]] = defaultdict(list)
    starts = np.flatnonzero(np.concatenate([[True], of[1:] != of[:-1]])) if len(of) else of
    for start, stop in zip(starts, [*starts[1:], len(of)]):
        groups[met[start:stop].tobytes()].append(int(of[start]))
    return groups


def grouped(values: Ids, channels: Ids, where: np.ndarray | None = None) -> np.ndarray | None:
    """(n, r) positions of each channel among `values`, in order; None if channels occur unequally often."""
    if len(values) == 0 or values.max() < channels[0] or values.min() > channels[-1]:
        return np.zeros((len(channels), 0), np.int64)
    place = np.searchsorted(channels, values)
    hit = channels[np.minimum(place, len(channels) - 1)] == values
    if where is not None:
        hit = hit & where
    positions = np.flatnonzero(hit)
    if not len(positions):
        return np.zeros((len(channels), 0), np.int64)
    order = np.argsort(values[positions], kind="stable")
    if len(positions) % len(channels):
        return None
    table = positions[order].reshape(len(channels), -1)
    if (values[table] != channels[:, None]).any():
        return None
    return table


def kinds_of(run: Interpreter, representative: Ids) -> dict[int, str]:
    """Class -> what kind of rescaling it is."""
    kinds = {int(r): "rescaling of units" for r in distinct(representative)}
    norms: list[BatchNormUse | NormUse] = [*run.found.batch_norms, *run.found.norms]
    for norm in norms:
        kinds.update({int(r): "output scale of normalisations" for r in representative[norm.writes]})
    for batch in run.found.batch_norms:
        kinds.update({int(r): "input scale of batch normalisations" for r in representative[batch.reads]})
    return kinds
