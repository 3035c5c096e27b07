"""What a population can decide: who survived, what the gap depends on, which differences can be told."""

from gapbench_leaderboard.scoring.decision.deciding import decide
from gapbench_leaderboard.scoring.decision.tree import Decision
from gapbench_leaderboard.scoring.decision.words import decision_text

__all__ = ["Decision", "decide", "decision_text"]
