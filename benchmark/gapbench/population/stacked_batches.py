"""Mini-batches of several networks side by side: each network's own, in its own order, with its own noise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from gapbench.population.course import Course
from gapbench.population.stacked_parameters import LINE, out_of_memory, padded


class StackedBatches:
    """The mini-batches of courses that have as many examples and mini-batches as each other.

    A course whose examples cannot be made gets zeros for the rest of the epoch; `errors` has why, by its index.
    """

    def __init__(self, courses: Sequence[Course]):
        self.courses = list(courses)
        first = courses[0]
        example = first.train_split.inputs
        self._shared = all(
            c.train_split.inputs is example and c.train_split.targets is first.train_split.targets
            for c in courses
        )
        self._as_stored = all(course.given_as_stored for course in courses)
        self._soft = first.values.soft_targets
        self._buffers: dict[int, Tensor] = {}
        self._stored: list[Tensor] = []
        if self._as_stored:  # flattening is a view, but where the memory format is another
            flat = {id(c.train_split.inputs): c.train_split.inputs for c in courses}
            flat = {key: inputs.flatten(1) for key, inputs in flat.items()}
            self._stored = [flat[id(course.train_split.inputs)] for course in courses]
        self._shape = example.shape[1:]
        self.errors: dict[int, Exception] = {}

    def epoch(self, only: Sequence[int] | None = None) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Index, inputs (count, b, c, h, w) and targets of the mini-batches of the next epoch in turn.

        Targets are labels (count, b), or probabilities (count, b, classes) where the courses have those. `only`
        chooses mini-batches by their index.

        Yields:
            One mini-batch of each network; the tensors are overwritten by the next.
        """
        orders = [course.permutation() for course in self.courses]
        targets = torch.stack([c.train_split.targets[order] for c, order in zip(self.courses, orders)])
        parts = torch.stack(orders).tensor_split(self.courses[0].batches, dim=1)
        for index, (chosen, labels) in enumerate(zip(parts, targets.tensor_split(len(parts), dim=1))):
            if only is None or index in only:
                yield index, *self._batch(chosen, labels.contiguous())

    def _batch(self, chosen: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        count, batch = chosen.shape
        size = self._shape.numel()
        if batch not in self._buffers:
            example = self.courses[0].train_split.inputs
            self._buffers[batch] = padded(example.new_zeros(count, batch, size))
        buffer = self._buffers[batch]
        if self._as_stored:
            if self._shared and (batch * size) % LINE == 0:
                together = buffer.view(count * batch, size)
                torch.index_select(self._stored[0], 0, chosen.flatten(), out=together)
            else:
                for row, stored, examples in zip(buffer, self._stored, chosen):
                    torch.index_select(stored, 0, examples, out=row)
            targets = [course.targets(own) for course, own in zip(self.courses, labels)] if self._soft else []
        else:
            targets = [
                self._filled(index, row, examples)
                for index, (row, examples) in enumerate(zip(buffer, chosen))
            ]
        images: Tensor = buffer.unflatten(2, self._shape)
        return images, torch.stack(targets) if self._soft else labels

    def _filled(self, index: int, row: Tensor, examples: Tensor) -> Tensor:
        """Put the inputs of course `index` into `row`.

        Returns:
            The targets.
        """
        course = self.courses[index]
        if index not in self.errors:
            try:
                inputs, targets = course.batch(examples)
                row.copy_(inputs.flatten(1))
                return targets
            except Exception as error:  # of this network alone
                if out_of_memory(error):
                    raise
                self.errors[index] = error
                row.zero_()
        return course.targets(course.train_split.targets[examples])
