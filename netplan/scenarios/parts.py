"""The parts of a scenario: the cluster, what runs on it, and the books that it is counted with.

A field is a key of the YAML file, a flag, a keyword of Python and an axis of studies at once. What
is not said is None: it falls to the accelerator, the model, the iteration model or the book.
Defaults of all other fields are those of the scenario ``hgx-b200``, the one of every command.
Parts describe themselves (`netplan.scenarios.described`).
"""

from typing import Annotated, Literal

from msgspec import Meta, structs

from netplan.errors import InputError
from netplan.inputs import choices
from netplan.inputs.choices import LARGEST_BATCH
from netplan.inputs.option import Option
from netplan.inputs.readers import batch, per_gpu, power_or_share, release_month
from netplan.scenarios.described import Described, Typed, read_with
from netplan.scenarios.inner_parts import ExpertRouting, Load, SiteSpan, Software, Terms
from netplan.workloads.recomputation import Recomputation

LARGEST_CLUSTER = 4_194_304
"""GPUs that a cluster may have [1]."""
LEAST_FOUND = 0.01
"""Least share of a network's rate that traffic may find [1]."""
BatchSize = Annotated[int, Meta(ge=1, le=LARGEST_BATCH)]
Whole = Annotated[int, Meta(ge=1, le=LARGEST_CLUSTER)]
FabricNames = Annotated[tuple[str, ...], Meta(min_length=1)]
FABRICS: FabricNames = (
    *("rail-only", "rail-optimized", "fat-tree", "dgx-superpod", "dragonfly"),
    *("torus-2d", "torus-3d"),
)


