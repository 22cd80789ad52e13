"""Hand-overs through adapter tiles: by hand, conserved, and against a brute force of sequences."""

from collections import Counter
from itertools import product
from math import lcm

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan import simulate
from netplan.published.tiled import adapter_times
from netplan.simulation.handover import Handover, hand_over

HANDOVER = "iteration-model.communication.handover"
ADAPTERS = "iteration-model.communication.adapters"
BROKEN = "iteration-model.communication.broken_rings"
TWO_STAGES = "0-3; 16-19"
"""Two rows of four cores in tiles that are neighbours, 4 hops from place to place."""


def handed(text: str, sets: dict[str, str]) -> dict[str, float]:
    """The first hand-over of T-18B at four sequences a microbatch, by its keys."""
    answer = simulate(
        "palm-paper",
        gpus=320,
        fabric="palm-wafer",
        accelerator="palm-wafer-core",
        model="t-18b",
        batch=8,
        placement=text,
        fixed={"tensor": 4, "microbatch": 4},
        overrides=sets,
    )
    rows: list[dict[str, float]] = answer.to_dict()["handovers"]
    return rows[0]


WHOLE = 2 * 4 * 2048 * 6144.0
"""Output of a layer for a microbatch [B]."""
MIB = 2**20 / 1e6
"""What the published code calls a megabyte [MB]."""


def test_eq_7_by_hand() -> None:
    # One adapter: a ring of 6 steps of n/4, whose last way back is 3 hops; 4 hops over a border;
    # 3 messages of n out of one core along one row, one after the other.
    at_rate = WHOLE / (1024e9 * MIB)
    row = handed(TWO_STAGES, {HANDOVER: "source"})
    assert row["source_s"] == pytest.approx(6 * at_rate / 4, rel=1e-3)
    assert row["between_s"] == pytest.approx(WHOLE / (256e9 * MIB), rel=1e-3)
    assert row["broadcast_s"] == pytest.approx(3 * at_rate, rel=1e-3)
    assert (row["adapters_s"], row["adapters"]) == (0.0, 1)
    parts = ("source_s", "between_s", "adapters_s", "broadcast_s")
    assert row["time_s"] == pytest.approx(sum(row[part] for part in parts))
    assert row["sent_bytes"] == pytest.approx((6 + 1 + 3) * WHOLE)
    # A step of the ring is 3 single hops and 3 back; the broadcast 1 + 2 + 3.
    assert row["hop_bytes"] == pytest.approx((6 * 6 / 4 + 4 + 6) * WHOLE)


def test_eq_8_by_hand() -> None:
    # Two adapters, each with the neighbour's bytes; both sums cross the border at once on one row:
    # one waits. Their ring has two steps of n/2, each 2 hops.
    at_rate = WHOLE / (1024e9 * MIB)
    row = handed(TWO_STAGES, {HANDOVER: "adapters", ADAPTERS: "2"})
    assert row["source_s"] == pytest.approx(at_rate, rel=1e-3)
    assert row["between_s"] == pytest.approx(2 * WHOLE / (256e9 * MIB), rel=1e-3)
    assert row["adapters_s"] == pytest.approx(at_rate, rel=1e-3)
    assert row["broadcast_s"] == pytest.approx(at_rate, rel=1e-3)
    assert row["adapters"] == 2
    assert row["sent_bytes"] == pytest.approx((2 + 2 + 2 + 2) * WHOLE)


def test_a_line_sums_up_from_tile_to_tile() -> None:
    # 2 x 3 steps of n, where the closed ring takes 6 of n/4.
    line = handed(TWO_STAGES, {HANDOVER: "source", BROKEN: "line"})
    ring = handed(TWO_STAGES, {HANDOVER: "source"})
    assert line["source_s"] == pytest.approx(4 * ring["source_s"], rel=1e-3)
    # Two rows of two are a ring of neighbours, which stays one.
    square = "0 1 5 4; 16 17 21 20"
    both = [handed(square, {HANDOVER: "source", BROKEN: rule}) for rule in ("line", "closed")]
    assert both[0] == both[1]


