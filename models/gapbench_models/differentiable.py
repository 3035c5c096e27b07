"""Make a network twice differentiable and free of in-place operations, without changing its function.

* `hardsigmoid` has no second derivative in torch; `relu6(x + 3) / 6` is the same function and has one.
  `hardswish` is `x relu6(x + 3) / 6`.
* Fused attention has no double backward, and the inference fast path of `nn.MultiheadAttention` no forward
  derivative: both are switched off per module, never globally.
* In-place activations overwrite what a hook has seen and forbid full backward hooks.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class TwiceDifferentiableHardsigmoid(nn.Module):
    """max(0, min(6, x + 3)) / 6, elementwise; equal to `nn.Hardsigmoid`."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """relu6(x + 3) / 6, of the shape of x."""
        return F.relu6(x + 3.0) / 6.0


class TwiceDifferentiableHardswish(nn.Module):
    """x max(0, min(6, x + 3)) / 6, elementwise; equal to `nn.Hardswish` (Howard et al. 2019)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x relu6(x + 3) / 6, of the shape of x."""
        return x * F.relu6(x + 3.0) / 6.0


class ExplicitAttention(nn.MultiheadAttention):
    """`nn.MultiheadAttention` that always computes softmax(q k^T / sqrt(d)) v in separate steps.

    Parameters, arguments and results are those of the base class.
    """

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        key_padding_mask: torch.Tensor | None = None,
        need_weights: bool = True,
        attn_mask: torch.Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Outputs, and averaged attention weights where `need_weights`, as the base class gives them."""
        transposed = self.batch_first and query.dim() == 3
        if transposed:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        separate = not self._qkv_same_embed_dim
        # With need_weights=True torch takes the explicit path; is_causal is a hint that goes with attn_mask.
        output, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=True,
            attn_mask=attn_mask,
            use_separate_proj_weight=separate,
            q_proj_weight=self.q_proj_weight if separate else None,
            k_proj_weight=self.k_proj_weight if separate else None,
            v_proj_weight=self.v_proj_weight if separate else None,
            average_attn_weights=average_attn_weights and need_weights,
            is_causal=is_causal,
        )
        if transposed:
            output = output.transpose(0, 1)
        return output, weights if need_weights else None


_REPLACEMENTS: dict[str, type[nn.Module]] = {
    "Hardsigmoid": TwiceDifferentiableHardsigmoid,
    "HardSigmoid": TwiceDifferentiableHardsigmoid,
    "HardSigmoidJit": TwiceDifferentiableHardsigmoid,
    "HardSigmoidMe": TwiceDifferentiableHardsigmoid,
    "Hardswish": TwiceDifferentiableHardswish,
    "HardSwish": TwiceDifferentiableHardswish,
    "HardSwishJit": TwiceDifferentiableHardswish,
    "HardSwishMe": TwiceDifferentiableHardswish,
}


def make_twice_differentiable(net: nn.Module) -> None:
    """Replace, in `net`, what has no second derivative or works in place. Parameters and function stay.

    Activations are known by class name, since torch and timm both have classes of these functions; classes of
    other libraries are left alone.
    """
    for module in list(net.modules()):
        for child_name, child in module.named_children():
            replacement = _REPLACEMENTS.get(type(child).__name__)
            if replacement is not None and type(child).__module__.partition(".")[0] in ("torch", "timm"):
                setattr(module, child_name, replacement())
    any_module: Any
    for any_module in net.modules():
        if type(any_module) is nn.MultiheadAttention:
            any_module.__class__ = ExplicitAttention
        for flag in ("fused_attn", "_fast_norm", "inplace"):
            if getattr(any_module, flag, False):
                setattr(any_module, flag, False)
