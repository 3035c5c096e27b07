import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmark.tiny_suite import LABELS, TINY
from gapbench import GapbenchError
from gapbench.population.plan import TaskFacts, balanced, plan
from gapbench.suites.distinct import refuse_equal_networks
from gapbench.suites.suite import list_suites, load_suite, parse_suite

FACTS = TaskFacts(1, "f" * 64, "synthetic", False)


def cells(text=TINY):
    return plan(parse_suite(text, "t"), lambda _: FACTS)


def test_grid_axes_and_labels():
    suite = parse_suite(TINY, "t")
    assert len(suite.configurations) == 12
    assert suite.axes == ("width", "learning_rate")
    assert [r.label for r in suite.proxies] == LABELS


LEAST = {  # networks, configurations, families, families of timm, of torchvision, axes beside width
    "quick": (200, 150, 4, 1, 1, 4),
    "compact": (360, 320, 7, 3, 2, 4),
    "standard": (768, 600, 7, 2, 2, 4),
}
TASKS = {
    "quick": {"separable", "digits_rotations"},
    "compact": {"separable", "cifar10", "mnist_rotations"},
    "standard": {"separable", "cifar10", "cifar100", "mnist_rotations"},
}


@pytest.mark.parametrize("name", LEAST)
def test_bundled_suites_are_large_enough(name):
    suite = load_suite(name)
    networks, points, *families, axes = LEAST[name]
    found = {c.family for c in suite.configurations}
    of = [{f for f in found if f.startswith(library)} for library in ("", "timm/", "torchvision/")]
    assert len(suite.configurations) >= networks
    without_seed = {replace(c, seed=0) for c in suite.configurations}
    assert len(without_seed) >= points
    assert all(len(own) >= least for own, least in zip(of, families))
    assert len(set(suite.axes) - {"width", *suite.problem}) >= axes
    widths = {c.width for c in suite.configurations}
    assert max(widths) / min(widths) >= 16
    for family in found:
        assert len({c.width for c in suite.configurations if c.family == family}) >= 3
    for task in TASKS[name]:
        own = [c for c in without_seed if c.task == task]
        assert len(own) >= 40
        assert len([c for c in suite.configurations if c.task == task]) > len(own)  # some with more seeds
    assert {c.task for c in suite.configurations} == TASKS[name]
    if name != "quick":
        for proxy in ("sharpness_full", "sharpness_average_full"):
            assert sum(r.proxy == proxy for r in suite.proxies) == 3  # three radii, each its own row


def test_the_study_of_width_has_widths():
    suite = load_suite("width_study")
    widths = {c.width for c in suite.configurations}
    assert max(widths) / min(widths) >= 64
    assert {c.training.depth for c in suite.configurations} == {1, 2}


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ('name = "tiny"', 'name = "a b"', "name"),
        ("version = 1", "version = 0", "version"),
        ("version = 1", "", "version"),
        ('task = "separable"', 'task = "seperable"', "Did you mean 'separable'"),
        ('family = ["plain/mlp"]', 'family = ["plain/mpl"]', "Did you mean 'plain/mlp'"),
        ("width = [0.125, 0.25, 0.5]", "width = [0]", "width"),
        ("width = [0.125, 0.25, 0.5]", "", "axis width is missing"),
        ("seed = [0, 1]", "seed = []", "seed"),
        ("learning_rate = [0.1, 0.2]", "learning_rat = [0.1]", "Did you mean 'learning_rate'"),
        ("learning_rate = [0.1, 0.2]", "learning_rate = [-0.1]", "positive"),
        ("learning_rate = [0.1, 0.2]", "learning_rate = ['x']", "finite number"),
        ("learning_rate = [0.1, 0.2]", "stop_loss = [0.1]", "both as an axis"),
        ("max_epochs = 12", "max_epochs = 1.5", "whole number"),
        ("max_epochs = 12", 'optimizer = "sgdd"', "none of"),
        ("samples = 40", "samples = 1", "samples"),
        ("samples = 40", "sampels = 1", "Did you mean 'samples'"),
        ('"param_norm",', '"param_nrm",', "Did you mean 'param_norm'"),
        ("radius = 0.2", "radios = 0.2", "Did you mean 'radius'"),
        ("radius = 0.2", "radius = 0.1", "more than once"),
        ("train_size = 60", "train_sice = 60", "Did you mean 'train_size'"),
        ("[[grid]]", "[grid]", "grid"),
        ("[[grid]]", "[[gird]]", "Did you mean 'grid'"),
        ("samples = 40", "samples = = 40", "TOML"),
        ("shape = [1, 4, 4]", "shape = 4", "list of numbers"),
        ("train_size = 60", 'train_size = "many"', "whole number"),
        ("train_size = 60", "train_size = inf", "whole number"),
        ("train_size = 60", "train_size = 2020-01-01", "whole number"),
        ("train_size = 60", 'train_size = 60, label_noise = "x"', "must be a number"),
        ("seed = [0, 1]", "seed = [99999999999999999999]", "seed"),
        ("radius = 0.2", 'radius = "x"', "radius = 'x' must be a number"),
        ("radius = 0.2", "radius = nan", "must be a number"),
        ("radius = 0.2, steps = 3", "radius = 0.2, steps = 2.5", "whole number"),
    ],
)
def test_mistakes_are_named_with_what_to_do(old, new, word):
    assert old in TINY
    with pytest.raises(GapbenchError, match=word):
        parse_suite(TINY.replace(old, new), "t")


