"""The page of the suite's file is that of its reader: each key loads as documented, and says what it may be."""

import re
import tomllib

import pytest

from gapbench.submission.fresh import toml_value
from gapbench.suites.file import SPECIAL_AXES
from gapbench.suites.suite import load_suite
from gapbench_base.errors import GapbenchError
from script import ROOT, script

PAGE = ROOT / "docs" / "suites.md"


def minimal():
    return {
        "name": "mine",
        "version": 1,
        "grid": [
            {
                "task": "separable",
                "axes": {
                    "family": ["plain/mlp"],
                    "width": [0.5, 1.0, 2.0],
                    "batch_size": [10, 20],
                    "seed": [0],
                },
            }
        ],
    }


def rows():
    """(section, key, values, assignments) of every row of the tables of keys."""
    section, found = "", []
    for line in PAGE.read_text().splitlines():
        if line.startswith("#"):
            section = line.strip("# ").replace("`", "")
        cells = line.strip("|").split(" | ")
        if line.startswith("| `") and len(cells) == 5 and section != "Families":
            values = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", cells[2]).strip().replace("`", "")
            table = tomllib.loads("\n".join(re.findall(r"`([^`]*)`", cells[4])))
            found.append((section, cells[0].strip("` "), values, table))
    return found


ROWS = rows()
TASKS = [section for section, key, *_ in ROWS if key == "train_size"]


def test_the_page_is_up_to_date():
    assert script("suites_docs").page() == PAGE.read_text(), "python scripts/suites_docs.py"


def test_every_section_has_its_keys():
    named = {section: [key for other, key, *_ in ROWS if other == section] for section, *_ in ROWS}
    assert named["Top level"] == ["name", "version", "grid", "summary", "record", "training", "measure"]
    assert {"sample", "when", "arm"} <= set(named["[[grid]]"])
    assert named["[[grid.when]]"] == ["on", "set", "skip"]
    assert named["[[measure.calibration]]"] == ["set", "on"]
    assert named["[grid.axes]"] == list(SPECIAL_AXES)
    assert {"train_size", "label_noise", "data_seed"} == set(named["Options of tasks"])
    assert {"spectrum", "teacher", "margin"} <= set(named["separable"])
    assert len(named["[training]"]) == 22
    assert all(len(set(row[3])) >= 1 and row[1] in row[3] for row in ROWS)


def placed(section, key, table, how="axis"):
    """The minimal suite with a documented assignment."""
    suite = minimal()
    grid = suite["grid"][0]
    value, beside = table[key], {k: v for k, v in table.items() if k != key}
    if section == "Top level":
        suite |= table
    elif section == "[measure]":
        suite["measure"] = table
    elif section == "Entries of proxies":
        suite["measure"] = {"proxies": [table]}
    elif section == "[[measure.calibration]]":
        suite["measure"] = {"calibration": [table]}
    elif section == "[[grid]]":
        grid |= table
    elif section == "[[grid.when]]":
        grid["when"] = [table]
    elif section == "Ranges":
        grid |= {"sample": 4, "axes": grid["axes"] | {"learning_rate": {"range": [0.01, 0.1]} | table}}
    elif section in ("[training]", "[grid.axes]"):
        grid["axes"].pop(key if key != "family" else "", None)
        first = value[0] if isinstance(value, list) and value else value
        if how == "axis":
            grid |= {"axes": grid["axes"] | {key: value}, "training": beside}
        elif how == "suite":
            suite["training"] = beside | {key: first}
        elif how == "grid":
            grid["training"] = beside | {key: first}
        else:
            grid |= {"when": [{"on": {"width": 0.5}, "set": beside | {key: first}}]}
    else:
        grid["task"] = "separable" if section == "Options of tasks" else section
        if how == "axis":
            grid["axes"][key] = value
        else:
            grid["task_options"] = {key: value[0] if isinstance(value, list) and value else value}
    return suite


def loaded(tmp_path, suite):
    file = tmp_path / "mine.toml"
    file.write_text("\n".join(f"{key} = {toml_value(value)}" for key, value in suite.items()))
    return load_suite(file)


def ways(section):
    if section == "[training]":
        return ("axis", "suite", "grid", "when")
    structured = section.startswith("[") or section in ("Top level", "Ranges", "Entries of proxies")
    return ("axis",) if structured else ("axis", "fixed")


TRIED = [
    pytest.param(section, key, values, table, how, id=f"{section}-{key}-{how}")
    for section, key, values, table in ROWS
    for how in ways(section)
]


@pytest.mark.parametrize(("section", "key", "values", "table", "how"), TRIED)
def test_every_documented_key_is_taken_as_documented(section, key, values, table, how, tmp_path):
    found = loaded(tmp_path, placed(section, key, table, how))
    if how == "axis" and section == "[training]":
        assert key in found.axes
    assert found.configurations


def wrong_values(key, values):
    """What the words of the documentation rule out."""
    if key in ("family", "proxy", "task"):
        return ["nothing"]
    if key in ("name", "arm", "label"):
        return ["a\nb"]
    if values.startswith("one of"):
        return ["nothing"]
    if "number" in values and "list" not in values and "two numbers" not in values:
        least, most, below = (
            re.search(rf"{word} ([\d.]+)", values) for word in ("at least", "at most", "below")
        )
        found = ["text", True]
        found += [1.5] if "whole" in values else []
        found += [0, -1] if "positive" in values else []
        found += [int(least[1]) - 1] if least else []
        found += [int(float(most[1])) + 1] if most else []
        found += [int(below[1])] if below and "^" not in values else []
        return found
    if "true or false" in values or values.startswith(("a list", "a table", "two numbers")):
        return ["text", 3]
    return [[3]]


PLACES = {
    "Top level": "",
    "[training]": "[training]|grid 1, (training|axes|when 1, set)",
    "[measure]": "measure",
    "[[measure.calibration]]": "measure",
    "Entries of proxies": r"\[measure\]",
}


@pytest.mark.parametrize(("section", "key", "values", "table", "how"), TRIED)
def test_a_wrong_value_is_refused_with_key_place_and_what_is_allowed(
    section, key, values, table, how, tmp_path
):
    structured = ways(section) == ("axis",) and section != "[grid.axes]"
    for wrong in wrong_values(key, values):
        several = (how == "axis" and not structured) or wrong == [3]
        with pytest.raises(GapbenchError) as caught:
            loaded(tmp_path, placed(section, key, table | {key: [wrong] if several else wrong}, how))
        message = str(caught.value).replace("`", "")
        assert "\n" not in message, message
        assert key in message, message
        assert re.search(PLACES.get(section, "grid 1"), message), message
        if key == "family" or (key in ("proxy", "task") and wrong == "nothing"):
            assert re.search(r"The others: |Known: |There are \d+", message), message
        elif key != "grid":
            assert values.removeprefix("one of ") in message, message
