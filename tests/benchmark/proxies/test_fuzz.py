"""A seeded part of the fuzz; `python tests/benchmark/proxies/fuzz.py --count 300` is the whole."""

import pytest

from benchmark.proxies import fuzz


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1024))
def test_no_number_of_a_random_network_is_wrong(seed):
    report = fuzz.check(seed)
    assert not report.wrong
    assert report.tally["train_loss: ok"] == 1


def test_a_gradient_that_is_wrong_by_a_percent_is_refused():
    """Its network reads the norm of a weight as a number; the smallest steps have no digits for that."""
    report = fuzz.check(256)
    assert not report.wrong
    assert report.tally["hessian_trace: not_applicable"] == 1
    assert report.tally["sharpness_full: not_applicable"] == 1
