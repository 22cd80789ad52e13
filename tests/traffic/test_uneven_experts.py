"""Exchanges of unevenly loaded experts: as many bytes as even ones, the hot GPU's links hotter."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.arrays import Floats
from netplan.errors import InputError
from netplan.traffic.matrix import TrafficMatrix
from netplan.traffic.patterns import MemberLoads, collective_traffic, merged_traffic
from netplan.traffic.placement import Degrees, Folding, Placement
from netplan.workloads.operations import EXPERTS

SERVER = Placement((Degrees(tensor=2, expert=2), Degrees(expert=2), Degrees(data=2)))
GROUP = ("tensor", "expert")
MEMBERS = 8
WEIGHTS = st.lists(st.floats(0, 10), min_size=MEMBERS, max_size=MEMBERS).map(
    lambda loads: (np.array(loads) + 0.01) / np.mean(np.array(loads) + 0.01)
)


def ends(matrix: TrafficMatrix) -> tuple[Floats, Floats]:
    """What every GPU sends and receives."""
    listed = matrix.listed()
    sent: Floats = np.bincount(listed.source, listed.flow_bytes, matrix.gpus).astype(float)
    received: Floats = np.bincount(listed.destination, listed.flow_bytes, matrix.gpus).astype(float)
    return sent, received


def sent_by(weights: Floats | None, pattern: str, *, back: bool = False) -> TrafficMatrix:
    uneven = None if weights is None else MemberLoads(weights, back)
    return collective_traffic(
        *("all_to_all", SERVER, GROUP),
        data_bytes=800.0,
        kind="expert",
        pattern=pattern,
        uneven=uneven,
    )


@settings(max_examples=25)
@given(WEIGHTS, st.sampled_from(["direct", "hierarchical", "pairwise"]), st.booleans())
def test_bytes_are_those_of_even_experts(weights: Floats, pattern: str, back: bool) -> None:  # noqa: FBT001
    even, uneven = sent_by(None, pattern), sent_by(weights, pattern, back=back)
    assert uneven.total_bytes == pytest.approx(even.total_bytes)
    there, returned = ends(uneven)
    hot = max(there.max(), returned.max())
    assert hot >= ends(even)[0].max() * (1 - 1e-9)
    # What comes back is what went there, turned around.
    turned = ends(sent_by(weights, pattern, back=not back))
    assert turned[0] == pytest.approx(returned)
    assert turned[1] == pytest.approx(there)


@settings(max_examples=25)
@given(WEIGHTS)
def test_every_gpu_gets_the_share_of_its_experts(weights: Floats) -> None:
    _, received = ends(sent_by(weights, "direct"))
    # 100 B to each of seven others, times their load; both servers alike.
    assert received[SERVER.groups(*GROUP)] == pytest.approx(np.tile(700 * weights, (2, 1)))
    # Outermost level of the hierarchy: four sources stand behind each GPU of the other domain.
    hierarchy = sent_by(weights, "hierarchical").listed()
    order = SERVER.groups(*GROUP)
    place = np.empty(SERVER.gpus, int)
    place[order] = np.arange(MEMBERS)
    across = place[hierarchy.source] // 4 != place[hierarchy.destination] // 4
    reached = np.bincount(
        place[hierarchy.destination[across]], hierarchy.flow_bytes[across], MEMBERS
    )
    assert reached == pytest.approx(2 * 400 * weights)


@settings(max_examples=25)
@given(WEIGHTS, st.booleans())
def test_merged_copies_keep_their_sum(weights: Floats, back: bool) -> None:  # noqa: FBT001
    placement = Placement((Degrees(data=4), Degrees(data=4)), folded=Folding(MEMBERS, 1, 2))
    assert placement.splits(*EXPERTS) == (4, 2)
    even, uneven = (
        merged_traffic(placement, data_bytes=2000.0, kind="expert", uneven=loads)
        for loads in (None, MemberLoads(weights, back))
    )
    assert uneven.total_bytes == pytest.approx(even.total_bytes)
    sent, received = ends(uneven)
    hot = (sent if back else received).reshape(2, MEMBERS)
    loaded = weights > 1
    # Domains with more load get more from the other one, GPUs from their neighbours.
    if np.ptp(weights.reshape(2, 4).mean(axis=1)) < 1e-9:
        assert (hot[:, loaded] >= ends(even)[0].mean() * (1 - 1e-9)).all()
    assert hot[0] == pytest.approx(hot[1])


def test_algorithms_that_send_alike_are_refused() -> None:
    ring = Placement((Degrees(expert=4),), kinds=("ring",))
    loads = MemberLoads(np.array([2.0, 1.0, 0.5, 0.5]))
    with pytest.raises(InputError, match="sends alike to all"):
        collective_traffic(
            *("all_to_all", ring, ("expert",)),
            data_bytes=1.0,
            kind="expert",
            pattern="bidirectional_ring",
            uneven=loads,
        )
