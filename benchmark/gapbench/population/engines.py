"""Which way networks of one architecture are trained: one at a time, or together, and then how.

A short trial decides, once per run and architecture: a few steps of the same networks each way, in turn. A stack
is taken where it is faster and its networks are right. On a CPU, unless others are asked for, only an engine is
taken that gives every network the numbers of the plain loop to the last bit: then results depend neither on the
choice nor on the company.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gapbench.computation.memory_format import channels_last_pays
from gapbench.population.layer_stack import LayerStack
from gapbench.population.optimizers import make_optimizer, step
from gapbench.population.stacked_batches import StackedBatches
from gapbench.population.stacked_parameters import Unsuitable, out_of_memory
from gapbench.population.stacked_rules import StackedRule
from gapbench.population.stacking import Engine, StackMember, courses_of, in_order
from gapbench.population.stacks import LOOP, Decision
from gapbench.population.training import mean_loss
from gapbench.population.vmap_stack import VmapStack

ENGINES: dict[str, Engine] = {"layers": LayerStack, "vmap": VmapStack}
STEPS = 6
"""Steps of a trial from the beginning of an epoch, and from its end, whose mini-batches may be smaller by one."""
ROUNDS = 3
FASTER = 1.1
"""A stack is taken where its steps take less time than those of the plain loop by at least this factor."""
LONG_STEP = 3e-3
"""Seconds of a step on a CPU from which on nothing is left that a stack of any networks could save."""
CACHE = 6 << 20
"""Bytes of parameters and examples on a CPU beyond which a larger stack is slower."""
LARGEST = {"cpu": 16, "cuda": 32}
MEMORY = 0.25
"""Share of the memory of the device that the stacks of all workers may take."""
CLOSE = 1e-2
"""How far parameters may be from the plain loop's after a trial, relative to the largest of them, where rounding
makes two right ways part."""


@dataclass(frozen=True)
class Candidates:
    """Networks of one architecture that might be trained together.

    Attributes:
        make: builds one by its index, untrained and on the CPU, anew at each call; equal tasks are one object.
        count: how many there are.
        tasks: how many different tasks they have.
    """

    make: Callable[[int], StackMember]
    count: int
    tasks: int = 1

    def on(self, device: torch.device, most: int) -> list[StackMember]:
        """The first of them, ready to be trained."""
        found = [self.make(index) for index in range(min(most, self.count))]
        for member in found:
            member.model.to(device).train()
        return in_order(found)


def choose(candidates: Candidates, device: torch.device | str, workers: int, stacks: str) -> Decision:
    """Try the ways to train networks of one architecture.

    `workers` share the device's memory. `stacks` says what may be taken: `exact` engines, or `any`.

    Returns:
        The fastest way that is right.
    """
    device = torch.device(device)
    first = candidates.make(0)
    reasons = []
    for name, engine in ENGINES.items():
        if stacks == "exact" and not _exact(name, device):
            reasons.append(f"{name}: would change the last bits")
            continue
        size = size_of(first, candidates.tasks, device, workers)
        if size < 2:
            return Decision(LOOP, True, 1, "two networks do not fit into the memory")
        try:
            engine([first.model], first.task.train.inputs[:2])  # refused at once, if at all
            return _trials(name, candidates, device, size)
        except Unsuitable as error:
            reasons.append(f"{name}: {error}")
        except Exception as error:  # whatever the network does under an engine, the plain loop can be taken
            reasons.append(f"{name}: {type(error).__name__}: {error}"[:300])
    return Decision(LOOP, True, 1, "; ".join(reasons))


def _trials(name: str, candidates: Candidates, device: torch.device, size: int) -> Decision:
    """A trial, with fewer networks if the memory does not suffice."""
    while size > 2:
        try:
            return _trial(name, candidates, device, size)
        except Exception as error:
            if not out_of_memory(error):
                raise
        if device.type == "cuda":
            torch.cuda.empty_cache()
        size //= 2
    return _trial(name, candidates, device, size)


def _exact(name: str, device: torch.device) -> bool:
    return name == "layers" and device.type == "cpu"


def size_of(member: StackMember, tasks: int, device: torch.device, workers: int) -> int:
    """How many networks like this one a stack may have, if they have so many tasks; `workers` share the memory."""
    sample = next(iter(member.model.parameters()))
    values = sum(p.numel() for p in member.model.parameters()) * sample.element_size()
    batch = min(member.values.batch_size, len(member.task.train))
    examples = batch * member.task.train.inputs[0].numel() * sample.element_size()
    size = LARGEST.get(device.type, LARGEST["cpu"])
    if device.type == "cpu":
        size = min(size, max(2, CACHE // (3 * values + examples)))
    data = sum(s.inputs.numel() * s.inputs.element_size() for s in (member.task.train, member.task.test))
    # Activations of a network that is no chain are not known; where they do not fit, the stack is halved.
    needed = 8 * values + 4 * examples + (data if tasks > 1 else 0)
    return int(min(size, MEMORY * _memory(device) / max(1, workers) / needed))


def _memory(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[1])
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _trial(name: str, candidates: Candidates, device: torch.device, size: int) -> Decision:
    loop = _Loop(candidates.on(device, size), device)
    loop_seconds = [loop.round()]
    if name == "vmap" and device.type == "cpu" and loop_seconds[0] > LONG_STEP:
        raise Unsuitable(f"a step takes {1e3 * loop_seconds[0]:.1f} ms alone, so a stack has nothing to save")
    stack = _Stack(candidates.on(device, size), ENGINES[name], device)
    stack_seconds = [stack.round()]
    distance = stack.distance(loop)
    exact = _exact(name, device)
    if exact and distance:
        raise Unsuitable("the last bits are not those of the plain loop, with this version and processor")
    if not distance <= CLOSE:
        raise Unsuitable(f"parameters differ from the plain loop's by {distance:.2g} after a few steps")
    for _ in range(ROUNDS - 1):
        loop_seconds.append(loop.round())
        stack_seconds.append(stack.round())
    alone, together = min(loop_seconds), min(stack_seconds)
    if together * FASTER > alone:
        return Decision(LOOP, True, 1, f"{name}: not faster in a trial", alone, together)
    for left in (len(loop.members) // 2, 1) if exact else ():  # stacks shrink
        loop.keep(left)
        stack.keep(left)
        loop.steps()
        stack.steps()
        if stack.distance(loop):
            raise Unsuitable(f"with {left} networks left the last bits are not those of the plain loop")
    return Decision(name, exact, size, "faster in a trial", alone, together)


class _Way:
    """Networks in a trial, with the mini-batches that are looked at."""

    def __init__(self, members: list[StackMember], device: torch.device):
        self.members, self.device = members, device
        self.courses = courses_of(members, device)
        count = self.courses[0].batches
        self.chosen = sorted({*range(min(STEPS, count)), *range(max(0, count - STEPS), count)})

    def round(self) -> float:
        """Seconds of a step of one network, over those of an epoch that are looked at."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        clock = time.process_time if self.device.type == "cpu" else time.perf_counter
        started = clock()
        self.steps()
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return (clock() - started) / len(self.members) / len(self.chosen)

    def steps(self) -> None:
        """Take them."""
        raise NotImplementedError

    def keep(self, count: int) -> None:
        """Drop all networks but the first."""
        self.members, self.courses = self.members[:count], self.courses[:count]


