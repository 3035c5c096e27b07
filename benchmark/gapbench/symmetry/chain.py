"""The horizontal space of a chain of linear layers, which is that of their product.

Where all symmetries are the mixings between linear layers W_L ... W_1 without anything in between, the orbit is
the fibre of the product map (Arora, Cohen and Hazan 2018), and its complement is what J' can reach, J the
derivative of the product: the components W_{L..i+1}' Y W_{i-1..1}' for all matrices Y of the product's shape.
The orbit may fill nearly all of the parameters; the matrices Y are few.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gapbench.symmetry.groups.group import Group
from gapbench.symmetry.groups.mixing import Mixing

LARGEST = 1500  # entries of the product
INDEPENDENT = 1e-12  # eigenvalues of J J', relative to the largest

Project = Callable[[Tensor], Tensor]


def chain_projection(groups: list[Group], dimension: int) -> Project | None:
    """Project in closed form where the groups are those of one chain of linear layers with a small product.

    Args:
        groups: all groups of the orbit.
        dimension: the rank of their tangents. Where J's rank at these parameters does not leave exactly as much,
            as for layers that have lost rank, nothing is returned.

    Returns:
        z (d,) -> P z (d,), or None where this form does not apply.
    """
    layers = _layers(groups)
    if layers is None:
        return None
    rows, columns = layers[-1].shape[0], layers[0].shape[1]
    if rows * columns > LARGEST:
        return None
    theta = next(f.theta for f in groups if isinstance(f, Mixing))
    weights = [theta[index] for index in layers]
    after, before = [torch.eye(rows).to(weights[0])], [torch.eye(columns).to(weights[0])]
    for w in reversed(weights[1:]):
        after.insert(0, after[0] @ w)
    for w in weights[:-1]:
        before.append(w @ before[-1])
    size = rows * columns
    squared = torch.zeros(size, size).to(weights[0])
    for left, right in zip(after, before):
        squared += torch.kron(left @ left.T, right.T @ right)
    values, vectors = torch.linalg.eigh(squared)
    kept = values > INDEPENDENT * values[-1]
    if int(kept.sum()) != sum(index.numel() for index in layers) - dimension:
        return None
    values, vectors = values[kept], vectors[:, kept]

    def once(z: Tensor) -> Tensor:
        change = sum(a @ z[index] @ b for a, index, b in zip(after, layers, before))
        assert isinstance(change, Tensor)
        y = (vectors @ ((vectors.T @ change.reshape(-1)) / values)).reshape(rows, columns)
        out = z.clone()
        for a, index, b in zip(after, layers, before):
            out[index] = a.T @ y @ b.T
        return out

    return lambda z: once(once(z))  # the second pass removes the rounding of the first


def _layers(groups: list[Group]) -> list[Tensor] | None:
    """Positions (out, in) of W_1, ..., W_L, or None."""
    following: dict[bytes, tuple[Tensor, Tensor]] = {}
    for group in groups:
        if not isinstance(group, Mixing) or group.space.algebra != "gl" or len(group.indices) != 2:
            return None
        if any(f is not None for f in group.scaled) or any(o is not None for o in group.offsets):
            return None
        duals = [slot.dual for slot in group.space.slots]
        if sorted(duals) != [False, True]:
            return None
        writer, reader = group.indices[duals.index(False)], group.indices[duals.index(True)].T
        following[_key(writer)] = (writer, reader)
    starts = set(following) - {_key(reader) for _, reader in following.values()}
    if len(starts) != 1:
        return None
    at, layers = starts.pop(), []
    while at in following:
        writer, reader = following.pop(at)
        layers.append(writer)
        last, at = reader, _key(reader)
    return None if following else [*layers, last]


def _key(index: Tensor) -> bytes:
    """A layer by its positions, in the order of its channels on both sides."""
    return bytes(str(tuple(index.shape)), "ascii") + index.cpu().contiguous().numpy().tobytes()
