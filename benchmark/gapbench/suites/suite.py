"""Suites: TOML files that say which networks are trained and which proxies are measured on them."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from gapbench.proxies.registry import list_proxies, proxy_entry
from gapbench.suites import hyperparameters as hp
from gapbench.suites.columns import DATA, OF_THE_TEST, taken
from gapbench.suites.sampling import points_of
from gapbench_base.errors import GapbenchError
from gapbench_base.suggestions import did_you_mean
from gapbench_base.validation import validated
from gapbench_models import list_models
from gapbench_tasks import TaskError, canonical_option, list_tasks, task_options

SCORER_ROWS = ("width", "hyperparameter_oracle", "noisy_oracle")
"""`gapbench_leaderboard.scores.BASELINES`, without the time that its import takes."""
MOST = 2**63 - 1
SPECIAL_AXES = ("family", "width", "seed")


@dataclass(frozen=True)
class GridTable:
    """A [[grid]] of a suite's file: all combinations of the values of its axes, or a balanced `sample` of them.

    Of a sample the share `core` is trained with `seeds` seeds in all.
    """

    task: str
    axes: dict[str, Any] = field(default_factory=dict)
    task_options: dict[str, object] = field(default_factory=dict)
    training: dict[str, object] = field(default_factory=dict)
    sample: Annotated[int, Meta(ge=2, le=MOST)] | None = None
    core: Annotated[float, Meta(gt=0, le=1)] = 0.0
    seeds: Annotated[int, Meta(ge=2, le=MOST)] | None = None


@dataclass(frozen=True)
class Measuring:
    """[measure] of a suite's file; no proxies mean all of them with their defaults."""

    samples: Annotated[int, Meta(ge=2, le=MOST)] = 256
    seed: Annotated[int, Meta(ge=0, le=MOST)] = 0
    loss: Literal["cross_entropy", "mse"] = "cross_entropy"
    proxies: list[str | dict[str, object]] = field(default_factory=list)


@dataclass(frozen=True)
class SuiteFile:
    """A suite's file as it is written."""

    name: Annotated[
        str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*\Z", description="letters, digits, '_', '.' or '-'")
    ]
    version: Annotated[int, Meta(ge=1, le=MOST)]
    grid: Annotated[list[GridTable], Meta(min_length=1)]
    summary: str | int | float | bool = ""
    training: dict[str, object] = field(default_factory=dict)
    measure: Measuring = Measuring()


@dataclass(frozen=True)
class Configuration:
    """One point of a grid: a task with its options, a family, a width and how it is trained."""

    task: str
    task_options: tuple[tuple[str, object], ...]
    family: str
    width: float
    training: hp.Hyperparameters
    seed: int


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

    @property
    def problem(self) -> tuple[str, ...]:
        """The axes that change the data; of a suite without configurations those of the usual names."""
        if not self.configurations:
            return tuple(axis for axis in self.axes if axis in DATA)
        options = {name for task in {c.task for c in self.configurations} for name in _options_of_task(task)}
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
    if name in list_suites():
        text, where = (resources.files("gapbench") / "suites" / f"{name}.toml").read_text(), name
    else:
        path = Path(name)
        if not path.is_file():
            hint = did_you_mean(name, list_suites())
            raise GapbenchError(
                f"There is no suite {name!r}: neither a name ({', '.join(list_suites())}) nor a file.{hint}"
            )
        try:
            text, where = path.read_text(encoding="utf-8"), str(path)
        except (OSError, UnicodeDecodeError) as error:
            raise GapbenchError(f"The suite file {path} cannot be read: {error}") from None
    return parse_suite(text, where)


