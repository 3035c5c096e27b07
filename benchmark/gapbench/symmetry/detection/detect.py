"""Evaluate what an interpretation found."""

from __future__ import annotations

import numpy as np

from gapbench.symmetry.detection.meetings import kinds_of, not_mixed, owners_of, roles_of, writers
from gapbench.symmetry.detection.mixings import mixing_spaces
from gapbench.symmetry.detection.records import Detected
from gapbench.symmetry.detection.rotations import rotations, streams_of
from gapbench.symmetry.detection.slots import chains_of
from gapbench.symmetry.detection.unseen import reader_nulls, writer_nulls
from gapbench.symmetry.interpreter import Interpreter
from gapbench.symmetry.structure import LinearUse


def detect(run: Interpreter) -> Detected:
    """Evaluate the findings of an interpretation."""
    found = run.found
    before, signs_before = run.scale.resolve()
    roles = roles_of(run, before)
    owners = owners_of(run, before)
    streams = streams_of(run, before, signs_before, roles)
    for variables in found.norm_only:
        run.scale.fix(variables)
    representative, sign = run.scale.resolve()
    result = Detected(representative, sign, classes=before, roles=roles, owners=owners)
    result.diagonal = not_mixed(run, before, norms=False)
    for use in writers(run):
        if not isinstance(use, LinearUse):
            result.others.update(int(r) for r in before[use.writes.reshape(-1)])
    diagonal = not_mixed(run, representative)
    chains = chains_of(run, before, roles, owners, diagonal, representative)
    mixed = mixing_spaces(run, representative, sign, diagonal, chains)
    result.spaces += mixed
    taken = np.concatenate([space.channels for space in mixed] + [np.zeros(0, np.int64)])
    result.spaces += rotations(run, before, streams, owners, chains)
    result.writer_nulls = writer_nulls(run, before, roles)
    result.reader_nulls = reader_nulls(run)
    result.kinds = kinds_of(run, representative)
    result.rescalable = representative
    result.representative = np.where(np.isin(representative, taken), 0, representative)
    return result
