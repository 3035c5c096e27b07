"""Measure many networks in few processes, for `check`: quick, and a process that ends is replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gapbench.submission.fleet import Fleet
from gapbench.submission.handover import Handover
from gapbench.submission.sandbox import Answer, Session

MOST_ENDS = 3


class Bench:
    """One side of the comparison: sessions one after the other, undisturbed or disturbed."""

    def __init__(self, fleet: Fleet, networks: Mapping[str, Handover], *, disturbed: bool):
        self.fleet, self.networks, self.disturbed = fleet, networks, disturbed
        self.blobs = {name: given.packed() for name, given in networks.items()}
        self._modules = sorted({module for given in networks.values() for module in given.modules()})
        self._session: Session | None = None
        self.ends = 0

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        if self._session is not None:
            self._session.__exit__(None, None, None)

    def measure(self, given: Handover | bytes, seed: int, loss: str = "cross_entropy") -> Answer:
        """Measure in the present process, or in a new one if that has ended."""
        if self._session is None or not self._session.usable:
            if self._session is not None:
                self._session.__exit__(None, None, None)
            largest = max(len(blob) for blob in self.blobs.values())
            self._session = self.fleet.session(
                disturbed=self.disturbed, modules=self._modules, data_bytes=largest
            )
            self._session.__enter__()
        answer = self._session.measure(given, seed, loss)
        if not self._session.usable:
            self.ends += 1
        return answer

    def run(self, wanted: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Answer]:
        """Answers by network and seed; stops when too many processes did not survive."""
        answers: dict[tuple[str, int], Answer] = {}
        for name, seed in wanted:
            if self.ends >= MOST_ENDS:
                break
            answers[name, seed] = self.measure(self.blobs[name], seed, self.networks[name].loss)
        return answers
