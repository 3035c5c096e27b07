"""Measure registered proxies on one foreign network, as a run measures its own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from gapbench.foreign.networks import subset
from gapbench.proxies.measuring import make_context, measure_in
from gapbench.proxies.preparing import Forward
from gapbench.proxies.registry import checked_options, expanded, list_proxies, proxy_entry
from gapbench.proxies.results import Measurement
from gapbench_base.seeds import named_seed

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("value", "standard_error", "seconds", "status", "reason")


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
    begun: Callable[[str], None] = lambda name: None,
    ended: Callable[[Measurement], None] = lambda measurement: None,
    **extras: Any,
) -> list[Measurement]:
    """Measure proxies with their default options on a fixed subset of `samples` of the training examples.

    Margins and training loss use all examples. `key` identifies the network among others, so that no two share
    random directions. `begun` hears the name of each before it is measured, `ended` what came out. `forward`,
    `frozen` and `extras` as in `gapbench.measure`.

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
        **extras,
    )
    context._cache["ascent_seed"] = named_seed(key, "ascents", seed)
    found = []
    for name in names:
        begun(name)
        entry = proxy_entry(name)
        found.append(measure_in(context, entry, checked_options(entry, {}), named_seed(key, name, seed)))
        ended(found[-1])
    return found


def measure_all(
    network: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    proxies: Sequence[str] | None = None,
    *,
    samples: int = 256,
    initial: nn.Module | None = None,
    history: dict[str, Any] | None = None,
    sibling: nn.Module | None = None,
    unlabelled: Tensor | None = None,
    loss: str = "cross_entropy",
    seed: int = 0,
    forward: Forward | None = None,
    frozen: str = "exclude",
    batch_size: int | None = None,
    progress: bool | None = None,
) -> pd.DataFrame:
    """Measure many proxies with their default options on one network; what they share is computed once.

    Derivatives are taken on `samples` of the examples, stratified by class; margins and training loss use all. The
    values are those of `gapbench measure`.

    Args:
        network: as in `gapbench.measure`, like all that is not named here.
        inputs: (n, ...), all training examples.
        targets: (n,) or as in `gapbench.measure`.
        proxies: names or groups (`gapbench.proxies.registry.GROUPS`); all registered ones by default.
        samples: how many examples to differentiate on.
        initial: the network at initialisation.
        history: of the training.
        sibling: a network trained from another seed.
        unlabelled: inputs without targets.
        loss: "cross_entropy" or "mse": half the squared error, summed over outputs, mean over examples (of one
            output half of torch's mse_loss).
        seed: the same seed gives the same values.
        forward: (network, inputs) -> outputs, for a network that returns more than one tensor or is called
            otherwise than network(inputs).
        frozen: "include" counts in parameters that require no gradient.
        batch_size: examples that are evaluated at once.
        progress: show a bar on stderr; by default where that is a terminal.

    Returns:
        One row for each proxy, the index: `value`, `standard_error`, `seconds`, `status` and `reason`.

    Raises:
        GapbenchError: an unknown proxy, or data that do not fit the network.
    """
    import pandas as pd
    from rich.console import Console
    from rich.progress import Progress

    names = list_proxies() if proxies is None else expanded(proxies)
    for name in names:
        proxy_entry(name)
    shown = sys.stderr.isatty() if progress is None else progress
    with Progress(console=Console(stderr=True), disable=not shown, transient=True) as bar:
        task = bar.add_task("", total=len(names))
        done = iter(range(len(names)))
        found = measurements_of(
            network,
            inputs,
            targets,
            names,
            samples=samples,
            initial=initial,
            history=history,
            sibling=sibling,
            unlabelled=unlabelled,
            loss=loss,
            seed=seed,
            forward=forward,
            frozen=frozen,
            batch_size=batch_size,
            begun=lambda name: bar.update(task, description=name, completed=next(done)),
        )
    rows = [{column: getattr(measurement, column) for column in COLUMNS} for measurement in found]
    return pd.DataFrame(rows, columns=list(COLUMNS), index=pd.Index(names, name="proxy"))
