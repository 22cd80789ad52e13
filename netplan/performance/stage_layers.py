"""Layers of pipeline stages: kinds of layers, which of them a stage has, their weights on a GPU.

Stages have an even share of the layers each; what is left over goes to the second, third, ... one,
then to the first, then to the last: the ends, which have embedding and head, get least. Blocks of a
hybrid, each of which counts as a layer, are spread so that any stretch holds its share of every
kind. Memory model ``stack`` (`netplan.performance.stack_memory`) counts by them.
"""

from functools import lru_cache
from typing import Literal, Self

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Bools, Columns, Floats
from netplan.workloads.models import Mamba, Model
from netplan.workloads.recomputation import Recomputation

Kind = Literal["dense", "experts", "attention", "ffn", "mamba"]
"""Layers of transformers: dense ones and those with experts; blocks of hybrids: the last four."""


class GpuShare(Columns, frozen=True, eq=False):
    """What one GPU has of a plan, shape (plans,): degrees, and sizes by the module's symbols."""

    microbatches: Floats
    tensor: Floats
    stages: Floats
    interleave: Floats
    tokens: Floats
    slice: Floats
    dense_group: Floats
    expert_group: Floats
    experts_apart: Floats
    expert_tensor: Floats


class StageColumns(Columns, frozen=True, eq=False):
    """Stages that may be the fullest, shape (stages, plans)."""

    index: Floats
    layers: Floats
    first: Floats
    last: Bools


