"""Boards: the printed ranking, CSV, JSON, Markdown and a self-contained page. Imports no torch."""

from gapbench_leaderboard.board.building import build
from gapbench_leaderboard.board.terminal import ranking_text

__all__ = ["build", "ranking_text"]
