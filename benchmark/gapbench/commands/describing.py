"""What `gapbench info NAME` says of a proxy, a suite, a family, a task or a run."""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gapbench_base.errors import GapbenchError
from gapbench_base.losses import MSE
from gapbench_base.suggestions import did_you_mean

Described = dict[str, Any]


def described(name: str) -> list[Described]:
    """All that is called `name`: heading, kind, and what there is to say by its name, as plain JSON values.

    Raises:
        GapbenchError: nothing is called so; near names are suggested.
    """
    from gapbench.proxies.registry import list_proxies
    from gapbench.suites.suite import list_suites
    from gapbench_models import list_models
    from gapbench_tasks import list_tasks

    kinds: list[tuple[list[str], Callable[[str], Described]]] = [
        (list_proxies(), _proxy),
        (list_suites(), _suite),
        (list_models(), _family),
        (list_tasks(), _task),
    ]
    found = [describe(name) for names, describe in kinds if name in names]
    if not found and name.endswith(".toml") and Path(name).is_file():
        found = [_suite(name)]
    if not found and (Path(name) / "run.sqlite").is_file():
        found = [_run(name)]
    if not found:
        everything = [known for names, _ in kinds for known in names]
        raise GapbenchError(
            f"Nothing is called {name!r}: no proxy, suite, family of networks, task or run."
            f"{did_you_mean(name, everything)} `gapbench list proxies` (suites, models, tasks) names them all."
        )
    return found


def lines_of(content: Described) -> list[str]:
    """The same for people."""
    head = f"{content['name']}: {content['kind']}"
    lines = [head, "", content["text"], ""]
    facts: dict[str, object] = content["facts"]
    width = max(len(key) for key in facts)
    for key, value in facts.items():
        shown = value if isinstance(value, list) else [value]
        for i, line in enumerate(shown):
            lines.append(f"  {key if i == 0 else '':<{width}}  {line}".rstrip())
    return lines


def _told(text: str | None) -> str:
    """A docstring without the sections for programmers."""
    lines = (text or "").strip().splitlines()
    sections = [
        i for i, line in enumerate(lines) if line.strip() in ("Args:", "Returns:", "Raises:", "Attributes:")
    ]
    return "\n".join(lines[: sections[0]] if sections else lines).strip()


@functools.cache
def _measured() -> dict[str, set[str]]:
    """Suite -> the proxies that its file names, none where all are measured. Networks are not enumerated for it."""
    import tomllib
    from importlib import resources

    from gapbench.suites.suite import list_suites

    found = {}
    for suite in list_suites():
        text = (resources.files("gapbench") / "suites" / f"{suite}.toml").read_text()
        entries = tomllib.loads(text).get("measure", {}).get("proxies", [])
        found[suite] = {entry if isinstance(entry, str) else entry["proxy"] for entry in entries}
    return found


def _proxy(name: str) -> Described:
    from gapbench.proxies.registry import COSTS, GROUPS, expanded, proxy_entry

    entry = proxy_entry(name)
    better = entry.higher_means == "better"
    used = [suite for suite, measured in _measured().items() if name in measured or not measured]
    facts: dict[str, object] = {
        "source": entry.reference or "-",
        "a larger value": f"predicts a {'smaller' if better else 'larger'} gap",
        "options": [f"{option} = {value!r}" for option, value in entry.options.items()] or "none",
        "needs": ", ".join(entry.needs) or "the trained network and its training data",
        "cost": f"{entry.cost}: {COSTS[entry.cost]}",
        "groups": ", ".join(group for group in GROUPS if name in expanded([group])),
        "version": entry.version,
        "in the suites": ", ".join(used) or "none",
        "defined in": entry.origin,
    }
    return {"name": name, "kind": "proxy", "text": _told(inspect.getdoc(entry.function)), "facts": facts}


