"""A run that an earlier version stored opens, scores and boards as it did then."""

import csv
import io
import lzma
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import gapbench
from gapbench.population.stored import open_population
from gapbench.runs.entry import ScoreRow
from gapbench.runs.store import Store
from gapbench.submission.verifying import claim_of

STORED = Path(__file__).parent / "stored"
TABLES = ("population", "measurements", "scores")


def expanded(name: str) -> bytes:
    return lzma.decompress((STORED / f"{name}.xz").read_bytes())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stored")
    (folder / "run.sqlite").write_bytes(expanded("run.sqlite"))
    shutil.copytree(STORED / "entries", folder / "entries")
    return folder


def test_a_stored_run_opens(folder: Path) -> None:
    run = gapbench.open_run(folder)
    assert (run.suite.name, run.suite.version, len(run.cells), len(run.population)) == ("quick", 2, 120, 12)
    assert set(run.population["status"]) == {"converged"}
    assert [entry.label for entry in run.entries] == ["entry_norm"]
    assert run.identity.fingerprint == "b9ddf03fb8bda2d3"
    assert not run.failures


def test_an_entry_scored_by_an_earlier_headline_is_compared_by_that_of_today(folder: Path) -> None:
    """Its claim stays as it was written; what is compared with fresh networks is what the run scores now."""
    (entry,) = gapbench.open_run(folder).entries
    rows = expanded("scores.csv").decode().splitlines()
    own = [row.split(",") for row in rows if row.startswith(",,gap,entry_norm,tau,")]
    value, low, high = (float(cell) for cell in own[0][5:8])
    now = claim_of(entry, folder)
    assert (now.value, now.low, now.high) == (value, low, high)
    assert entry.claimed.value != value
    today = replace(
        entry, scores=(*entry.scores, ScoreRow(target="gap", estimator="beats_random", value=1.0))
    )
    assert claim_of(today, folder) == entry.claimed


def estimators(table: list[list[str]]) -> set[str]:
    """What the column `estimator` of a scores.csv holds."""
    return {row[4] for row in table[1:]}


def test_the_board_of_a_stored_run_keeps_its_cells(folder: Path) -> None:
    """Estimators that came later have rows of their own, between those that were there.

    Texts to the byte; numbers to 1e-9, as last digits are those of libraries and processors.
    """
    gapbench.open_run(folder).build_board()
    for table in TABLES:
        made = list(csv.reader(io.StringIO((folder / "board" / f"{table}.csv").read_text())))
        stored = list(csv.reader(io.StringIO(expanded(f"{table}.csv").decode())))
        if table == "scores":
            later = estimators(made) - estimators(stored)
            made = [row for row in made if row[4] not in later]
        assert len(made) == len(stored), table
        for line, (now, then) in enumerate(zip(made, stored, strict=True), 1):
            assert [same(*cells) for cells in zip(now, then, strict=True)] == [True] * len(then), (
                f"{table}.csv, row {line}: {now}, was {then}"
            )


def same(now: str, then: str) -> bool:
    if now == then:
        return True
    try:
        return float(now) == pytest.approx(float(then), rel=1e-9, abs=1e-10)
    except ValueError:
        return False


def test_a_stored_run_that_is_written_to_keeps_its_rows_and_gains_the_columns_that_came_later(
    tmp_path: Path,
) -> None:
    (tmp_path / "run.sqlite").write_bytes(expanded("run.sqlite"))
    with Store(tmp_path, readonly=True) as store:
        before = store.cells()
    assert len(before) == 12
    for _ in range(2):
        with Store(tmp_path) as store:
            assert store.cells() == before
    new = replace(before[0], cell="new", engine="vmap", company='["new", "other"]')
    with Store(tmp_path) as store:
        store.add_cell(new)
        added = store.cells()[-1]
    assert (added.engine, added.company) == ("vmap", '["new", "other"]')
    assert {row.engine for row in before} == {None}


def test_a_run_of_an_earlier_protocol_is_not_gone_on_with(folder: Path) -> None:
    with Store(folder, readonly=True) as store:
        before = store.cells(), store.meta("plan"), len(store.environments())
    with pytest.raises(gapbench.GapbenchError, match=r"protocol 1 .* protocol 2.*Nothing was changed"):
        gapbench.run(folder, limit=2)
    with Store(folder, readonly=True) as store:
        assert (store.cells(), store.meta("plan"), len(store.environments())) == before


def test_its_networks_are_found_by_the_keys_that_they_were_trained_under(folder: Path) -> None:
    """Without their weight files, which are not stored here, they are asked for by name."""
    with pytest.raises(gapbench.GapbenchError, match="weight file"):
        open_population(folder)
