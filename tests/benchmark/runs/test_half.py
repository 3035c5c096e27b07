"""Packs with weights in half precision: another population, made only where rounding moves no score."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save_file

import gapbench
from benchmark.conftest import WALLS
from benchmark.runs.test_merging import content
from benchmark.sandbox.adversaries import BENIGN
from gapbench import halving
from gapbench.cli import cli
from gapbench.halving import pack_half
from gapbench.runs.merging import merge
from gapbench.runs.packing import pack
from gapbench.runs.pulling import pull_pack
from gapbench.runs.run import open_run
from gapbench.runs.weight_location import weights_of
from gapbench.runs.weights import load_weights
from gapbench.submission.submitting import submit
from gapbench.submission.verifying import verify
from gapbench_base.errors import GapbenchError


@pytest.fixture(scope="module")
def halved(entered_once, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run with an entry, and the run of its pack in half precision."""
    folder = tmp_path_factory.mktemp("halved")
    done = pack_half(entered_once[0], folder / "half.zip", compare=["param_norm"])
    assert done.half.of == open_run(entered_once[0]).identity.fingerprint
    assert done.half.compared == ("param_norm",)
    assert 0 <= done.half.largest <= halving.SHARE
    assert done.half.networks == 12
    assert 0 <= done.other_errors <= 12
    return entered_once[0], pull_pack(folder / "half.zip", folder / "run").folder


def test_it_is_another_population_with_the_same_tables(halved: tuple[Path, Path]) -> None:
    run, pulled = (open_run(folder) for folder in halved)
    assert pulled.identity.fingerprint != run.identity.fingerprint
    assert pulled.population.drop(columns=["finished"], errors="ignore").equals(run.population)
    assert pulled.measurements.equals(run.measurements)
    assert all(pulled.checksums[cell] != sha256 for cell, sha256 in run.checksums.items())
    for cell, sha256 in pulled.checksums.items():
        initial, final = load_weights(weights_of(halved[1], cell), sha256)
        whole = load_weights(weights_of(halved[0], cell), None)
        for state, other in zip((initial, final), whole):
            for name, tensor in state.items():
                assert tensor.dtype == other[name].dtype
                assert torch.equal(tensor, other[name].half().float())
        sizes = [weights_of(folder, cell).stat().st_size for folder in halved]
        assert sizes[1] < 0.7 * sizes[0]


def test_its_board_says_so_and_shows_no_entry_as_one_of_it(halved: tuple[Path, Path], tmp_path: Path) -> None:
    run = open_run(shutil.copytree(halved[1], tmp_path / "run"))
    told = " ".join(run.notes())
    assert f"so this is not the population {open_run(halved[0]).identity.fingerprint}" in told
    assert "no score of param_norm moved" in told
    assert "a_norm was measured on other weights of 12 networks" in told
    run.build_board()
    assert "Half precision" in (tmp_path / "run" / "board" / "board.md").read_text()


@pytest.mark.slow
def test_submissions_and_verifications_are_of_the_rounded_networks(
    halved: tuple[Path, Path], hosts, tmp_path: Path
) -> None:
    run = shutil.copytree(halved[1], tmp_path / "run")
    file = tmp_path / "mine.py"
    file.write_text(BENIGN["a_norm"])
    done = submit(file, run, hosts=hosts, unsandboxed=bool(WALLS), name="again")
    assert done.entry is not None
    assert done.entry.population.fingerprint == open_run(run).identity.fingerprint
    assert {c: v.weights for c, v in done.entry.values.items()} == open_run(run).checksums
    assert "again" in (run / "board" / "scores.csv").read_text()
    assert verify("again", run, hosts=hosts, unsandboxed=bool(WALLS)).outcome == "confirmed"
    with pytest.raises(GapbenchError, match="measured on other networks than those"):
        verify("a_norm", run, hosts=hosts, unsandboxed=bool(WALLS))


