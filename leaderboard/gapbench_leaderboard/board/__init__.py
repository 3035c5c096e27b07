"""Boards: the printed ranking, CSV, JSON, Markdown and a self-contained page. Imports no torch."""

from .building import build
from .terminal import ranking_text

__all__ = ["build", "ranking_text"]
