"""Parts of a suite, or any runs of it, as one run: equal to the undivided one, whatever happens on the way."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import gapbench
from benchmark.run_cases import rows, same
from benchmark.tiny_suite import TINY
from gapbench.runs.entries import entries_folder, load_entries
from gapbench.runs.merging import merge
from gapbench.runs.run import open_run
from gapbench.runs.store import Store
from gapbench.submission.keeping import rename, withdraw
from gapbench_base.errors import GapbenchError
from kills import chosen, killed, steps_of

MODULES = tuple(
    f"gapbench.runs.{name}"
    for name in ("merging", "gathering", "merged_entries", "merged_files", "staging", "store")
)
PROXIES = ["param_norm", "random"]


def content(folder: Path) -> dict[str, str]:
    """Every file of a folder, by its content."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "driver.lock" and not path.name.endswith(("-wal", "-shm"))
    }


def part(run: Path, copy: Path, *, cells: str = "1", measurements: str = "1", others: bool = True) -> Path:
    """A copy of a run with the rows that conditions keep, as another process would have left it."""
    shutil.copytree(run, copy)
    changed(
        copy,
        f"DELETE FROM measurements WHERE NOT ({measurements}) OR cell NOT IN "
        f"(SELECT cell FROM cells WHERE {cells})",
        f"DELETE FROM cells WHERE NOT ({cells})",
    )
    kept = {row[0] for row in rows(copy, "cells")}
    for path in (copy / "weights").iterdir():
        if path.stem not in kept:
            path.unlink()
    if not others:
        shutil.rmtree(copy / "entries", ignore_errors=True)
    return copy


def changed(run: Path, *statements: str) -> Path:
    """The run with its insert-only tables changed."""
    with sqlite3.connect(run / "run.sqlite") as database:
        for table in ("cells", "measurements"):
            database.execute(f"DROP TRIGGER {table}_keep")
            database.execute(f"DROP TRIGGER {table}_stay")
        for statement in statements:
            database.execute(statement)
    database.close()
    with Store(run):  # which makes the triggers again
        pass
    return run


ODD = "rowid % 2 = 1"
EVEN = "rowid % 2 = 0"


@pytest.fixture
def halves(trained: Path, tmp_path: Path) -> tuple[Path, Path]:
    """The networks of the trained run, each in one of two."""
    return part(trained, tmp_path / "a", cells=ODD), part(trained, tmp_path / "b", cells=EVEN)


def equal(run: Path, whole: Path) -> None:
    """The same rows, weights, fingerprint; nothing else is in the folder."""
    for table in ("cells", "measurements", "attempts"):
        assert sorted(rows(run, table), key=repr) == sorted(rows(whole, table), key=repr)
    assert content(run / "weights") == content(whole / "weights")
    one, other = open_run(run), open_run(whole)
    assert one.identity == other.identity
    assert one.population.equals(other.population)
    assert one.measurements.equals(other.measurements)
    assert one.shard is None
    assert [path.name for path in run.parent.glob(".*")] == []


def board(run: Path) -> dict[str, str]:
    opened = open_run(run)
    opened.build_board(
        opened.scores(targets=("gap",), replicates=20, pair_replicates=2, prediction_replicates=2)
    )
    return content(run / "board")


def test_shards_that_are_trained_and_merged_are_the_undivided_run(trained: Path, tmp_path: Path) -> None:
    suite = tmp_path / "tiny.toml"
    suite.write_text(TINY)
    for index in range(2):
        gapbench.run(
            suite,
            tmp_path / str(index),
            device="cpu",
            workers=0,
            proxies=PROXIES,
            shard=f"{index}/2",
            board=False,
        )
    done = merge([tmp_path / "0", tmp_path / "1"], tmp_path / "whole")
    assert (done.networks, done.measurements, done.changed) == (12, 24, True)
    assert (done.shared_networks, done.shared_measurements) == (0, 0)
    merged, undivided = open_run(tmp_path / "whole"), open_run(trained)
    same(merged, undivided)
    assert merged.identity.fingerprint == undivided.identity.fingerprint
    assert merged.identity.complete
    before = content(tmp_path / "whole")
    again = gapbench.run(suite, tmp_path / "whole", device="cpu", workers=0, proxies=PROXIES, board=False)
    assert again.problems == ()
    after = content(tmp_path / "whole")
    assert {n: v for n, v in after.items() if n != "run.sqlite"} == {
        n: v for n, v in before.items() if n != "run.sqlite"
    }
    assert len(rows(tmp_path / "whole", "attempts")) == 36  # nothing was begun again


