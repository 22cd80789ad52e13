"""What is printed of networks that serve experts without switches, beside netplan's own figures.

Choi et al. compare scale-up switches, a scale-out network, a 3D torus and a 3D full mesh for models
of many experts: switchless ones serve 20.6 to 56.2 % more for the money, less link bandwidth up to
27 % more. Only the abstract was readable, and a summary of the rest on GitHub; so the cluster here
is netplan's choice, 64 H100 with DeepSeek-V3, whose experts and attention are divided over all.

Throughput is that of `netplan serving`. What it costs: an accelerator with its share of a server,
as the price book has it, and for scale-up switches the gear of an NVL72 in proportion to their
bandwidth, for switchless networks nothing. So their gains are upper limits at these prices. netplan
hides no exchange behind other work, which the paper does (two batches in turn); hidden in full,
networks without switches would gain the share of the gear.

Source: Choi, Son, Choi, Kim, Shao, Shenker, Ratnasamy and Nikolic, Rethinking Network Topologies
for Cost-Effective Mixture-of-Experts LLM Serving (arXiv:2605.00254).
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from netplan.costing.prices import PRICE_BOOKS
from netplan.errors import InputError
from netplan.published.checks import Check, Measured, stated
from netplan.questions.serving import serving

TABLE = "expert-networks"
BOOK, GEAR, ACCELERATOR = "2026", "hb-72", "h100-80gb"
GPUS, FULL_BYTES_PER_S = 64, 450e9
SCALE_UP, SCALE_OUT, TORUS, MESH = "scale-up", "scale-out", "torus-3d", "full-mesh-3d"
SWITCHLESS = (TORUS, MESH)
SWITCHED, SERVER_GPUS = "rail-optimized", 8
"""Fabric of the switched ones, and GPUs of a server, beyond which a scale-out network goes [1]."""

BANDWIDTHS = (450e9, 300e9, 150e9, 75e9)
"""Bandwidth of a GPU into its network, all links together, one way [B/s]."""

REQUESTS = (512, 8192)
"""Requests in flight on all GPUs [1]."""


class Case(NamedTuple):
    """A network, its bandwidth a GPU [B/s], and requests in flight [1]."""

    network: str
    bytes_per_s: float
    requests: int

    @classmethod
    def of(cls, fabric: str, hb_size: int, *, bytes_per_s: float, requests: int) -> "Case":
        """The network that a fabric is with HB domains of so many GPUs."""
        switched = SCALE_OUT if hb_size == SERVER_GPUS else SCALE_UP
        return cls(switched if fabric == SWITCHED else fabric, bytes_per_s, requests)


Rate = Callable[[Case], float]
"""Throughput of a GPU [tokens/s]."""


class Costs(NamedTuple):
    """Price of an accelerator with its share of a server, and of scale-up gear for it."""

    accelerator: float
    gear: float

    @classmethod
    def of_book(cls) -> "Costs":
        """Of the price book.

        Examples
        --------
        Gear of an NVL72 costs a fifth of an H100 with its share of a server.

        >>> costs = Costs.of_book()
        >>> round(costs.gear / costs.accelerator, 3)
        0.195
        """
        book = PRICE_BOOKS.load(BOOK)
        found = (book.price("accelerator", None, ACCELERATOR), book.price("hb_gear", None, GEAR))
        if None in found:
            raise InputError(f"price book {BOOK} has no {ACCELERATOR}, or no gear of {GEAR}")
        return cls(*(row.base for row in found if row is not None))

    def of(self, case: Case) -> float:
        """Cost of a GPU with its network."""
        share = case.bytes_per_s / FULL_BYTES_PER_S if case.network == SCALE_UP else 0.0
        return self.accelerator + share * self.gear


def expert_network_checks() -> Iterator[Check]:
    """Gains that are printed, as far as netplan has them."""
    yield from stated(expert_network_statements(_served), TABLE)


def expert_network_statements(rate: Rate) -> Iterator[Measured]:
    """Gains in throughput per cost, and which network nothing beats.

    Examples
    --------
    If networks made no difference to times, switchless ones would gain the share of the gear.

    >>> found = dict(expert_network_statements(lambda case: 100.0))
    >>> round(found["switchless over scale-up: least gain in throughput per cost, %"], 1)
    19.5
    """
    costs = Costs.of_book()

    def worth(network: str, bytes_per_s: float, requests: int) -> float:
        case = Case(network, bytes_per_s, requests)
        return rate(case) / costs.of(case)

    full = {each: worth(SCALE_UP, FULL_BYTES_PER_S, each) for each in REQUESTS}
    gains = [
        100 * (worth(network, FULL_BYTES_PER_S, each) / full[each] - 1)
        for network in SWITCHLESS
        for each in REQUESTS
    ]
    yield "switchless over scale-up: least gain in throughput per cost, %", min(gains)
    yield "switchless over scale-up: largest gain in throughput per cost, %", max(gains)
    others = [
        rate(Case(MESH, FULL_BYTES_PER_S, each)) > rate(Case(other, FULL_BYTES_PER_S, each))
        for other in (TORUS, SCALE_OUT)
        for each in REQUESTS
    ]
    yield "full mesh: more tokens/s than all others without scale-up switches", str(all(others))
    less = {
        (bytes_per_s, each): 100 * (worth(SCALE_UP, bytes_per_s, each) / full[each] - 1)
        for bytes_per_s in BANDWIDTHS
        for each in REQUESTS
    }
    best = max(less, key=less.__getitem__)
    yield "scale-up with less bandwidth: largest gain in throughput per cost, %", less[best]
    yield "scale-up: bandwidth of the most throughput per cost, GB/s", best[0] / 1e9


@lru_cache
def _served(case: Case) -> float:
    """Throughput of a GPU by `netplan serving` [tokens/s]."""
    rates = f"{case.bytes_per_s:.0f}"
    overrides: Mapping[str, str] = {
        "accelerator.hb_bytes_per_s": rates,
        "accelerator.network_bytes_per_s": rates,
        "accelerator.network_latency_s": "2.5e-6",
    }
    if case.network == SCALE_OUT:
        overrides = {}
    hb_size = {SCALE_UP: GPUS, SCALE_OUT: SERVER_GPUS}.get(case.network, 1)
    found = serving(
        gpus=GPUS,
        model="deepseek-v3",
        accelerator=ACCELERATOR,
        precision="fp8",
        prompt=2048,
        output=256,
        concurrency=case.requests,
        fabric=case.network if case.network in SWITCHLESS else SWITCHED,
        hb_size=hb_size,
        fixed={"tensor": 1, "pipeline": 1, "expert": GPUS, "attention-data": GPUS},
        overrides=overrides,
    )
    return found.best.tokens_per_s / GPUS
