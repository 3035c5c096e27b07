import sqlite3
from dataclasses import replace

import pytest
import torch

from gapbench import GapbenchError
from gapbench.runs.lock import sole_driver
from gapbench.runs.records import StoredMeasurement, TrainedCell
from gapbench.runs.store import Store
from gapbench.runs.weights import load_weights, save_weights
from gapbench_base.errors import DiskFull

CELL = TrainedCell(cell="a", description="{}", task="t", family="f", width=1.0, seed=0, status="converged")
MEASUREMENT = StoredMeasurement(
    measurement="m", cell="a", proxy="p", label="p", description="{}", status="ok", value=1.5
)


def test_a_finished_result_is_never_overwritten(tmp_path):
    with Store(tmp_path) as store:
        store.add_cell(CELL)
        store.add_measurements([MEASUREMENT])
        with pytest.raises(GapbenchError, match="already finished"):
            store.add_cell(replace(CELL, gap=0.5))
        with pytest.raises(GapbenchError, match="already finished"):
            store.add_measurements([replace(MEASUREMENT, value=2.0)])
        assert [row.value for row in store.measurements()] == [1.5]
    raw = sqlite3.connect(tmp_path / "run.sqlite")
    for statement in ("UPDATE cells SET gap = 1", "DELETE FROM measurements", "DELETE FROM cells"):
        with pytest.raises(sqlite3.IntegrityError, match="insert-only"):
            raw.execute(statement)


def test_costs_of_measuring_are_the_same_added_up_here_or_by_the_database(tmp_path):
    with Store(tmp_path) as store:
        rows = [
            replace(MEASUREMENT, measurement=f"m{i}", cell="ab"[i % 2], seconds=i + 0.5) for i in range(5)
        ]
        store.add_measurements(rows)
        every = {f"m{i}" for i in range(5)}
        assert {c: (s, n) for c, s, n in store.measuring_costs(every)} == {"a": (7.5, 3), "b": (5.0, 2)}
        assert list(store.measuring_costs(every - {"m4"})) == [
            *(("a", 0.5, 1), ("b", 1.5, 1)),
            *(("a", 2.5, 1), ("b", 3.5, 1)),
        ]
        store.add_measurements([replace(MEASUREMENT, measurement="m5", status="failed", seconds=9.0)])
        store.add_measurements([replace(MEASUREMENT, measurement="m5", seconds=1.0)])
        found = [own for own in store.measuring_costs({*every, "m5"}) if own[1] in (9.0, 1.0)]
        assert found == [("a", 1.0, 1)]  # the latest attempt alone


def test_a_retried_failure_is_a_new_row_and_the_latest_counts(tmp_path):
    with Store(tmp_path) as store:
        store.add_cell(replace(CELL, status="failed", reason="memory"))
        assert store.statuses("cells") == {"a": "failed"}
        store.add_cell(CELL)
        assert store.statuses("cells") == {"a": "converged"}
        assert len(store.cells()) == 1
    raw = sqlite3.connect(tmp_path / "run.sqlite")
    assert raw.execute("SELECT attempt, status FROM cells ORDER BY attempt").fetchall() == [
        (0, "failed"),
        (1, "converged"),
    ]


def test_keys_are_those_of_the_latest_attempts(tmp_path):
    with Store(tmp_path) as store:
        failed = replace(MEASUREMENT, status="failed", value=None)
        store.add_measurements([failed, replace(failed, measurement="n")])
        assert store.keys("measurements") == {"m", "n"}
        assert store.keys("measurements", failed=False) == set()
        store.add_measurements([MEASUREMENT])
        assert store.keys("measurements") == {"m", "n"}
        assert store.keys("measurements", failed=False) == {"m"}


def test_what_measurements_share_is_read_apart_whatever_their_texts_are(tmp_path):
    """Labels and reasons may have any characters, and a description the key of its network twice."""
    told = [
        ("line\nbreak", '{"cell": "a1", "label": "line break"}', ""),
        ("3\n", '{"cell": "a1", "sibling": "b1"}', "x\ny"),
        ("\u00fcn\u00ef", '{"cell": "a1", "of": "a1"}', ""),
    ]
    rows = [
        replace(MEASUREMENT, measurement=f"m{i}", cell="a1", label=label, description=text, reason=reason)
        for i, (label, text, reason) in enumerate(told)
    ]
    with Store(tmp_path) as store:
        store.add_measurements([*rows, replace(rows[0], measurement="m3", cell="b1", value=2.0)])
        (part,) = store.measured_columns()
        assert part["measurement"] == ("m0", "m1", "m2", "m3")
        assert [own.label for own in part["sort"]] == [*(label for label, _, _ in told), "line\nbreak"]
        assert [own.description for own in part["sort"][:3]] == [
            text.replace("a1", "") for _, text, _ in told
        ]
        assert {own.status for own in part["sort"]} == {"ok"}
        assert part["reason"] == ["", "x\ny", "", ""]
        assert part["value"] == (1.5, 1.5, 1.5, 2.0)


