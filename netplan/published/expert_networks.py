"""What is printed of networks that serve experts without switches, beside netplan's own figures.

Choi et al. compare scale-up switches, a scale-out network, a 3D torus and a 3D full mesh for models
of many experts: switchless ones serve 20.6 to 56.2 % more for the money, less link bandwidth up to
27 % more. Only the abstract was readable, and a summary of the rest on GitHub; so the cluster here
is netplan's choice, that of the study `expert-network-cost`: 64 H100 with DeepSeek-V3, whose
experts and attention are divided over all. Its file says which networks are asked, and how.

Throughput is that of `netplan serving`. What it costs: an accelerator with its share of a server,
as the price book has it, and for scale-up switches the gear of an NVL72 in proportion to their
bandwidth, for switchless networks nothing. So their gains are upper limits at these prices. netplan
hides no exchange behind other work, which the paper does (two batches in turn); hidden in full,
networks without switches would gain the share of the gear.

What the gear costs there is not known. With throughput T_s of a network without switches and T of
full ones, the gain is T_s / T (1 + g) - 1 for gear of g GPUs: the largest printed one gives g, and
g what a third of the bandwidth should gain, which is printed, too.

Source: Choi, Son, Choi, Kim, Shao, Shenker, Ratnasamy and Nikolic, Rethinking Network Topologies
for Cost-Effective Mixture-of-Experts LLM Serving (arXiv:2605.00254).

What is printed of unevenly loaded experts, beside netplan's shares, packing and times.

EPLB prints one example, loads of twelve experts in two layers and where it puts sixteen copies on
eight GPUs; it keeps groups of experts on nodes there, which netplan does not. DeepSeek prints how
many experts a GPU has with 32 redundant ones, and SGLang's team by how much EPLB sped up servers on
96 H100, without the loads that it met: netplan takes the least skew that was measured of such
models. DODOCO prints Gini coefficients of real text, and that the load of an expert over the mean
hardly depends on the GPUs that share the experts. What its mock tokens do (2.35 times the Gini
coefficient) is about benchmarks, and has no counterpart here; of the paper only its abstract was
readable.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from netplan.arrays import Floats
from netplan.catalog import shipped_root
from netplan.costing.prices import PRICE_BOOKS
from netplan.documents import read_yaml
from netplan.errors import InputError
from netplan.performance.serving.cases import (
    ServingSoftware,
    domain_levels,
    formats_of,
    serving_case,
)
from netplan.performance.serving.outcomes import Requests, ServingCase, decode_steps, prefills
from netplan.performance.serving.plans import ServingPlans, serving_plans
from netplan.performance.stacks import SERVING_STACKS
from netplan.published.checks import Check, Measured, published, suite
from netplan.questions.serving import serving
from netplan.records import replace
from netplan.units import PERCENT
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.expert_load import ExpertLoad, eplb, gini_shares
from netplan.workloads.models import MODELS
from netplan.workloads.published_skew import EXPERT_SKEWS

TABLE = "expert-networks"
LARGEST = "switchless over scale-up: largest gain in throughput per cost, %"
BOOK, GEAR_GB_S = "2026", 900
"""Price book, and what a GPU of an NVL72 has into its domain, one way [GB/s]."""
STUDY = "reports/studies/expert-network-cost.yaml"
SCALE_UP, SCALE_OUT, TORUS, MESH = "scale-up", "scale-out", "torus-3d", "full-mesh-3d"
SWITCHLESS = (TORUS, MESH)
SWITCHED, SERVER_GPUS = "rail-optimized", 8
"""Fabric of the switched ones, and GPUs of a server, beyond which a scale-out network goes [1]."""


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


@cache
def study_points() -> Mapping[Case, Mapping[str, Any]]:
    """Inputs of every point of the study, by its case.

    Examples
    --------
    >>> points = study_points()
    >>> len(points), points[Case("torus-3d", 450e9, 512)]["hb_size"]
    (26, 1)
    """
    study = read_yaml(shipped_root() / STUDY).data
    networks, requests = study["axes"]
    names, columns = networks["zip"].keys(), networks["zip"].values()
    points = {}
    for row in zip(*columns, strict=True):
        asked = dict(zip(names, row, strict=True))
        for value in requests["values"]:
            rate = asked["accelerator.hb_bytes_per_s"]
            case = Case.of(asked["fabric"], asked["hb_size"], bytes_per_s=rate, requests=value)
            points[case] = {**study["inputs"], **asked, requests["input"]: value}
    return points


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
        (chip,) = {point["accelerator"] for point in study_points().values()}
        price = book.price("accelerator", None, chip)
        parts = [book.price("hb_gear", None, part) for part in ("hb-switch", "hb-copper")]
        if price is None or None in parts:
            raise InputError(f"price book {BOOK} has no {chip}, or no gear of HB domains")
        return cls(price.base, GEAR_GB_S * sum(part.base for part in parts if part))

    def of(self, case: Case) -> float:
        """Cost of a GPU with its network."""
        full = max(point.bytes_per_s for point in study_points())
        share = case.bytes_per_s / full if case.network == SCALE_UP else 0.0
        return self.accelerator + share * self.gear


@suite(TABLE)
def expert_network_checks() -> Iterator[Measured | Check]:
    """Gains that are printed, as far as netplan has them."""
    return expert_network_statements(_served)


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
    bandwidths = {case.bytes_per_s for case in study_points() if case.network == SCALE_UP}
    requests = {case.requests: None for case in study_points()}
    most = max(bandwidths)

    def worth(network: str, bytes_per_s: float, requests: int) -> float:
        case = Case(network, bytes_per_s, requests)
        return rate(case) / costs.of(case)

    full = {count: worth(SCALE_UP, most, count) for count in requests}
    gains = [
        100 * (worth(network, most, count) / full[count] - 1)
        for network in SWITCHLESS
        for count in requests
    ]
    yield "switchless over scale-up: least gain in throughput per cost, %", min(gains)
    yield LARGEST, max(gains)
    others = [
        rate(Case(MESH, most, count)) > rate(Case(other, most, count))
        for other in (TORUS, SCALE_OUT)
        for count in requests
    ]
    yield "full mesh: more tokens/s than all others without scale-up switches", str(all(others))
    less = {
        (bytes_per_s, count): 100 * (worth(SCALE_UP, bytes_per_s, count) / full[count] - 1)
        for bytes_per_s in sorted(bandwidths, reverse=True)
        for count in requests
    }
    best = max(less, key=less.__getitem__)
    yield "scale-up with less bandwidth: largest gain in throughput per cost, %", less[best]
    yield "scale-up: bandwidth of the most throughput per cost, GB/s", best[0] / 1e9
    yield from _at_the_asked_price(rate, requests, most)


LEAST_BYTES_PER_S = 150e9
"""The least bandwidth of the range in which most throughput per cost is printed [B/s]."""


def _at_the_asked_price(rate: Rate, requests: Iterable[int], most: float) -> Iterator[Measured]:
    """Gear that the largest printed gain asks for, and what less bandwidth gains with it."""
    printed = {row["name"]: row["expected"] for row in published(TABLE)}
    scale_up = {count: rate(Case(SCALE_UP, most, count)) for count in requests}
    reached = max(
        rate(Case(network, most, count)) / full
        for network in SWITCHLESS
        for count, full in scale_up.items()
    )
    share = (1 + float(printed[LARGEST]) / PERCENT) / reached - 1
    yield "gear that the largest gain asks for, % of a GPU", PERCENT * share
    costs = Costs(1.0, share)
    cheaper = costs.of(Case(SCALE_UP, most, 0)) / costs.of(Case(SCALE_UP, LEAST_BYTES_PER_S, 0))
    gains = [
        rate(Case(SCALE_UP, LEAST_BYTES_PER_S, count)) / full * cheaper - 1
        for count, full in scale_up.items()
    ]
    yield (
        "scale-up at 150 GB/s, gear at that price: gain in throughput per cost, %",
        (PERCENT * max(gains)),
    )


@cache
def _served(case: Case) -> float:
    """Throughput of a GPU by `netplan serving`, asked as the study asks [tokens/s]."""
    asked = study_points()[case]
    fixed = {key: value for key, value in asked.items() if key.startswith("fixed.")}
    overrides = {key: value for key, value in asked.items() if key.startswith("accelerator.")}
    others = {key: value for key, value in asked.items() if "." not in key}
    answer = serving(
        "serving-70b-h200",
        **others,
        fixed={key.removeprefix("fixed.").replace("_", "-"): value for key, value in fixed.items()},
        overrides={key: str(value) for key, value in overrides.items()},
    )
    return answer.best.tokens_per_s / float(asked["gpus"])


SKEW_TABLE = "expert-skew"
EXAMPLE = "eplb-example"
SERVED_GPUS, REDUNDANT, RANKS = 8, 32, (4, 32)
"""GPUs of EPLB's example; redundant experts of DeepSeek's deployment; DODOCO's ranks [1]."""
ROUTED = {"DeepSeek-MoE-16B": 64, "Nemotron-30B": 128, "DeepSeek-V2-Lite": 64}
"""Routed experts of a layer of the models that DODOCO measured [1]."""


