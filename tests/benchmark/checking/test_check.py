"""`gapbench check` and `gapbench.testing`: the template passes, every fault is named with what to change."""

import io
import json
import math
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import gapbench.testing
from benchmark.conftest import WALLS
from benchmark.sandbox.adversaries import ADVERSARIES, BENIGN, PLACE, body
from gapbench import GapbenchError
from gapbench.checking import check as checking
from gapbench.checking import findings
from gapbench.checking.invariances import summary
from gapbench.checking.population import (
    AUDITED,
    EACH,
    INDEX,
    LOADING,
    RANKED,
    STARTING,
    TOOK,
    check_population,
    expected_loading,
    remember_loading,
    slowness,
)
from gapbench.checking.report import FAIL, INFORMATION, PASS, Point, Report
from gapbench.checking.trials import Hopeless
from gapbench.invariance.transformations import KINDS
from gapbench.sandbox.limits import Limits
from gapbench.sandbox.sandbox import Loaded

pytestmark = pytest.mark.slow  # every test starts processes


@pytest.fixture(scope="module")
def cache(check_cache):
    """The population to check on, made once for these and other tests."""
    folder = check_cache
    before = os.environ.get("GAPBENCH_CACHE")
    os.environ["GAPBENCH_CACHE"] = str(folder)
    yield folder
    if before is None:
        del os.environ["GAPBENCH_CACHE"]
    else:
        os.environ["GAPBENCH_CACHE"] = before


FEW = (*RANKED, *AUDITED, "timm/mobilenetv2")


def a_few(say=lambda text: None):
    """The networks of some families: those of many layers take most of a check's time."""
    prepared = check_population(say)
    members = tuple(m for m in prepared.population.members if m.configuration.family in FEW)
    return replace(
        prepared,
        population=replace(prepared.population, members=members),
        packed={m.key: prepared.packed[m.key] for m in members},
    )


@pytest.fixture(scope="module")
def checked(cache, hosts, tmp_path_factory):
    def report(text, whole=False, **arguments):
        """On the networks of a few families, or on all."""
        file = tmp_path_factory.mktemp("proxy") / "mine.py"
        file.write_text(text.replace(PLACE, "/nowhere"))
        limits = Limits(seconds=60, load_seconds=20)
        with pytest.MonkeyPatch.context() as patch:
            if not whole:
                patch.setattr(checking, "check_population", a_few)
            return checking.check(file, hosts=hosts, unsandboxed=bool(WALLS), limits=limits, **arguments)

    return report


def environment_with_path(**changes):
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), **changes}


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "gapbench", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment_with_path(),
    )


def test_what_a_proxy_prints_is_shown_as_its_own(checked):
    report = checked(
        body("print('norm', float(len(context.inputs)))\nreturn honest(context)") + "\nprint('at import')\n"
    )
    assert report.passed
    text = report.text()
    assert "Printed by the file when it was imported:\n  | at import\n" in text
    networks = len(a_few().population.members)
    heading = next(line for line in text.splitlines() if line.startswith("Printed by the proxy "))
    assert heading.endswith(f"(it printed on {networks} of {networks} networks):")
    assert text.partition(heading)[2].startswith("\n  | norm ")
    assert text.partition(heading)[2].count("norm") == 1  # of one network
    assert report.as_dict()["printed"] == report.printed
    failing = checked(body("print('before the end')\nraise ValueError('no')"))
    assert "  | before the end" in failing.text()


def test_the_population_covers_every_family_and_is_made_once(cache):
    first = check_population()
    members = first.population.members
    families = {m.configuration.family for m in members}
    assert families == set(gapbench.list_models())
    assert {m.configuration.task for m in members} == {"separable", "digits_rotations"}
    changing = (".sqlite-shm", Path(TOOK).suffix)
    before = {p: p.stat().st_mtime_ns for p in cache.rglob("*") if p.is_file() and p.suffix not in changing}
    assert check_population() == first
    assert {p: p.stat().st_mtime_ns for p in before} == before


def test_the_template_passes_as_it_is(cache, tmp_path):
    done = command("new", "my_proxy", "--out", tmp_path / "my_proxy.py")
    assert done.returncode == 0, done.stderr
    done = command("check", tmp_path / "my_proxy.py", "--json", *(["--unsandboxed"] if WALLS else []))
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["passed"]
    assert [point["name"] for point in report["points"]] == list(checking.POINTS)
    again = command("new", "my_proxy", "--out", tmp_path / "my_proxy.py")
    assert again.returncode == 2
    assert "exists already" in again.stderr


@pytest.mark.parametrize("name", ["My-Proxy", "param_norm", "1x"])
def test_a_template_of_a_bad_name_is_refused(name, tmp_path):
    done = command("new", name, "--out", tmp_path / "x.py")
    assert done.returncode == 2
    assert "name" in done.stderr
    assert not (tmp_path / "x.py").exists()


