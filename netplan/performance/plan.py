"""A parallel plan, its time and memory, the answer of a search, and instances side by side.

Instances of a model share one cluster: how many run at once, how long until all are done? One that
uses g of n GPUs leaves room for others like it: as many as each level has parts of its size for,
n/g where g divides n. Its k copies run in rounds of so many, and all of them are done after

    turnaround = time of one instance x ceil(k / instances at once),

that is time(g) ceil(k g/n) (Kadiyala et al., COMET, arXiv:2211.16648, Sec. V-C). Fewer GPUs an
instance hold more bytes each, of which an expanded memory may take what spills; so more instances
run at once, each of them longer. Left out: what instances cost each other on a network that blocks.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

from msgspec import Struct, field

from netplan.inputs.choices import Strategy
from netplan.levels import Level
from netplan.performance.dated.run import SoftwareGrowth
from netplan.performance.error_bars import ErrorBar, bar_dict, time_text
from netplan.performance.memory_verdict import PlanMemory
from netplan.performance.setting import Setting
from netplan.records import asdict, replace
from netplan.reports.schema import plain_at
from netplan.traffic.placement import Degrees, Placement
from netplan.units import counted, si
from netplan.workloads.operations import Sharding
from netplan.workloads.program import Zero
from netplan.workloads.recomputation import NOTHING, Recomputation


class Plan(Struct, frozen=True):
    """One parallel plan: where its degrees lie, and how the batch runs through it.

    Parameters
    ----------
    placement
        Parallel degrees at each level. Data parallel GPUs that share no expert are counted by
        ``expert``.
    microbatch
        Sequences of one microbatch, b; a fraction where replicas share a sequence [1].
    microbatches
        Microbatches of one pipeline in an iteration, m [1].
    interleave
        Interleaved stages of one GPU, v [1].
    panels
        SUMMA panels, n_b [1].
    recompute, zero, offload_layers
        What is computed again, the ZeRO stage, and layers whose activations lie in the host's
        memory, where the search varies them (`netplan.performance.ladder`).
    folded
        GPUs over which experts are spread, and GPUs that share one, where they are folded over
        tensor, context and data GPUs [1].

    Examples
    --------
    >>> from netplan.traffic.placement import Degrees
    >>> plan = Plan(Placement((Degrees(tensor=8), Degrees(data=2, pipeline=4))), 1, 16)
    >>> plan.gpus, plan.pipeline
    (64, 4)
    """

    json_parts = (
        *("tensor", "context", "expert", "pipeline", "data"),
        *("microbatch", "microbatches", "interleave", "panels", "*kept_facts"),
        *("?expert_tensor=folded.1", "hb=placement.levels.0", "levels=placement.levels"),
    )

    placement: Placement
    microbatch: float
    microbatches: int
    interleave: int = 1
    panels: int = 1
    recompute: Recomputation | None = None
    zero: Zero | None = None
    offload_layers: int = 0
    folded: tuple[int, int] | None = None

    @property
    def tensor(self) -> int:
        """GPUs over heads and columns [1]."""
        return self.placement.totals.tensor

    @property
    def context(self) -> int:
        """GPUs over the sequence [1]."""
        return self.placement.totals.context

    @property
    def expert(self) -> int:
        """GPUs over the experts [1]."""
        return self.experts_over

    @property
    def experts_over(self) -> int:
        """The same; where experts are folded over other dimensions, no factor of the GPUs [1]."""
        return self.folded[0] if self.folded else self.placement.totals.expert

    @property
    def expert_tensor(self) -> int:
        """GPUs that share an expert, as many as share the rest of a layer if not folded [1]."""
        return self.folded[1] if self.folded else self.tensor

    @property
    def data(self) -> int:
        """GPUs that see different sequences: not those that share experts, unless folded [1]."""
        totals = self.placement.totals
        return totals.data * totals.expert if self.folded else totals.data

    @property
    def pipeline(self) -> int:
        """Stages [1]."""
        return self.placement.totals.pipeline

    @property
    def gpus(self) -> int:
        """GPUs that the plan uses [1]."""
        return self.placement.gpus

    @property
    def sharding(self) -> Sharding:
        """How one microbatch is cut."""
        return Sharding.of(
            *(self.microbatch, self.tensor, self.context, self.panels),
            self.placement.totals.expert,
            experts_over=self.experts_over,
            expert_tensor=self.expert_tensor,
        )

    @property
    def shape(self) -> str:
        """Degrees as TPxPPxDP; 2D tensor parallelism in brackets, experts behind."""
        totals = self.placement.totals
        return shape_of(totals._replace(data=self.data, expert=self.expert))

    @property
    def shape_inside(self) -> str:
        """The same of what lies inside an HB domain."""
        return shape_of(self.placement.levels[0])

    @property
    def degrees(self) -> str:
        """Degrees with their names, such as ``TP8 PP64 DP64``; CP and EP where they are no 1."""
        names = {"TP": self.tensor, "CP": self.context, "PP": self.pipeline, "DP": self.data}
        known = {**names, "EP": self.expert}
        return " ".join(
            f"{name}{degree:,}"
            for name, degree in known.items()
            if degree > 1 or name not in ("CP", "EP")
        )

    @property
    def kept_words(self) -> tuple[str, ...]:
        """What it computes again, shards beyond the optimizer or sends to the host, a word each."""
        again = () if self.recompute in (None, NOTHING) else (str(self.recompute),)
        sharded = () if self.zero in (None, 1) else (f"ZeRO {self.zero}",)
        hosted = (f"offload {self.offload_layers}",) if self.offload_layers else ()
        return again + sharded + hosted

    @property
    def grid(self) -> str:
        """GPUs of a matrix that lies on a grid, tensor x context."""
        return f"{self.tensor}x{self.context}"

    @property
    def grid_inside(self) -> str:
        """The same of what lies inside an HB domain."""
        inside = self.placement.levels[0]
        return f"{inside.tensor}x{inside.context}"

    @property
    def schedule(self) -> str:
        """Microbatches of one pipeline x sequences of one microbatch."""
        return f"{self.microbatches:,} x {self.microbatch:,}"

    @property
    def schedule_words(self) -> str:
        """The same in words, such as ``128 microbatches of 1 sequence``."""
        batches = counted(self.microbatches, "microbatch", "microbatches")
        return f"{batches} of {self.microbatch:,g} sequence{'' if self.microbatch == 1 else 's'}"

    def applied_to(self, setting: Setting) -> Setting:
        """A setting with all that a search varies as this plan has it.

        Parameters
        ----------
        setting
            The setting that was searched.

        Returns
        -------
        Setting
            The same, where nothing was varied.
        """
        if self.recompute is None:
            return setting
        layers, options = -(-setting.layers // self.pipeline), setting.options
        variant = replace(options.variant, again=(*self.recompute.shares(layers).items(),))
        options = replace(
            options,
            variant=variant,
            zero_stage=self.zero,
            recomputation=self.recompute,
            offload_layers=self.offload_layers,
            kept_by_search=options.recomputation is None or options.kept_by_search,
        )
        return replace(setting, options=options)

    @property
    def kept_facts(self) -> dict[str, Any]:
        """What it computes again, shards and sends to the host, where a search varies them."""
        if self.recompute is None:
            return {}
        return {"recompute": str(self.recompute), **plain_at(self, "zero", "offload_layers")}


def shape_of(degrees: Degrees) -> str:
    """Degrees as TPxPPxDP; 2D tensor parallelism in brackets, experts behind.

    Examples
    --------
    >>> shape_of(Degrees(tensor=8, pipeline=4, data=2)), shape_of(Degrees(4, context=2, expert=8))
    ('8x4x2', '(4x2)x1x1xEP8')
    """
    tensor = f"{degrees.tensor}"
    if degrees.context > 1:
        tensor = f"({degrees.tensor}x{degrees.context})"
    expert = f"xEP{degrees.expert}" if degrees.expert > 1 else ""
    return f"{tensor}x{degrees.pipeline}x{degrees.data}{expert}"


class Instances(Struct, frozen=True):
    """How so many instances of a plan run on one cluster.

    Parameters
    ----------
    count, at_once, rounds
        Instances; those that run side by side; how often so many of them do, one after the
        other [1].
    turnaround_s
        Time until all of them have done an iteration [s].
    """

    count: int
    at_once: int
    rounds: int
    turnaround_s: float


IN_SHORT = ("iteration_time_s", "gpus_used=plan.gpus", "plan")
"""Paths of what every answer about a plan says of it."""
MOST_SHARED = 0.05
"""Largest difference of times on two networks that bars of unlike basis leave open [1]."""


class PlanTime(Struct, frozen=True):
    """A plan with its iteration time, the parts that add up to it, and its memory.

    Parameters
    ----------
    plan, strategy
        The plan, and how its layers are cut.
    iteration_time_s, breakdown_s
        Time of one iteration and its parts [s].
    memory_bytes, memory_parts_bytes
        Memory of the fullest GPU and its parts: weights, gradients, optimizer, activations and
        buffers [B].
    mfu, hfu
        Utilisation of the matrix units, without and with recomputed FLOPs [1].
    phases_s
        Computing and exposed communication of each phase, where layers run in three [s].
    memory_tiers_bytes
        What of every part lies in the ``local`` and in the ``expanded`` memory, where there is an
        expanded one [B].
    instances
        Several of them side by side, where that is asked for; their utilisation then.
    error
        How far the time may be off, if the iteration model says so.
    memory
        What it holds as training software keeps it, where that is counted.
    growth
        Under software of a date, what that and the number of GPUs make of the time.
    """

    json_parts = (
        *("strategy", *IN_SHORT, "*bar", "mfu", "memory_bytes", "memory_parts_bytes"),
        *("breakdown_s", "*grown", "?instances", "?phases_s", "?memory_tiers_bytes", "?memory"),
    )

    plan: Plan
    iteration_time_s: float
    breakdown_s: dict[str, float]
    memory_bytes: float
    mfu: float
    hfu: float
    strategy: Strategy = "1d"
    memory_parts_bytes: dict[str, float] = field(default_factory=dict)
    phases_s: dict[str, float] = field(default_factory=dict)
    memory_tiers_bytes: dict[str, dict[str, float]] | None = None
    instances: Instances | None = None
    error: ErrorBar | None = None
    memory: PlanMemory | None = None
    growth: SoftwareGrowth | None = None

    def __repr__(self) -> str:
        """In a line: degrees, time with its error bar, utilisation and memory."""
        return (
            f"<PlanTime {self.plan.degrees}, {self.plan.schedule} microbatches: {self.time_text},"
            f" MFU {self.mfu:.0%}, {si(self.memory_bytes, 'B', 3)}>"
        )

    @property
    def shares(self) -> dict[str, float]:
        """What of the iteration each part takes [1]."""
        return {name: part / self.iteration_time_s for name, part in self.breakdown_s.items()}

    @property
    def spilled_bytes(self) -> float:
        """What of the memory lies in the expanded tier [B]."""
        tiers = self.memory_tiers_bytes or {}
        return sum((part["expanded"] for part in tiers.values()), 0.0)

    @property
    def bar(self) -> dict[str, Any]:
        """Ends and basis of the error bar, as in JSON."""
        return bar_dict(self.iteration_time_s, self.error)

    @property
    def known_bar(self) -> dict[str, Any]:
        """The same, nothing where there is none: of answers that came without."""
        return self.bar if self.error else {}

    @property
    def time_text(self) -> str:
        """The iteration time for people, with its error bar."""
        return time_text(self.iteration_time_s, self.error)

    def beside_slow_gpu_s(self, share: float) -> float:
        """The iteration beside one GPU that has a share of its rate left, at most [s].

        It sets the pace of its pipeline, for which all others wait: all that a stage computes takes
        1 / share times as long, messages and the bubble what they take. The stage may compute less
        than the fullest one, which `netplan.simulation.slow_gpus` knows.

        Parameters
        ----------
        share
            Of its rate, above 0 and at most 1 [1].

        Returns
        -------
        float
            Time of an iteration [s].

        Examples
        --------
        >>> from netplan.traffic.placement import Degrees
        >>> plan = Plan(Placement((Degrees(data=8),)), 1, 1)
        >>> parts_s = {"compute": 8.0, "data_comm": 1.5, "bubble": 0.5}
        >>> time = PlanTime(plan, 10.0, parts_s, 0.0, 0, 0)
        >>> time.beside_slow_gpu_s(0.5), time.beside_slow_gpu_s(1.0)
        (18.0, 10.0)
        """
        waits = (name.endswith("_comm") or name == "bubble" for name in self.breakdown_s)
        parts = zip(self.breakdown_s.values(), waits, strict=True)
        computing_s = sum(part_s for part_s, waiting in parts if not waiting)
        return self.iteration_time_s + (1 / share - 1) * computing_s

    def equals(self, other: "PlanTime") -> bool:
        """Whether two times of one model on like GPUs are too near to be told apart.

        Parameters
        ----------
        other
            Another plan's time.

        Returns
        -------
        bool
            Whether the error bar of either says so; never without one.
        """
        bars = [bar for bar in (self.error, other.error) if bar is not None]
        if self.error and other.error and self.error.kind:
            return self.error.same_as(other.error, self.iteration_time_s, other.iteration_time_s)
        return any(bar.equal(self.breakdown_s, other.breakdown_s) for bar in bars)

    def as_fast_as(self, other: "PlanTime") -> bool:
        """Whether two networks train as fast, for all that is known of one model's times.

        Errors of one model are shared by both, whatever their bars: runs like one of them may be
        unpublished, yet what the other network spares is no less.

        Parameters
        ----------
        other
            The time of the best plan on another network.

        Returns
        -------
        bool
            Whether they are equal by :meth:`equals`, and under software of a date also within
            :data:`MOST_SHARED`.
        """
        short, long = sorted((self.iteration_time_s, other.iteration_time_s))
        dated = bool(self.error and self.error.kind)
        return self.equals(other) and (not dated or long <= short * (1 + MOST_SHARED))

    def in_short(self) -> dict[str, Any]:
        """What every answer about a plan says in JSON: time, GPUs and the plan itself.

        Returns
        -------
        dict[str, Any]
            ``iteration_time_s`` [s], ``gpus_used`` [1] and ``plan``.
        """
        return plain_at(self, *IN_SHORT)

    @property
    def grown(self) -> dict[str, Any]:
        """What software of a date makes of it; nothing without such."""
        if self.growth is None:
            return {}
        parts = {f"{name}_s": self.breakdown_s[name] for name in ("expert_comm", "host")}
        return asdict(self.growth) | parts


class RankedPlan(Struct, frozen=True):
    """A plan among those of an answer.

    Parameters
    ----------
    rank
        Its place, from 1 on [1].
    timed
        The plan with its time.
    best
        The one that it is compared with, if it is one of several.
    """

    json_parts = ("rank", "*timed", "*beside_best")

    rank: int
    timed: PlanTime
    best: PlanTime | None = None

    @property
    def beside_best(self) -> dict[str, bool]:
        """Whether it can be told from the best one; nothing where its time has no error bar."""
        if self.best is None or self.timed.error is None:
            return {}
        return {"equals_best": self.timed.equals(self.best)}


class SearchResult(Struct, frozen=True):
    """The best plans of a whole space.

    Parameters
    ----------
    plans
        Best first.
    enumerated
        Plans in the space; in the free space before they are placed: degrees and schedules [1].
    feasible
        Those that fit the memory; in the free space, that do so if all GPUs can be used [1].
    seconds
        Time of the search [s].
    levels
        The levels that the plans fill; smaller than the fabric if no plan fills all of it.
    settings
        What was asked: one setting a strategy.
    tight
        The fastest plan that is faster than all that fit for sure, and may fit.
    """

    json_parts = ("space", "plans=ranked")

    plans: tuple[PlanTime, ...]
    enumerated: int
    feasible: int
    seconds: float
    levels: tuple[Level, ...]
    settings: tuple[Setting, ...] = ()
    tight: PlanTime | None = None

    @property
    def best(self) -> PlanTime:
        """The plan to run: of those within 1 % of the fastest what teams would take."""
        return self.plans[0]

    @property
    def time_s(self) -> float:
        """Iteration time of the plan to run [s]."""
        return self.best.iteration_time_s

    @property
    def exchange(self) -> str | None:
        """The part of an iteration in which GPUs exchange what they have; None of transformers."""
        spread = self.settings[0].spread_model if self.settings else None
        return f"{spread.spread[0]}_comm" if spread else None

    @property
    def on_grid(self) -> bool:
        """Whether plans differ by the grid on which a matrix lies."""
        spread = self.settings[0].spread_model if self.settings else None
        return spread is not None and len(spread.spread) > 1

    def setting_of(self, timed: PlanTime) -> Setting:
        """The setting under which a plan was found.

        Parameters
        ----------
        timed
            One of the plans of this search.

        Returns
        -------
        Setting
            The setting with the strategy of the plan, and with what it keeps.
        """
        alike = [entry for entry in self.settings if entry.strategy == timed.strategy]
        return timed.plan.applied_to((alike or [*self.settings])[0])

    @property
    def space(self) -> dict[str, Any]:
        """Plans enumerated and feasible [1], and the time of the search [s]."""
        return plain_at(self, "enumerated", "feasible", "seconds")

    @property
    def ranked(self) -> tuple[RankedPlan, ...]:
        """The plans with their places."""
        plans = enumerate(self.plans, start=1)
        return tuple(RankedPlan(rank, plan, self.best) for rank, plan in plans)


def instances_of(timed: PlanTime, count: int) -> Instances:
    """Instances of a plan on the cluster that it is placed on.

    Examples
    --------
    Eight instances of 16 GPUs each on 64: four at once, two rounds.

    >>> from netplan.traffic.placement import Degrees, Placement
    >>> placement = Placement((Degrees(expert=8), Degrees(expert=2)), (8, 8))
    >>> timed = PlanTime(Plan(placement, 512, 1), 0.03, {}, 0.0, 0.0, 0.0)
    >>> instances_of(timed, 8)
    Instances(count=8, at_once=4, rounds=2, turnaround_s=0.06)
    """
    placement = timed.plan.placement
    used = [prod(level) for level in placement.levels]
    sizes = placement.sizes or used
    room = prod(size // part for size, part in zip(sizes, used, strict=True))
    rounds = -(-count // room)
    return Instances(count, min(count, room), rounds, rounds * timed.iteration_time_s)


def by_turnaround(result: SearchResult, count: int) -> SearchResult:
    """Plans by the turnaround of so many instances, the fastest of each number of GPUs.

    Their utilisation is that of all instances in this time.
    """
    plans: dict[int, PlanTime] = {}
    for timed in result.plans:  # the fastest first
        plans.setdefault(timed.plan.gpus, timed)
    ranked: list[tuple[float, int, PlanTime]] = []
    for gpus, timed in plans.items():
        instances = instances_of(timed, count)
        busy = count / instances.rounds
        run = replace(timed, instances=instances, mfu=busy * timed.mfu, hfu=busy * timed.hfu)
        ranked.append((instances.turnaround_s, gpus, run))
    ranked.sort(key=lambda entry: entry[:2])
    return replace(result, plans=tuple(run for _, _, run in ranked))


def least_gpus(plans: Sequence[PlanTime], room_bytes: float) -> PlanTime | None:
    """The plan with the fewest GPUs that hold it in so much memory each, if any does."""
    fits = [timed for timed in plans if timed.memory_bytes <= room_bytes]
    return min(fits, key=lambda timed: timed.plan.gpus, default=None)