def test_two_halves_merge_to_the_same_rows_fingerprint_and_board(
    trained: Path, halves: tuple[Path, Path], tmp_path: Path
) -> None:
    before = [content(half) for half in halves]
    merge(halves, tmp_path / "out" / "ab")
    merge(halves[::-1], tmp_path / "out" / "ba")
    for name in ("ab", "ba"):
        equal(tmp_path / "out" / name, trained)
    assert [content(half) for half in halves] == before
    whole = shutil.copytree(trained, tmp_path / "whole")
    assert board(tmp_path / "out" / "ab") == board(whole)


def test_merging_again_changes_no_byte(halves: tuple[Path, Path], trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "out" / "run"
    merge(halves, out)
    before = content(out)
    for sources in (halves, halves[:1], [trained], [*halves, out]):
        done = merge(sources, out)
        assert not done.changed
        assert content(out) == before


def test_a_run_is_added_to(halves: tuple[Path, Path], trained: Path, tmp_path: Path) -> None:
    first, second = halves
    out = tmp_path / "out" / "run"
    merge([first], out)
    with Store(out) as store:
        store.set_meta("shard", "0/2")
    done = merge([second], out)
    assert (done.changed, done.networks) == (True, 12)
    equal(out, trained)


def test_what_several_have_alike_counts_once(trained: Path, tmp_path: Path) -> None:
    a = part(trained, tmp_path / "a", measurements="label = 'random'")
    b = part(trained, tmp_path / "b", cells="rowid <= 5")
    done = merge([a, b], tmp_path / "out" / "run")
    assert (done.shared_networks, done.shared_measurements) == (5, 5)
    assert (done.networks, done.measurements) == (12, 17)
    merge([trained], tmp_path / "out" / "run")
    equal(tmp_path / "out" / "run", trained)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (
            "UPDATE cells SET weights_sha256 = 'other' WHERE rowid = 3",
            r"The network {cell} was trained to other results in .*/b than in .*/a: weights_sha256 'other' and not",
        ),
        (
            "UPDATE cells SET test_error = test_error + 0.25, gap = gap + 0.25 WHERE rowid = 3",
            r"The network {cell} was trained to other results in .*/b than in .*/a: test_error .*gap ",
        ),
        (
            "UPDATE measurements SET value = 7.5 WHERE label = 'param_norm' AND cell = '{cell}'",
            r"The measurement of param_norm on the network {cell} is another one in .*/b .*/a: value 7.5 and",
        ),
        (
            "UPDATE measurements SET status = 'not_applicable', value = NULL "
            "WHERE label = 'random' AND cell = '{cell}'",
            r"The measurement of random on the network {cell} .*: status 'not_applicable' and not 'ok', value None",
        ),
    ],
)
@pytest.mark.parametrize("exists", [False, True])
def test_results_that_differ_are_refused_by_name_and_nothing_is_written(
    trained: Path, tmp_path: Path, statement: str, words: str, exists: bool
) -> None:
    cell = rows(trained, "cells ")[0][0]
    third = (
        sqlite3.connect(trained / "run.sqlite")
        .execute("SELECT cell FROM cells WHERE rowid = 3")
        .fetchone()[0]
    )
    cell = third if "rowid = 3" in statement else cell
    a = shutil.copytree(trained, tmp_path / "a")
    b = changed(shutil.copytree(trained, tmp_path / "b"), statement.replace("{cell}", cell))
    out = tmp_path / "out" / "run"
    if exists:
        merge([part(trained, tmp_path / "c", cells="rowid = 9")], out)
    before = content(tmp_path / "out") if exists else None
    with pytest.raises(GapbenchError, match=words.replace("{cell}", cell)):
        merge([a, b], out)
    assert (content(tmp_path / "out") if out.exists() else None) == before
    assert not exists or len(open_run(out).population) == 1


