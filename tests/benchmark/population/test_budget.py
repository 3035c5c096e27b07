"""A proxy that takes more than the suite's budget is cut, by name, and disturbs no other."""

import threading

import pytest

import gapbench
from benchmark.tiny_suite import TINY
from gapbench.proxies import registry
from gapbench.proxies.budget import OverBudget, within
from gapbench.suites.suite import load_suite, parse_suite


def busy():
    """A little work."""
    return sum(range(1000))


def endless(context):
    """Never ends, with the network's weights out of place."""
    parameter = next(context.model.parameters())
    before = parameter.detach().clone()
    try:
        parameter.data.zero_()
        while True:
            busy()
    finally:
        parameter.data.copy_(before)


@pytest.fixture
def registered():
    registry.list_proxies()  # those that come with gapbench are found once
    before = dict(registry._ENTRIES)
    gapbench.proxy("endless")(endless)
    yield
    registry._ENTRIES.clear()
    registry._ENTRIES.update(before)


def test_a_block_ends_when_its_time_is_over():
    with within(None):
        pass
    with within(60.0):
        pass
    with pytest.raises(OverBudget, match=r"more than 0\.05 s"), within(0.05):
        sum(busy() for _ in range(10**9))
    sum(busy() for _ in range(5000))  # nothing is left that would ring


def test_only_the_main_thread_can_keep_a_budget():
    found = []

    def work():
        try:
            with within(1.0):
                found.append("kept")
        except gapbench.GapbenchError as error:
            found.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert "main thread" in found[0]


def test_what_is_over_budget_is_not_measured_by_name_and_the_rest_is(registered, tmp_path):
    file = tmp_path / "tiny.toml"
    text = TINY.replace('"param_norm",', '"endless", "param_norm",', 1)
    file.write_text(text.replace("samples = 40", "samples = 40\nbudget = 4.0", 1))
    assert load_suite(file).budget == 4.0
    run = gapbench.run(file, tmp_path / "run", device="cpu", workers=0, board=False, limit=2)
    found = run.measurements
    cut = found[found["proxy"] == "endless"]
    assert len(cut) == 2
    assert set(cut["status"]) == {"not_applicable"}
    assert set(cut["reason"]) == {"it took more than 4 s of processor time, the budget of the suite"}
    (tmp_path / "plain.toml").write_text(TINY)
    plain = gapbench.run(
        tmp_path / "plain.toml", tmp_path / "plain", device="cpu", workers=0, board=False, limit=2
    )
    keys = ["cell", "proxy"]
    others = found[found["proxy"] != "endless"].set_index(keys)["value"].sort_index()
    assert others.equals(plain.measurements.set_index(keys)["value"].sort_index())


@pytest.mark.parametrize("budget", ["0", "-1.0", '"long"', "inf"])
def test_a_budget_is_a_positive_number(budget):
    with pytest.raises(gapbench.GapbenchError, match="budget"):
        parse_suite(TINY.replace("samples = 40", f"samples = 40\nbudget = {budget}", 1), "given")
