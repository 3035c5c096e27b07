"""Tasks and families that a score is taken over, and the headline within them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gapbench_leaderboard.scoring.replicates import Replicates, mean_of
from gapbench_leaderboard.scoring.study import Study
from gapbench_leaderboard.statistics.grouped import equal_mean
from gapbench_leaderboard.statistics.infinitesimal import LinearPart
from gapbench_leaderboard.statistics.intervals import Sampling
from gapbench_leaderboard.statistics.resampling import MOST_DELETIONS
from gapbench_leaderboard.statistics.signs import Signs, weighted


@dataclass(frozen=True)
class Scope:
    """The task and the family that a score is taken over; empty strings mean all."""

    task: str = ""
    family: str = ""

    def mask(self, part: Replicates) -> NDArray[np.bool_]:
        """The networks of a study that belong to the scope."""
        if self.task and part.study.task != self.task:
            return np.zeros(part.study.size, dtype=bool)
        if not self.family:
            return np.ones(part.study.size, dtype=bool)
        if self.family not in part.study.family_names:
            return np.zeros(part.study.size, dtype=bool)
        own: NDArray[np.bool_] = part.study.family == part.study.family_names.index(self.family)
        return own


@dataclass
class StudySet:
    """The studies of all tasks for one target, with what depends on a scope alone."""

    parts: Sequence[Replicates]
    _linear: dict[Scope, LinearPart] = field(default_factory=dict)
    _sampling: dict[Scope, Sampling] = field(default_factory=dict)
    _headline: dict[tuple[str, Scope, bytes], NDArray[np.float64]] = field(default_factory=dict)

    @classmethod
    def of(cls, studies: Sequence[Study], replicates: int, seed: int) -> StudySet:
        """With `replicates` bootstrap samples, and with the deletions of the jackknife."""
        counts = [min(study.configurations, MOST_DELETIONS) for study in studies]
        before = [sum(counts[:position]) for position in range(len(studies))]
        return cls(
            [
                Replicates(study, replicates, seed, deleted_before=first, deleted=sum(counts))
                for study, first in zip(studies, before)
            ]
        )

    @property
    def families(self) -> list[str]:
        """The names of all families, sorted."""
        return sorted({name for part in self.parts for name in part.study.family_names if name})

    def scopes(self) -> list[Scope]:
        """All tasks together, each task, each family over all tasks, each family of each task."""
        found = [Scope(), *(Scope(part.study.task) for part in self.parts)]
        found += [Scope(family=name) for name in self.families]
        found += [
            Scope(part.study.task, name) for part in self.parts for name in part.study.family_names if name
        ]
        return found

    def inside(self, scope: Scope) -> list[Replicates]:
        """The studies that have networks in the scope."""
        return [part for part in self.parts if scope.mask(part).any()]

    def linear(self, scope: Scope) -> LinearPart:
        """The draws of the scope's configurations, for the infinitesimal jackknife."""
        if scope not in self._linear:
            draws = []
            for part in self.inside(scope):
                present = np.unique(part.study.configuration[scope.mask(part)])
                draws.append(part.draws[:, present])
            self._linear[scope] = LinearPart.of(draws)
        return self._linear[scope]

    def sampling(self, scope: Scope) -> Sampling:
        """Replicates and deletions of the scope's configurations, for the spread of intervals."""
        if scope not in self._sampling:
            numbers = [
                part.deletion[np.unique(part.study.configuration[scope.mask(part)])]
                for part in self.inside(scope)
                if part.deleted
            ]
            replicates = self.parts[0].replicates if self.parts else 0
            self._sampling[scope] = Sampling.of(replicates, numbers)
        return self._sampling[scope]

    def models(self, proxy: str, scope: Scope) -> int:
        """Networks of the scope that the proxy was measured on."""
        return sum(int((part.measured(proxy) & scope.mask(part)).sum()) for part in self.having(proxy))

    def common(self, first: str, second: str) -> int:
        """Networks that both proxies were measured on."""
        return sum(
            int((part.measured(first) & part.measured(second)).sum())
            for part in self.having(first)
            if second in part.study.proxies
        )

    def coverage(self, proxy: str, scope: Scope) -> float:
        """Fraction of the rankable networks of the scope that the proxy was measured on."""
        total = sum(int(scope.mask(part).sum()) for part in self.parts)
        return self.models(proxy, scope) / total if total else float("nan")

    def configurations(self, proxy: str, scope: Scope) -> int:
        """Configurations of the scope that the proxy was measured on."""
        return sum(
            len(np.unique(part.study.configuration[scope.mask(part) & part.measured(proxy)]))
            for part in self.having(proxy)
        )

    def having(self, proxy: str) -> list[Replicates]:
        """The studies that know the proxy."""
        return [part for part in self.parts if proxy in part.study.proxies]

    def headline(self, proxy: str, scope: Scope, other: str | None = None) -> NDArray[np.float64]:
        """tau-b within (problem, family): by pairs over the problems of a family, families equally, then tasks.

        With `other`, only networks that both proxies measured count. Families and tasks in which nothing can be
        ranked are left out of the mean; one that drops out of a replicate drops out of that replicate's mean.

        Returns:
            shape (entries,).
        """
        chosen = [part for part in self.having(proxy) if not scope.task or part.study.task == scope.task]
        if other is not None:
            chosen = [part for part in chosen if other in part.study.proxies]
        masks = [part.measured(proxy) for part in chosen]
        if other is not None:
            masks = [mask & part.measured(other) for mask, part in zip(masks, chosen)]
        key = (
            proxy,
            scope,
            b"|".join(part.study.task.encode() + mask.tobytes() for part, mask in zip(chosen, masks)),
        )
        if key not in self._headline:
            tasks = []
            for part, mask in zip(chosen, masks):
                found = part.headline(proxy, mask)
                family = family_slice(part, scope)
                tasks.append(equal_mean(found[family]))
            self._headline[key] = mean_of(tasks) if tasks else np.full(self.length, np.nan)
        return self._headline[key]

    def signs(self, proxy: str, scope: Scope, other: str | None = None) -> Signs | None:
        """The signs that the headline rests on; with `other` as in `headline`."""
        tasks = []
        for part in self.having(proxy):
            if (scope.task and part.study.task != scope.task) or (other and other not in part.study.proxies):
                continue
            mask = part.measured(proxy) if other is None else part.measured(proxy) & part.measured(other)
            names = part.study.family_names
            if scope.family and scope.family not in names:
                continue
            family = names.index(scope.family) if scope.family else None
            tasks.append(part.signs_within("problem", mask, family))
        return weighted(tasks)

    @property
    def length(self) -> int:
        """Length of all arrays of replicates."""
        return self.parts[0].entries if self.parts else 1


def family_slice(part: Replicates, scope: Scope) -> slice:
    """The rows of the scope's family in arrays of shape (families, ...)."""
    if not scope.family:
        return slice(None)
    if scope.family not in part.study.family_names:
        return slice(0, 0)
    position = part.study.family_names.index(scope.family)
    return slice(position, position + 1)
