"""Networks trained together: each gets what it would get alone."""

import copy
import dataclasses

import pytest
import torch
from torch import nn

import gapbench
from gapbench.population.evaluation import evaluate
from gapbench.population.layer_stack import LayerStack, layers_of
from gapbench.population.stacked_parameters import StackedParameters, Unsuitable, padded
from gapbench.population.stacking import StackMember, train_together
from gapbench.population.training import train
from gapbench.population.vmap_stack import VmapStack
from gapbench.suites.hyperparameters import AUGMENTATIONS, OPTIMIZERS, Hyperparameters
from gapbench_tasks import Split, load_task
from gapbench_tasks.task import Task

FAMILIES = ["plain/mlp", "plain/deep_linear", "plain/linear"]


def task_of(dtype=torch.float64, **options) -> Task:
    task = load_task("digits_rotations", train_size=46, **options)
    train, test = (s.moved(lambda images: images.to(dtype)) for s in (task.train, task.test))
    return dataclasses.replace(task, train=train, test=Split(test.inputs[:200], test.targets[:200]))


CLEAN, NOISY, OTHER = task_of(), task_of(label_noise=0.3), task_of(seed=1)
TASKS = [CLEAN, NOISY, OTHER]
SINGLE = [task_of(torch.float32), task_of(torch.float32, label_noise=0.3), task_of(torch.float32, seed=1)]
DIFFERENT = [
    {"learning_rate": 0.05},
    {"learning_rate": 0.2, "weight_decay": 0.01},
    {"learning_rate": 0.05, "momentum": 0.0, "max_epochs": 3},
    {"learning_rate": 0.05, "momentum": 0.5, "weight_decay": 0.1, "stop_loss": 2.2},
    {"learning_rate": 0.1, "input_noise": 0.3, "augmentation": "rot4"},
    {"learning_rate": 0.1, "augmentation": "rotate", "max_epochs": 2},
    {"learning_rate": 0.2, "stop_loss": 1.5},
]


AXES = [
    {"schedule": "cosine", "gradient_clip": 0.3},
    {"schedule": "constant", "augmentation": "flip", "max_epochs": 2},
    {"gradient_clip": 1.5, "augmentation": "crop", "augmentation_strength": 0.5, "weight_decay": 0.1},
    {"augmentation": "cutout", "learning_rate": 0.2, "weight_decay": 0.02, "stop_loss": 2.2},
    {"augmentation": "flip_crop", "augmentation_strength": 0.3, "input_noise": 0.1},
    {"weight_decay": 0.1, "gradient_clip": 0.01},
    {"schedule": "cosine", "learning_rate": 0.02},
]
SOFT = [
    {"label_smoothing": 0.1},
    {"augmentation": "mixup", "gradient_clip": 0.4},
    {"augmentation": "mixup", "augmentation_strength": 0.5, "max_epochs": 2, "label_smoothing": 0.3},
    {"label_smoothing": 0.5, "augmentation": "crop", "schedule": "cosine", "stop_loss": 2.2},
    {"augmentation": "mixup", "mixup_alpha": 0.3, "input_noise": 0.2, "weight_decay": 0.1},
]


CHOSEN = [
    {"validation": 0.25, "learning_rate": 0.5},
    {"validation": 0.25, "learning_rate": 0.1, "max_epochs": 4},
    {"validation": 0.25, "augmentation": "rotate", "schedule": "cosine"},
    {"validation": 0.25, "learning_rate": 0.02, "input_noise": 0.2},
]


def members(build, count=7, tasks=TASKS, different=DIFFERENT, **shared):
    count = min(count, len(different))
    return [
        StackMember(
            str(index),
            build(index),
            tasks[index % len(tasks)],
            Hyperparameters(**({"batch_size": 16, "max_epochs": 6} | shared | different[index])),
            seed=100 + index,
        )
        for index in range(count)
    ]


def together(group, engine):
    group = copy.deepcopy(group)
    found = {}
    train_together(group, engine, "cpu", lambda member, result: found.update({member.key: (member, result)}))
    return found


def alone(member):
    model = copy.deepcopy(member.model)
    return model, train(model, member.task, member.values, member.seed)


def agree(group, found, equal):
    """Networks, losses and ends are those of each network trained alone."""
    assert set(found) == {member.key for member in group}
    epochs = set()
    for member in group:
        model, expected = alone(member)
        trained, result = found[member.key]
        assert (result.status, result.epochs, result.steps) == (
            expected.status,
            expected.epochs,
            expected.steps,
        )
        equal(torch.tensor(result.history), torch.tensor(expected.history))
        for (name, mine), value in zip(trained.model.state_dict().items(), model.state_dict().values()):
            equal(mine, value, name)
        equal(torch.tensor(result.test.cross_entropy), torch.tensor(expected.test.cross_entropy))
        assert not trained.model.training
        epochs.add(expected.epochs)
    return epochs


def close(mine, value, name=""):
    torch.testing.assert_close(mine, value, rtol=1e-12, atol=1e-12, msg=lambda text: f"{name}: {text}")


def bitwise(mine, value, name=""):
    assert torch.equal(mine, value), name


