"""Points of a report made from measurements that are written down here."""

import dataclasses

import pytest

from gapbench.checking.findings import Evidence, judge, loads
from gapbench.checking.trials import PRIOR, Expected
from gapbench.proxies.results import Measurement
from gapbench.sandbox.limits import LATE, Limits
from gapbench.sandbox.sandbox import Answer, Loaded


@dataclasses.dataclass(frozen=True)
class Configuration:
    family: str
    task: str = "separable"
    width: float = 1.0


@dataclasses.dataclass(frozen=True)
class Member:
    key: str
    configuration: Configuration


@dataclasses.dataclass(frozen=True)
class Population:
    members: tuple[Member, ...]


MEMBERS = tuple(Member(name, Configuration(f"family {name}")) for name in "abc")


def answer(value, reason=""):
    status = "ok" if value is not None else "failed"
    return Answer(Measurement("mine", value, None, 1.0, status, reason))


def point(name, first, second):
    evidence = Evidence(
        name="mine",
        population=Population(MEMBERS),
        ranked=MEMBERS,
        first={(key, 0): found for key, found in zip("abc", first, strict=True)},
        second={(key, 0): found for key, found in zip("abc", second, strict=True)},
        violations=(),
        limits=Limits(),
        ended=0,
    )
    return next(found for found in judge(evidence) if found.name == name)


ONE, TWO, LONG = answer(1.0), answer(2.0), answer(None, f"{LATE} 20 s")


@pytest.mark.parametrize(
    ("first", "second", "status", "words"),
    [
        ((ONE, TWO, TWO), (ONE, TWO, TWO), "pass", "the same on 3 networks"),
        ((ONE, TWO, LONG), (ONE, TWO, TWO), "pass", "the same on 2 networks"),
        ((ONE, TWO, TWO), (ONE, LONG, LONG), "pass", "the same on 1 networks"),
        ((ONE, TWO, TWO), (LONG, LONG, LONG), "warning", "no network was measured twice within its time"),
        ((ONE, TWO, LONG), (TWO, TWO, TWO), "fail", "differs on 1 of 2 networks"),
        ((ONE, TWO, answer(None, "boom")), (ONE, TWO, TWO), "fail", "failed once, ok once (family c)"),
    ],
)
def test_being_late_once_is_no_lack_of_repeatability(first, second, status, words):
    found = point("repeatability", first, second)
    assert (found.status, words in found.text) == (status, True), found


def test_what_is_late_is_told_to_be_faster():
    assert "faster" in point("families", (ONE, TWO, LONG), (ONE, TWO, LONG)).advice
    assert "NotApplicable" in point("families", (ONE, LONG, answer(None, "boom")), (ONE, TWO, TWO)).advice


def test_a_random_number_that_no_network_changes_is_told_from_a_constant():
    first = {(key, seed): answer(float(seed)) for key in "abc" for seed in range(4)}
    members = {"population": Population(MEMBERS), "ranked": MEMBERS}
    given = {"name": "mine", "violations": (), "limits": Limits(), "second": {}, "ended": 0, **members}
    found = {p.name: p for p in judge(Evidence(first=first, **given))}
    assert found["variation"].status == "fail"
    assert "with one seed" in found["variation"].text
    assert "seed alone" in found["variation"].advice
    assert "inf" not in found["seeds"].text
    constant = {key: answer(1.0) for key in first}
    found = {p.name: p for p in judge(Evidence(first=constant, **given))}
    assert found["variation"].text == "the same value, 1, on every network"


def test_a_misspelt_attribute_of_the_context_is_told_the_near_one():
    wrong = answer(None, "AttributeError: 'Context' object has no attribute 'paramters' (line 8)")
    found = point("values", (wrong,) * 3, (wrong,) * 3)
    assert found.advice == "context has no 'paramters'. Did you mean 'parameters'?"
    other = answer(None, "TypeError: no")
    assert "NotApplicable" in point("values", (other,) * 3, (other,) * 3).advice


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("ModuleNotFoundError: No module named 'x' (line 3)", "install it where gapbench is installed"),
        ("GapbenchError: The proxy a: higher_means = 'wrose' must be 'worse' or 'better'.", ""),
        ("SyntaxError: invalid syntax (line 1)", "importable on its own"),
    ],
)
def test_a_file_that_does_not_load_is_told_what_to_do(reason, advice):
    found = loads(Loaded(reason=reason))
    assert (found.status, advice in found.advice, bool(found.advice)) == ("fail", True, bool(advice))


def test_a_name_that_is_taken_is_noticed_before_the_submission():
    loaded = Loaded(proxies=({"name": "param_norm"}, {"name": "mine"}))
    assert loads(loaded, "param_norm").status == "warning"
    assert "--name" in loads(loaded, "param_norm").advice
    assert loads(loaded, "noisy_oracle").status == "warning"
    assert loads(loaded, "mine").status == "pass"


def test_the_time_of_what_is_ahead_is_what_the_same_networks_took():
    """What is not known yet is taken to be between what is typical and what others took."""
    expected = Expected({"a": 2, "b": 1, "c": 3}, typical=1.0, at_once=2)
    assert expected.seconds() == 6 / 2
    expected.heard("a", 4.0)
    other = (PRIOR + 4) / (PRIOR + 1)
    assert expected.seconds() == pytest.approx((4 + 4 * other) / 2)
    for name in "abcc":
        expected.heard(name, 5.0)
    assert expected.seconds() == 5 / 2
    expected.heard("c", 5.0)
    assert expected.seconds() == 0


def test_what_a_measurement_typically_takes_can_be_corrected_before_the_first():
    expected = Expected({"a": 2, "b": 1}, typical=1.0, at_once=1)
    expected.typically(3.0)
    assert expected.seconds() == 9.0


def test_what_was_not_measured_yet_takes_longer_the_more_it_costs():
    expected = Expected({"a": 1, "b": 2, "c": 1}, 0.5, 2, {"a": 0.1, "b": 0.3, "c": 0.8})
    assert expected.seconds() == pytest.approx(0.5 * (0.25 + 2 * 0.75 + 2.0) / 2)
    expected.heard("a", 1.0)  # of a quarter of the average cost
    each = (PRIOR * 0.5 + 1.0) / (PRIOR + 0.25)
    assert expected.seconds() == pytest.approx(each * (2 * 0.75 + 2.0) / 2)
    expected.heard("b", 3.0)
    each = (PRIOR * 0.5 + 4.0) / (PRIOR + 1.0)
    assert expected.seconds() == pytest.approx((3.0 + 2.0 * each) / 2)
