"""Measure registered proxies on one foreign network, as a run measures its own."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from gapbench.foreign.networks import subset
from gapbench.proxies.measuring import make_context, measure_in
from gapbench.proxies.preparing import Forward
from gapbench.proxies.registry import checked_options, proxy_entry
from gapbench.proxies.results import Measurement
from gapbench_base.seeds import named_seed


def measurements_of(
    network: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    names: Sequence[str],
    *,
    initial: nn.Module | None = None,
    samples: int = 256,
    loss: str = "cross_entropy",
    seed: int = 0,
    key: str = "",
    forward: Forward | None = None,
    frozen: str = "exclude",
) -> list[Measurement]:
    """Measure proxies with their default options on a fixed subset of `samples` of the training examples.

    Margins and training loss use all examples. `key` identifies the network among others, so that no two share
    random directions. `forward` and `frozen` as in `gapbench.measure`.

    Returns:
        One measurement for each of `names`, in their order.

    Raises:
        GapbenchError: for data that do not fit the network.
    """
    chosen = subset(targets, samples)
    context = make_context(
        network,
        inputs[chosen],
        targets[chosen],
        all_inputs=inputs,
        all_targets=targets,
        initial=initial,
        loss=loss,
        forward=forward,
        frozen=frozen,
    )
    context._cache["ascent_seed"] = named_seed(key, "ascents", seed)
    found = []
    for name in names:
        entry = proxy_entry(name)
        found.append(measure_in(context, entry, checked_options(entry, {}), named_seed(key, name, seed)))
    return found
