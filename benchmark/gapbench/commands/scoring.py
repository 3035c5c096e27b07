"""Scores with how far they are: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

from gapbench.commands.showing import showing

if TYPE_CHECKING:
    import pandas as pd

    from gapbench.runs.run import Run


def shown_columns() -> int:
    """How wide tables may be: as the terminal, or 100 columns where there is none."""
    return shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 100


def scored_with_progress(result: Run) -> pd.DataFrame:
    """The scores of a run."""
    from gapbench.runs.scoring_time import scored

    with showing() as say:
        return scored(result, say)
