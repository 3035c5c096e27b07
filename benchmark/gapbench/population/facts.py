"""The tasks of configurations, loaded once, and what cell keys need to know of them."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable

from gapbench.population.plan import TaskFacts
from gapbench.suites.suite import Configuration, load_options
from gapbench_base.errors import GapbenchError
from gapbench_tasks import Task, load_task


@functools.lru_cache(maxsize=3)
def _parted(name: str, data_dir: str | None, options: str, share: float) -> Task:
    from gapbench.population.holdout import parted

    return parted(_task(name, data_dir, options), share)


@functools.lru_cache(maxsize=3)
def _task(name: str, data_dir: str | None, options: str) -> Task:
    return load_task(name, data_dir, **json.loads(options))


def task_of(configuration: Configuration, data_dir: str | None) -> Task:
    """The configuration's task, cached; its training set holds what is trained on alone."""
    share = configuration.training.validation
    if not share:
        return _whole(configuration, data_dir)
    options = json.dumps(load_options(configuration), sort_keys=True)
    return _parted(configuration.task, data_dir, options, share)


def _whole(configuration: Configuration, data_dir: str | None) -> Task:
    return _task(configuration.task, data_dir, json.dumps(load_options(configuration), sort_keys=True))


def facts_source(data_dir: str | None) -> Callable[[Configuration], TaskFacts]:
    """A cached function from configurations to what cell keys need of their tasks."""
    cache: dict[str, TaskFacts] = {}

    def facts_of(configuration: Configuration) -> TaskFacts:
        key = json.dumps([configuration.task, load_options(configuration)], sort_keys=True)
        if key not in cache:
            try:
                task = _whole(configuration, data_dir)
            except GapbenchError as error:
                if configuration.task in str(error):
                    raise
                raise GapbenchError(f"The task {configuration.task}: {error}") from error
            cache[key] = TaskFacts(
                version=task.version,
                fingerprint=task.fingerprint,
                source=task.source,
                shift=task.shift,
                num_classes=task.num_classes,
                train_size=len(task.train.targets),
                test_size=len(task.test.targets),
            )
        return cache[key]

    return facts_of
