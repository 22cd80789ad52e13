"""Experts over several domains of rails: what is forwarded, what it costs, what is said of it."""

from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netplan
from netplan.errors import InputError
from netplan.levels import Level
from netplan.performance.forwarding import ExpertPlacement, Forwarding, rails_loss
from netplan.performance.plan import PlanTime
from netplan.performance.search import evaluate_alone
from netplan.records import replace
from netplan.reports.schema import plain_data
from netplan.traffic.collectives import all_to_all_s
from netplan.traffic.hierarchy import CollectiveNetwork, Communication, Group
from netplan.traffic.measured_links import MeasuredLinks
from netplan.workloads.accelerators import ACCELERATORS

DATA = 1e9
"""Message of a GPU [B]."""


def seconds(used: Communication, domain: Level, network: Level) -> float:
    """What an all_to_all of all GPUs takes [s]."""
    members = np.array([[domain.size], [network.size]])
    group = Group(members, np.ones_like(members))
    whole = CollectiveNetwork((domain, network), used).collective("all_to_all", group)
    return float(whole.seconds(DATA)[0])


@given(
    sizes=st.tuples(st.integers(2, 72), st.integers(2, 64)),
    rates=st.tuples(st.floats(1e11, 1e12), st.floats(1e10, 1e11)),
    overlap=st.floats(0, 1),
)
def test_phased_all_to_alls_are_those_of_the_paper(
    sizes: tuple[int, int], rates: tuple[float, float], overlap: float
) -> None:
    """Eq. 20 where all GPUs are joined, Eq. 21 on rails, in between what overlaps."""
    domain, joined = (Level("switch", *pair) for pair in zip(sizes, rates, strict=True))
    rails, phased = replace(joined, same_rank=True), Communication("hierarchical", overlap_share=0)
    paper = [
        float(all_to_all_s(DATA / np.prod(sizes), *sizes, *rates, fabric))
        for fabric in ("rail-optimized", "rail-only")
    ]
    assert seconds(phased, domain, joined) == pytest.approx(paper[0])
    assert seconds(phased, domain, rails) == pytest.approx(paper[1])
    (x, y), (inside, outside) = sizes, rates
    both = (x - 1) / x * DATA / inside, (y - 1) / y * DATA / outside
    assert sum(both) == pytest.approx(paper[1])
    shared = max(both) + (1 - overlap) * min(both)
    for used in (phased, Communication("flat_ring")):
        overlapped = replace(used, overlap_share=overlap)
        assert seconds(overlapped, domain, rails) == pytest.approx(shared)
    # A ring of all levels has the longer of both, wherever GPUs are joined.
    ring = Communication("flat_ring", overlap_share=0)
    assert seconds(ring, domain, joined) == pytest.approx(max(both))


def test_measured_all_to_alls_on_rails_by_hand() -> None:
    """Two domains of 8 H100: a start each, 7/8 D inside, 1/2 D outside, with their ramps."""
    links = MeasuredLinks.of(ACCELERATORS.load("h100-80gb"))
    domain = Level("switch", 8, 450e9)
    rails = Level("switch", 2, 50e9, same_rank=True)
    parts = []
    for link, share, rate in (
        (links.domain, 7 / 8, 450e9),
        (links.network("infiniband"), 1 / 2, 50e9),
    ):
        sent = link.all_to_all.large
        slope = share / (sent.efficiency * rate)
        parts.append((sent.start_s, slope * DATA + 2 * np.sqrt(sent.ramp_s * slope * DATA)))
    start_s = sum(start for start, _ in parts)
    moves = [moved for _, moved in parts]
    for overlap in (0.0, 0.25, 1.0):
        used = Communication("flat_ring", links=links, overlap_share=overlap)
        expected = start_s + max(moves) + (1 - overlap) * min(moves)
        assert seconds(used, domain, rails) == pytest.approx(expected, rel=1e-9)


EXPERTS: dict[str, Any] = {
    "gpus": 64,
    "batch": 64,
    "model": "qwen3-30b-a3b",
    "accelerator": "h100-80gb",
    "ignore_memory": True,
}
SPREAD = {"tensor": 1, "pipeline": 1, "expert": 64}
"""Experts on eight domains of 8, eight in each."""


def best(fabric: str, **asked: Any) -> PlanTime:  # noqa: ANN401 - any input
    return netplan.search("hgx-h100", fabric=fabric, **(EXPERTS | asked)).best


