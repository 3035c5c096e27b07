"""Suites: TOML files that say which networks are trained and which proxies are measured on them."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

from gapbench.proxies.registry import ProxyEntry, list_proxies, proxy_entry
from gapbench.suites import hyperparameters as hp
from gapbench.suites.columns import DATA, OF_THE_TEST
from gapbench.suites.configuration import (
    Configuration,
    configuration_values,
    load_options,
    options_of_task,
    varying_axes,
)
from gapbench.suites.file import LABELS, SCORER_ROWS, SuiteFile
from gapbench.suites.grids import expand, followers_of
from gapbench.suites.records import NONE
from gapbench_base.complaints import Complaints
from gapbench_base.errors import GapbenchError
from gapbench_base.suggestions import near_and_others
from gapbench_base.validation import validated
from gapbench_tasks.registry import number_of_classes


@dataclass(frozen=True)
class ProxyRequest:
    """One row of measurements: a proxy with options, under the label it has in every table."""

    proxy: str
    options: tuple[tuple[str, object], ...] = ()
    label: str = ""


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
    with complaints.collecting():
        if requests is None:
            requests = proxy_requests(file.measure.proxies, f"suite {where}, [measure]")
    complaints.refuse()
    assert requests is not None
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


def proxy_requests(entries: Sequence[str | Mapping[str, object]], where: str) -> tuple[ProxyRequest, ...]:
    """Validate the list of proxies: names, or tables with `proxy`, options and perhaps a `label`.

    Without a label, a proxy that is listed once keeps its name; one listed several times gets the options
    in which the entries differ in brackets. The empty list means every proxy with its defaults.

    Returns:
        The requests in their order, no label twice.

    Raises:
        GapbenchError: naming `where` for an unknown proxy or option, a value of another type, and a label that is
            taken.
    """
    parsed: list[tuple[str, dict[str, object], str]] = []
    complaints = Complaints()
    for entry in entries or list_proxies():
        with complaints.collecting():
            parsed.append(_parsed(entry, where))
    complaints.refuse()
    requests = []
    for name, options, label in parsed:
        same = [other for other_name, other, _ in parsed if other_name == name]
        differing = [k for k in options if len({repr(o.get(k)) for o in same}) > 1]
        brackets = ",".join(f"{k}={options[k]}" for k in sorted(differing))
        requests.append(
            ProxyRequest(
                name, tuple(sorted(options.items())), label or (f"{name}[{brackets}]" if brackets else name)
            )
        )
    _refuse_labels(where, [label for _, _, label in parsed if label])
    labels = [request.label for request in requests]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise GapbenchError(f"{where}: listed more than once: {', '.join(twice)}.")
    return tuple(requests)


def _parsed(entry: str | Mapping[str, object], where: str) -> tuple[str, dict[str, object], str]:
    """Name, options and label of an entry of the list."""
    table: dict[str, object] = {"proxy": entry} if isinstance(entry, str) else dict(entry)
    name, label = table.pop("proxy", None), table.pop("label", "")
    if not isinstance(name, str):
        raise GapbenchError(f"{where}: {entry!r} is no proxy: give a name or a table with proxy = name.")
    known = _entry(name, where).options
    for option in table:
        if option not in known:
            hint = near_and_others(option, known)
            raise GapbenchError(f"{where}: {name} has no option {option!r}.{hint}")
        _option_type(f"{where}: {name}", option, table[option], known[option])
    return name, table, str(label)


def _entry(name: str, where: str) -> ProxyEntry:
    try:
        return proxy_entry(name)
    except GapbenchError as error:
        raise GapbenchError(f"{where}: {error}") from None


def _refuse_labels(where: str, labels: Sequence[str]) -> None:
    """Labels that people choose must be names that a table can show, and not those of the scorer's own rows."""
    for label in labels:
        if not label.isprintable() or label != label.strip():
            raise GapbenchError(f"{where}: the label {label!r} must be {LABELS}.")
        if label in SCORER_ROWS:
            raise GapbenchError(f"{where}: every board has a row {label!r} of its own; choose another label.")


def _option_type(where: str, option: str, value: Any, default: object) -> None:
    """A proxy's option must be of the type of its default; one without default may be any number or text."""
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    fits = {
        bool: isinstance(value, bool),
        int: number and value == int(value),
        float: number,
        str: isinstance(value, str),
    }.get(type(default), number or isinstance(value, str))
    if not fits:
        kind = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
        raise GapbenchError(
            f"{where}: {option} = {value!r} must be {kind.get(type(default), 'a number or a text')}."
        )


__all__ = [
    "Configuration",
    "ProxyRequest",
    "Suite",
    "configuration_values",
    "list_suites",
    "load_options",
    "load_suite",
    "parse_suite",
    "proxy_requests",
    "varying_axes",
]
