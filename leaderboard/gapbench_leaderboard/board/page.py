"""The page: one HTML file with its style, its scripts and the board's data inside."""

from __future__ import annotations

import html
from importlib.resources import files

SCRIPTS = (
    "text.js",
    "data.js",
    "elements.js",
    "scales.js",
    "ranking.js",
    "head.js",
    "detail.js",
    "scatter.js",
    "heatmap.js",
    "decision.js",
    "compare.js",
    "cost.js",
    "agreement.js",
    "downloads.js",
    "exporting.js",
    "page.js",
)


def page_text(title: str, data: str) -> str:
    """The page for data as written by `document.json_text`."""
    script = "\n".join(_asset(name) for name in SCRIPTS)
    parts = {
        "{{title}}": html.escape(title),
        "{{style}}": _asset("style.css"),
        "{{data}}": data,
        "{{script}}": f'(() => {{\n"use strict";\n{script}\n}})();',
    }
    text = _asset("page.html")
    before = ""
    for key, value in parts.items():  # in the order of the template, so that no value is searched for keys
        head, _, text = text.partition(key)
        before += head + value
    return before + text


def _asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")
