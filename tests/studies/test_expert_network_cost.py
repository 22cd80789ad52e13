"""The study of networks without switches for serving experts, beside what is printed."""

from itertools import pairwise

import pytest

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
