"""All families of a network at one theta."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from gapbench.symmetry.detection import Detected
from gapbench.symmetry.families import Family, Mixing, ReaderNulls, Rescaling, Shifts, WriterNulls
from gapbench.symmetry.shifts import ShiftSolution
from gapbench.symmetry.structure import Findings


@dataclass
class Bound:
    """The families at one theta (d,)."""

    theta: Tensor
    rescaling: Rescaling
    shifts: Shifts
    writer_nulls: list[WriterNulls]
    reader_nulls: list[ReaderNulls]
    mixings: list[Mixing]

    def all(self) -> list[Family]:
        return [self.rescaling, self.shifts, *self.writer_nulls, *self.reader_nulls, *self.mixings]


def bind(theta: Tensor, findings: Findings, detected: Detected, solution: ShiftSolution) -> Bound:
    """The families at `theta`. Shifts keep the solution found for the theta that was looked at."""
    return Bound(
        theta,
        Rescaling(theta, findings, detected),
        Shifts(theta, findings, solution),
        [WriterNulls(theta, n) for n in detected.writer_nulls],
        [ReaderNulls(theta, n) for n in detected.reader_nulls],
        [Mixing(theta, s) for s in detected.spaces],
    )
