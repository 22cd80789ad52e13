"""Idle GPUs behind circuit switches: counts and chances by hand, an event count, refusals."""

from math import exp

import numpy as np
import pytest

import netplan
from netplan.answers.faults_screen import no_gain
from netplan.costing.prices import PRICE_BOOKS
from netplan.costing.switches import SWITCHES
from netplan.errors import InputError
from netplan.faults.damage.impact import Subject
from netplan.faults.years.effects import IdleGpus, idle_gpus
from netplan.faults.years.outages import Cause
from netplan.faults.years.policies import SparesPolicy, circuits, links_inside
from netplan.faults.years.rates import FAILURE_BOOKS
from netplan.questions.faults import faults
from netplan.records import replace
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Sizing
from netplan.topologies.rail_circuits import CircuitPlan
from netplan.topologies.specs import FABRICS

ASKED = {"gpus": 1024, "radix": 64, "hb_size": 8, "prices": "2026", "fabrics": ("rail-only",)}
UNITS = {"gpu": 1024, "nic_port": 1024}


@pytest.mark.parametrize(
    ("gpus", "hb_size", "model", "counts", "power_w"),
    [
        # 16 of 136 ports a domain: 8 of 128 domains on each, 108 W each.
        (1024, 8, "palomar", (16, 16 * 136, 2048), 1728.0),
        # 16 of 300 ports: 18 domains on each, 128 / 18 = 7.1.
        (1024, 8, "r300", (8, 2400, 2048), None),
        # 144 of 300 ports: 2 of 64 domains on each; no power is published.
        (4608, 72, "r300", (32, 9600, 9216), None),
        # 128 of 136 ports: a switch for each of 64 domains.
        (4096, 64, "palomar", (64, 8704, 8192), 6912.0),
        # 512 fibres of a domain: 64 GPUs and rails on each of four, 128 of 136 ports.
        (16_384, 256, "palomar", (256, 34_816, 32_768), 27_648.0),
        # 128 of them on each of two, 256 of 300 ports.
        (16_384, 256, "r300", (128, 38_400, 32_768), None),
        # 69 do not fit on one: 34 and 35, and 70 of 136 ports leave no room for another.
        (690, 69, "palomar", (20, 2720, 1380), 2160.0),
    ],
)
def test_circuit_switches_by_hand(
    gpus: int, hb_size: int, model: str, counts: tuple[int, int, int], power_w: float | None
) -> None:
    spec, sizing = FABRICS.load("rail-only"), Sizing(gpus, 64, hb_size, 450e9, 50e9)
    subject = Subject(spec, sizing, build_fabric(spec, sizing), None)
    switch = SWITCHES.load(model)
    found = circuits(subject, SparesPolicy("reconfigure", switch))
    assert (found.switches, found.ports, found.ports_used) == counts
    assert (switch.typical_w and found.switches * switch.typical_w) == power_w


def test_chances_of_idle_gpus_by_hand() -> None:
    book = FAILURE_BOOKS.load("2026").placed(8)
    # GPU, memory and card, 4 h each; software is repaired by the restart.
    mean = 8 * (0.0699 + 0.0375 + 0.0029) * 4 / 8760
    one, two = (
        idle_gpus(book, UNITS, plan=CircuitPlan(136, 128, 8, 1), idle=each)  # type: ignore[arg-type]
        for each in (1, 2)
    )
    assert one.mean_down == pytest.approx(mean)
    # P(N >= 1) = m - m^2/2, P(N >= 2) = m^2/2 - m^3/3, P(N >= 3) = m^3/6.
    assert one.missed == pytest.approx(mean - mean**2 / 2, rel=1e-6)
    assert one.short == pytest.approx(mean**2 / 2 - mean**3 / 3, rel=1e-6)
    assert (two.missed, two.short) == pytest.approx((one.short, mean**3 / 6), rel=1e-3)


