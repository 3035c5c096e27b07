"""What a population can decide: who survived, what the gap depends on, which differences can be told."""

from gapbench_leaderboard.scoring.decision.deciding import decide, planned_to_rank
from gapbench_leaderboard.scoring.decision.tree import PopulationDecision
from gapbench_leaderboard.scoring.decision.words import decision_text

__all__ = ["PopulationDecision", "decide", "decision_text", "planned_to_rank"]