def test_nothing_is_trained_measured_or_merged_beside_it(halved: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(GapbenchError, match="holds weights in half precision, of the population"):
        gapbench.run(halved[1], device="cpu", workers=0)
    with pytest.raises(GapbenchError, match="half precision, which belong to no other run"):
        merge(halved, tmp_path / "merged")
    with pytest.raises(GapbenchError, match="holds weights in half precision"):
        pack_half(halved[1], tmp_path / "twice.zip")
    packed = pack(halved[1], tmp_path / "again.zip")  # nothing of all that has changed it
    assert packed.sha256 == hashlib.sha256((halved[1].parent / "half.zip").read_bytes()).hexdigest()


def changed_weight(run: Path, name: str, value: float) -> str:
    """Put a number into the weights of a network, as if it had been trained so."""
    cell = str(open_run(run).population["cell"][3])
    path = weights_of(run, cell)
    found = load_file(path)
    own = next(key for key in found if key.startswith("final.") and name in key)
    found[own].view(-1)[0] = value
    save_file(found, path)
    database = sqlite3.connect(run / "run.sqlite")
    database.execute("DROP TRIGGER cells_keep")
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    database.execute("UPDATE cells SET weights_sha256 = ? WHERE cell = ?", (sha256, cell))
    database.commit()
    database.close()
    return cell


def test_a_weight_beyond_half_precision_is_refused_by_name(run_folder: Path, tmp_path: Path) -> None:
    cell = changed_weight(run_folder, "weight", 70000.0)
    before = content(run_folder)
    with pytest.raises(GapbenchError, match=f"ends at 65504: network {cell} .* has 7e\\+04 in final"):
        pack_half(run_folder, tmp_path / "half.zip")
    assert not list(tmp_path.rglob("*half*"))
    assert content(run_folder) == before


def test_a_score_that_moves_is_refused_by_name(run_folder: Path, tmp_path: Path, monkeypatch) -> None:
    """What is measured on the rounded networks here is in another order."""
    from gapbench.population import worker

    def reversed_order(setup, job, send):
        measure(setup, job, lambda kind, own: send(kind, replaced(own) if kind == "measurement" else own))

    def replaced(record):
        return halving.replace(record, value=-record.value)

    measure = worker.measure_cell
    monkeypatch.setattr(worker, "measure_cell", reversed_order)
    with pytest.raises(
        GapbenchError, match=r"changes what .* tells: the score of param_norm over .* moves from"
    ):
        pack_half(run_folder, tmp_path / "half.zip")
    monkeypatch.setattr(
        worker,
        "measure_cell",
        lambda setup, job, send: measure(
            setup,
            job,
            lambda kind, own: send(
                kind, halving.replace(own, status="failed", value=None) if kind == "measurement" else own
            ),
        ),
    )
    with pytest.raises(GapbenchError, match=r"param_norm on .* is another result"):
        pack_half(run_folder, tmp_path / "half.zip")
    assert not list(tmp_path.rglob("*half*"))


def test_what_is_compared_is_named_or_found(run_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(GapbenchError, match="--compare no_such: the run's suite measures"):
        pack_half(run_folder, tmp_path / "half.zip", compare=["no_such"])
    assert pack_half(run_folder, tmp_path / "half.zip").half.compared == ("param_norm",)


def test_the_command_tells_what_was_compared(run_folder: Path, tmp_path: Path) -> None:
    called = CliRunner().invoke(cli, ["pack", str(run_folder), "--half", "--out", str(tmp_path / "half.zip")])
    assert called.exit_code == 0, called.output
    assert "no score of param_norm moved by more than 0.1 of its standard error" in called.output
    assert "have other training or test errors" in called.output
    refused = CliRunner().invoke(cli, ["pack", str(run_folder), "--compare", "param_norm"])
    assert refused.exit_code == 2
    assert "are for --half" in refused.output
    pulled = CliRunner().invoke(cli, ["pull", str(tmp_path / "half.zip"), "--out", str(tmp_path / "pulled")])
    assert pulled.exit_code == 0, pulled.output
    assert "Half precision: the weights of 12 networks are rounded" in pulled.output
