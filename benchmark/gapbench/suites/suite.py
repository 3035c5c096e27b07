"""Suites: TOML files that say which networks are trained and which proxies are measured on them."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from importlib import resources
from pathlib import Path

from gapbench.suites import hyperparameters as hp
from gapbench.suites.calibration import calibrated
from gapbench.suites.columns import DATA, OF_THE_TEST
from gapbench.suites.configuration import (
    Configuration,
    configuration_values,
    load_options,
    options_of_task,
    varying_axes,
)
from gapbench.suites.file import SuiteFile
from gapbench.suites.grids import expand, followers_of
from gapbench.suites.records import NONE
from gapbench.suites.requests import ProxyRequest, proxy_requests, refuse_gaps
from gapbench_base.complaints import Complaints
from gapbench_base.errors import GapbenchError
from gapbench_base.suggestions import near_and_others
from gapbench_base.validation import validated
from gapbench_tasks.registry import number_of_classes


@dataclass(frozen=True)
class Suite:
    """A validated suite. `axes` are the names that vary (see `varying_axes`), `seed` not among them.

    `problem` are those of the axes that change the data that a network learns from: options of tasks, but those of
    the test set, and the share of examples held out. Networks of a task that agree on them are of one problem.
    `record` is what is recorded of each training (`gapbench.suites.records`); `budget` how many seconds of
    processor time a proxy may take on one network (None: any).
    """

    name: str
    version: int
    summary: str
    configurations: tuple[Configuration, ...]
    proxies: tuple[ProxyRequest, ...]
    samples: int
    measure_seed: int
    loss: str
    axes: tuple[str, ...]
    text: str
    record: str = NONE
    budget: float | None = None
    stored_problem: tuple[str, ...] | None = None
    """The problem of a run whose configurations cannot be made out any more."""

    @property
    def problem(self) -> tuple[str, ...]:
        """The axes that change the data; of a suite without configurations those of the usual names."""
        if self.stored_problem is not None:
            return self.stored_problem
        if not self.configurations:
            return tuple(axis for axis in self.axes if axis in DATA)
        options = {name for task in {c.task for c in self.configurations} for name in options_of_task(task)}
        options -= {*hp.NAMES, *OF_THE_TEST, "width"}
        options |= set(hp.OF_THE_DATA)
        return tuple(axis for axis in self.axes if axis in options)


def list_suites() -> list[str]:
    """Names of the suites that come with gapbench."""
    folder = resources.files("gapbench") / "suites"
    return sorted(entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".toml"))


def load_suite(name_or_path: str | Path) -> Suite:
    """Read and validate a suite by name or file. Raises `GapbenchError` saying what is wrong and where."""
    name = str(name_or_path)
    built_in = name in list_suites()
    if built_in:
        text, where = (resources.files("gapbench") / "suites" / f"{name}.toml").read_text(), name
    else:
        path = Path(name)
        if not path.is_file():
            hint = near_and_others(name, list_suites())
            raise GapbenchError(f"There is no suite {name!r}: neither a name nor a file.{hint}")
        try:
            text, where = path.read_text(encoding="utf-8"), str(path)
        except (OSError, UnicodeDecodeError) as error:
            raise GapbenchError(f"The suite file {path} cannot be read: {error}") from None
    suite = parse_suite(text, where, careful=True)
    if not built_in:  # those that come with gapbench are looked at in its tests
        from gapbench.suites.distinct import refuse_equal_networks

        refuse_equal_networks(suite.configurations, f"suite {where}")
    refuse_met_criteria(suite.configurations, f"suite {where}")
    return suite


def refuse_met_criteria(configurations: Sequence[Configuration], where: str) -> None:
    """Refuse a `stop_loss` that guessing meets already: networks hardly trained would count as converged."""
    for configuration in configurations:
        training = configuration.training
        if training.stop != "loss" or training.validation:
            continue
        options = dict(load_options(configuration))
        options.pop("seed", None)
        classes = number_of_classes(configuration.task, options)
        if classes is not None and training.stop_loss >= math.log(classes):
            raise GapbenchError(
                f"{where}: stop_loss = {training.stop_loss:g} nats is met by guessing among the {classes} classes "
                f"of {configuration.task} ({math.log(classes):.3g} nats): training would end before it began."
            )


def parse_suite(
    text: str, where: str, careful: bool = False, requests: Sequence[ProxyRequest] | None = None
) -> Suite:
    """Validate a suite's TOML text.

    Args:
        text: the whole file.
        where: names it in messages.
        careful: also refuse samples of fewer networks than they say; runs made with such a suite go on being read.
        requests: what is measured, in the place of what the file says, which is then not looked at.

    Returns:
        The suite with all its configurations.

    Raises:
        GapbenchError: saying what is wrong and where.
    """
    file = _file(text, where)
    complaints = Complaints()
    for name, value in file.training.items():
        with complaints.collecting():
            hp.checked({name: value}, f"suite {where}, [training]")
    common_is_right = not complaints.found
    configurations: dict[Configuration, None] = {}
    for index, grid in enumerate(file.grid, start=1):
        place = f"suite {where}, grid {index}"
        with complaints.collecting():
            common = file.training if common_is_right else {}
            configurations.update(dict.fromkeys(expand(grid, common, place, careful)))
    if requests is None:
        requests = ()
        with complaints.collecting():
            numbers = calibrated(file.measure.calibration, list(configurations), f"suite {where}, [measure]")
            requests = proxy_requests(file.measure.proxies, f"suite {where}, [measure]", numbers)
            refuse_gaps(requests, list(configurations), f"suite {where}, [measure]")
    complaints.refuse()
    axes = varying_axes(configurations, followers_of(file.grid))
    return _suite(file, text, tuple(configurations), tuple(requests), axes)


def suite_of_file(
    text: str,
    where: str,
    axes: Sequence[str],
    problem: Sequence[str],
    requests: Sequence[ProxyRequest],
) -> Suite:
    """A suite whose tasks, families and proxies are not looked at, so that they need not be installed.

    Args:
        text: the whole file.
        where: names it in messages.
        axes: what varies.
        problem: those of the axes that change the data.
        requests: what is measured.

    Returns:
        The suite, without configurations.

    Raises:
        GapbenchError: for a text that is no suite.
    """
    suite = _suite(_file(text, where), text, (), tuple(requests), tuple(axes))
    return replace(suite, stored_problem=tuple(problem))


def _file(text: str, where: str) -> SuiteFile:
    """The content of a suite's file, each key in its type."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise GapbenchError(f"The suite {where} is not valid TOML: {error}") from None
    unknown = table.keys() - {part.name for part in fields(SuiteFile)}  # perhaps a misspelt [[grid]]
    if not unknown and not (isinstance(table.get("grid"), list) and table["grid"]):
        raise GapbenchError(f"suite {where}: at least one [[grid]] is needed.")
    return validated(table, SuiteFile, f"suite {where}", strict=True)


def _suite(
    file: SuiteFile,
    text: str,
    configurations: tuple[Configuration, ...],
    requests: tuple[ProxyRequest, ...],
    axes: tuple[str, ...],
) -> Suite:
    return Suite(
        name=file.name,
        version=file.version,
        summary=str(file.summary),
        configurations=configurations,
        proxies=requests,
        samples=file.measure.samples,
        measure_seed=file.measure.seed,
        loss=file.measure.loss,
        axes=axes,
        text=text,
        record=file.record,
        budget=file.measure.budget,
    )


__all__ = [
    "Configuration",
    "Suite",
    "configuration_values",
    "list_suites",
    "load_options",
    "load_suite",
    "parse_suite",
    "varying_axes",
]
