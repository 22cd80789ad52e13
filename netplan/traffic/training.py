"""The traffic of one training iteration, from a model, a schedule and a placement.

l layers, h hidden size, h_kv width of all keys, s sequence length; t, c, e, d, p the tensor,
context, expert, data and pipeline degree; b the microbatch, m = B/(d e b) microbatches, v
interleaved stages; w_dense and w_ffn the weights of a layer outside and inside its experts, E
experts of which a token visits k. All numbers have 2 bytes.

========  =======================================  ==================================  ========
kind      collective over                          message [B]                         times
========  =======================================  ==================================  ========
tensor    all_gather, reduce_scatter over t        2 b h s / c                         4 m l/p
                                                                                       each
context   all_gather of keys and values, and       4 b h_kv s / t                      2 and 1
          reduce_scatter of their gradients        (c gathered parts)                  m l/p
expert    all_to_all over e                        2 b h s k / (t c)                   4 m l/p
pipeline  point to point                           2 b h s / (t c)                     m v each
                                                                                       way
data      all_reduce over d, c and e               2 l w_dense / (p t)                 1
          all_reduce over d and c                  2 l w_ffn E / (p t e)               1
========  =======================================  ==================================  ========

Without experts w_dense is the whole layer, 12 h^2 for the standard one. Degrees that a placement
does not name are 1. Sources: Narayanan et al. 2021 (Megatron-LM) and the rail-only paper
(arXiv:2307.12169), sections 3 and 5, for tensor, pipeline and data; Llama 3 (arXiv:2407.21783),
section 3.3.2, for context by gathered keys and values, gathered again in the backward pass.
Left out: embeddings, sharded optimizers, control messages.
"""

from dataclasses import dataclass

from netplan.errors import InputError
from netplan.traffic.algorithms import Collective, check_number
from netplan.traffic.matrix import TrafficMatrix, combine
from netplan.traffic.patterns import Pattern, chain_traffic, collective_traffic
from netplan.traffic.placement import Placement
from netplan.workloads.closed_forms import BYTES_PER_ELEMENT, layer_parameters
from netplan.workloads.models import Model

BATCH_DIMENSIONS = ("data", "expert")
"""Dimensions that split the batch: experts are spread over GPUs that hold different sequences."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How an iteration runs through the pipeline, and how its collectives are carried out.

    Parameters
    ----------
    batch
        Global batch, B [sequences].
    microbatch
        Sequences of one microbatch, b [1].
    interleave
        Interleaved stages of one GPU, v [1].
    experts, experts_per_token
        Feed-forward parts of a layer, E, and those that a token visits, k [1].
    tensor, context, data, expert
        Pattern of the collectives of each kind.

    Examples
    --------
    >>> Schedule(batch=3072).data
    'ring'
    """

    batch: int
    microbatch: int = 1
    interleave: int = 1
    experts: int = 1
    experts_per_token: int = 1
    tensor: Pattern = "ring"
    context: Pattern = "ring"
    data: Pattern = "ring"
    expert: Pattern = "direct"

    def __post_init__(self) -> None:
        """Raise InputError if a number is not a whole one of at least 1."""
        for name in ("batch", "microbatch", "interleave", "experts", "experts_per_token"):
            check_number(name, getattr(self, name), minimum=1, whole=True)


@dataclass(frozen=True, slots=True)
class CollectiveUse:
    """A collective that an iteration runs: over what, how large, how often.

    Parameters
    ----------
    kind
        Kind of traffic, one of ``KINDS``.
    collective
        Its name.
    dimensions
        Dimensions in which the members of one group differ.
    data_bytes
        Full message of one run [B].
    times
        Runs in one iteration [1].
    """

    kind: str
    collective: Collective
    dimensions: tuple[str, ...]
    data_bytes: float
    times: float


def microbatches(schedule: Schedule, placement: Placement) -> int:
    """Microbatches of one pipeline in an iteration, m = B / (d e b) [1].

    Raises
    ------
    InputError
        If the batch cannot be split so.

    Examples
    --------
    >>> from netplan.traffic.placement import Degrees
    >>> placement = Placement((Degrees(tensor=8), Degrees(data=6, pipeline=64)))
    >>> microbatches(Schedule(batch=3072), placement)
    512
    """
    parts = placement.degree(*BATCH_DIMENSIONS) * schedule.microbatch
    if schedule.batch % parts:
        raise InputError(
            f"a batch of {schedule.batch:,} does not split into {parts // schedule.microbatch:,}"
            f" data-parallel parts of whole microbatches of {schedule.microbatch}: change one"
        )
    return schedule.batch // parts


