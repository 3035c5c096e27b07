"""Ranges, conditions, replicates and arms of a suite's grids."""

import itertools
import math
import re

import pytest

from gapbench.suites.sampling import Range, SampleRule, _Open, based_sample, points_of
from gapbench.suites.suite import load_suite, parse_suite
from gapbench_base.errors import GapbenchError

SUITE = """
name = "grammar"
version = 1
[training]
max_epochs = 3
[[grid]]
task = "separable"
task_options = {{ shape = [1, 4, 4], train_size = 40 }}
{keys}
[grid.axes]
family = ["plain/mlp"]
width = [0.25, 0.5, 1, 2]
seed = [0]
{axes}
{more}
"""


def suite(axes="", keys="", more=""):
    return parse_suite(SUITE.format(keys=keys, axes=axes, more=more), "here")


def values_of(found, name):
    return [getattr(c.training, name) for c in found.configurations]


def test_a_range_is_covered_evenly_in_its_logarithm_and_its_values_are_shared_by_neighbours():
    axes = "learning_rate = { range = [0.001, 1.0] }\nbatch_size = [10, 20]"
    found = suite(axes, "sample = 96")
    assert found.axes == ("width", "batch_size", "learning_rate")
    rates = values_of(found, "learning_rate")
    assert len(rates) == 96
    assert all(0.001 <= rate <= 1.0 and float(f"{rate:.4g}") == rate for rate in rates)
    shares = sorted((math.log10(rate) + 3) / 3 for rate in rates)
    # Every eighth of the range has its share, and no gap is large: a random sample would miss both.
    counts = [sum(k / 8 <= share < (k + 1) / 8 + (k == 7) for share in shares) for k in range(8)]
    assert max(counts) - min(counts) <= 3
    assert max(b - a for a, b in itertools.pairwise([0.0, *shares, 1.0])) < 0.06
    points = [(c.width, c.training.batch_size, c.training.learning_rate) for c in found.configurations]
    for axis in range(3):
        near = [
            (a, b)
            for a, b in itertools.combinations(points, 2)
            if [x != y for x, y in zip(a, b)] == [place == axis for place in range(3)]
        ]
        assert len(near) >= 12, axis
    assert suite(axes, "sample = 96") == found


def test_a_linear_range_is_covered_evenly_and_may_begin_at_nothing():
    found = suite('dropout = { range = [0.0, 0.4], scale = "linear" }', "sample = 64")
    rates = sorted(values_of(found, "dropout"))
    assert rates[0] < 0.02
    assert rates[-1] > 0.38
    assert sum(rates) / 64 == pytest.approx(0.2, abs=0.01)


@pytest.mark.parametrize(("low", "high", "log"), [(0.1, 10.0, True), (-1.0, 3.0, False)])
def test_shares_of_a_range_are_values_below_which_they_lie(low, high, log):
    own = Range(low, high, log)
    assert (own.at(0.0), own.at(1.0), own.at(0.5)) == (low, high, 1.0)
    assert [own.at(k / 20) for k in range(21)] == sorted(own.at(k / 20) for k in range(21))
    assert 0.123456 <= Range(0.123456, 0.23456).at(0.0) < Range(0.123456, 0.23456).at(1.0) <= 0.23456


def test_conditions_set_what_is_no_axis_and_give_an_axis_other_values():
    more = """
[[grid.when]]
on = { optimizer = "adam" }
set = { learning_rate = [0.001, 0.004], max_epochs = 7 }
"""
    found = suite('optimizer = ["sgd", "adam"]\nlearning_rate = [0.02, 0.08]', more=more)
    seen = {
        (c.training.optimizer, c.training.learning_rate, c.training.max_epochs) for c in found.configurations
    }
    assert seen == {("sgd", 0.02, 3), ("sgd", 0.08, 3), ("adam", 0.001, 7), ("adam", 0.004, 7)}
    assert len(found.configurations) == 16
    # What follows from the optimizer (its epochs, its momentum) is no axis of its own.
    assert found.axes == ("width", "learning_rate", "optimizer")


