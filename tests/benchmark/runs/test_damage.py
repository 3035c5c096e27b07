"""Damaged weight files are found, restored by the run and named by whatever needs them; so are rows and entries."""

import json
import shutil
import sqlite3

import pytest
from click.testing import CliRunner

import gapbench
from benchmark.conftest import WALLS
from benchmark.sandbox.adversaries import BENIGN
from gapbench import GapbenchError
from gapbench.cli import cli
from gapbench.runs.intact import restoring_command
from gapbench.submission.submitting import submit
from gapbench.submission.verifying import verify


def weights(run):
    return sorted((run / "weights").glob("*.safetensors"))


def flipped(path, others):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def truncated(path, others):
    path.write_bytes(path.read_bytes()[:-7])


def missing(path, others):
    path.unlink()


def empty(path, others):
    path.write_bytes(b"")


def swapped(path, others):
    mine, other = path.read_bytes(), others[0].read_bytes()
    path.write_bytes(other)
    others[0].write_bytes(mine)


DAMAGES = [flipped, truncated, missing, empty, swapped]


class Listener:
    def __init__(self):
        self.messages, self.trainings = [], 0

    def begin(self, *_): ...
    def about(self, axes): ...
    def left(self, seconds): ...
    def measured(self, record): ...
    def trained(self, record):
        self.trainings += 1

    def message(self, text):
        self.messages.append(text)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_run_that_has_everything_still_finds_and_restores_it(run_folder, damage):
    files = weights(run_folder)
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}
    damage(files[3], files[7:])
    touched = {files[3], files[7]} if damage is swapped else {files[3]}
    heard = Listener()
    with sqlite3.connect(run_folder / "run.sqlite") as db:
        rows = db.execute("SELECT * FROM cells").fetchall()
    found = gapbench.run(
        run_folder, device="cpu", workers=0, proxies=["param_norm"], board=False, progress=heard
    )
    assert not found.problems
    assert {path: path.read_bytes() for path in files} == {p: content for p, (content, _) in before.items()}
    assert {p for p in files if p.stat().st_mtime_ns != before[p][1]} == touched
    assert sum("restored, bit for bit" in text for text in heard.messages) == len(touched)
    assert heard.trainings == 0
    with sqlite3.connect(run_folder / "run.sqlite") as db:
        assert db.execute("SELECT * FROM cells").fetchall() == rows


def test_a_limit_checks_the_networks_beyond_it_too(run_folder):
    files = weights(run_folder)
    content = [path.read_bytes() for path in files]
    for path in files:
        flipped(path, [])
    gapbench.run(run_folder, device="cpu", workers=0, limit=1, proxies=["param_norm"], board=False)
    assert [path.read_bytes() for path in files] == content


def test_what_cannot_be_the_same_is_said_and_not_replaced(run_folder):
    file = weights(run_folder)[0]
    with sqlite3.connect(run_folder / "run.sqlite") as db:
        db.execute("DROP TRIGGER cells_keep")
        db.execute(
            "UPDATE cells SET weights_sha256 = ?, device = 'cuda' WHERE cell = ?", ("0" * 64, file.stem)
        )
    content = file.read_bytes()
    found = gapbench.run(run_folder, device="cpu", workers=0, proxies=["param_norm"], board=False)
    (problem,) = found.problems
    assert "did not give the recorded weights" in problem
    assert "trained on cuda: try --device cuda" in problem
    assert file.read_bytes() == content


@pytest.mark.parametrize("damage", DAMAGES)
def test_submit_verify_audit_and_publish_name_it_with_the_command(run_folder, tmp_path, damage):
    files = weights(run_folder)
    damage(files[0], files[1:])
    file = tmp_path / "mine.py"
    file.write_text(BENIGN["a_norm"])
    command = restoring_command(run_folder)
    assert command == f"gapbench run {run_folder} --device cpu"
    with pytest.raises(GapbenchError) as refused:
        submit(file, run_folder, unsandboxed=bool(WALLS))
    for arguments in (
        ["audit", str(run_folder)],
        ["publish", str(run_folder), "--wandb-project", "p", "--offline", "--with-weights"],
    ):
        done = CliRunner().invoke(cli, arguments)
        assert str(done.exception) == str(refused.value)
    assert str(files[0]) in str(refused.value)
    assert command in str(refused.value)
    gapbench.run(run_folder, device="cpu", workers=0, proxies=["random"], board=False)
    assert (
        not CliRunner()
        .invoke(cli, ["audit", str(run_folder), "--networks", "1", "--proxies", "random"])
        .exit_code
    )


