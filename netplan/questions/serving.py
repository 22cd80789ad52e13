"""How a cluster answers: times that users feel, throughput, memory, and what binds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from netplan.levels import Level
from netplan.performance.serving.outcomes import ServingCase
from netplan.performance.serving.serving_search import ServingFound, best_servers
from netplan.questions.answers.serving_answer import ServingAnswer, served_plans
from netplan.questions.question import asks, check_ranges, optional, required, shared
from netplan.questions.setup.expanded_memory import variants
from netplan.questions.setup.inputs import CatalogReader, sizing_on
from netplan.questions.setup.serving_inputs import (
    Asked,
    ServingQuestion,
    served_levels,
    served_model,
    serving_notes,
)
from netplan.topologies.build import build_fabric, own_rates
from netplan.topologies.fabric import MIN_GPUS, hb_level
from netplan.topologies.specs import FABRICS
from netplan.workloads.accelerators import ACCELERATORS, Accelerator

Known = dict[tuple[Level, ...], ServingFound]
"""What searches of one question found, by the levels of the fabric."""


class Searched(NamedTuple):
    """What is served, its plans, and what to know of their numbers."""

    case: ServingCase
    found: ServingFound
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Serving(ServingQuestion[ServingAnswer]):
    """Find how a cluster serves a model best, and how fast it answers.

    A server is one copy of the model on tensor x attention-data x pipeline GPUs. Every plan is
    timed, with the number of requests that is given or with many a server; under a
    service level the best is the one with the most tokens a second of those that keep it. Prompts
    and answers have so many tokens each.

    Raises
    ------
    InputError
        If an input is not allowed.
    InfeasibleError
        If no plan fits the memory, or keeps the service level: with the nearest.

    Examples
    --------
    >>> answer = serving(model="llama-3.1-70b", accelerator="h200", gpus=8, prompt=1024,
    ...     output=1024, concurrency=64, precision="fp8", fixed={"tensor": 8}, top=1)
    >>> [(plan.tensor, plan.replicas, plan.binds) for plan in answer.plans]
    [(8, 1, 'HBM')]
    """

    command: ClassVar[str] = "serving"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan serving --model llama-3-70b --gpus 64 --prompt 2048 --output 256 --precision fp8",
        "netplan serving --model deepseek-r1 --accelerator gb200 --gpus 72 --precision fp4",
        "netplan serving --gpus 16 --tpot-ms 30 --disaggregated",
        "netplan serving --gpus 8 --draft llama-3.1-8b --window 4 --acceptance 0.7 --concurrency 8",
    )

    gpus: int = required("GPUs in the cluster.", "whole", unit="GPUs", low=1, high=4_194_304)
    accelerator: str = shared("On which GPU.")
    model: str = shared("Which transformer: name or file.")
    precision: str = shared("Numbers of the weights: bf16, fp8, fp4 or int4.")
    batch: int | None = optional("Requests that one server decodes together.", "whole", low=1)
    fixed: Mapping[str, int] | None = optional(
        "Give a degree, such as tensor=8 (repeatable).",
        "numbers",
        flag="--fix",
        metavar="NAME=N",
        many=True,
    )
    top: int = shared("Plans to show.", "whole", low=1)
    stack: str | None = optional(
        "Serving software.", metavar="NAME", otherwise="typical-server; no-host on dataflow chips"
    )
    radix: int = shared("Ports per switch.", "whole", unit="ports", low=4, high=1024)
    fabric: str = shared("On which fabric.")
    hb_size: int | None = optional(
        "GPUs per HB domain.", "whole", unit="GPUs", low=1, otherwise="the accelerator's"
    )
    expanded_memory: str | None = optional(
        "Memory behind that of each GPU, or none.",
        metavar="NAME",
        otherwise="the accelerator's, if any",
    )
    oversubscription: float | None = optional(
        "Down over up at Clos leaves, such as 3:1.", "ratio", low=1
    )

    def __post_init__(self) -> None:
        """Refuse numbers out of range."""
        super().__post_init__()
        check_ranges(self)

    def ask(self) -> ServingAnswer:
        """Search every plan."""
        reader = CatalogReader(self.catalog, self.overrides)
        asked = self.searched(reader)
        case, found = asked.case, asked.found
        inputs = self.inputs(
            stack=case.stack.name,
            kernels=case.served.kernels.source,
            hb_size=case.served.sizes[0],
            fixed=self._fixed,
            set=reader.replaced(),
        )
        return ServingAnswer(
            inputs=inputs,
            found=found,
            plans=served_plans(found.ranked, found.pools, case, self.gpus, self.top),
            front=served_plans(found.front, found.front_pools, case, self.gpus, None),
            room_bytes=case.room_bytes,
            notes=asked.notes,
        )

    @property
    def _fixed(self) -> dict[str, int]:
        """Degrees that are given, by the names of plans."""
        return {name.replace("-", "_"): value for name, value in (self.fixed or {}).items()}

    def searched(self, reader: CatalogReader, known: Known | None = None) -> Searched:
        """Read the files, and search; levels that are ``known`` were searched before."""
        named = reader.load(ACCELERATORS, self.accelerator)
        chip = variants(reader, named, (self.expanded_memory,))[0].chip
        model = served_model(reader, self.model)
        asked = Asked(self.precision, self.stack, self.batch, self._fixed)
        levels, known = self._levels(reader, chip), {} if known is None else known
        case = self.case_on(reader, chip, model, levels, asked)
        if levels not in known:
            goal = self.goal(asked)
            known[levels] = best_servers(
                case, self.gpus, self._fixed, goal, apart=self.disaggregated
            )
        found = known[levels]
        return Searched(case, found, tuple(serving_notes(chip, model, case, self.precision)))

    def _levels(self, reader: CatalogReader, chip: Accelerator) -> tuple[Level, ...]:
        """Levels of the fabric, of HB domains that are all full; one domain needs no fabric."""
        members = self.hb_size or chip.hb_size
        spec = reader.load(FABRICS, self.fabric)
        members = spec.hb_size or members
        alone = self.gpus <= members
        if alone and spec.hb_kind == "switch":
            return served_levels(chip, self.gpus, members, ())
        members = min(members, self.gpus)
        whole = max(-(-self.gpus // members) * members, MIN_GPUS)
        sizing = sizing_on(
            chip,
            gpus=whole,
            radix=self.radix,
            hb_size=members,
            oversubscription=self.oversubscription,
        )
        if alone:
            _, network = served_levels(chip, self.gpus, members, ())
            return hb_level(spec, own_rates(spec, sizing)), network
        return served_levels(chip, self.gpus, members, build_fabric(spec, sizing).levels)


serving = asks(Serving)
