"""Options that many tasks have, with what they may be."""

from __future__ import annotations

from typing import Annotated

from gapbench_base.rules import Rule

Range = tuple[float, float]

TrainSize = Annotated[
    int,
    Rule(
        meaning="training examples, at least one a class; those of a smaller size are among those of a larger one",
        example=(60, 80),
        whole=True,
        above=0,
    ),
]
LabelNoise = Annotated[
    float,
    Rule(meaning="share of the training labels that are wrong", example=(0.0, 0.2), least=0, most=1),
]
DataSeed = Annotated[
    int,
    Rule(
        meaning="which examples are drawn, and all else that is random in the data",
        example=(0, 1),
        whole=True,
    ),
]
TestSize = Annotated[int, Rule(meaning="test examples", example=(100, 200), whole=True, above=0)]
Angles = Annotated[
    Range,
    Rule(
        meaning="degrees between which each training image is turned",
        example=((0.0, 90.0), (0.0, 360.0)),
        values="a list of numbers: two of them, in degrees, the smaller one first",
    ),
]
TestAngles = Annotated[
    Range | None,
    Rule(
        meaning="the same of the test images; where they differ the task has no place on a gap board",
        example=((0.0, 90.0), (0.0, 360.0)),
        values="a list of numbers: two of them, in degrees, the smaller one first",
        default="as `angles`",
    ),
]
TestCopies = Annotated[
    int,
    Rule(meaning="at how many angles each test image is shown", example=(1, 3), whole=True, above=0),
]
