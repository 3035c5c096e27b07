"""Entering a proxy: once, whole or not at all, in versions; verifying it."""

import contextlib
import json
import os
import pkgutil
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace

import pytest

import gapbench
from benchmark.conftest import WALLS, needs_sandbox
from benchmark.sandbox.adversaries import ADVERSARIES, BENIGN
from benchmark.tiny_suite import TINY
from gapbench import GapbenchError
from gapbench.proxies.results import Measurement
from gapbench.runs.comparing import compare, outcome_of
from gapbench.runs.entries import as_json, load_entries, write_entry
from gapbench.runs.entry import EntryPopulation, EntryValue, Score, Verification
from gapbench.runs.store import Store
from gapbench.sandbox.limits import Limits
from gapbench.submission.fresh import fresh_suite, toml_text
from gapbench.submission.submitting import submit
from gapbench.submission.verifying import disagreement, role_of, verify
from gapbench.suites.suite import list_suites, load_options, load_suite, parse_suite

pytestmark = pytest.mark.slow  # every test starts processes

NORM = BENIGN["a_norm"]


def files(folder):
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in folder.rglob("*")
        if p.is_file() and p.name not in ("driver.lock", "run.sqlite-wal", "run.sqlite-shm")
    }


def enter(text, run, hosts, tmp_path, **arguments):
    file = tmp_path / "mine.py"
    file.write_text(text)
    return submit(file, run, hosts=hosts, unsandboxed=bool(WALLS), limits=Limits(seconds=20), **arguments)


def command(*arguments, **environment):
    return [sys.executable, "-m", "gapbench", *map(str, arguments)], {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        **environment,
    }


def test_values_and_scores_are_those_of_the_same_proxy_measured_here(entered, run_folder):
    """The adversary's norm is param_norm, which the run measured itself: bit-identical, and so is its score."""
    run = gapbench.open_run(run_folder)
    wide = run.measurements.pivot(index="cell", columns="proxy", values="value")
    assert (wide["a_norm"] == wide["param_norm"]).all()
    scores = run.scores(targets=("gap",))
    head = scores[(scores["estimator"] == "tau") & (scores["task"] == "") & (scores["family"] == "")]
    tau = head.set_index("proxy")["value"]
    assert tau["a_norm"] == tau["param_norm"] == entered.claimed.value


def test_the_entry_says_everything_and_the_board_shows_it(entered, run_folder):
    assert entered.name == entered.label == "a_norm"
    assert (entered.version, entered.authors, entered.paper) == (1, "N. N.", "A title")
    assert entered.source == NORM
    assert len(entered.source_sha256) == 64
    assert entered.population.networks == 12
    assert entered.claimed.models > 0
    assert entered.cost.seconds_median > 0
    assert entered.sandbox == ("none" if WALLS else "bubblewrap")
    assert {"versions", "device", "python"} <= set(entered.environment)
    assert load_entries(run_folder)[0].values == entered.values
    document = json.loads((run_folder / "board" / "data.json").read_text())
    row = next(row for row in document["proxies"] if row["label"] == "a_norm")
    assert row["claimed"] is True
    assert row["verified"] is False
    assert {"param_norm", "random", "a_norm", "width"} <= {r["label"] for r in document["proxies"]}
    assert "a_norm" in (run_folder / "board" / "index.html").read_text()
    assert "a\\_norm" in (run_folder / "board" / "board.md").read_text()


def test_submitting_the_same_twice_changes_nothing(entered, run_folder, hosts, tmp_path):
    before = files(run_folder)
    done = enter(NORM, run_folder, hosts, tmp_path, name="a_norm")
    assert not done.changed
    assert done.entry.id == entered.id
    assert files(run_folder) == before