def gini_of(shares: Floats) -> float:
    """Gini coefficient of the shares of experts: mean difference over twice the mean [1].

    Examples
    --------
    >>> gini_of(np.array([0.25, 0.25, 0.25, 0.25])), gini_of(np.array([1.0, 0.0]))
    (0.0, 0.5)
    """
    rising, count = np.sort(shares), len(shares)
    ranks = 2 * np.arange(1, count + 1) - count - 1
    return float(ranks @ rising / count / rising.sum())


@suite(SKEW_TABLE)
def expert_skew_checks() -> Iterator[Measured | Check]:
    """Printed packings, deployments and coefficients against netplan's.

    Yields
    ------
    Measured or Check
        Netplan's values.
    """
    yield from _example()
    for ranks in (RANKS[1], 144):
        held = eplb(gini_shares(_least(), 256), ranks, REDUNDANT).shares.shape[1]
        yield f"DeepSeek-V3 on {ranks} GPUs, 32 redundant: experts of a GPU", float(held)
    for family, model in (
        ("multi-head", "DeepSeek-MoE-16B"),
        ("mamba", "Nemotron-30B"),
        ("latent", "DeepSeek-V2-Lite"),
    ):
        shares = gini_shares(EXPERT_SKEWS.load(family).gini, ROUTED[model])
        yield f"{model}: Gini coefficient of the shares of experts", gini_of(shares)
    shares = gini_shares(_least(), 64)
    most = [eplb(shares, ranks).shares.max() * len(shares) for ranks in RANKS]
    changed = float(100 * abs(most[1] / most[0] - 1))
    yield "4 to 32 ranks: change of the largest share over the mean, %", changed
    # DeepSeek-R1 on H100, experts as they come over those by EPLB: prompts of 4,096 tokens on 32
    # GPUs, and 128 requests a GPU that decode on 64.
    for gpus, phase in ((32, "prefill"), (64, "decode")):
        shuffled_s, balanced_s = (
            _seconds(load, gpus, prompts=phase == "prefill") for load in ("shuffled", "eplb")
        )
        yield f"96 H100, {phase}: EPLB over none", shuffled_s / balanced_s