def test_a_failure_gives_way_to_a_result_and_its_attempts_stay(trained: Path, tmp_path: Path) -> None:
    failed = changed(
        shutil.copytree(trained, tmp_path / "failed"),
        "UPDATE cells SET status = 'failed', reason = 'no memory', weights_sha256 = NULL WHERE rowid <= 2",
        "UPDATE measurements SET status = 'failed', value = NULL WHERE rowid <= 3",
    )
    out = tmp_path / "out" / "run"
    merge([failed], out)
    assert (open_run(out).population["status"] == "failed").sum() == 2
    assert not merge([failed], out).changed
    assert merge([trained], out).changed
    same(open_run(out), open_run(trained))
    statuses = {row[0]: row[7] for row in rows(trained, "cells")}
    lost = [row[0] for row in rows(out, "cells") if row[7] == "failed"]
    assert len(lost) == 2
    attempts = sorted((row[0], row[1], row[7]) for row in rows(out, "cells") if row[0] in lost)
    assert attempts == sorted([*((c, 0, "failed") for c in lost), *((c, 1, statuses[c]) for c in lost)])
    assert len(rows(out, "measurements")) == 24 + 3
    before = content(out)
    assert not merge([failed, trained], out).changed  # a failure displaces nothing
    assert content(out) == before