def parse_suite(text: str, where: str) -> Suite:
    """Validate a suite's TOML text.

    Args:
        text: the whole file.
        where: names it in messages.

    Returns:
        The suite with all its configurations.

    Raises:
        GapbenchError: saying what is wrong and where.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise GapbenchError(f"The suite {where} is not valid TOML: {error}") from None
    unknown = table.keys() - {part.name for part in fields(SuiteFile)}  # perhaps a misspelt [[grid]]
    if not unknown and not (isinstance(table.get("grid"), list) and table["grid"]):
        raise GapbenchError(f"suite {where}: at least one [[grid]] is needed.")
    file = validated(table, SuiteFile, f"suite {where}", strict=True)
    configurations: dict[Configuration, None] = {}
    for index, grid in enumerate(file.grid, start=1):
        place = f"suite {where}, grid {index}"
        configurations.update(dict.fromkeys(_expand(grid, file.training, place)))
    return Suite(
        name=file.name,
        version=file.version,
        summary=str(file.summary),
        configurations=tuple(configurations),
        proxies=proxy_requests(file.measure.proxies, f"suite {where}, [measure]"),
        samples=file.measure.samples,
        measure_seed=file.measure.seed,
        loss=file.measure.loss,
        axes=varying_axes(configurations),
        text=text,
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
    for entry in entries or list_proxies():
        table: dict[str, object] = {"proxy": entry} if isinstance(entry, str) else dict(entry)
        name, label = table.pop("proxy", None), table.pop("label", "")
        if not isinstance(name, str):
            raise GapbenchError(f"{where}: {entry!r} is no proxy: give a name or a table with proxy = name.")
        known = proxy_entry(name).options
        for option in table:
            if option not in known:
                hint = did_you_mean(option, known)
                listed = ", ".join(known) or "none"
                raise GapbenchError(f"{where}: {name} has no option {option!r}.{hint} Options: {listed}.")
            _option_type(f"{where}: {name}", option, table[option], known[option])
        parsed.append((name, table, str(label)))
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


def _refuse_labels(where: str, labels: Sequence[str]) -> None:
    """Labels that people choose must be names that a table can show, and not those of the scorer's own rows."""
    for label in labels:
        if not label.isprintable() or label != label.strip():
            raise GapbenchError(f"{where}: the label {label!r} must be of printable characters.")
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


def configuration_values(configuration: Configuration) -> dict[str, object]:
    """Every named value of a configuration but task, family and seed, as a flat table."""
    options = _options_of_task(configuration.task) | dict(configuration.task_options)
    values = {k: str(list(v)) if isinstance(v, tuple) else v for k, v in options.items()}
    values |= {hp_name: getattr(configuration.training, hp_name) for hp_name in hp.NAMES}
    return {**values, "width": configuration.width}


def _options_of_task(task: str) -> dict[str, object]:
    """Options and their defaults under the names of a suite: the task's `seed` is the `data_seed`."""
    options = task_options(task)
    seed = {"data_seed": options.pop("seed")} if "seed" in options else {}
    return {**options, **seed}


def varying_axes(configurations: Iterable[Configuration]) -> tuple[str, ...]:
    """Names that take more than one value within some (task, family), `width` first.

    What differs only between tasks or families (an epoch limit, a depth) is part of them, not an axis; nor is what
    differs only because it has no effect on some networks, such as the strength of no augmentation.

    Returns:
        The names.
    """
    seen: dict[str, dict[tuple[str, str], set[object]]] = {}
    for configuration in configurations:
        group = (configuration.task, configuration.family)
        silent = configuration.training.without_effect().keys() - {"sam_rho", "momentum"}  # axes ever since
        for name, value in configuration_values(configuration).items():
            if name in silent:
                continue
            seen.setdefault(name, {}).setdefault(group, set()).add(value)
    varying = {name for name, groups in seen.items() if any(len(v) > 1 for v in groups.values())}
    return tuple(sorted(varying, key=lambda name: (name != "width", name)))


