"""From labels to groups: which variables are free, which channels may be mixed, which streams rotated."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from gapbench.symmetry.classes import Ids, distinct
from gapbench.symmetry.interpreter import Interpreter
from gapbench.symmetry.structure import Additive, BatchNormUse, LinearUse, NormUse, ScaleUse


@dataclass(frozen=True)
class Gain:
    """Of a batch normalisation, (n,) each: its offset is factor theta[weight] mean / sigma (weight -1: 1)."""

    weight: Ids
    factor: np.ndarray
    sigma: np.ndarray
    mean: np.ndarray


@dataclass(frozen=True)
class Slot:
    """A parameter matrix X = theta[index] (n, M) that a mixing A acts on.

    X -> D^-1 A D X, or X -> -D A' D^-1 X where `dual`. D = theta[weight] / sigma where `weight` (n, 1) or
    (n, M) is given; `inverse` uses D^-1 instead. `gain`: the matrix acted on is X less that offset (the bias
    of a batch normalisation). `void` names the directions of M that other families cover.
    """

    index: Ids
    dual: bool
    weight: Ids | None = None
    sigma: np.ndarray | None = None
    inverse: bool = False
    gain: Gain | None = None
    void: str = ""


@dataclass(frozen=True)
class Space:
    """n channels that may be mixed: by gl(n), or by rotations (`algebra` "so", "so_centred": fixing 1)."""

    kind: str
    name: str
    algebra: str
    channels: Ids
    slots: tuple[Slot, ...]


@dataclass(frozen=True)
class WriterNull:
    """theta[index] (n, M) += direction u', u (M,) arbitrary: the reader removes the direction.

    direction = 1 or 1 / theta[weight]. `taps` as in `LinearUse.weight`.
    """

    node: int
    taps: int
    name: str
    kind: str
    index: Ids
    weight: Ids | None


@dataclass(frozen=True)
class ReaderNull:
    """theta[index] (R, n) += u (1/gamma)', theta[bias] -= sum over the rows of a unit of u * sum(beta/gamma).

    `weight`, `shift` (n,) are gamma and beta of the normalisation (-1: 1 and 0). `bias` (R,), -1: none.
    """

    node: int
    taps: int
    name: str
    index: Ids
    bias: Ids
    weight: Ids
    shift: Ids


@dataclass
class Detected:
    """Representative (0: not free) and sign of each log-scale variable; spaces; null families."""

    representative: Ids
    sign: np.ndarray
    spaces: list[Space] = field(default_factory=list)
    writer_nulls: list[WriterNull] = field(default_factory=list)
    reader_nulls: list[ReaderNull] = field(default_factory=list)
    kinds: dict[int, str] = field(default_factory=dict)
    # Representatives with those that belong to mixings still among them: all diagonal rescalings.
    rescalable: Ids = field(default_factory=lambda: np.zeros(1, np.int64))
    # Before normalised streams were fixed: representatives, the operations that meet each class, how many
    # layers and parameters write it, which classes others than linear layers write, which may not be mixed.
    classes: Ids = field(default_factory=lambda: np.zeros(1, np.int64))
    roles: dict[int, set[str]] = field(default_factory=dict)
    owners: dict[int, int] = field(default_factory=dict)
    others: set[int] = field(default_factory=set)
    diagonal: np.ndarray = field(default_factory=lambda: np.zeros(1, bool))


def detect(run: Interpreter) -> Detected:
    """Evaluate the findings of an interpretation."""
    found = run.found
    before, signs_before = run.scale.resolve()
    roles = _roles(run, before)
    owners = _owners(run, before)
    streams = _streams(run, before, signs_before, roles)
    for variables in found.norm_only:
        run.scale.fix(variables)
    representative, sign = run.scale.resolve()
    result = Detected(representative, sign, classes=before, roles=roles, owners=owners)
    result.diagonal = _diagonal(run, before, norms=False)
    for use in _writers(run):
        if not isinstance(use, LinearUse):
            result.others.update(int(r) for r in before[use.writes.reshape(-1)])
    diagonal = _diagonal(run, representative)
    chains = _chains(run, before, roles, owners, diagonal, representative)
    mixed = _mixing_spaces(run, representative, sign, diagonal, chains)
    result.spaces += mixed
    taken = np.concatenate([space.channels for space in mixed] + [np.zeros(0, np.int64)])
    result.spaces += _rotations(run, before, streams, owners, chains)
    result.writer_nulls = _writer_nulls(run, before, roles)
    result.reader_nulls = _reader_nulls(run)
    result.kinds = _kinds(run, representative)
    result.rescalable = representative
    result.representative = np.where(np.isin(representative, taken), 0, representative)
    return result


def _roles(run: Interpreter, representative: Ids) -> dict[int, set[str]]:
    """Representative -> names of the operations that meet its class."""
    roles: dict[int, set[str]] = defaultdict(set)
    for event in run.found.events:
        for r in distinct(representative[event.variables]):
            roles[int(r)].add(str(event.role[0]))
    return roles


def _owners(run: Interpreter, representative: Ids) -> dict[int, int]:
    """Representative -> number of parameters and layers that write its class."""
    owners: dict[int, int] = defaultdict(int)
    for use in _writers(run):
        for r in representative[use.writes.reshape(-1)]:
            owners[int(r)] += 1
    return owners


def _writers(run: Interpreter) -> list[LinearUse | ScaleUse | BatchNormUse | NormUse | Additive]:
    found = run.found
    return [*found.linear, *found.scales, *found.batch_norms, *found.norms, *found.additive]


def _diagonal(run: Interpreter, representative: Ids, norms: bool = True) -> np.ndarray:
    """Which classes may be rescaled but not mixed; without the outputs of normalisations if not `norms`."""
    marked = np.zeros(len(representative), bool)
    for variables in run.found.diagonal + (run.found.norm_diagonal if norms else []):
        marked[representative[variables]] = True
    return marked


@dataclass(frozen=True)
class Chain:
    """A batch normalisation or layer scale whose input comes from layers that serve nothing else.

    Mixing its outputs by A is mixing its inputs by D^-1 A D.
    """

    use: BatchNormUse | ScaleUse
    classes: Ids  # representatives of all variables before normalised streams were fixed


def _chains(
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


def _signatures(run: Interpreter, representative: Ids, sign: np.ndarray) -> dict[bytes, list[int]]:
    """Signature -> classes that meet the same operations in the same roles and with the same signs."""
    classes, meetings = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for number, event in enumerate(run.found.events):
        codes = distinct(representative[event.variables] * 3 + sign[event.variables] + 1)
        classes.append(codes // 3)
        meetings.append(number * 3 + codes % 3)
    of, met = np.concatenate(classes), np.concatenate(meetings)
    order = np.argsort(of, kind="stable")
    of, met = of[order], met[order]
    groups: dict[bytes, list[int]] = defaultdict(list)
    starts = np.flatnonzero(np.concatenate([[True], of[1:] != of[:-1]])) if len(of) else of
    for start, stop in zip(starts, [*starts[1:], len(of)]):
        groups[met[start:stop].tobytes()].append(int(of[start]))
    return groups


def _mixing_spaces(
    run: Interpreter, representative: Ids, sign: np.ndarray, diagonal: np.ndarray, chains: dict[int, Chain]
) -> list[Space]:
    spaces = []
    multiplied = np.zeros(len(representative), bool)  # classes that meet a product of two activations
    for event in run.found.events:
        if event.role[0] == "product":
            multiplied[representative[event.variables]] = True
    for members in _signatures(run, representative, sign).values():
        channels = np.array(sorted(r for r in members if r != 0 and not diagonal[r]), np.int64)
        if len(channels) < 2:
            continue
        slots = _slots(run, representative, sign, channels, chains)
        if slots is not None:
            kind = "mixing of attention heads" if multiplied[channels].any() else "mixing of linear channels"
            spaces.append(
                Space(kind, _space_name(run, representative, channels), "gl", channels, tuple(slots))
            )
    return spaces


def _space_name(run: Interpreter, representative: Ids, channels: Ids) -> str:
    for use in run.found.linear:
        if np.isin(representative[use.writes], channels).any():
            return use.name
    return ""


def _grouped(values: Ids, channels: Ids, where: np.ndarray | None = None) -> np.ndarray | None:
    """(n, r) positions of each channel among `values`, in order; None if channels occur unequally often."""
    if len(values) == 0 or values.max() < channels[0] or values.min() > channels[-1]:
        return np.zeros((len(channels), 0), np.int64)
    place = np.searchsorted(channels, values)
    hit = channels[np.minimum(place, len(channels) - 1)] == values
    if where is not None:
        hit = hit & where
    positions = np.flatnonzero(hit)
    if not len(positions):
        return np.zeros((len(channels), 0), np.int64)
    order = np.argsort(values[positions], kind="stable")
    if len(positions) % len(channels):
        return None
    table = positions[order].reshape(len(channels), -1)
    if (values[table] != channels[:, None]).any():
        return None
    return table


def _slots(
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
            table = _grouped(representative[additive.writes], channels, sign[additive.writes] == s)
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
        table = _grouped(representative[batch.writes], channels)
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
        table = _grouped(representative[chain.use.writes], channels)
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
    groups, outs, ins, taps = use.weight.shape
    rows = use.weight.reshape(groups * outs, ins * taps)
    slots: list[Slot] = []
    for s in (1, -1):
        table = _grouped(representative[flat], channels, sign[flat] == s)
        if table is None:
            return None
        if not table.shape[1]:
            continue
        slots.append(Slot(rows[table].reshape(len(channels), -1), s < 0, void=f"reader_null:{use.node}"))
        bias = use.bias.reshape(-1)[table]
        if (bias >= 0).all():
            slots.append(Slot(bias, s < 0, void="bias"))
    return slots


def _reader_slots(use: LinearUse, representative: Ids, sign: np.ndarray, channels: Ids) -> list[Slot] | None:
    flat = use.reads.reshape(-1)
    groups, outs, ins, taps = use.weight.shape
    columns = use.weight.transpose(0, 2, 1, 3).reshape(groups * ins, outs * taps)
    slots: list[Slot] = []
    for s in (1, -1):
        table = _grouped(representative[flat], channels, sign[flat] == s)
        if table is None:
            return None
        if table.shape[1]:
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
        table = _grouped(before[additive.writes], classes[by_rank])
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


@dataclass(frozen=True)
class Stream:
    """Channels that only normalisations read: sorted classes, the norms, (n, m) order of each norm's features."""

    channels: Ids
    norms: tuple[tuple[NormUse, Ids], ...]


