"""Words that inputs choose from; the engines that know what they mean import them from here."""

from collections.abc import Mapping
from typing import Literal

LARGEST_BATCH = 10**9
"""Sequences of the largest batch, far more than any model is trained with [1]."""
AS_PUBLISHED = "as-published"
"""Stands for a hall where a design keeps the media of its source."""
Ports = Literal["shared", "full"]
"""What the links of a GPU on a direct fabric have: one port together, or one each."""
Cards = Literal["bought", "included"]
"""Network cards: on the bill, or inside the servers."""
NetworkKind = Literal["infiniband", "roce", "omni-path", "efa", "tcpxo", "slingshot", "torus"]
"""What a network is made of: collectives get different shares of its bandwidth, and start at
different times. Clouds have their own: efa on AWS, tcpxo on the first H100 of Google."""
Strategy = Literal["1d", "2d", "summa"]
AnyStrategy = Literal["1d", "2d", "summa", "all"]
"""Tensor parallelism."""
Mode = Literal["corrected", "published-code"]
Space = Literal["free", "model"]
Recompute = Literal["none", "selective", "half", "full"]
Interleave = Literal["none", "whole", "any"]
ScheduleName = Literal["1f1b", "gpipe", "interleaved", "zb-1p", "zb-2p"]
Optimizer = Literal["adam", "sgd"]
MemoryPart = Literal["optimizer", "gradients", "weights", "activations", "buffers"]
AfterFailure = Literal["go-on", "reconfigure", "replace"]
"""After a failed GPU: without its domain, with an idle GPU of it, or with spare ones beside it."""
Policy = Literal["states-first", "uniform"]
"""What spills first into an expanded memory."""
Execution = Literal["fused", "kernel-by-kernel"]
Precision = Literal["bf16", "fp8", "fp4"]
TrainingPrecision = Literal[
    "bf16", "fp8", "fp8-current", "fp8-cs", "fp8-delayed", "mxfp8", "nvfp4", "fp4"
]
"""Numbers of a training run's products; fp8, fp8-current and fp8-cs have a scale a tensor, of the
numbers themselves; nvfp4 is fp4."""
Dispatcher = Literal["alltoall", "deepep", "hybridep", "fsdp"]
"""Who brings tokens to their experts; fsdp gathers experts, and tokens stay."""
Graphs = Literal["none", "router", "attn", "mixer", "full"]
"""What is launched as graphs: the router, attention and router, attention and Mamba, all of it."""
MemoryModel = Literal["stack", "model"]
"""What memory holds: as training software keeps it, or as the iteration model's paper has it."""
ServingFormat = Literal[Precision, "int4"]
"""Formats of stored weights; whole numbers of 4 bits are multiplied in 16 bits."""
KernelSource = Literal["measured", "fitted", "roofline"]
"""How served kernels are timed: by tables where there are some, by forms alone, at whole rates."""
TimeOrigin = Literal["table", "table-other-shape", "form"]
"""What the time of a kernel is from: a table, one of other shapes or another stack, or a form."""
Scheme = Literal["sequence", "tree"]
"""What a smaller model drafts."""
Drafting = Literal["sequence", "tree", "mtp"]
"""The same, or that layers of the model itself draft: multi-token prediction."""
Exchange = Literal["gather", "deepep", "mnnvl"]
"""How copies of attention bring tokens to the experts they share: all of them to all GPUs, or each
to the GPUs of its experts, by DeepEP or over multi-node NVLink."""
SyncKind = Literal["full", "relay", "experts", "sharded", "delta"]
"""How new weights are sent to servers of rollouts."""
SyncOver = Literal["network", "storage"]
"""What new weights are sent over to the servers of rollouts."""
WirePrecision = Literal["bf16", "fp8", "mxfp8", "fp4"]
"""Numbers of weights on their way."""
WindowCache = Literal["full", "window"]
"""What layers with windows keep of a request: all of it, or what the window sees."""
Evidence = Literal["shipping", "announced", "rumoured", "derived", "assumed"]
"""What a value of a catalog is made of."""
Confirmed = Literal["primary", "secondary", "carried", "computed", "none"]
"""How far its source was read."""
Cooling = Literal["air", "cold-plate", "immersion"]
"""What takes the heat off the chips."""
OpticsKind = Literal["dsp", "lpo", "cpo"]
"""Ends of optical links: modules with a DSP, linear ones, or optics packaged with the switch."""
End = Literal["low", "base", "high"]
"""Which end of a range."""
Layout = Literal["mesh", "ring", "line", "hub"]
"""Which sites have fibre to which."""
AcrossSites = Literal["data", "pipeline", "both"]
"""What of a job lies in several sites: replicas, stages, or whatever is faster."""
LONGEST_KM = 40_000.0
"""Length of the equator: no two sites are farther apart by a sensible route [km]."""
LEAST_RATIO, MOST_RATIO = 0.1, 1e6
"""Least and greatest rate of a site's GPUs over what leaves it [1]."""

FOLDERS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "cluster": {
        "accelerator": ("accelerator", "traffic/accelerators"),
        "expanded_memory": ("memory", "traffic/memories"),
        "fabric": ("fabric", "topologies"),
        "fabrics": ("fabric", "topologies"),
        "hall": ("floor-plan", "topologies/floor-plans"),
        "networks": ("network", "topologies/networks"),
        "ocs": ("switch", "costing/switches"),
        "switch": ("switch", "costing/switches"),
    },
    "workload": {
        "draft": ("model", "traffic/models"),
        "iteration_model": ("iteration-model", "traffic/iteration-models"),
        "model": ("model", "traffic/models"),
        "recovery": ("recovery", "costing/recovery"),
        "rollout_accelerator": ("accelerator", "traffic/accelerators"),
        "rollout_stack": ("serving-stack", "traffic/serving-stacks"),
    },
    "books": {
        "cabling": ("cabling", "costing/cabling"),
        "economics": ("economics", "costing/economics"),
        "failures": ("failures", "costing/failures"),
        "power": ("power", "costing/power"),
        "prices": ("prices", "costing/prices"),
    },
}
"""Role and folder of the catalog files that fields name, by part and field."""