def mlp(index, dtype=torch.float64, family="plain/mlp", width=0.25, **options):
    network = gapbench.build_model(
        family, width, (1, 8, 8), 10, seed=index, init_scale=1 + index / 10, **options
    )
    return network.to(dtype)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("engine", [LayerStack, VmapStack])
def test_each_network_gets_what_it_would_get_alone(engine, optimizer):
    group = members(mlp, optimizer=optimizer)
    epochs = agree(group, together(group, engine), close)
    assert len(epochs) >= 3  # some end before others, so the stack shrinks on its way


@pytest.mark.parametrize("different", [AXES, SOFT])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("engine", [LayerStack, VmapStack])
def test_every_axis_does_in_a_stack_what_it_does_alone(engine, optimizer, different):
    group = members(mlp, optimizer=optimizer, different=different)
    epochs = agree(group, together(group, engine), close)
    assert len(epochs) >= 2


@pytest.mark.parametrize("activation", ["gelu", "tanh", "silu"])
def test_other_activations_go_into_the_stack_that_can_have_them(activation):
    group = members(lambda index: mlp(index, activation=activation), count=3)
    with pytest.raises(Unsuitable, match="no part of a chain"):
        together(group, LayerStack)
    agree(group, together(group, VmapStack), close)


@pytest.mark.parametrize(
    ("engine", "build"),
    [
        (LayerStack, mlp),
        (VmapStack, mlp),
        (
            VmapStack,
            lambda index: gapbench.build_model(
                "torchvision/vgg11_bn", 1 / 32, (1, 8, 8), 10, seed=index
            ).double(),
        ),
    ],
    ids=["layers", "vmap", "batch norm"],
)
def test_each_network_of_a_stack_keeps_its_own_best_epoch(engine, build):
    group = members(build, different=CHOSEN)
    agree(group, together(group, engine), close)


def test_labels_and_probabilities_are_not_mixed():
    group = members(mlp, different=[AXES[0], SOFT[0]])
    with pytest.raises(Unsuitable, match="probabilities"):
        together(group, LayerStack)


def test_every_augmentation_is_stacked():
    kinds = [{"augmentation": kind, "max_epochs": 2} for kind in AUGMENTATIONS if kind != "mixup"]
    group = members(mlp, count=len(kinds), different=kinds)
    agree(group, together(group, LayerStack), close)


@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="other kernels may round otherwise")
@pytest.mark.parametrize("different", [AXES, SOFT])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_axis_keeps_the_last_bit(optimizer, different):
    group = members(
        lambda index: mlp(index, torch.float32, width=0.11),
        tasks=SINGLE,
        optimizer=optimizer,
        different=different,
        batch_size=17,
    )
    agree(group, together(group, LayerStack), bitwise)


@pytest.mark.parametrize("family", FAMILIES)
def test_chains_of_every_kind(family):
    group = members(lambda index: mlp(index, family=family), count=4)
    agree(group, together(group, LayerStack), close)


class Normalised(nn.Module):
    """Batch normalisation after a convolution, layer normalisation, attention over pixels."""

    def __init__(self, attention=True):
        super().__init__()
        self.convolution = nn.Conv2d(1, 4, 3, stride=2, padding=1)
        self.batch_norm = nn.BatchNorm2d(4)
        self.layer_norm = nn.LayerNorm(4)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True) if attention else None
        self.output = nn.Linear(4, 10)

    def forward(self, x):
        x = self.batch_norm(self.convolution(x)).relu().flatten(2).transpose(1, 2)
        x = self.layer_norm(x)
        if self.attention is not None:
            x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.output(x.mean(1))


def normalised(index):
    torch.manual_seed(index)
    return Normalised().double()


@pytest.mark.parametrize(
    "build",
    [
        normalised,
        lambda index: gapbench.build_model(
            "torchvision/vgg11_bn", 1 / 32, (1, 8, 8), 10, seed=index
        ).double(),
        lambda index: gapbench.build_model("timm/resnet18", 1 / 32, (1, 8, 8), 10, seed=index).double(),
        lambda index: gapbench.build_model("timm/vit_tiny", 1 / 32, (1, 8, 8), 10, seed=index).double(),
    ],
    ids=["all kinds", "vgg", "resnet", "vit"],
)
def test_batch_norm_layer_norm_and_attention(build):
    group = members(build, count=4, max_epochs=2)
    agree(group, together(group, VmapStack), close)


def test_company_and_its_size_change_nothing():
    """Not one bit on a CPU: a network alone, in other company, and in the middle of a large stack."""
    group = members(lambda index: mlp(index, torch.float32), tasks=SINGLE)
    everyone = together(group, LayerStack)
    for company in ([group[3]], group[2:5], group[::-1]):
        for key, (member, result) in together(company, LayerStack).items():
            other, expected = everyone[key]
            assert result.history == expected.history
            for mine, value in zip(member.model.parameters(), other.model.parameters()):
                assert torch.equal(mine, value)


