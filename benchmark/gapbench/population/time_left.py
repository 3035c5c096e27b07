"""How long the rest of a run will take, from what its networks took so far."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from gapbench.population.costs import by_width
from gapbench.population.plan import Cell
from gapbench.population.work import Guess
from gapbench.runs.records import StoredMeasurement, TrainedCell

KNOWN_SECONDS = 10.0
"""Seconds that pass as they are stated, for each worker, beside those that were seen: few tell little."""
FEW = 2
"""Networks of a task and family that tell how its costs follow the width."""
MOST = 16
"""Networks that guesses are compared with: counting the work of many takes long itself."""
Group = tuple[str, str]
"""Task and family."""


def group_of(cell: Cell) -> Group:
    """Task and family of a cell."""
    return cell.configuration.task, cell.configuration.family


class TimeLeft:
    """Predicts from the networks that are done what the others will cost: by task, family and width.

    Seconds that results state are not those that pass: proxies are charged for what they share, and workers start,
    wait and disturb each other. How many seconds pass for each that is stated is learned while the run goes on,
    without what is under way, and without the time until a worker is first heard of: it starts once.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        measurements: Mapping[str, int],
        workers: int,
        now: float,
        counted: Iterable[str] | None = None,
        work: Callable[[Cell], Guess | None] = lambda cell: None,
    ):
        """`measurements`: how many each cell is to have; `now` in seconds of some clock.

        Of the cells those `counted` are to be done, all if None; others may be added. `work` guesses what networks
        cost in comparison with each other, for tasks and families of which none, or a single one, is done.
        """
        self._work, self._guesses = work, dict[str, Guess | None]()
        self._cells = {cell.key: cell for cell in cells}
        self._group = {cell.key: group_of(cell) for cell in cells}
        self._width = {cell.key: cell.configuration.width for cell in cells}
        self._wanted = dict(measurements)
        self._counted = dict.fromkeys(self._group if counted is None else counted)
        self._workers = max(1, workers)
        self._began = now
        self._last = dict.fromkeys(range(self._workers), now)
        self._train: dict[str, float] = {}
        self._measure: dict[str, float] = defaultdict(float)
        self._measured: dict[str, int] = defaultdict(int)
        self._over: set[str] = set()
        self._stated = self._started = 0.0

    def known(self, cells: Iterable[TrainedCell], measurements: Iterable[tuple[str, float, int]]) -> None:
        """What was done before this session: it teaches what networks cost, not how fast this session is.

        `measurements`: cells with seconds and number of some of their measurements.
        """
        for row in cells:
            if row.cell in self._group:
                self._take_cell(row)
        for cell, seconds, count in measurements:
            if cell in self._group:
                self._take_measurements(cell, seconds, count)

    def heard(self, worker: int, now: float) -> None:
        """A worker said something: what it was at is done."""
        if worker not in self._last:
            idle = next((known for known in self._last if known < self._workers), None)
            if idle is not None:  # the first time that this worker is heard of
                del self._last[idle]
                self._started += now - self._began
        self._last[worker] = now

    def trained(self, row: TrainedCell) -> None:
        """A network was trained."""
        if row.cell in self._group:
            self._take_cell(row)
            self._stated += row.seconds or 0.0

    def measured(self, row: StoredMeasurement) -> None:
        """A proxy was measured."""
        if row.cell in self._group:
            self._take_measurements(row.cell, row.seconds or 0.0, 1)
            self._stated += row.seconds or 0.0

    def _take_cell(self, row: TrainedCell) -> None:
        if row.status == "failed":
            self._over.add(row.cell)
        self._train[row.cell] = row.seconds or 0.0
        if not row.measurable:
            self._over.add(row.cell)

    def _take_measurements(self, cell: str, seconds: float, count: int) -> None:
        self._measure[cell] += seconds
        self._measured[cell] += count

    def count(self, cells: Iterable[str]) -> None:
        """More cells are to be done."""
        self._counted |= dict.fromkeys(cells)

    def open(self) -> int:
        """How many of those that are counted are not done."""
        return sum(cell not in self._train or self._measurable(cell) for cell in self._counted)

    def groups_known(self) -> set[Group]:
        """Those of which a network is trained."""
        return {self._group[cell] for cell in self._train}

    def groups_begun(self) -> Counter[Group]:
        """How many networks of each are counted."""
        return Counter(self._group[cell] for cell in self._counted)

    def costs(self, now: float, cells: Sequence[str]) -> dict[str, float] | None:
        """Seconds of one worker until each of these cells is done, 0 for those that are; None if none is known."""
        whole = {
            cell: self._measure[cell]
            for cell in self._train
            if self._measured[cell] >= self._wanted.get(cell, 0)
        }
        train = self._predicted(self._train, [cell for cell in cells if cell not in self._train], 0)
        measure = self._predicted(whole, [cell for cell in cells if self._measurable(cell)], 1)
        if train is None or measure is None:
            return None
        rate, found = self._rate(now), dict.fromkeys(cells, 0.0)
        for cell, cost in train.items():
            found[cell] += rate * cost
        for cell, cost in measure.items():
            found[cell] += rate * cost * (1.0 - self._measured[cell] / self._wanted[cell])
        return found

    def seconds(self, now: float) -> float | None:
        """Seconds from `now` to the last result; None as long as nothing is known."""
        costs = self.costs(now, list(self._counted))
        if costs is None:
            return None
        at_work = sum(now - t for worker, t in self._last.items() if worker >= self._workers)
        least = 1.0 if self.open() else 0.0  # what is late is not done
        return max(least, (sum(costs.values()) - at_work) / self._workers)

    def _measurable(self, cell: str) -> bool:
        """Whether a cell has not all of its measurements, and can have them."""
        return cell not in self._over and self._measured[cell] < self._wanted.get(cell, 0)

    def _rate(self, now: float) -> float:
        """Seconds that pass for each that results state, without what is under way."""
        passed, under_way = self._workers * (now - self._began), sum(now - t for t in self._last.values())
        before = KNOWN_SECONDS * self._workers
        return (max(passed - under_way - self._started, 0.0) + before) / (self._stated + before)

    def guess(self, cell: str, part: int | None = None) -> float | None:
        """What a network costs in comparison with others, of training (`part` 0), of measuring (1), or of both."""
        if cell not in self._guesses:
            self._guesses[cell] = self._work(self._cells[cell])
        own = self._guesses[cell]
        if own is None:
            return None
        costs = own.train, own.measure * self._wanted.get(cell, 0)
        return sum(costs) if part is None else costs[part]

    def _ratio(self, known: Mapping[str, float], own: Group, part: int) -> float | None:
        """What networks of a task and family cost for each second that is guessed; None without guesses.

        Returns:
            That of others of it, else of its family, else of all.
        """
        for alike in (lambda group: group == own, lambda group: group[1] == own[1], lambda group: True):
            some = itertools.islice((cell for cell in known if alike(self._group[cell])), MOST)
            costs = [(known[cell], self.guess(cell, part)) for cell in some]
            ratios = [cost / guess for cost, guess in costs if guess and cost > 0]
            if ratios:
                return statistics.median(ratios)
        return None

    def _predicted(
        self, known: Mapping[str, float], wanted: Sequence[str], part: int
    ) -> dict[str, float] | None:
        """The costs of networks from those of others; None where nothing is known but something wanted."""
        if wanted and not known:
            return None
        points: dict[Group, list[tuple[float, float]]] = defaultdict(list)
        for cell, cost in known.items():
            points[self._group[cell]].append((self._width[cell], cost))
        asked: dict[Group, list[str]] = defaultdict(list)
        for cell in wanted:
            asked[self._group[cell]].append(cell)
        found: dict[str, float] = {}
        for group, cells in asked.items():
            own = points.get(group) or [p for other, ps in points.items() if other[1] == group[1] for p in ps]
            own = own or [(1.0, sum(known.values()) / len(known))]
            costs = (
                by_width(own, [self._width[cell] for cell in cells])
                if len(own) > 1
                else [own[0][1]] * len(cells)
            )
            # A power law through two noisy networks must not run away.
            most = 4.0 * max(cost for _, cost in own)
            found |= {
                cell: min(cost, most) if math.isfinite(cost) else most for cell, cost in zip(cells, costs)
            }
            ratio = self._ratio(known, group, part) if len(points.get(group, ())) < FEW else None
            guesses = {cell: self.guess(cell, part) for cell in cells} if ratio is not None else {}
            found |= {cell: guess * (ratio or 0.0) for cell, guess in guesses.items() if guess}
        return found
