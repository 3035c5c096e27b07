"""What `gapbench submit` tells an author beside the headline."""

from types import SimpleNamespace

import pytest

from gapbench.commands.submit import _beside
from gapbench.runs.entry import ScoreRow


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
    assert capsys.readouterr().out == "Beside it: rank 3, between 1 and 6, pooled 0.500.\n"


def test_what_is_not_defined_is_not_named(capsys):
    _beside(entry(tau_within=float("nan"), tau_b=0.5, tau_with_width=-0.79))
    assert capsys.readouterr().out == "Beside it: pooled 0.500, with the width itself -0.790.\n"
    _beside(entry())
    assert capsys.readouterr().out == ""