def _least() -> float:
    """Gini coefficient that models like DeepSeek's have at least [1]."""
    return EXPERT_SKEWS.load("latent").gini


def _example() -> Iterator[Measured]:
    """Imbalance of netplan's plan of EPLB's example, and which experts get copies."""
    for layer in (1, 2):
        rows = [row for row in published(EXAMPLE) if row["layer"] == str(layer)]
        loads = np.array([float(row["load"]) for row in rows])
        shares = loads / loads.sum()
        placed = eplb(shares, SERVED_GPUS, 4)
        yield f"EPLB's example, layer {layer}: busiest GPU over the mean", placed.imbalance
        if layer == 1:
            halves = np.isin(shares / 2, placed.shares)
            copied = " ".join(str(expert) for expert in np.flatnonzero(halves).tolist())
            yield "EPLB's example, layer 1: experts with two copies", copied


def _seconds(placement: str, gpus: int, *, prompts: bool) -> float:
    """What a prompt takes of a GPU, or a step of decode, with experts on so many GPUs [s]."""
    case, plans = _case(placement, gpus)
    if prompts:
        return float(prefills(case, plans, np.array([8.0])).each_s[0])
    return float(decode_steps(case, plans, np.array([128.0])).step_s[0])


def _case(placement: str, gpus: int) -> tuple[ServingCase, ServingPlans]:
    """DeepSeek-R1 on so many H100, an expert group over all of them."""
    model, chip = MODELS.load("deepseek-r1"), ACCELERATORS.load("h100-80gb")
    if model.experts is not None:
        copies = gpus if placement == "eplb" else 0
        shares = tuple(gini_shares(_least(), model.experts.count).tolist())
        load = ExpertLoad(
            shares=shares, placement="eplb" if copies else "shuffled", redundant=copies
        )
        model = model.changed(experts=replace(model.experts, load=load))
    stack = replace(SERVING_STACKS.load("sglang"), exchange="deepep")
    levels = domain_levels(chip, gpus)
    formats = formats_of(chip, model, "fp8")
    case = serving_case(chip, model, levels, Requests(4096, 256), formats, ServingSoftware(stack))
    fixed = {"tensor": 1, "attention_data": gpus, "expert": gpus, "pipeline": 1}
    return case, serving_plans(model, gpus, case.served.sizes, fixed)
