"""What a suite may ask to be recorded of the course of its trainings; see `gapbench.population.recording`."""

from __future__ import annotations

from typing import Literal

Record = Literal["none", "losses", "path"]
"""Nothing beyond the mini-batch losses; training losses and gradient noise on the way; these and checkpoints."""
NONE: Record = "none"
PATH: Record = "path"
