"""The tasks by name."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gapbench_base import plugins
from gapbench_base.errors import TaskError
from gapbench_base.rules import LARGEST, Rule, rules_of, shown
from gapbench_base.scanning import by_name, modules_of
from gapbench_base.suggestions import near_and_others
from gapbench_tasks.entry import TaskEntry

if TYPE_CHECKING:
    from gapbench_tasks.task import Task


LOADERS = "gapbench_tasks.loaders"
"""The package whose modules hold the built-in tasks."""


NAME = r"[a-z][a-z0-9_]{0,63}"


def _built_in() -> Iterator[TaskEntry]:
    for module in modules_of(LOADERS):
        found = [value for value in vars(module).values() if isinstance(value, TaskEntry)]
        if not found:
            raise TaskError(f"{module.__name__} has no task: put TASK = TaskEntry(...) beside the loader.")
        for entry in found:
            if not re.fullmatch(NAME, entry.name):
                raise TaskError(
                    f"The task {entry.name!r} must be called in lower-case letters, digits and '_'."
                )
            yield entry


@functools.cache
def _known() -> tuple[dict[str, TaskEntry], list[tuple[str, str]]]:
    """Entries by name, those of plug-ins included, and (name, reason) of plug-ins that cannot be used."""
    entries = by_name("task", ((entry.name, entry.loader, entry) for entry in _built_in()))
    broken: list[tuple[str, str]] = []
    brought, failed = plugins.load("gapbench.tasks")
    broken += failed
    for found in brought:
        if not isinstance(found, TaskEntry):
            broken.append((str(found)[:100], f"a {type(found).__name__}, not a gapbench_tasks.TaskEntry"))
        elif not re.fullmatch(NAME, found.name):
            broken.append((found.name, "its name must be lower-case letters, digits and '_'"))
        elif found.name in entries:
            broken.append((found.name, "there is already a task of this name"))
        else:
            entries[found.name] = found
    return entries, broken


def broken_plugins() -> list[tuple[str, str]]:
    """(name, reason) of installed plug-ins for tasks that cannot be used."""
    return list(_known()[1])


def list_tasks() -> list[str]:
    """Names of all tasks."""
    return sorted(_known()[0])


def task_entry(name: str) -> TaskEntry:
    """The entry of a task; raises `TaskError` with near misses for an unknown name."""
    entries = _known()[0]
    if name not in entries:
        raise TaskError(f"There is no task {name!r}.{near_and_others(name, sorted(entries))}")
    return entries[name]


def _loader(name: str) -> Callable[..., Task]:
    module, function = task_entry(name).loader.split(":")
    there: Callable[..., Task] | None = getattr(sys.modules.get(module), function, None)
    if there is not None:  # a large suite asks for it a few times for each network
        return there
    loader: Callable[..., Task] = getattr(importlib.import_module(module), function)
    return loader


def loader_text(name: str) -> str:
    """What the loader of a task says of it."""
    return inspect.getdoc(_loader(name)) or ""


def task_options(name: str) -> dict[str, Any]:
    """Options of a task and their defaults (without the data folder)."""
    return dict(_keywords(_loader(name)))


@functools.cache
def _keywords(loader: Callable[..., Task]) -> tuple[tuple[str, Any], ...]:
    """Names and defaults of a loader's options; a large suite asks for them once for each network."""
    parameters = inspect.signature(loader).parameters.values()
    return tuple((p.name, p.default) for p in parameters if p.kind is p.KEYWORD_ONLY)


def option_rules(name: str) -> dict[str, Rule]:
    """What the loader of a task says of its options, by name; of a plug-in's perhaps nothing."""
    return rules_of(_loader(name))


def number_of_classes(name: str, options: Mapping[str, Any]) -> int | None:
    """How many classes a task has under `options`, without loading it; None where its entry does not say."""
    said = task_entry(name).classes
    if isinstance(said, str):
        said = {**task_options(name), **options}[said]
    return None if said is None else int(said)


def load_task(name: str, data_dir: str | os.PathLike[str] | None = None, **options: Any) -> Task:
    """Load a task by name.

    Args:
        name: one of `list_tasks()`.
        data_dir: the data folder (default: GAPBENCH_DATA, then ~/.cache/gapbench/data).
        options: all tasks take `train_size`, `label_noise` (share of wrong training labels) and `seed` (the data
            seed); see each loader for the others.

    Returns:
        The task.

    Raises:
        TaskError: an unknown task or option, and missing or corrupt data.
    """
    known = task_options(name)
    for option in options:
        if option not in known:
            raise TaskError(f"The task {name} has no option {option!r}.{near_and_others(option, known)}")
    return _loader(name)(data_dir, **_checked(name, options))


def _checked(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    return {option: canonical_option(name, option, value) for option, value in options.items()}


def canonical_option(name: str, option: str, value: Any, called: str | None = None) -> Any:
    """An option's value in the type of its default: whole number, real number or tuple of numbers.

    Args:
        name: of the task.
        option: of its loader.
        value: what was given.
        called: what messages call the option, where that is another name.

    Returns:
        The value.

    Raises:
        TaskError: a value of another type, or one that the loader's rule for the option refuses.
    """
    default, rule = task_options(name)[option], option_rules(name).get(option)
    called = called or option
    if value is None and default is None:
        return None

    def refused(kind: str) -> str:
        words = rule.words if rule is not None else kind
        return f"The task {name}: {called} = {shown(value)} must be {words}."

    if isinstance(default, bool | str):
        if type(value) is not type(default):
            raise TaskError(refused("true or false" if isinstance(default, bool) else "a text"))
        return _ruled(name, called, value, rule)
    if isinstance(value, int) and abs(value) > LARGEST:
        raise TaskError(f"The task {name}: {called} = {shown(value)} is beyond all measure.")
    if isinstance(default, int):
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
            raise TaskError(refused("a whole number"))
        return _ruled(name, called, int(value), rule)
    if isinstance(default, float):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TaskError(refused("a number"))
        return _ruled(name, called, float(value), rule)
    if not isinstance(value, list | tuple) or not all(
        isinstance(v, int | float) and not isinstance(v, bool) for v in value
    ):
        raise TaskError(refused("a list of numbers"))
    whole = isinstance(default, tuple) and all(isinstance(v, int) for v in default)
    return tuple(value) if whole else tuple(float(v) for v in value)


def _ruled(name: str, option: str, value: Any, rule: Rule | None) -> Any:
    """The value, if the rule of its option takes it."""
    complaint = rule.complaint(option, value) if rule is not None and not rule.values else ""
    if complaint:
        raise TaskError(f"The task {name}: {complaint}")
    return value
