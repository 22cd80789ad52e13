"""Time of one step of inference on one server: its layers, its head, its messages.

A *server* is one copy of the model, pipeline stages of tensor x attention-data GPUs each. All
amounts are arrays, one entry a plan. Operations follow each other, and nothing overlaps: DFModel
says so of decode (arXiv:2412.16432, Sec. VIII), and measured servers agree (`netplan verify`).

One pass of a step through all stages of a server.

What one GPU of a server holds, and how many requests it has room for.

Speculative decoding on a server: a draft model beside the one that is served.

Formulas and sources stand in `netplan.performance.serving.speculation`. The draft lies whole on the
GPUs of each copy of attention, cut over its tensor GPUs, with a cache of its own; with pipeline
stages it runs on those of the first.
"""

from collections import Counter
from collections.abc import Collection

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Floats, Ints, SummedColumns
from netplan.inputs.choices import Scheme, TimeOrigin
from netplan.performance.serving.kernel_times import ServingKernels
from netplan.performance.serving.plans import ServingPlans, laid
from netplan.performance.serving.speculation import BRANCHES, checked_tokens, tokens_per_step
from netplan.performance.stacks import DirectSum
from netplan.records import replace
from netplan.traffic.hierarchy import CollectiveNetwork, Group
from netplan.traffic.placement import distinct
from netplan.workloads import inference
from netplan.workloads.models import Model
from netplan.workloads.operations import CollectiveKind, Operation


class StepTime(SummedColumns, frozen=True, eq=False):
    """Time of a step, one entry a plan, and what of it computes, reads memory, sends [s]."""

    seconds: Floats
    compute_s: Floats
    memory_s: Floats
    network_s: Floats


