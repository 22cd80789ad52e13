"""Memory of one GPU as training software fills it, operation by operation: memory model ``stack``.

What a layer keeps for its backward pass is counted from what the kernels of the software save, what
weights, gradients and optimizer take from its rows of `traffic/stacks/memory.csv`. Symbols, of one
GPU: b sequences a microbatch, s tokens a sequence, c, t, p, d context, tensor, pipeline and data
degree, D = d c; T = b s / c tokens; E = T / t with sequence parallelism, else T; h the hidden size;
n = heads / t; hq, hk, hv, ho elements of its queries, keys, values and results; f = ffn / t; g = 2
with a gate, else 1; w = vocabulary / t; a bytes of a saved input of a product; N rows that reach
its experts, q wide each.

===================  =========================================================================
norm 1               (2 + a) E h: its input and its output, the slice that Transformer Engine saves
q, k, v              2 T (hq + hk + hv), after rotation; a gate of the results besides
latent attention     4 E (query rank + key rank + rotary) and 2 T n (2 (qk + rotary) + v) instead
attention            2 T ho + 4 T n, below 16 bits + a T ho; unfused T s n x 2 (5 with dropout)
dropout              2 E h where the stack has it: two masks
norm 2               (2 + a) E h; 4 E h before a router
feed-forward         T f (2 g + a): the activation keeps its input alone
router, permuted     12 E x experts; a N q
experts, shared      N expert width (2 g + a); T shared width (2 g + a)
Mamba 2              norm, in-projection, convolution, gated norm, one 32-bit state a chunk of 256
===================  =========================================================================

Torch with compiled norms keeps 4 E h a norm, eager torch 12 E h and 4 g T f of a feed-forward part;
both have a = 2 in every precision, since they cast inside of products.

Microbatches in flight, the stages' layers, what is rebuilt backward, what the loss holds and what
ZeRO gathers: :class:`StackMemory`. The peak is that of the fullest stage; whether it fits says
`netplan.performance.memory_verdict`.

Sources: Korthikanti et al., arXiv:2205.05198, Sec. 4; Rajbhandari et al., arXiv:1910.02054;
Megatron-LM d98e8a64 (training/theoretical_memory_usage.py, core/fusions/fused_bias_swiglu.py,
core/pipeline_parallel/schedules.py); torchtitan b5bcd76c (distributed/activation_checkpoint.py).

Left out: CUDA graphs and their pools, user-buffer overlap, tokens that the router sends unevenly
beyond ``imbalance``, other optimizers than Adam, the first iteration, windows' own heads; linear
attention counts as plain attention.
"""

from collections.abc import Callable
from math import inf

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Bools, Columns, Floats, Ints
from netplan.errors import InputError
from netplan.performance.memory_verdict import Basis
from netplan.performance.stacks import MemoryOfStack
from netplan.performance.stage_layers import (
    GpuShare,
    Kind,
    StageColumns,
    StageLayers,
    attends,
    further_kinds,
    heaviest_stages,
    layer_kinds,
    layer_weights,
    mamba_sizes,
)
from netplan.records import replace
from netplan.workloads.models import Experts, Mamba, Model
from netplan.workloads.program import SHARDED_GRADIENTS, SHARDED_OPTIMIZER, SHARDED_WEIGHTS
from netplan.workloads.recomputation import NOTHING, Recomputation

WORKSPACE_BYTES, EXPERT_WORKSPACE_BYTES = 0.12e9, 0.134e9
"""Workspaces of cuBLAS and Transformer Engine, fitted; four more streams of 32 MiB with experts
(Transformer Engine, multi_streams.h and module/base.py) [B]."""

FORMATS = {
    "bf16": (2.0, 2.0),
    "fp8": (1.0, 2.0),
    "fp8-current": (1.0, 2.0),
    "fp8-cs": (1.0, 2.0),
    "fp8-delayed": (1.0, 2.0),
    "mxfp8": (33 / 32, 66 / 32),
    "fp4": (9 / 16, 2 + 18 / 16),
    "nvfp4": (9 / 16, 2 + 18 / 16),
}
"""Bytes of a saved input of a product, with a scale of 8 bits for 32 numbers of mxfp8 and for 16 of
nvfp4, and of a weight: its 16-bit copy, or copies by row and by column [B]."""

COPY_BYTES = 4.0
"""A weight in 32 bits: the optimizer's copy, and of torch under ZeRO 3 the weight itself [B]."""

CHUNK_TOKENS = 256
"""Tokens of one state that a scan of Mamba 2 keeps [1]."""

Rows = dict[str, Floats]
"""What a layer keeps by operation, shape (plans,) [B]."""


