"""What Python shows of gapbench's objects, and measuring many proxies in one call."""

import math
import re
import shutil

import pandas as pd
import pytest
import torch
from torch import nn

import gapbench
from gapbench.proxies.context import Context
from gapbench.proxies.results import Measurement


@pytest.fixture(scope="module")
def data():
    generator = torch.Generator().manual_seed(3)
    return torch.randn(24, 1, 4, 4, generator=generator), torch.arange(24) % 3


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 5), nn.ReLU(), nn.Linear(5, 3))


def test_a_measurement_is_one_line():
    found = Measurement("x", 1 / 3, 0.0123, 1.5, "ok", details={"history": list(range(1000))})
    assert repr(found) == "Measurement(x = 0.333333 ± 0.012, 1.5 s)"
    assert repr(Measurement("x", 2.0, None, 0.25, "ok")) == "Measurement(x = 2, 0.25 s)"
    failed = Measurement("x", None, None, 0.1, "not_applicable", "no margins")
    assert repr(failed) == "Measurement(x: not_applicable, 'no margins')"


def test_a_context_and_its_symmetry_are_one_line(network, data):
    context = Context(network.eval(), *data, 3, torch.Generator(), unlabelled=data[0])
    assert repr(context) == (
        "Context(Sequential of 103 parameters; 24 of 24 training examples (1, 4, 4), 3 classes, cross_entropy; "
        "with unlabelled)"
    )
    assert repr(context.symmetry) == "Symmetry(dimension 5 of 103 parameters (5 rescaling of units))"


def test_a_run_is_one_line(run_folder):
    shutil.rmtree(run_folder / "board")
    run = gapbench.open_run(run_folder)
    counts = ", ".join(f"{n} {status}" for status, n in run.population["status"].value_counts().items())
    assert (
        repr(run)
        == f"Run({str(run_folder)!r}: suite tiny version 1, 12 of 12 networks ({counts}), 2 proxies)"
    )
    assert "<table>" not in run._repr_html_()  # no board was built


def test_the_ranking_in_a_notebook_is_that_of_the_board(run_folder):
    run = gapbench.open_run(run_folder)
    run.build_board()
    lines = re.findall(r"<tr>(.*?)</tr>", run._repr_html_())
    cells = [re.sub("<[^>]*>", "", line.replace("</td><td>", "|")).split("|") for line in lines]
    rows = {name: (rank, tau, interval) for rank, name, tau, interval, _ in cells[1:]}
    assert set(rows) >= {"param_norm", "random (baseline)", "width (baseline)"}
    scores = run.scores(targets=("gap",))
    head = scores[(scores["estimator"] == "tau") & (scores["task"] == "") & (scores["family"] == "")]
    own = head.set_index("proxy").loc["param_norm"]
    assert rows["param_norm"] == ("1 (1-1)", f"{own['value']:.3f}", f"[{own['low']:.3f}, {own['high']:.3f}]")


def test_all_proxies_in_one_call_are_those_measured_alone(network, data):
    names = ["param_norm", "train_loss", "hessian_trace", "distance_from_initialization"]
    table = gapbench.measure_all(network, *data, names, progress=False)
    assert list(table.index) == names
    assert list(table.columns) == ["value", "standard_error", "seconds", "status", "reason"]
    for name in names[:3]:
        alone = gapbench.measure(name, network, *data)
        assert table.loc[name, "status"] == "ok"
        assert table.loc[name, "value"] == pytest.approx(alone.value, rel=1e-6)
    assert table.loc["distance_from_initialization", "status"] == "not_applicable"
    assert math.isnan(table.loc["distance_from_initialization", "value"])
    assert "initial" in table.loc["distance_from_initialization", "reason"]
    given = gapbench.measure_all(network, *data, names, initial=network, progress=False)
    assert given.loc["distance_from_initialization", "value"] == 0.0


def test_all_registered_proxies_are_measured_by_default(network, data, capsys):
    table = gapbench.measure_all(network, *data, initial=network)
    assert sorted(table.index) == gapbench.list_proxies()
    assert (table["status"] != "failed").all()
    assert isinstance(table, pd.DataFrame)
    assert capsys.readouterr().out == ""


def test_an_unknown_proxy_is_refused_before_anything_is_measured(network, data):
    with pytest.raises(gapbench.GapbenchError, match="Did you mean 'param_norm'"):
        gapbench.measure_all(network, *data, ["train_loss", "parm_norm"])
