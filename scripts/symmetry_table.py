"""Write docs/symmetries.md: the symmetry group of every model family, as the code finds it.

    python scripts/symmetry_table.py [WIDTH]

Random weights and statistics (trained ones give the same dimensions), 32 x 32 or 8 x 8 inputs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

import gapbench

HEADER = """# Symmetries of the model families

Made by `python scripts/symmetry_table.py`; each row is one network in evaluation mode with random weights and
statistics, found by `gapbench.symmetry.find`. **d**: parameters; **k**: dimension of the group's orbit (the rank
of all tangents); **certificate**: largest relative change of an output under random finite transformations of
every family, and of all together, in float64, at the network's own, at generic and at fresh parameters;
**not covered**: operations that were not understood and block what touches them, so that k may be too small
(never too large).

"""
FOOTER = """
The group is that of evaluation mode with frozen statistics. `Symmetry.families` lists each family with the layer
where it acts, `Symmetry.certify` repeats the certificate with another seed. Post-norm streams that a linear layer
and a normalisation both read have one further symmetry per channel (a transvection x + 1 u'x), which is left out
and reported.
On small networks of every kind of operator the dimension equals that of the null space of the output's
Jacobian, but for the differences listed with their reasons in `tests/benchmark/symmetry`. So it does on tiny
networks of the libraries' own classes (all but RegNet), where for seven of sixteen only "never larger" is
asked, since units that no input switches leave more directions. What finding and projecting costs:
[symmetries_cost.md](symmetries_cost.md).
"""


def generic(network: nn.Module, seed: int = 0) -> nn.Module:
    """Random values where a fresh network has constants (heads at zero, affine parameters at one)."""
    from gapbench.symmetry.certificate import generic_copy

    return generic_copy(network, seed)


def others() -> dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]]:
    """Networks from outside the registry, as a user would bring them."""
    import timm
    import torchvision

    class PostNorm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Linear(48, 32)
            layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(32, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            patches = nn.functional.unfold(x, 4, stride=4).transpose(1, 2)
            return self.head(self.encoder(self.embed(patches)).mean(1))

    return {
        "torchvision Swin, 24 features, 2 + 2 blocks (32 x 32)": (
            lambda: torchvision.models.SwinTransformer([2, 2], 24, [2, 2], [3, 6], [4, 4], num_classes=10),
            (3, 32, 32),
        ),
        "timm swin_tiny, 24 features, 2 + 2 blocks (32 x 32)": (
            lambda: timm.create_model(
                "swin_tiny_patch4_window7_224",
                img_size=32,
                patch_size=2,
                window_size=4,
                embed_dim=24,
                depths=(2, 2),
                num_heads=(3, 6),
                num_classes=10,
            ),
            (3, 32, 32),
        ),
        "torchvision swin_t, 10 classes (64 x 64: windows are padded)": (
            lambda: torchvision.models.swin_t(num_classes=10),
            (3, 64, 64),
        ),
        "timm swin_tiny_patch4_window7_224, 10 classes": (
            lambda: timm.create_model("swin_tiny_patch4_window7_224", num_classes=10),
            (3, 224, 224),
        ),
        "torchvision resnet18, 10 classes": (
            lambda: torchvision.models.resnet18(num_classes=10),
            (3, 32, 32),
        ),
        "timm seresnet18": (lambda: timm.create_model("seresnet18", num_classes=10), (3, 32, 32)),
        "post-norm nn.TransformerEncoder": (PostNorm, (3, 32, 32)),
        "MLP 784-512-512-10": (
            lambda: nn.Sequential(
                nn.Flatten(),
                nn.Linear(784, 512),
                nn.ReLU(),
                nn.Linear(512, 512),
                nn.ReLU(),
                nn.Linear(512, 10),
            ),
            (1, 28, 28),
        ),
    }


def row(name: str, network: nn.Module, shape: tuple[int, ...]) -> str:
    example = torch.randn(2, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = gapbench.symmetry.find(generic(network), example)
    d = len(found.bound.theta)
    kinds = ", ".join(f"{size:,} {kind}" for kind, size in sorted(found.kinds().items(), key=lambda p: -p[1]))
    uncovered = ", ".join(f"{what} ({n}x)" for what, n in sorted(found.uncovered.items())) or "-"
    dropped = f"; dropped: {', '.join(sorted(set(found.dropped)))}" if found.dropped else ""
    assert found.certificate is not None
    return (
        f"| {name} | {d:,} | {found.dimension:,} | {100 * found.dimension / d:.2f} % | {kinds or '-'} | "
        f"{uncovered}{dropped} | {found.certificate.error:.0e} |"
    )


def table(rows: list[str]) -> str:
    head = (
        "| network | d | k | k / d | make-up | not covered | certificate |\n|---|--:|--:|--:|---|---|--:|\n"
    )
    return head + "\n".join(rows) + "\n"


def main() -> None:
    """Build both tables and write the page."""
    import gapbench_models

    width = float(sys.argv[1]) if len(sys.argv) > 1 else 0.25
    torch.manual_seed(0)
    rows = []
    for name in gapbench.list_models():
        shape = (1, 8, 8) if name.startswith("plain/") else (3, 32, 32)
        network = gapbench_models.build_model(name, width, shape, 10, 0)
        rows.append(row(name, network, shape))
        print(rows[-1], flush=True)
    outside = []
    for name, (make, shape) in others().items():
        outside.append(row(name, make(), shape))
        print(outside[-1], flush=True)
    text = HEADER + f"## The registry, at width {width:g}\n\n" + table(rows)
    text += "\n## Other networks, as a user's own modules\n\n" + table(outside) + FOOTER
    Path(__file__).parent.parent.joinpath("docs", "symmetries.md").write_text(text)


if __name__ == "__main__":
    main()
