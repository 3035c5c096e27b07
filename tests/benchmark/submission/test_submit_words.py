"""What `gapbench submit` tells an author beside the headline."""

from types import SimpleNamespace

import pytest

from gapbench.commands.submit import _beside, _claimed
from gapbench.runs.entry import Score, ScoreRow
from gapbench.submission.request import default_name


def entry(**estimators):
    others = [ScoreRow(target="gap", task="one", estimator="rank", value=9.0)]
    others.append(ScoreRow(target="loss_gap", estimator="tau_within", value=0.9))
    own = [ScoreRow(target="gap", estimator=name, value=value) for name, value in estimators.items()]
    return SimpleNamespace(scores=(*others, *own))


@pytest.mark.parametrize("tau", [0.8, -0.81, 1.0])
def test_a_proxy_that_follows_the_width_is_told_so(capsys, tau):
    _beside(entry(rank=3.0, tau_within=0.125, tau_b=-0.25, tau_with_width=tau))
    first, second = capsys.readouterr().out.splitlines()
    assert first == (
        f"Beside it: rank 3, tau within width 0.125, pooled -0.250, with the width itself {tau:.3f}."
    )
    assert "may be the width" in second


def test_a_rank_comes_with_the_ranks_that_it_may_have(capsys):
    known = entry(tau_b=0.5)
    known.scores += (ScoreRow(target="gap", estimator="rank", value=3.0, low=1.0, high=6.0),)
    _beside(known)
    assert capsys.readouterr().out == "Beside it: rank 3 (1-6), pooled 0.500.\n"


def test_what_is_not_defined_is_not_named(capsys):
    _beside(entry(tau_within=float("nan"), tau_b=0.5, tau_with_width=-0.79))
    assert capsys.readouterr().out == "Beside it: pooled 0.500, with the width itself -0.790.\n"
    _beside(entry())
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("left", "said"), [({}, "101 of 101"), ({"not_converged": 90, "diverged": 1}, "101 of 192")]
)
def test_the_headline_says_of_how_many_networks_trained_it_is(capsys, left, said):
    rows = [ScoreRow(target="gap", estimator="tau", value=0.5, models=101)]
    rows += [ScoreRow(target="gap", estimator=f"left_out:{why}", value=n) for why, n in left.items()]
    rows += [ScoreRow(target="gap", task="one", estimator="left_out:diverged", value=7.0)]
    claimed = Score(value=0.5, low=0.25, high=0.75, models=101)
    for means, gap in (("worse", "larger"), ("better", "smaller")):
        _claimed(
            SimpleNamespace(
                label="mine", scores=tuple(rows), claimed=claimed, verifications=(), higher_means=means
            )
        )
        printed = capsys.readouterr().out
        assert f"tau with the gap 0.500 [0.250, 0.750] over {said} networks: claimed" in printed
        assert f"larger values, {gap} gaps" in printed


def test_an_entry_that_nobody_named_tells_its_options():
    defaults = {"power": 4, "radius": 0.5}
    assert default_name("kurtosis", defaults, defaults) == "kurtosis"
    assert default_name("kurtosis", {**defaults, "power": 3}, defaults) == "kurtosis[power=3]"
    assert default_name("kurtosis", {"power": 3, "radius": 1.0}, defaults) == "kurtosis[power=3, radius=1.0]"
    assert default_name("kurtosis", {"text": "x" * 80}, {}) == "kurtosis"
