"""What a run will cost, said before it is begun."""

import hashlib
import re
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import gapbench
from benchmark.tiny_suite import TINY
from gapbench.cli import cli
from gapbench.pilot.costs import costs_of, family_costs
from gapbench.pilot.estimating import ROW_BYTES, estimate, estimate_text
from gapbench.population.facts import facts_source
from gapbench.population.plan import plan
from gapbench.runs.store import Store
from gapbench.suites.suite import load_suite

TWO = TINY + TINY[TINY.index("[[grid]]") :].replace("plain/mlp", "plain/deep_linear").replace(
    "seed = [0, 1]", "seed = [0]"
)


@pytest.fixture
def suite(tmp_path):
    file = tmp_path / "tiny.toml"
    file.write_text(TWO)
    return file


def contents(folder):
    return {
        path.relative_to(folder): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(("-shm", "-wal"))
    }


def test_what_is_left_of_a_run_rests_on_what_it_has(suite, tmp_path):
    folder = tmp_path / "runs" / "tiny"
    gapbench.run(suite, folder, device="cpu", workers=0, board=False, limit=6)
    before = contents(folder)
    found = estimate(suite, folder, device="cpu", workers=2)
    assert contents(folder) == before
    assert (found.planned, found.networks, found.known, found.tried) == (18, 12, 6, 0)
    assert found.measurements == 12 * 5
    with Store(folder, readonly=True) as store:
        known = costs_of(store.cells(), store.measurements(), store.begun_at())
    left = [c for c in plan(load_suite(suite), facts_source(None)) if c.key not in known]
    for own, expected in zip(found.costs, family_costs(known.values(), left, 2), strict=True):
        assert replace(own, hours=0.0) == replace(expected, hours=0.0)
        assert own.hours == pytest.approx(expected.hours)
    assert {(own.family, own.networks) for own in found.costs} == {
        (family, sum(c.configuration.family == family for c in left))
        for family in ("plain/mlp", "plain/deep_linear")
    }
    whole = sum(own.networks * (own.train_seconds + own.measure_seconds) for own in found.costs)
    assert found.seconds == pytest.approx(whole / 2)
    assert found.disk_bytes == pytest.approx(sum(own.bytes for own in found.costs) + ROW_BYTES * 60)
    beside = estimate(suite, tmp_path / "runs" / "other", device="cpu", workers=2)
    assert (beside.networks, beside.known, beside.tried) == (18, 6, 0)
    assert not (tmp_path / "runs" / "other").exists()


def test_a_submission_does_not_make_a_network_whole(suite, tmp_path):
    """Five proxies are asked for; with others measured in the place of some, a network is not done."""
    folder = tmp_path / "runs" / "tiny"
    gapbench.run(suite, folder, device="cpu", workers=0, board=False, proxies=["param_norm", "random"])
    names = ["train_loss", "inverse_margin", "distance_from_initialization"]
    gapbench.run(suite, folder, device="cpu", workers=0, board=False, proxies=names)
    found = estimate(suite, folder, device="cpu", workers=0, seconds=0.0)
    assert (found.networks, found.known) == (18, 0)


def test_what_cannot_be_tried_is_said(suite, tmp_path, monkeypatch):
    import gapbench.pilot.estimating as estimating

    monkeypatch.setattr(estimating, "brought_up_to_date", lambda *_, **__: ["the disk is on fire"])
    with pytest.raises(gapbench.GapbenchError, match=r"could not be tried.* the disk is on fire"):
        estimate(suite, tmp_path / "runs" / "tiny", device="cpu", workers=0)


def test_what_is_not_known_is_tried_and_thrown_away(suite, tmp_path, monkeypatch):
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    folder = tmp_path / "elsewhere" / "tiny"
    found = estimate(suite, folder, device="cpu", workers=0, seconds=0.0)
    assert not folder.parent.exists()
    assert list(place.iterdir()) == []
    assert (found.networks, found.known, found.tried) == (18, 0, 2)  # one of each family
    assert all(own.train_seconds > 0 and own.measure_seconds > 0 for own in found.costs)
    assert all(own.bytes > 0 for own in found.costs)
    more = estimate(suite, folder, device="cpu", workers=0, seconds=1e9)
    assert more.tried == 12  # six of each
    some = estimate(suite, folder, device="cpu", workers=0, seconds=0.0, limit=3, proxies=["param_norm"])
    assert (some.networks, some.measurements) == (3, 3)


def test_of_a_whole_run_nothing_is_left(suite, tmp_path):
    folder = tmp_path / "runs" / "tiny"
    gapbench.run(suite, folder, device="cpu", workers=0, board=False)
    found = estimate(folder, device="cpu")
    assert (found.networks, found.seconds, found.disk_bytes) == (0, 0.0, 0.0)
    assert "Nothing is left to do of tiny version 1" in estimate_text(found)
    twice = estimate(folder, device="cpu", workers=0, repeats=2, seconds=0.0)
    assert twice.networks == 18
    assert all(own.train_seconds == own.bytes == 0 < own.measure_seconds for own in twice.costs)
    measuring = sum(own.networks * own.measure_seconds for own in twice.costs)
    assert sum(own.hours for own in twice.costs) == pytest.approx(measuring / 3600)


def test_the_text_names_every_group_and_its_sum(suite, tmp_path):
    found = estimate(suite, tmp_path / "runs" / "tiny", device="cpu", workers=0, seconds=0.0)
    costs = tuple(replace(own, hours=k + 1.0, bytes=1e6) for k, own in enumerate(found.costs))
    said = estimate_text(replace(found, costs=costs, overhead_seconds=0.0, memory_bytes=2.5e9))
    assert max(map(len, said.splitlines())) <= 100
    assert re.search(r"separable +plain/deep_linear +6 .* 1\.0 h +1\.0 MB", said)
    assert re.search(r"separable +plain/mlp +12 .* 2\.0 h +1\.0 MB", said)
    assert re.search(r"in all +18 +3\.0 h +2\.2 MB", said)
    assert "Memory: about 2.5 GB" in said
    assert "2 networks trained and measured now" in said


def test_the_command_says_it_and_leaves_no_run(suite, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["run", str(suite), "--dry-run", "--device", "cpu", "--workers", "1"])
    assert done.exit_code == 0, done.output
    assert "tiny version 1: 18 networks; 1 worker on cpu" in done.output
    assert not Path("runs").exists()
    for of_a_cluster in (["--gpu-share", "0.5"], ["--address", "head:6379"]):
        refused = CliRunner().invoke(cli, ["run", str(suite), "--dry-run", *of_a_cluster])
        assert refused.exit_code != 0
        assert "cluster" in str(refused.exception)
    wrong = CliRunner().invoke(cli, ["run", "quik", "--dry-run"])
    assert isinstance(wrong.exception, gapbench.GapbenchError)
    assert "quick" in str(wrong.exception)
