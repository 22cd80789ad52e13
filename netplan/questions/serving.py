"""How a cluster answers: times that users feel, throughput, memory, and what binds."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from netplan.answers.served_price import served_price
from netplan.answers.serving_answer import ServedLoad, ServingAnswer, alike_notes
from netplan.answers.skew_line import loaded_words, published_words
from netplan.errors import InputError
from netplan.performance.serving.load import Arrivals, simulate_load
from netplan.performance.serving.outcomes import ServingCase
from netplan.performance.serving.serving_search import ServingFound
from netplan.records import replace
from netplan.scenarios.reading import CatalogReader
from netplan.setup.asking import function_of
from netplan.setup.launch import Launch
from netplan.setup.own_inputs import default_field, option_field
from netplan.setup.question import FOUND, NETWORK, PRICES, SERVED, Question
from netplan.setup.served_plan import ServedPlan
from netplan.setup.serving_run import fixed_degrees, search_servers, served_plans
from netplan.workloads.published_skew import EXPERT_SKEWS, skew_family


@dataclass(frozen=True, kw_only=True)
class ServingQuestion(Question[ServingAnswer]):
    """Find how a cluster serves a model best, and how fast it answers.

    A server is one copy of the model on tensor x attention-data x pipeline GPUs. Every plan is
    timed, with the number of requests that is given or with many a server; under a
    service level the best is the one with the most tokens a second of those that keep it. Prompts
    and answers have so many tokens each. Under a rate of requests the best is the one whose
    requests are done soonest, which is then simulated.

    Raises
    ------
    InputError
        If an input is not allowed.
    InfeasibleError
        If no plan fits the memory, or keeps the service level: with the nearest.

    Examples
    --------
    >>> answer = serving("serving-70b-h200", gpus=8, prompt=1024, output=1024, concurrency=64,
    ...                  precision="fp8", fixed={"tensor": 8}, top=1)
    >>> [(plan.tensor, plan.replicas, plan.bottleneck) for plan in answer.plans]
    [(8, 1, 'HBM')]
    """

    command: ClassVar[str] = "serving"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan serving serving-r1-h200",
        "netplan serving serving-70b-h200 --gpus 16 --tpot-ms 30 --disaggregated",
        "netplan serving nvl72-gb200 --model deepseek-r1 --gpus 72 --precision fp4",
    )
    reads: ClassVar[frozenset[str]] = (
        SERVED
        | NETWORK
        | FOUND
        | PRICES
        | {"fabric", "expanded_memory", "switch", "cards", "networks", "host_gpus"}
        | {"economics", "gpu_hour", "pue", "cooling"}
    )
    workload: ClassVar[str] = "serving"

    top: int = default_field("Plans to show.", "whole", low=1)
    seed: int = option_field(
        "Seed of arrivals under --rate.", "whole", default=1, low=0, high=2**32, quiet=True
    )

    def ask(self) -> ServingAnswer:
        """Search every plan."""
        self.check_parts()
        if self.scenario.kind != "serving":
            raise InputError(
                f"--workload {self.scenario.kind}: netplan serving is about clusters that"
                " serve: leave it out, or give --workload serving"
            )
        asked = self.serving.load
        if self.seed != 1 and asked.rate is None and asked.trace is None:
            raise InputError("--seed draws arrivals: give --rate, too")
        reader = self.reader()
        gpus = self.cluster.gpus
        case, servers_found, notes, arrivals = search_servers(self, reader, self.cluster.fabric)
        plans = served_plans(servers_found, case, gpus, self.top)
        price = served_price(self, reader, plans[0])
        inputs = self.inputs(
            stack=case.stack.name,
            kernels=case.served.kernels.source,
            hb_size=case.served.sizes[0],
            fixed=fixed_degrees(self),
            set=reader.replaced(),
        )
        load = self._load(case, servers_found, arrivals, plans[0])
        trace = None if arrivals is None else arrivals.trace
        return ServingAnswer(
            inputs=inputs,
            found=servers_found,
            plans=plans,
            front=served_plans(servers_found.on_front, case, gpus),
            room_bytes=case.room_bytes,
            price=price,
            launch=Launch(
                plans[0],
                case,
                min(self.cluster.host_gpus or case.served.sizes[0], case.served.sizes[0]),
                case.served.model.source,
                self.serving.exchange or "gather",
                None if load is None else int(load.simulated.batch["slots"]),
                None if trace is None else int((trace.prompt + trace.output).max()),
            ),
            notes=(*notes, *alike_notes(case, plans)),
            load=load,
            on_experts=self._on_experts(reader, case, servers_found),
        )

    def _load(
        self,
        case: ServingCase,
        servers_found: ServingFound,
        arrivals: Arrivals | None,
        plan: ServedPlan,
    ) -> ServedLoad | None:
        """The best plan, simulated, if requests come at a rate."""
        if arrivals is None:
            return None
        arrivals = replace(arrivals, seed=self.seed)
        best = servers_found.ranked.plans.take(np.zeros(1, dtype=np.int64))
        return ServedLoad(
            plan,
            arrivals,
            servers_found.highest_rate or 0.0,
            servers_found.least_gpus or 0,
            simulate_load(case, best, arrivals),
        )

    def _on_experts(
        self, reader: CatalogReader, case: ServingCase, servers_found: ServingFound
    ) -> str:
        """How unevenly experts are loaded, or what that would cost; nothing of older kernels."""
        model = case.served.model
        if model.experts is None:
            return ""
        if model.experts.load is not None:
            return loaded_words(case, servers_found)
        if self.serving.kernels == "fitted":
            return ""
        return published_words(case, servers_found, reader.load(EXPERT_SKEWS, skew_family(model)))


serving = function_of(ServingQuestion)
