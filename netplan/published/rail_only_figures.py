"""Fig. 9 to 11 of the rail-only paper under any setting of the inputs that it does not print.

The figures take the best plan of 45 clusters each. Where nothing overlaps, the time of a plan is a
sum (Eq. 2 to 7 and 10 of Wang et al., arXiv:2307.12169),

    T = T_0 + (T_1 + gamma T_2) / F + n_HB lat_HB + n_net lat_net

with bytes over printed bandwidths T_0, FLOPs T_1 and T_2 of which gamma slows the second, peak F
and latencies lat. T_0 to n_net of all plans of a cluster are computed once by the iteration model,
so that a setting is one product of a matrix and a vector, a mask of what fits the memory, and a
minimum: exact, and 40 times as fast as searches.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from math import inf
from statistics import mean
from typing import Any, ClassVar

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats
from netplan.errors import InfeasibleError, InputError
from netplan.performance.evaluation import CHUNK_PLANS, Evaluation
from netplan.performance.iteration_model import ITERATION_MODELS, IterationModel
from netplan.performance.setting import Options, Setting, TrainedModel
from netplan.performance.space import enumerate_plans
from netplan.published.rail_only import (
    PAPER,
    Figure,
    FigureCase,
    figure_9,
    figure_10,
    figure_11,
    levels_of,
)
from netplan.records import replace
from netplan.reports.answer import Answer
from netplan.reports.sections import Heading, Paragraph, Section, Table, column
from netplan.scenarios.reading import CatalogReader
from netplan.setup.asking import function_of
from netplan.setup.question import Question
from netplan.units import si
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS
from netplan.workloads.operations import Variant

UNIT_FLOPS_PER_S, UNIT_S = 1e15, 1e-6
"""Peak and latency at which terms are computed; times are linear in 1 / F and in latencies."""


class PlanTerms(Struct, frozen=True, eq=False):
    """Parts of the times of all plans of one cluster, and their memory.

    Parameters
    ----------
    seconds
        At peak 1e15 FLOP/s and latencies of 1 us: bytes; FLOPs; FLOPs that gamma slows; latencies
        of the HB domain; of the network, shape (plans, 5) [s].
    memory_bytes
        What a GPU holds, the least first, shape (plans,) [B].
    """

    seconds: Floats
    memory_bytes: Floats

    @classmethod
    def of(cls, case: FigureCase, assumptions: IterationModel) -> "PlanTerms":
        """Terms of a cluster, of the differences of times that the iteration model gives.

        Parameters
        ----------
        case
            A cluster and run of the figures.
        assumptions
            Iteration model; its ``attention_slowdown`` does not matter.

        Returns
        -------
        PlanTerms
            Of all plans, whatever their memory.

        References
        ----------
        arXiv:2307.12169, Eq. 2 to 7 and 10.
        """
        bytes_s, memory_bytes = _times(case, assumptions, inf, 1.0)
        flops_s, _ = _times(case, assumptions, UNIT_FLOPS_PER_S, 1.0)
        slowed_s, _ = _times(case, assumptions, UNIT_FLOPS_PER_S, 2.0)
        hb_s, _ = _times(case, assumptions, inf, 1.0, hb_latency_s=UNIT_S)
        network_s, _ = _times(case, assumptions, inf, 1.0, network_latency_s=UNIT_S)
        of_gamma = slowed_s - flops_s
        parts = (bytes_s, flops_s - bytes_s - of_gamma, of_gamma, hb_s - bytes_s)
        order = np.argsort(memory_bytes)
        seconds = np.stack([*parts, network_s - bytes_s], axis=1)
        return cls(seconds[order], memory_bytes[order])

    def best_s(self, open_inputs: "OpenInputs") -> float:
        """Time of the best plan that fits [s].

        Parameters
        ----------
        open_inputs
            What the paper does not print.

        Returns
        -------
        float
            Iteration time [s].

        Raises
        ------
        InfeasibleError
            If no plan fits.
        """
        fitting = np.searchsorted(self.memory_bytes, open_inputs.memory_bytes, side="right")
        if not fitting:
            raise InfeasibleError(
                f"no plan fits {si(open_inputs.memory_bytes, 'B')}: the least takes"
                f" {si(float(self.memory_bytes[0]), 'B')}"
            )
        return float((self.seconds[:fitting] @ open_inputs.factors).min())


def _times(
    case: FigureCase,
    assumptions: IterationModel,
    flops_per_s: float,
    slowdown: float,
    *,
    hb_latency_s: float = 0.0,
    network_latency_s: float = 0.0,
) -> tuple[Floats, Floats]:
    """Times [s] and memory [B] of all plans, always in the same order."""
    compute = replace(assumptions.compute, attention_slowdown=slowdown)
    assumptions = replace(assumptions, compute=compute)
    training = TrainedModel(MODELS.load(case.model), case.batch, flops_per_s, inf, assumptions)
    setting = Setting(training, options=Options(variant=Variant(compute.recompute)))
    levels = levels_of(case, hb_latency_s, network_latency_s)
    space = enumerate_plans(setting, [level.size for level in levels])
    evaluated = Evaluation.of(setting, levels, space)
    memory = evaluated.memory.total
    pairs = list(space.pairs(memory < inf, CHUNK_PLANS))
    times = [
        evaluated.terms.seconds(place, space.row(place, schedule), schedule)
        for place, schedule in pairs
    ]
    return np.concatenate(times), memory[np.concatenate([schedule for _, schedule in pairs])]


# Points of a study follow each other in settings of one iteration model: 45 clusters, a few times.
_terms = lru_cache(maxsize=256)(PlanTerms.of)


class OpenInputs(Struct, frozen=True):
    """What the paper does not print of Fig. 9 to 11, but for what iteration models say.

    Parameters
    ----------
    flops_per_s
        Peak of a GPU, F [FLOP/s].
    memory_bytes
        Its memory [B].
    hb_latency_s, network_latency_s
        Latency of an operation in the HB domain and between domains [s].
    slowdown
        gamma [1].

    Examples
    --------
    >>> OpenInputs(1e15, 80e9, 1e-6, 5e-6, 2.5).factors
    array([1. , 1. , 2.5, 1. , 5. ])
    """

    flops_per_s: float
    memory_bytes: float
    hb_latency_s: float
    network_latency_s: float
    slowdown: float

    @property
    def factors(self) -> Floats:
        """What the parts of :class:`PlanTerms` are multiplied by, shape (5,) [1]."""
        compute = UNIT_FLOPS_PER_S / self.flops_per_s
        latencies = self.hb_latency_s / UNIT_S, self.network_latency_s / UNIT_S
        return np.array([1.0, compute, self.slowdown * compute, *latencies])


def figures_under(open_inputs: OpenInputs, assumptions: IterationModel) -> tuple[Figure, ...]:
    """All 14 printed values of Fig. 9 to 11, and what a setting gives.

    Parameters
    ----------
    open_inputs
        What the paper does not print.
    assumptions
        Iteration model whose times add up: operations ``counted``, ``phased`` collectives, data
        parallel ones ``exposed`` or ``hidden``.

    Returns
    -------
    tuple of Figure
        In the paper's order [%].

    Raises
    ------
    InputError
        If times under the iteration model are no sum of such parts.
    InfeasibleError
        If no plan fits the memory.

    Examples
    --------
    >>> setting = OpenInputs(989e12, 80e9, 1e-6, 1e-6, 2.5)
    >>> first, *_ = figures_under(setting, ITERATION_MODELS.load("ptd-p"))
    >>> first.name, first.published, round(first.got, 2)
    ('gpt-1t: gain from K = 1 to 8, %', 36.5, 40.92)
    """
    _check_sum(assumptions)
    # One entry for every gamma, and for what the files say of themselves.
    compute = replace(assumptions.compute, attention_slowdown=1.0)
    alike = replace(ITERATION_MODELS.load("ptd-p"), compute=compute, notes=())
    parts = {name: getattr(assumptions, name) for name in ("communication", "overlap", "space")}
    alike = replace(alike, memory=assumptions.memory, **parts)

    def best_s(case: FigureCase) -> float:
        return _terms(case, alike).best_s(open_inputs)

    return tuple(chain(figure_9(best_s), figure_10(best_s), figure_11(best_s)))


def _check_sum(assumptions: IterationModel) -> None:
    """Refuse iteration models whose times are no sum of the parts."""
    needed = {
        "compute.operations": (assumptions.compute.operations, ("counted",)),
        "compute.kernel_latency_s": (assumptions.compute.kernel_latency_s, (0,)),
        "communication.collectives": (assumptions.communication.collectives, ("phased",)),
        "communication.chunks": (assumptions.communication.chunks, (1,)),
        "overlap.data": (assumptions.overlap.data, ("exposed", "hidden")),
        "space.divisibility": (assumptions.space.divisibility, ("exact",)),
        "space.plans": (assumptions.space.plans, ("all",)),
        "evaluator": (assumptions.evaluator, ("",)),
    }
    for key, (value, allowed) in needed.items():
        if value not in allowed:
            raise InputError(
                f"rail-only-figures takes iteration models whose times add up: {key} is"
                f" {' or '.join(map(str, allowed))}, got {value}: take ptd-p, and change single"
                " keys of it, such as iteration-model.overlap.in_flight"
            )


@dataclass(frozen=True, slots=True, repr=False)
class FiguresAnswer(Answer):
    """The answer of :func:`rail_only_figures`: printed values beside those of a setting."""

    json_parts = "mean_gap_points", "worst_gap_points", "figures"

    inputs: dict[str, Any]
    figures: tuple[Figure, ...]

    @property
    def gaps_points(self) -> tuple[float, ...]:
        """Value less the printed one, in percentage points, shape (figures,)."""
        return tuple(figure.got - figure.published for figure in self.figures)

    @property
    def mean_gap_points(self) -> float:
        """Mean of the gaps without sign [percentage points]."""
        return mean(map(abs, self.gaps_points))

    @property
    def worst_gap_points(self) -> float:
        """Largest gap without sign [percentage points]."""
        return max(map(abs, self.gaps_points))

    def sections(self) -> Iterator[Section]:
        """The gaps, then every figure."""
        yield Heading("Fig. 9 to 11 of the rail-only paper under one setting")
        yield Paragraph(f"{self.in_a_line()}.", "strong")
        yield Table(
            "figures",
            (
                column("value", "name"),
                column("published", lambda figure: f"{figure.published:g}"),
                column("netplan", lambda figure: f"{figure.got:.1f}", form="code"),
                column("gap", lambda figure: f"{figure.got - figure.published:+.1f}", form="code"),
            ),
            self.figures,
        )


@dataclass(frozen=True, kw_only=True)
class RailOnlyFigures(Question[FiguresAnswer]):
    """How far Fig. 9 to 11 of the rail-only paper are off under a setting it does not print.

    Models, clusters, batches, HB domains and bandwidths are the figures' own (arXiv:2307.12169,
    sections 6.2 to 6.4). Peak, memory and latencies are those of the accelerator, the rest that of
    the iteration model.

    Raises
    ------
    NetplanError
        If an input is not allowed, times under the iteration model do not add up, or no plan fits.

    Examples
    --------
    >>> found = rail_only_figures("rail-only-paper", accelerator="h100-80gb",
    ...                           iteration_model="ptd-p",
    ...                           overrides={"accelerator.memory_bytes": "96e9"})
    >>> len(found.figures)
    14
    """

    command: ClassVar[str] = "rail-only-figures"
    reads: ClassVar[frozenset[str]] = frozenset({"accelerator", "iteration_model"})
    workload: ClassVar[str] = "training"

    def ask(self) -> FiguresAnswer:
        """Take peak, memory and latencies of the files; find the best plan of every cluster."""
        reader = CatalogReader(self.catalog, self.overrides)
        gpu = reader.load(ACCELERATORS, self.cluster.accelerator)
        assumptions = reader.load(ITERATION_MODELS, self.training.iteration_model)
        open_inputs = OpenInputs(
            gpu.tensor_flops_per_s,
            gpu.memory_bytes,
            gpu.hb_latency_s,
            gpu.network_latency_s,
            assumptions.compute.attention_slowdown,
        )
        inputs = {"accelerator": gpu.name, "iteration_model": assumptions.name, "source": PAPER}
        return FiguresAnswer(inputs, figures_under(open_inputs, assumptions))


rail_only_figures = function_of(RailOnlyFigures)
