"""Measure proxies on a network of your own.

python examples/measure_a_network.py
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

import gapbench

torch.manual_seed(0)
digits = load_digits()
inputs = torch.tensor(digits.images[:300], dtype=torch.float32).unsqueeze(1) / 16
targets = torch.tensor(digits.target[:300])

network = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
optimizer = torch.optim.SGD(network.parameters(), lr=0.5, momentum=0.9)
for _ in range(100):
    optimizer.zero_grad()
    nn.functional.cross_entropy(network(inputs), targets).backward()
    optimizer.step()

for name in ("param_norm", "hessian_trace", "sharpness_full", "sharpness_quotient", "inverse_margin"):
    found = gapbench.measure(name, network.eval(), inputs, targets)
    if found.status == "ok":
        error = "exact" if not found.standard_error else f"+- {found.standard_error:.2g}"
        print(f"{name:20} {found.value:10.4g} {error:10} {found.seconds:6.2f} s")
    else:  # with the reason, never a number that means nothing
        print(f"{name:20} {found.status}: {found.reason}")