def test_stages_of_different_degrees_keep_their_sequences() -> None:
    # 8 x 2 to 4 x 4: each of two replicas sends two halves of its sequences, a quarter of all.
    row = handed("tile-0 tensor=8; tile-1 tensor=4", {HANDOVER: "source"})
    assert row["adapters"] == 4
    ring, between, spread = 2 * 14 * 1 / 2, 1.0, 4 * 3 / 4
    assert row["sent_bytes"] == pytest.approx((ring + between + spread) * WHOLE)


def test_the_ratio_of_the_paper_s_groups_is_between_the_forms() -> None:
    """Where nothing shares a link the simulated terms are those of the closed forms."""
    for adapters in (1, 2, 4):
        sets = {ADAPTERS: str(adapters), "fabric.link_bytes_per_s": "1024e9"}
        first, second = (
            handed(TWO_STAGES, {HANDOVER: rule} | sets) for rule in ("source", "adapters")
        )
        unit_s = WHOLE / (1024e9 * MIB)
        eq_7, eq_8 = adapter_times(4, adapters, ring=True)
        # Adapters of one row cross the border one after the other.
        waits = adapters - 1
        assert first["time_s"] / unit_s == pytest.approx(eq_7 + waits, rel=1e-3)
        assert second["time_s"] / unit_s == pytest.approx(eq_8 + waits, rel=1e-3)


def shared(first: int, second: int) -> Counter[tuple[int, int]]:
    """Sequences that replicas of two stages have in common, counted one by one."""
    every = lcm(first, second)
    return Counter((n * first // every, n * second // every) for n in range(every))


@given(
    degrees=st.tuples(*(st.integers(1, 6) for _ in range(4))),
    adapters=st.integers(1, 8),
    at_source=st.booleans(),
)
def test_every_tile_gets_all_that_its_replica_has(
    degrees: tuple[int, int, int, int], adapters: int, *, at_source: bool
) -> None:
    tensor, data, to_tensor, to_data = degrees
    senders = [[data_rank * tensor + t for t in range(tensor)] for data_rank in range(data)]
    receivers = [[100 + d * to_tensor + t for t in range(to_tensor)] for d in range(to_data)]
    handover: Handover = hand_over(senders, receivers, 1.0, adapters=adapters, at_source=at_source)
    count = min(adapters, tensor, to_tensor)
    assert handover.adapters == count * to_data
    got: Counter[int] = Counter()
    for step in (*handover.between, *handover.broadcast):
        for message in step:
            assert message.sender != message.receiver
            got[message.receiver] += message.sent_bytes  # type: ignore[assignment]
    assert {*got} == {tile for group in receivers for tile in group}
    assert list(got.values()) == pytest.approx([1 / to_data] * len(got))
    pairs: Counter[tuple[int, int]] = Counter()
    for message in handover.between[0]:
        pairs[message.sender // tensor, (message.receiver - 100) // to_tensor] += 1
    assert dict.fromkeys(shared(data, to_data), count) == dict(pairs)
    # Every partial sum of the source arrives once, but those of the adapters.
    reduced = [message.sender for step in handover.reduce for message in step]
    assert len(reduced) == (0 if at_source else (tensor - count) * data) == len({*reduced})
    assert len(handover.all_reduce) == (0 if at_source else 2 * (count - 1))


def test_all_tiles_as_adapters_reduce_and_broadcast_nothing() -> None:
    for at_source, tiles in product((True, False), (1, 3)):
        group = list(range(tiles)), list(range(10, 10 + tiles))
        handover = hand_over([group[0]], [group[1]], 1.0, adapters=9, at_source=at_source)
        assert (handover.reduce, handover.broadcast) == ((), ())
