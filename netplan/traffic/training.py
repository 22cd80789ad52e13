"""The traffic of one training iteration: a program laid on a placement.

Every number comes from the program (`netplan.workloads.program`): its collectives with their
messages and runs, and the activations between stages. The placement says which GPUs form a group,
an algorithm says which pairs of the group talk. With l layers, hidden size h, sequence length s,
microbatch b, m microbatches and t tensor, p pipeline GPUs the dense layer of PTD-P comes to

    tensor    4 m l/p all_gathers and as many reduce_scatters of 2 b h s
    data      one all_reduce of 24 l h^2 / (p t)
    pipeline  m v messages of 2 b h s / t each way

Sources: Narayanan et al. 2021 (Megatron-LM) and the rail-only paper (arXiv:2307.12169), sections 3
and 5. The last stages and replicas may have less to do (`netplan.workloads.program`): a stage with
fewer layers and a replica with fewer microbatches send that much less, only gathered and reduced
weights take part in all microbatches. Left out: control messages.
"""

from typing import Any

import numpy as np

from netplan.arrays import Floats, Ints
from netplan.errors import InputError
from netplan.traffic import patterns
from netplan.traffic.algorithms import check_number
from netplan.traffic.matrix import TrafficMatrix, combine
from netplan.traffic.placement import Placement
from netplan.workloads.operations import EXPERTS
from netplan.workloads.program import CollectiveUse, Program, splits, stage_layers


def collectives_of(
    program: Program, placement: Placement, microbatches: int
) -> tuple[CollectiveUse, ...]:
    """Collectives of one iteration that several GPUs take part in.

    The program is for one sharding; one pipeline runs ``microbatches`` m.

    Raises
    ------
    InputError
        If program and placement have different degrees.

    Examples
    --------
    >>> from netplan.traffic.placement import Degrees
    >>> from netplan.workloads.models import MODELS
    >>> from netplan.workloads.operations import Sharding
    >>> from netplan.workloads.program import training_program
    >>> program = training_program(MODELS.load("gpt-1t"), Sharding.of(1, tensor=8))
    >>> placement = Placement((Degrees(tensor=8), Degrees(data=6, pipeline=64)))
    >>> uses = collectives_of(program, placement, microbatches=512)
    >>> [(use.collective, use.data_bytes, use.times) for use in uses if use.kind == "tensor"]
    [('reduce_scatter', 104857600.0, 6144.0), ('all_gather', 104857600.0, 2048.0)]
    """
    cut, totals = program.sharding, placement.totals
    asked = (totals.tensor, totals.context, totals.expert)
    given = tuple(int(np.max(degrees)) for degrees in (cut.tensor, cut.context, cut.expert))
    if asked != given:
        raise InputError(
            f"the program is cut over tensor, context and expert GPUs {given}, the placement has"
            f" {asked}: make both of one plan"
        )
    uses = program.collectives(stages=totals.pipeline, microbatches=microbatches)
    return tuple(use for use in uses if placement.degree(*use.dimensions) > 1)


def use_traffic(
    use: CollectiveUse, placement: Placement, algorithm: patterns.Pattern | str, *, gpus: int
) -> TrafficMatrix:
    """Traffic of one run of a collective, in all groups of the stages that run it."""
    matrix = _among_ranks(use, placement, algorithm)
    return matrix.relabelled(placement.gpu_of_rank, gpus)


def use_levels(
    use: CollectiveUse, placement: Placement, algorithm: patterns.Pattern | str, *, gpus: int
) -> list[tuple[TrafficMatrix, int]]:
    """The same, level by level from the innermost out, and in how many steps each level goes."""
    if use.collective == "all_to_all" and placement.merged_copies and use.dimensions == EXPERTS:
        return [(use_traffic(use, placement, algorithm, gpus=gpus), 1)]
    sent = _sent_as(use, algorithm)
    levels = patterns.collective_levels(use.collective, placement, use.dimensions, **sent)
    return [(matrix.relabelled(placement.gpu_of_rank, gpus), steps) for matrix, steps in levels]


def _sent_as(use: CollectiveUse, algorithm: patterns.Pattern | str) -> dict[str, Any]:
    """What is sent: what goes to all, as tokens of experts, sends around no ring."""
    direct = use.collective == "all_to_all" and algorithm == "ring"
    uneven = patterns.MemberLoads(np.array(use.weights), use.back) if use.weights else None
    sent = {"data_bytes": use.data_bytes, "kind": use.kind, "uneven": uneven}
    return {**sent, "pattern": "direct" if direct else algorithm}


