"""The same function with other parameters: which proxies notice?

python examples/look_at_a_symmetry.py
"""

import torch

import gapbench

torch.manual_seed(0)
network = gapbench.build_model("plain/mlp", width=0.25, input_shape=(1, 8, 8), num_classes=10, seed=0)
network = network.double().eval()
inputs, targets = torch.randn(64, 1, 8, 8, dtype=torch.float64), torch.randint(0, 10, (64,))

symmetry = gapbench.symmetry.find(network, inputs[:2])
rescaled = symmetry.transform(seed=1, strength=0.5)
print(
    f"A group of dimension {symmetry.dimension}: {', '.join(sorted({family.kind for family in symmetry.families}))}"
)
with torch.no_grad():
    moved = (network(inputs) - rescaled(inputs)).abs().max()
print(f"Largest change of an output under a random transformation: {moved:.1e}")

for name in ("hessian_trace", "hessian_trace_balanced", "sharpness_full", "param_norm", "train_loss"):
    before, after = (gapbench.measure(name, each, inputs, targets) for each in (network, rescaled))
    if before.value is None or after.value is None:
        print(f"{name:24} {before.status}: {before.reason}")
        continue
    change = abs(after.value - before.value) / max(abs(before.value), 1e-12)
    print(
        f"{name:24} {before.value:10.4g} -> {after.value:10.4g}   {'same' if change < 1e-6 else f'{change:.0%}'}"
    )
