"""The same suite with seeds that nobody could know before: for networks that an author never saw."""

from __future__ import annotations

import json
import re
import secrets
import tomllib
from typing import Any

from gapbench.suites.suite import Suite, load_options, parse_suite


def fresh_suite(suite: Suite) -> str:
    """Text of a suite with the same grid, in which every network seed and every data seed is drawn anew.

    The data seed decides on the synthetic task's test set, on which training examples are used, on wrong
    labels and on rotation angles.

    Returns:
        A suite file's text.
    """
    table = tomllib.loads(suite.text)
    known = {c.seed for c in suite.configurations} | {
        load_options(c).get("seed", 0) for c in suite.configurations
    }
    drawn: dict[object, int] = {}

    def new(old: object) -> int:
        while old not in drawn:
            number = secrets.randbelow(2**31 - 1)
            if number not in known and number not in drawn.values():
                drawn[old] = number
        return drawn[old]

    for grid in table["grid"]:
        axes = grid["axes"]
        axes["seed"] = [new(("network", seed)) for seed in axes["seed"]]
        if "data_seed" in axes:
            axes["data_seed"] = [new(("data", seed)) for seed in axes["data_seed"]]
        else:
            options = grid.setdefault("task_options", {})
            options["data_seed"] = new(("data", options.get("data_seed", 0)))
    for calibration in table.get("measure", {}).get("calibration", ()):
        on = calibration.get("on", {})
        if "data_seed" in on:
            old = on["data_seed"]
            on["data_seed"] = [new(("data", seed)) for seed in (old if isinstance(old, list) else [old])]
    table["name"] = f"{suite.name}-fresh"
    text = toml_text(table)
    parse_suite(text, "with fresh seeds")
    return text


def toml_text(table: dict[str, Any]) -> str:
    """TOML of a suite's table: plain values first, then tables, then the grids."""
    lines = [_assigned(key, value) for key, value in table.items() if not _nested(value)]
    for key, value in table.items():
        if isinstance(value, dict):
            lines += ["", f"[{key}]", *(_assigned(name, content) for name, content in value.items())]
    for grid in table["grid"]:
        lines += ["", "[[grid]]"]
        lines += [_assigned(name, content) for name, content in grid.items() if name != "axes"]
        lines += ["[grid.axes]", *(_assigned(name, content) for name, content in grid["axes"].items())]
    return "\n".join(lines) + "\n"


def _assigned(name: str, value: object) -> str:
    """A key, quoted where it has to be, with its value."""
    key = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)
    return f"{key} = {toml_value(value)}"


def _nested(value: object) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(v, dict) for v in value))


def toml_value(value: object) -> str:
    """A value as TOML on one line, tables inline."""
    if isinstance(value, dict):
        return "{ " + ", ".join(_assigned(name, content) for name, content in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml_value(content) for content in value) + "]"
    if isinstance(value, str):
        return json.dumps(value)  # the escapes of JSON are TOML's too
    return json.dumps(value)
