"""The names of the model families and what is known of each without building it. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal


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
    library: Literal["timm", "torchvision", "plain"]
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
    return list(_FAMILIES)


def describe(name: str) -> ModelFamily:
    """What is known of a family.

    Raises:
        ValueError: an unknown name; the message suggests near ones.
    """
    try:
        return _FAMILIES[name]
    except (KeyError, TypeError):
        raise ValueError(_unknown(name)) from None


def _unknown(name: object) -> str:
    wanted = str(name).strip().lower()
    architecture = wanted.rpartition("/")[2]
    near = [known for known in _FAMILIES if known.rpartition("/")[2] == architecture]
    near += [known for known in get_close_matches(wanted, _FAMILIES, n=3, cutoff=0.6) if known not in near]
    by_architecture = {known.rpartition("/")[2]: known for known in _FAMILIES}
    near += [
        by_architecture[close]
        for close in get_close_matches(architecture, by_architecture, n=2, cutoff=0.6)
        if by_architecture[close] not in near
    ]
    if near:
        return f"unknown model family {name!r}; did you mean {' or '.join(near)}?"
    return f"unknown model family {name!r}; known are {', '.join(_FAMILIES)}"


def _plain(name: str, description: str, width: str, **rest: Any) -> ModelFamily:
    return _family("plain", name, description, width, "gapbench_models.families.plain", **rest)


def _timm(name: str, description: str, width: str, module: str, **rest: Any) -> ModelFamily:
    return _family("timm", name, description, width, f"gapbench_models.families.timm_{module}", **rest)


def _torchvision(name: str, description: str, width: str, module: str, **rest: Any) -> ModelFamily:
    return _family(
        "torchvision", name, description, width, f"gapbench_models.families.torchvision_{module}", **rest
    )


def _family(
    library: Literal["timm", "torchvision", "plain"],
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
        "stages of 64, 128, 256, 512 channels; stem of 32, 32, 64",
        "residual",
        activations=_RELU,
        normalisations=_BATCH,
        depth="basic blocks in each of the four stages",
        default_depth=2,
    ),
    _timm(
        "mixer",
        "MLP-Mixer-S with patches of up to 4 x 4 pixels (Tolstikhin et al. 2021)",
        "512 hidden features; token MLP 1/2, channel MLP 4 times as wide",
        "tokens",
        activations=_GELU,
        normalisations=_LAYER,
        depth="mixer blocks",
        default_depth=8,
        dropout="in the MLPs and before the classifier",
    ),
    _timm(
        "convmixer",
        "ConvMixer-256/8 with 5 x 5 kernels and patches of up to 2 x 2 pixels (Trockman and Kolter 2022)",
        "256 channels",
        "tokens",
        activations=_GELU,
        normalisations=_BATCH,
        depth="mixer blocks",
        default_depth=8,
    ),
    _torchvision(
        "resnet18",
        "ResNet-18 with a stem of one 3 x 3 convolution (He et al. 2016)",
        "stages of 64, 128, 256, 512 channels; stem of 64",
        "residual",
        activations=_RELU,
        normalisations=_BATCH,
        depth="basic blocks in each of the four stages",
        default_depth=2,
    ),
    _torchvision(
        "vgg11_bn",
        "VGG-11 with batch normalisation, mean pooling and one linear layer (Simonyan and Zisserman 2015)",
        "64, 128, 256, 256, 512, 512, 512, 512 channels",
        "residual",
        activations=_RELU,
        normalisations=_BATCH,
    ),
]

_FAMILIES: dict[str, ModelFamily] = {family.name: family for family in _ALL}