class PlanSizes(Columns, frozen=True, eq=False):
    """Plans, an entry each of shape (plans,), or a number for all of them.

    Parameters
    ----------
    microbatch, microbatches
        Sequences of a microbatch; microbatches of an iteration [1].
    tensor, context, stages
        Degrees of tensor, context and pipeline parallelism [1].
    interleave
        Chunks of layers of a stage [1].
    data
        Replicas: GPUs / (tensor x context x stages) [1].
    expert, expert_tensor
        GPUs that share the experts of a layer; those that share an expert [1].
    """

    microbatch: Amount
    microbatches: Amount = 1.0
    tensor: Amount = 1.0
    context: Amount = 1.0
    stages: Amount = 1.0
    interleave: Amount = 1.0
    data: Amount = 1.0
    expert: Amount = 1.0
    expert_tensor: Amount = 1.0


class Held(Columns, frozen=True, eq=False):
    """What the fullest stage of every plan holds, shape (plans,) [B].

    Parameters
    ----------
    stage, in_flight, layers
        Which stage it is, counted from 0; microbatches whose activations it keeps; its layers [1].
    weights, gradients, optimizer
        States.
    activations
        Kept for the backward passes of the microbatches in flight.
    head_or_backward
        The loss of the last stage, or what a layer needs while it runs backward.
    gathered
        Weights and gradients of other GPUs' shares, under ZeRO 3.
    workspace
        Of the libraries.
    """

    stage: Ints
    weights: Floats
    gradients: Floats
    optimizer: Floats
    activations: Floats
    head_or_backward: Floats
    gathered: Floats
    workspace: Floats
    in_flight: Floats
    layers: Floats

    @property
    def states(self) -> Floats:
        """Weights, gradients and optimizer [B]."""
        return self.weights + self.gradients + self.optimizer

    @property
    def buffers(self) -> Floats:
        """What is held for a while [B]."""
        return self.head_or_backward + self.gathered + self.workspace

    @property
    def total(self) -> Floats:
        """The peak [B]."""
        return self.states + self.activations + self.buffers


class StageOfPlan(Struct, frozen=True, eq=False):
    """What one stage of a plan is counted from, for whoever wants to work it out again.

    Parameters
    ----------
    gpu
        What a GPU of it has.
    layers, whole
        Layers by kind; those whose activations are kept as they are [1].
    again
        Layers that keep their input alone [1].
    offloaded_bytes
        Activations of one microbatch in the host's memory [B].
    arrived
        Rows that reach the experts of a GPU [1].
    weights
        Of layers, of experts, of embedding and head [1].
    bytes
        Of a weight, of one of embedding and head, of a gradient, of the optimizer's states, and of
        a logit [B].
    """

    gpu: GpuShare
    layers: dict[Kind, float]
    whole: dict[Kind, float]
    again: float
    offloaded_bytes: float
    arrived: float
    weights: tuple[float, ...]
    bytes: tuple[float, ...]


