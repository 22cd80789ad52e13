"""The PTD-P iteration model: pipeline, tensor and data parallel training of a transformer.

Source: Wang et al., arXiv:2307.12169, Eq. 2 to 7 and 10, with the FLOP counts of Korthikanti et
al., arXiv:2205.05198. The model charges all communication in full (nothing overlaps), GEMMs at
the peak rate, and attention work ``attention_slowdown`` times slower.

Three parts, each a sum of named times: compute, communication, and memory. For a placement every
time is a combination of six functions of the microbatch b and the interleaved stages v,

    1,  b/v,  b,  1/b,  v/b,  v,

so that a part is six coefficients a placement, and a plan costs a handful of FLOPs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import PositiveFloat

from netplan.catalog import Record, Shelf
from netplan.levels import Level
from netplan.performance.communication import all_gather, stage_hops
from netplan.performance.placement import DATA, PIPELINE, TENSOR, Floats, Placements
from netplan.traffic.models import Model
from netplan.traffic.transformer import (
    BYTES_PER_ELEMENT,
    iteration_flops,
    layer_activation_bytes,
    layer_parameters,
)

BASIS = ("1", "b/v", "b", "1/b", "v/b", "v")
PARTS = ("compute", "tensor_comm", "data_comm", "pipeline_comm", "bubble")


class IterationModel(Record):
    """Parameters of an iteration model, as its catalog file gives them.

    ``attention_slowdown`` is gamma, ``bytes_per_parameter`` q; ``activations`` says whether
    interleaving enlarges the stored activations.
    """

    attention_slowdown: PositiveFloat
    bytes_per_parameter: PositiveFloat
    activations: Literal["interleaved", "plain"]


ITERATION_MODELS = Shelf("iteration-model", "traffic/iteration-models", IterationModel)


@dataclass(frozen=True, slots=True)
class Training:
    """What is trained, with what batch, under which assumptions.

    Parameters
    ----------
    model
        The transformer.
    batch
        Global batch, B [sequences].
    flops_per_s
        Peak rate of one GPU, F [FLOP/s].
    memory_bytes
        Memory of one GPU; may be infinite [B].
    assumptions
        Parameters of the iteration model.
    """

    model: Model
    batch: int
    flops_per_s: float
    memory_bytes: float
    assumptions: IterationModel


@dataclass(frozen=True, slots=True)
class PtdpTerms:
    """Coefficients of all placements.

    Parameters
    ----------
    seconds
        By part, each of shape (6 basis functions, placements) [s].
    state_bytes
        Weights, gradients and optimizer state of one GPU, shape (placements,) [B].
    sequence_bytes
        Activations of one microbatch of one sequence, shape (placements,) [B].
    """

    seconds: dict[str, Floats]
    state_bytes: Floats
    sequence_bytes: Floats


def ptdp_terms(training: Training, levels: Sequence[Level], placements: Placements) -> PtdpTerms:
    """Coefficients of the iteration time and of the memory, for all placements at once.

    Parameters
    ----------
    training
        Model, batch, GPU and assumptions.
    levels
        The fabric, innermost level first.
    placements
        Degrees on those levels.
    """
    model, batch = training.model, training.batch
    totals = placements.totals
    tensor, data, pipeline = (totals[i].astype(float) for i in (TENSOR, DATA, PIPELINE))
    stage_layers = model.layers / pipeline
    sequences = batch / data  # what one pipeline trains in an iteration: m b
    activation = float(BYTES_PER_ELEMENT * model.hidden_size * model.sequence_length)

    flops = iteration_flops(model, batch)
    slowed = flops.feed_forward + training.assumptions.attention_slowdown * flops.attention
    sequence_s = slowed / (training.flops_per_s * batch * pipeline * tensor)  # Eq. 10, b = 1

    hops, slowest = stage_hops(levels, placements)
    gather = all_gather(levels, placements, TENSOR)
    sync = all_gather(levels, placements, DATA)
    weights = BYTES_PER_ELEMENT * layer_parameters(model) * stage_layers / tensor

    def part(**coefficients: Floats) -> Floats:
        named = dict(zip(("one", "b_per_v", "b", "per_b", "v_per_b", "v"), BASIS, strict=True))
        return np.stack([coefficients.get(key, np.zeros(placements.count)) for key in named])

    seconds = {
        "compute": part(one=sequences * sequence_s),  # Eq. 5
        "tensor_comm": part(  # Eq. 6: 4 all_gathers and 4 reduce_scatters a layer
            one=8 * stage_layers * sequences * gather.s_per_byte * activation,
            per_b=8 * stage_layers * sequences * gather.fixed_s,
        ),
        "data_comm": part(one=2 * sync.seconds(weights)),  # Eq. 7
        "pipeline_comm": part(  # Eq. 6
            v=2 * sequences * slowest.s_per_byte * activation / tensor,
            v_per_b=2 * sequences * slowest.fixed_s,
        ),
        "bubble": part(  # Eq. 3 and 4
            one=2 * hops.fixed_s,
            b_per_v=(pipeline - 1) * sequence_s,
            b=2 * hops.s_per_byte * activation / tensor,
        ),
    }
    parameters = layer_parameters(model) * model.layers / (pipeline * tensor)
    return PtdpTerms(
        seconds=seconds,
        state_bytes=training.assumptions.bytes_per_parameter * parameters,
        sequence_bytes=layer_activation_bytes(model) * model.layers / tensor,
    )


def basis(microbatch: Floats, interleave: Floats) -> Floats:
    """Six functions of microbatch b and interleaved stages v, shape (6, plans)."""
    b, v = microbatch, interleave
    return np.stack([np.ones_like(b), b / v, b, 1 / b, v / b, v])


def activations_in_flight(
    training: Training, pipeline: Floats, microbatch: Floats, interleave: Floats
) -> Floats:
    """Stored sequences, in units of one microbatch of one sequence on the first stage [1].

    Interleaving stores (p - 1) / (p v) more than one pipeline's worth (arXiv:2205.05198, sec. 4.3).
    """
    if training.assumptions.activations == "plain":
        return microbatch
    more = np.where(interleave > 1, (pipeline - 1) / (pipeline * interleave), 0.0)
    stored: Floats = microbatch * (1 + more)
    return stored
