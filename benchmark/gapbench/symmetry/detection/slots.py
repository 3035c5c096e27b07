"""The parameter matrices that a mixing of given channels moves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gapbench.symmetry.classes import Ids, distinct
from gapbench.symmetry.detection.meetings import grouped
from gapbench.symmetry.detection.records import Gain, Slot
from gapbench.symmetry.interpreter import Interpreter
from gapbench.symmetry.structure import BatchNormUse, LinearUse, ScaleUse


@dataclass(frozen=True)
class Chain:
    """A batch normalisation or layer scale whose input comes from layers that serve nothing else.

    Mixing its outputs by A is mixing its inputs by D^-1 A D.
    """

    use: BatchNormUse | ScaleUse
    classes: Ids  # representatives of all variables before normalised streams were fixed


def chains_of(
    run: Interpreter,
    before: Ids,
    roles: dict[int, set[str]],
    owners: dict[int, int],
    diagonal: np.ndarray,
    representative: Ids,
) -> dict[int, Chain]:
    """Raw output variable -> its chain; outputs of other such layers become diagonal."""
    chains: dict[int, Chain] = {}
    linear = {int(r): u for u in run.found.linear for r in before[u.writes.reshape(-1)] if not u.depthwise}
    weighted = [u for u in run.found.batch_norms if (u.weight >= 0).all()]
    for use, role in [(u, "batch_norm") for u in weighted] + [(u, "layer_scale") for u in run.found.scales]:
        reads = before[use.reads]
        fine = (
            bool((reads != 0).all())
            and len(distinct(reads)) == len(reads)
            and all(roles[int(r)] <= {"write", "add", role} for r in reads)
            and all(int(r) in linear for r in reads)
        )
        if fine:
            chains.update({int(w): Chain(use, before) for w in use.writes})
        else:
            diagonal[representative[use.writes]] = True
    return chains


def slots_of(
    run: Interpreter, representative: Ids, sign: np.ndarray, channels: Ids, chains: dict[int, Chain]
) -> list[Slot] | None:
    """All parameters that a mixing of `channels` (sorted) moves; None if they do not match."""
    slots: list[Slot] = []
    for use in run.found.linear:
        written = _writer_slots(use, representative, sign, channels)
        read = _reader_slots(use, representative, sign, channels)
        if written is None or read is None:
            return None
        slots += written + read
    for additive in run.found.additive:
        for s in (1, -1):
            table = grouped(representative[additive.writes], channels, sign[additive.writes] == s)
            if table is None:
                return None
            if table.shape[1]:
                slots.append(Slot(additive.parameters[table], s < 0))
    for norm in run.found.norms:
        if np.isin(representative[norm.writes], channels).any():
            return None
    members = set(channels.tolist())
    uses = {id(chain.use): chain for w, chain in chains.items() if int(representative[w]) in members}
    for batch in run.found.batch_norms:
        table = grouped(representative[batch.writes], channels)
        if (batch.weight < 0).all() and table is not None and table.shape[1]:
            if table.shape[1] != 1 or _mixed_signs(sign[batch.writes[table]]):
                return None
            order = table[:, 0]
            if (batch.bias >= 0).all():
                gain = Gain(batch.weight[order], batch.factor[order], batch.sigma[order], batch.mean[order])
                dual = bool((sign[batch.writes[order]] < 0).all())
                slots.append(Slot(batch.bias[order][:, None], dual, gain=gain, void="bias"))
    weighted = [b for b in run.found.batch_norms if (b.weight >= 0).all()]
    weighing: list[BatchNormUse | ScaleUse] = [*weighted, *run.found.scales]
    for other in weighing:
        if id(other) not in uses and np.isin(representative[other.writes], channels).any():
            return None
    for chain in uses.values():
        table = grouped(representative[chain.use.writes], channels)
        if table is None or table.shape[1] != 1 or (sign[chain.use.writes[table]] < 0).any():
            return None
        inner = _chain_slots(run, chain, table[:, 0])
        if inner is None:
            return None
        slots += inner
    return slots


def _mixed_signs(signs: np.ndarray) -> bool:
    return bool((signs != signs.reshape(-1)[0]).any())


def _writer_slots(use: LinearUse, representative: Ids, sign: np.ndarray, channels: Ids) -> list[Slot] | None:
    flat = use.writes.reshape(-1)
    groups, outs, ins, taps = use.shape
    slots: list[Slot] = []
    for s in (1, -1):
        table = grouped(representative[flat], channels, sign[flat] == s)
        if table is None:
            return None
        if not table.shape[1]:
            continue
        slots.append(
            Slot(
                use.weight.reshape(groups * outs, ins * taps)[table].reshape(len(channels), -1),
                s < 0,
                void=f"reader_null:{use.node}",
            )
        )
        bias = use.bias.reshape(-1)[table]
        if (bias >= 0).all():
            slots.append(Slot(bias, s < 0, void="bias"))
    return slots


def _reader_slots(use: LinearUse, representative: Ids, sign: np.ndarray, channels: Ids) -> list[Slot] | None:
    flat = use.reads.reshape(-1)
    groups, outs, ins, taps = use.shape
    slots: list[Slot] = []
    for s in (1, -1):
        table = grouped(representative[flat], channels, sign[flat] == s)
        if table is None:
            return None
        if table.shape[1]:
            columns = use.weight.transpose(0, 2, 1, 3).reshape(groups * ins, outs * taps)
            slots.append(
                Slot(columns[table].reshape(len(channels), -1), s > 0, void=f"writer_null:{use.node}")
            )
    return slots


def _chain_slots(run: Interpreter, chain: Chain, order: Ids) -> list[Slot] | None:
    """Slots of the layers before a batch normalisation or layer scale, and of its own bias."""
    use, before = chain.use, chain.classes
    reads, weight = use.reads[order], use.weight[order]
    sigma = use.sigma[order] if isinstance(use, BatchNormUse) else np.ones(len(order))
    sign = np.ones(len(before), np.int64)
    classes = before[reads]
    by_rank = np.argsort(classes)
    inner: list[Slot] = []
    for linear in run.found.linear:
        found = _writer_slots(linear, before, sign, classes[by_rank])
        if found is None:
            return None
        inner += found
    for additive in run.found.additive:
        table = grouped(before[additive.writes], classes[by_rank])
        if table is None:
            return None
        if table.shape[1]:
            inner.append(Slot(additive.parameters[table], False))
    back = np.argsort(by_rank)
    slots = [Slot(s.index[back], s.dual, weight[:, None], sigma[:, None], void=s.void) for s in inner]
    if isinstance(use, BatchNormUse) and (use.bias >= 0).all():
        slots.append(
            Slot(
                use.bias[order][:, None],
                False,
                gain=Gain(weight, np.ones(len(order)), sigma, use.mean[order]),
                void="bias",
            )
        )
    return slots
