"""The keys of a suite's file: what each may be, its default, its meaning and an example, in this one place.

The reader (`suite.parse_suite`) validates by these declarations; `scripts/suites_docs.py` makes `docs/suites.md` of
them. Those of hyper-parameters are in `hyperparameters`, those of a task's options beside its loader.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta

from gapbench.suites.records import NONE, Record
from gapbench_base.rules import Key, Rule

SCORER_ROWS = ("width", "hyperparameter_oracle", "noisy_oracle")
"""`gapbench_leaderboard.scores.BASELINES`, without the time that its import takes."""
MOST = 2**63 - 1


MOST_POINTS = 100_000
SPECIAL_RULES = {
    "family": Rule(
        meaning="what is trained: `library/architecture`",
        example=("plain/mlp", "plain/cnn"),
        values="a name of `gapbench list models`",
    ),
    "width": Rule(
        meaning="multiplier of the family's channels or hidden units; 1 is the size that it is known by",
        example=(0.5, 1.0),
        above=0,
    ),
    "seed": Rule(
        meaning="of the network: of its initial weights and the order of its mini-batches",
        example=(0, 1),
        values="a whole number of at least 0 and below 2^63",
        whole=True,
        least=0,
        most=2**63 - 1,
    ),
}
"""The axes that every grid has."""
SPECIAL_AXES = tuple(SPECIAL_RULES)


@dataclass(frozen=True)
class RangeTable:
    """An axis of a sample that takes any value between two."""

    range: Annotated[
        list[float],
        Key(
            meaning="the least and the greatest value",
            example=[0.01, 0.1],
            values="two numbers, the smaller one first",
        ),
    ]
    scale: Annotated[
        Literal["log", "linear"],
        Key(meaning="whether values are spread evenly in their logarithm", example="linear"),
    ] = "log"


@dataclass(frozen=True)
class When:
    """A [[grid.when]]: what holds where the axes named in `on` have these values (or one of a list of values).

    `skip` leaves such points out. `set` gives fixed values to what is no axis, and other values to an axis: a list
    as long as its own, or another range for a range.
    """

    on: Annotated[
        dict[str, Any],
        Key(
            meaning="axes with the value, or list of values, for which the condition holds",
            example={"width": 0.5},
            beside={"skip": True},
        ),
    ]
    set: Annotated[
        dict[str, Any],
        Key(
            meaning="values of what is no axis; of an axis as many as it has, or another range",
            example={"max_epochs": 20},
            beside={"on": {"width": 0.5}},
        ),
    ] = field(default_factory=dict)
    skip: Annotated[
        bool, Key(meaning="leave out the points where it holds", example=True, beside={"on": {"width": 0.5}})
    ] = False


@dataclass(frozen=True)
class GridTable:
    """A [[grid]] of a suite's file: all combinations of the values of its axes, or a balanced `sample` of them.

    An axis is a list of values or, in a sample, `{ range = [low, high] }`, evenly in the logarithm unless `scale`
    is "linear". Of a sample the share `core` is trained with `seeds` seeds in all, or with so many draws of the
    data where `replicate` is "data_seed". `arm` names the grid in messages.
    """

    task: Annotated[
        str,
        Key(meaning="what is learned", example="separable", values="a text, a name of `gapbench list tasks`"),
    ]
    axes: Annotated[
        dict[str, Any],
        Key(
            meaning="a list of values of each axis; all combinations are trained",
            example={"family": ["plain/mlp"], "width": [0.5, 1.0], "seed": [0]},
            values="a table of axes, at least `family`, `width` and `seed`",
        ),
    ] = field(default_factory=dict)
    task_options: Annotated[
        dict[str, object],
        Key(
            meaning="options of the task that are no axes",
            example={"train_size": 60},
            values="a table of options of the task",
        ),
    ] = field(default_factory=dict)
    training: Annotated[
        dict[str, object],
        Key(
            meaning="hyper-parameters of this grid, in the place of those of all",
            example={"max_epochs": 50},
            values="a table of hyper-parameters",
        ),
    ] = field(default_factory=dict)
    sample: Annotated[
        Annotated[int, Meta(ge=2, le=MOST_POINTS)] | None,
        Key(
            meaning="train so many points, balanced over the axes, in the place of all combinations",
            example=4,
            default="all",
        ),
    ] = None
    core: Annotated[
        float,
        Meta(gt=0, le=1),
        Key(
            meaning="share of the sample that is trained several times",
            example=0.5,
            default="none",
            beside={"sample": 4, "seeds": 2},
        ),
    ] = 0.0
    seeds: Annotated[
        Annotated[int, Meta(ge=2, le=MOST_POINTS)] | None,
        Key(meaning="how often, in all", example=3, default="none", beside={"sample": 4, "core": 0.5}),
    ] = None
    replicate: Annotated[
        Literal["seed", "data_seed"],
        Key(
            meaning="in what those of the core differ: the network's seed, or the draw of the data",
            example="data_seed",
            beside={"sample": 4, "core": 0.5, "seeds": 2},
        ),
    ] = "seed"
    when: Annotated[
        list[When],
        Key(
            meaning="what one axis does to another",
            example=[{"on": {"width": 0.5}, "skip": True}],
            values="a list of conditions",
        ),
    ] = field(default_factory=list)
    arm: Annotated[
        str,
        Key(
            meaning="a name of the grid in messages",
            example="good practice",
            values="a text of printable characters",
        ),
    ] = ""


LABELS = f"printable characters, not {', '.join(SCORER_ROWS)}"
"""What people may call a row."""


@dataclass(frozen=True)
class ProxyTable:
    """A proxy of [measure] with options, or under another name; its options stand beside these keys."""

    proxy: Annotated[
        str,
        Key(meaning="which", example="sharpness_full", values="a text, a name of `gapbench list proxies`"),
    ]
    label: Annotated[
        str,
        Key(
            meaning="its name on the board",
            example="sharpness",
            values=LABELS,
            default="the proxy's name, with the options in which several differ",
            beside={"proxy": "sharpness_full"},
        ),
    ] = ""


@dataclass(frozen=True)
class CalibrationTable:
    """Numbers under names, for the networks of a task, a family or other values.

    Options of proxies can be such a name, so that a radius is one at which the loss has risen as far in every
    problem and family (`gapbench calibrate`).
    """

    set: Annotated[
        dict[str, Any],
        Key(
            meaning="a number under each name",
            example={"radius_worst": 0.5},
            beside={"on": {"task": "separable", "family": "plain/mlp"}},
        ),
    ]
    on: Annotated[
        dict[str, Any],
        Key(
            meaning="`task`, `family`, axes and other names with the value, or list of values, of the networks "
            "that have these numbers; of all networks where it is missing",
            example={"task": "separable", "family": "plain/mlp"},
            beside={"set": {"radius_worst": 0.5}},
        ),
    ] = field(default_factory=dict)


@dataclass(frozen=True)
class Measuring:
    """[measure] of a suite's file; no proxies mean all of them with their defaults."""

    samples: Annotated[
        int,
        Meta(ge=2, le=MOST),
        Key(meaning="training examples that a proxy is given, at most; stratified", example=48),
    ] = 256
    seed: Annotated[
        int,
        Meta(ge=0, le=MOST),
        Key(meaning="of which examples these are, and of the proxies' own randomness", example=1),
    ] = 0
    loss: Annotated[
        Literal["cross_entropy", "mse"],
        Key(
            meaning="that is differentiated; `mse` is half the squared error, summed over outputs",
            example="mse",
        ),
    ] = "cross_entropy"
    budget: Annotated[
        Annotated[float, Meta(gt=0, le=MOST)] | None,
        Key(
            meaning="seconds of processor time that a proxy has on one network; what takes longer is cut and "
            "not applicable there",
            example=60.0,
            default="none",
        ),
    ] = None
    proxies: Annotated[
        list[str | dict[str, object]],
        Key(
            meaning="what is measured",
            example=["param_norm", {"proxy": "sharpness_full", "radius": 0.5}],
            values="a list of names of `gapbench list proxies` and of tables",
            default="all, with their defaults",
        ),
    ] = field(default_factory=list)
    calibration: Annotated[
        list[CalibrationTable],
        Key(
            meaning="numbers that differ between problems and families; options of proxies name them",
            example=[{"on": {"task": "separable"}, "set": {"radius_worst": 0.5}}],
            values="a list of calibrations",
        ),
    ] = field(default_factory=list)


