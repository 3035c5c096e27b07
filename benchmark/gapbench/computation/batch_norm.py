"""Statistics of batch normalisation, estimated over whole data sets."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

BATCH = 500


@torch.no_grad()
def reestimate_batch_norm(network: nn.Module, inputs: Tensor, batch: int = BATCH) -> None:
    """Replace running statistics by their cumulative average over `inputs`, in equal batches.

    Only the batch normalisation layers run in training mode meanwhile, so dropout plays no part.
    """
    layers = [m for m in network.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]
    if not layers:
        return
    training = network.training
    network.eval()
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None
        layer.train()
    for part in inputs.tensor_split(max(1, -(-len(inputs) // batch))):
        network(part)
    for layer, momentum in zip(layers, momenta):
        layer.momentum = momentum
    network.train(training)
