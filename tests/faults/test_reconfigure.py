"""Idle GPUs behind circuit switches: counts and chances by hand, an event count, refusals."""

from math import exp

import numpy as np
import pytest

import netplan
from netplan.costing.switches import SWITCHES
from netplan.errors import InputError
from netplan.faults.damage.impact import Subject
from netplan.faults.years.effects import IdleGpus, idle_gpus
from netplan.faults.years.outages import Cause
from netplan.faults.years.rates import FAILURE_BOOKS
from netplan.faults.years.recoveries import circuits
from netplan.questions.faults import faults
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Sizing
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
    ],
)
def test_circuit_switches_by_hand(
    gpus: int, hb_size: int, model: str, counts: tuple[int, int, int], power_w: float | None
) -> None:
    spec, sizing = FABRICS.load("rail-only"), Sizing(gpus, 64, hb_size, 450e9, 50e9)
    subject = Subject(spec, sizing, build_fabric(spec, sizing), None)
    found = circuits(subject, SWITCHES.load(model), 1)
    assert (found.switches, found.ports, found.ports_used) == counts
    assert found.power_w == power_w


def test_chances_of_idle_gpus_by_hand() -> None:
    book = FAILURE_BOOKS.load("2026").placed(8)
    # GPU, memory and card, 4 h each; software is repaired by the restart.
    mean = 8 * (0.0699 + 0.0375 + 0.0029) * 4 / 8760
    one, two = (
        idle_gpus(book, UNITS, per_domain=each, domains=128, hb_size=8)  # type: ignore[arg-type]
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
    idle = IdleGpus(each, 8, missed, missed - exp(-mean) * mean**each / each, mean)
    assert (under >= each).mean() == pytest.approx(idle.missed, rel=0.02)
    assert short == pytest.approx(idle.short, rel=0.03)
    taken, lost = idle.split(row, [Cause("GPU", rate, 1, repair_h=repair * 8760)])
    assert taken.effect.domains == 0
    assert lost.under_repair == pytest.approx(idle.short)
    assert taken.failures_per_year + lost.failures_per_year == pytest.approx(rate)


def test_the_policy_beside_going_on() -> None:
    answer = faults("rail-only-paper", **ASKED, policy="reconfigure", years=400, timing=False)
    (fabric,) = answer.fabrics
    today, found = fabric.policies
    assert (today.policy, today.forecast) == ("go-on", fabric.forecast)
    assert (found.circuit_switches, found.idle_gpus, found.single_mode_modules) == (16, 128, 2048)
    assert (found.circuit_ports, found.circuit_ports_used) == (2176, 2048)
    assert found.circuit_power_w == 1728
    # 520 USD a port, the second fibre of each link by its 15 m, and an eighth of the network.
    bill = netplan.cost("rail-only-paper", **ASKED).bills[0]
    assert found.price == pytest.approx(
        2176 * 520 + 1024 * (19.5 + 2.75 * 15) + bill.capital.base / 8
    )
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
        ({"hb_size": 256}, "512 fibres .* palomar has 136 ports: give --hb-size up to 68"),
        ({"hb_size": 1024}, "one HB domain has no rails to switch"),
        ({"circuit_switch": "sn5600"}, "--ocs sn5600: it switches packets"),
        ({"policy": "go-on", "spare_gpus": 1}, "--spare-gpus without --policy reconfigure"),
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
    assert [name for name, _ in answer.refused] == ["rail-optimized"]
