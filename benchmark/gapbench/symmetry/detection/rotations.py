"""Streams that only normalisations read, and their rotations."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from gapbench.symmetry.classes import Ids, distinct
from gapbench.symmetry.detection.meetings import grouped, not_mixed, signatures
from gapbench.symmetry.detection.mixings import space_name
from gapbench.symmetry.detection.records import Slot, Space
from gapbench.symmetry.detection.slots import Chain, slots_of
from gapbench.symmetry.interpreter import Interpreter
from gapbench.symmetry.structure import NormUse


@dataclass(frozen=True)
class Stream:
    """Channels that only normalisations read: sorted classes, the norms, (n, m) order of each norm's features."""

    channels: Ids
    norms: tuple[tuple[NormUse, Ids], ...]


def streams_of(
    run: Interpreter, representative: Ids, sign: np.ndarray, roles: dict[int, set[str]]
) -> list[Stream]:
    """The streams of layer and root-mean-square normalisations that nothing but sums, writers and they meet."""
    diagonal = not_mixed(run, representative)
    found: dict[tuple[int, ...], list[tuple[NormUse, Ids]]] = defaultdict(list)
    for norm in run.found.norms:
        if norm.kind == "group":
            continue
        classes = representative[norm.sets]
        if (classes != classes[:1]).any() or (classes[0] == 0).any() or (sign[norm.sets] < 0).any():
            continue
        channels = distinct(classes[0])
        table = grouped(classes[0], channels)
        if table is None or len(channels) < 2:
            continue
        found[tuple(channels.tolist())].append((norm, table))
    streams = []
    for key, norms in found.items():
        channels = np.array(key, np.int64)
        if all({"norm", "read"} <= roles[c] for c in key):
            run.note("channels read by normalisations and by linear layers (transvections are left out)")
        if diagonal[channels].any() or any(not roles[c] <= {"write", "add", "norm"} for c in key):
            continue
        streams.append(Stream(channels, tuple(norms)))
    return streams


def rotations(
    run: Interpreter, before: Ids, streams: list[Stream], owners: dict[int, int], chains: dict[int, Chain]
) -> list[Space]:
    """The streams whose channels may be rotated; where a norm centres them, such that the vector of ones stays."""
    spaces = []
    sign = np.ones(len(before), np.int64)
    signature_of = {r: key for key, members in signatures(run, before, sign).items() for r in members}
    for stream in streams:
        if len({signature_of.get(int(c)) for c in stream.channels}) != 1:
            continue
        centred = any(norm.kind == "layer" for norm, _ in stream.norms)
        slots = slots_of(run, before, sign, stream.channels, chains)
        if slots is None:
            continue
        for norm, table in stream.norms:
            out = before[norm.writes]
            if any(owners[int(r)] != 1 for r in out) or len(distinct(out)) != len(out):
                slots = None
                break
            keys = {signature_of.get(int(r)) for r in out}
            if len(keys) != 1 or not _only_read(run, before, out):
                slots = None
                break
            extra = _norm_slots(run, before, sign, norm, table)
            if extra is None:
                slots = None
                break
            slots = slots + extra
        if slots is None:
            continue
        algebra = "so_centred" if centred else "so"
        name = space_name(run, before, stream.channels)
        spaces.append(Space("rotation of the residual stream", name, algebra, stream.channels, tuple(slots)))
    return spaces


def _only_read(run: Interpreter, representative: Ids, out: Ids) -> bool:
    members = set(out.tolist())
    linear = {u.node for u in run.found.linear if not u.depthwise}
    for meeting in run.found.meetings:
        hit = members & set(representative[meeting.variables].tolist())
        if hit and not (meeting.role[0] == "read" and meeting.role[1] in linear and hit == members):
            return False
    marked = not_mixed(run, representative, norms=False)
    return not bool(marked[out].any())


def _norm_slots(
    run: Interpreter, before: Ids, sign: np.ndarray, norm: NormUse, table: Ids
) -> list[Slot] | None:
    """Slots of a normalisation's bias and of its readers: outputs turn by Gamma B Gamma^-1."""
    n, repeats = table.shape
    weighted = bool((norm.weight >= 0).all())
    slots = []
    if (norm.bias >= 0).all():
        slots.append(
            Slot(
                norm.bias[table],
                False,
                norm.weight[table] if weighted else None,
                inverse=True,
                void="bias",
            )
        )
    feature = {int(r): f for f, r in enumerate(before[norm.writes])}
    for use in run.found.linear:
        flat = before[use.reads.reshape(-1)]
        groups, outs, ins, taps = use.shape
        hits = np.array([feature.get(int(r), -1) for r in flat])
        if not (hits >= 0).any():
            continue
        order = np.argsort(hits[hits >= 0], kind="stable")
        positions = np.flatnonzero(hits >= 0)[order]
        if len(positions) % (n * repeats):
            return None
        times = len(positions) // (n * repeats)
        by_feature = positions.reshape(n * repeats, times)
        if (hits[by_feature] != np.arange(n * repeats)[:, None]).any():
            return None
        columns = use.weight.transpose(0, 2, 1, 3).reshape(groups * ins, outs * taps)
        index = columns[by_feature[table]].reshape(n, -1)
        weight = None
        if weighted:
            each = np.broadcast_to(norm.weight[table][:, :, None], (n, repeats, times * outs * taps))
            weight = each.reshape(n, -1)
        slots.append(Slot(index, True, weight, inverse=True, void=f"writer_null:{use.node}"))
    return slots