def test_verify_names_it(entered, run_folder):
    missing(weights(run_folder)[2], [])
    with pytest.raises(GapbenchError, match=r"is missing. Restore them with: gapbench run"):
        verify("a_norm", run_folder, unsandboxed=bool(WALLS))


def test_the_command_of_a_trial_adds_no_network(run_folder, tmp_path):
    shutil.copy(run_folder / "run.sqlite", tmp_path / "run.sqlite")
    with sqlite3.connect(tmp_path / "run.sqlite") as db:
        db.execute("DROP TRIGGER cells_stay")
        db.execute("DELETE FROM cells WHERE cell NOT IN (SELECT cell FROM cells LIMIT 5)")
    assert restoring_command(tmp_path) == f"gapbench run {tmp_path} --limit 5 --device cpu"


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE cells SET description = substr(description, 1, 40)", "another description"),
        ("UPDATE cells SET description = json_set(description, '$.width', 3)", "another description"),
        ("UPDATE cells SET gap = gap + 0.01", "a gap that is not"),
        ("UPDATE cells SET test_error = NULL", "a gap that is not"),
        ("UPDATE measurements SET value = NULL WHERE status = 'ok'", "status is ok, but it has no value"),
        ("UPDATE measurements SET details = '{\"coverage\": '", "details are no JSON"),
        ("UPDATE meta SET value = '{' WHERE name = 'suite'", "its suite is no JSON"),
        ("UPDATE meta SET value = '[1]' WHERE name = 'proxies'", "list of proxies is damaged"),
    ],
)
def test_a_damaged_row_is_one_sentence(run_folder, statement, words):
    with sqlite3.connect(run_folder / "run.sqlite") as db:
        for table in ("cells", "measurements"):
            db.execute(f"DROP TRIGGER {table}_keep")
        db.execute(statement)
    with pytest.raises(GapbenchError, match=words) as told:
        gapbench.open_run(run_folder)
    assert "damaged" in str(told.value)
    assert str(run_folder) in str(told.value)


def test_text_that_is_none_is_damage(run_folder):
    with sqlite3.connect(run_folder / "run.sqlite") as db:
        db.execute("DROP TRIGGER measurements_keep")
        db.execute("UPDATE measurements SET reason = CAST(x'da28' AS TEXT)")
    with pytest.raises(GapbenchError, match=r"run\.sqlite"):
        gapbench.open_run(run_folder)


def test_bits_of_another_length_are_damage(run_folder):
    with sqlite3.connect(run_folder / "run.sqlite") as db:
        db.execute("DROP TRIGGER cells_keep")
        db.execute("UPDATE cells SET test_correct = substr(test_correct, 1, 3)")
    with pytest.raises(GapbenchError, match="3 bytes of test correctness for 200 examples"):
        gapbench.open_run(run_folder).scores(targets=("gap",), replicates=2)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b'{"format": 1}'])
def test_a_damaged_entry_is_one_sentence(entered, run_folder, content):
    file = next((run_folder / "entries").glob("*.json"))
    file.write_bytes(content)
    with pytest.raises(GapbenchError, match=file.name):
        gapbench.open_run(run_folder)


@pytest.mark.parametrize("name", ["data.json", "scores.csv"])
@pytest.mark.parametrize("cut", [False, True])
def test_a_damaged_board_is_one_sentence(run_folder, tmp_path, name, cut):
    path = run_folder / "board" / name
    content = path.read_bytes()
    path.write_bytes(content[: content.rindex(b",", 0, len(content) // 2) if cut else 0])
    done = CliRunner().invoke(cli, ["publish", str(run_folder), "--wandb-project", "p", "--offline"])
    assert type(done.exception).__name__ == "TableError"
    assert name in str(done.exception)


def test_details_of_a_measurement_reach_the_tables(run_folder):
    with sqlite3.connect(run_folder / "run.sqlite") as db:
        db.execute("DROP TRIGGER measurements_keep")
        details = json.dumps({"coverage": "partly covered: 1 operation", "converged": False})
        db.execute("UPDATE measurements SET details = ? WHERE label = 'param_norm'", (details,))
    table = gapbench.open_run(run_folder).measurements
    own = table[table["proxy"] == "param_norm"]
    assert set(own["coverage"]) == {"partly covered: 1 operation"}
    assert own["converged"].tolist() == [False] * 12
    assert table.loc[table["proxy"] == "random", "coverage"].isna().all()
    shown = CliRunner().invoke(cli, ["board", str(run_folder)])
    assert "symmetry partly covered on 12 of 12 networks" in shown.output
    assert "ascent not converged on 12 of 12 networks" in shown.output