def collectives_of(
    model: Model, schedule: Schedule, placement: Placement
) -> tuple[CollectiveUse, ...]:
    """All collectives of one iteration (table of this module).

    Parameters
    ----------
    model
        The transformer.
    schedule
        Batch, microbatch and experts.
    placement
        The placement; its dimensions among tensor, context, expert, data and pipeline.

    Raises
    ------
    InputError
        If the batch does not divide among the data-parallel GPUs.

    Examples
    --------
    >>> from netplan.traffic.placement import Degrees
    >>> from netplan.workloads.models import MODELS
    >>> placement = Placement((Degrees(tensor=8), Degrees(data=6, pipeline=64)))
    >>> uses = collectives_of(MODELS.load("gpt-1t"), Schedule(batch=3072), placement)
    >>> [(use.collective, use.data_bytes, use.times) for use in uses if use.kind == "tensor"]
    [('all_gather', 104857600.0, 4096.0), ('reduce_scatter', 104857600.0, 4096.0)]
    """
    t, c, e, p = (placement.degree(name) for name in ("tensor", "context", "expert", "pipeline"))
    tokens = schedule.microbatch * model.sequence_length
    runs = microbatches(schedule, placement) * model.layers / p
    hidden_bytes = float(BYTES_PER_ELEMENT * tokens * model.hidden_size)
    kv_share = (model.kv_heads or model.heads) / model.heads
    keys_values = 2 * hidden_bytes * kv_share / t
    routed = hidden_bytes * schedule.experts_per_token / (t * c)
    dense, expert = _gradients(model, schedule, t * p)
    uses = (
        CollectiveUse("tensor", "all_gather", ("tensor",), hidden_bytes / c, 4 * runs),
        CollectiveUse("tensor", "reduce_scatter", ("tensor",), hidden_bytes / c, 4 * runs),
        CollectiveUse("context", "all_gather", ("context",), keys_values, 2 * runs),
        CollectiveUse("context", "reduce_scatter", ("context",), keys_values, runs),
        CollectiveUse("expert", "all_to_all", ("expert",), routed, 4 * runs),
        CollectiveUse("data", "all_reduce", ("data", "context", "expert"), dense, 1),
        CollectiveUse("data", "all_reduce", ("data", "context"), expert / e, 1),
    )
    return tuple(use for use in uses if use.data_bytes and placement.degree(*use.dimensions) > 1)


def training_traffic(
    model: Model, schedule: Schedule, placement: Placement, gpus: int
) -> TrafficMatrix:
    """Traffic matrix of one training iteration.

    Parameters
    ----------
    model, schedule, placement
        As in :func:`collectives_of`.
    gpus
        GPUs of the cluster, all of which the placement must cover [1].

    Raises
    ------
    InputError
        If the placement leaves GPUs out, or the batch or the layers do not divide.

    Examples
    --------
    GPT-1T on 3,072 GPUs, Fig. 4 of arXiv:2307.12169: 752 GB a tensor pair, 6.6 GB a data pair.

    >>> from netplan.traffic.placement import Degrees
    >>> from netplan.workloads.models import MODELS
    >>> placement = Placement((Degrees(tensor=8), Degrees(data=6, pipeline=64)))
    >>> matrix = training_traffic(MODELS.load("gpt-1t"), Schedule(batch=3072), placement, gpus=3072)
    >>> len(matrix.source), float(matrix.flow_bytes.max()) / 1e9
    (12192, 751.6192768)
    >>> float(matrix.of_kind("data").flow_bytes[0]) / 1e9
    6.5536
    """
    placement.check_covers(gpus)
    stages = placement.degree("pipeline") * schedule.interleave
    if model.layers % stages:
        raise InputError(
            f"{model.layers} layers do not split into {placement.degree('pipeline')} pipeline"
            f" stages x {schedule.interleave} interleaved parts: change the pipeline degree"
        )
    patterns: dict[str, Pattern] = {
        "tensor": schedule.tensor,
        "context": schedule.context,
        "data": schedule.data,
        "expert": schedule.expert,
    }
    parts = [
        collective_traffic(
            use.collective,
            placement,
            use.dimensions,
            data_bytes=use.data_bytes,
            kind=use.kind,
            pattern=patterns[use.kind],
        ).scaled(use.times)
        for use in collectives_of(model, schedule, placement)
    ]
    return combine([*parts, _pipeline(model, schedule, placement)])


def _gradients(model: Model, schedule: Schedule, shards: int) -> tuple[float, float]:
    """Gradients of one GPU [B]: outside the experts, and those of all experts together."""
    layer = layer_parameters(model)
    if schedule.experts == 1:
        return BYTES_PER_ELEMENT * model.layers * layer / shards, 0.0
    matrices = 3 if model.gated_ffn else 2
    ffn = matrices * model.hidden_size * (model.ffn_size or 4 * model.hidden_size)
    stored = BYTES_PER_ELEMENT * model.layers / shards
    return stored * (layer - ffn), stored * ffn * schedule.experts


def _pipeline(model: Model, schedule: Schedule, placement: Placement) -> TrafficMatrix:
    """Activations and gradients between stages, whose chain turns back at every HB domain."""
    tokens = schedule.microbatch * model.sequence_length
    shards = placement.degree("tensor", "context")
    message = BYTES_PER_ELEMENT * tokens * model.hidden_size / shards
    return chain_traffic(
        placement.groups("pipeline", snake=True),
        microbatches(schedule, placement) * message,
        placement.gpus,
        wraps=schedule.interleave - 1,
    )