@pytest.mark.parametrize("each", [1, 2])
def test_failures_that_find_no_idle_gpu_agree_with_counted_ones(each: int) -> None:
    """One domain of ten failures a year, repaired in 0.05 years on average, one by one."""
    rng, number = np.random.default_rng(0), 400_000
    rate, repair = 10.0, 0.05
    came = np.cumsum(rng.exponential(1 / rate, number))
    ended = came + rng.exponential(repair, number)
    under = np.arange(number) - np.searchsorted(np.sort(ended), came)
    times = np.concatenate([came, ended])
    order = np.argsort(times)
    down = np.cumsum(np.where(order < number, 1, -1))
    short = np.diff(times[order]) @ (down[:-1] > each) / came[-1]
    row = FAILURE_BOOKS.load("2026").rate("GPU")
    mean = rate * repair
    missed = 1 - exp(-mean) * sum((1.0, mean)[:each])
    idle = IdleGpus(1 - each / 8, missed, missed - exp(-mean) * mean**each / each, mean)
    assert (under >= each).mean() == pytest.approx(idle.missed, rel=0.02)
    assert short == pytest.approx(idle.short, rel=0.03)
    taken, lost = idle.split(row, [Cause("GPU", rate, 1, repair_h=repair * 8760)])
    assert taken.effect.domains == 0
    assert lost.under_repair == pytest.approx(idle.short)
    assert taken.failures_per_year + lost.failures_per_year == pytest.approx(rate)


def step_to_circuits(**more: str) -> float:
    """What circuit switches cost by the bills of two fabrics, with them and without [USD]."""
    asked = {**ASKED, "fabrics": ("rail-only", "rail-only-ocs"), **more}
    rows = netplan.compare("rail-only-paper", **asked, timing=False).to_dict()["fabrics"]
    price = {row["fabric"]: row["cost"]["base"] for row in rows}
    return float(price["rail-only-ocs"] - price["rail-only"])


@pytest.mark.parametrize("hall", ["leaves-in-rack", "leaves-end-of-row", "as-published"])
@pytest.mark.parametrize("policy", ["reconfigure", "replace"])
def test_a_policy_costs_what_it_adds_to_the_bill_of_its_fabric(policy: str, hall: str) -> None:
    """Circuit switches that stand on a fabric's bill are not paid for a second time."""
    asked = {**ASKED, "fabrics": ("rail-only", "rail-only-ocs"), "hall": hall, "years": 1}
    answer = faults("rail-only-paper", **asked, policy=policy, timing=False)
    plain, behind = (fabric.policies[1].price for fabric in answer.fabrics)
    assert plain is not None
    assert behind is not None
    assert plain - behind == pytest.approx(step_to_circuits(hall=hall), abs=0.5)
    assert (behind == 0) == (policy == "reconfigure")
    for fabric in answer.fabrics:
        assert fabric.recoveries[0].price is not None


def test_the_price_of_circuits_by_hand() -> None:
    """16 Palomars; two single-mode fibres of 15 m in place of a multimode one, and one to lay."""
    by_hand = 16 * 136 * 520 + 1024 * (2 * 150.044 - 191.425 + 87)
    assert step_to_circuits(hall="as-published") == pytest.approx(by_hand)


