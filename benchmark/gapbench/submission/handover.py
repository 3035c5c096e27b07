"""Networks as the sandbox gets them: without family name, width, hyper-parameters, task or place."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class Handover:
    """What one measurement sees. `inputs`, `targets`: the examples to differentiate on; `all_*`: the whole
    training set where that is larger."""

    model: nn.Module
    inputs: Tensor
    targets: Tensor
    initial: nn.Module | None = None
    all_inputs: Tensor | None = None
    all_targets: Tensor | None = None
    loss: str = "cross_entropy"

    def packed(self) -> bytes:
        """The content for the other side, made and read by trusted code alone."""
        stream = io.BytesIO()
        content: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("model", "initial", "inputs", "targets", "all_inputs", "all_targets")
        }
        torch.save(content, stream)
        return stream.getvalue()

    def modules(self) -> list[str]:
        """Modules that define the network's classes."""
        return sorted({type(module).__module__ for module in self.model.modules()})


def handover_of(cell: Any, run: Any) -> Handover:
    """The hand-over of one trained cell (`gapbench.submission.population.Member`) of an open population.

    The architecture is built without dropout, which plays no part in eval mode and would show the rate, and
    at a fixed seed; all values come from the weight file.
    """
    from gapbench.population.weights import load_weights, weights_path
    from gapbench.population.worker import measured_examples, task_of
    from gapbench_models import build_model

    initial_state, final_state = load_weights(weights_path(run.folder, cell.key), cell.sha256)
    task = task_of(cell.configuration, run.data_dir)
    networks = []
    for state in (final_state, initial_state):
        network = build_model(
            cell.configuration.family,
            cell.configuration.width,
            task.input_shape,
            task.num_classes,
            0,
            depth=cell.configuration.training.depth,
        )
        network.load_state_dict(state)
        networks.append(network.eval())
    chosen = torch.from_numpy(measured_examples(task, run.suite.samples, run.suite.measure_seed))
    return Handover(
        model=networks[0],
        initial=networks[1],
        inputs=task.train.inputs[chosen],
        targets=task.train.targets[chosen],
        all_inputs=task.train.inputs,
        all_targets=task.train.targets,
        loss=run.suite.loss,
    )
