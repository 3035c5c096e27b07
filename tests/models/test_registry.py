from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
from torch import nn

import gapbench_models
from gapbench_base.errors import ModelError
from gapbench_models import build_model, describe, list_models
from gapbench_models.declarations import read_families
from models.family_cases import FAMILIES, tiny

REQUIRED = {
    "timm": "resnet18 resnetv2_18 mobilenetv2 efficientnet_b0 densenet121 convnext_atto vit_tiny mixer "
    "regnetx_002 convmixer",
    "torchvision": "resnet18 vgg11_bn mobilenet_v2 mobilenet_v3_small densenet121 vit convnext_tiny",
    "plain": "linear deep_linear mlp cnn",
}


def test_every_promised_family_is_listed_once() -> None:
    promised = {f"{library}/{name}" for library, names in REQUIRED.items() for name in names.split()}
    assert promised <= set(list_models())
    assert len(list_models()) == len(set(list_models()))


def test_listing_and_describing_import_no_torch() -> None:
    code = (
        "import sys; from gapbench_models import list_models, describe\n"
        "[describe(name) for name in list_models()]\n"
        "heavy = {'torch', 'torchvision', 'timm', 'numpy'} & set(sys.modules); assert not heavy, heavy"
    )
    root = Path(gapbench_models.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("wrong", "suggested"),
    [
        ("timm/resnet-18", "timm/resnet18"),
        ("resnet18", "torchvision/resnet18"),
        ("TorchVision/VGG11_BN", "torchvision/vgg11_bn"),
        ("mlp", "plain/mlp"),
        ("timm/vgg11_bn", "torchvision/vgg11_bn"),
    ],
)
def test_an_unknown_name_suggests_near_ones(wrong: str, suggested: str) -> None:
    with pytest.raises(ValueError, match="Did you mean") as caught:
        build_model(wrong)
    assert suggested in str(caught.value)


@pytest.mark.parametrize("wrong", ["", "nothing like it at all", None, 3, ["x"]])
def test_a_hopeless_name_lists_what_is_known(wrong: str) -> None:
    with pytest.raises(ValueError, match="plain/mlp"):
        describe(wrong)


def test_a_description_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        describe("plain/mlp").name = "other"  # type: ignore[misc]


KINDS_OF_CLASS = {
    "ReLU": "relu",
    "ReLU6": "relu6",
    "GELU": "gelu",
    "SiLU": "silu",
    "Sigmoid": "sigmoid",
    "TwiceDifferentiableHardsigmoid": "hardsigmoid",
    "TwiceDifferentiableHardswish": "hardswish",
    "Attention": "softmax",
    "ExplicitAttention": "softmax",
    "BatchNorm2d": "batch_norm",
    "BatchNormAct2d": "batch_norm",
    "LayerNorm": "layer_norm",
    "LayerNorm2d": "layer_norm",
    "Affine": "affine",
}
SILENT = {"Identity", "Dropout", "Flatten", "Linear", "Conv2d", "NonDynamicallyQuantizableLinear", "Permute"}
SILENT |= {"MaxPool2d", "AvgPool2d", "AdaptiveAvgPool2d", "FastAdaptiveAvgPool", "StochasticDepth"}


@pytest.mark.parametrize("name", FAMILIES)
def test_the_described_kinds_are_those_of_the_network(name: str) -> None:
    net, family = tiny(name), describe(name)
    leaves = {type(module).__name__ for module in net.modules() if not list(module.children())}
    # a nonlinearity of torch that is none of these is called as its class is
    found = {KINDS_OF_CLASS.get(leaf, leaf.lower()) for leaf in leaves - SILENT}
    found |= {
        KINDS_OF_CLASS[type(module).__name__]
        for module in net.modules()
        if type(module).__name__ in KINDS_OF_CLASS
    }
    assert found == set(family.activations) | set(family.normalisations)
    assert isinstance(net, nn.Module)
    assert family.description
    assert family.name == name
    assert family.library == name.partition("/")[0]


DECLARED = """
import torch_of_another_machine
from gapbench_models.family import family

@family("plain/late", description="d", width="w", activations=("relu",))
def late(request): ...

@family("plain/first", description="d", width="w", place=1, dropout=None)
def first(request): ...
"""


def package_of(folder: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> str:
    name = f"declared_{abs(hash(source))}"
    (folder / name).mkdir()
    (folder / name / "__init__.py").touch()
    (folder / name / "some.py").write_text(source)
    (folder / name / "_helpers.py").write_text("no python")
    monkeypatch.syspath_prepend(folder)
    return name


def test_families_are_read_from_their_files_without_running_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = package_of(tmp_path, monkeypatch, DECLARED)
    found = read_families(package)
    assert [(f.name, f.builder) for f in found] == [
        ("plain/first", f"{package}.some:first"),
        ("plain/late", f"{package}.some:late"),
    ]
    assert found[1].activations == ("relu",)
    assert not found[0].supports_dropout


@pytest.mark.parametrize("wrong", ["f'{3}'", "WIDTH", "3 * 'x'"])
def test_a_declaration_that_is_not_literal_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    source = f'@family("plain/x", description={wrong}, width="w")\ndef x(request): ...\n'
    with pytest.raises(ModelError, match=r"some\.py, line 1: .* literals"):
        read_families(package_of(tmp_path, monkeypatch, source))