def _expand(grid: GridTable, common: Mapping[str, object], where: str) -> Iterable[Configuration]:
    task, axes, fixed_options = grid.task, grid.axes, grid.task_options
    if task not in list_tasks():
        hint = did_you_mean(task, list_tasks())
        raise GapbenchError(f"{where}: there is no task {task!r}.{hint} Tasks: {', '.join(list_tasks())}.")
    options = _options_of_task(task)
    _refuse_shared_names(options, grid, where)
    for axis, values in axes.items():
        if axis not in (*SPECIAL_AXES, *hp.NAMES, *options):
            hint = did_you_mean(axis, [*SPECIAL_AXES, *hp.NAMES, *options])
            raise GapbenchError(f"{where}: there is no axis {axis!r}.{hint}")
        if not isinstance(values, list) or not values:
            raise GapbenchError(f"{where}: the axis {axis} must be a list of at least one value.")
    for required in SPECIAL_AXES:
        if required not in axes:
            raise GapbenchError(f"{where}: the axis {required} is missing.")
    for option in fixed_options:
        if option not in options:
            hint = did_you_mean(option, options)
            raise GapbenchError(f"{where}: the task {task} has no option {option!r}.{hint}")
    for both in set(axes) & (set(fixed_options) | set(grid.training)):
        raise GapbenchError(f"{where}: {both} is given both as an axis and as a fixed value.")
    for point in points_of(grid.task, axes, grid.sample, grid.core, grid.seeds, where):
        values = dict(zip(axes, point))
        family, width, seed = (values.pop(name) for name in SPECIAL_AXES)
        if family not in list_models():
            hint = did_you_mean(family, list_models())
            raise GapbenchError(f"{where}: there is no model family {family!r}.{hint}")
        if isinstance(width, bool) or not isinstance(width, int | float) or not 0 < width < float("inf"):
            raise GapbenchError(f"{where}: width = {width!r} must be a positive number.")
        chosen = {k: v for k, v in values.items() if k in hp.NAMES}
        own = {k: v for k, v in values.items() if k in options and k not in hp.NAMES}
        task_values = {**fixed_options, **own}
        yield Configuration(
            task=task,
            task_options=_task_options(task, task_values, options, where),
            family=str(family),
            width=float(width),
            training=hp.hyperparameters({**common, **grid.training, **chosen}, where, str(family)),
            seed=_whole(seed, 0, f"{where}: seed"),
        )


def _refuse_shared_names(options: Mapping[str, object], grid: GridTable, where: str) -> None:
    """An option of a task that a grid uses must not be called like something else that is kept of a network."""
    shared = set(taken(options)) | set(options) & {"width", *hp.NAMES}
    if "data_seed" in task_options(grid.task):
        shared.add("data_seed")
    given = grid.task_options
    for name in [*given, *grid.axes]:
        own = name in SPECIAL_AXES or name in hp.NAMES
        if name in shared and (name in given or not own):
            raise GapbenchError(
                f"{where}: the option {name!r} of the task {grid.task} cannot be given in a suite: {name!r} is "
                + ("a hyper-parameter of every network" if own else "a column of population.csv")
                + " already. Give the option another name in the task."
            )


def _task_options(
    task: str, values: dict[str, object], defaults: dict[str, object], where: str
) -> tuple[tuple[str, object], ...]:
    """Options in canonical types without those at their default, so that equal tasks have equal keys."""
    chosen = {}
    for name, value in values.items():
        try:
            canonical = canonical_option(task, "seed" if name == "data_seed" else name, value)
        except TaskError as error:
            raise GapbenchError(f"{where}: {error}") from None
        if canonical != defaults[name]:
            chosen[name] = canonical
    return tuple(sorted(chosen.items()))


def load_options(configuration: Configuration) -> dict[str, object]:
    """The configuration's options in the form that `load_task` takes."""
    options = {k: list(v) if isinstance(v, tuple) else v for k, v in configuration.task_options}
    if "data_seed" in options:
        options["seed"] = options.pop("data_seed")
    return options


def _whole(value: object, least: int, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**63:
        raise GapbenchError(f"{what} = {value!r} must be a whole number of at least {least}, below 2^63.")
    return value


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
