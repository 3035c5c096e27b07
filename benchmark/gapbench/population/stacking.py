"""Train several networks of one architecture together, each by the protocol of `gapbench.population.training`.

Every network has its own examples, order, augmentation, noise, learning rate, decay and end. One that ends is
evaluated by itself, handed over and taken out of the stack, so what is left goes on without it: neither its
parameters nor those of the others move any more because of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor, nn

from gapbench.population.course import Course, Trained, placed
from gapbench.population.holdout import parted
from gapbench.population.moments import Moment
from gapbench.population.stacked_batches import StackedBatches
from gapbench.population.stacked_parameters import StackedParameters, Unsuitable, out_of_memory
from gapbench.population.stacked_rules import StackedRule
from gapbench.population.training import shorten
from gapbench.suites.hyperparameters import Hyperparameters
from gapbench.suites.records import NONE
from gapbench_tasks import Split, Task


class Stack(Protocol):
    """What an engine is: several networks whose losses and gradients are computed together."""

    parameters: StackedParameters

    def gradient(self, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Losses (count,) and gradients (count, size) on inputs (count, b, c, h, w).

        Targets are labels (count, b) or probabilities (count, b, classes).

        Returns:
            Both; they may be overwritten by the next call.
        """

    def losses(self, rows: Tensor, inputs: Sequence[Tensor], targets: Sequence[Tensor]) -> Tensor | None:
        """Cross-entropies (k,) of networks `rows` (k,), in eval mode, on whole sets; None where it cannot tell."""

    def keep(self, rows: Tensor) -> None:
        """Drop all networks but these."""

    def write(self, index: int, model: nn.Module) -> None:
        """Give `model` the parameters and buffers of network `index`."""

    def values(self, index: int) -> dict[str, Tensor]:
        """Copies of the parameters and buffers of network `index`, by name."""


Engine = Callable[[Sequence[nn.Module], Tensor], Stack]
"""Stacks networks; the tensor holds a few examples (b, c, h, w). Raises `Unsuitable` where it cannot."""


@dataclass(frozen=True)
class StackMember:
    """One network of a stack, untrained: what `gapbench.population.training.train` takes, and a name."""

    key: str
    model: nn.Module
    task: Task
    values: Hyperparameters
    seed: int
    record: str = NONE


def in_order(members: Sequence[StackMember]) -> list[StackMember]:
    """Members with equal numbers beside each other, which then take their steps together.

    Returns:
        The same members.
    """

    def numbers(member: StackMember) -> tuple[float, ...]:
        values = member.values
        return (values.learning_rate, values.max_epochs, values.weight_decay, values.momentum, values.sam_rho)

    return sorted(members, key=numbers)


def courses_of(members: Sequence[StackMember], device: torch.device) -> list[Course]:
    """Their courses, with the data of equal tasks on the device once.

    Returns:
        One course for each.

    Raises:
        Unsuitable: where they cannot keep step.
    """
    data: dict[tuple[int, float], tuple[tuple[Split, ...], Tensor]] = {}
    courses = []
    for member in members:
        name = (id(member.task), member.values.validation)
        if name not in data:
            data[name] = placed(parted(member.task, member.values.validation), device)
        splits, black = data[name]
        classes = member.task.num_classes
        courses.append(Course(splits, black, member.values, member.seed, device, classes, member.record))
    if len({(c.count, c.batches, c.train_split.inputs.shape[1:]) for c in courses}) != 1:
        raise Unsuitable("the networks have examples of other numbers or shapes")
    if any(course.last % course.batches for course in courses):
        raise Unsuitable("a budget ends within an epoch")
    if len({member.values.optimizer for member in members}) != 1:
        raise Unsuitable("the networks have other optimizers")
    if len({member.values.soft_targets for member in members}) != 1:
        raise Unsuitable("some of the networks learn from labels, others from probabilities")
    return courses


