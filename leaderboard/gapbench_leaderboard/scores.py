"""Public names of scoring: a population with its measurements, a researcher's own table, the ranking."""

from gapbench_leaderboard.intake.reading import read_table
from gapbench_leaderboard.scoring.accounting import left_out
from gapbench_leaderboard.scoring.baselines import MEASURED as MEASURED_BASELINES
from gapbench_leaderboard.scoring.baselines import NAMES as BASELINES
from gapbench_leaderboard.scoring.decision import PopulationDecision, decide, decision_text, planned_to_rank
from gapbench_leaderboard.scoring.population_scores import ranking, score_population
from gapbench_leaderboard.scoring.rows import COLUMNS
from gapbench_leaderboard.scoring.table import score_table
from gapbench_leaderboard.statistics.configurations import TableError

__all__ = [
    "BASELINES",
    "COLUMNS",
    "MEASURED_BASELINES",
    "PopulationDecision",
    "TableError",
    "decide",
    "decision_text",
    "left_out",
    "planned_to_rank",
    "ranking",
    "read_table",
    "score_population",
    "score_table",
]