class Cluster(Described, frozen=True, kw_only=True):
    """What is bought: GPUs, their HB domains, switches, cards and fabrics.

    Examples
    --------
    >>> Cluster(gpus=8192, accelerator="h100-80gb").radix
    128
    """

    gpus: Annotated[
        int, Meta(ge=1, le=LARGEST_CLUSTER), Typed("GPUs in the cluster.", unit="GPUs", basic=True)
    ] = 32_768
    accelerator: Annotated[str, Option("On which GPU.", basic=True)] = "b200-1000w"
    gpu_power_cap: Annotated[
        float | str | None,
        Option(
            "What a GPU may draw, such as 500W or 80%: slower by published curves.",
            "power-or-share",
            otherwise="its full power",
            quiet=True,
        ),
    ] = None
    hb_size: Annotated[
        Whole | None,
        Typed("GPUs per HB domain.", unit="GPUs", low=1, otherwise="the accelerator's", basic=True),
    ] = None
    radix: Annotated[
        Annotated[int, Meta(ge=4, le=1024)] | None,
        Typed("Ports per switch.", unit="ports", otherwise="those of --switch", basic=True),
    ] = 128
    switch: Annotated[
        str | None, Option("Switch model, or what it forwards: 51.2T, 64x800G.", otherwise="any")
    ] = None
    nic_gbps: Annotated[
        Annotated[float, Meta(gt=0, le=100_000)] | None,
        Typed(
            "Rate of a GPU's network ports together.",
            flag="--nic",
            unit="Gb/s",
            low=1e-3,
            high=100_000,
            otherwise="the accelerator's",
            basic=True,
        ),
    ] = None
    fabric: Annotated[str, Option("On which fabric.", basic=True)] = "rail-optimized"
    fabrics: Annotated[
        FabricNames,
        Option(
            "Only this fabric (repeatable); all: every one.",
            flag="--fabric",
            many=True,
            basic=True,
            aliases=("fabric",),
            otherwise="the scenario's",
        ),
    ] = FABRICS
    oversubscription: Annotated[
        Annotated[float, Meta(ge=1)] | None,
        Option("Down over up at Clos leaves, such as 3:1.", "ratio", low=1),
    ] = None
    hall: Annotated[
        str,
        Option(
            "Where GPUs and switches stand, and so every cable; as-published: by its design.",
            metavar="HALL",
            aliases=("floor_plan",),
        ),
    ] = "leaves-in-rack"
    ports: Annotated[
        choices.Ports,
        Typed("Links of a torus or BCube: shared (one port's rate, split) or full (a port each)."),
    ] = "shared"
    cards: Annotated[
        choices.Cards, Typed("Network cards: on the bill, or inside the servers and not on it.")
    ] = "bought"
    networks: Annotated[
        tuple[str, ...],
        Option(
            "Paid for, too: storage, management, out-of-band, accelerators, hb-gear (repeatable).",
            flag="--with",
            many=True,
        ),
    ] = ()
    network_kind: Annotated[
        choices.NetworkKind | None,
        Typed(
            "What the network is made of, for calibrated and measured times.",
            otherwise="the fabric's",
        ),
    ] = None
    as_found: Annotated[
        Annotated[float, Meta(gt=0, le=1)],
        Typed(
            "Share of the network's rate that traffic finds, as the log of a cluster shows it.",
            metavar="SHARE",
            low=LEAST_FOUND,
            high=1,
            quiet=True,
        ),
    ] = 1.0
    ocs: Annotated[
        str | None, Option("Optical circuit switch for tori.", otherwise="direct fibres")
    ] = None
    expanded_memory: Annotated[
        str | None,
        Option(
            "Memory behind that of each GPU, or none.",
            metavar="NAME",
            otherwise="the accelerator's, if any",
        ),
    ] = None
    graph: Annotated[
        str | None,
        Option("This graph (.graphml, .csv, .topo, .ibnetdiscover), not a fabric.", "path"),
    ] = None
    host_gpus: Annotated[
        Whole | None, Option("GPUs of a server: name servers, not GPUs.", "whole", unit="GPUs")
    ] = None
    gpus_per_rack: Annotated[
        Whole | None, Option("The same without a hall: racks and feeds.", "whole")
    ] = None
    switches_per_rack: Annotated[
        Whole | None, Typed("Beside the former.", low=1, otherwise="as many as on the bill")
    ] = None
    optics: Annotated[
        choices.OpticsKind,
        Typed("What optical ends of links are, for their failures: the bill has modules with DSP."),
    ] = "dsp"
    spare_domains: Annotated[int, Meta(ge=0), Typed("Idle HB domains beside the job's.")] = 0
    spare_gpus: Annotated[
        Whole | None,
        Typed(
            "Idle GPUs in each HB domain (--policy reconfigure), or beside those that share circuit"
            " switches (replace).",
            low=1,
            otherwise="one a circuit switch of a domain, or one block",
        ),
    ] = None
    span: SiteSpan = SiteSpan()

    def __post_init__(self) -> None:
        """Read a power cap as it is written."""
        if isinstance(self.gpu_power_cap, str):
            watts = read_with(power_or_share, self.gpu_power_cap, "--gpu-power-cap: ")
            structs.force_setattr(self, "gpu_power_cap", watts)

    @property
    def switch_radix(self) -> int:
        """Ports of a switch [1]; an InputError where nothing says it, as of a model alone."""
        if self.radix is None:
            raise InputError("how many ports has a switch? Give --radix, or a model by --switch")
        return self.radix


class TieredMemory(Described, frozen=True, kw_only=True):
    """What a training run holds, and what of it lies elsewhere: in the host, or expanded."""

    offload: Annotated[
        tuple[str, ...],
        Option(
            "In the expanded memory (optimizer, gradients, weights, activations), or in the host's"
            " (activations:K, layers, or optimizer:F, a share; repeatable).",
            many=True,
            metavar="PART",
        ),
    ] = ()
    memory_model: Annotated[
        choices.MemoryModel | None,
        Typed(
            "What memory holds: as training software keeps it, or as the iteration model has it.",
            flag="--memory",
            otherwise="stack under calibrated and measured, else model",
        ),
    ] = None
    memory_policy: Annotated[
        choices.Policy | None,
        Typed(
            "What spills there first: states before activations, or all alike.",
            otherwise="the iteration model's",
        ),
    ] = None
    imbalance: Annotated[
        float,
        Meta(ge=1),
        Typed("Tokens of the busiest GPU's experts over the mean: memory, and time by date."),
    ] = 1.0
    ignore_memory: Annotated[bool, Typed("Time plans that fit into no memory, too.")] = False


