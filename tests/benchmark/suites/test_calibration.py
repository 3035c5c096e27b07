"""Numbers that differ between problems and families: in a suite, in what is measured, and in what is kept."""

import json

import pytest

import gapbench
from gapbench.runs.known import requests_in
from gapbench.runs.store import Store
from gapbench.suites.calibration import values_of
from gapbench.suites.requests import request_of, stored_request
from gapbench.suites.suite import parse_suite
from gapbench_base.errors import GapbenchError

SUITE = """
name = "calibrated"
version = 1

[training]
max_epochs = 2
stop = "budget"

[measure]
samples = 20
proxies = [
    { proxy = "sharpness_full", radius = "worst", steps = 3, label = "worst" },
    { proxy = "sharpness_full", radius = 0.1, steps = 3, label = "plain" },
]

[[measure.calibration]]
on = { label_noise = 0.0 }
set = { worst = 0.1, other = 7 }

[[measure.calibration]]
on = { label_noise = [0.2], family = "plain/mlp" }
set = { worst = 0.3 }

[[grid]]
task = "separable"
task_options = { shape = [1, 4, 4], train_size = 40, test_size = 80 }
[grid.axes]
family = ["plain/mlp"]
width = [0.125, 0.25]
label_noise = [0.0, 0.2]
seed = [0]
"""


def test_each_network_has_the_number_of_its_problem():
    suite = parse_suite(SUITE, "t")
    worst, plain = suite.proxies
    assert dict(worst.options)["radius"] == "worst"
    assert plain.calibrated == ()
    found = {values_of(c)["label_noise"]: dict(worst.on(c).options) for c in suite.configurations}
    assert found == {0.0: {"radius": 0.1, "steps": 3}, 0.2: {"radius": 0.3, "steps": 3}}
    assert all(worst.on(c).label == "worst" for c in suite.configurations)
    assert plain.on(suite.configurations[0]) is plain


def test_what_is_kept_of_a_request_gives_it_back():
    for request in parse_suite(SUITE, "t").proxies:
        assert request_of(json.loads(json.dumps(stored_request(request)))) == request
    assert (
        len(stored_request(parse_suite(SUITE, "t").proxies[1])) == 3
    )  # as it was before there were calibrations


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibrated")
    (folder / "suite.toml").write_text(SUITE)
    return gapbench.run(folder / "suite.toml", folder / "run", device="cpu", workers=0)


def test_a_run_measures_with_them_and_resumes(trained, tmp_path):
    noise = trained.population.set_index("cell")["label_noise"]
    rows = trained.measurements.pivot(index="cell", columns="proxy", values="value")
    radii = trained.measurements[trained.measurements["proxy"] == "worst"].set_index("cell")["details"]
    assert all(json.loads(radii[c])["radius"] == (0.1 if noise[c] == 0 else 0.3) for c in noise.index)
    assert (noise == 0).sum() == 2
    # The seed is that of network and label, the ascent of this proxy has no other randomness from its start.
    assert (rows["worst"][noise > 0] > 1.5 * rows["plain"][noise > 0]).all()
    before = (trained.folder / "run.sqlite").read_bytes()
    again = gapbench.run(trained.folder.parent / "suite.toml", trained.folder, device="cpu", workers=0)
    assert again.measurements["value"].tolist() == trained.measurements["value"].tolist()
    with Store(trained.folder, readonly=True) as store:
        assert requests_in(store) == again.suite.proxies
        assert len(store.measurements()) == 8
    assert len(before) > 0


def test_the_board_says_between_which_numbers(trained):
    data = json.loads((trained.folder / "board" / "data.json").read_text())
    text = json.dumps(data)
    assert "worst (0.1 to 0.3 by problem and family)" in text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('radius = "worst"', 'radius = "wrost"', "radius = 'wrost' must be a number .* Did you mean 'worst'"),
        ('radius = "worst"', 'radius = "other"', "no calibration sets 'other' for plain/mlp on separable"),
        ("label_noise = [0.2], ", "", "calibration 2: set = { worst } stands in calibration 1"),
        ("label_noise = [0.2]", "label_noise = [0.3]", "calibration 2: on: no network has label_noise = 0.3"),
        ("label_noise = [0.2]", "label_nose = [0.2]", "there is no 'label_nose'. Did you mean 'label_noise'"),
        ('family = "plain/mlp" }', 'family = "plain/cnn" }', "no network has family = 'plain/cnn'"),
        ("worst = 0.3", "", "calibration 2: set = .* is empty"),
        ("worst = 0.3", "worst = true", "worst = True must be a number"),
        ("worst = 0.3", "worst = inf", "worst = inf must be a number"),
        ("set = { worst = 0.3 }", "sets = { worst = 0.3 }", "sets"),
    ],
)
def test_wrong_calibrations_are_refused_by_place(old, new, message):
    assert old in SUITE
    with pytest.raises(GapbenchError, match=message):
        parse_suite(SUITE.replace(old, new), "t")


def test_a_text_option_stays_a_text():
    text = SUITE.replace(
        '"plain" },', '"plain" },\n    { proxy = "sharpness_adaptive", norm = "linf", radius = 0.1 },'
    ).replace("other = 7", "linf = 7")
    (adaptive,) = [r for r in parse_suite(text, "t").proxies if r.proxy == "sharpness_adaptive"]
    assert adaptive.calibrated == ()
    assert dict(adaptive.options)["norm"] == "linf"