@pytest.mark.parametrize("name", BENIGN)
def test_benign_proxies_pass(name, checked):
    report = checked(BENIGN[name], whole=name == "a_perturbation")
    assert report.passed, report.text()


@pytest.mark.parametrize(
    ("name", "point", "words"),
    [
        ("opens_a_socket", "isolation", "use the network"),
        ("inspects_the_stack", "isolation", "stack frames"),
        ("edits_weights", "purity", "it changed the weights"),
        ("patches_gapbench", "purity", "it replaced gapbench.proxies.measuring._estimate"),
        ("trains", "purity", "training mode"),
        ("draws_from_torch", "purity", "global random state"),
        ("returns_nan", "values", "nan"),
        ("exits", "values", "exit status 0"),
        ("is_constant", "variation", "the same value, 1, on every network"),
        ("reads_the_clock", "repeatability", "differs on"),
        ("counts_its_calls", "repeatability", "differs on"),
        ("uses_hashes", "repeatability", "differs on"),
        ("registers_nothing", "loads", "registers no proxy"),
        ("cannot_be_imported", "loads", "no_such_package"),
    ],
)
def test_a_fault_is_named_at_its_point_with_what_to_change(name, point, words, checked):
    report = checked(ADVERSARIES[name][0])
    assert not report.passed
    found = report.point(point)
    assert found.status == "fail"
    assert words in found.text
    assert found.advice
    assert found.advice in report.text()


def test_what_is_not_defined_somewhere_passes_and_what_fails_somewhere_does_not(checked):
    defined = "if len(list(context.model.children())) > 5:\n    {}\nreturn honest(context)"
    report = checked(body(defined.format('raise gapbench.NotApplicable("too many children")')))
    assert report.passed, report.text()
    assert "not applicable: too many children" in report.point("families").text
    report = checked(body(defined.format("raise IndexError('no')")))
    assert report.point("families").status == "fail"
    assert "failed: IndexError: no" in report.point("families").text


def test_a_hidden_parameter_count_is_told_but_no_failure(checked):
    report = checked(body("return sum(p.numel() for p in context.parameters) ** 0.5"))
    assert report.passed, report.text()
    assert "parameter_count +1.00" in report.point("baselines").text
    assert "number of parameters" in report.point("baselines").text


def test_the_spread_over_seeds_is_compared_with_the_stated_error(checked):

    draw = "import torch\nx = float(torch.randn((), generator=context.generator, dtype=torch.float64))\n"
    honest = checked(body(draw + "return gapbench.Estimate(honest(context) + x, 1.0)")).point("seeds")
    assert honest.status == "pass"
    assert "stated standard error 1" in honest.text
    bold = checked(body(draw + "return gapbench.Estimate(honest(context) + x, 1e-3)")).point("seeds")
    assert (bold.status, bold.advice) == ("warning", "the stated standard error is too small")
    silent = checked(body(draw + "return honest(context) + x")).point("seeds")
    assert silent.status == "warning"
    assert "no standard error is stated" in silent.text


def test_the_suite_is_importable_for_a_contributors_own_tests(cache, tmp_path, hosts):
    file = tmp_path / "mine.py"
    file.write_text(BENIGN["a_norm"])
    arguments = {"hosts": hosts, "unsandboxed": bool(WALLS)}
    report = gapbench.testing.assert_valid(file, **arguments)
    assert {point.name for point in report.points} == set(gapbench.testing.POINTS)
    file.write_text(ADVERSARIES["is_constant"][0])
    with pytest.raises(AssertionError, match="a constant ranks nothing"):
        gapbench.testing.assert_valid(file, **arguments)


def unpacked(blob):
    return torch.load(io.BytesIO(blob), weights_only=False)


def test_transformed_networks_compute_what_the_original_does(cache):
    """Up to a function of the input that is added to all logits, and up to the factor of the logit scale."""
    prepared = check_population()
    kinds = set()
    for family in AUDITED:
        cases = [case for case in prepared.audits if case.family == family]
        assert [case.kind for case in cases] == ["", *KINDS]
        before = unpacked(prepared.audit_network(cases[0]))
        x = before["inputs"][:8].double()
        y = before["model"](x).detach()
        for case in cases[1:]:
            assert bool(case.file) != bool(case.reason)
            if not case.file:
                continue
            kinds.add(case.kind)
            changed = unpacked(prepared.audit_network(case))["model"]
            moved = [
                not torch.equal(p, q) for p, q in zip(before["model"].parameters(), changed.parameters())
            ]
            assert any(moved)
            now = changed(x).detach()
            if case.kind == "logit shift":
                now, expected = now - now.mean(1, keepdim=True), y - y.mean(1, keepdim=True)
            else:
                expected = y * (math.exp(case.strength) if case.kind == "logit scale" else 1)
            torch.testing.assert_close(now, expected, rtol=1e-8, atol=1e-8)
    assert kinds == set(KINDS) - {"mixing of linear channels"}


