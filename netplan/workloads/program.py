"""The program of one training iteration: what runs, how often, and who communicates with whom.

A program is the operations of one layer and of the ends of the network, with shapes,
weights, activations and collectives, and the rules by which an iteration repeats them. It is the
only source of compute time, memory and traffic: no other room knows how a model is trained.

With m microbatches, p stages of n layers and v interleaved stages a GPU runs in one iteration

======================  ==========================================================================
a layer                 m n times forward and backward; under full recomputation forward once more
                        before each backward pass, collectives included
an end                  m times, on the first (embedding) or the last stage (head) only
a transfer to the next  m v times each way; where v > 1 the last stage also hands on to the first,
stage                   m (v - 1) times each way
weights of a stage      r times, by ZeRO stage (arXiv:1910.02054, Sec. 7):
======================  ==========================================================================

======  =================================  ==================================  ===================
stage   forward                            backward                            r
======  =================================  ==================================  ===================
0       none                               all_reduce of gradients             1
1       all_gather of weights              reduce_scatter of gradients         1
2       all_gather of weights              reduce_scatter of gradients         1; backward m
3       all_gather of weights              all_gather, reduce_scatter          m
======  =================================  ==================================  ===================

Where the l layers do not divide by p, stages are uneven: the fullest hold n = ceil(l/p), the others
one less, and the first and the last of the pipeline, which have embedding and head, are among these
as far as there are any (:func:`stage_layers`). Where the microbatches of a batch do not divide by
the replicas, some replicas run one less than the slowest, which run m (:func:`dealt`). Everything
here counts the fullest stage of the slowest replica.

The data parallel group of a weight are the GPUs that hold it: ``data`` and, as experts are spread
over GPUs of different data, ``expert``; under 2D-context the context GPUs join. Experts belong to
the ``data`` (and context) GPUs only, or where they are folded (`netplan.traffic.placement`) to GPUs
of any dimension. The ends are gathered and reduced once an iteration at every
ZeRO stage. Left out: optimizer, control messages.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Generic, Literal, TypeVar

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Floats, Ints
from netplan.errors import InputError
from netplan.inputs.choices import Mode, Strategy
from netplan.records import replace
from netplan.workloads import operations as ops
from netplan.workloads.closed_forms import counted_layer
from netplan.workloads.models import Model
from netplan.workloads.recomputation import computed_again
from netplan.workloads.transformer import embedding, lm_head, transformer_layer

Zero = Literal[0, 1, 2, 3]
SHARDED_OPTIMIZER: Zero = 1
SHARDED_GRADIENTS: Zero = 2
SHARDED_WEIGHTS: Zero = 3
"""ZeRO stages from which on a GPU keeps its own share of them (arXiv:1910.02054, Sec. 5) [1]."""

Counting = Literal["detailed", "counted", "tiled"]
Stage = Literal["each", "first", "last"]
DataName = Literal["data"]


class TrainingMethod(Struct, frozen=True):
    """How a model is trained: how its layers are cut and counted, repeated and sharded.

    Parameters
    ----------
    strategy
        Tensor parallelism: ``1d``, ``2d`` (context) or ``summa``.
    counting
        ``detailed`` operations, ``counted`` closed forms of matrix products, or ``tiled`` products.
    mode
        ``corrected``, or ``published-code`` with the slips of the 4D model's code.
    variant
        Recomputation, experts, embedding and head.
    zero_stage
        What is sharded over the data parallel group: nothing (0), the optimizer (1), gradients
        too (2), weights too (3).
    sram_bytes
        Memory on the chip, which decides how often tiled products read their operands [B].
    """

    strategy: Strategy = "1d"
    counting: Counting = "detailed"
    mode: Mode = "corrected"
    variant: ops.Variant = ops.PLAIN
    zero_stage: Zero = 1
    sram_bytes: float = 0.0


DETAILED = TrainingMethod()


class Synchronisation(Struct, frozen=True):
    """Collectives over the weights of a stage, and whether every microbatch repeats them."""

    forward: tuple[ops.CollectiveKind, ...]
    backward: tuple[ops.CollectiveKind, ...]
    forward_repeats: bool = False
    backward_repeats: bool = False


SYNCHRONISATION: dict[Zero, Synchronisation] = {
    0: Synchronisation((), ("all_reduce",)),
    1: Synchronisation(("all_gather",), ("reduce_scatter",)),
    2: Synchronisation(("all_gather",), ("reduce_scatter",), backward_repeats=True),
    3: Synchronisation(
        ("all_gather",),
        ("all_gather", "reduce_scatter"),
        forward_repeats=True,
        backward_repeats=True,
    ),
}
"""By ZeRO stage (table of this module)."""

NO_SYNCHRONISATION = Synchronisation((), ())
FORWARD_GATHER = Synchronisation(("all_gather",), (), forward_repeats=True)
"""What only runs forward has no gradients, and its weights stay as they are; where they are sharded
every pass gathers them."""


T = TypeVar("T", float, Floats)
EQUAL_HEAD = 2
"""Stages with one layer less from which on the first of the pipeline is among them [1]."""


def stage_layers(layers: int, stages: int) -> Ints:
    """Layers of every pipeline stage, shape (stages,) [1].

    The last stage is the first to hold one less, then the first, then those before the last.

    Examples
    --------
    Llama 3 405B (arXiv:2407.21783, Sec. 3.3.2): 126 layers on 16 stages.

    >>> stage_layers(126, 16)
    array([7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7])
    >>> stage_layers(9, 4)
    array([2, 3, 2, 2])
    """
    fullest = -(-layers // stages)
    less = stages * fullest - layers
    held = np.full(stages, fullest, dtype=np.int64)
    in_front = 1 if less >= EQUAL_HEAD else 0
    held[:in_front] -= 1
    held[stages - (less - in_front) :] -= 1
    return held


LIGHTER_ENDS = (0, 1, 2)
"""Layers that both ends together may hold less than other stages [1]."""


def splits(layers: int, stages: int, interleave: int) -> bool:
    """Whether stages split into so many interleaved parts, the ends of one layer less each or not.

    Examples
    --------
    126 layers on 2 stages: 63 each, or 64 of which the first and the last part lack one.

    >>> [splits(126, 2, parts) for parts in (3, 4, 5)]
    [True, True, False]
    """
    return any(held % interleave == 0 for held in fullest_stages(layers, stages))


def fullest_stages(layers: int, stages: int) -> set[int]:
    """Layers that the fullest of some stages may hold [1].

    As few as go; or one more, where the stages are even but for an end or both that lack a layer.

    Examples
    --------
    >>> fullest_stages(126, 2), fullest_stages(80, 5), fullest_stages(126, 16)
    ({64, 63}, {16}, {8})
    """
    fewest = -(-layers // stages)
    more = {-(-(layers + less) // stages) for less in LIGHTER_ENDS}
    return {held for held in more if held == fewest or held * stages - layers <= max(LIGHTER_ENDS)}


def missing_layers(
    layers: Amount, stages: Floats, interleave: Amount = 1.0
) -> tuple[Floats, Floats]:
    """Layers that first and last stages hold less than the fullest, 0 or 1, shape (n,) [1].

    Examples
    --------
    >>> missing_layers(126, np.array([1.0, 16.0, 18.0, 127.0]))
    (array([0., 1., 0., 0.]), array([0., 1., 0., 1.]))
    """
    virtual = stages * interleave
    less = virtual * -(-layers // virtual) - layers
    return np.where(less >= EQUAL_HEAD, 1.0, 0.0), np.where(less > 0, 1.0, 0.0)


def dealt(rounds: int, replicas: int) -> Ints:
    """Microbatches of every replica, as even as they go, shape (replicas,) [1].

    Examples
    --------
    >>> dealt(10, 4)
    array([3, 3, 2, 2])
    """
    return (rounds - np.arange(replicas, dtype=np.int64) + replicas - 1) // replicas


class RepeatedBlocks(Struct, Generic[T], frozen=True, eq=False):
    """How often the parts of a program run on one GPU in one iteration [1]."""

    layers: T  # passes through a layer, m n
    ends: T  # passes through the embedding or the head, m
    transfers: T  # transfers to the next stage, m v
    forward_weights: Amount  # forward collectives of the weights of a stage, r
    backward_weights: Amount  # backward ones, r


class Repetition(Struct, frozen=True):
    """What an iteration repeats, and over whom it synchronises weights.

    Parameters
    ----------
    layers
        Layers of the model, l, those that predict further tokens included [1].
    zero_stage
        What is sharded over the data parallel GPUs.
    strategy
        How layers are cut: says who holds the same weights.
    trains
        Whether there is a backward pass, with gradients to sum up and to hand back.
    spans
        Dimensions in which the members of a group differ, where they are others than the one of its
        name.
    experts_on
        GPUs that have all experts together, where these are folded, shape (shardings,) [1].
    """

    layers: int
    zero_stage: Zero
    strategy: Strategy
    trains: bool = True
    spans: Mapping[ops.GroupName, tuple[str, ...]] = {}
    experts_on: Ints | None = None

    @property
    def synchronisation(self) -> Synchronisation:
        """Collectives over the weights of a stage."""
        if self.trains:
            return SYNCHRONISATION[self.zero_stage]
        return FORWARD_GATHER if self.zero_stage == SHARDED_WEIGHTS else NO_SYNCHRONISATION

    @property
    def ways(self) -> int:
        """Ways between stages that every microbatch goes: there, and back [1]."""
        return 2 if self.trains else 1

    @property
    def weight_group(self) -> tuple[str, ...]:
        """Dimensions of the GPUs that hold the same weights outside the experts."""
        return ("context", "expert", "data") if self.strategy == "2d" else ("expert", "data")

    @property
    def expert_group(self) -> tuple[str, ...]:
        """Dimensions of the GPUs that hold the same experts."""
        if self.experts_on is not None:
            return ops.COPIES
        return tuple(name for name in self.weight_group if name != "expert")

    def dimensions(self, group: ops.GroupName) -> tuple[str, ...]:
        """Dimensions in which the members of a group differ."""
        return self.spans.get(group, (group,))

    def fullest(self, stages: T, interleave: Amount = 1.0) -> T:
        """Layers of the fullest stage, n, of so many equal parts, for a number or an array [1]."""
        fullest: T = interleave * -(-self.layers // (stages * interleave))  # type: ignore[assignment]
        return fullest

    def runs(self, *, stages: T, microbatches: T, interleave: T) -> RepeatedBlocks[T]:
        """How often everything runs in one iteration, for numbers or arrays of one shape.

        Parameters
        ----------
        stages
            Pipeline stages, p [1].
        microbatches
            Microbatches of one pipeline, m [1].
        interleave
            Interleaved stages of one GPU, v [1].

        Examples
        --------
        >>> rules = Repetition(layers=128, zero_stage=1, strategy="1d")
        >>> runs = rules.runs(stages=64.0, microbatches=512.0, interleave=1.0)
        >>> runs.layers, runs.transfers, runs.backward_weights
        (1024.0, 512.0, 1.0)
        """
        rule = self.synchronisation
        return RepeatedBlocks(
            layers=microbatches * self.fullest(stages),
            ends=microbatches,
            transfers=microbatches * interleave,
            forward_weights=microbatches if rule.forward_repeats else 1.0,
            backward_weights=microbatches if rule.backward_repeats else 1.0,
        )


class CollectiveUse(Struct, frozen=True):
    """A collective that an iteration runs: over what, how large, how often.

    Parameters
    ----------
    kind
        Kind of traffic: the group that it is for.
    collective
        Its name. Broadcasts and reductions are those of SUMMA panels, whose roots take turns.
    dimensions
        Dimensions in which the members of one group differ.
    data_bytes
        Full message of one run [B].
    times
        Runs in one iteration [1].
    stage
        Whether each pipeline stage runs it, or the first or the last one only.
    weights, back
        What goes to every GPU of a group over the mean, or with ``back`` comes from it, where
        experts are loaded unevenly; none where all are alike [1].
    """

    kind: ops.GroupName | DataName
    collective: ops.CollectiveKind
    dimensions: tuple[str, ...]
    data_bytes: float
    times: float
    stage: Stage = "each"
    weights: tuple[float, ...] = ()
    back: bool = False

    @property
    def busiest_bytes(self) -> float:
        """Message of even shares that takes as long as the busiest GPU here [B]."""
        return self.data_bytes * max(self.weights, default=1.0)


_KINDS = ("tensor", "context", "expert", "data")


class Program(Struct, frozen=True, eq=False):
    """One training iteration, for many shardings of a microbatch at once.

    Parameters
    ----------
    sharding
        Ways to cut one microbatch, shape (shardings,).
    layer
        The operations of one layer.
    first, last
        Embedding and head, where they are counted.
    repetition
        How often an iteration runs them.
    """

    sharding: ops.Sharding
    layer: ops.Layer
    first: ops.Operation | None
    last: ops.Operation | None
    repetition: Repetition

    @property
    def forward_alone(self) -> "Program":
        """The forward passes of an iteration: nothing goes back, or is kept for it."""

        def ahead(operation: ops.Operation) -> ops.Operation:
            return replace(
                operation,
                backward=ops.NO_WORK,
                weight_gradient=ops.NO_WORK,
                recomputed=0.0,
                activation_bytes=0.0,
            )

        return replace(
            self,
            layer=replace(self.layer, operations=tuple(map(ahead, self.layer.operations))),
            first=ahead(self.first) if self.first else None,
            last=ahead(self.last) if self.last else None,
            repetition=replace(self.repetition, trains=False),
        )

    def weight_bytes(self, *, experts: bool) -> Floats:
        """16-bit weights of one layer on one GPU: those of experts, or all others [B]."""
        chosen = [
            operation for operation in self.layer.operations if operation.expert_weights == experts
        ]
        held = [operation.share * operation.weight_bytes for operation in chosen]
        return ops.total_bytes(held, len(self.sharding.tensor))

    def collectives(self, *, stages: int, microbatches: int) -> tuple[CollectiveUse, ...]:
        """All collectives of one iteration on the fullest stage of the slowest replica.

        Collectives of the same message are one entry; those over a single GPU are listed too.

        Parameters
        ----------
        stages, microbatches
            As in :meth:`Repetition.runs` [1].

        Raises
        ------
        InputError
            If the program has several shardings.

        Examples
        --------
        >>> from netplan.workloads.models import MODELS
        >>> ptdp = TrainingMethod(counting="counted", zero_stage=0)
        >>> program = training_program(MODELS.load("gpt-1t"), ops.Sharding.of(1, tensor=8), ptdp)
        >>> for use in program.collectives(stages=64, microbatches=512):
        ...     print(use.kind, use.collective, use.data_bytes, use.times)
        tensor all_gather 104857600.0 4096.0
        tensor reduce_scatter 104857600.0 4096.0
        data all_reduce 3932160000.0 1.0
        """
        if len(self.sharding.tensor) != 1:
            raise InputError("the collectives of an iteration are those of one sharding")
        times: dict[CollectiveUse, float] = {}
        for use in self._uses(stages, microbatches):
            once = replace(use, times=1.0)
            times[once] = times.get(once, 0.0) + use.times
        merged = [replace(use, times=count) for use, count in times.items() if use.data_bytes]
        return tuple(sorted(merged, key=lambda use: _KINDS.index(use.kind)))

    def _uses(self, stages: int, microbatches: int) -> Iterator[CollectiveUse]:
        """Collectives one by one: of the layers, of the ends, of their weights."""
        rules = self.repetition
        runs = rules.runs(stages=float(stages), microbatches=float(microbatches), interleave=1.0)
        for operation in self.layer.operations:
            yield from _work_uses(operation, rules, runs.layers, "each")
        ends: tuple[tuple[ops.Operation | None, Stage], ...]
        ends = ((self.first, "first"), (self.last, "last"))
        for end, stage in ends:
            if end is not None:
                yield from _work_uses(end, rules, runs.ends, stage)
        rule = rules.synchronisation
        directions = (
            (rule.forward, single_amount(runs.forward_weights)),
            (rule.backward, single_amount(runs.backward_weights)),
        )
        held = (
            (rules.weight_group, self.weight_bytes(experts=False)),
            (rules.expert_group, self.weight_bytes(experts=True)),
        )
        for group, layer_bytes in held:
            stage_bytes = single_amount(layer_bytes) * rules.fullest(float(stages))
            for names, times in directions:
                for name in names:
                    yield CollectiveUse("data", name, group, stage_bytes, times)
        for end, stage in ends:
            if end is not None:
                message = single_amount(end.weight_bytes)
                for name in dict.fromkeys((*rule.forward, *rule.backward)):
                    yield CollectiveUse("data", name, rules.weight_group, message, 1.0, stage)


def folded(program: Program, *, exchanges: bool) -> Program:
    """The program with experts on groups of GPUs of their own, whatever these share beside.

    Parameters
    ----------
    program
        Of shardings that say over how many GPUs experts are spread, and how many share one.
    exchanges
        Whether tokens go to their experts; else these are gathered, and no token moves.
    """
    cut, repetition, layer = program.sharding, program.repetition, program.layer
    together = cut.experts_over * cut.expert_tensor
    repetition = replace(repetition, spans={"expert": ops.EXPERTS}, experts_on=together)
    if not exchanges:
        staying = tuple(
            operation.changed_both_ways(_without_exchange) for operation in layer.operations
        )
        layer = replace(layer, operations=staying)
    return replace(program, repetition=repetition, layer=layer)


def _without_exchange(work: ops.OperationCost) -> ops.OperationCost:
    """The cost of an operation that sends no tokens to experts."""
    return work.with_collectives(sent for sent in work.collectives if sent.group != "expert")


def training_program(
    model: Model, sharding: ops.Sharding, method: TrainingMethod = DETAILED
) -> Program:
    """The program of training a transformer, for many shardings at once.

    Parameters
    ----------
    model
        The transformer.
    sharding
        Ways to cut one microbatch, shape (shardings,).
    method
        Strategy, recomputation, experts, ends, ZeRO stage.

    Raises
    ------
    InputError
        If the method does not fit the model, or closed forms do not cover it.

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> program = training_program(MODELS.load("gpt-1t"), ops.Sharding.of(1, tensor=8))
    >>> [operation.name for operation in program.layer.operations[:2]]
    ['fc1', 'fc1-bias']
    """
    variant = method.variant
    if method.counting == "counted":
        layer = counted_layer(model, sharding, strategy=method.strategy, variant=variant)
    elif method.counting == "tiled":
        from netplan.workloads.tiled_layer import tiled_layer  # noqa: PLC0415 - seldom used

        layer = tiled_layer(
            model, sharding, sram_bytes=method.sram_bytes, strategy=method.strategy, variant=variant
        )
    else:
        layer = transformer_layer(
            model, sharding, strategy=method.strategy, mode=method.mode, variant=variant
        )
    if variant.recompute == "full":
        layer = _run_again(layer, (("full", 1.0),))
    if variant.again:
        layer = _run_again(layer, variant.again)
    # Closed forms contain the logits.
    head = variant.lm_head and method.counting == "detailed"
    return Program(
        sharding=sharding,
        layer=layer,
        first=embedding(model, sharding) if variant.embedding else None,
        last=lm_head(model, sharding) if head else None,
        repetition=Repetition(model.depth, method.zero_stage, method.strategy),
    )


def _run_again(layer: ops.Layer, again: Sequence[tuple[str, float]]) -> ops.Layer:
    """A layer of which words of recomputation run something again in a share of all layers."""
    operations = [
        replace(
            operation,
            recomputed=min(1.0, sum(x * computed_again(word, operation) for word, x in again)),
        )
        for operation in layer.operations
    ]
    if any(word == "full" for word, _ in again):
        first = operations[0]
        operations[0] = replace(first, input_bytes=layer.boundary_bytes / first.share)
    return replace(layer, operations=tuple(operations))


def _work_uses(
    operation: ops.Operation, rules: Repetition, runs: float, stage: Stage
) -> Iterator[CollectiveUse]:
    """Collectives of one operation, of layers or ends that run so often forward and backward."""
    works = [(work, 1.0) for work in (operation.forward, *operation.backward_works)]
    if operation.recomputed:  # the last of them, in so many of the layers
        works[-1] = (operation.forward, operation.recomputed)
    for work, share in works:
        passes = runs * operation.share * share
        panels = 1.0 if work.panels is None else single_amount(work.panels)
        for collective in work.collectives:
            steps = np.atleast_2d(collective.message_bytes)
            message, times = float(steps.mean()) / panels, passes * panels * len(steps)
            over = rules.dimensions(collective.group)
            use = CollectiveUse(collective.group, collective.kind, over, message, times, stage)
            uneven = collective.uneven
            if uneven is not None and message:
                use = replace(use, weights=uneven.weights, back=uneven.back)
            yield use


def single_amount(amount: Amount) -> float:
    """The amount of the only sharding."""
    return float(np.asarray(amount, dtype=np.float64).reshape(-1)[0])