def test_the_policy_beside_going_on() -> None:
    answer = faults("rail-only-paper", **ASKED, policy="reconfigure", years=400, timing=False)
    (fabric,) = answer.fabrics
    today, found = fabric.policies
    assert (today.policy, today.forecast) == ("go-on", fabric.forecast)
    assert (found.circuit_switches, found.idle_gpus, found.single_mode_modules) == (16, 128, 2048)
    assert (found.circuit_ports, found.circuit_ports_used) == (2176, 2048)
    assert found.circuit_power_w == 1728
    assert found.price == pytest.approx(step_to_circuits(), abs=0.5)
    # Seven of eight rails, before a failure and after it.
    assert found.bandwidth_share == 7 / 8
    mean = 8 * (0.0699 + 0.0375 + 0.0029) * 4 / 8760
    assert found.replaced_share == pytest.approx(exp(-mean))
    # Idle GPUs' failures stop nothing: an eighth of 1,024 x (GPU, memory, software, card). A link
    # has a fibre more, of which 0.00458 fail a year; 16 circuit switches fail 0.146 times each.
    spared = 128 * (0.0699 + 0.0375 + 0.026 + 0.0029) * exp(-mean)
    more = 1024 * 0.00458 + 16 * 0.146
    stops = today.forecast.interruptions_closed_form - spared + more
    years = found.forecast
    assert years.interruptions_closed_form == pytest.approx(stops, rel=1e-4)
    assert abs(years.interruptions_per_year - stops) < 2 * years.interruptions_half_width
    assert years.goodput == pytest.approx(years.goodput_closed_form, abs=0.003)
    # GPUs and memory take 1,024 x 0.1074 x 4 h domains without the policy, failures of two at once
    # with it; a circuit switch takes 8 domains for 4 h.
    assert today.forecast.domains_down - years.domains_down == pytest.approx(
        (1024 * 0.1074 - 16 * 0.146 * 8) * 4 / 8760 - 128 * mean**2 / 2, rel=1e-3
    )
    assert found.work_share == pytest.approx(years.goodput * 7 / 8)
    assert "After a failed GPU, by policy" in answer.text(120, details=True)
    (plain,) = answer.to_dict()["fabrics"]
    assert [one["policy"] for one in plain["policies"]] == ["go-on", "reconfigure"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"fabrics": ("torus-3d",)}, "on torus-3d: .* give --fabric rail-only"),
        ({"spare_gpus": 8}, "leaves the job no GPU: give --hb-size 9 or more"),
        ({"hb_size": 1024}, "one HB domain has no rails to switch"),
        ({"circuit_switch": "sn5600"}, "--ocs sn5600: it switches packets"),
        ({"policy": "go-on", "spare_gpus": 1}, "--spare-gpus without --policy reconfigure"),
        ({"block_gpus": 4}, "--block-gpus without --policy replace"),
        ({"policy": "replace", "block_gpus": 3}, "blocks of 3 GPUs, .* divides --hb-size"),
        ({"policy": "replace", "spare_gpus": 12}, "12 stand by in blocks of 8: give a multiple"),
        ({"policy": "replace", "spare_gpus": 1080}, "palomar has 136 ports, .* at most 1,072"),
        ({"policy": "replace", "fabrics": ("dragonfly",)}, "--policy replace on dragonfly"),
    ],
)
def test_where_it_means_nothing(changed: dict[str, object], said: str) -> None:
    asked = {**ASKED, "policy": "reconfigure", "years": 1, "timing": False, **changed}
    with pytest.raises(InputError, match=said):
        faults("rail-only-paper", **asked)


def test_other_fabrics_are_left_out_with_the_reason() -> None:
    asked = {**ASKED, "fabrics": ("rail-only", "rail-optimized"), "timing": False, "years": 1}
    answer = faults("rail-only-paper", **asked, policy="reconfigure")
    assert [one.name for one in answer.fabrics] == ["rail-only"]
    assert [refusal.name for refusal in answer.refused] == ["rail-optimized"]


def sized(gpus: int, hb_size: int) -> Subject:
    spec, sizing = FABRICS.load("rail-only"), Sizing(gpus, 64, hb_size, 450e9, 50e9)
    return Subject(spec, sizing, build_fabric(spec, sizing), None)


def test_blocks_by_hand() -> None:
    palomar = SWITCHES.load("palomar")
    # Trays of eight of domains of 256: 8 rails and 8 x 450 / 50 = 72 links into the core. Two
    # domains have 2 x 2 x 32 of 136 ports, and 8 are left for spare trays: 32 pairs x 80 fibres.
    subject = sized(16_384, 256)
    plan = circuits(subject, SparesPolicy("replace", palomar, block_gpus=8, spare_gpus=64))
    assert links_inside(subject, 8) == 72
    assert (plan.fibres, plan.domains_each, plan.switches) == (80, 2, 2560)
    assert (plan.spare_blocks, plan.ports_used) == (256, 80 * (2 * 64 * 32 + 256))
    # A ninth spare tray leaves room for one domain on a switch.
    plan = circuits(subject, SparesPolicy("replace", palomar, block_gpus=8, spare_gpus=72))
    assert (plan.domains_each, plan.switches, plan.spare_blocks) == (1, 5120, 64 * 9)
    # Whole servers of eight: 67 and a spare one on a switch, one for each of eight rails.
    plan = circuits(sized(1024, 8), SparesPolicy("replace", palomar, block_gpus=8))
    assert (plan.fibres, plan.domains_each, plan.switches) == (8, 67, 16)


