"""Which cells are trained together, and what becomes of a stack whose worker dies."""

from dataclasses import replace

from gapbench.population.jobs import Setup, TrainJob, TrialJob
from gapbench.population.plan import Cell
from gapbench.population.stacks import (
    Decision,
    Stacks,
    architecture_of,
    evenly,
    halves,
    left_of,
    restoring_job,
)
from gapbench.runs.records import TrainedCell
from gapbench.suites.hyperparameters import Hyperparameters
from gapbench.suites.suite import Configuration


def cells(count, **training):
    return [
        Cell(
            f"{'-'.join(training)}{index}",
            Configuration("t", (("data_seed", index), ("shape", (1, 4, 4))), "f", 1.0, values, index),
            {},
        )
        for index in range(count)
        for values in [Hyperparameters(learning_rate=1 + index, **training)]
    ]


def setup(workers, stacks="exact"):
    return Setup(None, None, "cpu", 1, "cross_entropy", 0, workers, stacks)


def test_cells_of_one_architecture_share_stacks_that_leave_something_for_every_worker():
    group, other = cells(13), cells(2, batch_size=8)
    stacks = Stacks(setup(workers=3), group + other, {})
    jobs = stacks.jobs([cell.key for cell in group + other])
    assert [type(job) for job in jobs] == [TrialJob, TrainJob, TrainJob]  # two are not worth a trial
    jobs = stacks.decided(jobs[0].architecture, Decision("layers", True, 16))
    assert [len(job.members) for job in jobs] == [4, 4, 5]  # not more than ceil(15 / 3)
    assert [m.cell for job in jobs for m in job.members] == [cell.key for cell in group]
    again = Stacks(setup(workers=3), group + other, stacks.stored())
    assert [len(job.members) for job in again.jobs([c.key for c in group[:4]])] == [2, 2]
    assert [type(job) for job in Stacks(setup(3, "off"), group, stacks.stored()).jobs([group[0].key])] == [
        TrainJob
    ]


def test_what_may_be_taken_is_decided_for_itself():
    """A run that took engines which change last bits takes none of them when asked for exact ones.

    Nor does it take on another machine what was exact on the first.
    """
    group = cells(4)
    keys = [cell.key for cell in group]
    stacks = Stacks(setup(1, "any"), group, {})
    (trial,) = stacks.jobs(keys)
    (stack,) = stacks.decided(trial.architecture, Decision("vmap", False, 8))
    assert stack.engine == "vmap"
    assert Stacks(setup(1, "any"), group, stacks.stored()).jobs(keys) == [stack]
    elsewhere = replace(setup(1, "any"), arithmetic="torch 9 on another processor")
    for other in (setup(1, "exact"), elsewhere):
        (again,) = Stacks(other, group, stacks.stored()).jobs(keys)
        assert isinstance(again, TrialJob)


def test_where_numbers_depend_on_the_company_it_is_always_the_same():
    group = cells(7)
    stacks = Stacks(setup(workers=1), group, {})
    (trial,) = stacks.jobs([group[index].key for index in (0, 1, 5)])
    jobs = stacks.decided(trial.architecture, Decision("vmap", False, 3))
    assert [[m.cell for m in job.members] for job in jobs] == [
        [cell.key for cell in part] for part in (group[:2], group[4:])
    ]
    assert [job.wanted for job in jobs] == [{group[0].key, group[1].key}, {group[5].key}]
    left = left_of(jobs[0], {group[0].key})
    assert (left.members, left.wanted) == (jobs[0].members, {group[1].key})
    assert left_of(jobs[0], {group[0].key, group[1].key}) is None
    assert [[m.cell for m in half.members] for half in halves(jobs[0])] == [[group[0].key], [group[1].key]]


def test_parts_are_even():
    assert [len(part) for part in evenly(list(range(17)), 8)] == [5, 6, 6]
    assert evenly([1, 2], 8) == [[1, 2]]


def test_what_trained_a_network_trains_it_again():
    group = {cell.key: cell for cell in cells(4)}
    keys = list(group)
    row = TrainedCell(
        cell=keys[1],
        description="{}",
        task="t",
        family="f",
        width=1.0,
        seed=0,
        status="converged",
        weights_sha256="sum",
    )
    for engine in (None, "loop"):
        job = restoring_job(replace(row, engine=engine), group)
        assert (type(job), job.cell, job.restore) == (TrainJob, keys[1], "sum")
    alone = restoring_job(replace(row, engine="layers"), group)
    assert ([m.cell for m in alone.members], alone.engine, alone.exact) == ([keys[1]], "layers", True)
    company = f'["{keys[3]}", "{keys[1]}"]'
    job = restoring_job(replace(row, engine="vmap", company=company), group)
    assert [(m.cell, m.restore) for m in job.members] == [(keys[3], None), (keys[1], "sum")]
    assert (job.engine, job.exact, job.wanted) == ("vmap", False, {keys[1]})
    lost = restoring_job(replace(row, engine="vmap", company='["gone"]'), group)
    assert type(lost) is TrainJob


def test_what_decides_the_loss_and_the_network_is_of_the_architecture_and_old_decisions_are_found():
    def name(**training):
        (cell,) = cells(1, **training)
        return architecture_of(cell, setup(1))

    assert name() == (
        '["t", {"shape": [1, 4, 4]}, "f", 1.0, {"batch_size": 64, "depth": null, "dropout": 0.0, '
        '"optimizer": "sgd"}, ["cpu", "", "exact"]]'
    )
    alike = [name(schedule="cosine"), name(gradient_clip=1.0), name(augmentation="flip")]
    assert alike == [name()] * 3
    smoothed, mixed, other = name(label_smoothing=0.1), name(augmentation="mixup"), name(activation="gelu")
    assert smoothed == mixed
    assert len({name(), smoothed, other}) == 3