def test_the_audit_names_what_an_invariant_proxy_keeps_and_by_how_much_a_norm_changes(checked):
    report = checked(body("return float(context.train_loss)"))
    assert report.passed, report.text()
    lines = report.point("invariances").text.splitlines()
    judged = [line for line in lines if ": not applicable: " not in line]
    assert len(judged) == 4 + 4 + 8
    for line in judged:
        if ": logit scale: " in line:
            assert ": not invariant (changes by up to " in line
            assert line.endswith("; changes the loss)")
        else:
            assert line.endswith(": invariant"), line

    report = checked(BENIGN["a_norm"])
    assert report.passed, report.text()
    lines = report.point("invariances").text.splitlines()
    assert "plain/mlp: permutation: invariant" in lines
    prepared = check_population()
    found = {case.kind: case for case in prepared.audits if case.family == "plain/mlp"}

    def norm(kind):
        model = unpacked(prepared.audit_network(found[kind]))["model"]
        return sum(float(p.detach().pow(2).sum()) for p in model.parameters())

    change = abs(norm("unit rescaling") / norm("") - 1)
    assert change > 0.01
    assert f"plain/mlp: unit rescaling: not invariant (changes by up to {change:.2g} of its value)" in lines
    assert "timm/vit_tiny: rotation of the residual stream: invariant" in lines
    assert any(line.startswith("timm/vit_tiny: mixing of heads: not invariant") for line in lines)


def test_a_cache_that_cannot_be_used_or_is_damaged_is_told(cache, monkeypatch, tmp_path):
    folder = check_population().population.folder
    copied = tmp_path / folder.name
    shutil.copytree(folder, copied)
    monkeypatch.setenv("GAPBENCH_CACHE", str(tmp_path))
    (copied / INDEX).write_text("{")
    with pytest.raises(GapbenchError, match=r"is damaged .* delete it"):
        check_population()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GAPBENCH_CACHE", str(tmp_path / "file"))
    with pytest.raises(GapbenchError, match=r"cache folder .* cannot be used"):
        check_population()


def test_a_check_imports_no_torch_on_the_trusted_side():
    """Its processes have imported it already; importing it a third time takes seconds."""
    code = (
        "import sys; import gapbench.checking.check, gapbench.commands.check; "
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment_with_path(), capture_output=True)
    assert done.returncode == 0, done.stderr


def test_a_file_that_cannot_be_loaded_does_not_wait_for_the_networks(hosts, monkeypatch, tmp_path):
    monkeypatch.setenv("GAPBENCH_CACHE", str(tmp_path / "cache"))  # none are made

    def none_are_made(say):
        raise AssertionError("networks are made")

    monkeypatch.setattr(checking, "check_population", none_are_made)
    file = tmp_path / "mine.py"
    for text, words in (("import gapbnch", "No module named 'gapbnch'"), ("x = 1", "registers no proxy")):
        file.write_text(text)
        report = checking.check(file, hosts=hosts, unsandboxed=bool(WALLS))
        assert not report.passed
        assert words in report.point("loads").text
    file.write_text("import gapbench\n@gapbench.proxy('a_zero')\ndef a_zero(context): return 0.0")
    with pytest.raises(GapbenchError, match="no proxy 'b'"):
        checking.check(file, proxy="b", hosts=hosts, unsandboxed=bool(WALLS))
    with pytest.raises(AssertionError, match="networks are made"):
        checking.check(file, hosts=hosts, unsandboxed=bool(WALLS))


def test_the_direction_that_a_file_declares_is_told_even_where_it_is_the_default():
    entry = {"name": "mine", "higher_means": "worse"}
    told = findings.loads(Loaded(({**entry, "name": "other"}, entry)), "mine").text
    assert (
        told
        == 'the file registers other, mine; larger values of mine mean larger gaps (higher_means = "worse")'
    )
    told = findings.loads(Loaded(({**entry, "higher_means": "better"},)), "mine").text
    assert 'smaller gaps (higher_means = "better")' in told


def test_what_failed_is_not_lost_among_the_invariances():
    many = Point("invariances", INFORMATION, "\n".join(f"plain/mlp: kind {k}: invariant" for k in range(9)))
    good, bad = (
        Point("values", PASS, "a number"),
        Point("values", FAIL, "none:\nfor two reasons", "return one"),
    )
    assert len(Report("mine", (good, many), True).text().splitlines()) == 10
    lines = Report("mine", (bad, many), True).text().splitlines()
    assert lines[1:3] == ["                   for two reasons", "                   -> return one"]
    assert lines[3].endswith("invariances  9 lines, left out here: --json has them")
    assert "kind 8" in Report("mine", (bad, many), True).as_dict()["points"][1]["text"]


