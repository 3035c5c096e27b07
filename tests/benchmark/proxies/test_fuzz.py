"""A seeded part of the fuzz; `python tests/benchmark/proxies/fuzz.py --count 300` is the whole."""

import pytest

from benchmark.proxies import fuzz


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1024))
def test_no_number_of_a_random_network_is_wrong(seed):
    report = fuzz.check(seed)
    assert not report.wrong
    assert report.tally["train_loss: ok"] == 1
