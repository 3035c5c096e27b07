"""Write docs/suites.md from the declarations by which suite files are read.

python scripts/suites_docs.py            # writes docs/suites.md
python scripts/suites_docs.py --check    # exit code 1 if it is not up to date
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from gapbench.proxies.registry import list_proxies, proxy_entry
from gapbench.submission.fresh import toml_value
from gapbench.suites import hyperparameters as hp
from gapbench.suites.configuration import options_of_task
from gapbench.suites.file import (
    SPECIAL_RULES,
    CalibrationTable,
    GridTable,
    Measuring,
    ProxyTable,
    RangeTable,
    SuiteFile,
    When,
)
from gapbench_base.rules import Key, Rule
from gapbench_base.validation import words_of
from gapbench_models import describe, list_models
from gapbench_tasks import list_tasks, task_entry
from gapbench_tasks.registry import option_rules

PAGE = Path(__file__).resolve().parents[1] / "docs" / "suites.md"
LINKS = {
    "hyper-parameters": "training",
    "at least one grid": "grid",
    "table of axes": "gridaxes",
    "options of the task": "options-of-tasks",
    "conditions": "gridwhen",
    "table of keys": "measure",
    "list of calibrations": "measurecalibration",
    "of tables": "entries-of-proxies",
}
"""Words in the column of values, and the section that they lead to."""
MINIMAL = """name = "mine"
version = 1

[training]
max_epochs = 50

[measure]
samples = 48
proxies = ["param_norm", { proxy = "sharpness_full", radius = 0.5 }]

[[grid]]
task = "separable"
task_options = { train_size = 60 }
[grid.axes]
family = ["plain/mlp"]
width = [0.5, 1.0]
batch_size = [10, 20]
seed = [0, 1]
"""
HEAD = f"""# The file of a suite

Written by `scripts/suites_docs.py` from the declarations by which suite files are read. A suite is a TOML file;
`gapbench run FILE` trains and measures what it asks for, `gapbench pilot FILE` says before what that would cost,
`gapbench info FILE` what it comes to. A complete one, of eight networks:

```toml
{MINIMAL}```

Keys without a default are needed. What the axes do in training, and why: [axes.md](axes.md).
"""
CALIBRATIONS = """The same radius is tiny for one architecture and huge for another. A calibration gives numbers
a name, other numbers in each problem and family; an option of a proxy that is a number may be such a name:

```toml
[measure]
proxies = [{ proxy = "sharpness_full", radius = "rise 0.1", label = "sharpness_full" }]

[[measure.calibration]]
on = { task = "separable", family = "plain/mlp" }
set = { "rise 0.1" = 0.19 }
```