class Checkpoints(Described, frozen=True, kw_only=True):
    """How a training run comes back after a failure."""

    recovery: Annotated[
        str,
        Option("How: llama3, cold-restart, warm-standby, in-memory, or a file.", metavar="NAME"),
    ] = "llama3"
    checkpoint_write_minutes: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        Option(
            "Minutes that writing a checkpoint holds the job up.",
            "real",
            flag="--checkpoint-write",
            unit="min",
            otherwise="by the rate of --with storage, else the recovery's",
        ),
    ] = None
    checkpoint_interval_minutes: Annotated[
        float | None,
        Typed(
            "Minutes between two.",
            flag="--checkpoint-interval",
            unit="min",
            otherwise="the recovery's; best where it has none",
        ),
    ] = None
    restart_minutes: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        Option(
            "Minutes from a failure to computing again.",
            "real",
            flag="--restart",
            unit="min",
            otherwise="the recovery's",
        ),
    ] = None


ALIASES = (
    ("recompute", "attention", "selective"),
    ("precision", "fp8-current", "fp8"),
    ("precision", "fp8-cs", "fp8"),
    ("precision", "nvfp4", "fp4"),
)
"""Inputs, other names of values, and those."""
CachePrecision = Annotated[
    str | None,
    Option(
        "Numbers of the KV cache: bf16, fp8, fp4 or int4.",
        metavar="NAME",
        otherwise="fp8 with weights of fp8 or fp4, else bf16",
    ),
]
FIX = Option(
    "Give a value, such as pipeline=64 (repeatable).",
    "numbers",
    flag="--fix",
    metavar="NAME=N",
    many=True,
)


class Training(Described, frozen=True, kw_only=True, tag_field="kind", tag="training"):
    """What is trained, and how: model, batch, numbers, software, plan.

    Examples
    --------
    >>> Training(batch="0.25/gpu").batch_on(32_768), Training(batch=None).batch_on(8)
    (8192, None)
    """

    model: Annotated[str, Option("What is trained: a model of any family.", basic=True)] = (
        "llama-3-405b"
    )
    batch: Annotated[
        BatchSize | str | None,
        Option(
            "Global batch, or 0.25/gpu (with experts at least the model's).",
            "batch",
            unit="sequences",
            low=1,
            high=LARGEST_BATCH,
            otherwise="the model's",
            basic=True,
        ),
    ] = "0.25/gpu"
    precision: Annotated[
        choices.TrainingPrecision | None,
        Typed("Numbers of the layers' products, under calibrated.", otherwise="bf16", basic=True),
    ] = None
    stack: Annotated[
        str | None,
        Option(
            "Training software, under iteration model calibrated: a name or a file.",
            metavar="NAME",
            otherwise="megatron-2025 under calibrated, maxtext on TPUs",
        ),
    ] = None
    fixed: Annotated[dict[str, Whole] | None, FIX] = None
    iteration_model: Annotated[
        str, Option("How time is modelled: calibrated, 4d, or others.", basic=True)
    ] = "calibrated"
    recompute: Annotated[
        str | None,
        Option(
            "Computed again: auto, none, half or full (layers), block:K (the first of each"
            " stage), or modules such as moe_act+layernorm.",
            metavar="WHAT",
            otherwise="auto under calibrated and measured, else the iteration model's",
            basic=True,
        ),
    ] = None
    schedule: Annotated[
        choices.ScheduleName | None,
        Typed(
            "Order of the passes of a pipeline; zb-1p and zb-2p under calibrated.",
            otherwise="1f1b; interleaved where the plan has several stages a GPU",
        ),
    ] = None
    zero_stage: Annotated[
        Literal[0, 1, 2, 3] | None,
        Typed(
            "ZeRO stage.",
            flag="--zero",
            low=0,
            high=3,
            otherwise="1 to 3 searched by memory stack, else the iteration model's",
        ),
    ] = None
    tokens: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Typed("Tokens of a training run.", otherwise="the model's"),
    ] = None
    strategy: Annotated[choices.AnyStrategy, Option("Tensor parallelism: 1d, 2d, summa, all.")] = (
        "1d"
    )
    mode: Annotated[choices.Mode, Option("Of the 4d model: corrected or published-code.")] = (
        "corrected"
    )
    space: Annotated[
        choices.Space,
        Typed(
            "Plans: free (uneven stages and batches, idle GPUs), or those of the iteration model."
        ),
    ] = "free"
    experts: Annotated[Whole, Typed("Experts of a layer.", low=1)] = 1
    top_k: Annotated[Whole, Typed("Experts of a token.", low=1)] = 1
    expert_degree: Annotated[
        Whole | None,
        Typed("GPUs that share the experts.", unit="GPUs", low=1, otherwise="searched"),
    ] = None
    use_per_domain: Annotated[
        Whole | Literal["auto"] | None,
        Option(
            "GPUs of each HB domain that plans use, such as 64 of 72; the others stay idle.",
            "whole-or-auto",
            metavar="N|auto",
            unit="GPUs",
            low=1,
            otherwise="auto: searched",
        ),
    ] = None
    optimizer: Annotated[
        choices.Optimizer | None,
        Typed(
            "States beside the weights: adam (12 bytes a parameter), or sgd without momentum (4).",
            otherwise="the iteration model's, Adam's in ours",
        ),
    ] = None
    sequence_parallel: Annotated[
        bool,
        Typed(
            "Norms and dropouts have all rows on every tensor GPU.", flag="--no-sequence-parallel"
        ),
    ] = True
    tensor_overlap: Annotated[
        bool,
        Typed(
            "Tensor collectives as if the stack did not overlap them, under calibrated.",
            flag="--no-tensor-overlap",
        ),
    ] = True
    interleave: Annotated[
        choices.Interleave | None,
        Typed(
            "Interleaved schedules: none, in whole groups of microbatches, any.",
            otherwise="whole by memory stack, else the iteration model's",
        ),
    ] = None
    embedding: Annotated[bool, Typed("Count the token embedding.")] = False
    lm_head: Annotated[bool, Typed("Count the output head.")] = False
    routing: ExpertRouting = ExpertRouting()
    software: Software = Software()
    memory: TieredMemory = TieredMemory()
    checkpoints: Checkpoints = Checkpoints()

    def __post_init__(self) -> None:
        """Refuse a batch that is none; read other names of values."""
        for name, alias, meant in ALIASES:
            if getattr(self, name) == alias:
                structs.force_setattr(self, name, meant)
        if isinstance(self.batch, str):
            read_with(batch, self.batch, "batch: ")
        if self.recompute not in (None, "auto"):
            read_with(Recomputation.read, self.recompute)

    def batch_on(self, gpus: int) -> int | None:
        """The global batch on so many GPUs.

        Parameters
        ----------
        gpus
            GPUs of the cluster [1].

        Returns
        -------
        int or None
            Sequences of an iteration [1]; None where the model's own is meant.
        """
        share = per_gpu(self.batch)
        if share is None:
            return None if self.batch is None else int(self.batch)
        return min(max(1, round(share * gpus)), LARGEST_BATCH)


