"""Ceilings that test sampling and seeds leave to any proxy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gapbench_leaderboard.scoring.replicates import Replicates
from gapbench_leaderboard.scoring.scope import StudySet
from gapbench_leaderboard.scoring.settings import Settings
from gapbench_leaderboard.statistics.ceiling import Ceilings, ceilings, reliability
from gapbench_leaderboard.statistics.resampling import generator

NOISE_DRAWS = 1000


class CeilingTable:
    """Ceilings of every family of every task, computed once per target."""

    def __init__(self, studies: StudySet, settings: Settings) -> None:
        self.studies = studies
        self.length = min(settings.pair_replicates, settings.replicates) + 1
        self._relative: list[NDArray[np.float64]] = []
        self.by_part = [self._families(part, settings) for part in studies.parts]

    def _families(self, part: Replicates, settings: Settings) -> list[Ceilings]:
        study = part.study
        random = generator(settings.seed, "noise", study.task)
        noise = study.noise.draw(random, NOISE_DRAWS) if study.noise is not None else None
        draws = part.draws[: self.length, study.configuration]
        deleting = part.multiplicities.matrix()[1 + part.replicates :]
        relative = np.ones((len(study.family_names), part.entries))
        found = []
        for number, _ in enumerate(study.family_names):
            own = np.flatnonzero(study.family == number)
            if noise is not None and len(deleting):
                samples = np.concatenate([np.ones((1, len(own))), deleting[:, own]])
                share = reliability(study.target[own], noise[:, own], samples)
                known = (share[1:] > 0) & (share[0] > 0)  # with a share of 0 the family is left out
                ratio = np.divide(share[1:], share[0], out=np.ones(len(deleting)), where=known)
                relative[number, 1 + part.replicates :] = np.sqrt(ratio)
            found.append(
                ceilings(
                    study.target[own],
                    study.configuration[own],
                    None if noise is None else noise[:, own],
                    draws[:, own],
                    random,
                )
            )
        self._relative.append(relative)
        return found

    def relative(self, part: Replicates) -> NDArray[np.float64]:
        """Correlation of measured and true target, over that of the original sample, in each deletion.

        By the square root of the reliability (Spearman 1904); 1 for all other entries.

        Returns:
            shape (families, entries).
        """
        return self._relative[list(self.studies.parts).index(part)]

    def network(self, part: Replicates) -> NDArray[np.float64]:
        """Network ceiling of each family of a study in the original sample."""
        ceiling = self.by_part[list(self.studies.parts).index(part)]
        return np.array([family.network[0] for family in ceiling])