def _streams(
    run: Interpreter, representative: Ids, sign: np.ndarray, roles: dict[int, set[str]]
) -> list[Stream]:
    diagonal = _diagonal(run, representative)
    found: dict[tuple[int, ...], list[tuple[NormUse, Ids]]] = defaultdict(list)
    for norm in run.found.norms:
        if norm.kind == "group":
            continue
        classes = representative[norm.sets]
        if (classes != classes[:1]).any() or (classes[0] == 0).any() or (sign[norm.sets] < 0).any():
            continue
        channels = distinct(classes[0])
        table = _grouped(classes[0], channels)
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


def _rotations(
    run: Interpreter, before: Ids, streams: list[Stream], owners: dict[int, int], chains: dict[int, Chain]
) -> list[Space]:
    spaces = []
    sign = np.ones(len(before), np.int64)
    signatures = _signatures(run, before, sign)
    signature_of = {r: key for key, members in signatures.items() for r in members}
    for stream in streams:
        if len({signature_of.get(int(c)) for c in stream.channels}) != 1:
            continue
        centred = any(norm.kind == "layer" for norm, _ in stream.norms)
        slots = _slots(run, before, sign, stream.channels, chains)
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
        name = _space_name(run, before, stream.channels)
        spaces.append(Space("rotation of the residual stream", name, algebra, stream.channels, tuple(slots)))
    return spaces


