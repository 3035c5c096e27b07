"""Options at which medians are equal in every problem and family."""

import math
import statistics

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import gapbench
from benchmark.tiny_suite import TINY
from gapbench.cli import cli
from gapbench.pilot.calibrating import Aim, aim_of, calibrate, solved, toml_of
from gapbench.population.network import handover_of
from gapbench.population.stored import open_population
from gapbench.suites.suite import parse_suite
from gapbench_base.errors import GapbenchError


@settings(max_examples=200, deadline=None)
@given(
    st.floats(0.3, 4.0),
    st.floats(-8.0, 8.0),
    st.floats(-3.0, 3.0),
    st.sampled_from([0.1, 1.0]),
)
def test_powers_are_solved_within_two_percent(power, scale, start, value):
    """c x^p = v at x = (v / c)^(1/p), as long as that is within the span."""
    exact = (math.log(value) - scale) / power
    if abs(exact - start) > 10 * math.log(4.0) - 1.5:
        return
    calls = []

    def function(x):
        calls.append(x)
        return math.exp(scale + power * math.log(x))

    found = solved(function, value, math.exp(start))
    assert function(found) == pytest.approx(value, rel=0.021)
    assert len(calls) <= 26


@pytest.mark.parametrize("cap", [math.inf, 30.0])
def test_losses_that_saturate_or_are_not_finite_are_solved(cap):
    def function(x):
        return math.inf if x > 2.0 and cap == math.inf else min(x**2 / 4, cap)

    assert function(solved(function, 0.25, 100.0)) == pytest.approx(0.25, rel=0.021)
    with pytest.raises(GapbenchError, match="does not reach 31"):
        solved(lambda x: min(x, 30.0), 31.0, 1.0)


def test_a_jump_is_found_at_its_place():
    assert solved(lambda x: 1.0 if x > 0.37 else 0.0, 0.5, 1.0) == pytest.approx(0.37, rel=0.03)


def test_networks_have_the_median_that_is_said(trained):
    aims = [Aim("sharpness_full", "radius", 0.1), Aim("sharpness_average_full", "radius", 0.3)]
    (stratum,) = calibrate(trained, aims, networks=5)
    assert stratum.on == {"task": "separable", "family": "plain/mlp"}
    assert stratum.networks == 5
    assert stratum.missing == {}
    population = open_population(trained)
    chosen = [population.members[int(k * len(population.members) / 5)] for k in range(5)]
    given = [handover_of(member, population) for member in chosen]
    for aim, (number, median) in stratum.found.items():
        extra = {"steps": 3} if aim.proxy == "sharpness_full" else {}  # as the suite has it
        rows = [
            gapbench.measure(
                aim.proxy, g.model, g.inputs, g.targets, loss=g.loss, seed=k, **{aim.option: number}, **extra
            )
            for k, g in enumerate(given)
        ]
        apart = statistics.median(row.value for row in rows)
        rough = 1e-5 if aim.proxy == "sharpness_full" else 0.2  # that is sampled, by other seeds
        assert apart == pytest.approx(median, rel=rough)
        assert median == pytest.approx(aim.value, rel=0.1)  # two digits of the number


def test_a_value_that_cannot_be_reached_is_said_by_name(trained):
    result = CliRunner().invoke(
        cli, ["calibrate", str(trained), "sharpness_full.radius=1e-30", "--networks", "2"]
    )
    assert result.exit_code == 1
    assert "# sharpness_full 1e-30: none, its median does not reach 1e-30" in result.output


def test_what_it_prints_for_a_suite_is_read_by_one(tmp_path):
    suite = tmp_path / "tiny.toml"
    suite.write_text(TINY)
    command = ["calibrate", str(suite), "sharpness_full.radius=0.1", "--networks", "2", "--out"]
    result = CliRunner().invoke(cli, [*command, str(tmp_path / "run"), "--workers", "1", "--quiet"])
    assert result.exit_code == 0, result.output
    text = TINY.replace("radius = 0.2", 'radius = "sharpness_full 0.1"').replace(
        "[[grid]]", result.output + "\n[[grid]]", 1
    )
    (request,) = [r for r in parse_suite(text, "t").proxies if r.calibrated]
    configuration = parse_suite(text, "t").configurations[0]
    assert dict(request.on(configuration).options)["radius"] > 0


def test_problems_are_told_apart_and_named():
    from gapbench.pilot.calibrating import CalibratedStratum

    aim = Aim("sharpness_full", "radius", 1.0)
    on = {"task": "separable", "family": "plain/mlp", "spectrum": 0.5}
    text = toml_of([CalibratedStratum(on, 3, {aim: (0.25, 1.01)}, {})])
    assert text.splitlines()[1:] == [
        'on = { task = "separable", family = "plain/mlp", spectrum = 0.5 }',
        'set = { "sharpness_full 1" = 0.25 }',
        "# medians of 3 networks: 1.01",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sharpness_full", "give PROXY.OPTION=VALUE"),
        ("sharpness_full.radius=0", "give PROXY.OPTION=VALUE"),
        ("sharpness_full.radius=much", "give PROXY.OPTION=VALUE"),
        ("sharpnes_full.radius=1", "sharpness_full"),
        ("sharpness_full.radios=1", "no option 'radios'. Did you mean 'radius'"),
        ("sharpness_full.steps=1", "no number between which others lie"),
    ],
)
def test_wrong_aims_are_refused(text, message):
    with pytest.raises(GapbenchError, match=message):
        aim_of(text)
