"""Which population: a part, the whole, other weights, and entries of another are told apart everywhere."""

import json
import shutil
import sqlite3
from dataclasses import replace

import pytest
from click.testing import CliRunner

import gapbench
from benchmark.conftest import WALLS
from benchmark.sandbox.adversaries import BENIGN
from benchmark.tiny_suite import TINY
from gapbench import GapbenchError
from gapbench.cli import cli
from gapbench.population.stored import open_population
from gapbench.runs.entries import as_json, load_entries
from gapbench.runs.identity import identity_of
from gapbench.runs.joining import join
from gapbench.runs.records import TrainedCell
from gapbench_leaderboard.board.mirror import entry_records, group, leaderboard_identifier


def row(cell, sha256="a", status="converged", test_error=0.2, fingerprint="f"):
    return TrainedCell(
        cell=cell,
        description=json.dumps({"task": {"fingerprint": fingerprint}}),
        task="t",
        family="f",
        width=1.0,
        seed=0,
        status=status,
        train_error=0.0,
        test_error=test_error,
        gap=test_error,
        weights_sha256=sha256,
        device="cpu",
        finished=86400.0,
    )


def test_the_fingerprint_follows_text_cells_weights_errors_and_data_and_nothing_else():
    rows = [row("x"), row("y")]
    first = identity_of("text", ["x", "y", "z"], rows)
    assert (first.networks, first.planned, first.complete) == (2, 3, False)
    assert first.words == "2 of 3 networks: incomplete"
    assert first.date == "1970-01-02T00:00:00+00:00"
    assert identity_of("text", ["z", "y", "x"], rows[::-1]).fingerprint == first.fingerprint
    later = [replace(r, device="cuda", finished=1e9) for r in rows]
    assert identity_of("text", ["x", "y"], later).fingerprint == first.fingerprint
    others = [
        identity_of("other", ["x", "y"], rows),
        identity_of("text", ["x", "y"], rows[:1]),
        identity_of("text", ["x", "y", "z"], [*rows, row("z")]),
        identity_of("text", ["x", "y"], [row("x"), row("y", sha256="b")]),
        identity_of("text", ["x", "y"], [row("x", sha256="b"), row("y", sha256="a")]),
        identity_of("text", ["x", "y"], [row("x"), row("y", test_error=0.3)]),
        identity_of("text", ["x", "y"], [row("x", fingerprint="g"), row("y", fingerprint="g")]),
    ]
    assert len({found.fingerprint for found in [first, *others]}) == len(others) + 1


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    """The same run as a trial of 4 networks and as the whole of 12, never changed by a test."""
    folder = tmp_path_factory.mktemp("grown")
    suite = folder / "tiny.toml"
    suite.write_text(TINY)
    arguments = {"device": "cpu", "workers": 0, "proxies": ["param_norm", "random"]}
    gapbench.run(suite, folder / "trial", limit=4, **arguments)
    shutil.copytree(folder / "trial", folder / "whole")
    gapbench.run(suite, folder / "whole", **arguments)
    return folder / "trial", folder / "whole"


def document(run):
    return json.loads((run / "board" / "data.json").read_text())


def test_a_trial_and_the_whole_never_share_a_remote_run_and_the_trial_says_so(grown):
    boards = [document(run) for run in grown]
    scores = [gapbench.open_run(run).scores(targets=("gap",), replicates=5) for run in grown]
    suites = [board["suite"] for board in boards]
    records = [entry_records(board, table) for board, table in zip(boards, scores)]
    names = [{record.identifier for record in found} for found in records]
    names = [found | {leaderboard_identifier(suite)} for found, suite in zip(names, suites)]
    assert not names[0] & names[1]
    assert len({group(suite) for suite in suites}) == 2
    assert "trial" in group(suites[0])
    assert "trial" not in group(suites[1])
    for found, trial in zip(records, (True, False)):
        assert all(("trial" in record.tags) == trial for record in found)
    config = records[0][0].config
    assert config["population"] == gapbench.open_run(grown[0]).identity.fingerprint
    assert config["population_words"] == "4 of 12 networks: incomplete"
    assert config["devices"] == ["cpu"]
    assert config["gapbench"]
    assert config["population_date"][:4] >= "2026"
    for name in ("data.json", "board.md", "index.html"):
        assert "4 of 12 networks: incomplete" in (grown[0] / "board" / name).read_text()
        assert "networks: incomplete" not in (grown[1] / "board" / name).read_text()
    shown = CliRunner().invoke(cli, ["board", str(grown[0])])
    assert "4 of 12 networks: incomplete" in shown.output


