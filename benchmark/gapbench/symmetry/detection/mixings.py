"""Channels that may be mixed by any invertible matrix."""

from __future__ import annotations

import numpy as np

from gapbench.symmetry.classes import Ids
from gapbench.symmetry.detection.meetings import signatures
from gapbench.symmetry.detection.records import Space
from gapbench.symmetry.detection.slots import Chain, slots_of
from gapbench.symmetry.interpreter import Interpreter


def mixing_spaces(
    run: Interpreter, representative: Ids, sign: np.ndarray, diagonal: np.ndarray, chains: dict[int, Chain]
) -> list[Space]:
    """Sets of channels that meet the same operations in the same roles, with all parameters that a mixing moves."""
    spaces = []
    multiplied = np.zeros(len(representative), bool)  # classes that meet a product of two activations
    for meeting in run.found.meetings:
        if meeting.role[0] == "product":
            multiplied[representative[meeting.variables]] = True
    for members in signatures(run, representative, sign).values():
        channels = np.array(sorted(r for r in members if r != 0 and not diagonal[r]), np.int64)
        if len(channels) < 2:
            continue
        slots = slots_of(run, representative, sign, channels, chains)
        if slots is not None:
            kind = "mixing of attention heads" if multiplied[channels].any() else "mixing of linear channels"
            spaces.append(
                Space(kind, space_name(run, representative, channels), "gl", channels, tuple(slots))
            )
    return spaces


def space_name(run: Interpreter, representative: Ids, channels: Ids) -> str:
    """The name of the first layer that writes one of the channels."""
    for use in run.found.linear:
        if np.isin(representative[use.writes], channels).any():
            return use.name
    return ""
