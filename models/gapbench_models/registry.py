"""The names of the model families and what is known of each without building it. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from re import fullmatch
from typing import Any

from gapbench_base import plugins
from gapbench_base.errors import ModelError


@dataclass(frozen=True)
class ModelFamily:
    """One family: an architecture whose width is a multiplier.

    Attributes:
        name: `library/architecture`.
        library: where its code comes from.
        description: one line.
        width: what the multiplier scales, with the values at width 1.
        activations: kinds of nonlinearity, as `relu`, `relu6`, `gelu`, `silu`, `hardswish`, gates (`sigmoid`,
            `hardsigmoid`) and `softmax` (attention) included; empty for linear networks.
        normalisations: `batch_norm`, `layer_norm` or `affine`; empty where there is none.
        depth: what `depth` counts; None where the depth is fixed.
        default_depth: the value that `depth=None` stands for, where one number says it.
        dropout: where dropout acts; None where the family has none.
        smallest_size: least height and width of the inputs, in pixels.
        builder: `module:function` that builds it.
    """

    name: str
    library: str
    description: str
    width: str
    activations: tuple[str, ...]
    normalisations: tuple[str, ...]
    depth: str | None
    default_depth: int | None
    dropout: str | None
    smallest_size: int
    builder: str

    @property
    def supports_depth(self) -> bool:
        """Whether `depth` may be given."""
        return self.depth is not None

    @property
    def supports_dropout(self) -> bool:
        """Whether `dropout` may be above 0."""
        return self.dropout is not None


def list_models() -> list[str]:
    """Names of all families, plain ones first, then by library and name."""
    return list(_known()[0])


def broken_plugins() -> list[tuple[str, str]]:
    """(name, reason) of installed plug-ins for model families that cannot be used."""
    return list(_known()[1])


@cache
def _known() -> tuple[dict[str, ModelFamily], list[tuple[str, str]]]:
    """Families by name, those of plug-ins last, and (name, reason) of plug-ins that cannot be used."""
    families = dict(_FAMILIES)
    broken: list[tuple[str, str]] = []
    objects, failed = plugins.load("gapbench.models")
    broken += failed
    for found in objects:
        if not isinstance(found, ModelFamily):
            broken.append((str(found)[:100], f"a {type(found).__name__}, not a gapbench_models.ModelFamily"))
        elif not fullmatch(r"[a-z][a-z0-9_]*/[a-z][a-z0-9_]*", found.name):
            broken.append((found.name, "its name must be library/architecture in lower-case letters"))
        elif found.name in families:
            broken.append((found.name, "there is already a family of this name"))
        else:
            families[found.name] = found
    return families, broken


def describe(name: str) -> ModelFamily:
    """What is known of a family.

    Raises:
        ModelError: an unknown name; the message suggests near ones.
    """
    try:
        return _known()[0][name]
    except (KeyError, TypeError):
        raise ModelError(_unknown(name)) from None


def _unknown(name: object) -> str:
    families = _known()[0]
    wanted = str(name).strip().lower()
    architecture = wanted.rpartition("/")[2]
    near = [known for known in families if known.rpartition("/")[2] == architecture]
    near += [known for known in get_close_matches(wanted, families, n=3, cutoff=0.6) if known not in near]
    by_architecture = {known.rpartition("/")[2]: known for known in families}
    near += [
        by_architecture[close]
        for close in get_close_matches(architecture, by_architecture, n=2, cutoff=0.6)
        if by_architecture[close] not in near
    ]
    if near:
        return f"unknown model family {name!r}; did you mean {' or '.join(near)}?"
    return f"unknown model family {name!r}; known are {', '.join(families)}"


def _plain(name: str, description: str, width: str, **rest: Any) -> ModelFamily:
    return _family("plain", name, description, width, "gapbench_models.families.plain", **rest)


def _timm(name: str, description: str, width: str, module: str, **rest: Any) -> ModelFamily:
    return _family("timm", name, description, width, f"gapbench_models.families.timm_{module}", **rest)


def _torchvision(name: str, description: str, width: str, module: str, **rest: Any) -> ModelFamily:
    return _family(
        "torchvision", name, description, width, f"gapbench_models.families.torchvision_{module}", **rest
    )


def _family(
    library: str,
    name: str,
    description: str,
    width: str,
    module: str,
    activations: tuple[str, ...] = (),
    normalisations: tuple[str, ...] = (),
    depth: str | None = None,
    default_depth: int | None = None,
    dropout: str | None = "before the classifier",
    smallest_size: int = 4,
) -> ModelFamily:
    return ModelFamily(
        name=f"{library}/{name}",
        library=library,
        description=description,
        width=width,
        activations=activations,
        normalisations=normalisations,
        depth=depth,
        default_depth=default_depth,
        dropout=dropout,
        smallest_size=smallest_size,
        builder=f"{module}:{name}",
    )


_RELU, _RELU6, _GELU, _SILU = ("relu",), ("relu6",), ("gelu",), ("silu",)
_BATCH, _LAYER = ("batch_norm",), ("layer_norm",)
_MULTIPLES_OF_8 = "all channels, in multiples of 8"
_BASIC_BLOCKS = "basic blocks in each of the four stages"
_DENSE_LAYERS = "dense layers in each of the four blocks (6, 12, 24, 16 by default)"
_CONVNEXT_BLOCKS = "blocks in the first, second and fourth stage; three times as many in the third"

_ALL = [
    _plain(
        "linear",
        "linear classifier through the origin, without bias: the model of the separable task",
        "ignored",
        dropout=None,
        smallest_size=1,
    ),
    _plain(
        "deep_linear",
        "linear layers without bias or nonlinearity in between",
        "64 hidden units",
        depth="hidden layers",
        default_depth=2,
        dropout=None,
        smallest_size=1,
    ),
    _plain(
        "mlp",
        "fully connected ReLU network with biases, no normalisation",
        "64 hidden units",
        activations=_RELU,
        depth="hidden layers",
        default_depth=2,
        dropout="after every hidden layer",
        smallest_size=1,
    ),
    _plain(
        "cnn",
        "3 x 3 convolutions with ReLU and max pooling, mean pooling at the end, no normalisation",
        "16, 32, 64, 64, ... channels",
        activations=_RELU,
        depth="convolutional layers",
        default_depth=3,
        smallest_size=2,
    ),
    _timm(
        "resnet18",
        "ResNet-18 with a stem of three 3 x 3 convolutions (He et al. 2016; stem of He et al. 2019)",
        "stages of 64, 128, 256, 512 channels, the first at least 8; stem of 32, 32, 64",
        "convolutional",
        activations=_RELU,
        normalisations=_BATCH,
        depth=_BASIC_BLOCKS,
        default_depth=2,
    ),
    _timm(
        "resnetv2_18",
        "pre-activation ResNet-18 with a 3 x 3 stem (He et al. 2016b)",
        "stages of 64, 128, 256, 512 channels, in multiples of 8",
        "convolutional",
        activations=_RELU,
        normalisations=_BATCH,
        depth=_BASIC_BLOCKS,
        default_depth=2,
    ),
    _timm(
        "mobilenetv2",
        "MobileNetV2: inverted residuals with linear bottlenecks (Sandler et al. 2018)",
        _MULTIPLES_OF_8 + "; the last 1280 are not scaled below width 1",
        "mobile",
        activations=_RELU6,
        normalisations=_BATCH,
    ),
    _timm(
        "efficientnet_b0",
        "EfficientNet-B0: inverted residuals with squeeze and excitation (Tan and Le 2019)",
        _MULTIPLES_OF_8,
        "mobile",
        activations=(*_SILU, "sigmoid"),
        normalisations=_BATCH,
    ),
    _timm(
        "densenet121",
        "DenseNet-BC-121 with a 3 x 3 stem (Huang et al. 2017)",
        "growth rate 32, stem of 64; at least 4 and 8",
        "convolutional",
        activations=_RELU,
        normalisations=_BATCH,
        depth=_DENSE_LAYERS,
        dropout="after every dense layer",
    ),
    _timm(
        "convnext_atto",
        "ConvNeXt-Atto with patches of up to 2 x 2 pixels and layer scale from 0.1 (Liu et al. 2022)",
        "stages of 40, 80, 160, 320 channels",
        "patches",
        activations=_GELU,
        normalisations=_LAYER,
        depth=_CONVNEXT_BLOCKS,
        default_depth=2,
    ),
    _timm(
        "vit_tiny",
        "ViT-Tiny with class token and patches of up to 4 x 4 pixels (Dosovitskiy et al. 2021)",
        "3 heads of 64 features each; MLP 4 times as wide",
        "patches",
        activations=(*_GELU, "softmax"),
        normalisations=_LAYER,
        depth="transformer blocks",
        default_depth=12,
        dropout="after embedding, projections and MLPs, and before the classifier",
    ),
    _timm(
        "mixer",
        "MLP-Mixer-S with patches of up to 4 x 4 pixels (Tolstikhin et al. 2021)",
        "512 hidden features; token MLP 1/2, channel MLP 4 times as wide",
        "patches",
        activations=_GELU,
        normalisations=_LAYER,
        depth="mixer blocks",
        default_depth=8,
        dropout="in the MLPs and before the classifier",
    ),
    _timm(
        "regnetx_002",
        "RegNetX-200MF: grouped convolutions, groups of 8 channels (Radosavovic et al. 2020)",
        "stages of 24, 56, 152, 368 channels, in multiples of 8; stem of 32, at least 8",
        "convolutional",
        activations=_RELU,
        normalisations=_BATCH,
    ),
    _timm(
        "convmixer",
        "ConvMixer-256/8 with 5 x 5 kernels and patches of up to 2 x 2 pixels (Trockman and Kolter 2022)",
        "256 channels",
        "patches",
        activations=_GELU,
        normalisations=_BATCH,
        depth="mixer blocks",
        default_depth=8,
    ),
    _torchvision(
        "resnet18",
        "ResNet-18 with a stem of one 3 x 3 convolution (He et al. 2016)",
        "stages of 64, 128, 256, 512 channels, the first at least 8; stem of 64",
        "convolutional",
        activations=_RELU,
        normalisations=_BATCH,
        depth=_BASIC_BLOCKS,
        default_depth=2,
    ),
    _torchvision(
        "vgg11_bn",
        "VGG-11 with batch normalisation, mean pooling and one linear layer (Simonyan and Zisserman 2015)",
        "64, 128, 256, 256, 512, 512, 512, 512 channels",
        "convolutional",
        activations=_RELU,
        normalisations=_BATCH,
    ),
    _torchvision(
        "mobilenet_v2",
        "MobileNetV2: inverted residuals with linear bottlenecks (Sandler et al. 2018)",
        _MULTIPLES_OF_8 + "; the last 1280 are not scaled below width 1",
        "mobile",
        activations=_RELU6,
        normalisations=_BATCH,
    ),
    _torchvision(
        "mobilenet_v3_small",
        "MobileNetV3-Small: inverted residuals with squeeze and excitation (Howard et al. 2019)",
        _MULTIPLES_OF_8,
        "mobile",
        activations=(*_RELU, "hardswish", "hardsigmoid"),
        normalisations=_BATCH,
    ),
    _torchvision(
        "densenet121",
        "DenseNet-BC-121 with a 3 x 3 stem (Huang et al. 2017)",
        "growth rate 32, stem of 64; at least 4 and 8",
        "convolutional",
        activations=_RELU,
        normalisations=_BATCH,
        depth=_DENSE_LAYERS,
        dropout="after every dense layer",
    ),
    _torchvision(
        "vit",
        "vision transformer with class token and patches of up to 4 x 4 pixels (Dosovitskiy et al. 2021)",
        "3 heads of 64 features each; MLP 4 times as wide",
        "patches",
        activations=(*_GELU, "softmax"),
        normalisations=_LAYER,
        depth="encoder layers",
        default_depth=6,
        dropout="after embedding, attention and MLPs",
    ),
    _torchvision(
        "convnext_tiny",
        "ConvNeXt-Tiny with patches of up to 2 x 2 pixels and layer scale from 0.1 (Liu et al. 2022)",
        "stages of 96, 192, 384, 768 channels",
        "patches",
        activations=_GELU,
        normalisations=_LAYER,
        depth=_CONVNEXT_BLOCKS,
        default_depth=3,
    ),
]

_FAMILIES: dict[str, ModelFamily] = {family.name: family for family in _ALL}
