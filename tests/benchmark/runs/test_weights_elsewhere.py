"""Weights of a run in another folder, or at an address: the same results, and nobody else's files."""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import fsspec
import pytest
from click.testing import CliRunner
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

import gapbench
from benchmark.conftest import WALLS
from benchmark.run_cases import rows, same, weights
from benchmark.runs.test_merging import board, content
from benchmark.sandbox.adversaries import BENIGN
from benchmark.tiny_suite import TINY
from gapbench.commands.gc import gc_command
from gapbench.commands.publish import publish_command
from gapbench.population.jobs import MeasureJob, TrainJob
from gapbench.population.ray_worker import TOKEN, expected_of, messages
from gapbench.population.stacks import train_job
from gapbench.running import planned, setup_of
from gapbench.runs import weight_files, weight_location
from gapbench.runs.collecting import collect
from gapbench.runs.merging import merge
from gapbench.runs.packing import pack
from gapbench.runs.pulling import pull_pack
from gapbench.runs.run import open_run
from gapbench.runs.weight_files import FileElsewhere, listed, put, there
from gapbench.runs.weight_location import LOCATION, OWNER, location_of, weights_of, weights_place
from gapbench.submission.submitting import submit
from gapbench.submission.verifying import verify
from gapbench.suites.suite import load_suite
from gapbench_base.errors import GapbenchError

LABELS = ["param_norm", "sharpness_full[radius=0.1]"]


def away(folder: Path) -> str:
    """A folder as an address, which is written and read by fsspec as any other is."""
    return f"local://{folder.absolute()}"


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("suite") / "tiny.toml"
    path.write_text(TINY)
    return path


def run(suite: Path, folder: Path, place: str | None = None, **options: object) -> gapbench.Run:
    options = {"device": "cpu", "workers": 0, "board": False, "proxies": LABELS, "limit": 4} | options
    return gapbench.run(suite, folder, weights=place, **options)


@pytest.fixture(scope="module")
def near(suite: Path, tmp_path_factory: pytest.TempPathFactory) -> gapbench.Run:
    """A run with its weights in its folder, never changed by a test."""
    return run(suite, tmp_path_factory.mktemp("near") / "run")


@pytest.fixture
def far(suite: Path, tmp_path: Path) -> gapbench.Run:
    """The same with its weights at an address."""
    return run(suite, tmp_path / "far", away(tmp_path / "there"))


def hashes(place: object) -> dict[str, str]:
    """Weight files of a place by name."""
    files = [file for file in listed(place) if file.name.endswith(".safetensors")]
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_whose_weights_are_elsewhere_has_the_same_rows_and_files(
    near: gapbench.Run, suite: Path, tmp_path: Path, workers: int
) -> None:
    done = run(suite, tmp_path / "far", away(tmp_path / "there"), workers=workers)
    same(done, near)
    assert hashes(near.folder / "weights") == hashes(away(tmp_path / "there"))
    assert len(hashes(near.folder / "weights")) == 4
    assert [path.name for path in (done.folder / "weights").iterdir()] == [Path(LOCATION).name]
    assert set(done.measurements["status"]) == {"ok"}
    before = rows(done.folder, "cells"), rows(done.folder, "measurements")
    again = run(suite, done.folder, proxies=[*LABELS, "random"])  # without saying where
    assert set(before[1]) < set(rows(again.folder, "measurements"))
    assert rows(again.folder, "cells") == before[0]
    assert len(run(suite, done.folder, limit=6).population) == 6
    assert len(hashes(away(tmp_path / "there"))) == 6
    assert [path.name for path in (done.folder / "weights").iterdir()] == [Path(LOCATION).name]


def test_the_memory_of_a_process_and_another_folder_are_places(
    near: gapbench.Run, suite: Path, tmp_path: Path
) -> None:
    same(run(suite, tmp_path / "memory", "memory://gapbench/tiny"), near)
    assert hashes("memory://gapbench/tiny") == hashes(near.folder / "weights")
    for number, place in enumerate((str(tmp_path / "folder"), (tmp_path / "url").as_uri())):
        done = run(suite, tmp_path / f"run{number}", place)
        assert isinstance(weights_place(done.folder), Path)
        assert hashes(weights_place(done.folder)) == hashes(near.folder / "weights")
    MemoryFileSystem.store.clear()


