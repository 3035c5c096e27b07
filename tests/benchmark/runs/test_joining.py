"""Several runs of one suite on one board: what counts once, what is refused."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

import gapbench
from benchmark.tiny_suite import TINY
from gapbench.runs.joining import join
from gapbench.runs.run import open_run
from gapbench_base.errors import GapbenchError


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Eight networks with two proxies, and all twelve with two others and one of the first."""
    folder = tmp_path_factory.mktemp("joined")
    suite = folder / "tiny.toml"
    suite.write_text(TINY)
    gapbench.run(
        str(suite),
        folder / "a",
        limit=8,
        proxies=["param_norm", "random"],
        workers=1,
        device="cpu",
        board=False,
    )
    gapbench.run(
        str(suite), folder / "b", proxies=["random", "parameter_count"], workers=1, device="cpu", board=False
    )
    return folder / "a", folder / "b"


def tampered(run: Path, copy: Path, statement: str) -> Path:
    """A copy of a run with its insert-only table changed."""
    shutil.copytree(run, copy)
    with sqlite3.connect(copy / "run.sqlite") as database:
        database.execute("DROP TRIGGER cells_keep")
        database.execute("DROP TRIGGER measurements_keep")
        database.execute(statement)
    database.close()
    return copy


def test_networks_and_measurements_that_two_runs_share_count_once(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    first, second = (open_run(run) for run in runs)
    joined = join(runs, [], tmp_path / "board")
    assert list(joined.population["cell"]) == list(second.population["cell"])
    assert len(first.population) == 8
    counts = joined.measurements.groupby("proxy").size().to_dict()
    assert counts == {"param_norm": 8, "parameter_count": 12, "random": 12}
    assert not joined.measurements.duplicated(["cell", "proxy"]).any()
    assert {request.label for request in joined.proxies} == set(counts)
    keys = ["target", "task", "family", "proxy", "estimator"]
    both = joined.scores(replicates=20).merge(second.scores(replicates=20), on=keys, suffixes=("", "_alone"))
    shared = both[both["proxy"].isin(["random", "parameter_count"]) & (both["estimator"] == "tau")]
    assert len(shared) == 24
    assert (shared["value"] == shared["value_alone"]).all()
    joined.build_board()
    data = json.loads((tmp_path / "board" / "board" / "data.json").read_text())
    assert [entry["label"] for entry in data["proxies"]][:3] == [r.label for r in joined.proxies]


def test_the_order_of_runs_changes_no_score(runs: tuple[Path, Path], tmp_path: Path) -> None:
    one = join(runs, [], tmp_path).scores(targets=("gap",), replicates=20)
    other = join(runs[::-1], [], tmp_path).scores(targets=("gap",), replicates=20)
    keys = ["task", "family", "proxy", "estimator"]
    one, other = (table.sort_values(keys).reset_index(drop=True) for table in (one, other))
    timed = one["estimator"] == "seconds"  # measured twice
    assert one[~timed].equals(other[~timed])


def test_a_failed_network_gives_way_to_its_result_in_another_run(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    failed = tampered(
        runs[0], tmp_path / "failed", "UPDATE cells SET status = 'failed', weights_sha256 = NULL, gap = NULL"
    )
    joined = join([failed, runs[1]], [], tmp_path)
    expected = open_run(runs[1]).population
    assert list(joined.population["status"]) == list(expected["status"])
    assert "failed" not in set(expected["status"])


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE cells SET weights_sha256 = 'other'", "trained to other weights"),
        (
            "UPDATE cells SET description = json_set(description, '$.task.fingerprint', 'other')",
            "separable has another data (fingerprint)",
        ),
        ("UPDATE cells SET description = json_set(description, '$.protocol', 99)", "protocol of training"),
    ],
)
def test_runs_that_do_not_fit_are_refused(
    runs: tuple[Path, Path], tmp_path: Path, statement: str, words: str
) -> None:
    other = tampered(runs[1], tmp_path / "other", statement)
    with pytest.raises(GapbenchError) as refused:
        join([runs[0], other], [], tmp_path)
    assert words in str(refused.value)


