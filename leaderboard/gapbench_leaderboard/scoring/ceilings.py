"""Ceilings that test sampling and seeds leave to any proxy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gapbench_leaderboard.scoring.replicates import Replicates
from gapbench_leaderboard.scoring.scope import StudySet
from gapbench_leaderboard.scoring.settings import Settings
from gapbench_leaderboard.statistics.ceiling import Ceilings, ceilings, reliability
from gapbench_leaderboard.statistics.grouped import GroupedTau, of_families
from gapbench_leaderboard.statistics.resampling import generator

NOISE_DRAWS = 1000


class CeilingTable:
    """Ceilings of every family of every task, computed once per target.

    Those of each (problem, family), by pairs over the problems of a family.
    """

    def __init__(self, studies: StudySet, settings: Settings) -> None:
        self.studies = studies
        self.length = min(settings.pair_replicates, settings.replicates) + 1
        self._relative: list[NDArray[np.float64]] = []
        self.by_part = [self._families(part, settings) for part in studies.parts]

    def _families(self, part: Replicates, settings: Settings) -> Ceilings:
        """Both ceilings of each family of a study, arrays of shape (families, length)."""
        study = part.study
        random = generator(settings.seed, "noise", study.task)
        noise = study.noise.draw(random, NOISE_DRAWS) if study.noise is not None else None
        every = np.ones(study.size, dtype=bool)
        groups, family = part.groups("problem", every), part.family_of("problem", every)
        draws = part.draws[: self.length, study.configuration]
        found = [
            ceilings(
                study.target[own],
                study.configuration[own],
                None if noise is None else noise[:, own],
                draws[:, own],
                random,
            )
            for own in groups.members
        ]
        self._relative.append(_relative(part, noise))
        pairs = np.stack([own.pairs()[: self.length] for own in groups.multiplicities]).astype(np.float64)
        tied = np.stack(groups.tied)[:, : self.length]
        weight = np.where(pairs > tied, pairs, 0.0)

        def pooled(name: str) -> NDArray[np.float64]:
            tau = np.stack([getattr(own, name) for own in found])
            known = np.where(np.isfinite(tau[:, :1]), weight, 0.0)
            return of_families(GroupedTau(groups.groups, tau, known), family, len(study.family_names))

        return Ceilings(pooled("network"), pooled("configuration"))

    def relative(self, part: Replicates) -> NDArray[np.float64]:
        """Correlation of measured and true target, over that of the original sample, in each deletion.

        By the square root of the reliability within (problem, family) (Spearman 1904); 1 for all other entries.

        Returns:
            shape (families, entries).
        """
        return self._relative[list(self.studies.parts).index(part)]

    def network(self, part: Replicates) -> NDArray[np.float64]:
        """Network ceiling of each family of a study in the original sample."""
        return self.by_part[list(self.studies.parts).index(part)].network[:, 0]


def _relative(part: Replicates, noise: NDArray[np.float64] | None) -> NDArray[np.float64]:
    study, problems = part.study, part.codes("problem")
    relative = np.ones((len(study.family_names), part.entries))
    deleting = part.multiplicities.matrix()[1 + part.replicates :]
    if noise is None or not len(deleting):
        return relative
    for number, _ in enumerate(study.family_names):
        own = np.flatnonzero(study.family == number)
        samples = np.concatenate([np.ones((1, len(own))), deleting[:, own]])
        share = reliability(study.target[own], noise[:, own], samples, problems[own])
        known = (share[1:] > 0) & (share[0] > 0)  # with a share of 0 the family is left out
        ratio = np.divide(share[1:], share[0], out=np.ones(len(deleting)), where=known)
        relative[number, 1 + part.replicates :] = np.sqrt(ratio)
    return relative
