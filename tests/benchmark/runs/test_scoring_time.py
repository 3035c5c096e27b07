"""How long scoring takes: said while it lasts, and predicted before."""

import shutil

import pandas as pd
import pytest

import gapbench
from gapbench.runs import scoring_time as module
from gapbench.runs.scoring_time import ScoringTime, scored, scoring_of

pytestmark = pytest.mark.slow  # the population starts processes


def test_scoring_says_how_far_it_is_and_gives_the_same_scores(trained, monkeypatch):
    run, said, clock = gapbench.open_run(trained), [], [0.0]

    def monotonic():
        clock[0] += 1.0
        return clock[0]

    plain = run.scores(targets=("gap", "test_error"))
    monkeypatch.setattr(module.time, "monotonic", monotonic)
    found = scored(run, said.append, targets=("gap", "test_error"))
    pd.testing.assert_frame_equal(found, plain)
    assert said[0] == f"Scoring {run.measurements['proxy'].nunique()} proxies on 12 networks."
    assert said[1].startswith("scored ")
    assert said[1].endswith(" left")


def test_shares_grow_to_one(trained):
    shares = []
    gapbench.open_run(trained).scores(targets=("gap", "test_error"), progress=shares.append)
    assert shares == sorted(shares)
    assert 0 < shares[0] < 0.2
    assert shares[-1] == 1
    assert 0.5 in shares  # one of two targets


def test_a_prediction_begins_when_it_is_asked_for_and_grows_with_targets_networks_and_proxies(
    trained, monkeypatch
):
    """The trial itself takes 2 s here, by a clock that a test can read."""
    monkeypatch.setattr(module, "_score", lambda population, axes: spent.append(2.0 * (len(population) > 4)))
    spent = []
    monkeypatch.setattr(module.time, "thread_time", lambda: sum(spent))
    networks = [
        {"cell": str(k), "task": "t", "family": "f", "width": 1.0 + k, "learning_rate": 0.1}
        for k in range(240)
    ]

    def predicted(count, proxies, targets):
        prediction = ScoringTime(networks[:count], ("width", "learning_rate"), proxies, targets)
        assert prediction._thread.ident is None
        prediction.predicted()
        prediction.wait()
        return prediction.predicted() / (module.BESIDES * module.REST)

    assert predicted(30, 3, 1) == pytest.approx(2.0)
    assert predicted(30, 3, 3) == pytest.approx(6.0)
    assert predicted(30, 13, 1) == pytest.approx(2.0 * (1 + 10 * module.OF_EACH))
    assert predicted(240, 3, 1) == pytest.approx(2.0 * 8**module.GROWTH)
    never = ScoringTime(networks, ("width",), 3, 1)
    never.wait()
    assert never._thread.ident is None


def test_what_is_compiled_once_does_not_count(monkeypatch):
    """The first scoring on a machine compiles, whatever the number of networks needs; that takes 20 s here."""
    spent, compiled = [], set()

    def score(population, axes):
        spent.append(1.0 + 20.0 * (len(population) not in compiled))
        compiled.add(len(population))

    monkeypatch.setattr(module, "_score", score)
    monkeypatch.setattr(module.time, "thread_time", lambda: sum(spent))
    networks = [{"cell": str(k), "task": "t", "family": "f", "width": 1.0, "lr": 0.1} for k in range(30)]
    prediction = ScoringTime(networks, ("width", "lr"), module.PROXIES, 1)
    prediction.predicted()
    prediction.wait()
    assert prediction.predicted() == pytest.approx(module.BESIDES * module.REST)


def test_the_trial_scores_the_networks_of_the_run(trained):
    prediction = scoring_of(gapbench.open_run(trained), more=1)
    prediction.predicted()
    prediction.wait()
    assert prediction.predicted() > 0
    assert prediction._once != module.TYPICAL


def test_what_the_last_scoring_took_is_known_on_this_machine_for_more_proxies(trained, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    (folder / module.REMEMBERED).unlink(missing_ok=True)
    run = gapbench.open_run(folder)
    before = (folder / "run.sqlite").read_bytes()
    clock = iter([0.0, 30.0])
    monkeypatch.setattr(module, "_said", lambda *_: None)
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    scored(run, print, targets=("gap",))  # tells nothing of all targets
    assert scoring_of(run)._known is None
    clock = iter([0.0, 30.0])
    scored(run, print)
    assert (folder / "run.sqlite").read_bytes() == before
    same, more = scoring_of(run), scoring_of(run, more=10)
    assert same.predicted() == pytest.approx(30.0 * module.REST)
    assert same._thread.ident is None  # no trial is needed
    proxies = run.measurements["proxy"].nunique()
    of_ten = 10 * module.OF_EACH / (1 + module.OF_EACH * (proxies - module.PROXIES))
    assert more.predicted() == pytest.approx(30.0 * module.REST * (1 + of_ten))
    monkeypatch.setattr(module.platform, "node", lambda: "another")
    assert scoring_of(run)._known is None


def test_the_rest_of_a_scoring_is_told_by_what_is_known_first_and_by_what_passed_then():
    assert module.rest(1.0, 0.1) is None
    assert module.rest(10.0, 0.5) == pytest.approx(20.0 * module.REST - 10.0)
    assert module.rest(0.0, 0.0, 40.0) == 40.0
    assert module.rest(10.0, 0.5, 40.0) == pytest.approx(0.25 * 40.0 + 0.75 * 20.0 * module.REST - 10.0)
    assert module.rest(10.0, 1.0, 40.0) == pytest.approx(10.0 * (module.REST - 1))
    assert module.rest(50.0, 0.0, 40.0) == 0.0


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"machine": 1}', '{"machine": "%s", "once": "nan"}', "\0"])
def test_a_note_of_the_last_scoring_that_cannot_be_read_is_none(text, tmp_path):
    (tmp_path / module.REMEMBERED).write_text(text.replace("%s", module.platform.node()))
    assert module._last(tmp_path) is None


def test_a_trial_that_fails_leaves_what_is_typical(monkeypatch):
    def fails(*_):
        raise ValueError

    monkeypatch.setattr(module, "_score", fails)
    prediction = ScoringTime([{"cell": "a", "task": "t", "family": "f", "width": 1.0}], ("width",), 3, 1)
    prediction.predicted()
    prediction.wait()
    assert prediction.predicted() == pytest.approx(module.TYPICAL * module.BESIDES * module.REST)
