"""Null directions of writers and readers of normalised streams."""

from __future__ import annotations

import numpy as np

from gapbench.symmetry.classes import Ids, distinct
from gapbench.symmetry.detection.meetings import grouped
from gapbench.symmetry.detection.records import ReaderNull, WriterNull
from gapbench.symmetry.interpreter import Interpreter


def writer_nulls(run: Interpreter, before: Ids, roles: dict[int, set[str]]) -> list[WriterNull]:
    """Layers whose outputs may all be moved alike: what follows takes the mean away or looks at differences."""
    found = run.found
    result = []
    for use in found.linear:
        if use.shape[0] == 1 and use.node not in found.spoiled and use.shape[1] > 1:
            outs = use.shape[1]
            index = use.weight[0].reshape(outs, -1)
            kind = "null direction of writers"
            if found.logits is not None and np.isin(use.writes, found.logits).any():
                kind = "logit shift"
            result.append(WriterNull(use.node, use.shape[3], use.name, kind, index, None))
    for scale in found.scales:
        if scale.node in found.spoiled or (before[scale.reads] == 0).any():
            continue
        classes = before[scale.reads]
        if len(distinct(classes)) != len(classes) or any(
            not roles[int(c)] <= {"write", "add", "layer_scale"} for c in classes
        ):
            continue
        by_rank = np.argsort(classes)
        back = np.argsort(by_rank)
        for use in found.linear:
            if use.shape[0] != 1:
                continue
            table = grouped(before[use.writes.reshape(-1)], classes[by_rank])
            if table is None or table.shape[1] != 1:
                continue
            rows = table[:, 0][back]
            index = use.weight[0].reshape(use.shape[1], -1)[rows]
            if (use.bias >= 0).all():
                index = np.concatenate([index, use.bias.reshape(-1)[rows][:, None]], axis=1)
            result.append(
                WriterNull(use.node, use.shape[3], use.name, "null direction of writers", index, scale.weight)
            )
    return result


def reader_nulls(run: Interpreter) -> list[ReaderNull]:
    """Centred normalised features satisfy sum_i (y_i - beta_i) / gamma_i = 0."""
    owner: dict[int, tuple[int, int]] = {}
    for number, norm in enumerate(run.found.norms):
        if norm.kind == "layer":
            owner.update({int(w): (number, f) for f, w in enumerate(norm.writes)})
    result = []
    for use in run.found.linear:
        groups, outs, ins, taps = use.shape
        if groups != 1 or not use.uniform:
            continue
        found = [owner.get(int(r)) for r in use.reads[0]]
        if not found or any(f is None for f in found) or len({f[0] for f in found if f}) != 1:
            continue
        norm = run.found.norms[next(f[0] for f in found if f)]
        features = np.array([f[1] for f in found if f])
        if len(features) != len(norm.writes) or len(distinct(features)) != len(features):
            continue
        has_shift = bool((norm.bias >= 0).all())
        has_bias = bool((use.bias >= 0).all())
        if has_shift and (not has_bias or (use.borders and taps > 1)):
            continue
        index = use.weight[0].transpose(0, 2, 1).reshape(outs * taps, ins)
        order = np.argsort(features)
        bias = np.repeat(use.bias.reshape(-1), taps)
        result.append(ReaderNull(use.node, taps, use.name, index[:, order], bias, norm.weight, norm.bias))
    return result