def test_chances_of_sets_by_hand() -> None:
    """A domain of 256 whose circuit switches have one idle GPU each, and one with one in all."""
    book = FAILURE_BOOKS.load("2026").placed(256)
    units = {"gpu": 1024, "nic_port": 1024}
    plan = CircuitPlan(136, 4, 256, 1)
    mean = 64 * (0.0699 + 0.0375 + 0.0029) * 4 / 8760  # of a set of 64
    four, single = (
        idle_gpus(book, units, plan=plan, idle=idle)  # type: ignore[arg-type]
        for idle in (4, 1)
    )
    none, two = exp(-mean), 1 - exp(-mean) * (1 + mean)
    assert four.mean_down == pytest.approx(4 * mean)
    assert four.missed == pytest.approx(1 - none)
    assert four.short == pytest.approx(1 - (1 - two) ** 4)
    assert four.used == 252 / 256
    # Three of four sets have none.
    assert single.missed == pytest.approx((3 + 1 - none) / 4)
    assert single.short == pytest.approx(1 - none**3 * (1 - two))


def test_spare_servers_of_many_domains_agree_with_counted_ones() -> None:
    """Ten domains of eight share two spare ones: what is missing beyond them, moment by moment."""
    book = FAILURE_BOOKS.load("2026").placed(8)
    units = {"gpu": 80, "nic_port": 80, "hb_domain": 10, "rack": 0}
    idle = idle_gpus(
        book.changed(rates=tuple(row for row in book.rates if row.cause == "GPU")),
        units,  # type: ignore[arg-type]
        plan=CircuitPlan(136, 10, 1, 8, spares=2),
        idle=0,
    )
    mean = 80 * 0.0699 * 4 / 8760
    assert idle.whole
    assert idle.used == 1
    assert idle.mean_down == pytest.approx(mean)
    down = mean * 12 / 10  # the spare ones fail, too
    chance = [exp(-down) * down**n / np.prod(np.arange(1, n + 1)) for n in range(15)]
    assert idle.missed == pytest.approx(1 - sum(chance[:2]), rel=1e-6)
    short = sum(share * min(n - 2, 10) for n, share in enumerate(chance) if n > 2)
    assert idle.short == pytest.approx(short, rel=1e-6)