def _among_ranks(
    use: CollectiveUse, placement: Placement, algorithm: patterns.Pattern | str
) -> TrafficMatrix:
    """The same between ranks."""
    sent = _sent_as(use, algorithm)
    if use.collective == "all_to_all" and placement.merged_copies and use.dimensions == EXPERTS:
        del sent["pattern"]
        return patterns.merged_traffic(placement, **sent)
    matrix = patterns.collective_traffic(use.collective, placement, use.dimensions, **sent)
    if use.stage == "each":
        return matrix
    chain = placement.groups("pipeline", snake=True)
    share = np.zeros(placement.gpus)
    share[chain[:, 0 if use.stage == "first" else -1]] = 1.0
    return matrix.weighted(share)


def _shares(program: Program, placement: Placement, microbatches: Ints) -> tuple[Floats, Floats]:
    """What each rank does of what the busiest do: layers and microbatches, (ranks,) each [1]."""
    held = stage_layers(program.repetition.layers, placement.totals.pipeline)
    layers, share = np.ones(placement.gpus), np.ones(placement.gpus)
    layers[placement.groups("pipeline", snake=True)] = held / held.max()
    # One row for each set of other coordinates, one column for each replica.
    share[placement.groups("data")] = microbatches / microbatches.max()
    return layers, share


def _share_of(use: CollectiveUse, layers: Floats, microbatches: Floats) -> Floats:
    """Share of one collective: weights of a stage are in no microbatch, ends in no layer [1]."""
    of_stage = layers if use.stage == "each" else np.ones_like(layers)
    return of_stage if use.kind == "data" else microbatches * of_stage


def training_traffic(
    program: Program,
    placement: Placement,
    *,
    gpus: int,
    microbatches: int | Ints,
    interleave: int = 1,
    algorithm: patterns.Pattern | str = "ring",
) -> TrafficMatrix:
    """Traffic matrix of one training iteration.

    The levels of the placement hold the GPUs of the cluster. Where it knows of idle ones, a last
    HB domain that is not full may lie beyond them. One pipeline runs ``microbatches`` m, one number
    for each replica where they differ, a GPU has ``interleave`` interleaved stages v [1].

    Raises
    ------
    InputError
        If the placement is one of another cluster or has other degrees than the program, or the
        layers of a stage do not divide by its interleaved parts.

    Examples
    --------
    GPT-1T on 3,072 GPUs, Fig. 4 of arXiv:2307.12169: 752 GB a tensor pair, 6.6 GB a data pair.

    >>> from netplan.traffic.placement import Degrees
    >>> from netplan.workloads.models import MODELS
    >>> from netplan.workloads.operations import Sharding
    >>> from netplan.workloads.program import TrainingMethod, training_program
    >>> ptdp = TrainingMethod(counting="counted", zero_stage=0)
    >>> program = training_program(MODELS.load("gpt-1t"), Sharding.of(1, tensor=8), ptdp)
    >>> placement = Placement((Degrees(tensor=8), Degrees(data=6, pipeline=64)))
    >>> matrix = training_traffic(program, placement, gpus=3072, microbatches=512)
    >>> len(matrix.source), float(matrix.flow_bytes.max()) / 1e9
    (12192, 751.6192768)
    >>> float(matrix.of_kind("data").flow_bytes[0]) / 1e9
    6.5536
    """
    placement.check_covers(gpus)
    check_number("interleave", interleave, minimum=1, whole=True)
    stages = placement.totals.pipeline
    layers = program.repetition.layers
    if not splits(layers, stages, interleave):
        raise InputError(
            f"{layers} layers do not split into {stages} pipeline stages"
            f" x {interleave} interleaved parts: change the pipeline degree"
        )
    counts, most = np.atleast_1d(microbatches), int(np.max(microbatches))
    shares = _shares(program, placement, counts)
    parts = [
        _among_ranks(use, placement, algorithm).scaled(use.times).weighted(_share_of(use, *shares))
        for use in collectives_of(program, placement, most)
    ]
    boundary = float(np.max(program.layer.boundary_bytes))
    chain = placement.groups("pipeline", snake=True)
    stage_bytes = most * boundary
    between = patterns.chain_traffic(
        *(chain, stage_bytes, placement.gpus), wraps=interleave - 1, back=program.repetition.trains
    )
    whole = combine([*parts, between.weighted(shares[1])])
    return whole.relabelled(placement.gpu_of_rank, gpus)