def test_a_condition_moves_a_range():
    more = """
[[grid.when]]
on = { optimizer = ["adam"] }
set = { learning_rate = { range = [0.0001, 0.01] } }
"""
    found = suite('optimizer = ["sgd", "adam"]\nlearning_rate = { range = [0.01, 1.0] }', "sample = 64", more)
    rates = {
        name: sorted(c.training.learning_rate for c in found.configurations if c.training.optimizer == name)
        for name in ("sgd", "adam")
    }
    assert 0.01 <= rates["sgd"][0] < 0.015
    assert 0.7 < rates["sgd"][-1] <= 1
    assert 0.0001 <= rates["adam"][0] < 0.00015
    assert 0.007 < rates["adam"][-1] <= 0.01


def test_what_is_skipped_is_in_no_product_and_in_no_sample():
    more = """
[[grid.when]]
on = { width = [0.25, 0.5], batch_size = 10 }
skip = true
"""
    axes = "batch_size = [10, 20, 40]\nlearning_rate = [0.01, 0.02, 0.04]"
    whole = suite(axes, more=more).configurations
    assert len(whole) == 4 * 3 * 3 - 2 * 3
    assert not any(c.width < 1 and c.training.batch_size == 10 for c in whole)
    sampled = suite(axes, "sample = 20", more).configurations
    assert len(sampled) == 20
    assert set(sampled) < set(whole)
    assert set(suite(axes, "sample = 30", more).configurations) == set(whole)
    with pytest.raises(GapbenchError, match=re.escape("at most all combinations (30)")):
        suite(axes, "sample = 31", more)


def test_the_core_is_repeated_with_other_data():
    found = suite(
        "learning_rate = [0.01, 0.02, 0.04]", 'sample = 12\ncore = 0.25\nseeds = 4\nreplicate = "data_seed"'
    )
    assert found.problem == ("data_seed",)
    draws = {}
    for c in found.configurations:
        draws.setdefault((c.width, c.training.learning_rate), []).append(
            dict(c.task_options).get("data_seed", 0)
        )
    assert sorted(len(d) for d in draws.values()) == [1] * 9 + [4] * 3
    assert {tuple(d) for d in draws.values()} == {(0,), (0, 1, 2, 3)}


def test_what_differs_between_arms_is_an_axis_and_what_a_condition_sets_is_not():
    text = SUITE.format(keys='arm = "plain"\ntraining = { learning_rate = 0.02 }', axes="", more="")
    text += """
[[grid]]
arm = "good practice"
task = "separable"
task_options = { shape = [1, 4, 4], train_size = 40 }
training = { augmentation = "flip", weight_decay = 0.001 }
[grid.axes]
family = ["plain/mlp"]
width = [0.25, 0.5, 1, 2]
learning_rate = [0.01, 0.015]
seed = [0]
"""
    found = parse_suite(text, "here")
    assert len(found.configurations) == 12
    assert found.axes == ("width", "augmentation", "learning_rate", "weight_decay")
    # Options of the task are data.
    other = text.replace("train_size = 40 }\ntraining = { aug", "train_size = 60 }\ntraining = { aug")
    assert parse_suite(other, "here").axes == (
        "width",
        "augmentation",
        "learning_rate",
        "train_size",
        "weight_decay",
    )
    assert parse_suite(other, "here").problem == ("train_size",)


@pytest.mark.parametrize("ranges", [("[0.02, 0.1]", "[0.02, 0.11]"), ("[0.02, 0.1]", "[0.02, 0.1]")])
def test_arms_whose_networks_agree_on_nothing_keep_what_tells_them_apart(ranges):
    """All learning rates differ, so that anything is a function of them."""
    arms = [
        SUITE.format(
            keys=f'sample = 12\ntraining = {{ augmentation = "{kind}" }}',
            axes=f"learning_rate = {{ range = {own} }}",
            more="",
        )
        for kind, own in zip(("none", "flip"), ranges)
    ]
    text = arms[0] + arms[1][arms[1].index("[[grid]]") :]
    assert parse_suite(text, "here").axes == ("width", "augmentation", "learning_rate")


def test_of_many_points_few_of_which_may_be_taken_all_are_counted():
    more = "".join(
        f"[[grid.when]]\non = {{ batch_size = {b}, momentum = {m} }}\nskip = true\n"
        for b, m in itertools.product((10, 20, 40), (0.1, 0.3, 0.5))
        if (b, m) not in ((10, 0.1), (40, 0.5))
    )
    axes = "batch_size = [10, 20, 40]\nmomentum = [0.1, 0.3, 0.5]"
    assert len(suite(axes, "sample = 8", more).configurations) == 8
    with pytest.raises(GapbenchError, match=re.escape("at most all combinations (8)")):
        suite(axes, "sample = 9", more)


