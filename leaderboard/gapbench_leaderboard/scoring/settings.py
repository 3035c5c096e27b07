"""What a scoring run computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Numbers of bootstrap replicates by cost, the seed, and threads."""

    replicates: int = 1000
    """For rank coefficients and calibration."""
    pair_replicates: int = 200
    """For mutual information, sign error, ceilings, precision and regret."""
    prediction_replicates: int = 50
    """For incremental information and transport."""
    seed: int = 0
    workers: int = 1
    said: Callable[[float], None] | None = None
    """Hears, between 0 and 1, how much of one target is done."""

    def __post_init__(self) -> None:
        for name in ("replicates", "pair_replicates", "prediction_replicates"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.workers < 1:
            raise ValueError(f"workers must be at least 1, not {self.workers}")
