"""Keeping the entries of a run in order."""

import json
import shutil
from dataclasses import replace

import pytest
from click.testing import CliRunner

import gapbench
from benchmark.conftest import WALLS
from benchmark.sandbox.adversaries import BENIGN
from gapbench import GapbenchError
from gapbench.cli import cli
from gapbench.runs.entries import load_entries, write_entry
from gapbench.runs.entry import EntryPopulation, Verification
from gapbench.submission import keeping
from gapbench.submission.comparing import compared
from gapbench.submission.keeping import Begun, begun, listed, put_back, rename, withdraw
from gapbench.submission.submitting import submit
from gapbench_leaderboard.statistics import kendall_tau

pytestmark = pytest.mark.slow  # the population starts processes


def shown(run_folder):
    document = json.loads((run_folder / "board" / "data.json").read_text())
    return {row["label"] for row in document["proxies"]}


def values(run_folder, label):
    rows = gapbench.open_run(run_folder).measurements
    return rows[rows["proxy"] == label].set_index("cell")["value"].to_dict()


def call(*arguments):
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], catch_exceptions=True)


def test_the_list_says_who_what_and_how_good(entered, run_folder):
    (only,) = listed(run_folder)
    assert only.entry == load_entries(run_folder)[0]
    assert (only.withdrawn, only.remarks) == (False, ())
    printed = call("entries", run_folder).output
    head, line = printed.splitlines()
    assert head.split() == "entry tau with the gap networks submitted by".split()
    assert line.startswith("a_norm")
    assert f"{entered.claimed.value:.3f} [{entered.claimed.low:.3f}, {entered.claimed.high:.3f}]" in line
    assert f"{entered.claimed.models} of 12" in line
    assert "N. N." in line
    (row,) = json.loads(call("entries", run_folder, "--json").output)
    assert row["tau"] == entered.claimed.value
    assert row["source_sha256"] == entered.source_sha256


def test_withdrawn_is_not_deleted_and_comes_back(entered, run_folder):
    before = values(run_folder, "a_norm")
    withdraw(run_folder, "a_norm")
    assert load_entries(run_folder) == []
    assert "a_norm" not in shown(run_folder)
    (aside,) = listed(run_folder)
    assert (aside.withdrawn, aside.entry) == (True, entered)
    assert "(withdrawn)" in call("entries", run_folder).output
    put_back(run_folder, entered.id)
    assert load_entries(run_folder) == [entered]
    assert "a_norm" in shown(run_folder)
    assert values(run_folder, "a_norm") == before


def test_a_board_that_a_withdrawal_was_cut_off_from_is_said_to_be_older(entered, run_folder, monkeypatch):
    """The file is moved first; a kill while the board is scored leaves the row on it."""

    def killed(folder, say):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(keeping, "_rebuild", killed)
        with pytest.raises(KeyboardInterrupt):
            withdraw(run_folder, "a_norm")
    assert "a_norm" in shown(run_folder)
    (aside,) = listed(run_folder)
    assert aside.remarks == (f"still on the board, which is older: gapbench board {run_folder}",)
    assert call("board", run_folder).exit_code == 0
    assert "a_norm" not in shown(run_folder)
    assert listed(run_folder)[0].remarks == ()
    with monkeypatch.context() as patch:
        patch.setattr(keeping, "_rebuild", killed)
        with pytest.raises(KeyboardInterrupt):
            put_back(run_folder, entered.id)
    assert f"not on the board yet: gapbench board {run_folder}" in call("entries", run_folder).output
    assert call("board", run_folder).exit_code == 0
    assert listed(run_folder)[0].remarks == ()


def test_what_was_withdrawn_can_be_submitted_again_without_measuring(entered, run_folder, hosts, tmp_path):
    withdraw(run_folder, "a_norm")
    file = tmp_path / "mine.py"
    file.write_text(BENIGN["a_norm"])
    said = []
    again = submit(
        file, run_folder, name="a_norm", hosts=hosts, unsandboxed=bool(WALLS), say=said.append
    ).entry
    assert again.values == entered.values
    assert not any("Measuring" in text for text in said)