@pytest.mark.slow
def test_an_entry_on_a_trial_says_so_and_is_noticed_when_the_run_has_grown(grown, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(BENIGN["a_norm"])
    run = tmp_path / "run"
    shutil.copytree(grown[0], run)
    trusted = ["--name", "a_norm", *(["--unsandboxed"] if WALLS else [])]
    shown = CliRunner().invoke(cli, ["submit", str(file), "--run", str(run), *trusted])
    assert shown.exit_code == 0, shown.output
    assert "4 of 12 networks: incomplete" in shown.output
    suite = tmp_path / "tiny.toml"
    suite.write_text(TINY)
    grew = gapbench.run(suite, run, device="cpu", workers=0, proxies=["param_norm"], board=True)
    (note,) = [note for note in grew.notes() if "a_norm" in note]
    assert "4 of this board's 12 networks" in note
    row = next(entry for entry in document(run)["proxies"] if entry["label"] == "a_norm")
    assert row["other_population"] == note
    again = CliRunner().invoke(cli, ["submit", str(file), "--run", str(run), *trusted])
    assert again.exit_code == 0, again.output
    assert gapbench.open_run(run).notes() == []
    assert load_entries(run)[0].population.networks == 12


def test_the_run_keeps_what_it_holds(grown):
    for run in grown:
        with sqlite3.connect(run / "run.sqlite") as db:
            stored = json.loads(db.execute("SELECT value FROM meta WHERE name = 'population'").fetchone()[0])
        assert stored == gapbench.open_run(run).identity.as_dict()
        assert document(run)["suite"]["population"] == stored
        assert open_population(run).fingerprint == stored["fingerprint"]


def test_a_run_of_before_still_opens_with_the_same_fingerprint(grown, tmp_path):
    shutil.copytree(grown[1], tmp_path / "old")
    with sqlite3.connect(tmp_path / "old" / "run.sqlite") as db:
        db.execute("DELETE FROM meta WHERE name = 'population'")
    assert gapbench.open_run(tmp_path / "old").identity == gapbench.open_run(grown[1]).identity


def test_a_trial_published_after_the_whole_leaves_its_artifacts_alone(grown, tmp_path):
    from gapbench_leaderboard.board.publishing import specify

    made = [specify(run / "board", "p", None, None, None) for run in grown]
    assert made[0]["leaderboard"]["artifact"] == "gapbench-trial-tiny"
    assert made[1]["leaderboard"]["artifact"] == "gapbench-board-tiny"
    assert made[0]["group"] != made[1]["group"]
    assert made[1]["leaderboard"]["aliases"][0] == "suite-tiny-v1"
    fingerprint = gapbench.open_run(grown[1]).identity.fingerprint
    assert f"population-{fingerprint}" in made[1]["leaderboard"]["aliases"]


def test_the_difference_of_two_populations_is_told(grown):
    shown = CliRunner().invoke(cli, ["diff", str(grown[0]), str(grown[1])])
    assert "boards of different populations" in shown.output
    assert "4 of 12 networks: incomplete" in shown.output


def strange(run, change):
    """The run with its entry changed, opened."""
    (file,) = (run / "entries").glob("*.json")
    entry = json.loads(file.read_text())
    change(entry)
    file.write_text(json.dumps(entry))
    return [note for note in gapbench.open_run(run).notes() if entry["label"] in note]


def test_an_entry_says_its_population_and_one_of_another_is_noticed(entered, run_folder, tmp_path):
    own = gapbench.open_run(run_folder).identity
    population = entered.population
    assert population.fingerprint == own.fingerprint
    assert (population.networks, population.planned) == (12, 12)
    assert population.devices == ("cpu",)
    assert population.gapbench == own.gapbench
    assert strange(run_folder, lambda entry: None) == []
    values = as_json(entered)["values"]
    cell = next(iter(values))

    def elsewhere(entry):
        entry["population"]["fingerprint"] = "0" * 16

    def weights(entry):
        elsewhere(entry)
        entry["values"][cell]["weights"] = "0" * 64

    def fewer(entry):
        elsewhere(entry)
        entry["values"] = {key: value for key, value in values.items() if key != cell}

    def unknown(entry):
        elsewhere(entry)
        entry["values"] = {key: {**v, "weights": None} for key, v in values.items()}

    assert "other weights of 1 networks" in strange(run_folder, weights)[0]
    other = tmp_path / "other.json"
    other.write_text(json.dumps(as_json(load_entries(run_folder)[0])))
    with pytest.raises(GapbenchError, match="other weights of 1 networks"):
        join([run_folder], [other], tmp_path / "joined")
    assert "11 of this board's 12 networks" in strange(run_folder, fewer)[0]
    assert "not known whether" in strange(run_folder, unknown)[0]

    def more(entry):
        elsewhere(entry)
        entry["values"] = {**values, "f" * 16: values[cell]}

    assert "1 networks that are not here" in strange(run_folder, more)[0]


def test_an_entry_of_before_is_still_the_runs_own(entered, run_folder):
    """Entries had another fingerprint, made of gaps; such an entry is verified and not submitted a second time."""
    earlier = gapbench.open_run(run_folder).identity.earlier

    def old(entry):
        entry["population"] = {"fingerprint": earlier, "networks": 12}
        for value in entry["values"].values():
            del value["weights"]

    assert strange(run_folder, old) == []
    assert open_population(run_folder).is_that_of(load_entries(run_folder)[0])


def test_two_runs_of_one_suite_on_one_board_are_the_population_of_both(grown, tmp_path):
    joined = join(list(grown), [], tmp_path / "joined")
    assert joined.identity.fingerprint == gapbench.open_run(grown[1]).identity.fingerprint
    assert joined.identity.complete