def _suite(name: str) -> Described:
    from gapbench.suites.configuration import configuration_values
    from gapbench.suites.suite import load_suite

    suite = load_suite(name)
    alone = {replace(configuration, seed=0) for configuration in suite.configurations}
    groups = Counter((c.task, c.family) for c in suite.configurations)
    values: dict[str, set[object]] = {axis: set() for axis in suite.axes}
    for configuration in suite.configurations:
        for axis, value in configuration_values(configuration).items():
            if axis in values:
                values[axis].add(tuple(value) if isinstance(value, list) else value)
    facts: dict[str, object] = {
        "version": suite.version,
        "networks": f"{len(suite.configurations)}, of {len(alone)} configurations",
        "of which": [f"{count:>4}  {task}, {family}" for (task, family), count in groups.items()],
        "axes": [f"{axis} ({len(found)}): {_some(_ordered(found))}" for axis, found in values.items()],
        "problems differ in": ", ".join(suite.problem) or "the task alone",
        "measured": [f"{len(suite.proxies)} proxies on {suite.samples} training examples of each network"]
        + [request.label for request in suite.proxies],
        "loss measured": f"mse, {MSE}" if suite.loss == "mse" else "cross-entropy, in nats",
        "to train it": f"gapbench run {name}",
    }
    return {"name": suite.name, "kind": "suite", "text": suite.summary, "facts": facts}


def _run(name: str) -> Described:
    from gapbench.runs.run import open_run

    run = open_run(name)
    statuses = run.population["status"].value_counts()
    missing = run.known.missing([request.proxy for request in run.proxies])
    page = run.folder / "board" / "index.html"
    facts: dict[str, object] = {
        "suite": f"{run.suite.name} version {run.suite.version}",
        "population": f"{run.identity.fingerprint}, {run.identity.words}",
        "networks": [f"{count:>4}  {status}" for status, count in statuses.items()] or "none",
        "axes": ", ".join(run.suite.axes) or "none",
        "problems differ in": ", ".join(run.suite.problem) or "the task alone",
        "measured": [request.label for request in run.proxies] or "nothing",
        "submitted": [entry.label for entry in run.entries] or "nothing",
        "not installed": missing or "nothing",
        "board": str(page) if page.exists() else f"none yet: gapbench board {name}",
    }
    return {"name": name, "kind": "run", "text": run.suite.summary, "facts": facts}


def _ordered(values: set[object]) -> list[str]:
    numbers = sorted(v for v in values if isinstance(v, int | float))
    return [_short(value) for value in numbers] + sorted(
        str(v) for v in values if not isinstance(v, int | float)
    )


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _some(values: list[str], most: int = 12) -> str:
    return ", ".join(values[:most]) + (f" and {len(values) - most} more" if len(values) > most else "")


def _family(name: str) -> Described:
    from gapbench_models import describe

    family = describe(name)
    depth = family.depth or "fixed"
    facts: dict[str, object] = {
        "library": family.library,
        "width 1 has": family.width,
        "depth counts": depth + (f" ({family.default_depth} by default)" if family.default_depth else ""),
        "activations": ", ".join(family.activations) or "none: it is linear",
        "to choose from": ", ".join(family.activation_choices) or "no other",
        "normalisations": ", ".join(family.normalisations) or "none",
        "dropout": family.dropout or "none",
        "images": f"at least {family.smallest_size} x {family.smallest_size} pixels",
        "built by": family.builder,
    }
    return {"name": name, "kind": "family of networks", "text": family.description, "facts": facts}


def _task(name: str) -> Described:
    from gapbench_tasks import task_entry, task_options
    from gapbench_tasks.registry import loader_text

    entry = task_entry(name)
    facts: dict[str, object] = {
        "options": [f"{option} = {value!r}" for option, value in task_options(name).items()],
        "data": f"from the data folder: gapbench fetch {entry.data}" if entry.data else "nothing to download",
        "loaded by": entry.loader,
    }
    text = f"{entry.summary}.\n\n{_told(loader_text(name))}"
    return {"name": name, "kind": "task", "text": text, "facts": facts}
