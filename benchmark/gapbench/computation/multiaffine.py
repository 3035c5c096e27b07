"""Is a network piecewise affine in each parameter tensor alone?

If so, the diagonal blocks of the second derivative of its outputs vanish almost everywhere, and the diagonal
of the loss Hessian equals that of the Gauss-Newton matrix: tr H = tr G exactly. ReLU networks with pooling,
residual sums, concatenation and batch normalisation in eval mode are; GELU, layer normalisation, attention
and tied weights are not.
"""

from __future__ import annotations

from gapbench.computation.tracing import Node, Ref, Trace

LINEAR = frozenset(
    "view _unsafe_view reshape _reshape_alias t transpose permute expand clone alias detach select slice unbind "
    "split split_with_sizes chunk unsqueeze squeeze cat stack mean sum add sub rsub neg avg_pool1d avg_pool2d "
    "avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d constant_pad_nd reflection_pad2d replication_pad2d "
    "flip roll contiguous _to_copy to im2col narrow flatten movedim swapaxes unfold pixel_shuffle "
    "pixel_unshuffle channel_shuffle lift_fresh unsafe_split unsafe_chunk upsample_nearest2d "
    "upsample_bilinear2d cumsum diagonal squeeze_copy unflatten".split()
)
PIECEWISE = frozenset(
    "relu relu6 leaky_relu threshold hardtanh clamp clamp_min clamp_max abs max_pool2d_with_indices "
    "max_pool3d_with_indices max_pool1d max_pool2d adaptive_max_pool2d amax amin maximum minimum rrelu "
    "hardshrink softshrink".split()
)
BILINEAR = frozenset(
    "convolution _convolution mm bmm addmm baddbmm matmul linear mul mv addmv dot outer".split()
)
BATCH_NORM = frozenset(
    "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training cudnn_batch_norm "
    "batch_norm _batch_norm_no_update miopen_batch_norm".split()
)


def why_not_multiaffine(trace: Trace) -> str | None:
    """None if the traced network is piecewise affine in each parameter tensor, else the first obstacle."""
    if trace.opaque:
        return "memory is aliased in a way that hides the data flow"
    depends: dict[int, frozenset[str]] = {}
    for node in trace.reachable():
        if node.kind == "parameter":
            depends[node.index] = frozenset([node.name])
            continue
        inputs = [depends[i] for i in node.inputs]
        union = frozenset().union(*inputs)
        if union and not _allowed(node, depends):
            return f"{node.op} of values that depend on the parameters ({_short(union)})"
        depends[node.index] = union
    for index in trace.reads:
        if depends[index]:
            return f"a number read from values that depend on the parameters ({_short(depends[index])})"
    return None


def _allowed(node: Node, depends: dict[int, frozenset[str]]) -> bool:
    if node.op in LINEAR or node.op in PIECEWISE:
        return True
    if node.op in ("div", "true_divide"):
        divisor = node.arguments[1]
        return not isinstance(divisor, Ref) or not depends[divisor.index]
    if node.op == "_prelu_kernel" or node.op == "prelu":
        return _disjoint(node.arguments[:2], depends)
    if node.op in BILINEAR:
        # The two factors; an added bias (addmm's first, convolution's third argument) is harmless.
        first = 1 if node.op in ("addmm", "baddbmm", "addmv") else 0
        return _disjoint(node.arguments[first : first + 2], depends)
    if node.op in ("native_layer_norm", "native_group_norm"):  # of data alone: affine in its own parameters
        return isinstance(node.arguments[0], Ref) and not depends[node.arguments[0].index]
    if node.op in BATCH_NORM:
        return not batch_norm_trains(node) and _disjoint(node.arguments[:2], depends)
    return False


def _disjoint(pair: tuple[object, ...], depends: dict[int, frozenset[str]]) -> bool:
    refs = [argument for argument in pair if isinstance(argument, Ref)]
    return len(refs) < 2 or not depends[refs[0].index] & depends[refs[1].index]


def batch_norm_trains(node: Node) -> bool:
    """Whether a batch normalisation node used the statistics of its batch."""
    if node.op in ("_native_batch_norm_legit_no_training", "_batch_norm_no_update"):
        return False
    return len(node.arguments) < 6 or bool(node.arguments[5])


def _short(names: frozenset[str]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")
