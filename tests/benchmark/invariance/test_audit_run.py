"""The audit of a run: what `gapbench audit RUN` finds on trained networks, and what it writes."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

import gapbench
from benchmark.tiny_suite import TINY
from gapbench.checking.invariances import summary
from gapbench.cli import cli
from gapbench.invariance.population import _sample, _summary, audit_run
from gapbench.invariance.results import compared
from gapbench.invariance.transformations import KINDS, Transformer
from gapbench.population.network import handover_of
from gapbench.population.stored import open_population
from gapbench.proxies.results import Measurement
from gapbench.runs.audits import FILE, read_invariances
from gapbench.runs.store import Store
from gapbench_base import files
from gapbench_base.errors import GapbenchError

SUITE = TINY.replace('"random",', '"train_loss", "hessian_trace_balanced",').replace(
    "epochs = 12", "epochs = 3"
)
LABELS = ("param_norm", "train_loss", "hessian_trace_balanced", "parameter_count")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("audited")
    suite = folder / "tiny.toml"
    suite.write_text(SUITE)
    gapbench.run(suite, folder / "run", device="cpu", workers=0, proxies=["parameter_count"])
    return folder / "run"


@pytest.fixture(scope="module")
def audit(run: Any) -> dict[str, Any]:
    return audit_run(run, networks=4, proxies=LABELS, seed=3)


def by_kind(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["kind"]: row for row in rows}


def test_an_invariant_proxy_is_marked_so_and_a_norm_is_not(audit: dict[str, Any]) -> None:
    assert audit["networks"] == 4
    assert audit["seed"] == 3
    assert list(audit["proxies"]) == list(LABELS)
    possible = {"unit rescaling", "permutation", "logit shift", "logit scale"}
    for label, rows in audit["proxies"].items():
        assert [row["kind"] for row in rows] == list(KINDS), label
        assert {row["kind"] for row in rows if row["verdict"] != "not applicable"} == possible, label
        for row in rows:
            assert row["networks"] == (4 if row["kind"] in possible else 0)
            assert (row["reason"] == "") == (row["kind"] in possible - {"logit scale"})
    verdicts = {
        label: {kind for kind, row in by_kind(rows).items() if row["verdict"] == "invariant"}
        for label, rows in audit["proxies"].items()
    }
    assert verdicts == {
        "param_norm": {"permutation"},
        "train_loss": possible - {"logit scale"},
        "hessian_trace_balanced": {"unit rescaling", "permutation"},
        "parameter_count": possible,
    }


def test_change_and_rank_correlation_are_those_of_the_transformed_networks(run: Any) -> None:
    """The norm of all twelve networks before and after, computed here from their parameters."""
    found = audit_run(run, networks=100, proxies=["param_norm"], strengths=(0.25, 1.0), seed=3)
    assert found["networks"] == 12
    rows = [row for row in found["proxies"]["param_norm"] if row["kind"] == "unit rescaling"]
    assert [row["strength"] for row in rows] == [0.25, 1.0]
    population = open_population(run)
    for row in rows:
        pairs = []
        for member in population.members:
            given = handover_of(member, population)
            transformer = Transformer.of(given.model, given.inputs)
            changed = transformer.apply("unit rescaling", row["strength"], 3)
            pairs.append([norm(transformer.network), norm(changed)])
        changes = [abs(after - before) / before for before, after in pairs]
        assert row["relative_change"] == pytest.approx(statistics.median(changes), rel=1e-9)
        assert row["rank_correlation"] == pytest.approx(concordance(pairs), abs=1e-12)
        assert row["verdict"] == "not invariant"


def norm(network: Any) -> float:
    return math.fsum(float(p.detach().double().pow(2).sum()) for p in network.parameters())


def concordance(pairs: list[list[float]]) -> float:
    """tau of values without ties."""
    signs = [math.copysign(1, (a[0] - b[0]) * (a[1] - b[1])) for a, b in itertools.combinations(pairs, 2)]
    return sum(signs) / len(signs)


def test_the_sample_takes_tasks_and_families_in_turn() -> None:
    groups = [("a", "x"), ("a", "y"), ("b", "x")]
    members = [
        SimpleNamespace(configuration=SimpleNamespace(task=t, family=f), number=n)
        for t, f in groups
        for n in range(5)
    ]
    chosen = _sample(members, 7)
    assert len({id(member) for member in chosen}) == 7
    counts = Counter((m.configuration.task, m.configuration.family) for m in chosen)
    assert sorted(counts.values()) == [2, 2, 3]
    assert len(_sample(members, 100)) == 15


def command(*arguments: Any) -> Any:
    return CliRunner().invoke(cli, ["audit", *map(str, arguments)])


def test_the_command_writes_what_it_found_whole_and_again(
    run: Any, audit: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (run / FILE).unlink(missing_ok=True)
    options = ["--networks", 4, "--seed", 3, "--proxies", ",".join(LABELS)]
    done = command(run, *options)
    assert done.exit_code == 0, done.output
    assert read_invariances(run) == audit  # the same again, from the file
    lines = done.output.splitlines()
    after_label = lines[lines.index("param_norm") + 1 :]
    assert after_label[0].split()[:4] == ["unit", "rescaling", "not", "invariant"]
    text = (run / FILE).read_text()

    # Another proxy joins it, measured on the same networks; an audit that cannot be written, or is wrongly
    # asked for, leaves it as it was.
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
        failed = command(run, "--networks", 4, "--seed", 3, "--proxies", "sharpness_full[radius=0.1]")
        assert isinstance(failed.exception, GapbenchError)
        assert "No space left" in str(failed.exception)
    assert (run / FILE).read_text() == text
    wrong = command(run, "--seed", 3, "--proxies", "param_norn")
    assert isinstance(wrong.exception, GapbenchError)
    assert "no proxy param_norn" in str(wrong.exception)
    assert "param_norm" in str(wrong.exception)
    for option in (["--strength", "0"], ["--strength", "nan"], ["--proxies", ","]):
        assert isinstance(command(run, *option).exception, GapbenchError), option
    assert (run / FILE).read_text() == text
    assert not [p for p in run.iterdir() if p.name.endswith(".partial")]
    other = command(run, "--networks", 1, "--proxies", "sharpness_full[radius=0.1]")
    assert "another sample" in str(other.exception)
    assert (run / FILE).read_text() == text
    done = command(run, "--networks", 4, "--seed", 3, "--proxies", "sharpness_full[radius=0.1]", "--json")
    assert done.exit_code == 0
    stored = read_invariances(run)
    assert stored is not None
    assert stored["proxies"].pop("sharpness_full[radius=0.1]")
    assert stored == audit
    assert json.loads(done.stdout)["proxies"].keys() == {*audit["proxies"], "sharpness_full[radius=0.1]"}


def test_the_board_shows_the_audit(run: Any, audit: dict[str, Any]) -> None:
    (run / FILE).write_text(json.dumps(audit))
    gapbench.open_run(run).build_board()
    assert "unit rescaling" in (run / "board" / "data.json").read_text()


def test_a_folder_without_a_run_is_told(tmp_path: Any) -> None:
    with pytest.raises(GapbenchError, match="no run"):
        audit_run(tmp_path / "none")


def test_training_in_this_process_gives_the_same_networks_as_workers(run: Any, tmp_path: Any) -> None:
    """Bit for bit; so does a run that is begun one way and finished the other."""
    suite = run.parent / "tiny.toml"
    arguments: dict[str, Any] = {"device": "cpu", "proxies": ["parameter_count"], "board": False}
    gapbench.run(suite, tmp_path / "run", workers=1, limit=2, **arguments)
    other = gapbench.run(suite, tmp_path / "run", workers=0, **arguments)
    with Store(run, readonly=True) as first, Store(tmp_path / "run", readonly=True) as second:
        sums = [{row.cell: row.weights_sha256 for row in s.cells()} for s in (first, second)]
    assert sums[0] == sums[1]
    assert len(sums[0]) == len(other.population) == 12
    with pytest.raises(GapbenchError, match="at least 1"):
        gapbench.run(suite, tmp_path / "run", workers=-1)


def test_what_sampling_error_hides_is_said() -> None:
    def measured(value: float, error: float | None) -> Measurement:
        return Measurement("x", value, error, 0.0, "ok", "", {}, None)

    exact = compared("permutation", 0.5, measured(2.0, None), measured(2.0, None))
    assert (exact.verdict, exact.reason, exact.relative_change) == ("invariant", "", 0.0)
    hidden = compared("permutation", 0.5, measured(2.0, 0.12), measured(2.5, 0.16))
    assert (hidden.verdict, hidden.relative_change) == ("invariant", 0.25)
    assert hidden.reason == "a change below 0.4 x the value is within its sampling error"  # 4 * 0.2 / 2
    blind = compared("permutation", 0.5, measured(2.0, 0.3), measured(2.5, 0.4))
    assert blind.verdict == "not applicable"  # whatever changes by less than the value itself would pass
    assert blind.reason == "cannot be told: a change below 1 x the value is within its sampling error"
    assert compared("shifts", 0.5, measured(0.0, 1.0), measured(0.0, 1.0)).verdict == "invariant"
    assert compared("shifts", 0.5, measured(2.0, 0.3), measured(9.0, 0.4)).verdict == "not invariant"
    changed = compared("permutation", 0.5, measured(2.0, 0.03), measured(2.5, 0.04))
    assert (changed.verdict, changed.reason) == ("not invariant", "")
    assert "invariant (a change below 0.4 x the value" in summary([hidden])
    assert summary([blind]) == "permutation: " + blind.reason.replace(": ", " (") + ")"
    assert summary([exact, blind]).startswith("permutation: cannot be told (a change below 1 x the value")
    (row,) = _summary([exact, *[blind] * 4])
    assert (row["verdict"], row["networks"]) == (
        "not applicable",
        1,
    )  # one network of five does not speak for all
    assert row["reason"].startswith("on 4 of 5 networks cannot be told")
    (row,) = _summary([changed, blind])
    assert row["verdict"] == "not invariant"
    assert summary([exact]) == "permutation: invariant"
