"""How labels pass through each operator: one module for operators that are alike, each with its `HANDLERS`."""

from gapbench.symmetry.interpreter import Handler
from gapbench.symmetry.operators import linear, norm, pointwise, pooling, products, root_mean_square, sums

HANDLERS: dict[str, Handler] = {
    name: handler
    for module in (linear, norm, pointwise, sums, products, pooling, root_mean_square)
    for name, handler in module.HANDLERS.items()
}
"""ATen name -> handler, for `gapbench.symmetry.interpreter.Interpreter`."""