@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="other kernels may round otherwise")
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("width", [0.02, 0.11, 0.5])  # 1, 7 and 32 hidden units
def test_the_numbers_are_those_of_the_plain_loop_to_the_last_bit(optimizer, width):
    group = members(
        lambda index: mlp(index, torch.float32, width=width), tasks=SINGLE, optimizer=optimizer, batch_size=17
    )
    agree(group, together(group, LayerStack), bitwise)


def test_one_that_diverges_or_fails_takes_no_other_along():
    oblong = dataclasses.replace(
        CLEAN,
        train=Split(CLEAN.train.inputs.reshape(46, 1, 4, 16), CLEAN.train.targets),
        test=Split(CLEAN.test.inputs.reshape(200, 1, 4, 16), CLEAN.test.targets),
    )
    group = members(mlp, count=3, tasks=[oblong])
    values = [
        dataclasses.replace(group[0].values, learning_rate=1e300),
        dataclasses.replace(group[1].values, augmentation="rot4"),  # which needs squares
        group[2].values,
    ]
    group = [dataclasses.replace(m, values=v) for m, v in zip(group, values)]
    found = together(group, LayerStack)
    assert found["0"][1].status == "diverged"
    assert "square" in str(found["1"][1])
    agree(group[2:], {"2": found["2"]}, close)


def test_what_is_no_chain_is_refused_with_a_reason():
    with pytest.raises(Unsuitable, match="Conv2d"):
        layers_of(gapbench.build_model("plain/cnn", 0.25, (1, 8, 8), 10, seed=0))
    with pytest.raises(Unsuitable, match="Dropout"):
        layers_of(mlp(0, dropout=0.5))
    assert len(layers_of(mlp(0, dropout=0.0, depth=4))) == 5

    class Twice(nn.Sequential):
        def forward(self, x):
            return 2 * super().forward(x)

    with pytest.raises(Unsuitable, match="Twice"):
        layers_of(Twice(nn.Flatten(), nn.Linear(64, 10)))
    hooked = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    hooked[1].register_forward_hook(lambda *_: None)
    with pytest.raises(Unsuitable, match="hooks"):
        layers_of(hooked)


def test_a_forward_that_is_not_the_chains_is_noticed():
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).double()
    network.forward = lambda x: 2 * nn.Sequential.forward(network, x)
    with pytest.raises(Unsuitable, match="something else"):
        LayerStack([network, network], CLEAN.train.inputs[:4])


def test_networks_that_draw_random_numbers_are_refused():
    with pytest.raises(Unsuitable, match="random"):
        VmapStack([mlp(index, dropout=0.5) for index in range(2)], CLEAN.train.inputs[:4])


def test_examples_of_other_numbers_or_shapes_are_refused():
    group = members(mlp, count=2)
    longer = load_task("digits_rotations", train_size=60)
    group[1] = dataclasses.replace(group[1], task=longer)
    with pytest.raises(Unsuitable, match="other numbers"):
        together(group, LayerStack)


@pytest.mark.parametrize("tasks", [[CLEAN], TASKS])
def test_losses_of_a_stack_are_those_of_its_networks(tasks):
    group = members(mlp, count=5, tasks=tasks)
    stack = LayerStack([m.model for m in group], CLEAN.train.inputs[:4])
    chosen = [3, 0, 4]
    splits = [group[index].task.test for index in chosen]
    inputs, targets = [s.inputs.repeat(4, 1, 1, 1) for s in splits], [s.targets.repeat(4) for s in splits]
    if len(tasks) == 1:
        inputs = [inputs[0]] * 3
    found = stack.losses(torch.tensor(chosen), inputs, targets)  # 800 examples, in two parts
    for value, index, x, y in zip(found, chosen, inputs, targets):
        assert float(value) == pytest.approx(evaluate(group[index].model, x, y).cross_entropy, rel=1e-12)


def test_losses_that_rounding_could_move_are_not_told():
    group = members(mlp, count=2)
    with torch.no_grad():
        group[1].model[-1].weight.mul_(1e5)
    stack = LayerStack([m.model for m in group], CLEAN.train.inputs[:4])
    found = stack.losses(torch.arange(2), [CLEAN.train.inputs] * 2, [CLEAN.train.targets] * 2)
    assert found.isnan().tolist() == [False, True]


def test_slices_begin_where_a_tensor_of_its_own_would():
    values = torch.arange(30.0).reshape(2, 5, 3)
    copy_of = padded(values)
    assert torch.equal(copy_of, values)
    assert copy_of.stride() == (16, 3, 1)
    stack = StackedParameters([nn.Linear(3, 5), nn.Linear(3, 5)])
    assert stack.spans == {"weight": (0, 15, (5, 3)), "bias": (16, 21, (5,))}
    assert stack.flat.shape == (2, 32)


def test_networks_with_shared_or_frozen_parameters_are_refused():
    tied = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    tied[1].weight = tied[0].weight
    with pytest.raises(Unsuitable, match="shared"):
        StackedParameters([tied])
    frozen = nn.Linear(2, 2)
    frozen.bias.requires_grad_(False)
    with pytest.raises(Unsuitable, match="not trained"):
        StackedParameters([frozen])
    with pytest.raises(Unsuitable, match="different parameters"):
        StackedParameters([nn.Linear(2, 2), nn.Linear(2, 3)])