class Serving(Described, frozen=True, kw_only=True, tag_field="kind", tag="serving"):
    """What is served, to how many, how soon.

    Examples
    --------
    >>> Serving(model="llama-3.1-70b").prompt
    1024
    """

    model: Annotated[str, Option("Which transformer: name or file.", basic=True)] = "deepseek-r1"
    batch: Annotated[
        BatchSize | None, Typed("Requests that one server decodes together.", low=1)
    ] = None
    precision: Annotated[
        str, Option("Numbers of the weights: bf16, fp8, fp4 or int4.", basic=True)
    ] = "fp8"
    stack: Annotated[
        str | None,
        Option(
            "Serving software.",
            metavar="NAME",
            otherwise="typical-server; no-host on dataflow chips",
        ),
    ] = None
    software_date: Annotated[
        str | None,
        Option("Month of that software.", metavar="YYYY-MM", otherwise="that of the stack"),
    ] = None
    exchange: Annotated[
        choices.Exchange | None,
        Typed(
            "How copies of attention bring tokens to the experts they share: all of them gathered,"
            " or sent to their GPUs.",
            otherwise="the stack's",
        ),
    ] = None
    fixed: Annotated[dict[str, Whole] | None, FIX] = None
    prompt: Annotated[Whole, Typed("Tokens of a prompt.", unit="tokens", low=1, basic=True)] = 1024
    output: Annotated[Whole, Typed("Tokens of an answer.", unit="tokens", low=1, basic=True)] = 1024
    concurrency: Annotated[
        Whole | None,
        Typed(
            "Requests in flight in the whole cluster.",
            low=1,
            otherwise="1 to 8 a server, then four a doubling, to what its memory holds",
        ),
    ] = None
    requests: Annotated[
        Whole | None,
        Typed(
            "Requests in all: at once, tokens counted over the whole run; of --rate or --trace.",
            low=1,
        ),
    ] = None
    ttft_ms: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Typed(
            "Time to first token at most.",
            unit="ms",
            low=1e-3,
            high=1e9,
            basic=True,
            otherwise="2000 if neither is given",
        ),
    ] = None
    tpot_ms: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Typed(
            "Time per token at most.",
            unit="ms",
            low=1e-3,
            high=1e9,
            basic=True,
            otherwise="50 if neither is given",
        ),
    ] = None
    level: Annotated[
        bool,
        Typed(
            "No level in place of the usual one, TTFT 2 s and TPOT 50 ms.",
            flag="--no-level",
            quiet=True,
        ),
    ] = True
    any_plan: Annotated[
        bool, Typed("Plans that the serving software does not run, too.", quiet=True)
    ] = False
    kv_precision: CachePrecision = None
    kernels: Annotated[
        choices.KernelSource | None,
        Typed(
            "How kernels are timed: by tables, by forms fitted to them, at whole rates.",
            otherwise="measured; a roofline for dataflow chips",
        ),
    ] = None
    disaggregated: Annotated[bool, Typed("Prompts have servers of their own.")] = False
    routing: ExpertRouting = ExpertRouting()
    imbalance: Annotated[
        float,
        Meta(ge=1),
        Typed(
            "Tokens of the busiest GPU's experts over the mean, in place of --expert-skew.",
            quiet=True,
        ),
    ] = 1.0
    draft: Annotated[
        str | None, Option("Model that drafts tokens for speculation.", metavar="NAME")
    ] = None
    window: Annotated[
        Annotated[int, Meta(ge=1, le=1000)] | None,
        Typed("Tokens, or levels of a tree, that are drafted a step."),
    ] = None
    acceptance: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        Typed("Share of drafted tokens that the model accepts, 0 to 1."),
    ] = None
    speculation: Annotated[
        choices.Drafting | None,
        Typed("What is drafted; mtp: by a layer of the model itself.", otherwise="sequence"),
    ] = None
    draft_tokens: Annotated[
        Annotated[int, Meta(ge=1, le=64)] | None,
        Typed(
            "Tokens that --speculation mtp drafts a step.",
            otherwise="as many as the model has layers for, or 1",
            quiet=True,
        ),
    ] = None
    load: Load = Load()
    restart_minutes: Annotated[
        float,
        Meta(ge=0),
        Option("Minutes from a failure to computing again.", "real", flag="--restart", unit="min"),
    ] = 10.0

    def __post_init__(self) -> None:
        """Refuse what is no month."""
        if isinstance(self.software_date, str):
            read_with(release_month, self.software_date)


