"""Public names of scoring: a population with its measurements, a researcher's own table, the ranking."""

from .population_scores import ranking, score_population
from .reading import read_table
from .scoring.accounting import left_out
from .scoring.baselines import MEASURED as MEASURED_BASELINES
from .scoring.baselines import NAMES as BASELINES
from .scoring.rows import COLUMNS
from .statistics.configurations import TableError
from .table import score_table

__all__ = [
    "BASELINES",
    "COLUMNS",
    "MEASURED_BASELINES",
    "TableError",
    "left_out",
    "ranking",
    "read_table",
    "score_population",
    "score_table",
]
