"""Measure many networks in few processes, for `check`: quick, and a process that ends is replaced."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from gapbench.sandbox.fleet import Fleet
from gapbench.sandbox.sandbox import Answer, Session

MOST_ENDS = 3
ENOUGH, FAMILIES = 6, 3
"""Answers, and families that they are of: where all of so many failed, the rest would, too."""
SIDES, OF_EACH_SIDE = 2, 2
"""From so many ends of the order networks are measured; of each, answers without which nothing is concluded: those
at one end are simple, those at the other are not."""
PRIOR = 10.0  # networks of average cost that what one typically takes counts for


class Expected:
    """How long the measurements ahead take: what the same network took before, else in proportion to its cost."""

    def __init__(
        self,
        times: Mapping[str, int],
        typical: float,
        at_once: int = 2,
        costs: Mapping[str, float] | None = None,
    ):
        """`times`: how often each network is measured; `at_once`: so many of them; `costs`: in any unit, of all."""
        self._ahead, self._typical, self._at_once = dict(times), typical, at_once
        self._took: dict[str, float] = {}
        mean = 1.0 if not costs else sum(costs[name] for name in times) / len(times)
        self._costs = {name: 1.0 if not costs else costs[name] / mean for name in times}
        self._lock = threading.Lock()

    def typically(self, seconds: float) -> None:
        """What a measurement typically takes is known better by now."""
        with self._lock:
            self._typical = seconds

    def heard(self, name: str, seconds: float) -> None:
        """One measurement of a network is done, and took so many seconds."""
        with self._lock:
            self._ahead[name] -= 1
            self._took[name] = seconds

    def seconds(self) -> float:
        """Until all are done."""
        with self._lock:
            known = PRIOR + sum(self._costs[name] for name in self._took)
            each = (PRIOR * self._typical + sum(self._took.values())) / known
            ahead = sum(
                count * self._took.get(name, each * self._costs[name]) for name, count in self._ahead.items()
            )
            return ahead / self._at_once


class Hopeless:
    """Whether a proxy has failed on everything so far, and often enough to stop."""

    def __init__(self) -> None:
        self._families: dict[str, int] = {}
        self._sides: dict[str, int] = {}
        self._worked = False
        self._lock = threading.Lock()

    def heard(self, family: str, answer: Answer, side: str) -> None:
        """One more answer, of a network of that family, from that end of the order."""
        with self._lock:
            self._families[family] = self._families.get(family, 0) + 1
            self._sides[side] = self._sides.get(side, 0) + 1
            self._worked = self._worked or answer.measurement.status != "failed"

    def __call__(self) -> bool:
        """Whether to stop."""
        with self._lock:
            enough = sum(self._families.values()) >= ENOUGH and len(self._families) >= FAMILIES
            both = sum(count >= OF_EACH_SIDE for count in self._sides.values()) == SIDES
            return enough and both and not self._worked


class Bench:
    """One side of the comparison: sessions one after the other, undisturbed or disturbed."""

    def __init__(
        self,
        fleet: Fleet,
        packed: Mapping[str, bytes],
        modules: Sequence[str],
        *,
        disturbed: bool,
        measured: Callable[[str, float], None] = lambda name, seconds: None,
    ):
        """`measured` hears of every answer: of which network, and the seconds that it took."""
        self.fleet, self.packed, self.disturbed, self._heard = fleet, packed, disturbed, measured
        self._modules = list(modules)
        self._largest = max(len(blob) for blob in packed.values())
        self._session: Session | None = None
        self.ends = 0

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        if self._session is not None:
            self._session.__exit__(None, None, None)

    def measure(self, name: str, packed: bytes, seed: int) -> Answer:
        """Measure a network in the present process, or in a new one if that has ended."""
        if self._session is None or not self._session.usable:
            if self._session is not None:
                self._session.__exit__(None, None, None)
            self._session = self.fleet.session(
                disturbed=self.disturbed, modules=self._modules, data_bytes=self._largest
            )
            self._session.__enter__()
        started = time.monotonic()
        answer = self._session.measure(packed, seed)
        if not self._session.usable:
            self.ends += 1
        self._heard(name, time.monotonic() - started)
        return answer

    def run(
        self,
        wanted: Sequence[tuple[str, int]],
        hopeless: Callable[[], bool] = lambda: False,
        answered: Callable[[str, Answer], None] = lambda name, answer: None,
    ) -> dict[tuple[str, int], Answer]:
        """Answers by network and seed; stops when too many processes did not survive, or `hopeless` says so."""
        answers: dict[tuple[str, int], Answer] = {}
        for name, seed in wanted:
            if self.ends >= MOST_ENDS or hopeless():
                break
            answers[name, seed] = self.measure(name, self.packed[name], seed)
            answered(name, answers[name, seed])
        return answers
