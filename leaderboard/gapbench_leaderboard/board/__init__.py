"""Ranking, Markdown, CSV and a static page."""