def heaviest_stages(
    model: Model, stages: Floats, stage_layers: tuple[int, ...], stage: Amount | None
) -> StageColumns:
    """Stages that may be the fullest: all of the others are like one that holds more.

    Parameters
    ----------
    model
        What is cut into stages.
    stages
        How many there are, shape (plans,) [1].
    stage_layers
        Layers of every stage; even, with fewer on the first and last one, if empty [1].
    stage
        This stage alone, counted from 0; None for those that may be the fullest.

    Returns
    -------
    StageColumns
        In rising order, shape (stages, plans).

    Examples
    --------
    Llama 3 405B on 16 stages: 7 layers, 14 times 8, 7.

    >>> from netplan.workloads.models import MODELS
    >>> cut = heaviest_stages(MODELS.load("llama-3-405b"), np.array([16.0]), (), None)
    >>> cut.index[:, 0].tolist(), cut.layers[:, 0].tolist(), cut.first[:, 0].tolist()
    ([0.0, 1.0, 15.0], [7.0, 8.0, 7.0], [0.0, 7.0, 119.0])
    """
    p = stages
    whole, rest = np.divmod(float(model.layers), p)
    inner = np.minimum(rest, np.maximum(p - 2, 0))  # the ends get what is left over last
    start = whole + (rest > inner)  # layers of the first stage
    if stage is not None:
        index = np.broadcast_to(np.asarray(stage, float), (1, len(p)))
    elif stage_layers or model.mamba is not None:
        index = np.broadcast_to(np.arange(p.max())[:, None], (int(p.max()), len(p)))
    else:
        candidates = [np.zeros_like(p), np.ones_like(p), p - 1]
        if model.experts is not None:
            # The stage with the first layer that may have experts, and those behind it, until
            # their pattern repeats; the same behind the last stage that has a layer more.
            behind = model.experts.dense_first_layers - start
            above = behind - inner * (whole + 1)
            short = 1 + inner + above // np.maximum(whole, 1)
            mixed = np.where(above < 0, 1 + behind // (whole + 1), short)
            mixed = np.where(behind < 0, 0.0, mixed)
            every = model.experts.every
            candidates += [mixed + place for place in range(every + 1)]
            candidates += [inner + place for place in range(1, every + 1) if every > 1]
        index = np.sort(candidates, axis=0)
    index = np.minimum(index, p - 1)
    if stage_layers:
        ends = np.cumsum((0, *stage_layers))
        place = index.astype(np.int64)
        layers = np.diff(ends)[place].astype(float)
        return StageColumns(index, layers, ends[place].astype(float), index == p - 1)
    middle = (index >= 1) & (index <= inner)
    layers = np.where(index == 0, start, whole + middle)
    first = np.where(index == 0, 0.0, start + (index - 1) * whole + np.minimum(index - 1, inner))
    return StageColumns(index, layers, first, index == p - 1)


class StageLayers(Struct, frozen=True, eq=False):
    """Layers of every stage by kind, shape (kinds, stages, plans) [1].

    ``layers`` are those of the model, ``whole`` those whose activations are kept as they are,
    prediction layers of the last stage among them; ``again`` of all kinds keep their input alone.
    """

    kinds: tuple[Kind, ...]
    layers: Floats
    whole: Floats
    again: Floats

    @classmethod
    def of(
        cls, model: Model, stages: StageColumns, recompute: Recomputation, block: Amount = 0.0
    ) -> Self:
        """Layers of stages, and what of them is computed again: the first ``block``, or all."""
        kinds, before = layer_kinds(model)
        start = stages.first.astype(np.int64)
        end = start + stages.layers.astype(np.int64)
        layers = before[:, 2, end] - before[:, 2, start]
        more = np.zeros_like(layers)
        for place, kind in enumerate(further_kinds(model)):
            count = np.where(stages.last, float(model.prediction_layers), 0.0)
            if recompute.layers == "half":
                odd = (stages.layers + place) % 2
                several = len(further_kinds(model)) % 2 == 0  # so that all are of one parity
                count = np.where(odd == 1, count, 0.0) if several else (count + odd) // 2
            more[kinds.index(kind)] += count
        whole = layers
        if recompute.layers == "half":
            parity = (start + 1) % 2
            whole = before[:, parity, end] - before[:, parity, start]
        elif np.any(block):
            skipped = np.minimum(start + np.asarray(block, np.int64), end)
            whole = before[:, 2, end] - before[:, 2, skipped]
        whole = whole + more
        further = np.where(stages.last, model.prediction_layers * len(further_kinds(model)), 0)
        again = stages.layers + further - whole.sum(axis=0)
        return cls(kinds, layers, whole, again)

    def kept(self, rows: dict[Kind, Floats], again: Floats) -> Floats:
        """Activations of one microbatch, shape (stages, plans) [B]."""
        kept = self.again * again
        for kind, count in zip(self.kinds, self.whole, strict=True):
            kept = kept + count * rows[kind]
        return kept

    def most_of_one(self, rows: dict[Kind, Floats]) -> Floats:
        """What the largest layer of a stage keeps, shape (stages, plans) [B]."""
        largest = np.zeros_like(self.again)
        for kind, count in zip(self.kinds, self.layers, strict=True):
            largest = np.maximum(largest, np.where(count > 0, rows[kind], 0.0))
        return largest

    def offloaded(self, rows: dict[Kind, Floats], count: Floats) -> Floats:
        """What the layers that keep least hold, so many of them, shape (stages, plans) [B]."""
        amounts = np.stack([np.broadcast_to(rows[kind], self.again.shape) for kind in self.kinds])
        order = amounts.argsort(axis=0)
        amounts = np.take_along_axis(amounts, order, axis=0)
        layers = np.take_along_axis(self.whole, order, axis=0)
        behind = np.cumsum(layers, axis=0) - layers
        return np.asarray((np.clip(count - behind, 0.0, layers) * amounts).sum(axis=0))


@lru_cache(maxsize=64)
def layer_kinds(model: Model) -> tuple[tuple[Kind, ...], Floats]:
    """Kinds of a model's layers, and how many of each stand before a layer.

    The latter has shape (kinds, 3, layers + 1): of layers with even, odd and any number [1].

    Examples
    --------
    DeepSeek-V3: three dense layers, then 58 with experts.

    >>> from netplan.workloads.models import MODELS
    >>> kinds, before = layer_kinds(MODELS.load("deepseek-v3"))
    >>> kinds, before[:, 2, [0, 3, 61]].tolist()
    (('dense', 'experts'), [[0.0, 3.0, 3.0], [0.0, 0.0, 58.0]])
    """
    kinds: tuple[Kind, ...] = ("dense", "experts")
    number = np.arange(model.layers)
    experts = model.experts
    if model.mamba is not None:
        kinds = ("attention", "experts", "ffn", "mamba")
        sparse = model.sparse_layers - model.prediction_layers if experts else 0
        blocks = model.attention_layers or 0, sparse, model.forward_blocks - sparse
        # Blocks of each kind are spread evenly: any stretch holds its share of every kind.
        spread = sorted(
            ((place + 0.5) / count, kind)
            for kind, count in enumerate((*blocks, model.mamba.layers))
            for place in range(count)
        )
        kind_of = np.array([kind for _, kind in spread])
    elif experts is not None:
        sparse_layer = (number >= experts.dense_first_layers) & ((number + 1) % experts.every == 0)
        kind_of = sparse_layer.astype(np.int64)
    else:
        kind_of = np.zeros(model.layers, np.int64)
    chosen = sorted({*kind_of.tolist(), *map(kinds.index, further_kinds(model))})
    before = np.zeros((len(chosen), 3, model.layers + 1))
    for row, kind in enumerate(chosen):
        here = kind_of == kind
        for column, which in enumerate((number % 2 == 0, number % 2 == 1, number >= 0)):
            before[row, column, 1:] = np.cumsum(here & which)
    return tuple(kinds[kind] for kind in chosen), before


def further_kinds(model: Model) -> tuple[Kind, ...]:
    """Kinds of what a prediction layer is made of; empty without any."""
    if not model.prediction_layers:
        return ()
    if model.mamba is not None:
        return ("attention", "experts" if model.experts else "ffn")
    return ("experts" if model.experts else "dense",)


def attends(model: Model, kind: Kind) -> bool:
    """Whether a layer has attention; blocks of hybrids with experts have not."""
    return kind in ("dense", "attention") or (kind == "experts" and model.mamba is None)


def mamba_sizes(mamba: Mamba, gpu: GpuShare) -> tuple[Floats, Floats, Floats]:
    """Inner width, groups x state, and heads of one GPU, shape (plans,) [1]."""
    heads = mamba.heads / gpu.tensor
    return (
        heads * mamba.head_size,
        np.maximum(1.0, mamba.groups / gpu.tensor) * mamba.state,
        heads,
    )


def layer_weights(model: Model, kind: Kind, gpu: GpuShare) -> tuple[Floats, float]:
    """Weights of one layer: dense ones of a GPU, shape (plans,), and all of its experts [1].

    Parameters
    ----------
    model, kind
        Whose layer it is, and of which kind.
    gpu
        Degrees of the plans.

    Returns
    -------
    tuple[Floats, float]
        Experts lie on all GPUs that share them, a number for all plans.
    """
    t, h = gpu.tensor, model.hidden_size
    norms = 1 if model.mamba is not None else 2
    dense: Floats = norms * h / t
    sparse = 0.0
    if attends(model, kind):
        dense = dense + _attention_weights(model) / t
    if kind in ("dense", "ffn"):
        dense = dense + model.ffn_matrices * h * model.inner_size / t
    if kind == "experts" and model.experts is not None:
        experts = model.experts
        width = experts.latent_size or h
        sparse = float(
            experts.held * model.ffn_matrices * width * (experts.ffn_size or model.inner_size)
        )
        others = model.ffn_matrices * h * experts.shared_ffn_size
        others += 2 * h * width if experts.latent_size else 0
        dense = dense + others / t + h * experts.count  # every GPU has the whole router
    if kind == "mamba" and model.mamba is not None:
        inner, state, heads = mamba_sizes(model.mamba, gpu)
        dense = dense + h * (3 * inner + 2 * state + heads)
    return dense, sparse


def _attention_weights(model: Model) -> int:
    """Weights of one layer's attention [1]."""
    latent, h = model.latent_attention, model.hidden_size
    if latent is None:
        values = model.value_elements
        queries = model.heads * (model.head_elements + values * (1 + model.gated_attention))
        return h * (queries + model.key_heads * (model.head_elements + values))
    rotary, values = latent.rotary_head_size, latent.value_head_size
    queries = model.heads * (latent.head_size + rotary)
    rank = latent.query_rank
    made = h * rank + rank * queries if rank else h * queries
    keys = h * (latent.kv_rank + rotary) + latent.kv_rank * model.heads * (
        latent.head_size + values
    )
    return made + keys + model.heads * values * h
