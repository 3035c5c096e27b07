"""What a suite may ask to be recorded of the course of its trainings; see `gapbench.population.recording`."""

from __future__ import annotations

from typing import Literal, get_args

Record = Literal["none", "losses", "path"]
"""Nothing beyond the mini-batch losses; training losses and gradient noise on the way; these and checkpoints."""
RECORDS: tuple[str, ...] = get_args(Record)
NONE: Record = "none"
PATH: Record = "path"
