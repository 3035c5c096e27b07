"""Which networks are trained in a budget of time: as many as fit, in an order of which every beginning is balanced.

How long a network takes is forecast from those that are done (`time_left`), and the forecast is corrected by how
many seconds really pass. What would not be done in time is not begun. Networks are let in by batches, of which each
may take a part of the time that is left: the first ones large, so that networks of one architecture are trained
together, the last ones small, when it is known best what still fits.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from gapbench.population.plan import Cell
from gapbench.population.time_left import Group, TimeLeft, group_of
from gapbench_base.durations import duration

BATCH = 0.25
"""Share of the time that is left that a batch may take. A network that takes such a share of all is a large one."""
AHEAD = 4
"""Rounds of all tasks and families by which others may be ahead of one of which nothing is known yet."""
LATEST = 1.05
"""At so many times the budget, scoring counted, whatever is still under way is given up."""
AT_ONCE = 64
"""Networks whose costs are forecast together."""
FIRST = 32
"""Networks of which the cheapest are looked for."""
UNSURE = 2.0
"""What an unknown task and family costs may be so many times more than is guessed."""
BESIDES = 0.1
"""Share of the budget that is too much to be left unused."""
BEYOND = 64
"""Rounds of all tasks and families in which one is looked for then."""
SHOWN = 8
"""Tasks and families of which it is said how many networks were left out."""


@dataclass(frozen=True)
class Budget:
    """So many `seconds` from `began` on (of the monotonic clock), scoring and all."""

    seconds: float
    began: float


class Admission:
    """Lets networks in. `now` is of the clock of the budget."""

    def __init__(
        self,
        budget: Budget,
        cells: Iterable[Cell],
        left: TimeLeft,
        scoring: Callable[[int], float],
        done: int,
    ):
        """Whom it lets in.

        Args:
            budget: when all is to be done.
            cells: that have something left to do, the most informative first.
            left: forecasts, of the networks that were let in.
            scoring: how many seconds it takes for so many networks.
            done: networks that have nothing left to do.
        """
        self.budget, self._left, self._scoring, self._done = budget, left, scoring, done
        self._cells = iter(enumerate(cells))
        self._waiting: list[tuple[int, Cell]] = []
        self._begun: set[str] = set()
        self._groups: set[Group] = set()
        self._since: dict[Group, float] = {}

    @property
    def count(self) -> int:
        """Networks that are done or let in."""
        return self._done + len(self._begun)

    def over(self, now: float) -> bool:
        """Whether it is so late that what is under way must be given up."""
        return self._room(now, LATEST, 0) <= 0

    def more(self, now: float, workers: int) -> list[str]:
        """The networks that are to be begun now; none where nothing more fits, or enough is under way."""
        base = self._left.seconds(now)
        ahead = [cell.key for _, cell in itertools.islice(self._candidates(), workers)]
        if base is None or self._left.costs(now, ahead) is None:  # nothing is known: one for each worker
            ahead = self._cheapest(max(0, workers - self._left.open()))
        else:
            ahead = self._fitting(now, base, workers)
            if not ahead and not self._left.open():
                ahead = self._besides(now)
        self.begin(ahead, now)
        return ahead

    def begin(self, cells: Collection[str], now: float) -> None:
        """These are begun."""
        self._begun.update(cells)
        self._left.count(cells)
        for group in self._left.groups_begun():
            self._since.setdefault(group, now)
        self._waiting = [entry for entry in self._waiting if entry[1].key not in self._begun]

    def seconds(self, now: float) -> float | None:
        """Seconds from `now` to the end of all, as forecast; None as long as nothing is known."""
        found = self._left.seconds(now)
        if next(self._candidates(), None) is not None:
            return self._room(now, 1.0, 0) + self._scoring(self.count)
        return None if found is None else found + self._scoring(self.count)

    def _room(self, now: float, share: float, more: int) -> float:
        """Seconds for training and measuring until a share of the budget is used up, if so many more are let in."""
        return self.budget.began + share * self.budget.seconds - now - self._scoring(self.count + more)

    def _fitting(self, now: float, base: float, workers: int) -> list[str]:
        """The next batch: the first of those that wait, as long as they fit.

        Where one has no room, others behind it are looked at, but no more than there are tasks and families, so
        that who is let in for it is ahead by one network. Of a task and family of which none is done yet no more
        networks are let in than give every worker something to do, and others may be ahead by a few. Nobody waits
        for a task and family of which a network takes a large part of the budget.

        Returns:
            Their keys.
        """
        known, begun = self._left.groups_known(), self._left.groups_begun()
        chosen: list[str] = []
        added, last, large = 0.0, math.inf, BATCH * self.budget.seconds
        for place, cell, cost in self._costed(now):
            if place > last:
                break
            group, groups = group_of(cell), len(self._groups)
            room = self._room(now, 1.0, len(chosen) + 1)
            if group not in known and self._left.guess(cell.key) is not None:
                cost *= UNSURE
            if group not in known and begun[group] >= -(-workers // groups):
                if now - self._since.get(group, now) < large:
                    last = min(last, place + max(AHEAD * groups, workers))
            elif base + added / workers + cost > room:  # it begins when the others are done, at the latest
                if cost < large:
                    last = min(last, place + groups)
            elif len(chosen) >= workers and base + added / workers > BATCH * room:
                break
            else:
                chosen.append(cell.key)
                begun[group] += 1
                added += cost
        return chosen

    def _cheapest(self, count: int) -> list[str]:
        """So many of the first that wait: where the first take long, nothing would be known for long.

        Returns:
            Those that are guessed to cost least, each of another task and family as far as there are others.
        """
        some = [cell for _, cell in itertools.islice(self._candidates(), max(FIRST, count))]
        by_guess = sorted(some, key=lambda cell: self._left.guess(cell.key) or 0.0)  # stable
        firsts = {group_of(cell): cell.key for cell in reversed(by_guess)}
        chosen = [cell.key for cell in by_guess if firsts[group_of(cell)] == cell.key]
        return [*chosen, *(cell.key for cell in by_guess if cell.key not in chosen)][:count]

    def _besides(self, now: float) -> list[str]:
        """Where nothing has a place in the balance any more and much time is left, one that has not.

        Returns:
            The first that fits; else of tasks and families of which nothing is known the cheapest that may fit.
        """
        known, room = self._left.groups_known(), self._room(now, 1.0, 1)
        if room < BESIDES * self.budget.seconds:
            return []
        some = list(itertools.islice(self._costed(now), BEYOND * len(self._groups)))
        fitting = [cell.key for _, cell, cost in some if group_of(cell) in known and cost <= room]
        unsure = [(cost, cell.key) for _, cell, cost in some if group_of(cell) not in known]
        least = min(unsure, default=(math.inf, ""))
        return fitting[:1] or ([least[1]] if least[0] <= room else [])

    def _candidates(self) -> Iterator[tuple[int, Cell]]:
        """Those that wait, with their places in the order."""
        for index in itertools.count():
            if index == len(self._waiting):
                entry = next(self._cells, None)
                if entry is None:
                    return
                self._groups.add(group_of(entry[1]))
                self._waiting.append(entry)
            if self._waiting[index][1].key not in self._begun:
                yield self._waiting[index]

    def _costed(self, now: float) -> Iterator[tuple[int, Cell, float]]:
        """The same with the seconds of one worker that each is forecast to take."""
        candidates = self._candidates()
        while some := list(itertools.islice(candidates, AT_ONCE)):
            costs = self._left.costs(now, [cell.key for _, cell in some]) or {}
            yield from ((place, cell, costs.get(cell.key, 0.0)) for place, cell in some)


def left_out(budget: Budget, cells: Sequence[Cell], trained: Collection[str], unmeasured: int) -> str:
    """What a budget had no room for, in words.

    Args:
        budget: that was given.
        cells: all that were asked for.
        trained: keys of those that are trained now.
        unmeasured: of those, how many lack measurements.

    Returns:
        A text for a person.
    """
    missing = Counter(group_of(cell) for cell in cells if cell.key not in trained)
    count = missing.total()
    told = f"Budget of {duration(budget.seconds)}: {len(cells) - count} of {len(cells)} networks are trained"
    if not count and not unmeasured:
        return f"{told}, nothing is left out."
    named = [f"{number} of {task}, {family}" for (task, family), number in missing.most_common(SHOWN)]
    if len(missing) > SHOWN:
        named.append(f"{count - sum(number for _, number in missing.most_common(SHOWN))} others")
    parts = [f"{count} networks ({'; '.join(named)})"] if count else []
    parts += [f"measurements on {unmeasured} networks"] if unmeasured else []
    return f"{told}. Left out: {' and '.join(parts)}. The same command without the budget does the rest."
