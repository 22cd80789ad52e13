"""The traffic of a training run on a fabric: the plan, its placement, the matrix it makes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any, Unpack

from netplan.errors import InputError
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.plan import PlanTime
from netplan.performance.search import search_plans
from netplan.performance.setting import Setting, Training, TrainingKeywords, TrainingOptions
from netplan.questions.inputs import CatalogReader, sizing_on
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.traffic.matrix import TrafficMatrix
from netplan.traffic.patterns import Pattern
from netplan.traffic.placement import Placement
from netplan.traffic.training import Patterns, collectives_of, training_traffic
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS, Model
from netplan.workloads.program import CollectiveUse, Program


@dataclass(frozen=True, slots=True)
class Workload:
    """A training run placed on a fabric.

    Parameters
    ----------
    inputs
        The question, with all defaults filled in.
    spec, sizing, fabric
        The fabric, from its file to its counts and levels.
    setting, timed
        What is trained under which assumptions, and the best plan found.
    patterns
        Which pairs of its groups the collectives of each kind use.
    """

    inputs: dict[str, Any]
    spec: FabricSpec
    sizing: Sizing
    fabric: Fabric
    setting: Setting
    timed: PlanTime
    patterns: Patterns

    @property
    def model(self) -> Model:
        """What is trained."""
        return self.setting.training.model

    @property
    def placement(self) -> Placement:
        """Where the ranks of the plan lie."""
        return self.timed.plan.placement

    @property
    def program(self) -> Program:
        """What an iteration of the plan runs."""
        return self.setting.program(self.timed.plan.sharding)

    @property
    def collectives(self) -> tuple[CollectiveUse, ...]:
        """Collectives of one iteration that several GPUs take part in."""
        return collectives_of(self.program, self.placement, self.timed.plan.microbatches)

    def matrix(self) -> TrafficMatrix:
        """Traffic of one iteration."""
        plan = self.timed.plan
        return training_traffic(
            self.program,
            plan.placement,
            gpus=self.sizing.gpus,
            microbatches=plan.microbatches,
            interleave=plan.interleave,
            patterns=self.patterns,
        )


def find_workload(  # noqa: PLR0913 - one keyword an input, as on the command line
    *,
    gpus: int,
    radix: int = 64,
    fabric: str = "rail-optimized",
    hb_size: int | None = None,
    model: str = "gpt-1t",
    accelerator: str = "gh200-96gb",
    batch: int | None = None,
    iteration_model: str = "ptd-p",
    oversubscription: float | None = None,
    algorithm: Pattern = "hierarchical",
    fixed: Mapping[str, int] | None = None,
    catalog: str | Path | None = None,
    overrides: Mapping[str, str] | None = None,
    **trained_as: Unpack[TrainingKeywords],
) -> Workload:
    """Place a training run on a fabric, by the best plan or by what is given of it.

    Parameters
    ----------
    gpus, radix, fabric, hb_size, model, accelerator, batch, iteration_model, oversubscription
        As in :func:`netplan.compare`, for one fabric.
    algorithm
        Pattern of the collectives: ``ring``, ``hierarchical`` or ``direct``.
    fixed
        Given degrees, microbatch and interleaving; with any of them the memory is not checked.
    catalog, overrides
        As in :func:`netplan.compare`.
    trained_as
        Strategy, recomputation, experts, ZeRO stage, as in
        `netplan.performance.setting.TrainingOptions`.

    Raises
    ------
    InputError
        If an input is not allowed, or GPUs do not fill the HB domains.
    InfeasibleError
        If there is no plan.
    """
    reader = CatalogReader(catalog, overrides)
    on, spec = reader.load(ACCELERATORS, accelerator), reader.load(FABRICS, fabric)
    trained = reader.load(MODELS, model)
    assumptions = reader.load(ITERATION_MODELS, iteration_model)
    sizing = sizing_on(
        on, gpus=gpus, radix=radix, hb_size=hb_size, oversubscription=oversubscription
    )
    built = build_fabric(spec, sizing)
    require_filled(built, gpus)
    method = TrainingOptions(**trained_as)
    options = method.options(fixed)
    training = Training.on(on, trained, assumptions, batch=batch)
    if options.fixed.given:
        training = replace(training, memory_bytes=inf)
    found = search_plans(
        training, built.levels, strategy=method.strategy, mode=method.mode, options=options
    )
    timed = found.plans[0]
    setting = next(one for one in found.settings if one.strategy == timed.strategy)
    inputs = {
        "gpus": gpus,
        "radix": radix,
        "fabric": fabric,
        "hb_size": built.sizing.hb_size,
        "model": model,
        "accelerator": accelerator,
        "batch": training.batch,
        "iteration_model": iteration_model,
        "oversubscription": oversubscription,
        "algorithm": algorithm,
        **method.inputs(setting),
        "fixed": options.fixed.given,
        "set": reader.replaced(),
    }
    patterns = Patterns(tensor=algorithm, context=algorithm, data=algorithm)
    return Workload(inputs, spec, built.sizing, built, setting, timed, patterns)


def require_filled(fabric: Fabric, gpus: int) -> None:
    """Refuse a fabric whose HB domains the GPUs do not fill.

    Raises
    ------
    InputError
        With the size of the domains.
    """
    domain = fabric.sizing.hb_size
    if not fabric.levels or fabric.sizing.full_domains * domain != gpus:
        raise InputError(
            f"{gpus:,} GPUs do not fill HB domains of {domain:,} on {fabric.name}:"
            " give a multiple, or another --hb-size"
        )
