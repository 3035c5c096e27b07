"""A few kills at random moments (`scripts/stress.py` does a hundred): nothing is lost, double or half written."""

import json
import sqlite3

import pytest

from script import script


@pytest.mark.slow
def test_commands_that_are_killed_again_and_again_end_as_if_they_were_not(tmp_path):
    met = script("stress").stress(tmp_path / "stress", kills=10, seed=1)
    assert sum(met.values()) == 10
    assert set(met) == {"run", "merge", "submit", "pack", "pull"}


def test_what_is_half_written_or_double_is_found(tmp_path):
    """The checks that the kills rely on fail where they must."""
    stress = script("stress")
    run = tmp_path / "run"
    (run / "weights").mkdir(parents=True)
    stress.check(tmp_path)
    (run / "weights" / ".half.safetensors").write_bytes(b"half")  # has not its final name
    stress.check(tmp_path)
    with sqlite3.connect(run / "run.sqlite") as database:
        database.execute("CREATE TABLE cells (cell TEXT)")
        database.execute("INSERT INTO cells VALUES ('a'), ('b')")
    database.close()
    stress.check(tmp_path)
    with sqlite3.connect(run / "run.sqlite") as database:
        database.execute("INSERT INTO cells VALUES ('a')")
    database.close()
    with pytest.raises(AssertionError, match="cells"):
        stress.check(tmp_path)
    (run / "run.sqlite").unlink()
    (run / "x.json").write_text('{"a": 1')
    with pytest.raises(json.JSONDecodeError):
        stress.check(tmp_path)
    (run / "x.json").unlink()
    (run / "weights" / "a.safetensors").write_bytes(b"half")
    with pytest.raises(ValueError, match="no safetensors file"):
        stress.check(tmp_path)
