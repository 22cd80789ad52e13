"""The program of servers: what one *round* of a cluster that serves runs, and who sends to whom.

In a round every server that decodes makes one step of all its requests, so that a round takes as
long as a token (TPOT), and the prompts that end in that time fall on the servers that take prompts:
of B requests with R tokens of output each, B / R in the mean. Passes through the layers repeat as
often as microbatches of a pipeline, forward only, and nothing is kept in step between replicas.

The ``expert`` group of a stage are all its GPUs: those of one copy of attention (``tensor``), and
its copies, which stand in the place of the expert degree.
"""

from collections.abc import Sequence
from typing import NamedTuple

from netplan.records import replace
from netplan.workloads.inference import SIXTEEN, Cut, Formats, Step, inference_head, inference_layer
from netplan.workloads.models import Model
from netplan.workloads.operations import GroupName, Layer, Sharding
from netplan.workloads.program import Program, Repetition

SERVED_SPANS: dict[GroupName, tuple[str, ...]] = {"expert": ("tensor", "expert")}
"""Dimensions of the GPUs that exchange the tokens of experts."""


class Passes(NamedTuple):
    """Steps of one copy of attention that are alike, and how often a microbatch makes them [1]."""

    step: Step
    times: float = 1.0


def serving_program(
    model: Model, cut: Cut, passes: Sequence[Passes], formats: Formats = SIXTEEN
) -> Program:
    """The program of one round, for one way to cut a stage.

    Parameters
    ----------
    model
        The transformer.
    cut
        How a stage is cut, one plan.
    passes
        What every microbatch of a round does: decode, prompts, or both.
    formats
        Numbers of weights and cache.

    Raises
    ------
    InputError
        If the model's attention cannot be served.

    Examples
    --------
    Eight requests decode, and one prompt in 256 rounds is theirs.

    >>> from netplan.workloads.models import MODELS
    >>> decode, prompt = Step("decode", 8.0, 1.0, 2176.0), Step("prefill", 1.0, 2048.0, 2048.0)
    >>> program = serving_program(
    ...     MODELS.load("llama-3-70b"), Cut.of(8), [Passes(decode), Passes(prompt, 8 / 256)])
    >>> for use in program.collectives(stages=1, microbatches=1):
    ...     print(use.kind, use.collective, use.data_bytes, use.times)
    tensor all_reduce 131072.0 160.0
    tensor all_reduce 33554432.0 5.0
    """
    layers = [inference_layer(model, cut, one.step, formats) for one in passes]
    operations = tuple(
        replace(each, name=f"{one.step.phase}-{each.name}", share=one.times * each.share)
        for one, layer in zip(passes, layers, strict=True)
        for each in layer.operations
    )
    boundaries = zip(passes, layers, strict=True)
    boundary_bytes = sum(one.times * layer.boundary_bytes for one, layer in boundaries)
    sampled = sum(one.times * one.step.sampled for one in passes)
    tensor, copies = (int(one[0]) for one in (cut.tensor, cut.attention_data))
    return Program(
        sharding=Sharding.of(1, tensor=tensor, expert=copies),
        layer=Layer(operations, boundary_bytes),
        first=None,
        last=inference_head(model, cut, Step("decode", sampled, 1.0, 1.0)),
        repetition=Repetition(model.layers, 0, "1d", trains=False, spans=SERVED_SPANS),
    )