def test_places_are_written_in_one_way() -> None:
    for given, place in (
        ("s3://bucket/x/", "s3://bucket/x"),
        ("memory://", "memory://"),
        ("local:///", "local:///"),
        ("file:///a/b/", "/a/b"),
        ("/a/b/", "/a/b"),
    ):
        assert weight_location._normal(given) == place


def test_a_place_belongs_to_one_run(
    far: gapbench.Run, near: gapbench.Run, suite: Path, tmp_path: Path
) -> None:
    address = location_of(far.folder)
    with pytest.raises(GapbenchError, match="holds the weights of another run: give a place of its own"):
        run(suite, tmp_path / "second", address)
    with pytest.raises(
        GapbenchError, match=r"keeps its weights at local://.*/there, not at local://.*/other"
    ):
        run(suite, far.folder, away(tmp_path / "other"))
    assert run(suite, far.folder, f"{address}/").problems == ()
    copy = shutil.copytree(near.folder, tmp_path / "copy")
    with pytest.raises(GapbenchError, match="has its weights in its own folder already"):
        run(suite, copy, away(tmp_path / "other"))
    put(address, OWNER, json.dumps({"owner": "other"}))
    with pytest.raises(GapbenchError, match=r"another run is named in its gapbench-run.json"):
        run(suite, far.folder)
    shutil.rmtree(tmp_path / "there")
    with pytest.raises(
        GapbenchError, match=r"it has no gapbench-run.json: is it the place.*trains them again"
    ):
        run(suite, far.folder)
    (far.folder / LOCATION).unlink()  # as the message says
    restored = run(suite, far.folder)
    assert hashes(far.folder / "weights") == hashes(near.folder / "weights")
    same(restored, near)
    (far.folder / LOCATION).write_text("{}")
    with pytest.raises(GapbenchError, match=r"location.json is damaged"):
        run(suite, far.folder)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("https://example.org/weights", "files cannot be written there"),
        ("hf://org/name", "files cannot be written there"),
        ("nothing://bucket", r"Weights cannot be kept at nothing://bucket: Protocol not known: nothing"),
        ("oci://bucket/weights", r"Weights cannot be kept at oci://bucket/weights: Install ocifs"),
        ("local:///no-such-folder/weights", r"kept at local:///no-such.*: there is no /no-such-folder"),
        ("FILE/below", r"Weights cannot be kept at .*/file/below: Not a directory"),
    ],
)
def test_a_place_that_cannot_be_used_is_refused_before_anything_is_trained(
    suite: Path, tmp_path: Path, place: str, words: str
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(GapbenchError, match=words):
        run(suite, tmp_path / "run", place.replace("FILE", str(tmp_path / "file")))
    assert not rows(tmp_path / "run", "cells")
    assert not (tmp_path / "run" / LOCATION).exists()


def test_what_is_missing_or_cut_is_restored_and_what_is_changed_is_not_believed(
    far: gapbench.Run, near: gapbench.Run, suite: Path, tmp_path: Path
) -> None:
    cells = list(far.population["cell"])
    files = [weights_of(far.folder, cell) for cell in cells]
    content_before = [file.read_bytes() for file in files]
    files[0].unlink()
    files[1].write_bytes(content_before[1][:-1])
    assert run(suite, far.folder).problems == ()
    assert hashes(location_of(far.folder)) == hashes(near.folder / "weights")
    index = list(far.population["status"]).index("converged")
    damaged = bytearray(content_before[index])
    damaged[-1] ^= 1
    files[index].write_bytes(bytes(damaged))
    with pytest.raises(GapbenchError, match=r"The weight file local://.* is damaged"):
        pack(far.folder, tmp_path / "pack.zip")
    done = run(suite, far.folder, proxies=["random"])  # which reads it
    assert done.problems == ()
    assert set(done.measurements.query("proxy == 'random'")["status"]) == {"ok"}
    assert hashes(location_of(far.folder)) == hashes(near.folder / "weights")


def test_what_cannot_be_read_for_now_is_not_trained_again(
    far: gapbench.Run, suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = LocalFileSystem.cat_file

    def refuses(self: LocalFileSystem, path: str, *args: object, **options: object) -> bytes:
        if path.endswith(".safetensors"):
            raise ConnectionError("no route")
        return read(self, path, *args, **options)

    monkeypatch.setattr(weight_files, "PAUSES", (0.0,))
    before = rows(far.folder, "cells")
    with monkeypatch.context() as patched:
        patched.setattr(LocalFileSystem, "cat_file", refuses)
        done = run(suite, far.folder, proxies=["random"])
    assert done.problems
    assert all("cannot be read: no route" in problem for problem in done.problems), done.problems
    assert rows(far.folder, "cells") == before
    assert run(suite, far.folder, proxies=["random"]).problems == ()


def test_packed_and_pulled_it_is_a_run_with_its_weights(far: gapbench.Run, tmp_path: Path) -> None:
    packed = pack(far.folder, tmp_path / "pack.zip")
    pulled = pull_pack(packed.path, tmp_path / "pulled")
    assert hashes(pulled.folder / "weights") == hashes(location_of(far.folder))
    assert location_of(pulled.folder) is None
    same(open_run(pulled.folder), far)
    assert pull_pack(packed.path, tmp_path / "pulled").there
    assert pull_pack(far.folder, tmp_path / "pulled").there
    assert board(pulled.folder) == board(far.folder)


def test_parts_with_weights_at_several_places_merge(suite: Path, tmp_path: Path, near: gapbench.Run) -> None:
    whole = run(suite, tmp_path / "whole", limit=12)
    parts = [
        run(suite, tmp_path / f"part{i}", away(tmp_path / f"there{i}"), shard=f"{i}/2", limit=12).folder
        for i in (0, 1)
    ]
    merge(parts, tmp_path / "merged")
    same(open_run(tmp_path / "merged"), whole)
    assert hashes(tmp_path / "merged" / "weights") == hashes(whole.folder / "weights")
    before = content(tmp_path / "merged")
    merge(parts, tmp_path / "merged")
    assert content(tmp_path / "merged") == before
    merge(parts, parts[0])  # a target that keeps its own elsewhere
    assert hashes(away(tmp_path / "there0")) == hashes(whole.folder / "weights")
    assert len(open_run(parts[0]).population) == 12
    weights_of(parts[1], next(iter(open_run(parts[1]).population["cell"]))).unlink()
    with pytest.raises(GapbenchError, match=r"local://.* is missing: the run cannot be merged"):
        merge(parts[1:], tmp_path / "other")


def test_what_nothing_needs_is_removed_there(far: gapbench.Run, tmp_path: Path) -> None:
    place = location_of(far.folder)
    put(place, f"{'0' * 16}.safetensors", "nobody's")
    put(place, TOKEN, "left by a killed driver")
    put(place, "mine.txt", "of somebody else")
    before = hashes(place)
    shown = CliRunner().invoke(gc_command, [str(far.folder), "--dry-run"])
    assert f"{place}/{'0' * 16}.safetensors: weights that no row names, 8 bytes" in shown.output
    assert hashes(place) == before
    assert {own.path.name for own in collect(far.folder)} == {f"{'0' * 16}.safetensors", TOKEN}
    assert len(hashes(place)) == 4
    assert {file.name for file in listed(place)} - hashes(place).keys() == {OWNER, "mine.txt"}
    assert run(far.folder, far.folder).problems == ()


def test_it_takes_submissions_and_verifies_them_beside_it(suite: Path, tmp_path: Path, hosts) -> None:
    address = away(tmp_path / "there")
    whole = run(suite, tmp_path / "far", address, limit=None)
    file = tmp_path / "norm.py"
    file.write_text(BENIGN["a_norm"])
    walls = {"hosts": hosts, "unsandboxed": bool(WALLS)}
    done = submit(file, whole.folder, name="norm", **walls)
    assert done.entry is not None, done.refusals
    assert len(done.entry.values) == 12
    assert verify("norm", whole.folder, **walls).record.outcome == "confirmed"
    verify("norm", whole.folder, fresh_seeds=True, out=tmp_path / "fresh", **walls)
    fresh = hashes(f"{address}/verification-fresh")
    assert len(fresh) == 12
    assert not fresh.keys() & hashes(address).keys()
    assert [path.name for path in (tmp_path / "fresh" / "weights").iterdir()] == [Path(LOCATION).name]


def test_it_is_not_published_with_weights_that_are_not_there(far: gapbench.Run) -> None:
    said = CliRunner().invoke(
        publish_command, [str(far.folder), "--wandb-project", "p", "--with-weights", "--offline"]
    )
    assert "keeps its weights at local://" in str(said.exception)
    assert "gapbench pack" in str(said.exception)


def test_a_node_without_the_folder_of_the_run_trains_and_measures(
    suite: Path, tmp_path: Path, near: gapbench.Run
) -> None:
    own = load_suite(str(suite))
    address = away(tmp_path / "there")
    missing = tmp_path / "not" / "here"
    setup = replace(setup_of(own, missing, "cpu", None, 1, "off"), weights=address)
    expected = expected_of("token")

    def said(job: TrainJob | MeasureJob) -> list[tuple[str, object]]:
        return list(messages(*(pickle.dumps(part) for part in (expected, setup, job))))

    job = train_job(planned(own, None, "here")[0])
    ((kind, reason),) = said(job)
    assert kind == "unfit"
    assert f"cannot read {address}" in str(reason)
    put(address, TOKEN, "token")
    found = said(job)
    assert [kind for kind, _ in found] == ["at", "training", "trained"]
    record = found[-1][1]
    assert hashes(address) == {f"{job.cell}.safetensors": record.weights_sha256}
    assert weights(near.folder)[f"{job.cell}.safetensors"] == weights_of_address(address, job.cell)
    requests = (("key", own.proxies[0], {}),)
    measured = said(MeasureJob(job.cell, job.seed, job.configuration, record.weights_sha256, requests))
    assert [kind for kind, _ in measured] == ["at", "measuring", "measurement", "measured"]
    values = near.measurements.query("cell == @job.cell and proxy == 'param_norm'")["value"]
    assert measured[2][1].value == values.item()
    assert not missing.exists()


def weights_of_address(address: str, cell: str) -> bytes:
    return FileElsewhere(f"{address}/{cell}.safetensors").read_bytes()


@pytest.mark.slow
def test_a_cluster_keeps_weights_at_an_address(
    near: gapbench.Run, suite: Path, tmp_path: Path, cluster
) -> None:
    options = {"engine": "ray", "address": cluster.address, "workers": 2}
    done = run(suite, tmp_path / "ray", away(tmp_path / "there"), **options)
    same(done, near)
    assert hashes(near.folder / "weights") == hashes(away(tmp_path / "there"))
    assert there(away(tmp_path / "there"), TOKEN) is None


def test_writing_is_tried_again_and_errors_of_libraries_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weight_files, "PAUSES", (0.0, 0.0))
    calls = []

    class Busy(Exception):
        """What a library of its own kind raises."""

    def busy(self: LocalFileSystem, path: str, value: bytes, **_: object) -> None:
        calls.append(path)
        if len(calls) % 3:
            raise Busy("slow down")
        Path(path).write_bytes(value)

    monkeypatch.setattr(LocalFileSystem, "pipe_file", busy)
    file = FileElsewhere(f"{away(tmp_path)}/file")
    file.write_bytes(b"content")
    assert len(calls) == 3
    assert (file.read_bytes(), file.size(), file.is_file()) == (b"content", 7, True)
    file.unlink()
    assert (file.size(), file.is_file()) == (None, False)
    with pytest.raises(FileNotFoundError):
        file.read_bytes()
    with pytest.raises(FileNotFoundError):
        file.unlink()
    file.unlink(missing_ok=True)
    monkeypatch.setattr(weight_files, "PAUSES", (0.0,))
    with pytest.raises(OSError, match=r"Busy at local://.*/file: slow down"):
        file.write_bytes(b"content")
    assert fsspec.filesystem("local").ls(str(tmp_path)) == []