def test_wrong_usage_is_told(checked):
    with pytest.raises(GapbenchError, match="Did you mean 'adversary'"):
        checked(BENIGN["a_norm"], proxy="adversry")
    with pytest.raises(GapbenchError, match="no option"):
        checked(BENIGN["a_norm"], options={"x": 1})


def test_audit_results_are_summed_up_by_kind():
    def result(kind, strength, change, verdict, reason=""):
        return SimpleNamespace(
            kind=kind, strength=strength, relative_change=change, verdict=verdict, reason=reason
        )

    text = summary(
        [
            result("rescaling", 0.5, 0.2, "not invariant"),
            result("rescaling", 1.0, 3.0, "not invariant"),
            result("permutation", 1.0, 1e-9, "invariant"),
            result("attention", 1.0, None, "not applicable", "no attention"),
            result("logit scale", 0.5, 2.0, "not invariant", "changes the loss"),
            result("heads", 1.0, None, "not applicable", "no attention"),
        ]
    )
    assert text.splitlines() == [
        "rescaling: not invariant (changes by up to 3 of its value)",
        "permutation: invariant",
        "logit scale: not invariant (changes by up to 2 of its value; changes the loss)",
        "not applicable: attention, heads (no attention)",
    ]


def test_without_a_sandbox_check_warns_and_goes_on(cache, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(ADVERSARIES["registers_nothing"][0])
    check_population()
    environment = environment_with_path(PATH="/nowhere")
    done = subprocess.run(
        [sys.executable, "-m", "gapbench", "check", str(file)],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert "Warning: no sandbox" in done.stderr
    assert done.returncode == 1
    assert "registers no proxy" in done.stdout
    assert shutil.which("bwrap") is None or "install" in done.stderr


def test_what_comes_after_the_networks_takes_as_many_times_longer_as_they_did():
    assert slowness(30.0, 0) == 1.0
    assert slowness(STARTING + 10 * EACH, 10) == 1.0
    assert slowness(3 * STARTING + 30 * EACH, 10) == 3.0


def test_loading_is_forecast_to_take_what_it_took_the_last_time(tmp_path):
    assert expected_loading(tmp_path) == LOADING
    remember_loading(tmp_path, 7.25)
    assert expected_loading(tmp_path) == 7.25
    (tmp_path / TOOK).write_text("nan")
    assert 0.5 <= expected_loading(tmp_path) <= 60.0
    (tmp_path / TOOK).write_text("soon")
    assert expected_loading(tmp_path) == LOADING
    remember_loading(tmp_path / "missing", 1.0)  # is no error


def test_a_proxy_that_always_fails_is_not_tried_on_every_network(checked):
    report = checked(body("return context.logit.mean()"))
    (values,) = [point for point in report.points if point.name == "values"]
    assert values.status == "fail"
    assert "has no 'logit'" in values.advice
    assert "logits" in values.advice
    failed, of = re.match(r"failed on (\d+) of (\d+) networks", values.text).groups()
    assert failed == of
    assert int(of) < len(a_few().population.members)
    assert f"the other {len(a_few().population.members) - int(of)} were not tried" in values.text


def test_hopeless_is_what_failed_on_networks_of_several_families():
    def answer(status):
        return SimpleNamespace(measurement=SimpleNamespace(status=status))

    hopeless = Hopeless()
    for family, side in zip("aaaaaab", "xyxyxyx"):
        hopeless.heard(family, answer("failed"), side)
        assert not hopeless()
    hopeless.heard("c", answer("failed"), "x")
    assert hopeless()
    hopeless.heard("d", answer("not_applicable"), "x")
    assert not hopeless()
    slow = Hopeless()  # those at the other end of the order, which are simple, may have values
    for family in "zzyyxxww":
        slow.heard(family, answer("failed"), "backwards")
        assert not slow()
    slow.heard("a", answer("failed"), "in order")
    assert not slow()
    slow.heard("a", answer("failed"), "in order")
    assert slow()


def test_who_draws_is_told_how_to_draw_and_who_changes_to_copy(checked):
    def advice(text):
        return next(point.advice for point in checked(body(text)).points if point.name == "purity")

    drawn = advice("import torch\nreturn float(torch.randn(3).sum())")
    assert "generator=context.generator" in drawn
    assert "deepcopy" not in drawn
    changed = advice("next(context.model.parameters()).data.add_(1.0)\nreturn 1.0")
    assert "deepcopy" in changed
    assert "generator" not in changed
