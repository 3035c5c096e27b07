"""A limit in seconds ends what takes long, not what other work keeps from a processor."""

import contextlib
import itertools
import os
import subprocess
import sys

import pytest
import torch

import gapbench
from benchmark.conftest import WALLS
from gapbench.sandbox import sandbox
from gapbench.sandbox.handover import Handover
from gapbench.sandbox.launching import Host
from gapbench.sandbox.limits import LATE, Limits
from gapbench.sandbox.sandbox import Session
from gapbench.sandbox.source import source_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how long a process waits"),
]
OTHERS = 3
PROXY = b"""
import time
import gapbench

@gapbench.proxy("busy")
def busy(context):
    start = time.process_time()
    while time.process_time() - start < 2.5:
        pass
    return 1.0

@gapbench.proxy("idle")
def idle(context):
    time.sleep(1000)
    return 1.0
"""


@pytest.fixture(scope="module")
def one_processor():
    """A host on one processor."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        with Host(not WALLS) as host:
            yield host
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def other_work(count):
    """So many processes on the processors of this one, that never rest."""
    others = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in others:
            process.kill()
            process.wait()


def measured(host, proxy, limits, others=OTHERS):
    """Measure in a process that is ready when other work begins."""
    network = torch.nn.Linear(64, 10).eval()
    task = gapbench.load_task("digits_rotations", train_size=50, seed=0)
    given = Handover(network, task.train.inputs.flatten(1), task.train.targets)
    with Session(host, source_of(PROXY, "busy"), limits, proxy=proxy, modules=given.modules()) as session:
        assert not session.loaded.reason
        with other_work(others):
            return session.measure(given, seed=0).measurement


def test_what_waits_for_a_processor_is_not_late(one_processor, monkeypatch):
    monkeypatch.setattr(sandbox, "MOST_PATIENCE", 100)  # the test's own processes may have to wait, too
    for _ in range(5):  # the system may let it have the processor at once, which shows nothing
        found = measured(one_processor, "busy", Limits(seconds=5.0))
        assert found.status == "ok", found.reason
        if found.seconds > 5.0:
            return
    pytest.skip("the other work did not keep it waiting")


@pytest.mark.parametrize(("proxy", "seconds"), [("busy", 0.25), ("idle", 0.5)])
def test_what_takes_long_is_late_even_where_it_waits(proxy, seconds, one_processor):
    found = measured(one_processor, proxy, Limits(seconds=seconds))
    assert (found.status, found.reason) == ("failed", f"{LATE} {seconds:g} s")


def test_there_is_an_end_to_waiting(one_processor, monkeypatch):
    """A proxy may make itself wait."""
    waited = itertools.count(0, 1000)
    monkeypatch.setattr(sandbox, "told", lambda _: float(next(waited)))
    found = measured(one_processor, "idle", Limits(seconds=0.3), others=0)
    assert (found.status, found.reason) == ("failed", f"{LATE} 0.3 s")
    assert found.seconds >= sandbox.MOST_PATIENCE * 0.3