def parts_s(links: MeasuredLinks | None, data_bytes: float) -> tuple[float, float]:
    """8 x 8 H100 by hand: inside the domain, and all else of a plain exchange [s]."""
    inside_s, outside_s = (7 / 8 * data_bytes / rate for rate in (450e9, 50e9))
    if links is None:  # 0.7 of each rate; 7 steps of 2.5 and 7 of 5 us
        return inside_s / 0.7, outside_s / 0.7 + 7 * 7.5e-6
    domain, network = (
        link.all_to_all.large for link in (links.domain, links.network("infiniband"))
    )
    inside_s, outside_s = inside_s / domain.efficiency, outside_s / network.efficiency
    ramps = 2 * np.sqrt(domain.ramp_s * inside_s), 2 * np.sqrt(network.ramp_s * outside_s)
    return inside_s + ramps[0], outside_s + ramps[1] + domain.start_s + network.start_s


@pytest.mark.parametrize("iteration_model", ["4d", "measured"])
def test_forwarding_takes_a_ninth_of_expert_time(iteration_model: str) -> None:
    """8 x 8 GPUs of 450 and 50 GB/s: a = 7/8 D / 450, e = 7/8 D / 50, a / e = 1/9, less starts.

    As measured, both at the share of the rate that they reach, and with their ramps: 16 %.
    """
    asked = {"iteration_model": iteration_model, "fixed": SPREAD}
    joined, rails = (best(name, **asked) for name in ("rail-optimized", "rail-only"))
    experts_s = [timed.breakdown_s["expert_comm"] for timed in (joined, rails)]
    measured = iteration_model == "measured"
    links = MeasuredLinks.of(ACCELERATORS.load("h100-80gb")) if measured else None
    # 4,096 rows of 2,048 numbers of 2 bytes, 8 copies of each; four times in 48 layers.
    inside_s, other_s = parts_s(links, 4096 * 2048 * 2 * 8)
    assert experts_s[0] == pytest.approx(4 * 48 * other_s, rel=0.003)
    assert experts_s[1] == pytest.approx(4 * 48 * (inside_s + other_s), rel=0.003)
    assert experts_s[1] / experts_s[0] == pytest.approx(1.163 if measured else 1.11, abs=0.002)
    hidden = best("rail-only", **asked, overlap_share=1.0)
    assert hidden.breakdown_s["expert_comm"] == pytest.approx(experts_s[0], rel=1e-9)
    half = best("rail-only", **asked, overlap_share=0.5).breakdown_s["expert_comm"]
    assert half == pytest.approx(sum(experts_s) / 2, rel=1e-3)


@settings(max_examples=12, deadline=None)
@given(
    model=st.sampled_from(["qwen3-30b-a3b", "mixtral-8x7b", "deepseek-v3", "gpt-oss-120b"]),
    how=st.sampled_from(
        [
            {"iteration_model": "4d"},
            {"iteration_model": "measured"},
            {"dispatcher": "alltoall"},
            {"dispatcher": "hybridep"},
            {"dispatcher": "deepep", "overlap_share": 0.3},
            {
                "iteration_model": "ptd-p",
                "overrides": {"iteration-model.compute.operations": "detailed"},
            },
        ]
    ),
    accelerator=st.sampled_from(["h100-80gb", "b200-1000w"]),
    domains=st.sampled_from([2, 4, 16]),
    expert=st.sampled_from([None, 8]),
)
def test_rails_are_never_faster_for_experts(
    model: str, how: dict[str, Any], accelerator: str, domains: int, expert: int | None
) -> None:
    """Every search, whether its experts are spread over domains or may stay inside."""
    asked = {**how, "model": model, "accelerator": accelerator, "gpus": 8 * domains, "hb_size": 4}
    if expert is not None:
        asked["fixed"] = {"expert": expert}
    joined, rails = (best(name, **asked) for name in ("rail-optimized", "rail-only"))
    # The search may take a plan within 1 % that cuts less.
    assert rails.iteration_time_s >= joined.iteration_time_s * 0.99


@pytest.mark.parametrize(
    ("placed", "how"),
    [
        (placed, how)
        for placed in ("unspread", "domain", "domains")
        for how in (
            {"iteration_model": "4d"},
            {"iteration_model": "measured"},
            {"dispatcher": "alltoall"},
            {"dispatcher": "hybridep"},
            {"dispatcher": "deepep", "overlap_share": 0.3},
        )
    ],
)
def test_the_same_plan_is_never_faster_on_rails(placed: str, how: dict[str, Any]) -> None:
    """The plans of a search on rails, each on both networks: no slack, and equal where none cross.

    They differ in nothing but what is forwarded, which nothing is inside a domain.
    """
    expert = {"unspread": 1, "domain": 8, "domains": 64}[placed]
    asked = EXPERTS | how | {"fixed": {"expert": expert, "tensor": 1}, "top": 5}
    rails, joined = (
        netplan.search("hgx-h100", fabric=name, **asked).found
        for name in ("rail-only", "rail-optimized")
    )
    for found in rails.plans:
        setting = rails.setting_of(found)
        on_rails, on_clos = (
            evaluate_alone(setting, result.levels, found.plan) for result in (rails, joined)
        )
        assert on_rails.iteration_time_s >= on_clos.iteration_time_s
        if placed != "domains":
            assert on_rails.iteration_time_s == on_clos.iteration_time_s


