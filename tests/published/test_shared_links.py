"""Packets beside the fluid: the shipped cases, the bar that is made of them, a plain event loop."""

from math import inf

import numpy as np
import pytest

from netplan.published.shared_links import TRANSPORTS, packet_cases
from netplan.simulation.congestion import packet_bars
from tests.oracles.fluid import Sent, deliver


def test_the_bar_is_the_most_that_packets_took() -> None:
    """Largest last finish over the fluid's of all cases, in per cent, and the mean."""
    bars = packet_bars()
    assert str(len(packet_cases())) in bars.basis
    most = max(case.fabric.hosts for case in packet_cases())
    assert f"to {most} hosts" in bars.basis
    for transport, bar in bars.bars.items():
        ratios = [case.over_fluid(transport) for case in packet_cases()]
        assert (bar.low, bar.high) == (1.0, round(max(ratios), 2))
        assert bar.base == round(float(np.mean(ratios)), 3)
        for printed in (min(ratios), max(ratios)):
            assert f"{printed:.4f}" in bar.source


def test_single_messages_are_as_far_off_as_the_guide_says() -> None:
    """Mean over cases of the mean error of their messages [%]."""
    errors = {
        transport: [
            np.mean(np.abs(case.packets_ms[transport] / case.fluid_ms - 1))
            for case in packet_cases()
        ]
        for transport in TRANSPORTS
    }
    found = [round(100 * float(np.mean(errors[transport])), 1) for transport in TRANSPORTS]
    assert found == [0.5, 8.4]


def test_the_last_of_a_case_is_within_the_tolerances() -> None:
    for case in packet_cases():
        assert case.over_fluid("fair-queue") == pytest.approx(1.0, abs=0.011), case.name
        assert 0.99 <= case.over_fluid("ecn") <= 1.15, case.name


@pytest.mark.parametrize(
    "name",
    ["staggered", "parking-lot", "perm32-4to1-s1", "perm16-spray4", "ring-and-bulk-s1", "mixed-s2"],
)
def test_the_fluid_of_a_case_is_that_of_a_plain_event_loop(name: str) -> None:
    """One full link after another, and all rates anew at every event."""
    case = next(case for case in packet_cases() if case.name == name)
    sent = []
    for row in case.messages:
        links, latency_s = case.fabric.route(
            int(row["source"]), int(row["target"]), int(row["spine"]) if row["spine"] else None
        )
        after = tuple(map(int, row["after"].split()))
        start_s = 1e-6 * float(row["start_us"] or 0)
        sent.append(Sent(float(row["bytes"]), start_s, after, links, 1.0, inf, latency_s))
    plain = 1e3 * np.array(deliver(case.fabric.capacity.tolist(), sent))
    assert case.fluid_ms == pytest.approx(plain, rel=1e-8)