def test_a_transaction_of_measurements_is_whole_or_absent(tmp_path):
    with Store(tmp_path) as store:
        with pytest.raises(GapbenchError):
            store.add_measurements([MEASUREMENT, MEASUREMENT])
        assert store.measurements() == []


def test_unknown_status_is_refused(tmp_path):
    with Store(tmp_path) as store, pytest.raises(GapbenchError):
        store.add_cell(replace(CELL, status="fine"))


def test_full_disk_is_one_clear_message_and_loses_nothing(tmp_path):
    with Store(tmp_path) as store:
        store.add_cell(CELL)
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(DiskFull, match=r"Every finished result is kept.*same command"):
            store.add_cell(replace(CELL, cell="large", history="x" * 1_000_000))
    with Store(tmp_path) as store:
        assert store.cells()[0].cell == "a"


def test_damaged_and_foreign_databases(tmp_path):
    with pytest.raises(GapbenchError, match=r"no run: it has no run\.sqlite"):
        Store(tmp_path, readonly=True)
    with pytest.raises(GapbenchError, match="no run: there is no such folder"):
        Store(tmp_path / "nowhere", readonly=True)
    (tmp_path / "board").mkdir()
    (tmp_path / "run.sqlite").write_bytes(b"")
    with pytest.raises(GapbenchError, match=f"lies within one: give {tmp_path}"):
        Store(tmp_path / "board", readonly=True)
    (tmp_path / "run.sqlite").write_bytes(b"this is not a database" * 100)
    with pytest.raises(GapbenchError, match="damaged or no database"):
        Store(tmp_path)
    (tmp_path / "run.sqlite").unlink()
    with Store(tmp_path) as store:
        store.set_meta("format", 99)
    with pytest.raises(GapbenchError, match="format 99"):
        Store(tmp_path)


STATE = {"w": torch.arange(6.0).reshape(2, 3), "n": torch.tensor(3)}
OTHER = {name: tensor + 1 for name, tensor in STATE.items()}


def test_weights_come_back_bit_for_bit(tmp_path):
    path = tmp_path / "weights" / "c.safetensors"
    sha256, size = save_weights(path, STATE, OTHER)
    assert path.stat().st_size == size
    initial, final = load_weights(path, sha256)
    assert all(torch.equal(initial[k], STATE[k]) and torch.equal(final[k], STATE[k] + 1) for k in STATE)
    assert [p.name for p in path.parent.iterdir()] == ["c.safetensors"]


def test_damaged_weights_are_recognised(tmp_path):
    path = tmp_path / "c.safetensors"
    sha256, _ = save_weights(path, STATE, OTHER)
    content = path.read_bytes()
    for bad in (content[:-1], content[:10], b"", content[:-1] + bytes([content[-1] ^ 1])):
        path.write_bytes(bad)
        with pytest.raises(GapbenchError, match="damaged"):
            load_weights(path, sha256)
    path.unlink()
    with pytest.raises(GapbenchError, match="missing"):
        load_weights(path, sha256)


def test_other_weights_do_not_replace_the_recorded_ones(tmp_path):
    path = tmp_path / "c.safetensors"
    with pytest.raises(GapbenchError, match="did not give the recorded weights"):
        save_weights(path, STATE, OTHER, expected="0" * 64)
    assert not path.exists()


def test_full_disk_leaves_no_part_of_a_weight_file(tmp_path, monkeypatch):
    import os

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFull, match="Every finished result is kept"):
        save_weights(tmp_path / "c.safetensors", STATE, OTHER)
    assert list(tmp_path.iterdir()) == []


def test_second_driver_is_refused_by_name(tmp_path):
    import os

    with (
        sole_driver(tmp_path),
        pytest.raises(GapbenchError, match=f"pid {os.getpid()}"),
        sole_driver(tmp_path),
    ):
        pass
    with sole_driver(tmp_path):
        pass