Every network must have the number of every name that is used, and none may have two.
`gapbench calibrate SUITE sharpness_full.radius=0.1` finds the radii at which the median rise of the loss is
0.1 nats, and prints these tables.
"""


def tasks() -> list[str]:
    """The tasks of gapbench itself; a plug-in that happens to be installed has no place here."""
    return [name for name in list_tasks() if task_entry(name).loader.startswith("gapbench_tasks.")]


def page() -> str:
    """The text of the page."""
    parts = [HEAD, "## Top level\n", keys(SuiteFile)]
    parts += [
        "## `[training]`\n",
        "Hyper-parameters of all grids. Each of them may as well stand in `training` of a grid, be an axis of one, "
        "or be set by a condition.\n",
        rules(hp.RULES, {field.name: field.default for field in dataclasses.fields(hp.Hyperparameters)}),
        "## `[measure]`\n",
        keys(Measuring),
        "### Entries of `proxies`\n",
        "A name, or a table with options of the proxy beside these keys:\n",
        keys(ProxyTable),
        "## `[[measure.calibration]]`\n",
        CALIBRATIONS,
        keys(CalibrationTable),
        "## `[[grid]]`\n",
        "The product of its axes, or a sample of it. A suite has any number of grids.\n",
        keys(GridTable),
        "## `[grid.axes]`\n",
        "Three axes are in every grid. Beside them, each hyper-parameter and each option of the task is an axis.\n",
        rules(SPECIAL_RULES, {}),
        "### Ranges\n",
        "In a sample, an axis of numbers that changes nothing of the data may be a table in the place of a list: "
        "`learning_rate = { range = [0.01, 0.1] }`.\n",
        keys(RangeTable),
        "## `[[grid.when]]`\n",
        "Of `set` and `skip` each condition has one.\n",
        keys(When),
        "## Options of tasks\n",
        "Axes, or fixed in `task_options`. All tasks have these:\n",
        rules(of_every_task(), {"label_noise": 0.0, "data_seed": 0}),
    ]
    parts += [text for task in tasks() for text in of_task(task)]
    parts += ["## Families\n", families(), "## Options of proxies\n", proxies()]
    return "\n".join(parts).rstrip() + "\n"


def keys(record: type) -> str:
    """The keys of a table, with what the annotations of its dataclass say."""
    hints = get_type_hints(record, include_extras=True)
    rows = []
    for field in dataclasses.fields(record):
        kind = hints[field.name]
        key = key_of(kind)
        default = key.default or default_of(field)
        rows.append(
            [f"`{field.name}`", default, linked(words_of(kind)), key.meaning, example(field.name, key)]
        )
    return table(rows)


def key_of(kind: Any) -> Key:
    """What an annotation says of its key."""
    assert get_origin(kind) is Annotated, kind
    return next(note for note in get_args(kind)[1:] if isinstance(note, Key))


def default_of(field: dataclasses.Field[Any]) -> str:
    """The default of a field; empty where it has none."""
    if field.default_factory is not dataclasses.MISSING:
        return "none"
    if field.default is dataclasses.MISSING:
        return ""
    return "none" if dataclasses.is_dataclass(field.default) or field.default == "" else code(field.default)


def rules(known: Mapping[str, Rule], defaults: Mapping[str, Any]) -> str:
    """Axes with their values and defaults."""
    rows = []
    for name, rule in known.items():
        default = rule.default or (code(defaults[name]) if name in defaults else "")
        rows.append([f"`{name}`", default, linked(rule.words), rule.meaning, example(name, rule)])
    return table(rows)


def named_rules(task: str) -> dict[str, Rule]:
    """The options of a task, under the names of a suite."""
    return {("data_seed" if name == "seed" else name): rule for name, rule in option_rules(task).items()}


def of_every_task() -> dict[str, Rule]:
    """The options that all tasks have."""
    known = [named_rules(task) for task in tasks()]
    common = {name: rule for name, rule in known[0].items() if all(own.get(name) == rule for own in known)}
    own_size = dataclasses.replace(common["train_size"], default="the task's own")
    return common | {"train_size": own_size}


def of_task(task: str) -> list[str]:
    """The section of a task."""
    defaults, summary = options_of_task(task), task_entry(task).summary
    text = f"{summary[0].upper()}{summary[1:]}. By default `train_size = {defaults['train_size']}`.\n"
    own = {name: rule for name, rule in named_rules(task).items() if name not in of_every_task()}
    return [f"### `{task}`\n", text, *([rules(own, defaults)] if own else [])]


def families() -> str:
    """What a family leaves to choose."""
    rows = ["| family | depth | activations | dropout | images |", "|---|---|---|---|---|"]
    for family in map(describe, list_models()):
        if not family.builder.startswith("gapbench_models."):
            continue
        depth = family.depth or "fixed"
        if family.default_depth is not None:
            depth += f" ({family.default_depth})"
        choices = ", ".join(f"`{choice}`" for choice in family.activation_choices) or "its own"
        size = f"{family.smallest_size} x {family.smallest_size}"
        rows.append(
            f"| `{family.name}` | {depth} | {choices} | {family.dropout or 'none'} | at least {size} |"
        )
    return "\n".join(rows) + "\n"


def proxies() -> str:
    """The options of each proxy with their defaults."""
    rows = ["What they mean: `gapbench info PROXY`.\n", "| proxy | options |", "|---|---|"]
    for entry in map(proxy_entry, list_proxies()):
        if not entry.function.__module__.startswith("gapbench.proxies."):
            continue
        options = [f"`{option} = {value_text(value)}`" for option, value in entry.options.items()]
        rows.append(f"| `{entry.name}` | {', '.join(options) or 'none'} |")
    return "\n".join(rows) + "\n"


def value_text(value: object) -> str:
    """A default as TOML; TOML has no word for None."""
    return "none" if value is None else toml_value(value)


def code(value: object) -> str:
    """A value as code."""
    return f"`{value_text(value)}`"


def example(name: str, key: Key) -> str:
    """An assignment, and those of the keys that it needs."""
    value = list(key.example) if isinstance(key.example, tuple) else key.example
    texts = [f"`{name} = {toml_value(value)}`"]
    texts += [f"`{other} = {toml_value(content)}`" for other, content in key.beside.items()]
    return texts[0] if len(texts) == 1 else f"{texts[0]} with {', '.join(texts[1:])}"


def linked(words: str) -> str:
    """Words with a link to the section that they speak of."""
    for text, section in LINKS.items():
        if text in words:
            return words.replace(text, f"[{text}](#{section})")
    return words


def table(rows: list[list[str]]) -> str:
    """A table of keys."""
    head = ["| key | default | values | meaning | example |", "|---|---|---|---|---|"]
    return "\n".join([*head, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def main() -> None:
    """Write the page, or say whether it is up to date."""
    text = page()
    if "--check" in sys.argv[1:]:
        if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text:
            sys.exit("docs/suites.md is not up to date: python scripts/suites_docs.py")
        return
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