def test_a_renamed_entry_keeps_its_values_and_its_history(entered, run_folder):
    before = values(run_folder, "a_norm")
    found = rename(run_folder, "a_norm", "the norm")
    assert (found.name, found.label, found.version, found.id) == ("the norm", "the norm", 1, entered.id)
    assert load_entries(run_folder) == [replace(entered, name="the norm", label="the norm")]
    assert values(run_folder, "the norm") == before
    assert values(run_folder, "a_norm") == {}
    assert shown(run_folder) >= {"the norm", "param_norm"}
    assert "a_norm" not in shown(run_folder)
    scores = gapbench.open_run(run_folder).scores(targets=("gap",))
    head = scores[(scores["estimator"] == "tau") & (scores["task"] == "") & (scores["family"] == "")]
    assert head.set_index("proxy").loc["the norm", "value"] == entered.claimed.value


def test_a_rename_that_was_cut_off_is_completed_by_the_same_call(entered, run_folder, monkeypatch):
    from gapbench.submission import keeping

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(keeping, "write_entry", killed)
        with pytest.raises(KeyboardInterrupt):
            rename(run_folder, "a_norm", "the norm")
    assert rename(run_folder, "a_norm", "the norm").label == "the norm"
    assert len(values(run_folder, "the norm")) == 12


def test_a_changed_file_of_a_renamed_entry_is_its_second_version(entered, run_folder, hosts, tmp_path):
    rename(run_folder, "a_norm", "the norm")
    file = tmp_path / "mine.py"
    file.write_text(BENIGN["a_norm"] + "\n# changed\n")
    entry = submit(file, run_folder, name="the norm", hosts=hosts, unsandboxed=bool(WALLS)).entry
    assert (entry.version, entry.label) == (2, "the norm v2")