class StackMemory(Struct, frozen=True):
    """What training software holds of a model: rules that are the same for all plans of a call.

    A stage of n layers holds

    - weights, gradients and optimizer of x, G and O bytes a parameter; from ZeRO 1, 2, 3 on a GPU
      keeps its own share of the last, the last two, all of them, among d c replicas, experts among
      d c t / (expert x expert tensor);
    - activations: what its layers keep, for every microbatch in flight, and on the first stage
      2 E h for the embedding of each;
    - the larger of the loss, head x T w + 4 E h (torch with t > 1: + 4 T h), on the last stage, and
      of a layer's backward pass: 2 T h + 2 T f g, with experts 4 N q + 2 N g expert width, and one
      whole layer where layers are computed again, half of one for ``mlp`` and ``moe``;
    - under ZeRO 3 two layers' gathered weights in 16 bits, one layer's gradients and the ends;
      torch keeps a whole stage of both where there are several;
    - workspaces of libraries.

    In flight are min(m, p - i) microbatches of stage i under 1F1B and zb-1p, all under gpipe,
    min(m, 2 (p - i) - 1) under zb-2p, and min(m v, 2 (p - i - 1) + (v - 1) G + 1) / v with v chunks
    a stage, G = p, or p + m mod p where microbatches do not divide (Megatron-Core schedules.py);
    min(m, p), min(m, p/2 + 1) and min(m, p/3 + 2) under zbv, v-half and v-min
    (zero-bubble-pipeline-parallelism).

    Parameters
    ----------
    model, stack
        What is trained, and the ``memory`` block of its software.
    precision
        Number format of products: bf16, fp8, fp8-delayed, mxfp8 or fp4.
    sequence_parallel, fused_attention, dropout
        Whether norms are cut among tensor GPUs; attention makes no scores in memory; the model is
        trained with dropout, also of attention.
    schedule
        Order of the passes; 1F1B, or interleaved where plans have chunks, if it is not said.
    imbalance
        Tokens of the fullest GPU's experts over the mean [1].
    gradient_bytes, optimizer_bytes, head_bytes
        In place of the software's [B].
    optimizer_offload
        Share of the optimizer's states that the host holds [1].
    stage_layers
        Layers of every stage; even, with fewer on the first and last one, if absent [1].
    positions
        Learned positions, which lie beside the vocabulary [1].
    fills_first_group
        Whether interleaved microbatches that fill no group of p go with the first one.

    Raises
    ------
    InputError
        If a precision is none of training, a share none from 0 to 1, or stages are not the model.

    Examples
    --------
    Llama 3 405B on 16,384 GPUs: 88.3 GB on the second stage.

    >>> from netplan.workloads.models import MODELS
    >>> model = MODELS.load("llama-3-405b")
    >>> memory = StackMemory(model, MemoryOfStack(software="megatron"))
    >>> plan = PlanSizes(1, 16, tensor=8, context=1, stages=16, interleave=8, data=128)
    >>> held = memory.held(plan)
    >>> int(held.stage[0]), float(held.total[0]) / 1e9, float(held.activations[0]) / 1e9
    (1, 88.3, 68.25)
    """

    model: Model
    stack: MemoryOfStack
    precision: str = "bf16"
    sequence_parallel: bool = True
    fused_attention: bool = True
    dropout: bool = False
    schedule: str | None = None
    imbalance: float = 1.0
    gradient_bytes: float | None = None
    optimizer_bytes: float | None = None
    head_bytes: float | None = None
    optimizer_offload: float = 0.0
    stage_layers: tuple[int, ...] = ()
    positions: int = 0
    fills_first_group: bool = False

    def __post_init__(self) -> None:
        """Refuse what no training software does."""
        if self.precision not in FORMATS:
            raise InputError(
                f"precision {self.precision!r:.40} is none of training: use {', '.join(FORMATS)}"
            )
        if not 0 <= self.optimizer_offload <= 1:
            raise InputError(
                f"optimizer: got {self.optimizer_offload:g}: give the share of its states on the"
                " host, from 0 to 1"
            )
        if not 1 <= self.imbalance < inf:
            raise InputError(
                f"imbalance: got {self.imbalance:g}: give the busiest GPU's tokens over the mean,"
                " from 1 on"
            )
        if self.stage_layers and sum(self.stage_layers) != self.model.layers:
            raise InputError(
                f"stages of {', '.join(map(str, self.stage_layers))} layers have"
                f" {sum(self.stage_layers)} of the {self.model.layers} of {self.model.name}: give"
                " as many"
            )

    @property
    def torch(self) -> bool:
        """Whether layers keep what torch saves, not Transformer Engine."""
        return self.stack.keeps in ("torch", "compiled")

    @property
    def checked_kind(self) -> bool:
        """Whether plans may be refused: runs of this software and kind of layer were compared."""
        unlike = self.model.mamba or self.model.linear_attention
        return self.stack.keeps not in ("torch", "xla") and not unlike

    @property
    def basis(self) -> Basis:
        """``checked`` where printed peaks were compared: in bf16, with software that may refuse."""
        return "checked" if self.checked_kind and self.precision == "bf16" else "unchecked"

    def held(
        self,
        sizes: PlanSizes,
        *,
        recompute: Recomputation = NOTHING,
        zero: int = 1,
        block: Amount = 0.0,
        offload_layers: Amount = 0.0,
        stage: Amount | None = None,
    ) -> Held:
        """What the fullest stage of every plan holds.

        Parameters
        ----------
        sizes
            The plans.
        recompute
            What is computed again.
        zero
            ZeRO stage [1].
        block
            First layers of every stage that are computed again whole; ``block:K`` of ``recompute``
            says it for all plans [1].
        offload_layers
            Layers whose activations lie in the host's memory; of one stage alone [1].
        stage
            This stage in place of the fullest one, counted from 0 [1].

        Returns
        -------
        Held
            Parts of its memory, shape (plans,) [B].
        """
        plans = self.on_stages(sizes, zero=zero, stage=stage)
        return plans.held(recompute, block=block, offload_layers=offload_layers)

    def on_stages(
        self, sizes: PlanSizes, *, zero: int = 1, stage: Amount | None = None
    ) -> "PlanStages":
        """What plans hold on their stages whatever they compute again.

        Parameters
        ----------
        sizes
            The plans.
        zero
            ZeRO stage [1].
        stage
            This stage in place of all that may be the fullest, counted from 0 [1].

        Returns
        -------
        PlanStages
            Of shape (stages, plans).
        """
        gpu = self._gpu(sizes)
        stages = heaviest_stages(self.model, gpu.stages, self.stage_layers, stage)
        counts = StageLayers.of(self.model, stages, NOTHING)
        parameters = self._parameters(gpu, stages, counts)
        workspace = WORKSPACE_BYTES + (EXPERT_WORKSPACE_BYTES if self.model.experts else 0.0)
        return PlanStages(
            self,
            gpu,
            stages,
            counts,
            parameters,
            *self.states(gpu, stages, parameters, zero),
            workspace,
            self._in_flight(gpu, stages.index),
            self._head(gpu, stages),
            np.where(stages.index == 0, 2 * gpu.slice * self.model.hidden_size, 0.0),
            {kind: _total(self.kept(gpu, kind, NOTHING)) for kind in counts.kinds},
        )

    def by_operation(
        self, sizes: PlanSizes, *, recompute: Recomputation = NOTHING
    ) -> dict[str, dict[str, float]]:
        """What one layer of every kind keeps of one microbatch, by operation.

        Parameters
        ----------
        sizes
            A plan.
        recompute
            What is computed again.

        Returns
        -------
        dict of str to dict of str to float
            Bytes by operation, of ``dense`` layers and those with ``experts``, or of the blocks of
            a hybrid [B].
        """
        gpu = self._gpu(sizes)
        return {
            kind: {name: float(kept[0]) for name, kept in self.kept(gpu, kind, recompute).items()}
            for kind in layer_kinds(self.model)[0]
        }

    def stage_of(
        self,
        sizes: PlanSizes,
        *,
        stage: int,
        recompute: Recomputation = NOTHING,
        zero: int = 1,
        offload_layers: Amount = 0.0,
    ) -> StageOfPlan:
        """What one stage of a plan is counted from.

        Parameters
        ----------
        sizes
            The plan.
        stage
            Which stage, from 0 on [1].
        recompute, zero, offload_layers
            As of :meth:`held`.

        Returns
        -------
        StageOfPlan
            Its share, layers and weights.
        """
        plan = self.on_stages(sizes, zero=zero, stage=stage)
        gpu, counts = plan.gpu, StageLayers.of(self.model, plan.stages, recompute, recompute.block)
        rows = {kind: _total(self.kept(gpu, kind, recompute)) for kind in counts.kinds}
        experts = self.model.experts
        head = self.stack.tensor_head_bytes if gpu.tensor[0] > 1 else self.stack.head_bytes
        return StageOfPlan(
            gpu,
            {kind: float(counts.layers[row, 0, 0]) for row, kind in enumerate(counts.kinds)},
            {kind: float(counts.whole[row, 0, 0]) for row, kind in enumerate(counts.kinds)},
            float(counts.again[0, 0]),
            float(counts.offloaded(rows, np.asarray(offload_layers))[0, 0]),
            float(self._arrived(gpu, experts)[0]) if experts else 0.0,
            tuple(float(part[0, 0]) for part in plan.parameters),
            (*self._state_bytes(zero), head if self.head_bytes is None else self.head_bytes),
        )

    def _gpu(self, sizes: PlanSizes) -> GpuShare:
        given = (getattr(sizes, name) for name in PlanSizes.__struct_fields__)
        arrays = np.broadcast_arrays(*(np.asarray(column, float) for column in given))
        microbatch, microbatches, t, c, p, v, data, expert, expert_tensor = (
            np.atleast_1d(array) for array in arrays
        )
        tokens = microbatch * self.model.sequence_length / c
        apart = expert * expert_tensor
        return GpuShare(
            microbatches,
            t,
            p,
            v,
            tokens,
            tokens / t if self.sequence_parallel else tokens,
            data * c,
            np.maximum(1.0, data * c * t / apart),
            apart,
            expert_tensor,
        )

    def _in_flight(self, gpu: GpuShare, index: Floats) -> Floats:
        """Microbatches whose activations a stage keeps at its peak, shape (stages, plans) [1]."""
        m, p, v = gpu.microbatches, gpu.stages, gpu.interleave
        # Microbatches that fill no group of p go with the first one (netplan.simulation.schedule).
        group = p + np.where(m > p, m % p, 0.0) * self.fills_first_group
        chunks = np.minimum(m * v, 2 * (p - index - 1) + (v - 1) * group + 1) / v
        limits: dict[str | None, Floats] = {
            "gpipe": m + 0 * index,
            "zb-2p": 2 * (p - index) - 1,
            "zbv": p + 0 * index,
            "v-half": p / 2 + 1 + 0 * index,
            "v-min": p / 3 + 2 + 0 * index,
        }
        most = limits.get(self.schedule)
        if most is None:
            flying = np.where(v > 1, chunks, np.minimum(m, p - index))
        else:
            flying = np.minimum(m, most)
        return np.where(p == 1, 1.0, flying)

    def layer_bytes(self, sizes: PlanSizes) -> Floats:
        """What the layer that keeps least keeps of one microbatch, shape (plans,) [B].

        Parameters
        ----------
        sizes
            The plans, of which their number of stages and replicas means nothing.

        Returns
        -------
        Floats
            Bytes, shape (plans,) [B].
        """
        gpu = self._gpu(sizes)
        kinds = layer_kinds(self.model)[0]
        kept = [_total(self.kept(gpu, kind, NOTHING)) for kind in kinds]
        return np.asarray(np.min(kept, axis=0))

    def kept(self, gpu: GpuShare, kind: Kind, recompute: Recomputation) -> Rows:
        """What one layer or block keeps of one microbatch, by operation, shape (plans,) [B]."""
        if recompute.layers == "full":
            return {"input": 2 * gpu.slice * self.model.hidden_size}
        if "sac-op" in recompute.modules:
            return self._every_second(gpu)
        if kind == "mamba" and self.model.mamba is not None:
            return self._mamba(gpu, self.model.mamba)
        rows: Rows = {}
        if attends(self.model, kind):
            rows |= self._attention(gpu, recompute)
        if kind == "experts" and self.model.experts is not None:
            rows |= self._experts(gpu, self.model.experts, recompute)
        elif kind in ("dense", "ffn"):
            rows |= self._feed_forward(gpu, recompute)
        return rows

    @property
    def input_bytes(self) -> float:
        """A saved input of a product [B].

        Examples
        --------
        >>> from netplan.workloads.models import MODELS
        >>> llama, stack = MODELS.load("llama-3-405b"), MemoryOfStack(software="megatron")
        >>> StackMemory(llama, stack, "fp8").input_bytes
        1.0
        """
        return 2.0 if self.torch else FORMATS[self.precision][0]

    @property
    def _norm_bytes(self) -> float:
        """Input and output of a norm in front of a product, and what eager norms keep [B]."""
        return {"torch": 12.0, "compiled": 4.0}.get(self.stack.keeps or "", 2 + self.input_bytes)

    def _attention(self, gpu: GpuShare, recompute: Recomputation) -> Rows:
        model, modules = self.model, recompute.modules
        tokens, width, n = gpu.tokens, gpu.slice * model.hidden_size, model.heads / gpu.tensor
        saved, norm = self.input_bytes, self._norm_bytes
        latent = model.latent_attention
        if latent and "layernorm" in modules and not self.torch:
            norm = 2.0  # elsewhere this norm is part of the product
        rows = {"norm 1": norm * width}
        if latent:
            ranks = (latent.query_rank or 0) + latent.kv_rank + latent.rotary_head_size
            both = 2 * (latent.head_size + latent.rotary_head_size) + latent.value_head_size
            out = tokens * n * latent.value_head_size
            rows["latent"] = 4.0 * ranks * gpu.slice
            rows["qkv"] = 0.0 * tokens if "mla_up_proj" in modules else 2 * tokens * n * both
        else:
            out = tokens * n * model.value_elements
            keys = np.maximum(model.key_heads / gpu.tensor, 1.0)
            keys = keys * (model.head_elements + model.value_elements)
            rows["qkv"] = 2 * tokens * (n * model.head_elements + keys)
            if model.gated_attention:
                rows["qkv"] = rows["qkv"] + 2 * out
        scores = 4 * tokens * n
        if not self.fused_attention:
            scores = tokens * model.sequence_length * n * (5.0 if self.dropout else 2.0)
            scores = 0.0 * tokens if "core_attn" in modules else scores
        rows["attention"] = 2 * out + scores + (saved * out if saved < FORMATS["bf16"][0] else 0.0)
        if self.dropout:
            rows["dropout"] = 2 * width
        return rows

    def _feed_forward(self, gpu: GpuShare, recompute: Recomputation) -> Rows:
        width, gate = gpu.slice * self.model.hidden_size, 1 + self.model.gated_ffn
        if "mlp" in recompute.modules:
            return {"norm 2": 4 * width}
        saved = 4.0 * gate if self.stack.keeps == "torch" else 2 * gate + self.input_bytes
        return {
            "norm 2": self._norm_bytes * width,
            "ffn": gpu.tokens * self.model.inner_size / gpu.tensor * saved,
        }

    def _experts(self, gpu: GpuShare, experts: Experts, recompute: Recomputation) -> Rows:
        model, modules = self.model, recompute.modules
        width, gate, saved = gpu.slice * model.hidden_size, 1 + model.gated_ffn, self.input_bytes
        if "moe" in modules:
            return {"norm 2": 4 * width}
        norm = self._norm_bytes if self.torch else 4.0  # 16 bits before a router
        arrived = self._arrived(gpu, experts)
        inner = arrived * (experts.ffn_size or model.inner_size) / gpu.expert_tensor
        rows = {
            "norm 2": (2.0 if "layernorm" in modules else norm) * width,
            "router": 12 * gpu.slice * experts.count,
            "permuted": saved * arrived * (experts.latent_size or model.hidden_size),
            "experts": inner * (2 * gate + (0.0 if "moe_act" in modules else saved)),
        }
        if experts.shared_ffn_size and "shared_experts" not in modules:
            inner = gpu.tokens * experts.shared_ffn_size / gpu.tensor
            rows["shared"] = inner * (2 * gate + saved)
        return rows

    def _mamba(self, gpu: GpuShare, mamba: Mamba) -> Rows:
        tokens, saved = gpu.tokens, self.input_bytes
        inner, state, heads = mamba_sizes(mamba, gpu)
        return {
            "norm 1": (2 + saved) * gpu.slice * self.model.hidden_size,
            "projected": 2 * tokens * (2 * inner + 2 * state + heads),
            "convolution": 2 * tokens * (inner + 2 * state),
            "gated norm": (2 + saved) * tokens * inner,
            "states": 4 * (tokens / CHUNK_TOKENS) * inner * mamba.state,
        }

    def _every_second(self, gpu: GpuShare) -> Rows:
        """Torch's every second product and attention's output (activation_checkpoint.py)."""
        model, tokens, width = self.model, gpu.tokens, 2 * gpu.slice * self.model.hidden_size
        queries = model.query_size / gpu.tensor
        keys = model.key_heads * model.head_elements / gpu.tensor
        return {
            "input": width,
            "products": 2 * tokens * (queries + keys + model.inner_size / gpu.tensor) + width,
            "attention": 2 * tokens * queries + 4 * tokens * model.heads / gpu.tensor,
        }

    def _arrived(self, gpu: GpuShare, experts: Experts) -> Floats:
        """Rows N that reach the local experts, of all tokens' copies, shape (plans,) [1]."""
        over = np.rint(gpu.experts_apart / gpu.expert_tensor)
        busiest = np.minimum(self.imbalance, over)  # the busiest of p GPUs has all rows at most
        if experts.load is not None:
            busiest = experts.load.imbalance(over)
        most = np.minimum(busiest, experts.capacity_factor or inf)
        return np.asarray(experts.per_token * gpu.slice * gpu.expert_tensor * most)

    def backward(self, gpu: GpuShare) -> Floats:
        """What a layer needs while it runs backward, shape (plans,) [B]."""
        model, tokens = self.model, gpu.tokens
        kinds, gate = layer_kinds(model)[0], 1 + model.gated_ffn
        wide = 2 * tokens * model.hidden_size
        needs = []
        if {"dense", "ffn"} & {*kinds} or (model.experts and model.experts.every > 1):
            needs.append(wide + 2 * tokens * model.inner_size / gpu.tensor * gate)
        if model.experts is not None:
            arrived, experts = self._arrived(gpu, model.experts), model.experts
            inner = (experts.ffn_size or model.inner_size) / gpu.expert_tensor
            rows = 4 * arrived * (experts.latent_size or model.hidden_size)
            needs.append(rows + 2 * arrived * inner * gate)
        if model.mamba is not None:
            inner_size, state, heads = mamba_sizes(model.mamba, gpu)
            needs.append(wide + 2 * tokens * (2 * inner_size + 2 * state + heads))
        return np.asarray(np.max(needs, axis=0))

    def _head(self, gpu: GpuShare, stages: StageColumns) -> Floats:
        """What the loss of the last stage holds, shape (stages, plans) [B]."""
        tokens, several = gpu.tokens, gpu.tensor > 1
        head = np.where(several, self.stack.tensor_head_bytes, self.stack.head_bytes)
        head = head if self.head_bytes is None else np.full_like(tokens, self.head_bytes)
        logits = tokens * self.model.vocabulary / gpu.tensor
        loss = (head + 4 * self.model.prediction_layers) * logits
        loss = loss + 4 * gpu.slice * self.model.hidden_size
        if self.torch:
            loss = loss + np.where(several, 4 * tokens * self.model.hidden_size, 0.0)
        return np.where(stages.last, loss, 0.0)

    def states(
        self,
        gpu: GpuShare,
        stages: StageColumns,
        parameters: tuple[Floats, Floats, Floats],
        zero: int,
    ) -> tuple[tuple[Floats, Floats, Floats], Floats]:
        """Weights, gradients and optimizer; what ZeRO 3 gathers; shape (stages, plans) [B]."""
        dense, sparse, ends = parameters
        weight, end_weight, gradient, optimizer = self._state_bytes(zero)
        whole = (dense + ends, sparse)
        shares = (dense + ends) / gpu.dense_group + sparse / gpu.expert_group

        def states_share(from_stage: int) -> Floats:
            return shares if zero >= from_stage else whole[0] + whole[1]

        low = end_weight - weight
        end_share = ends / gpu.dense_group if zero >= SHARDED_WEIGHTS else ends
        states = (
            weight * states_share(SHARDED_WEIGHTS) + low * end_share,
            gradient * states_share(SHARDED_GRADIENTS),
            optimizer * states_share(SHARDED_OPTIMIZER),
        )
        if zero < SHARDED_WEIGHTS:
            return states, np.zeros_like(dense)
        layer = (dense + sparse) / np.maximum(stages.layers, 1.0)
        gathered = (4 + 2 + gradient) * layer + 2 * ends
        if self.torch:  # kept over all microbatches where stages wait for each other
            stage = (2 + gradient) * (dense + ends + sparse)
            gathered = np.where(gpu.stages > 1, stage, gathered)
        return states, gathered

    def _state_bytes(self, zero: int) -> tuple[float, float, float, float]:
        """A weight, one of embedding and head, a gradient, the optimizer's states of one [B]."""
        gradient = self.gradient_bytes or self.stack.gradient_bytes
        optimizer = self.optimizer_bytes or self.stack.optimizer_bytes
        weight, end_weight = FORMATS[self.precision][1], 2.0
        if self.torch:
            weight = 2.0
        elif self.stack.keeps == "xla":
            weight = end_weight = 0.0  # its 32-bit copy is the optimizer's
        if self.torch and zero >= SHARDED_WEIGHTS:
            weight = end_weight = COPY_BYTES
            optimizer = optimizer - COPY_BYTES
        return weight, end_weight, gradient, optimizer * (1 - self.optimizer_offload)

    def _parameters(
        self, gpu: GpuShare, stages: StageColumns, counts: StageLayers
    ) -> tuple[Floats, Floats, Floats]:
        """Weights on a GPU: dense, of experts, of embedding and head; shape (stages, plans) [1]."""
        model, t = self.model, gpu.tensor
        dense, sparse = np.zeros_like(stages.layers), np.zeros_like(stages.layers)
        for kind, count in zip(counts.kinds, counts.layers, strict=True):
            weights, experts = layer_weights(model, kind, gpu)
            dense = dense + count * weights
            sparse = sparse + count * experts
        table = model.vocabulary * model.hidden_size / t
        if model.prediction_layers:
            kinds: tuple[Kind, ...] = further_kinds(model)
            norms = (1 if model.mamba is not None else 2) * model.hidden_size / t
            for kind in kinds:
                weights, experts = layer_weights(model, kind, gpu)
                more = np.where(stages.last, model.prediction_layers, 0.0)
                dense = dense + more * (weights - norms)
                sparse = sparse + more * experts
            dense = dense + more * 2 * model.hidden_size**2 / t
            if not model.tied_embeddings:
                dense = dense + np.where(stages.last & (gpu.stages > 1), table, 0.0)
        first = table + self.positions * model.hidden_size / t
        head = stages.last if not model.tied_embeddings else stages.last & (gpu.stages > 1)
        ends = np.where(stages.index == 0, first, 0.0) + np.where(head, table, 0.0)
        return dense, sparse / gpu.experts_apart, ends