def compared(**asked: Any) -> tuple[Forwarding, float]:  # noqa: ANN401 - any input
    """What a comparison says, and what rails lose by its rows."""
    both = ("rail-only", "rail-optimized")
    answer = netplan.compare("hgx-h100", fabrics=both, radix=32, **(EXPERTS | asked))
    times = {row.name: row.time_s for row in answer.rows}
    assert answer.forwarding is not None
    forwarding = answer.forwarding()
    assert forwarding is not None
    assert answer.to_dict()["forwarding"] == plain_data(forwarding)
    return forwarding, times["rail-only"] / times["rail-optimized"] - 1


FLAGS: dict[str, dict[str, Any]] = {
    "--dispatcher alltoall": {"dispatcher": "alltoall"},
    "--dispatcher hybridep": {"dispatcher": "hybridep"},
    "--overlap-share 1": {"overlap_share": 1.0},
    "--overlap-share 0": {"overlap_share": 0.0},
}


@pytest.mark.parametrize(
    "asked",
    [
        {"fixed": {"expert": 64}},
        {"fixed": {"expert": 64}, "dispatcher": "alltoall"},
        {"fixed": SPREAD, "iteration_model": "4d"},
        {"fixed": SPREAD, "iteration_model": "4d", "overlap_share": 1.0},
    ],
)
def test_the_other_side_is_what_its_flag_gives(asked: dict[str, Any]) -> None:
    forwarding, loss = compared(**asked)
    assert forwarding.placement == "domains"
    assert forwarding.loss == pytest.approx(rails_loss(1 + loss, 1.0))
    assert forwarding.other_loss is not None
    assert forwarding.other in forwarding.reason
    assert f"loses {100 * forwarding.other_loss:.1f} %" in forwarding.reason
    _, other = compared(**(asked | FLAGS[forwarding.other]))
    assert forwarding.other_loss == pytest.approx(rails_loss(1 + other, 1.0))
    # One side hides what the other one pays.
    less, more = sorted((forwarding.loss, forwarding.other_loss))
    assert less < 0.005
    assert more > 0.02


def test_experts_inside_a_domain_forward_nothing() -> None:
    forwarding, loss = compared(fixed={"expert": 8, "expert_tensor": 1})
    assert (forwarding.placement, forwarding.loss, forwarding.other_loss) == ("domain", 0.0, None)
    assert loss == 0.0
    assert forwarding.reason == "experts stay inside HB domains, so that nothing is forwarded"
    answer = netplan.compare("hgx-h100", fabrics=("rail-only", "rail-optimized"), gpus=64)
    assert answer.forwarding is not None
    assert answer.forwarding() is None  # no experts


@pytest.mark.parametrize("placement", get_args(ExpertPlacement))
@pytest.mark.parametrize("other", [None, 0.1])
def test_every_placement_of_experts_has_a_reason(
    placement: ExpertPlacement, other: float | None
) -> None:
    flag = "--overlap-share 1" if other is not None else ""
    forwarding = Forwarding(placement, "", 0.0, False, 0.05, flag, other)
    assert forwarding.sentence.startswith("Rail-only loses 5.0 %")
    assert ("rail-only loses 10.0 %" in forwarding.reason) == (other is not None)
    longer = "since forwarding would take longer"
    assert (longer in forwarding.reason) == (placement != "domains" and other is not None)
    assert longer not in replace(forwarding, overlap_share=1.0).reason  # where it hides


def test_only_what_the_search_may_lose_is_no_loss() -> None:
    """A plan within 1 % of the fastest may be taken where all are joined; more is a gain."""
    assert rails_loss(99.5, 100.0) == rails_loss(100.0, 100.0) == 0.0
    assert rails_loss(98.0, 100.0) == pytest.approx(-0.02)
    assert rails_loss(103.0, 100.0) == pytest.approx(0.03)


@pytest.mark.parametrize("name", ["rail-only-paper", "four-d-paper", "dfmodel-paper"])
def test_papers_without_experts_over_domains_hide_what_they_do_not_say(name: str) -> None:
    assert netplan.Scenario.load(name).value("overlap_share") == 1


@pytest.mark.parametrize("share", [-1.0, 1.2, float("nan")])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(InputError, match=r"--overlap-share .* give a number from 0 to 1"):
        netplan.search("hgx-h100", gpus=64, model="llama-3-8b", overlap_share=share)