class _Loop(_Way):
    def __init__(self, members: list[StackMember], device: torch.device):
        super().__init__(members, device)
        first = members[0]
        if channels_last_pays(first.model, self.courses[0].train_split.inputs, first.values.batch_size):
            for member in members:
                member.model.to(memory_format=torch.channels_last)
        self.optimizers = [make_optimizer(member.model, member.values) for member in members]

    def steps(self) -> None:
        for member, course, optimizer in zip(self.members, self.courses, self.optimizers):
            parts = course.permutation().tensor_split(course.batches)
            for index in self.chosen:
                for group in optimizer.param_groups:
                    group["lr"] = course.rate(index)
                inputs, targets = course.batch(parts[index])
                step(member.model, optimizer, mean_loss(member.model, inputs, targets), member.values)


class _Stack(_Way):
    def __init__(self, members: list[StackMember], engine: Engine, device: torch.device):
        super().__init__(members, device)
        self.stack = engine([m.model for m in members], self.courses[0].train_split.inputs[:8])
        self.rule = StackedRule(self.stack.parameters, [m.values for m in members])
        self.batches = StackedBatches(self.courses)

    def steps(self) -> None:
        for index, inputs, targets in self.batches.epoch(self.chosen):
            rates = [course.rate(index) for course in self.courses]

            def gradient(x: Tensor = inputs, y: Tensor = targets) -> tuple[Tensor, Tensor]:
                return self.stack.gradient(x, y)

            self.rule.step(gradient, rates)
        if self.batches.errors:
            raise next(iter(self.batches.errors.values()))

    def keep(self, count: int) -> None:
        super().keep(count)
        rows = torch.arange(count, device=self.device)
        self.stack.keep(rows)
        self.rule.keep(rows)
        self.batches = StackedBatches(self.courses)

    def distance(self, loop: _Loop) -> float:
        """Largest difference of a parameter, relative to the largest of its network's; infinite if one is lost."""
        found = 0.0
        for index, (member, other) in enumerate(zip(self.members, loop.members)):
            self.stack.write(index, member.model)
            mine, theirs = (_in_a_row(m.model) for m in (member, other))
            differ = ~((mine == theirs) | (mine.isnan() & theirs.isnan()))
            if differ.any():
                apart = float((mine - theirs)[differ].abs().max() / theirs.abs().max())
                found = max(found, apart if math.isfinite(apart) else math.inf)
        return found


def _in_a_row(network: nn.Module) -> Tensor:
    """All parameters (d,), whatever their order in memory."""
    return torch.cat([p.detach().reshape(-1) for p in network.parameters()])