def test_unknown_suite_names_the_near_one(tmp_path):
    with pytest.raises(GapbenchError, match="Did you mean 'quick'"):
        load_suite("qick")
    with pytest.raises(GapbenchError, match="no suite"):
        load_suite(tmp_path / "none.toml")


def test_keys_depend_on_what_a_cell_is_and_on_nothing_else():
    before = {c.key: c for c in cells()}
    assert len(before) == 12
    # A further seed, width or family, another measurement: no key of before changes.
    for old, new in (
        ("seed = [0, 1]", "seed = [0, 1, 2]"),
        ("width = [0.125, 0.25, 0.5]", "width = [0.125, 0.25, 0.5, 1]"),
        ('family = ["plain/mlp"]', 'family = ["plain/mlp", "plain/linear"]'),
        ("samples = 40", "samples = 50"),
        ("learning_rate = [0.1, 0.2]", "learning_rate = [0.1, 0.2]\nweight_decay = [0.0, 0.1]"),
        ("learning_rate = [0.1, 0.2]", "learning_rate = [0.1, 0.2]\noptimizer = ['sgd', 'adam']"),
    ):
        after = {c.key for c in cells(TINY.replace(old, new))}
        assert set(before) <= after
    # Other data: every key changes.
    other = plan(parse_suite(TINY, "t"), lambda _: TaskFacts(1, "e" * 64, "synthetic", False))
    assert not set(before) & {c.key for c in other}
    assert len({c.seed for c in before.values()}) == 12


def test_an_option_at_its_default_is_the_same_cell():
    before = {c.key for c in cells()}
    for text in (
        "train_size = 60, label_noise = 0.0",
        "train_size = 60, label_noise = 0",
        "train_size = 60.0",
    ):
        assert {c.key for c in cells(TINY.replace("train_size = 60", text))} == before
    noisy = TINY.replace("learning_rate = [0.1, 0.2]", "learning_rate = [0.1, 0.2]\nlabel_noise = [0.0, 0.2]")
    assert before < {c.key for c in cells(noisy)}
    assert parse_suite(noisy, "t").axes == ("width", "label_noise", "learning_rate")


def test_values_without_effect_make_no_second_network():
    text = TINY.replace("learning_rate = [0.1, 0.2]", "learning_rate = [0.1, 0.2]\nsam_rho = [0.05, 0.1]")
    assert {c.key for c in cells(text)} == {c.key for c in cells()}


def test_what_has_no_effect_on_some_networks_is_no_axis_of_its_own():
    """Else no two networks would differ in the augmentation alone."""

    def axes(*lines):
        return parse_suite(TINY.replace("learning_rate = [0.1, 0.2]", "\n".join(lines)), "t").axes

    both = 'augmentation = ["none", "mixup"]'
    fixed = "[training]\nmixup_alpha = 0.3\naugmentation_strength = 0.5"
    text = TINY.replace("[training]", fixed).replace("learning_rate = [0.1, 0.2]", both)
    assert parse_suite(text, "t").axes == ("width", "augmentation")
    assert axes(both, "augmentation_strength = [0.5, 1.0]") == (
        "width",
        "augmentation",
        "augmentation_strength",
    )
    assert axes("validation = [0.0, 0.2]") == (
        "width",
        "validation",
    )  # the criterion to stop is that of one of them
    assert axes('augmentation = ["none"]', "augmentation_strength = [0.5, 1.0]") == ("width",)


TWO_TASKS = TINY + TINY[TINY.index("[[grid]]") :].replace('"separable"', '"digits_rotations"').replace(
    "shape = [1, 4, 4], train_size = 60, test_size = 200", "train_size = 60"
).replace('["plain/mlp"]', '["plain/mlp", "plain/cnn", "plain/linear"]')


@given(st.integers(1, 48))
@settings(max_examples=20, deadline=None)
def test_every_beginning_of_the_plan_is_balanced(limit):
    chosen = cells(TWO_TASKS)[:limit]
    tasks = {}
    for cell in chosen:
        tasks.setdefault(cell.configuration.task, []).append(cell.configuration.family)
    if limit <= 24:
        assert abs(len(tasks.get("separable", [])) - len(tasks.get("digits_rotations", []))) <= 1
    counts = [tasks.get("digits_rotations", []).count(f) for f in ("plain/mlp", "plain/cnn", "plain/linear")]
    assert max(counts) - min(counts) <= 1


