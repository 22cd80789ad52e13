"""How a cluster answers: times that users feel, throughput, memory, and what binds."""

from dataclasses import dataclass
from typing import ClassVar

from netplan.questions.answers.serving_answer import ServingAnswer, served_plans
from netplan.questions.asking import asks
from netplan.questions.own_inputs import shared
from netplan.questions.question import FOUND, NETWORK, SERVED, Question
from netplan.questions.setup.serving_run import fixed_degrees, search_servers
from netplan.scenarios.reading import CatalogReader


@dataclass(frozen=True, kw_only=True)
class Serving(Question[ServingAnswer]):
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
    >>> answer = serving("serving-70b-h200", gpus=8, prompt=1024, output=1024, concurrency=64,
    ...                  precision="fp8", fixed={"tensor": 8}, top=1)
    >>> [(plan.tensor, plan.replicas, plan.binds) for plan in answer.plans]
    [(8, 1, 'HBM')]
    """

    command: ClassVar[str] = "serving"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan serving serving-r1-h200",
        "netplan serving serving-70b-h200 --gpus 16 --tpot-ms 30 --disaggregated",
        "netplan serving nvl72-gb200 --model deepseek-r1 --gpus 72 --precision fp4",
    )
    reads: ClassVar[frozenset[str]] = (
        SERVED | NETWORK - {"ports"} | FOUND | {"fabric", "expanded_memory"}
    )
    workload: ClassVar[str] = "serving"

    top: int = shared("Plans to show.", "whole", low=1)

    def ask(self) -> ServingAnswer:
        """Search every plan."""
        self.check_parts()
        reader = CatalogReader(self.catalog, self.overrides)
        gpus = self.cluster.gpus
        case, servers_found, notes = search_servers(self, reader, self.cluster.fabric)
        inputs = self.inputs(
            stack=case.stack.name,
            kernels=case.served.kernels.source,
            hb_size=case.served.sizes[0],
            fixed=fixed_degrees(self),
            set=reader.replaced(),
        )
        return ServingAnswer(
            inputs=inputs,
            found=servers_found,
            plans=served_plans(servers_found.ranked, servers_found.pools, case, gpus, self.top),
            front=served_plans(servers_found.front, servers_found.front_pools, case, gpus, None),
            room_bytes=case.room_bytes,
            notes=notes,
        )


serving = asks(Serving)