def _only_read(run: Interpreter, representative: Ids, out: Ids) -> bool:
    members = set(out.tolist())
    linear = {u.node for u in run.found.linear if not u.depthwise}
    for event in run.found.events:
        hit = members & set(representative[event.variables].tolist())
        if hit and not (event.role[0] == "read" and event.role[1] in linear and hit == members):
            return False
    marked = _diagonal(run, representative, norms=False)
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
        groups, outs, ins, taps = use.weight.shape
        columns = use.weight.transpose(0, 2, 1, 3).reshape(groups * ins, outs * taps)
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
        index = columns[by_feature[table]].reshape(n, -1)
        weight = None
        if weighted:
            each = np.broadcast_to(norm.weight[table][:, :, None], (n, repeats, times * outs * taps))
            weight = each.reshape(n, -1)
        slots.append(Slot(index, True, weight, inverse=True, void=f"writer_null:{use.node}"))
    return slots


def _writer_nulls(run: Interpreter, before: Ids, roles: dict[int, set[str]]) -> list[WriterNull]:
    found = run.found
    result = []
    for use in found.linear:
        if use.weight.shape[0] == 1 and use.node not in found.spoiled and use.weight.shape[1] > 1:
            outs = use.weight.shape[1]
            index = use.weight[0].reshape(outs, -1)
            kind = "null direction of writers"
            if found.logits is not None and np.isin(use.writes, found.logits).any():
                kind = "logit shift"
            result.append(WriterNull(use.node, use.weight.shape[3], use.name, kind, index, None))
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
            if use.weight.shape[0] != 1:
                continue
            table = _grouped(before[use.writes.reshape(-1)], classes[by_rank])
            if table is None or table.shape[1] != 1:
                continue
            rows = table[:, 0][back]
            index = use.weight[0].reshape(use.weight.shape[1], -1)[rows]
            if (use.bias >= 0).all():
                index = np.concatenate([index, use.bias.reshape(-1)[rows][:, None]], axis=1)
            result.append(
                WriterNull(
                    use.node, use.weight.shape[3], use.name, "null direction of writers", index, scale.weight
                )
            )
    return result


def _reader_nulls(run: Interpreter) -> list[ReaderNull]:
    """Centred normalised features satisfy sum_i (y_i - beta_i) / gamma_i = 0."""
    owner: dict[int, tuple[int, int]] = {}
    for number, norm in enumerate(run.found.norms):
        if norm.kind == "layer":
            owner.update({int(w): (number, f) for f, w in enumerate(norm.writes)})
    result = []
    for use in run.found.linear:
        groups, outs, ins, taps = use.weight.shape
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


def _kinds(run: Interpreter, representative: Ids) -> dict[int, str]:
    """Class -> what kind of rescaling it is."""
    kinds = {int(r): "rescaling of units" for r in distinct(representative)}
    norms: list[BatchNormUse | NormUse] = [*run.found.batch_norms, *run.found.norms]
    for norm in norms:
        kinds.update({int(r): "output scale of normalisations" for r in representative[norm.writes]})
    for batch in run.found.batch_norms:
        kinds.update({int(r): "input scale of batch normalisations" for r in representative[batch.reads]})
    return kinds