@dataclass(frozen=True)
class SuiteFile:
    """A suite's file as it is written."""

    name: Annotated[
        str,
        Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*\Z", description="letters, digits, '_', '.' or '-'"),
        Key(meaning="of the suite; runs are kept in `runs/NAME`", example="mine"),
    ]
    version: Annotated[
        int, Meta(ge=1, le=MOST), Key(meaning="raise it when what is trained or measured changes", example=1)
    ]
    grid: Annotated[
        list[GridTable],
        Meta(min_length=1),
        Key(
            meaning="which networks are trained",
            example=[{"task": "separable", "axes": {"family": ["plain/mlp"], "width": [0.5], "seed": [0]}}],
            values="a list of at least one grid",
        ),
    ]
    summary: Annotated[
        str | int | float | bool,
        Key(meaning="one line, for lists of suites", example="Small networks.", values="a text"),
    ] = ""
    record: Annotated[
        Record,
        Key(
            meaning="what is kept of each training: nothing more than mini-batch losses; training losses and "
            "gradient noise at log-spaced epochs; these and the weights there",
            example="losses",
        ),
    ] = NONE
    training: Annotated[
        dict[str, object],
        Key(
            meaning="hyper-parameters of all grids",
            example={"max_epochs": 50},
            values="a table of hyper-parameters",
        ),
    ] = field(default_factory=dict)
    measure: Annotated[
        Measuring,
        Key(
            meaning="what is measured on each network",
            example={"samples": 48},
            values="a table of keys",
        ),
    ] = Measuring()