def test_balancing_keeps_every_cell_once():
    everything = cells(TWO_TASKS)
    assert sorted(c.key for c in everything) == sorted(c.key for c in balanced(everything))
    assert len(everything) == 48


@pytest.mark.parametrize("name", list_suites())
def test_no_suite_has_one_network_under_two_widths(name):
    refuse_equal_networks(load_suite(name).configurations, name)


@pytest.mark.parametrize(
    ("family", "widths", "word"),
    [
        ("timm/resnet18", [0.03125, 0.0625, 0.125, 0.25], "0.03125, 0.0625 and 0.125"),
        ("torchvision/densenet121", [0.125, 0.0625], "0.0625 and 0.125"),
        ("plain/mlp", [1, 1.001, 2], "1 and 1.001"),
        ("plain/linear", [1, 2], "1 and 2"),
    ],
)
def test_one_network_under_two_widths_is_refused(tmp_path, family, widths, word):
    path = tmp_path / "s.toml"
    path.write_text(
        f"""
name = "s"
version = 1
[[grid]]
task = "separable"
[grid.axes]
family = ["{family}"]
width = {widths}
seed = [0]
"""
    )
    with pytest.raises(GapbenchError, match="same network") as error:
        load_suite(path)
    assert word in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "near", "other"),
    [
        ("learning_rate = [0.1, 0.2]", "learning_rat = [0.1]", "learning_rate", "spectrum"),
        ("max_epochs = 12", "max_epoch = 12", "max_epochs", "dropout"),
        ('task = "separable"', 'task = "seperable"', "separable", "digits_rotations"),
        ('family = ["plain/mlp"]', 'family = ["plain/mpl"]', "plain/mlp", "timm/mixer"),
        ('"param_norm",', '"param_nrm",', "param_norm", ""),  # too many to list
        ("radius = 0.2", "radios = 0.2", "radius", "restarts"),
        ("train_size = 60", "train_sice = 60", "train_size", "teacher"),
        ("samples = 40", "sampels = 1", "samples", "loss"),
        ("stop_loss = 0.2", "stop_los = 0.2", "stop_loss", "schedule"),
    ],
)
def test_a_wrong_name_is_told_the_near_ones_and_the_others(old, new, near, other):
    assert old in TINY
    with pytest.raises(GapbenchError) as caught:
        parse_suite(TINY.replace(old, new), "t")
    message = str(caught.value)
    assert "\n" not in message
    meant, _, others = message.partition("The others: ")
    assert f"Did you mean {near!r}" in meant
    assert other in others.rstrip(".").split(", ")
    assert other or re.search(r"There are \d+ others\.$", message)


def test_all_that_is_wrong_with_a_suite_is_said_at_once():
    text = """
name = "mine"
version = 1
[training]
optimizer = "sgdx"
max_epochs = -3
[measure]
proxies = ["param_nrm", { proxy = "random", radius = 1 }]
[[grid]]
task = "digits_rotation"
[grid.axes]
family = ["plain/mlpp"]
width = [0.5, -1]
seed = [0]
[[grid]]
task = "separable"
training = { momentum = 2 }
[grid.axes]
family = ["plain/mlp"]
width = [0]
depht = [1]
seed = [0]
"""
    with pytest.raises(GapbenchError) as raised:
        parse_suite(text, "mine.toml")
    lines = str(raised.value).splitlines()
    words = [
        "[training]: optimizer = 'sgdx'",
        "[training]: max_epochs = -3",
        "grid 1, task: There is no task 'digits_rotation'",
        "grid 1, axes, family: There is no model family 'plain/mlpp'",
        "grid 1, axes: width = -1",
        "grid 2: there is no axis 'depht'",
        "grid 2, axes: width = 0",
        "grid 2, training: momentum = 2",
        "[measure]: There is no proxy 'param_nrm'",
        "[measure]: random has no option 'radius'",
    ]
    assert len(lines) == len(words)
    for line, word in zip(lines, words, strict=True):
        assert line.startswith(f"suite mine.toml, {word}"), line


def test_all_that_is_wrong_with_the_types_of_a_file_is_told_at_once():
    text = """
name = 3
version = 0
bogus = 1
[measure]
samples = "x"
loss = "hinge"
smaples = 3
[[grid]]
sample = 1
[[grid]]
task = "separable"
when = 3
axes = { family = ["plain/mlp"], width = [0.5], seed = [0] }
"""
    with pytest.raises(GapbenchError) as caught:
        parse_suite(text, "t")
    told = str(caught.value).splitlines()
    assert [line.removeprefix("suite t")[:24] for line in told] == [
        ": unknown key 'bogus'. K",
        ", measure: unknown key '",
        ": `name` = 3 should be l",
        ": `version` = 0 should b",
        ": `measure.samples` = 'x",
        ": `measure.loss` = 'hing",
        ": `grid 1.sample` = 1 sh",
        ": `grid 1.task` is missi",
        ": `grid 2.when` = 3 shou",
    ]
