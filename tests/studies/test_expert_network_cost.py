"""The study of networks without switches for serving experts, beside what is printed."""

from itertools import pairwise

import pytest

from netplan.published.expert_networks import Case, expert_network_statements
from tests.studies.shipped import shipped


@pytest.mark.slow
def test_gains_of_expert_networks_stand_beside_what_is_printed() -> None:
    answer = shipped("expert-network-cost")
    found = {one.name: one for one in answer.published}
    gain = found["switchless over scale-up: largest gain in throughput per cost"]
    assert (gain.published, gain.unit) == ("56.2", "%")
    frame = answer.to_frame()
    full = frame[frame["accelerator.hb_bytes_per_s"] == 450e9]
    rate = full.pivot_table("tokens_per_s_per_gpu", "concurrency", ["fabric", "hb_size"])
    order = ("rail-optimized", 64), ("full-mesh-3d", 1), ("torus-3d", 1), ("rail-optimized", 8)
    assert all((rate[slower] < rate[faster]).all() for faster, slower in pairwise(order))
    # Gear of an NVL72, 900 x (5.79 + 2.28) USD, for an H100 of 37,251 with its share of a server.
    ratio = (rate[order[1]] / rate[order[0]]).max()
    assert gain.netplan == pytest.approx(
        100 * (ratio * (1 + 900 * (5.79 + 2.28) / 37251) - 1), abs=1e-6
    )


def test_one_price_explains_both_printed_gains() -> None:
    """Mesh at 98.32 % of switches' throughput: 1.562 / 0.9832 - 1 = 58.9 % of a GPU for gear.

    With it 150 GB/s, a third, at 95.36 % gain 0.9536 x 1.589 / (1 + 0.589 / 3) - 1 = 26.6 %.
    """
    rates = {"scale-up": 1.0, "full-mesh-3d": 0.9832, "torus-3d": 0.9692, "scale-out": 0.86}

    def rate(case: Case) -> float:
        return 0.9536 if case[:2] == ("scale-up", 150e9) else rates[case.network]

    found = dict(expert_network_statements(rate))
    share = found["gear that the largest gain asks for, % of a GPU"]
    assert share == pytest.approx(58.87, abs=0.01)
    gain = found["scale-up at 150 GB/s, gear at that price: gain in throughput per cost, %"]
    assert gain == pytest.approx(26.6, abs=0.1)
