"""Augmentations against brute force: what an image may become, and how often."""

import dataclasses

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.datasets import load_digits
from torch import nn

import gapbench
from gapbench.population.augmentation import augment, mixup
from gapbench.population.course import Course, placed
from gapbench.population.training import mean_loss
from gapbench.suites.hyperparameters import Hyperparameters
from gapbench_base.seeds import named_seed
from gapbench_tasks import Split, load_task
from gapbench_tasks.rotation import rotate
from gapbench_tasks.task import Upright

DIGITS = load_task("digits_rotations", train_size=80)
BLACK = torch.tensor([-0.7, 0.3], dtype=torch.float64)
KINDS = ["flip", "crop", "flip_crop", "cutout", "rot4", "rotate"]


def image(height=8, width=8):
    return torch.randn(2, height, width, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def shifted(picture, down, right):
    """By whole pixels, pixel by pixel."""
    result = BLACK.reshape(2, 1, 1).expand_as(picture).clone()
    _, height, width = picture.shape
    for i in range(height):
        for j in range(width):
            if 0 <= i - down < height and 0 <= j - right < width:
                result[:, i, j] = picture[:, i - down, j - right]
    return result


def cut(picture, row, column):
    """A square of half the shorter side about a pixel."""
    result = picture.clone()
    size = min(picture.shape[1:]) // 2
    for i in range(row - size // 2, row - size // 2 + size):
        for j in range(column - size // 2, column - size // 2 + size):
            if 0 <= i < picture.shape[1] and 0 <= j < picture.shape[2]:
                result[:, i, j] = BLACK
    return result


def possible(kind, picture):
    """All that an image may become, each as often as it is likely."""
    _, height, width = picture.shape
    moves = [
        (i, j) for i in range(-(height // 8), height // 8 + 1) for j in range(-(width // 8), width // 8 + 1)
    ]
    if kind == "flip":
        return [picture, picture.flip(2)]
    if kind == "crop":
        return [shifted(picture, *move) for move in moves]
    if kind == "flip_crop":
        return [shifted(p, *move) for p in (picture, picture.flip(2)) for move in moves]
    return [cut(picture, i, j) for i in range(height) for j in range(width)]


@pytest.mark.parametrize("size", [(8, 8), (17, 9)])
@pytest.mark.parametrize("kind", ["flip", "crop", "flip_crop", "cutout"])
def test_every_outcome_is_one_of_those_possible_and_all_are_equally_likely(kind, size):
    picture = image(*size)
    count = 4000
    found = augment(picture.expand(count, -1, -1, -1), kind, BLACK, torch.Generator().manual_seed(0))
    outcomes = torch.stack(possible(kind, picture))
    same = (found.flatten(1)[:, None] == outcomes.flatten(1)[None]).all(2)
    assert same.any(1).all()
    distinct, weight = np.unique(outcomes.flatten(1).numpy(), axis=0, return_counts=True)
    counts = [(found.flatten(1) == torch.from_numpy(one)).all(1).sum().item() for one in distinct]
    assert sum(counts) == count
    assert stats.chisquare(counts, count * weight / weight.sum()).pvalue > 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_strength_is_the_share_of_examples_that_are_touched_at_all(kind):
    pictures = torch.randn(3000, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    black = torch.zeros(1, dtype=torch.float64)

    def untouched(strength):
        found = augment(pictures, kind, black, torch.Generator().manual_seed(3), strength)
        return (found == pictures).flatten(1).all(1)

    always, sometimes = untouched(1.0), untouched(0.4)
    own = {"flip": 1 / 2, "crop": 1 / 9, "flip_crop": 1 / 18, "rot4": 1 / 4}.get(kind, 0.0)
    for found, expected in ((always, own), (sometimes, 0.6 + 0.4 * own)):
        assert abs(float(found.double().mean()) - expected) < 5 * (0.25 / 3000) ** 0.5


def test_images_too_small_are_refused():
    for kind, size in (("crop", (7, 8)), ("flip_crop", (1, 64)), ("cutout", (1, 8))):
        with pytest.raises(gapbench.GapbenchError, match="too small"):
            augment(torch.zeros(2, 1, *size), kind, torch.zeros(1), torch.Generator())
    with pytest.raises(gapbench.GapbenchError, match="no augmentation 'cut'"):
        augment(torch.zeros(2, 1, 8, 8), "cut", torch.zeros(1), torch.Generator())


def course(**values):
    data, black = placed(DIGITS, torch.device("cpu"))
    return Course(data, black, Hyperparameters(augmentation="mixup", **values), 5, torch.device("cpu"), 10)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_loss_of_mixup_is_that_of_its_authors(smoothing):
    """lambda CE(y) + (1 - lambda) CE(y'), one lambda and permutation for the batch, read off the inputs."""
    chosen = torch.arange(3, 33)
    x, y = DIGITS.train.inputs[chosen].double(), DIGITS.train.targets[chosen]
    one = course(label_smoothing=smoothing)
    shares = []
    for _ in range(5):
        inputs, targets = one.batch(chosen)
        # inputs = share x + (1 - share) x[order]: least squares for every partner, the best is it
        order, share = [], []
        for k in range(len(chosen)):
            across = x[k] - x
            s = ((inputs[k] - x) * across).flatten(1).sum(1) / across.flatten(1).pow(2).sum(1).clamp(min=1e-9)
            rest = (inputs[k] - (s.reshape(-1, 1, 1, 1) * x[k] + (1 - s.reshape(-1, 1, 1, 1)) * x)).abs()
            rest = rest.flatten(1).amax(1)
            alone = float((inputs[k] - x[k]).abs().max()) < 1e-6
            order.append(k if alone else int(rest.argmin()))
            if not alone:
                assert float(rest.min()) < 1e-5
                share.append(float(s[order[-1]]))
        assert sorted(order) == list(range(len(chosen)))
        assert np.ptp(share) < 1e-4
        shares.append(share[0])
        logits = torch.randn(len(chosen), 10, generator=torch.Generator().manual_seed(0)).double()
        losses = [
            nn.functional.cross_entropy(logits, labels, label_smoothing=smoothing) for labels in (y, y[order])
        ]
        expected = share[0] * losses[0] + (1 - share[0]) * losses[1]
        found = mean_loss(nn.Identity(), logits, targets.double())()
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert len(set(shares)) == 5


def test_lambda_follows_its_distribution_and_strength_is_of_batches():
    inputs, targets = torch.eye(2, dtype=torch.float64), torch.eye(2, dtype=torch.float64)
    generator = np.random.default_rng(0)
    for alpha in (1.0, 0.3):
        shares, swapped = [], 0
        for _ in range(2000):
            x, q = mixup(inputs, targets, generator, alpha)
            assert torch.equal(x, q)
            swapped += int(float(x[0, 0]) != 1.0)
            shares += [float(x[0, 0])] if float(x[0, 0]) != 1.0 else []
        assert abs(swapped - 1000) < 5 * 2000**0.5 / 2
        assert stats.kstest(shares, stats.beta(alpha, alpha).cdf).pvalue > 1e-4
    kept = sum(mixup(inputs, targets, generator, 1.0, 0.25)[0] is inputs for _ in range(2000))
    assert abs(kept - 1500) < 5 * (2000 * 0.25 * 0.75) ** 0.5


def test_evaluation_sees_no_augmentation():
    found = {}
    for kind in ("none", "mixup", "cutout"):
        values = Hyperparameters(augmentation=kind, max_epochs=1, learning_rate=1e-30)
        model = gapbench.build_model("plain/mlp", 0.25, DIGITS.input_shape, 10, seed=0)
        found[kind] = gapbench.population.training.train(model, DIGITS, values, 0).train.cross_entropy
    assert found["none"] == pytest.approx(found["mixup"], abs=1e-9)
    assert found["none"] == pytest.approx(found["cutout"], abs=1e-9)


def test_rotations_of_turned_images_are_interpolated_once():
    """The image itself, turned once by both angles; the second angle is the one that is drawn in any case."""
    pixels = load_digits().images[:80]
    values = Hyperparameters(augmentation="rotate")
    data, black = placed(load_task("digits_rotations", train_size=800), torch.device("cpu"))
    images, degrees = data[0].upright.images, data[0].upright.degrees
    level = black.reshape(1, 1, 1, 1)
    assert torch.equal(rotate(images - level, degrees) + level, data[0].inputs) or torch.allclose(
        rotate(images - level, degrees) + level, data[0].inputs, atol=1e-5
    )
    raw = {tuple(p.flatten().astype(int)) for p in pixels}
    back = ((images - level) * 0.3760 * 16).round().int().flatten(1)
    assert len(raw & {tuple(row.tolist()) for row in back}) >= 10  # they are scikit-learn's
    chosen = torch.tensor([5, 2, 9, 700])
    course = Course(data, black, values, 3, torch.device("cpu"))
    found, _ = course.batch(chosen)
    drawn = torch.rand(4, generator=torch.Generator().manual_seed(named_seed("augmentation", 3))) * 360
    once = rotate((images - level)[chosen].double(), degrees[chosen] + drawn.double()) + level
    torch.testing.assert_close(found.double(), once, atol=1e-4, rtol=0)
    twice = rotate((data[0].inputs - level)[chosen], drawn) + level
    assert float((found - twice).abs().max()) > 0.1


def test_two_turns_that_make_quarter_turns_give_the_image_itself():
    picture = image().expand(50, -1, -1, -1)
    drawn = torch.rand(50, generator=torch.Generator().manual_seed(8)) * 360.0
    own = 90.0 - drawn.double()
    turned = rotate(picture - BLACK.reshape(1, 2, 1, 1), own) + BLACK.reshape(1, 2, 1, 1)
    generator = torch.Generator().manual_seed(8)
    found = augment(turned, "rotate", BLACK, generator, 1.0, (picture, own))
    torch.testing.assert_close(found, torch.rot90(picture, 1, (-2, -1)), atol=1e-10, rtol=0)
    generator = torch.Generator().manual_seed(8)
    assert not torch.allclose(augment(turned, "rotate", BLACK, generator), found, atol=1e-2)


def test_examples_that_are_not_augmented_stay_as_the_task_has_them():
    data, black = placed(DIGITS, torch.device("cpu"))
    values = Hyperparameters(augmentation="rotate", augmentation_strength=0.3)
    chosen = torch.arange(80)
    found, _ = Course(data, black, values, 1, torch.device("cpu")).batch(chosen)
    same = (found == DIGITS.train.inputs).flatten(1).all(1)
    assert 30 < int(same.sum()) < 75


def test_what_images_were_is_made_once_when_asked_for_and_belongs_to_its_split_alone():
    calls = []

    def make():
        calls.append(1)
        return torch.zeros(3, 1, 4, 4)

    split = Split.turned(torch.ones(3, 1, 4, 4), torch.arange(3), Upright(make, torch.arange(3.0)))
    moved = split.moved(lambda images: images.double())
    same = split.moved(lambda images: images)
    assert not calls
    assert moved.upright.images.dtype == torch.float64
    assert same.upright.images is split.upright.images
    assert len(calls) == 1
    assert dataclasses.replace(split, targets=torch.zeros(3)).upright is None
    assert load_task("separable").train.upright is None
    assert placed(load_task("separable"), torch.device("cpu"))[0][0].upright is None