@pytest.mark.parametrize(
    ("gpus", "hb_size", "spare_gpus", "share"), [(1024, 8, 8, 1.0), (2048, 256, 64, 1.0)]
)
def test_spare_blocks_take_over(gpus: int, hb_size: int, spare_gpus: int, share: float) -> None:
    asked = {**ASKED, "gpus": gpus, "hb_size": hb_size, "spare_gpus": spare_gpus}
    (fabric,) = faults(
        "rail-only-paper", **asked, policy="replace", years=200, timing=False
    ).fabrics
    today, found = fabric.policies
    assert (found.policy, found.bandwidth_share, found.idle_gpus) == ("replace", share, 0)
    assert found.work_share == found.forecast.goodput
    # What is missing is less than without, by all that spares take over, but for circuit switches.
    taken = today.forecast.domains_down - found.forecast.domains_down
    outside = found.circuit_switches - found.circuits_inside
    circuits_down = outside * found.set_domains * 0.146 * 4 / 8760
    of_gpus = gpus * 0.1074 * 4 / 8760
    assert found.replaced_share is not None
    assert taken + circuits_down >= of_gpus * 0.98
    assert found.replaced_share > 0.97
    assert found.forecast.goodput == pytest.approx(found.forecast.goodput_closed_form, abs=0.003)
    fibres = hb_size * found.circuits_inside // outside if found.circuits_inside else 0
    assert fibres == (0 if hb_size == 8 else 72 * 256 // 8)


def test_the_price_of_spare_servers_by_hand() -> None:
    asked = {**ASKED, "policy": "replace", "years": 1, "timing": False, "hall": "as-published"}
    (fabric,) = faults("rail-only-paper", **asked).fabrics
    found = fabric.policies[1]
    assert (found.extra_gpus, found.circuit_switches) == (16, 16)
    # Beside the circuits of the job 16 cards, each with a fibre of 15 m and a module.
    fibre = 19.5 + 2.75 * 15
    assert found.price is not None
    rest = found.price - step_to_circuits(hall="as-published") - 16 * fibre
    prices = PRICE_BOOKS.load("2026")
    module, card = prices.price("transceiver", 400.0), prices.price("nic_port", 400.0)
    assert module is not None
    assert card is not None
    assert rest == pytest.approx(16 * (prices.offer(module, 16).base + prices.offer(card, 16).base))


@pytest.mark.parametrize(
    ("blocks", "repair", "closeness"), [(1, 0.04, (0.93, 1.07)), (4, 0.25, (0.8, 0.99))]
)
def test_short_domains_agree_with_counted_ones(
    blocks: int, repair: float, closeness: tuple[float, float]
) -> None:
    """Ten domains share two spare blocks: failures one by one, spares given to who came first.

    A domain that lacks two blocks at once is short once, which the closed form counts twice.
    """
    rng, number, domains, spares = np.random.default_rng(1), 250_000, 10, 2
    book, units = FAILURE_BOOKS.load("2026").placed(8), {"gpu": 80, "nic_port": 80}
    gpu = book.rate("GPU")
    rate = 80 * gpu.rate_per_year.base * (1 + spares / (domains * blocks))
    hours = next(row for row in book.repairs if row.kind == "gpu")
    hours = replace(hours, base=repair * 8760, low=None, high=None)
    idle = idle_gpus(
        book.changed(rates=(gpu,), repairs=(hours,)),
        units,  # type: ignore[arg-type]
        plan=CircuitPlan(136, domains, blocks, 1, spares=spares),
        idle=0,
    )
    came = np.cumsum(rng.exponential(1 / rate, number))
    ended = came + rng.exponential(repair, number)
    of = rng.integers(0, domains, number)
    order = np.argsort(np.concatenate([came, ended]))
    times = np.concatenate([came, ended])[order]
    waiting: list[int] = []
    short, missed, last = 0.0, 0, 0.0
    for moment, event in zip(times.tolist(), order.tolist(), strict=True):
        lacking = {int(of[failure]) for failure in waiting[spares:]}
        short += (moment - last) * len(lacking)
        last = moment
        if event < number:
            missed += len(waiting) >= spares
            waiting.append(event)
        else:
            waiting.remove(event - number)
    assert missed / number == pytest.approx(idle.missed, rel=0.03)
    assert closeness[0] <= short / last / idle.short <= closeness[1]


def test_a_policy_that_does_less_says_why() -> None:
    asked = {"gpus": 16384, "hb_size": 256, "fabrics": ("rail-only",), "timing": False, "years": 20}
    answer = faults("hgx-h100", **asked, policy="reconfigure")
    (fabric,) = answer.fabrics
    today, spared = fabric.policies
    assert today.work_share is not None
    assert spared.work_share is not None
    # Four idle GPUs of each 256, one a circuit switch, are 1.56 % of the work.
    assert (
        today.work_share > spared.work_share == pytest.approx(spared.forecast.goodput * 252 / 256)
    )
    (sentence,) = no_gain("rail-only", fabric.policies)
    assert "256 idle GPUs cost 1.56 % of the work" in sentence
    for text in (answer.text(80), answer.text(120, details=True)):
        assert sentence in " ".join(text.split())
    better = (today, replace(spared, work_share=today.work_share + 0.001))
    assert not [*no_gain("rail-only", better)]
    blocks = replace(spared, policy="replace", idle_gpus=0, work_share=today.work_share)
    (sentence,) = no_gain("rail-only", (today, blocks))
    assert "interruptions a year for" in sentence
