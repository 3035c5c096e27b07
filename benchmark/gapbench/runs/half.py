"""What a run says of itself whose weights were rounded to half precision: it is another population than before."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gapbench_base.errors import GapbenchError
from gapbench_base.validation import validated

if TYPE_CHECKING:
    from gapbench.runs.store import Store

META = "half"
"""Its name in the run's database."""


@dataclass(frozen=True)
class Half:
    """How weights were rounded.

    Attributes:
        of: fingerprint of the population with its full weights.
        networks: whose weights are rounded: those that proxies are measured on.
        compared: labels whose scores were compared.
        share: no score moved by more than this share of its standard error.
        largest: the largest share that was found.
    """

    of: str
    networks: int
    compared: tuple[str, ...]
    share: float
    largest: float

    @property
    def words(self) -> str:
        """For readers of its board."""
        return (
            f"Half precision: the weights of {self.networks} networks are rounded, so this is not the population "
            f"{self.of}, of which it was made. Gaps, and the values of the suite's proxies, are those of the full "
            "weights; what is submitted here is measured on the rounded ones. By rounding, no score of "
            f"{', '.join(self.compared)} moved by more than {self.share:g} of its standard error when it was "
            f"packed (at most {self.largest:.2g})."
        )


def half_in(store: Store) -> Half | None:
    """What an open run says of rounded weights; None where they are whole."""
    content = store.meta(META)
    return None if content is None else validated(content, Half, f"The run database {store.path}, half")


def refuse_half(store: Store, folder: Path) -> None:
    """Raise `GapbenchError` for a run with rounded weights, beside which nothing may be trained or measured."""
    found = half_in(store)
    if found is not None:
        raise GapbenchError(
            f"{folder} holds weights in half precision, of the population {found.of}: networks that are trained "
            "now, and values of the suite's proxies, would not belong to them. Its board, submissions and "
            "verifications work; to train or measure more, take a run with the full weights. Nothing was changed."
        )