def test_the_same_source_under_two_names_is_noticed(entered, run_folder, hosts, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(BENIGN["a_norm"])
    submit(file, run_folder, name="another", hosts=hosts, unsandboxed=bool(WALLS))
    remarks = {found.entry.label: found.remarks for found in listed(run_folder)}
    assert remarks == {
        "a_norm": ("the same source and options as another",),
        "another": ("the same source and options as a_norm",),
    }
    told = call(
        "submit", file, "--run", run_folder, "--name", "another", *(["--unsandboxed"] if WALLS else [])
    )
    assert told.exit_code == 0
    assert "is on the board as a_norm" in told.output


def test_versions_of_an_entry_are_compared(entered, run_folder, hosts, tmp_path):
    """The second version adds 1 to the norm on some networks and fails on others: everything is counted."""
    file = tmp_path / "mine.py"
    changed = BENIGN["a_norm"].replace("return honest(context)", CHANGED)
    assert changed != BENIGN["a_norm"]
    file.write_text(changed)
    submit(file, run_folder, name="a_norm", authors="M. M.", hosts=hosts, unsandboxed=bool(WALLS))
    found = compared(run_folder, "a_norm")
    assert (found.first.label, found.second.label) == ("a_norm v2", "a_norm")
    run = gapbench.open_run(run_folder)
    rows = run.measurements[run.measurements["status"] == "ok"].pivot(
        index="cell", columns="proxy", values="value"
    )
    new, old = rows["a_norm v2"], rows["a_norm"]
    both = new.notna() & old.notna()
    assert (found.networks, found.both, found.equal) == (12, both.sum(), (new == old).sum())
    assert 0 < found.equal < found.both < 12
    assert found.second.statuses == {"ok": 12}
    assert found.first.statuses["not_applicable"] == 12 - found.both
    gap = run.rankable().set_index("cell").assign(new=new, old=old)
    taus = [kendall_tau(part["new"], part["old"]) for _, part in gap[gap["new"].notna()].groupby("task")]
    assert found.alike == pytest.approx(sum(taus) / len(taus), abs=1e-12)
    scores = run.scores(targets=("gap",))
    scores = scores[scores["family"] == ""].set_index(["task", "proxy", "estimator"])["value"]
    assert found.first.tau == scores["", "a_norm v2", "tau"]
    assert found.difference == -scores["", "a_norm", "tau_minus:a_norm v2"]
    assert found.p == pytest.approx(scores["", "a_norm", "tau_minus_p:a_norm v2"], nan_ok=True)
    assert found.low <= found.difference <= found.high
    assert any(text.startswith("another source") for text in found.changed)
    assert "authors: N. N. -> M. M." in found.changed
    turned = compared(run_folder, "a_norm", "a_norm v2")
    assert (turned.difference, turned.low, turned.high) == (-found.difference, -found.high, -found.low)
    printed = call("entries", run_folder, "--compare", "a_norm").output
    assert printed.splitlines()[1].split()[:2] == ["a_norm", "v2"]
    assert f"{found.both} networks have a value of both, {found.equal} of them the same" in printed
    document = json.loads(call("entries", run_folder, "--compare", "a_norm", "--json").output)
    assert document["difference"] == found.difference


CHANGED = """value = honest(context)
    width = len(context.parameters[0])
    if width == 32:
        raise gapbench.NotApplicable("too wide")
    return value + 1.0 * (width == 8)"""


def test_an_entry_is_compared_with_any_row_of_the_board(entered, run_folder):
    found = compared(run_folder, "a_norm", "param_norm")
    assert (found.both, found.equal, found.changed) == (12, 12, ())
    assert (found.alike, found.difference) == (1.0, 0.0)
    assert not found.told_apart
    printed = call("entries", run_folder, "--compare", "a_norm", "--with", "param_norm").output
    assert "they cannot be told apart" in printed or "not known" in printed
    for arguments, words in (
        (["--compare", "a_norm"], "has no other version on this run; --compare a_norm --with OTHER"),
        (["--compare", "b_norm"], "has no row 'b_norm'. Did you mean 'a_norm'"),
        (["--compare", "a_norm", "--with", "a_norm"], "are the same row"),
        (["--with", "a_norm"], "--with says what to --compare an entry with"),
    ):
        with pytest.raises(GapbenchError) as error:
            cli.main(["entries", str(run_folder), *arguments], standalone_mode=False)
        assert words in str(error.value)


def test_that_it_was_verified_is_said(entered, run_folder, tmp_path):
    found = Verification(
        outcome="confirmed",
        kind="same networks",
        by="M. M.",
        date="2026-01-02T03:04:05",
        networks=12,
        differing=0,
    )
    write_entry(run_folder, replace(entered, verifications=(found,)))
    assert "confirmed on the same networks by M. M., 2026-01-02" in call("entries", run_folder).output
    file = tmp_path / "mine.py"
    file.write_text(BENIGN["a_norm"])
    told = call(
        "submit", file, "--run", run_folder, "--name", "a_norm", *(["--unsandboxed"] if WALLS else [])
    )
    assert "It was verified before: confirmed on the same networks by M. M., 2026-01-02." in told.output
    assert "not verified" not in told.output


def test_an_entry_of_other_weights_is_marked(entered, run_folder):
    values = {cell: replace(value, weights="0" * 64) for cell, value in entered.values.items()}
    population = EntryPopulation(fingerprint="0" * 16)
    write_entry(run_folder, replace(entered, population=population, values=values))
    (only,) = listed(run_folder)
    (remark,) = only.remarks
    assert "measured on other weights of 12 networks" in remark
    assert remark in call("entries", run_folder).output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--withdraw", "b_norm"], "has no entry 'b_norm'. Entries: a_norm."),
        (["--put-back", "a_norm"], "has no withdrawn entry 'a_norm'. Withdrawn: none."),
        (["--rename", "a_norm", "param_norm"], "already a proxy or a row 'param_norm'"),
        (["--rename", "a_norm", " x"], "1 to 64 printable characters"),
        (
            ["--rename", "a_norm", "a_norm", "--withdraw", "a_norm"],
            "one of --withdraw, --put-back, --rename and --compare",
        ),
        (["--withdraw", "entries/x.json"], "is a file: give the entry's name"),
    ],
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(entered, run_folder, arguments, words):
    with pytest.raises(GapbenchError, match=None) as error:
        cli.main(["entries", str(run_folder), *arguments], standalone_mode=False)
    assert words in str(error.value)
    assert load_entries(run_folder) == [entered]