def test_what_is_no_run_of_the_suite_is_refused(trained: Path, tmp_path: Path) -> None:
    suite = tmp_path / "tiny.toml"
    suite.write_text(TINY.replace("version = 1", "version = 2", 1))
    gapbench.run(suite, tmp_path / "c", limit=1, proxies=["random"], workers=0, device="cpu", board=False)
    with pytest.raises(GapbenchError, match=r"tiny version 1, .* of tiny version 2"):
        merge([trained, tmp_path / "c"], tmp_path / "out")
    with pytest.raises(GapbenchError, match="nowhere is no run"):
        merge([trained, tmp_path / "nowhere"], tmp_path / "out")
    other = changed(
        shutil.copytree(trained, tmp_path / "other"),
        "UPDATE measurements SET description = json_set(description, '$.version', 99) WHERE label = 'random'",
    )
    with pytest.raises(GapbenchError, match="random was measured with another version"):
        merge([trained, other], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(GapbenchError, match="exists and is no run"):
        merge([trained], tmp_path / "out")
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"


def test_a_damaged_weight_file_is_taken_from_another_run_or_refused(trained: Path, tmp_path: Path) -> None:
    a = shutil.copytree(trained, tmp_path / "a")
    damaged = sorted((a / "weights").iterdir())[3]
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    with pytest.raises(GapbenchError, match=f"{damaged.name} is damaged .*Restore it with: gapbench run"):
        merge([a], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    merge([a, trained], tmp_path / "whole" / "run")
    equal(tmp_path / "whole" / "run", trained)


def test_entries_audits_and_verifications_come_along(entered_once, trained: Path, tmp_path: Path) -> None:
    folder, entry = entered_once
    a = part(folder, tmp_path / "a", cells=ODD)
    b = part(trained, tmp_path / "b", cells=EVEN)
    (a / "verification" / "12ab").mkdir(parents=True)
    (a / "verification" / "12ab" / "suite.toml").write_text("x")
    row = {"kind": "rescaling", "strength": 0.5, "verdict": "invariant"}
    for run, label in ((a, "random"), (b, "param_norm")):
        (run / "invariances.json").write_text(
            json.dumps({"networks": 2, "seed": 0, "proxies": {label: [row]}})
        )
    out = tmp_path / "out" / "run"
    done = merge([a, b], out)
    assert (done.networks, done.entries) == (12, 1)
    assert load_entries(out) == [entry]
    assert (out / "verification" / "12ab" / "suite.toml").read_text() == "x"
    assert set(json.loads((out / "invariances.json").read_text())["proxies"]) == {"random", "param_norm"}
    own = open_run(out).measurements
    assert (own["proxy"] == "a_norm").sum() == 6  # the rows of the part; its file has the others
    before = content(out)
    assert not merge([a, b], out).changed
    assert content(out) == before
    withdraw(out, "a_norm")
    withdrawn = content(out / "entries")
    assert not merge([a], out).changed  # what was withdrawn here stays so
    assert content(out / "entries") == withdrawn


def test_one_proxy_submitted_twice_is_refused_until_it_is_withdrawn(entered_once, tmp_path: Path) -> None:
    folder, entry = entered_once
    a, b = part(folder, tmp_path / "a", cells=ODD), part(folder, tmp_path / "b", cells=EVEN)
    other = "f" * 32
    file = entries_folder(b) / f"{entry.id}.json"
    file.write_text(file.read_text().replace(entry.seed, other))
    changed(b, f"UPDATE measurements SET description = replace(description, '{entry.seed}', '{other}')")
    with Store(b) as store:
        kept = store.meta("submissions")
        kept[entry.id]["seed"] = other
        store.set_meta("submissions", kept)
    with pytest.raises(GapbenchError, match=r"The proxy a_norm was submitted to .* and to "):
        merge([a, b], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    withdraw(b, "a_norm")
    for sources in ([a, b], [b, a]):
        out = tmp_path / "out" / sources[0].name
        done = merge(sources, out)
        assert (done.left_out, done.entries) == (6, 1)
        found = open_run(out).measurements
        assert set(found.loc[found["proxy"] == "a_norm", "cell"]) == set(open_run(a).population["cell"])


def test_two_proxies_of_one_label_are_refused(entered_once, tmp_path: Path) -> None:
    folder, _ = entered_once
    a, b = shutil.copytree(folder, tmp_path / "a"), shutil.copytree(folder, tmp_path / "b")
    rename(b, "a_norm", "another")
    with pytest.raises(GapbenchError, match=r"The entry another .* has the label 'a_norm' in"):
        merge([a, b], tmp_path / "out")


def test_a_kill_at_any_step_loses_nothing_and_the_same_call_completes_it(
    entered_once, trained: Path, tmp_path: Path
) -> None:
    folder, entry = entered_once
    a, b = part(folder, tmp_path / "a", cells=ODD), part(trained, tmp_path / "b", cells=EVEN)
    place = tmp_path / "out"
    for exists in (False, True):

        def begin(exists: bool = exists) -> Path:
            shutil.rmtree(place, ignore_errors=True)
            if exists:
                merge([b], place / "run")
            return place / "run"

        def call() -> None:
            merge([a, b], place / "run")

        begin()
        steps = steps_of(call, MODULES)
        expected = (rows(place / "run", "cells"), rows(place / "run", "measurements"))
        for step in chosen(steps, 14, seed=int(exists)):
            out = begin()
            assert killed(call, MODULES, step)
            if out.exists() and not exists:
                assert len(open_run(out).population) == 12  # all of it, or none
            elif exists:
                assert len(open_run(out).population) in (6, 12)
            merge([a, b], out)
            assert (rows(out, "cells"), rows(out, "measurements")) == expected
            assert load_entries(out) == [entry]
            assert content(out / "weights") == content(trained / "weights")
            assert sorted(path.name for path in place.iterdir()) == ["run"]


def test_a_sigkill_in_the_middle_leaves_nothing_half(trained: Path, tmp_path: Path) -> None:
    """A real process, killed while it copies weights: it is held up there."""
    out = tmp_path / "out" / "run"
    code = (
        "import sys, time\n"
        "from gapbench.runs import merging, merged_files\n"
        "copy = merged_files.Weights.copy\n"
        "def slow(self):\n    copy(self)\n    print('copied', flush=True)\n    time.sleep(1)\n"
        "merged_files.Weights.copy = slow\n"
        f"merging.merge([{str(trained)!r}], {str(out)!r})\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment()
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "copied\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not out.exists()
    merge([trained], out)
    equal(out, trained)


def environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