class ServingTimes(Struct, frozen=True, eq=False):
    """What a step is timed for: a model in its formats, kernels, and the levels below it."""

    model: Model
    formats: inference.Formats
    kernels: ServingKernels
    network: CollectiveNetwork
    direct_sum: DirectSum | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Members of each level, the HB domain first [1]."""
        return tuple(level.size for level in self.network.levels)

    def step(
        self, cut: inference.Cut, step: inference.ServingStep, *, routed: bool = True
    ) -> tuple[StepTime, StepTime]:
        """Time of a layer in the mean, with its ``routed`` experts or without, and of the head."""
        layer = inference.inference_layer(self.model, cut, step, self.formats)
        zero = np.zeros(cut.tensor.shape)
        whole = StepTime(zero, zero, zero, zero)
        for operation in layer.operations:
            if operation.experts is not None and not routed:
                continue
            whole += self._operation(operation, cut) * operation.share
        return whole, self._operation(inference.inference_head(self.model, cut, step), cut)

    def origins(self, step: inference.ServingStep) -> dict[str, TimeOrigin]:
        """Where the times of a layer's operations and of the head are from, by their names.

        It is the same for all plans: tables have rows of a format or a layer, or have none.
        """
        cut = inference.Cut.of(1)
        operations = [
            *inference.inference_layer(self.model, cut, step, self.formats).operations,
            inference.inference_head(self.model, cut, step),
        ]
        cache = self.formats.cache_bytes
        return {part.name: self.kernels.time(part, cache).origin for part in operations}

    def hop_s(self, cut: inference.Cut, rows: Amount) -> Floats:
        """Time in which the tokens of a step reach the next stage [s].

        Each GPU sends its part to the one in its place; where a stage fills its HB domains, this is
        in another one.
        """
        message = 2.0 * rows * self.model.hidden_size / cut.tensor
        inside = cut.gpus < self.sizes[0]
        pair = np.where(inside, 2, 1)
        members = np.stack([pair, 3 - pair, *(np.ones_like(pair) for _ in self.sizes[2:])])
        members = members[: len(self.sizes)]
        return self._time("all_to_all", 2 * message, members)

    def _operation(self, operation: Operation, cut: inference.Cut) -> StepTime:
        kernel = self.kernels.time(operation, self.formats.cache_bytes)
        shape = cut.tensor.shape
        seconds = np.broadcast_to(kernel.seconds, shape)
        computing = np.broadcast_to(kernel.computes, shape)
        sent = np.zeros(shape)
        for collective in operation.forward.collectives:
            over = inference.SERVED_SPANS.get(collective.group, (collective.group,))
            sent = sent + self.collective_s(collective.kind, collective.busiest_bytes, over, cut)
        return StepTime(
            seconds + sent,
            np.where(computing, seconds, 0.0),
            np.where(computing, 0.0, seconds),
            sent,
        )

    def collective_s(
        self, kind: CollectiveKind, message: Amount, dimensions: Collection[str], cut: inference.Cut
    ) -> Floats:
        """Time of a collective over the GPUs of a stage that differ in some dimensions [s].

        Each level takes as many members as it has room for, the innermost first.
        """
        degrees = {"tensor": cut.tensor, "expert": cut.attention_data}
        whole = [degrees[name].astype(np.int64) for name in degrees if name in dimensions]
        members: Ints = laid(whole, self.sizes).prod(axis=1)
        return self._time(kind, message, members)

    def _time(self, kind: CollectiveKind, message: Amount, members: Ints) -> Floats:
        message = np.broadcast_to(message, members.shape[1:])
        if not message.any():
            return np.zeros(message.shape)
        way = self.network.collective(kind, Group(members, np.ones_like(members)))
        seconds = way.seconds(message)
        if kind == "all_reduce" and self.direct_sum is not None:  # in one kernel, inside a domain
            inside, domain = (members[1:] <= 1).all(axis=0), self.network.levels[0]
            sent = 2 * (members[0] - 1) / members[0] * message
            links = members[0] - 1 if domain.kind == "mesh" else 1
            rate = self.direct_sum.efficiency * np.maximum(links, 1) * domain.link_bytes_per_s
            direct_s = np.where(inside, self.direct_sum.start_s + sent / rate, np.inf)
            seconds = np.minimum(seconds, direct_s)
        alone = members.prod(axis=0) <= 1
        return np.where(alone | (message <= 0), 0.0, seconds)


def _distinct_plans(plans: ServingPlans, step: inference.ServingStep) -> tuple[Ints, Ints]:
    """The first of all plans whose layers take the same, and which of those each plan has."""
    amounts = (np.asarray(amount) for amount in (step.sequences, step.tokens, step.context))
    ranks = [np.unique(amount, return_inverse=True)[1] + 1 for amount in amounts if amount.ndim]
    return distinct(np.stack([plans.tensor, plans.attention_data, plans.expert, *ranks]))


def model_pass(
    served: ServingTimes, plans: ServingPlans, step: inference.ServingStep, *, routed: bool = True
) -> tuple[StepTime, Floats]:
    """One pass of a step from the first stage to the last, and what the fullest stage takes [s].

    Parameters
    ----------
    served
        The model on its kernels and levels.
    plans
        How it lies, shape (plans,).
    step
        What each copy of attention works on, its amounts numbers or of shape (plans,).
    routed
        Whether its routed experts and their exchange count.
    """
    model, stages = served.model, plans.pipeline
    # First of all that the time of a layer depends on, and which of them each plan has.
    first, place = _distinct_plans(plans, step)
    cut, step = plans.take(first).cut, step.take(first)
    layer, head = (part.take(place) for part in served.step(cut, step, routed=routed))
    hop_s = np.where(stages > 1, served.hop_s(cut, step.rows)[place], 0.0)
    whole = layer * model.layers + head
    sent = (stages - 1) * hop_s
    parts = StepTime(whole.seconds + sent, whole.compute_s, whole.memory_s, whole.network_s + sent)
    # The fullest stage, or the last one where all are as full.
    last_s = np.where(model.layers % stages == 0, head.seconds, 0.0)
    return parts, -(-model.layers // stages) * layer.seconds + last_s + hop_s


ROOMY = float(2**40)
"""Requests that a cache without bytes has room for [1]."""


class HeldBytes(SummedColumns, frozen=True, eq=False):
    """What one GPU holds of each plan, shape (plans,) [B].

    Parameters
    ----------
    weights
        Of the fullest stage, with embedding or head.
    request
        Cache of one request at its full length.
    """

    weights: Floats
    request: Floats

    def of(self, requests: Amount) -> Floats:
        """Weights and the cache of so many requests of one copy of attention [B]."""
        return self.weights + requests * self.request

    def room(self, memory_bytes: float) -> Floats:
        """Requests of one copy that fit, 0 where weights alone do not [1]."""
        left = memory_bytes - self.weights
        request_bytes = np.maximum(self.request, memory_bytes / ROOMY)
        return np.where(left < 0, 0.0, np.floor(np.maximum(left, 0.0) / request_bytes))


def held_bytes(
    model: Model, plans: ServingPlans, formats: inference.Formats, tokens: Amount
) -> HeldBytes:
    """What GPUs hold that serve requests of so many tokens, prompt and output together.

    Examples
    --------
    >>> from netplan.performance.serving.plans import serving_plans
    >>> from netplan.workloads.models import MODELS
    >>> model = MODELS.load("llama-3-8b")
    >>> held = held_bytes(model, serving_plans(model, 1, (1,), {}), inference.Formats(), 8192)
    >>> held.weights.round(-7), held.request.round(-6)
    (array([1.606e+10]), array([1.074e+09]))
    """
    cut = plans.cut
    step = inference.ServingStep("decode", 1.0, 1.0, tokens)
    layer = inference.inference_layer(model, cut, step, formats)
    layer_bytes = np.zeros(plans.count)
    for operation in layer.operations:
        layer_bytes = layer_bytes + operation.share * operation.weight_bytes
    stages = plans.pipeline
    first = inference.embedding_bytes(model, cut)
    last = inference.inference_head(model, cut, step).weight_bytes
    shared = model.tied_embeddings
    ends = np.where(stages > 1, np.maximum(first, last), first if shared else first + last)
    layers = -(-model.layers // stages)
    cache = inference.cached_bytes(model, cut, tokens, formats.cache_bytes, formats.window_cache)
    cache = cache * layers / model.layers
    return HeldBytes(layers * layer_bytes + ends, cache)


class Speculated(Struct, frozen=True, eq=False):
    """What is drafted before each step, and how much of it is accepted.

    The draft is a model, or a layer of the served one's ``own`` with the head behind it, which lies
    as the served model's layers do (multi-token prediction: DeepSeek-V3, arXiv:2412.19437, Sec.
    2.2), and reads prompts, too.
    """

    draft: ServingTimes
    window: int
    acceptance: float
    scheme: Scheme
    own: bool = False

    @property
    def tokens(self) -> float:
        """Tokens that a step gives on average [1]."""
        return float(tokens_per_step(self.window, self.acceptance, self.scheme))

    @property
    def checked(self) -> int:
        """Tokens that the model passes over in a step [1]."""
        return int(checked_tokens(self.window, self.scheme))

    def drafted(self, plans: ServingPlans, step: inference.ServingStep) -> StepTime:
        """Time of all passes of the draft before one step."""
        tree = self.scheme == "tree"
        levels = Counter(BRANCHES**level if tree else 1 for level in range(self.window))
        zero = np.zeros(plans.count)
        whole = StepTime(zero, zero, zero, zero)
        for tokens, times in levels.items():
            level = replace(step, tokens=float(tokens))
            whole += self._pass(plans, level) * times
        return whole

    def prompt_s(self, plans: ServingPlans, step: inference.ServingStep) -> Floats:
        """Time in which the draft reads a prompt [s]."""
        return self._pass(plans, step).seconds

    def held(self, plans: ServingPlans, tokens: Amount) -> HeldBytes:
        """What the draft holds of each GPU."""
        model, formats = self.draft.model, self.draft.formats
        if not self.own:
            return held_bytes(model, self._plans(plans), formats, tokens)
        # The head is the model's.
        whole = held_bytes(
            model, replace(plans, pipeline=np.ones_like(plans.tensor)), formats, tokens
        )
        ends = inference.embedding_bytes(model, plans.cut) * (1 if model.tied_embeddings else 2)
        return HeldBytes((whole.weights - ends) / model.layers, whole.request / model.layers)

    def _pass(self, plans: ServingPlans, step: inference.ServingStep) -> StepTime:
        """Time of one pass of the draft."""
        if not self.own:
            return model_pass(self.draft, self._plans(plans), step)[0]
        # One layer and the head, whatever the stages of the model.
        first, place = _distinct_plans(plans, step)
        layer, head = self.draft.step(plans.take(first).cut, step.take(first))
        return (layer + head).take(place)

    def _plans(self, plans: ServingPlans) -> ServingPlans:
        """How the draft lies: in one stage, its experts if any on the GPUs of all copies."""
        ones = np.ones_like(plans.tensor)
        return replace(plans, pipeline=ones, expert=ones)
