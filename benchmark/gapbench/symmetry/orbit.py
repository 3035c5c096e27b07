"""The groups that act on a network, as detected at its present parameters; the orbit is what they reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from torch import Tensor, nn

from gapbench.computation.tracing import trace
from gapbench.symmetry.detection.detect import detect
from gapbench.symmetry.detection.records import Detected
from gapbench.symmetry.groups.bound import Bound, bind
from gapbench.symmetry.interpreter import Interpreter
from gapbench.symmetry.operators import HANDLERS
from gapbench.symmetry.parameters import flat_parameters
from gapbench.symmetry.rank import shift_kinds
from gapbench.symmetry.shift_solution import ShiftSolution, solve
from gapbench.symmetry.structure import Findings

TRACED = 2  # examples whose computation is recorded; certificates look at more


@dataclass
class Orbit:
    """What is known of the groups that act on `network`, in eval mode, before they are certified and counted.

    `example` (n, ...) are the inputs looked at; `findings` and `detected` what its computation showed, `solution`
    which shifts are free, `bound` the groups at the present parameters. `uncovered` counts the operations that were
    not understood; `dropped` lists kinds whose certificate failed, `removed` the keys of the groups taken out.
    """

    network: nn.Module
    example: Tensor
    findings: Findings
    detected: Detected
    solution: ShiftSolution
    bound: Bound
    uncovered: dict[str, int]
    logit_shift: bool
    dropped: list[str] = field(default_factory=list)
    removed: frozenset[tuple[str, bytes]] = frozenset()


def orbit_of(network: nn.Module, example: Tensor, logit_shift: bool, theta: Tensor | None = None) -> Orbit:
    """The orbit of `network` as seen on the first `TRACED` of the `example` inputs (n, ...).

    `theta` (d,) are its parameters in float64, where they are at hand.

    Returns:
        The orbit, not yet certified.
    """
    recorded = trace(network, example[:TRACED])
    offsets, start = {}, 0
    for name, p in network.named_parameters():
        offsets[name] = (start, p.shape)
        start += p.numel()
    buffers = {name: b.detach().cpu() for name, b in network.named_buffers()}
    theta = flat_parameters(network) if theta is None else theta
    run = Interpreter(recorded, HANDLERS, offsets, buffers, theta.cpu().numpy(), logit_shift)
    if recorded.hidden:
        run.note("memory that is aliased in a way that hides the data flow")
        findings, detected = (
            Findings(uncovered=run.found.uncovered),
            Detected(np.zeros(1, np.int64), np.zeros(1)),
        )
        solution = solve(run.shift)
    else:
        findings = run.run()
        detected = detect(run)
        solution = solve(run.shift)
        if solution.unsolved:
            findings.uncovered["shift relations too large to solve"] = solution.unsolved
    bound = bind(theta, findings, detected, solution)
    return Orbit(
        network,
        example,
        findings,
        detected,
        solution,
        bound,
        dict(findings.uncovered),
        logit_shift,
    )


def kinds(orbit: Orbit) -> list[str]:
    """All kinds of groups present."""
    bound = orbit.bound
    found = [orbit.detected.kinds[int(v)] for v in bound.rescaling.variables]
    found += shift_kinds(bound.shifts, orbit.findings)
    found += [n.null.kind for n in bound.writer_nulls]
    found += ["null direction of readers" for _ in bound.reader_nulls]
    found += [m.space.kind for m in bound.mixings]
    return list(dict.fromkeys(found))


def _key(kind: str, indices: Sequence[np.ndarray]) -> tuple[str, bytes]:
    """A name for a group that does not depend on the point at which it was found."""
    return kind, b"".join(np.sort(index, axis=None).tobytes() for index in indices)


def keys_of(orbit: Orbit) -> dict[str, list[tuple[str, bytes]]]:
    """Keys of all mixings and null directions, which are the same at every point of the orbit."""
    detected = orbit.detected
    return {
        "spaces": [_key("space", [s.index for s in space.slots]) for space in detected.spaces],
        "writer_nulls": [_key("writer", [n.index]) for n in detected.writer_nulls],
        "reader_nulls": [_key("reader", [n.index]) for n in detected.reader_nulls],
    }


def remove(orbit: Orbit, removed: frozenset[tuple[str, bytes]]) -> None:
    """Take groups out of a detection: null directions and mixings singly, the rest kind by kind."""
    if not removed:
        return
    detected = orbit.detected
    for name, keys in keys_of(orbit).items():
        kept = [item for item, key in zip(getattr(detected, name), keys) if key not in removed]
        setattr(detected, name, kept)
    gone = {kind for kind, what in removed if what == b""}
    bad = [v for v, kind in detected.kinds.items() if kind in gone]
    if bad:
        for name in ("representative", "rescalable"):
            values = getattr(detected, name)
            setattr(detected, name, np.where(np.isin(values, bad), 0, values))
    kinds = shift_kinds(orbit.bound.shifts, orbit.findings)
    keep = np.array([kind not in gone for kind in kinds], bool)
    if not keep.all():
        orbit.solution = replace(orbit.solution, values=orbit.solution.values[:, keep], count=int(keep.sum()))
    orbit.removed |= removed
    orbit.bound = bind(orbit.bound.theta, orbit.findings, detected, orbit.solution)