def test_a_changed_source_is_a_new_version_beside_the_old(entered, run_folder, hosts, tmp_path):
    done = enter(NORM + "\n# changed\n", run_folder, hosts, tmp_path, name="a_norm")
    assert done.changed
    assert (done.entry.version, done.entry.label) == (2, "a_norm v2")
    assert done.entry.seed != entered.seed
    assert [e.label for e in load_entries(run_folder)] == ["a_norm", "a_norm v2"]
    assert set(gapbench.open_run(run_folder).measurements["proxy"]) >= {"a_norm", "a_norm v2"}


def test_more_networks_bring_an_entry_up_to_date_under_the_same_identity(
    entered, run_folder, hosts, tmp_path
):
    """An entry that was measured on other networks than there are now is measured again where it is missing."""
    entry = load_entries(run_folder)[0]
    elsewhere = EntryPopulation(fingerprint="0" * 16, networks=3)
    write_entry(run_folder, replace(entry, population=elsewhere))
    done = enter(NORM, run_folder, hosts, tmp_path, name="a_norm")
    assert done.changed
    assert done.entry.id == entry.id
    assert len(load_entries(run_folder)) == 1
    assert done.entry.values == entry.values


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "param_norm"}, "already a proxy or a row"),
        ({"name": "width"}, "already a proxy or a row"),
        ({"name": " x"}, "printable"),
        ({"proxy": "adversry"}, "Did you mean 'adversary'"),
        ({"options": {"steps": 3}}, "no option 'steps'"),
    ],
)
def test_wrong_usage_is_told(arguments, words, run_folder, hosts, tmp_path):
    with pytest.raises(GapbenchError, match=words):
        enter(NORM, run_folder, hosts, tmp_path, **arguments)
    assert not load_entries(run_folder)


def test_options_reach_the_proxy_and_are_part_of_its_identity(run_folder, hosts, tmp_path):
    text = NORM.replace("adversary(context)", "adversary(context, *, factor: float = 1.0)").replace(
        "return honest(context)", "return factor * honest(context)"
    )
    one = enter(text, run_folder, hosts, tmp_path, name="scaled").entry
    two = enter(text, run_folder, hosts, tmp_path, name="scaled", options={"factor": 2.0}).entry
    assert (one.version, two.version) == (1, 2)
    assert two.options == {"factor": 2.0}
    for cell, value in one.values.items():
        assert two.values[cell].value == 2 * value.value


def test_a_failure_on_some_networks_is_an_entry_that_says_so(run_folder, hosts, tmp_path):
    text = NORM.replace(
        "    return honest(context)", "    value = honest(context)\n    return value if value < 30 else 1 / 0"
    )
    done = enter(text, run_folder, hosts, tmp_path, name="partial")
    if done.entry is None:  # the network tried first was among the failing
        assert "ZeroDivisionError" in done.refusals[0]
        return
    assert set(done.entry.statuses) <= {"ok", "failed"}
    assert len(done.failures) == done.entry.statuses.get("failed", 0)


SLOW = NORM.replace("    return honest", "    import time\n    time.sleep(0.1)\n    return honest")


def count_measured(run):
    with sqlite3.connect(f"file:{run}/run.sqlite?mode=ro", uri=True) as db:
        return db.execute("SELECT COUNT(*) FROM measurements WHERE label = 'slow'").fetchone()[0]


def assert_absent_or_whole(run):
    entries = load_entries(run)  # raises for one that is not whole
    if entries:
        assert count_measured(run) == 12
        assert entries[0].statuses == {"ok": 12}
    assert ("slow" in set(gapbench.open_run(run).measurements["proxy"])) == bool(entries)
    return entries


def assert_completed(run):
    """One entry with the values of the norm, and a board with it."""
    (entry,) = assert_absent_or_whole(run)
    rows = gapbench.open_run(run).measurements.query("proxy == 'param_norm'")
    norms = dict(zip(rows["cell"], rows["value"]))
    assert {cell: value.value for cell, value in entry.values.items()} == norms
    document = json.loads((run / "board" / "data.json").read_text())
    assert "slow" in {row["label"] for row in document["proxies"]}