class Books(Described, frozen=True, kw_only=True):
    """What everything is counted with: prices, power, cabling, failures, economics.

    Examples
    --------
    >>> Books(prices="rail-only-2023").power
    '2026'
    """

    prices: Annotated[str, Option("Price book.", basic=True)] = "2026"
    power: Annotated[str, Option("Power book.")] = "2026"
    cabling: Annotated[str, Option("Modules and cables.")] = "2026"
    economics: Annotated[str, Option("PUE, tariff, rate.")] = "2026"
    failures: Annotated[str, Option("Book of failure rates.", basic=True)] = "2026"
    rates: Annotated[choices.End, Typed("Which end of the failure book's ranges.")] = "base"
    bad_servers: Annotated[
        Annotated[float, Meta(ge=0, le=0.25)],
        Option(
            "Servers that fail as often as the failure book's bad ones, such as 1.2%.", "percent"
        ),
    ] = 0.0
    currency: Annotated[str | None, Option("Currency of the answer.", otherwise="the book's")] = (
        None
    )
    discount: Annotated[
        Annotated[float, Meta(ge=0, lt=1)] | None,
        Option("Off every price.", "percent", otherwise="the book's"),
    ] = None
    spares: Annotated[
        tuple[str, ...], Option("Spares: 2%, a part=3%, or level=95% (see docs).", many=True)
    ] = ()
    terms: Terms = Terms()