class PlanStages(Columns, frozen=True, eq=False):
    """Plans on the stages that may be the fullest: what all rungs of a ladder share.

    Parameters
    ----------
    memory, gpu
        Rules; what a GPU has of every plan, shape (plans,).
    stages, counts
        Which stages, and their layers, shape (stages, plans).
    parameters
        Weights: dense, of experts, of both ends, shape (stages, plans) each [1].
    states, gathered, workspace
        Weights, gradients and optimizer; what ZeRO 3 gathers; of libraries [B].
    in_flight, head, embedding
        Microbatches in flight [1]; what the loss holds, and the embedding of a microbatch, shape
        (stages, plans) [B].
    whole
        What a layer of each kind keeps of a microbatch if nothing is computed again, shape
        (plans,) [B].
    """

    memory: StackMemory
    gpu: GpuShare
    stages: StageColumns
    counts: StageLayers
    parameters: tuple[Floats, Floats, Floats]
    states: tuple[Floats, Floats, Floats]
    gathered: Floats
    workspace: float
    in_flight: Floats
    head: Floats
    embedding: Floats
    whole: dict[Kind, Floats]

    def sharing(self, zero: int) -> "PlanStages":
        """The same under another ZeRO stage."""
        states, gathered = self.memory.states(self.gpu, self.stages, self.parameters, zero)
        return replace(self, states=states, gathered=gathered)

    def held(
        self,
        recompute: Recomputation = NOTHING,
        *,
        block: Amount = 0.0,
        offload_layers: Amount = 0.0,
    ) -> Held:
        """What the fullest stage holds; as of :meth:`StackMemory.held`."""
        activations, buffer = self._working(recompute, block, offload_layers)
        everything = Held(
            self.stages.index.astype(np.int64),
            *self.states,
            activations,
            buffer,
            self.gathered,
            np.full_like(self.in_flight, self.workspace),
            self.in_flight,
            self.stages.layers,
        )
        fullest = everything.total.argmax(axis=0)
        place = (fullest, np.arange(len(fullest)))
        return Held(*(getattr(everything, name)[place] for name in Held.__struct_fields__))

    def total(
        self,
        recompute: Recomputation = NOTHING,
        *,
        block: Amount = 0.0,
        offload_layers: Amount = 0.0,
    ) -> Floats:
        """The peak alone, shape (plans,) [B]."""
        activations, buffer = self._working(recompute, block, offload_layers)
        return np.asarray((self._lasting + activations + buffer).max(axis=0))

    @property
    def _lasting(self) -> Floats:
        """What no rung changes, shape (stages, plans) [B]."""
        weights, gradients, optimizer = self.states
        return weights + gradients + optimizer + self.gathered + self.workspace

    def _working(
        self, recompute: Recomputation, block: Amount, offload_layers: Amount
    ) -> tuple[Floats, Floats]:
        """Activations, and the loss or what runs backward, shape (stages, plans) [B]."""
        memory, gpu, counts, rows = self.memory, self.gpu, self.counts, self.whole
        if recompute.layers == "block":
            block = float(recompute.block)
        if recompute.layers == "half" or np.any(block):
            counts = StageLayers.of(memory.model, self.stages, recompute, block)
        if recompute.modules or recompute.layers == "full":
            rows = {kind: _total(memory.kept(gpu, kind, recompute)) for kind in counts.kinds}
        kept: Floats = counts.kept(rows, 2 * gpu.slice * memory.model.hidden_size)
        if np.any(offload_layers):
            kept = kept - counts.offloaded(rows, np.asarray(offload_layers))
        share: Amount = 0.5 if {"mlp", "moe"} & {*recompute.modules} else 0.0
        share = np.where(np.asarray(block) > 0, 1.0, share)
        if recompute.layers in ("full", "half"):
            share = 1.0
        share = share + np.where(np.asarray(offload_layers) > 0, 2.0, 0.0)
        backward = memory.backward(gpu) + share * counts.most_of_one(self.whole)
        return self.in_flight * (kept + self.embedding), np.maximum(backward, self.head)

    def least_block(self, peak_bytes: float) -> Floats:
        """Fewest first layers of every stage that, computed again, keep plans below a peak.

        Parameters
        ----------
        peak_bytes
            The peak [B].

        Returns
        -------
        Floats
            From 1 to one less than the fullest stage has, 0 where none fits; shape (plans,) [1].
        """
        memory = self.memory
        most = np.full_like(self.gpu.stages, float(max(memory.stage_layers, default=0)))
        if not memory.stage_layers:
            most = np.ceil(memory.model.layers / self.gpu.stages)
        activations, buffer = self._working(NOTHING, 1.0, 0.0)
        # What one layer less frees of every kind, and how many there are of each up to a layer.
        smallest = 2 * self.gpu.slice * memory.model.hidden_size
        before, start = layer_kinds(memory.model)[1][:, 2], self.stages.first.astype(np.int64)
        end = start + self.stages.layers.astype(np.int64)
        freed = [
            (row, np.where(end > start, self.in_flight, 0.0) * (self.whole[kind] - smallest))
            for row, kind in enumerate(self.counts.kinds)
        ]

        def gone(count: Floats, some: Ints | slice = slice(None)) -> Floats:
            begin = start[:, some]
            last = np.minimum(begin + count.astype(np.int64), end[:, some])
            return sum(
                (
                    (before[row, last] - before[row, begin]) * bytes_of[:, some]
                    for row, bytes_of in freed
                ),
                np.zeros(begin.shape),
            )

        first = np.ones_like(most)
        excess = self._lasting + activations + buffer + gone(first) - peak_bytes
        count = np.where((gone(first) >= excess).all(axis=0) & (most > 1), 1.0, 0.0)
        more = np.flatnonzero((count == 0) & (most > 1))

        def enough(layers: Floats) -> Bools:
            return np.asarray((gone(layers, more) >= excess[:, more]).all(axis=0))

        count[more] = _least(most[more] - 1.0, enough)
        return count

    def least_offload(self, peak_bytes: float) -> Floats:
        """Fewest layers whose activations, in the host's memory, keep plans below a peak.

        Parameters
        ----------
        peak_bytes
            The peak [B].

        Returns
        -------
        Floats
            From 1 to one less than the model has; 0 where none fits, or plans have several stages;
            shape (plans,) [1].
        """
        most = np.where(self.gpu.stages == 1, self.memory.model.layers - 1.0, 0.0)
        return _least(most, lambda count: self.total(offload_layers=count) <= peak_bytes)


def _total(rows: Rows) -> Floats:
    """All operations together, shape (plans,) [B]."""
    return sum(rows.values(), np.zeros(1))


def _least(most: Floats, fit: Callable[[Floats], Bools]) -> Floats:
    """Least count from 1 to ``most`` with which plans fit, which more never undoes; 0: none."""
    high = np.maximum(most, 0.0)
    high = np.where((high > 0) & fit(np.maximum(high, 1.0)), high, 0.0)
    low = np.minimum(high, 1.0)
    while (low < high).any():
        middle = (low + high) // 2
        enough = fit(middle)
        high = np.where(enough, middle, high)
        low = np.where(enough, low, np.minimum(middle + 1, high))
    return high