def test_killed_at_any_moment_the_entry_is_absent_or_whole_and_the_same_command_completes_it(
    run_folder, hosts, tmp_path
):
    """By the system: between two results, then at the first sign of the entry."""
    file = tmp_path / "mine.py"
    file.write_text(SLOW)
    arguments = ["submit", file, "--run", run_folder, "--name", "slow", "--workers", "1"]
    arguments += ["--unsandboxed"] if WALLS else []
    line, environment = command(*arguments)
    entries = run_folder / "entries"
    moments = [
        lambda: count_measured(run_folder) >= 4,
        lambda: entries.is_dir() and any(entries.iterdir()),
    ]
    kept = 0
    for moment in moments:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(line, env=environment, start_new_session=True, **quiet)
        while not moment() and process.poll() is None:
            time.sleep(0.002)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert count_measured(run_folder) >= max(kept, 4)  # no result is lost
        kept = count_measured(run_folder)
        assert_absent_or_whole(run_folder)
    assert kept == 12
    enter(SLOW, run_folder, hosts, tmp_path, name="slow")
    assert_completed(run_folder)


class Killed(BaseException):
    """Stands for a kill where one from outside could not be timed."""


@pytest.mark.parametrize(
    ("module", "function", "calls"),
    [
        ("gapbench.submission.submitting.request_for", None, 0),
        ("gapbench.runs.store.Store.add_measurements", None, 7),
        ("gapbench_base.files.os.replace", "entry", 0),
        ("gapbench.submission.submitting._build_board", None, 0),
        ("gapbench_base.files.os.replace", "board", 2),
    ],
)
def test_stopped_at_a_chosen_point_it_is_the_same(
    module, function, calls, run_folder, hosts, tmp_path, monkeypatch
):
    owner, _, name = module.rpartition(".")
    holder = pkgutil.resolve_name(owner.replace(".Store", ":Store").replace(".os", ":os"))
    real, seen = getattr(holder, name), []

    def stop(*arguments, **options):
        wanted = function != "board" or "board" in str(arguments[1])
        seen.append(arguments) if wanted else None
        if wanted and len(seen) > calls:
            raise Killed
        return real(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(holder, name, stop)
        with pytest.raises(Killed):
            enter(NORM, run_folder, hosts, tmp_path, name="slow")
    entries = assert_absent_or_whole(run_folder)
    assert bool(entries) == ("board" in (function or name))
    kept = count_measured(run_folder)
    assert kept == (calls if name == "add_measurements" else 0 if name == "request_for" else 12)
    done = enter(NORM, run_folder, hosts, tmp_path, name="slow")
    assert done.changed != bool(entries)
    assert_completed(run_folder)


def test_an_adversary_gives_exit_code_1_and_its_reason_on_the_command_line(run_folder, tmp_path):
    file = tmp_path / "evil.py"
    file.write_text(ADVERSARIES["opens_a_socket"][0])
    arguments = ["submit", file, "--run", run_folder] + (["--unsandboxed"] if WALLS else [])
    line, environment = command(*arguments)
    done = subprocess.run(line, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "it tried to use the network" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_sandbox_strangers_code_needs_a_word(run_folder, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(NORM)
    line, environment = command("submit", file, "--run", run_folder, PATH="/nowhere")
    done = subprocess.run(line, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert "bubblewrap" in done.stderr
    assert "--unsandboxed" in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [("def f(:", "is no Python, line 1"), ("x = '" + "y" * 300_000 + "'", "larger than 256 KiB")],
)
def test_a_file_that_cannot_be_a_proxy_is_told(text, words, run_folder, hosts, tmp_path):
    with pytest.raises(GapbenchError, match=words):
        enter(text, run_folder, hosts, tmp_path)


def test_a_run_without_networks_is_told(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(NORM)
    with pytest.raises(GapbenchError, match="gapbench run quick"):
        submit(file, tmp_path / "none", unsandboxed=True)


def test_verifying_confirms_what_is_true_and_refutes_what_is_not(entered, run_folder, hosts, tmp_path):
    arguments = {"hosts": hosts, "unsandboxed": bool(WALLS)}
    found = verify("a_norm", run_folder, by="Somebody Else", **arguments)
    assert (found.outcome, found.written) == ("confirmed", True)
    document = json.loads((run_folder / "board" / "data.json").read_text())
    row = next(r for r in document["proxies"] if r["label"] == "a_norm")
    assert row["verified"] is True
    assert row["standing"]["kind"] == "verified"
    assert "by another than its author (Somebody Else), on the same networks" in row["standing"]["words"]
    assert "by another than its author" in (run_folder / "board" / "board.md").read_text()
    assert {r["standing"]["kind"] for r in document["proxies"] if r["label"] == "random"} == {"baseline"}
    assert {r["standing"]["kind"] for r in document["proxies"] if r["label"] == "param_norm"} == {"built_in"}
    entry = load_entries(run_folder)[0]
    cell = next(iter(entry.values))
    wrong = replace(entry.values[cell], value=entry.values[cell].value * 1.01)
    write_entry(run_folder, replace(entry, values={**entry.values, cell: wrong}))
    found = verify("a_norm", run_folder, **arguments)
    assert found.outcome == "refuted"
    assert cell in found.text
    document = json.loads((run_folder / "board" / "data.json").read_text())
    assert next(r for r in document["proxies"] if r["label"] == "a_norm")["verified"] is False
    outcomes = [v.outcome for v in load_entries(run_folder)[0].verifications]
    assert outcomes == ["confirmed", "refuted"]


def test_an_entry_of_other_networks_or_with_another_source_is_not_verified(
    entered, run_folder, hosts, tmp_path
):
    entry = as_json(load_entries(run_folder)[0])
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**entry, "population": {"fingerprint": "0" * 16, "networks": 12}}))
    with pytest.raises(GapbenchError, match="other networks"):
        verify(str(other), run_folder, hosts=hosts, unsandboxed=bool(WALLS))
    other.write_text(json.dumps({**entry, "source": entry["source"] + "#"}))
    with pytest.raises(GapbenchError, match="checksum"):
        verify(str(other), run_folder, hosts=hosts, unsandboxed=bool(WALLS))
    with pytest.raises(GapbenchError, match="no entry 'nothing'"):
        verify("nothing", run_folder)
    other.write_text("{}")
    with pytest.raises(GapbenchError, match="no entry of format"):
        verify(str(other), run_folder)


def test_fresh_seeds_train_networks_that_share_no_seed_and_show_both_scores(
    entered, run_folder, hosts, tmp_path
):
    found = verify(
        "a_norm", run_folder, fresh_seeds=True, out=tmp_path / "fresh", hosts=hosts, unsandboxed=bool(WALLS)
    )
    old, new = gapbench.open_run(run_folder), gapbench.open_run(tmp_path / "fresh")
    assert not set(old.population["cell"]) & set(new.population["cell"])
    assert not set(old.population["seed"]) & set(new.population["seed"])
    assert len(new.population) == 12
    assert found.record.claimed == entered.claimed
    assert found.record.fresh.models > 0
    assert "on fresh networks" in found.text


@pytest.mark.parametrize("name", list_suites())
def test_a_fresh_suite_has_the_same_grid_and_other_seeds(name):
    suite = load_suite(name)
    fresh = parse_suite(fresh_suite(suite), "fresh")

    def grid(configuration):
        options = {k: v for k, v in load_options(configuration).items() if k != "seed"}
        return (
            configuration.task,
            str(options),
            configuration.family,
            configuration.width,
            configuration.training,
        )

    assert sorted(map(str, map(grid, suite.configurations))) == sorted(
        map(str, map(grid, fresh.configurations))
    )
    assert not {c.seed for c in suite.configurations} & {c.seed for c in fresh.configurations}
    assert all(
        load_options(c)["seed"] != load_options(o).get("seed", 0)
        for c in fresh.configurations
        for o in suite.configurations
    )
    assert fresh.proxies == suite.proxies
    assert (fresh.samples, fresh.loss) == (suite.samples, suite.loss)


def test_calibrations_of_data_seeds_are_those_of_the_new_ones():
    text = TINY.replace("seed = [0, 1]", "seed = [0]\ndata_seed = [5, 6]").replace(
        "[[grid]]",
        """[[measure.calibration]]
on = { data_seed = 5 }
set = { mine = 0.1 }
[[measure.calibration]]
on = { data_seed = [6] }
set = { mine = 0.3 }
[[grid]]""",
        1,
    )
    suite = parse_suite(text.replace("radius = 0.2", 'radius = "mine"'), "t")
    fresh = parse_suite(fresh_suite(suite), "fresh")

    def radii(of):
        return [dict(r.on(c).options)["radius"] for c in of.configurations for r in of.proxies if r.named]

    assert radii(fresh) == radii(suite)
    assert sorted(radii(suite)) == [0.1] * 6 + [0.3] * 6


def test_toml_text_is_read_back_as_it_was():
    import tomllib

    table = {
        "name": "a",
        "summary": 'with "quotes" and \\ and é\n',
        "measure": {
            "samples": 3,
            "proxies": ["x", {"proxy": "y", "radius": 0.5, "on": True}],
            "calibration": [{"on": {"task": "t"}, "set": {"rise 0.1": 0.5, 'a "b"': 1}}],
        },
        "grid": [{"task": "t", "task_options": {"shape": [1, 2]}, "axes": {"width": [0.5, 1], "seed": [1]}}],
    }
    assert tomllib.loads(toml_text(table)) == table


def score(value, low, high):
    return Score(value=value, low=low, high=high)


@pytest.mark.parametrize(
    ("claimed", "fresh", "outcome"),
    [
        # Difference 0.3, limit sqrt(0.1^2 + 0.2^2) = 0.2236: smaller; with 0.3 below: sqrt(0.1) = 0.316: not.
        (score(0.5, 0.4, 0.6), score(0.2, 0.0, 0.4), "contradicted"),
        (score(0.5, 0.2, 0.6), score(0.2, 0.0, 0.3), "not contradicted"),
        (score(0.5, 0.2, 0.6), score(0.2, 0.01, 0.3), "confirmed"),
        (score(0.2, 0.1, 0.3), score(0.9, 0.8, 1.0), "confirmed"),
        (score(0.14, 0.02, 0.26), score(0.06, -0.13, 0.25), "not contradicted"),
        (score(-0.5, -0.6, -0.4), score(-0.45, -0.6, -0.3), "confirmed"),
        (score(-0.5, -0.6, -0.4), score(-0.2, -0.4, 0.0), "contradicted"),
        (score(-0.5, -0.6, -0.2), score(-0.3, -0.7, 0.1), "not contradicted"),
        (score(0.1, -0.4, 0.6), score(-0.3, -0.5, -0.1), "contradicted"),  # significantly of the other sign
        (score(0.0, -0.2, 0.2), score(0.1, -0.1, 0.3), "not contradicted"),
        (score(0.0, -0.1, 0.1), score(-0.5, -0.6, -0.4), "contradicted"),
        (score(0.5, None, None), score(0.5, 0.4, 0.6), "undecided"),
        (score(0.5, 0.4, 0.6), score(None, None, None), "undecided"),
    ],
)
def test_scores_are_compared_by_the_interval_of_their_difference(claimed, fresh, outcome):
    assert compare(claimed, fresh)[0] == outcome


def test_a_verification_of_before_is_judged_by_its_scores():
    """It was written down as confirmed for not being significantly smaller."""
    record = Verification(outcome="confirmed", kind="fresh networks", claimed=score(0.14, 0.02, 0.26))
    assert outcome_of(replace(record, fresh=score(0.06, -0.13, 0.25))) == "not contradicted"
    assert outcome_of(Verification(outcome="confirmed", kind="same networks")) == "confirmed"
    assert outcome_of(record) == "confirmed"


@pytest.mark.parametrize(
    ("by", "authors", "role"),
    [
        ("", "A. Author", "author"),
        ("a author", "A. Author, B. Other", "author"),
        ("B. Other", "A. Author and B. Other", "author"),
        ("C. Third", "A. Author; B. Other", "another"),
        ("Anderson", "Ander and Son", "another"),
        ("C. Third", " ", "unknown"),
    ],
)
def test_who_verifies_is_the_author_or_another(by, authors, role):
    assert role_of(by, authors) == role


@pytest.mark.parametrize(
    ("claimed", "found", "agrees"),
    [
        ((1.0, None), (1.00001, None), True),
        ((1.0, None), (1.001, None), False),
        ((1.0, 0.3), (2.5, 0.3), True),  # 4 sqrt(0.18) = 1.70
        ((1.0, 0.3), (3.0, 0.3), False),
    ],
)
def test_values_agree_within_rounding_and_their_stated_errors(claimed, found, agrees):
    record = EntryValue(status="ok", value=claimed[0], standard_error=claimed[1])
    measured = Measurement("x", found[0], found[1], 0.0, "ok")
    assert (disagreement(record, measured) == "") == agrees


@needs_sandbox
def test_order_and_seeds_tell_nothing_that_could_be_known_before(entered, run_folder, hosts, tmp_path):
    """Another submission of the same code sees other seeds: they depend on a number drawn at submission."""
    text = NORM.replace("return honest(context)", "return float(context.generator.initial_seed())")
    values = []
    for note in ("# one\n", "# two\n"):
        entry = enter(text + note, run_folder, hosts, tmp_path, name="seeds").entry
        values.append({value.value for value in entry.values.values()})
    assert len(values[0]) == 12
    assert not values[0] & values[1]


LAST_LOSS = '''
import gapbench


@gapbench.proxy("last_epoch_loss", version=1, reference="none")
def last_epoch_loss(context):
    """Mini-batch loss of the last epoch, and whether it fell."""
    return context.history["loss"][-1] + 1000 * len(context.history["loss"])
'''


def test_a_proxy_sees_how_training_went(run_folder, hosts, tmp_path):
    done = enter(LAST_LOSS, run_folder, hosts, tmp_path)
    with Store(run_folder, readonly=True) as store:
        losses = {row.cell: json.loads(row.history) for row in store.cells()}
    values = {cell: value.value for cell, value in done.entry.values.items()}
    assert values == {cell: losses[cell][-1] + 1000 * len(losses[cell]) for cell in values}
    assert len(values) == 12


def test_replicates_of_a_core_are_drawn_anew_with_the_rest():
    for replicate in ("seed", "data_seed"):
        text = f"""
name = "s"
version = 1
[[grid]]
task = "separable"
sample = 4
core = 0.5
seeds = 3
replicate = "{replicate}"
[grid.axes]
family = ["plain/mlp"]
width = [1, 2]
learning_rate = {{ range = [0.01, 0.1] }}
seed = [0]
[[grid.when]]
on = {{ width = 1 }}
set = {{ momentum = 0.5 }}
"""
        suite = parse_suite(text, "s")
        fresh = parse_suite(fresh_suite(suite), "f")
        seeds = [
            {(c.seed, load_options(c).get("seed", 0)) for c in one.configurations} for one in (suite, fresh)
        ]
        assert len(seeds[0]) == len(seeds[1]) == 3
        assert not {a for pair in seeds[0] for a in pair} & {a for pair in seeds[1] for a in pair}
        trainings = [
            sorted(map(repr, {(c.width, c.training) for c in one.configurations})) for one in (suite, fresh)
        ]
        assert trainings[0] == trainings[1]