def train_together(
    members: Sequence[StackMember],
    engine: Engine,
    device: torch.device | str,
    ended: Callable[[StackMember, Trained | Exception], None],
) -> None:
    """Train networks in place; `ended` hears of each as soon as it ends, with its result or what went wrong.

    Networks are left on `device`, in eval mode. An error that is not of one network alone is raised, and the
    networks of which `ended` has not heard are left somewhere on their way.

    `Trained.seconds` is a network's share of the time.
    """
    device = torch.device(device)
    members = in_order(members)
    for member in members:
        member.model.to(device).train()
    running = list(zip(members, courses_of(members, device)))
    stack = engine([member.model for member in members], running[0][1].train_split.inputs[:8])
    rule = StackedRule(stack.parameters, [member.values for member in members])
    batches = StackedBatches([course for _, course in running])
    moments = [course.moment(stack.values(index), {}) for index, (_, course) in enumerate(running)]
    while running:
        started = time.perf_counter()
        losses = _epoch(stack, rule, batches, running)
        estimates = _estimates(stack, [course for _, course in running], losses)
        share = (time.perf_counter() - started) / len(running)
        kept = []
        for index, (member, course) in enumerate(running):
            started = time.perf_counter()
            course.seconds += share
            found: Trained | Exception | None = batches.errors.get(index)
            if found is None:
                found = _looked_at(
                    stack, index, member, course, losses[index], estimates.get(index), moments[index]
                )
            if found is None:
                if course.looked_at is not None:
                    moments[index] = course.moment(stack.values(index), rule.state(index))
                course.seconds += time.perf_counter() - started
                kept.append(index)
            else:
                if isinstance(found, Trained):
                    seconds = found.seconds + time.perf_counter() - started
                    found = replace(found, seconds=seconds)
                ended(member, found)
        if 0 < len(kept) < len(running):
            rows = torch.tensor(kept, device=device)
            stack.keep(rows)
            rule.keep(rows)
            batches = StackedBatches([running[index][1] for index in kept])
        running = [running[index] for index in kept]
        moments = [moments[index] for index in kept]


def _epoch(
    stack: Stack, rule: StackedRule, batches: StackedBatches, running: Sequence[tuple[StackMember, Course]]
) -> Tensor:
    """One epoch of each network: its losses (count, batches)."""
    losses = []
    for index, inputs, targets in batches.epoch():
        rates = [course.rate(index) for _, course in running]

        def gradient(inputs: Tensor = inputs, targets: Tensor = targets) -> tuple[Tensor, Tensor]:
            return stack.gradient(inputs, targets)

        losses.append(rule.step(gradient, rates))
    return torch.stack(losses, 1)


def _estimates(stack: Stack, courses: Sequence[Course], losses: Tensor) -> dict[int, float]:
    """Training losses of the networks that the criterion is due for, by index, as far as the engine can tell."""
    means = losses.mean(1).tolist()
    due = [index for index, (course, mean) in enumerate(zip(courses, means)) if course.due(mean)]
    if not due:
        return {}
    splits = [courses[index].train_split for index in due]
    rows = torch.tensor(due, device=losses.device)
    found = stack.losses(rows, [s.inputs for s in splits], [s.targets for s in splits])
    return {} if found is None else dict(zip(due, found.tolist()))


def _looked_at(
    stack: Stack,
    index: int,
    member: StackMember,
    course: Course,
    losses: Tensor,
    estimate: float | None,
    before: Moment,
) -> Trained | Exception | None:
    """The end of a network's training, or None if it goes on; the criterion was looked at last at `before`."""

    def network() -> nn.Module:
        stack.write(index, member.model)
        return member.model

    try:
        if not course.end_epoch(losses, network, estimate):
            return None
        if course.met:  # the few steps that are taken again are taken alone
            shorten(course, network(), before)
            return course.finish(member.model)
        return course.finish(network())
    except Exception as error:  # whatever evaluating this network does is a result of it alone
        if out_of_memory(error):
            raise
        return error
