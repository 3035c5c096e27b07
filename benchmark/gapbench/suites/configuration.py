"""One network that a suite asks for: its task, architecture and training, and the names of what varies."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from gapbench.suites import hyperparameters as hp
from gapbench_tasks import task_options


@dataclass(frozen=True)
class Configuration:
    """One point of a grid: a task with its options, a family, a width and how it is trained."""

    task: str
    task_options: tuple[tuple[str, object], ...]
    family: str
    width: float
    training: hp.Hyperparameters
    seed: int


def configuration_values(configuration: Configuration) -> dict[str, object]:
    """Every named value of a configuration but task, family and seed, as a flat table."""
    options = options_of_task(configuration.task) | dict(configuration.task_options)
    values = {k: str(list(v)) if isinstance(v, tuple) else v for k, v in options.items()}
    values |= {hp_name: getattr(configuration.training, hp_name) for hp_name in hp.NAMES}
    return {**values, "width": configuration.width}


def options_of_task(task: str) -> dict[str, object]:
    """Options and their defaults under the names of a suite: the task's `seed` is the `data_seed`."""
    options = task_options(task)
    seed = {"data_seed": options.pop("seed")} if "seed" in options else {}
    return {**options, **seed}


def load_options(configuration: Configuration) -> dict[str, object]:
    """The configuration's options in the form that `load_task` takes."""
    options = {k: list(v) if isinstance(v, tuple) else v for k, v in configuration.task_options}
    if "data_seed" in options:
        options["seed"] = options.pop("data_seed")
    return options


def varying_axes(
    configurations: Iterable[Configuration], followers: Mapping[str, Collection[str]] | None = None
) -> tuple[str, ...]:
    """Names that take more than one value within some (task, family), `width` first.

    What differs only between tasks or families (an epoch limit, a depth) is part of them, not an axis. Nor is a
    hyper-parameter that another one brings with it: a learning rate that a condition sets for one optimizer, the
    momentum that Adam has not.

    Args:
        configurations: of the suite.
        followers: hyper-parameters that no grid lists, each with those that it may follow; none if not given.

    Returns:
        The names.
    """
    tables: dict[tuple[str, str], list[dict[str, object]]] = {}
    for configuration in configurations:
        group = (configuration.task, configuration.family)
        tables.setdefault(group, []).append(configuration_values(configuration))
    names = {name for table in tables.values() for row in table for name in row}
    varying = {n for n in names if any(len({row.get(n) for row in table}) > 1 for table in tables.values())}
    kept = {
        name
        for name in varying
        if not (followers or {}).get(name)
        or not all(_follows(name, (followers or {})[name], table) for table in tables.values())
    }
    return tuple(sorted(kept, key=lambda name: (name != "width", name)))


def _follows(name: str, others: Collection[str], table: list[dict[str, object]]) -> bool:
    """Whether networks that agree on all others agree on this."""
    order = sorted(others)
    found: dict[tuple[object, ...], object] = {}
    return all(
        found.setdefault(tuple(row.get(o) for o in order), row.get(name)) == row.get(name) for row in table
    )
