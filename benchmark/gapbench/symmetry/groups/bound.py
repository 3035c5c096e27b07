"""All groups of a network at one theta."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from gapbench.symmetry.detection.records import Detected
from gapbench.symmetry.groups.group import Group
from gapbench.symmetry.groups.mixing import Mixing
from gapbench.symmetry.groups.null_directions import ReaderNulls, WriterNulls
from gapbench.symmetry.groups.rescaling import Rescaling
from gapbench.symmetry.groups.shifts import Shifts
from gapbench.symmetry.shift_solution import ShiftSolution
from gapbench.symmetry.structure import Findings


@dataclass
class Bound:
    """The groups at one theta (d,)."""

    theta: Tensor
    rescaling: Rescaling
    shifts: Shifts
    writer_nulls: list[WriterNulls]
    reader_nulls: list[ReaderNulls]
    mixings: list[Mixing]

    def all(self) -> list[Group]:
        """All groups, rescalings and shifts first."""
        return [self.rescaling, self.shifts, *self.writer_nulls, *self.reader_nulls, *self.mixings]


def bind(theta: Tensor, findings: Findings, detected: Detected, solution: ShiftSolution) -> Bound:
    """The groups at `theta` (d,). Shifts keep the solution found for the theta that was looked at."""
    return Bound(
        theta,
        Rescaling(theta, findings, detected),
        Shifts(theta, findings, solution),
        [WriterNulls(theta, n) for n in detected.writer_nulls],
        [ReaderNulls(theta, n) for n in detected.reader_nulls],
        [Mixing(theta, s) for s in detected.spaces],
    )