def test_another_suite_is_refused(runs: tuple[Path, Path], tmp_path: Path) -> None:
    suite = tmp_path / "tiny.toml"
    suite.write_text(TINY.replace("version = 1", "version = 2", 1))
    gapbench.run(
        str(suite), tmp_path / "c", limit=2, proxies=["random"], workers=1, device="cpu", board=False
    )
    with pytest.raises(GapbenchError, match=r"tiny version 1, .* of tiny version 2"):
        join([runs[0], tmp_path / "c"], [], tmp_path)


def test_a_joined_board_shows_the_audits_of_its_runs(runs: tuple[Path, Path], tmp_path: Path) -> None:
    def audited(run: Path, **verdicts: str) -> Path:
        copy = tmp_path / run.name
        shutil.copytree(run, copy)
        proxies = {
            label: [{"kind": "rescaling", "strength": 0.5, "verdict": verdict}]
            for label, verdict in verdicts.items()
        }
        (copy / "invariances.json").write_text(json.dumps({"networks": 2, "seed": 0, "proxies": proxies}))
        return copy

    first = audited(runs[0], param_norm="not invariant", random="invariant")
    second = audited(runs[1], random="not invariant", parameter_count="invariant")
    joined = join([first, second], [], tmp_path / "out")
    joined.build_board(
        joined.scores(targets=("gap",), replicates=5, pair_replicates=2, prediction_replicates=2)
    )
    content = json.loads((tmp_path / "out" / "board" / "data.json").read_text())
    marks = {entry["label"]: entry["audit_mark"] for entry in content["proxies"] if "audit_mark" in entry}
    assert marks == {
        "param_norm": "invariant 0/1",
        "random": "invariant 1/1",  # of the first that has one
        "parameter_count": "invariant 1/1",
    }
    assert (tmp_path / "out" / "board" / "invariances.csv").is_file()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE meta SET value = '{' WHERE name = 'suite'",
        "UPDATE meta SET value = '{\"a\": 1}' WHERE name = 'suite'",
        "UPDATE meta SET value = '[1]' WHERE name = 'suite'",
        "UPDATE meta SET value = '3' WHERE name = 'plan'",
        "UPDATE meta SET value = '[[1]]' WHERE name = 'proxies'",
    ],
)
def test_a_damaged_description_of_a_run_is_said(
    runs: tuple[Path, Path], tmp_path: Path, statement: str
) -> None:
    copy = tampered(runs[0], tmp_path / "a", statement)
    with pytest.raises(GapbenchError, match="damaged"):
        open_run(copy)


def test_two_versions_of_a_proxy_never_share_a_board(runs: tuple[Path, Path], tmp_path: Path) -> None:
    statement = (
        "UPDATE measurements SET description = replace(description, '\"version\": ', '\"version\": 9')"
    )
    other = tampered(runs[1], tmp_path / "other", statement)
    with pytest.raises(GapbenchError, match="was measured with another version or other options"):
        join([runs[0], other], [], tmp_path / "joined")


def test_values_of_an_earlier_version_do_not_stand_beside_the_later(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    """Of one label half the networks were measured with version 1 last, the others with version 2 after that."""
    statement = """
        INSERT INTO measurements SELECT 'new' || measurement, 0, cell, proxy, label,
        replace(description, '"version": 1', '"version": 2'), value + 1000, standard_error, seconds, peak_memory,
        status, reason, details, device, finished FROM measurements WHERE label = 'param_norm'
        AND cell IN (SELECT cell FROM cells LIMIT 2)"""
    other = tampered(runs[0], tmp_path / "other", statement)
    before, after = (gapbench.open_run(folder).measurements for folder in (runs[0], other))
    own = after[after["proxy"] == "param_norm"]
    assert len(own) == 2
    assert (own["value"] > 1000).all()
    rest = [table[table["proxy"] != "param_norm"].reset_index(drop=True) for table in (before, after)]
    assert rest[0].equals(rest[1])
