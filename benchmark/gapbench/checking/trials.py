"""Measure many networks in few processes, for `check`: quick, and a process that ends is replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gapbench.sandbox.fleet import Fleet
from gapbench.sandbox.sandbox import Answer, Session

MOST_ENDS = 3


class Bench:
    """One side of the comparison: sessions one after the other, undisturbed or disturbed."""

    def __init__(
        self,
        fleet: Fleet,
        packed: Mapping[str, bytes],
        modules: Sequence[str],
        *,
        disturbed: bool,
        measured: Callable[[], None] = lambda: None,
    ):
        """`measured` hears of every answer."""
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

    def measure(self, packed: bytes, seed: int) -> Answer:
        """Measure in the present process, or in a new one if that has ended."""
        if self._session is None or not self._session.usable:
            if self._session is not None:
                self._session.__exit__(None, None, None)
            self._session = self.fleet.session(
                disturbed=self.disturbed, modules=self._modules, data_bytes=self._largest
            )
            self._session.__enter__()
        answer = self._session.measure(packed, seed)
        if not self._session.usable:
            self.ends += 1
        self._heard()
        return answer

    def run(self, wanted: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Answer]:
        """Answers by network and seed; stops when too many processes did not survive."""
        answers: dict[tuple[str, int], Answer] = {}
        for name, seed in wanted:
            if self.ends >= MOST_ENDS:
                break
            answers[name, seed] = self.measure(self.packed[name], seed)
        return answers