def test_a_folder_without_a_run_is_said_to_be_none(tmp_path):
    for arguments in ([], ["--withdraw", "x"], ["--rename", "x", "y"]):
        with pytest.raises(GapbenchError, match="is no run"):
            cli.main(["entries", str(tmp_path / "none"), *arguments], standalone_mode=False)
    with pytest.raises(GapbenchError, match="is no run"):
        cli.main(["verify", "x", "--run", str(tmp_path / "none")], standalone_mode=False)


def test_a_run_without_entries_says_how_to_add_one(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "run")
    assert "gapbench submit FILE.py" in call("entries", tmp_path / "run").output


def test_what_was_interrupted_is_not_forgotten(entered, run_folder):
    assert begun(run_folder) == []
    (entry,) = load_entries(run_folder)
    networks = len(values(run_folder, entry.label))
    (run_folder / "entries" / f"{entry.id}.json").unlink()  # as before the last step of a submission
    assert begun(run_folder) == [Begun(entry.label, entry.name, networks)]
    told = call("entries", run_folder).output
    assert "it was interrupted" in told
    assert "refused" not in told
    assert f"{entry.label}: measured on {networks} networks, but no entry" in told
    assert "The same gapbench submit goes on" in told


def test_a_version_that_was_refused_is_listed_with_the_reason(entered, run_folder, hosts, tmp_path):
    text = 'import gapbench\n\n@gapbench.proxy("a_norm")\ndef a_norm(context):\n    return {}\n'
    file = tmp_path / "mine.py"
    file.write_text(text.format("1.0"))
    done = submit(file, run_folder, hosts=hosts, unsandboxed=bool(WALLS))
    (reason,) = done.refusals
    (waiting,) = begun(run_folder)
    assert (waiting.name, waiting.label, waiting.refused) == ("a_norm", "a_norm v2", (reason,))
    told = call("entries", run_folder).output
    assert (
        f"a_norm v2: measured on {waiting.networks} networks, but no entry: it was refused: {reason}." in told
    )
    assert "goes on with it" not in told
    with pytest.raises(
        GapbenchError, match=r"no other version on this run.*a_norm v2: measured on .* refused"
    ):
        compared(run_folder, "a_norm")
    file.write_text(text.format("float(sum(p.norm() for p in context.model.parameters()))"))
    assert submit(file, run_folder, hosts=hosts, unsandboxed=bool(WALLS)).entry is not None
    assert [own.label for own in begun(run_folder)] == ["a_norm v2"]  # another file, another version


def test_what_a_population_can_decide_is_told_before_it_is_measured_on(run_folder, hosts, tmp_path):
    gapbench.open_run(run_folder).build_board()
    board = run_folder / "board" / "data.json"
    document = json.loads(board.read_text())
    document["decision"]["resolution"] |= {"half_width": 0.0812, "smallest_difference": 0.187}
    board.write_text(json.dumps(document))
    file = tmp_path / "mine.py"
    file.write_text(BENIGN["a_norm"])
    said = []
    submit(file, run_folder, hosts=hosts, unsandboxed=bool(WALLS), say=said.append)
    assert said[0] == (
        "On this population a headline is known to about ± 0.08, and a difference of two below 0.19 cannot be "
        "significant."
    )