def test_replicates_of_the_data_begin_beside_the_suites_own():
    text = SUITE.format(keys='sample = 4\ncore = 1.0\nseeds = 3\nreplicate = "data_seed"', axes="", more="")
    found = parse_suite(text.replace("train_size = 40", "train_size = 40, data_seed = 1"), "here")
    assert len(found.configurations) == 12
    assert {dict(c.task_options).get("data_seed", 0) for c in found.configurations} == {1, 2, 3}


@pytest.mark.parametrize("count", [2, 7, 20, 40])
def test_every_point_of_a_sample_has_its_neighbour_before_it(count):
    levels = (4, 3, 5)
    combinations = tuple((a, b) for a in range(4) for b in range(3) if a != b)
    chosen = based_sample(levels, count, open_to=_Open((0, 1), combinations, frozenset(combinations)))
    assert len({point for point, _ in chosen}) == count
    for place, (point, base) in enumerate(chosen):
        assert point[0] != point[1]
        assert base < place
        if base >= 0:
            assert sum(a != b for a, b in zip(point, chosen[base][0])) == 1
    assert sum(base < 0 for _, base in chosen) <= -(-count // 2)


def test_where_little_may_be_chosen_the_little_is_found():
    levels = (120, 120, 120)
    combinations = tuple((k, k, k) for k in range(120))
    chosen = based_sample(levels, 120, open_to=_Open((0, 1, 2), combinations, frozenset(combinations)))
    assert {point for point, _ in chosen} == set(combinations)


def test_shares_of_a_range_in_other_strata_are_not_shared():
    axes = {"width": [1, 2], "rate": Range(0.1, 1.0), "seed": [0]}
    points = points_of("t", axes, SampleRule(sample=32), lambda point: True, (), "here")
    assert len({(p["width"], p["rate"]) for p in points}) == 32
    assert all(0 <= p["rate"] <= 1 for p in points)


@pytest.mark.parametrize(
    ("axes", "keys", "more", "words"),
    [
        ("learning_rate = { range = [0.1, 0.2] }", "", "", "needs sample"),
        ("learning_rate = { range = [0.2, 0.1] }", "sample = 8", "", "the smaller one first"),
        ("learning_rate = { range = [0.1] }", "sample = 8", "", "two numbers"),
        ("learning_rate = { range = [0.0, 0.1] }", "sample = 8", "", "linear"),
        ("learning_rate = { low = 0.0 }", "sample = 8", "", "range = [low, high]"),
        ('learning_rate = { range = [0.1, 0.2], scale = "cubic" }', "sample = 8", "", "none of log, linear"),
        ("batch_size = { range = [10, 100] }", "sample = 8", "", "list them"),
        ("optimizer = { range = [1, 2] }", "sample = 8", "", "list them"),
        ("label_noise = { range = [0.1, 0.2] }", "sample = 8", "", "changes the data"),
        ("validation = { range = [0.1, 0.2] }", "sample = 8", "", "changes the data"),
        ("learning_rate = [0.1, 0.2, 0.1]", "", "", "twice"),
        (f"learning_rate = [0.1, 1{'0' * 400}]", "", "", "finite"),
        (f"learning_rate = {{ range = [0.1, 1{'0' * 400}] }}", "sample = 8", "", "two numbers"),
        (f"test_size = [10, 1{'0' * 400}]", "", "", "beyond"),
        (
            "".join(
                f"{name} = {[k / 300 for k in range(1, 301)]}\n"
                for name in ("dropout", "momentum", "input_noise")
            ).replace("1.0]", "0.999]"),
            "sample = 400",
            "[[grid.when]]\non = { dropout = 0.5, momentum = 0.5, input_noise = 0.5 }\nskip = true",
            "more than 1,000,000 combinations",
        ),
        ("depth = [1, 100000]", "", "", "at most 1000"),
        ("batch_size = [10, 20]", "sample = 9000000000000000000", "", "sample"),
        ("", 'arm = "a\\nb"', "", "printable"),
        (
            "",
            'sample = 4\ncore = 0.5\nseeds = 2\nreplicate = "data_seed"',
            "[[grid.when]]\non = { width = 1 }\nset = { data_seed = 3 }",
            "cannot be set",
        ),
        ("learning_rate = []", "", "", "at least one value"),
        ("batch_size = [10, 20]", "", "[[grid.when]]\nset = { depth = 1 }", "on"),
        ("batch_size = [10, 20]", "", "[[grid.when]]\non = {}\nskip = true", "is empty"),
        ("batch_size = [10, 20]", "", "[[grid.when]]\non = { batch_size = 10 }", "either set"),
        (
            "batch_size = [10]",
            "",
            "[[grid.when]]\non = { batch_size = 10 }\nskip = true\nset = {depth = 1}",
            "either",
        ),
        (
            "batch_size = [10, 20]",
            "",
            "[[grid.when]]\non = { batch_size = 15 }\nskip = true",
            "none of the axis",
        ),
        ("batch_size = [10, 20]", "", "[[grid.when]]\non = { batchsize = 10 }\nskip = true", "did you mean"),
        ("batch_size = [10, 20]", "", "[[grid.when]]\non = { seed = 0 }\nskip = true", "no axis with listed"),
        (
            "batch_size = [10, 20]",
            "",
            "[[grid.when]]\non = { width = 1 }\nset = { batch_size = 30 }",
            "2 values",
        ),
        (
            "batch_size = [10, 20]",
            "",
            "[[grid.when]]\non = { width = 1 }\nset = { width = 3 }",
            "cannot be set",
        ),
        ("batch_size = [10, 20]", "", "[[grid.when]]\non = { width = 1 }\nset = { depht = 3 }", "depth"),
        ("batch_size = [10]", "", "[[grid.when]]\non = { batch_size = 10 }\nskip = true", "skip every point"),
        (
            "data_seed = [0, 1]",
            'sample = 4\ncore = 0.5\nseeds = 2\nreplicate = "data_seed"',
            "",
            "no axis already",
        ),
        ("", 'sample = 4\ncore = 0.5\nseeds = 2\nreplicate = "data"', "", "data_seed"),
    ],
)
def test_what_the_grammar_does_not_have_is_said(axes, keys, more, words):
    with pytest.raises(GapbenchError, match="grid") as error:
        suite(axes, keys, more)
    assert words.lower() in str(error.value).lower()


SAMPLED = """
name = "mine"
version = 1
[[grid]]
task = "separable"
sample = 12
[grid.axes]
family = ["plain/mlp"]
width = [1, 2]
optimizer = ["sgd", "adam"]
momentum = [0.5, 0.9]
batch_size = [10, 20]
seed = [0]
"""


def test_a_sample_whose_points_are_one_network_is_refused_when_a_file_is_read(tmp_path):
    """The momentum of Adam is none: 12 points would be 8 to 10 networks."""
    file = tmp_path / "mine.toml"
    file.write_text(SAMPLED)
    with pytest.raises(
        GapbenchError, match=r"sample = 12 would have fewer .*momentum.*optimizer = 'adam'.*skip"
    ):
        load_suite(file)
    assert len(parse_suite(SAMPLED, "of a run made before").configurations) < 12
    condition = '[[grid.when]]\non = { optimizer = "adam", momentum = 0.5 }\nskip = true\n'
    file.write_text(SAMPLED + condition)
    assert len(load_suite(file).configurations) == 12


@pytest.mark.parametrize(
    ("classes", "loss", "met"), [(2, 0.69, False), (2, 0.7, True), (10, 2.3, False), (10, 3, True)]
)
def test_a_criterion_that_guessing_meets_is_refused(tmp_path, classes, loss, met):
    file = tmp_path / "mine.toml"
    text = SAMPLED.replace("sample = 12", f"task_options = {{ num_classes = {classes} }}")
    file.write_text(text.replace("[[grid]]", f"[training]\nstop_loss = {loss}\n[[grid]]"))
    if met:
        with pytest.raises(
            GapbenchError, match=rf"stop_loss = {loss} nats is met by guessing among the {classes}"
        ):
            load_suite(file)
        file.write_text(file.read_text().replace("stop_loss", 'stop = "budget"\nstop_loss'))
    assert len(load_suite(file).configurations) == 12
