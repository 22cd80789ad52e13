"""Collectives as measured: by hand, against the tables they were fitted on, and what must hold."""

from csv import DictReader
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan.arrays import Counts, Floats
from netplan.catalog import shipped_root
from netplan.errors import CatalogError
from netplan.inputs.choices import NetworkKind
from netplan.levels import Level
from netplan.records import replace
from netplan.traffic.bounds import lower_bound
from netplan.traffic.gpu_group import KINDS as GROUP_KINDS
from netplan.traffic.gpu_group import GpuGroup, GroupKind
from netplan.traffic.hierarchy import CollectiveNetwork, Communication, Group
from netplan.traffic.measured import Regimes
from netplan.traffic.measured_links import MEASURED_LINKS, NETWORKS, MeasuredLinks
from netplan.traffic.placement import Degrees, Placement, Placements
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.operations import CollectiveKind
from netplan.workloads.technologies import LINKS

RATES = {"nvlink-3": 300e9, "nvlink-4": 450e9, "nvlink-5": 900e9}
LINK_OF = {"a100-80gb": "nvlink-3", "h100-80gb": "nvlink-4", "h200": "nvlink-4"}
GATHERS: tuple[CollectiveKind, ...] = ("all_gather", "reduce_scatter", "all_reduce")
KINDS: tuple[CollectiveKind, ...] = (*GATHERS, "all_to_all", "broadcast", "reduce")
MIB = 2.0**20


def links_of(name: str, *, reduces: bool = True) -> MeasuredLinks:
    """Links of a generation, with a network outside."""
    domain = MEASURED_LINKS.load(name)
    return MeasuredLinks(
        domain if reduces else replace(domain, in_switch=()),
        tuple(map(MEASURED_LINKS.load, NETWORKS)),
    )


def times(
    kind: CollectiveKind, name: str, members: tuple[Counts, Counts], *, reduces: bool = True
) -> Regimes:
    """Times of groups of so many members of a domain and of a network of 50 GB/s."""
    inside, outside = np.broadcast_arrays(*members)
    levels = Level("switch", 1024, RATES[name]), Level("switch", 1024, 50e9)
    used = Communication("flat_ring", links=links_of(name, reduces=reduces))
    group = Group(np.stack([inside, outside]).reshape(2, -1), np.ones((2, inside.size), int))
    found = CollectiveNetwork(levels, used).collective(kind, group)
    assert isinstance(found, Regimes)
    return found


def seconds(kind: CollectiveKind, name: str, inside: int, outside: int, data_bytes: float) -> float:
    """Time of one group [s]."""
    return float(times(kind, name, (inside, outside)).seconds(data_bytes)[0])


def published() -> list[dict[str, str]]:
    """What was measured."""
    path = Path(shipped_root(), "reports", "published", "collectives.csv")
    with path.open(encoding="utf-8") as file:
        return list(DictReader(file))


def test_in_one_domain_by_hand() -> None:
    # 8 H100, 200 kB gathered: 5.143 + 7 x 0.974 us + (7/8 x 200,000) / (0.266 x 450e9) s.
    small = 5.143e-6 + 7 * 0.974e-6 + 175e3 / (0.266 * 450e9)
    assert seconds("all_gather", "nvlink-4", 8, 1, 200e3) == pytest.approx(small, rel=1e-12)
    # 4 H100, 1 GB to all: X = 3/4 x 1e9 / (0.905 x 450e9), ramp 18.481 us.
    sent = 0.75e9 / (0.905 * 450e9)
    large = 6.091e-6 + 3 * 0.141e-6 + sent + 2 * (18.481e-6 * sent) ** 0.5
    assert seconds("all_to_all", "nvlink-4", 4, 1, 1e9) == pytest.approx(large, rel=1e-12)
    # 8 B200, 512 MiB reduced in the switch: Z = 9/8 x 512 MiB / (0.586 x 900e9), ramp 5.412 us.
    sent = 1.125 * 512 * MIB / (0.586 * 900e9)
    switch = 33.835e-6 + sent + 2 * (5.412e-6 * sent) ** 0.5
    assert seconds("all_reduce", "nvlink-5", 8, 1, 512 * MIB) == pytest.approx(switch, rel=1e-12)
    # A broadcast takes an all_gather's numbers and all of the message.
    sent = 1e9 / (0.849 * 450e9)
    spread = 4.399e-6 + 7 * 0.828e-6 + sent + 2 * (7.34e-6 * sent) ** 0.5
    assert seconds("broadcast", "nvlink-4", 8, 1, 1e9) == pytest.approx(spread, rel=1e-12)


def test_over_domains_by_hand() -> None:
    # 8 domains of 8 H100, 4 GiB: Z = 9/8 D / (0.729 x 450e9) in the switches is less than the
    # network's X = 2 x 63/64 D / (8 x 0.97 x 50e9), which waits 5 us a step for 7 steps.
    data = 4096 * MIB
    sent = 2 * 63 / 64 * data / (8 * 0.97 * 50e9)
    whole = 29.057e-6 + 15e-6 + 7 * 5e-6 + sent + 2 * (5e-6 * sent) ** 0.5
    assert seconds("all_reduce", "nvlink-4", 8, 8, data) == pytest.approx(whole, rel=1e-12)
    assert whole == pytest.approx(22.53e-3, abs=0.01e-3)
    # A gather of the same groups: 8 x 7 steps inside, 7 outside; 0.849 x 450e9 inside is less than
    # 8 x 0.97 x 50e9 outside.
    sent = 63 / 64 * data / (0.849 * 450e9)
    gather = 4.399e-6 + 56 * 0.828e-6 + 15e-6 + 7 * 2.5e-6 + sent + 2 * (7.34e-6 * sent) ** 0.5
    assert seconds("all_gather", "nvlink-4", 8, 8, data) == pytest.approx(gather, rel=1e-12)
    # To all: 56 of 64 parts leave the domain.
    sent = 56 / 64 * data / (0.97 * 50e9)
    to_all = 6.091e-6 + 15e-6 + sent + 2 * (5e-6 * sent) ** 0.5
    assert seconds("all_to_all", "nvlink-4", 8, 8, data) == pytest.approx(to_all, rel=1e-12)
    # One member of each domain: the network alone.
    sent = 2 * 7 / 8 * data / (0.97 * 50e9)
    rail = 15e-6 + 7 * 5e-6 + sent + 2 * (5e-6 * sent) ** 0.5
    assert seconds("all_reduce", "nvlink-4", 1, 8, data) == pytest.approx(rail, rel=1e-12)


def on_network(
    kind: CollectiveKind, name: str, members: tuple[Counts, Counts], made_of: NetworkKind
) -> Regimes:
    """Times of groups as of `times`, on a network of a kind."""
    inside, outside = np.broadcast_arrays(*members)
    network = Level("switch", 1024, 50e9, network_kind=made_of)
    used = Communication("flat_ring", links=links_of(name))
    group = Group(np.stack([inside, outside]).reshape(2, -1), np.ones((2, inside.size), int))
    levels = Level("switch", 1024, RATES[name]), network
    found = CollectiveNetwork(levels, used).collective(kind, group)
    assert isinstance(found, Regimes)
    return found


def test_two_domains_exchange_their_sums_by_hand() -> None:
    # Two servers of 8 H100, 1 GiB, efa: their own sums take 9/8 D / (0.729 x 450e9), longer than
    # the cards' D / (8 x 0.97 x 50e9); start 97 us, ramp 75 us.
    data = 1024 * MIB
    inside, cards = 1.125 * data / (0.729 * 450e9), data / (8 * 0.97 * 50e9)
    assert cards < inside
    tree = 97e-6 + inside + 2 * (75e-6 * inside) ** 0.5
    found = on_network("all_reduce", "nvlink-4", (8, 2), "efa")
    assert float(found.seconds(data)[0]) == pytest.approx(tree, rel=1e-12)
    assert found.names(data)[0] == "tree"
    # B200: 9/8 D / (0.586 x 900e9) is less than what the cards take. InfiniBand: 46 us, 5 us.
    tree = 46e-6 + cards + 2 * (5e-6 * cards) ** 0.5
    found = on_network("all_reduce", "nvlink-5", (8, 2), "infiniband")
    assert float(found.seconds(data)[0]) == pytest.approx(tree, rel=1e-12)
    # Eight A100 form their sums in a ring, 2 x 7/8 D / (0.799 x 300e9); efa lets two domains of
    # them exchange sums all the same, where starts count.
    ring = 2 * 7 / 8 * MIB / (0.799 * 300e9)
    tree = 97e-6 + ring + 2 * (75e-6 * ring) ** 0.5
    found = on_network("all_reduce", "nvlink-3", (8, 2), "efa")
    assert float(found.seconds(MIB)[0]) == pytest.approx(tree, rel=1e-3)
    assert found.names(data)[0] == "large"
    # One GPU of each of two domains: the cards alone.
    sent = data / (0.97 * 50e9)
    found = on_network("all_reduce", "nvlink-4", (1, 2), "efa")
    tree = 97e-6 + sent + 2 * (75e-6 * sent) ** 0.5
    assert float(found.seconds(data)[0]) == pytest.approx(tree, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "inside", "outside", "made_of", "regimes"),
    [
        ("nvlink-4", 8, 2, "infiniband", {"tree"}),
        ("nvlink-4", 8, 2, "tcpxo", {"tree"}),
        ("nvlink-4", 8, 3, "efa", {"in-switch"}),
        ("nvlink-4", 4, 2, "roce", {"large"}),  # four of a domain form no sums in its switches
        ("nvlink-4", 4, 2, "efa", {"tree"}),
        ("nvlink-3", 8, 2, "infiniband", {"large"}),
        ("nvlink-3", 8, 2, "slingshot", {"large"}),
        ("nvlink-5", 72, 2, "infiniband", {"tree"}),
        ("nvlink-5", 64, 3, "infiniband", {"large"}),
    ],
)
def test_who_exchanges_sums(
    name: str, inside: int, outside: int, made_of: NetworkKind, regimes: set[str]
) -> None:
    found = on_network("all_reduce", name, (inside, outside), made_of)
    names = {found.names(size)[0] for size in (64e3, 8e6, 256e6, 8e9)}
    assert names == regimes
    for kind in KINDS:
        if kind != "all_reduce":
            assert "tree" not in on_network(kind, name, (inside, outside), made_of).names(8e9)


def test_kinds_of_networks_by_hand() -> None:
    # 4 domains of 8 H100 gather 256 MiB: 24 steps of 0.828 us inside, 3 of 2.5 us outside; inside
    # takes 31/32 D / (0.849 x 450e9), more than the cards of efa, 8 x 0.70 x 50e9, do not.
    data = 256 * MIB
    starts = 4.399e-6 + 28 * 0.828e-6 + 97e-6 + 3 * 2.5e-6
    for made_of, share in (("efa", 0.70), ("tcpxo", 0.75)):
        sent = 31 / 32 * data / (8 * share * 50e9)
        whole = starts + sent + 2 * (75e-6 * sent) ** 0.5
        found = on_network("all_gather", "nvlink-4", (8, 4), made_of)  # type: ignore[arg-type]
        assert float(found.seconds(data)[0]) == pytest.approx(whole, rel=1e-12)
    # To all over Slingshot: 24 of 32 parts leave a domain, at 0.80 of the cards.
    sent = 24 / 32 * data / (0.80 * 50e9)
    to_all = 6.091e-6 + 15e-6 + sent + 2 * (10e-6 * sent) ** 0.5
    found = on_network("all_to_all", "nvlink-4", (8, 4), "slingshot")
    assert float(found.seconds(data)[0]) == pytest.approx(to_all, rel=1e-12)
    # RoCE, Omni-Path and what joins chips are taken for InfiniBand.
    for made_of in ("roce", "omni-path", "torus"):
        for kind in KINDS:
            one, other = (
                on_network(kind, "nvlink-4", (8, np.array([2, 5])), network)  # type: ignore[arg-type]
                for network in (made_of, "infiniband")
            )
            assert (one.seconds(data) == other.seconds(data)).all()


def two_domains() -> list[dict[str, str]]:
    """All_reduces between two servers, as public logs have them."""
    path = Path(shipped_root(), "reports", "published", "two-domain-allreduce.csv")
    with path.open(encoding="utf-8") as file:
        return list(DictReader(file))


def errors_between(rows: list[dict[str, str]]) -> Floats:
    """Relative errors of rows between two servers of 8 H100 [1]."""
    data, took_s = (np.array([float(row[key]) for row in rows]) for key in ("bytes", "time_s"))
    made_of: NetworkKind = rows[0]["network_kind"]  # type: ignore[assignment]
    group = GpuGroup.of(ACCELERATORS.load(rows[0]["accelerator"]), 16)
    domain, network = group.levels
    network = replace(network, link_bytes_per_s=float(rows[0]["nic_bytes_per_s_per_gpu"]))
    group = replace(group, levels=(domain, network)).as_found(made_of)
    off: Floats = group.times("all_reduce", data).time_s / took_s - 1
    return off


def test_fifteen_sizes_between_two_servers() -> None:
    rows = [row for row in two_domains() if row["network_kind"] == "efa"]
    off = np.abs(errors_between(rows))
    large = np.array([float(row["bytes"]) >= 64 * MIB for row in rows])
    assert len(rows) == 15
    assert np.mean(off) <= 0.081
    assert np.max(off) <= 0.23
    assert np.mean(off[large]) <= 0.06
    # What it is to the digit.
    assert np.mean(off) == pytest.approx(0.0702, abs=5e-4)
    assert np.max(off) == pytest.approx(0.227, abs=5e-4)


def test_a_log_that_fitted_nothing_lies_in_its_bars() -> None:
    rows = [row for row in two_domains() if row["network_kind"] == "tcpxo"]
    off = errors_between(rows)
    ends = MEASURED_LINKS.load("tcpxo").ends(np.array([float(row["bytes"]) for row in rows]))
    true = 1 / (1 + off)
    inside = (ends[0] <= true) & (true <= ends[1])
    assert inside.mean() >= 0.8
    assert np.abs(off[np.array([float(row["bytes"]) >= 512 * MIB for row in rows])]).max() <= 0.05


def test_nothing_takes_no_time() -> None:
    for kind in KINDS:
        found = times(kind, "nvlink-4", (np.array([1, 8, 8]), np.array([1, 1, 4])))
        assert found.seconds(1e9)[0] == 0
        assert not found.seconds(0.0).any()


@pytest.mark.parametrize(
    ("name", "members", "megabytes", "regime"),
    [
        # AllReduce of NVLink 4: LL never wins; the switch from 13.0 MB on.
        ("nvlink-4", 4, 0.001, "large"),
        ("nvlink-4", 8, 12.7, "large"),
        ("nvlink-4", 8, 13.1, "in-switch"),
        # Of NVLink 5: four GPUs LL to 6.7 MB, eight to 5.3 MB.
        ("nvlink-5", 4, 6.6, "small"),
        ("nvlink-5", 4, 6.8, "large"),
        ("nvlink-5", 8, 5.2, "small"),
        ("nvlink-5", 8, 5.4, "in-switch"),
    ],
)
def test_which_regime(name: str, members: int, megabytes: float, regime: str) -> None:
    found = times("all_reduce", name, (members, 1))
    assert found.names(megabytes * 1e6)[0] == regime


def test_more_than_two_racks_take_the_ring() -> None:
    found = times("all_reduce", "nvlink-5", (72, np.array([1, 2, 3, 20])))
    assert found.names(8e9).tolist() == ["in-switch", "tree", "large", "large"]
    # 3.05 us x 20 x 71 steps are what is left as the message vanishes.
    assert found.seconds(1e-3)[3] == pytest.approx(3.05e-6 * 1420 + 19 * 5e-6 + 27.6e-6, rel=1e-3)


def test_twenty_racks_between_the_two_runs_that_are_fitted() -> None:
    """Four of six public runs fitted nothing: within 2 %, where the ring of 8 GPUs was 31 % off."""
    rows = [row for row in published() if row["gpus"] == "1440"]
    assert len(rows) == 6
    rows.sort(key=lambda row: float(row["message_bytes"]))
    found = times("all_reduce", "nvlink-5", (72, 20))
    off = [
        float(found.seconds(float(row["message_bytes"]))[0]) / float(row["time_s"]) - 1
        for row in rows
    ]
    assert np.abs(off[1:-1]).max() < 0.02
    assert np.abs([off[0], off[-1]]).max() < 0.001
    # The same collective by the numbers of 8 GPUs, which three domains of 8 keep.
    ring = 12.606e-6 + 4.035e-6 * 1420 + 15e-6 + 19 * 5e-6
    sent = 2 * 1439 / 1440 * float(rows[-1]["message_bytes"]) / (0.773 * 900e9)
    before = ring + sent + 2 * np.sqrt(3.416e-6 * sent)
    assert before / float(rows[-1]["time_s"]) - 1 == pytest.approx(-0.338, abs=0.001)


def test_small_domains_keep_their_ring_on_many() -> None:
    """Four GPUs of a domain on 20 of them: 20 x 3 steps of 4.035 us, 19 of 5 us."""
    found = times("all_reduce", "nvlink-5", (np.array([4, 8]), 20))
    assert found.seconds(1e-3)[0] == pytest.approx(4.035e-6 * 60 + 19 * 5e-6 + 27.6e-6, rel=1e-3)
    assert found.names(8e9)[1] == "in-switch"  # eight sum in their switches, however many domains


def test_errors_on_all_measured_points() -> None:
    rows = [row for row in published() if row["domains"] == "1" and row["gpus"] in "248"]
    errors: dict[str, list[float]] = {}
    for kind in {row["collective"] for row in rows}:
        for dtype in ("fp16", "int8"):
            for accelerator in {row["accelerator"] for row in rows}:
                some = [
                    row
                    for row in rows
                    if (row["collective"], row["dtype"], row["accelerator"])
                    == (kind, dtype, accelerator)
                ]
                if some:
                    off = errors_of(some, LINK_OF.get(accelerator, "nvlink-5"), dtype != "int8")
                    errors.setdefault(accelerator, []).extend(off.tolist())
    assert sum(map(len, errors.values())) == 1129
    for accelerator, all_off in errors.items():
        assert np.mean(all_off) <= 0.085, accelerator
        assert np.quantile(all_off, 0.95) <= 0.25, accelerator
    # The specification's range of means: 6.0 (A100) to 7.9 % (GB300).
    means = sorted(float(np.mean(all_off)) for all_off in errors.values())
    assert means[0] == pytest.approx(0.060, abs=5e-4)
    assert means[-1] == pytest.approx(0.079, abs=6e-4)


def errors_of(rows: list[dict[str, str]], name: str, reduces: bool) -> Floats:  # noqa: FBT001
    """Relative errors of rows of one collective [1]."""
    gpus, data, took_s = (
        np.array([float(row[key]) for row in rows]) for key in ("gpus", "message_bytes", "time_s")
    )
    kind: CollectiveKind = rows[0]["collective"]  # type: ignore[assignment]
    domains = int(rows[0]["domains"])
    found = times(kind, name, ((gpus / domains).astype(int), domains), reduces=reduces)
    off: Floats = np.abs(found.seconds(data) / took_s - 1)
    return off


def bars_of(
    rows: list[dict[str, str]], accelerators: set[str], band: tuple[float, float]
) -> tuple[float, float]:
    """The 5th to 95th percentile of measured over predicted times, where it is widest [1]."""
    ends = []
    for accelerator in accelerators:
        true = 1 / (
            1 + signed_errors([row for row in rows if row["accelerator"] == accelerator], band)
        )
        ends.append(np.quantile(true, (0.05, 0.95)))
    low, high = np.array(ends).T
    return float(low.min()), float(high.max())


def signed_errors(rows: list[dict[str, str]], band: tuple[float, float]) -> Floats:
    """Relative errors of points with messages of so many bytes [1]."""
    off = []
    for row in rows:
        data, took_s = float(row["message_bytes"]), float(row["time_s"])
        if band[0] <= data < band[1]:
            kind: CollectiveKind = row["collective"]  # type: ignore[assignment]
            link, reduces = LINK_OF.get(row["accelerator"], "nvlink-5"), row["dtype"] != "int8"
            found = times(kind, link, (int(row["gpus"]), 1), reduces=reduces)
            off.append(float(found.seconds(data)[0]) / took_s - 1)
    return np.array(off)


@pytest.mark.parametrize("name", sorted(RATES))
def test_bars_hold_nine_of_ten_points_and_those_of_an_accelerator_left_out(name: str) -> None:
    rows = [row for row in published() if row["domains"] == "1" and row["gpus"] in "248"]
    rows = [row for row in rows if LINK_OF.get(row["accelerator"], "nvlink-5") == name]
    known = {row["accelerator"] for row in rows}
    link = MEASURED_LINKS.load(name)
    starts = [row.least_bytes for row in link.errors]
    held, whole, left_out = 0, 0, []
    for index, band in enumerate(zip(starts, [*starts[1:], np.inf], strict=True)):
        low, high = link.errors[index].ends
        # The file has the ends of the data, rounded outwards to a hundredth.
        exact = bars_of(rows, known, band)
        assert exact[0] - 0.02 <= low <= exact[0]
        assert exact[1] <= high <= exact[1] + 0.02
        true = 1 / (1 + signed_errors(rows, band))
        held, whole = held + int(((low <= true) & (true <= high)).sum()), whole + len(true)
        for accelerator in known if len(known) > 1 else ():
            low, high = bars_of(rows, known - {accelerator}, band)
            mine = [row for row in rows if row["accelerator"] == accelerator]
            true = 1 / (1 + signed_errors(mine, band))
            left_out += ((low <= true) & (true <= high)).tolist()
    assert held / whole >= 0.9
    assert not left_out or np.mean(left_out) >= 0.86


@pytest.mark.parametrize(
    ("gpus", "domains", "most"),
    [("64", "8", 0.03), ("12", "3", 0.03), ("24", "3", 0.035), ("72", "1", 0.085)],
)
def test_public_runs_over_several_domains(gpus: str, domains: str, most: float) -> None:
    rows = [row for row in published() if (row["gpus"], row["domains"]) == (gpus, domains)]
    rows = [row for row in rows if "tree" not in row["software"]]
    assert rows
    for row in rows:
        assert errors_of([row], LINK_OF.get(row["accelerator"], "nvlink-5"), True)[0] <= most


MEMBERS = st.tuples(st.integers(1, 144), st.integers(1, 64))
NAMES = st.sampled_from(sorted(RATES))
MADE_OF = get_args(NetworkKind)
BYTES = np.geomspace(1, 1e12, 400)


@given(st.sampled_from(KINDS), NAMES, MEMBERS)
def test_time_never_falls_with_the_message_nor_jumps(
    kind: CollectiveKind, name: str, members: tuple[int, int]
) -> None:
    found = times(kind, name, members)
    took_s = found.seconds(BYTES)
    assert (np.diff(took_s) >= 0).all()
    # 7 % more bytes take at most 7 % longer: nothing jumps.
    assert (took_s[1:] <= took_s[:-1] * (BYTES[1] / BYTES[0]) * (1 + 1e-9)).all()


@given(st.sampled_from(KINDS), NAMES, MEMBERS, st.floats(1.0, 4.0), st.floats(1.0, 4.0))
def test_more_bandwidth_is_never_slower(
    kind: CollectiveKind, name: str, members: tuple[int, int], inside: float, outside: float
) -> None:
    used = Communication("flat_ring", links=links_of(name))
    group = Group(np.array(members)[:, None], np.ones((2, 1), int))
    slow, fast = (
        CollectiveNetwork((Level("switch", 144, a), Level("switch", 64, b)), used).collective(
            kind, group
        )
        for a, b in ((450e9, 50e9), (450e9 * inside, 50e9 * outside))
    )
    assert (fast.seconds(BYTES) <= slow.seconds(BYTES) * (1 + 1e-12)).all()


@given(st.sampled_from(KINDS), NAMES, MEMBERS)
def test_no_faster_than_links_allow(
    kind: CollectiveKind, name: str, members: tuple[int, int]
) -> None:
    levels = Level("switch", members[0], RATES[name]), Level("switch", members[1], 50e9)
    operation = "broadcast" if kind == "reduce" else kind
    bound = lower_bound(operation, levels, data_bytes=1.0, fabric="rail-only").bound_s
    found = times(kind, name, members, reduces=False)
    assert (found.seconds(BYTES) >= bound * BYTES * (1 - 1e-12)).all()


@given(st.sampled_from(GROUP_KINDS), NAMES, MEMBERS)
def test_a_group_is_no_faster_than_its_bound(
    kind: GroupKind, name: str, members: tuple[int, int]
) -> None:
    """Nor the low end of its error, though switches form sums."""
    levels = Level("switch", members[0], RATES[name]), Level("switch", members[1], 50e9)
    found = GpuGroup(links_of(name), levels).times(kind, BYTES)
    assert (found.bound_s <= found.low_s).all()
    assert (found.low_s <= found.time_s * (1 + 1e-12)).all()
    assert (found.time_s <= found.high_s).all()


def test_bounds_where_switches_form_sums_by_hand() -> None:
    # In a domain of 8 each GPU sends its 8 GB once, where GPUs that form sums send 7/8 twice.
    domain, network = Level("switch", 8, 450e9), Level("switch", 4, 50e9)
    one = replace(network, size=1)
    for reducing, sent in ((True, 8e9), (False, 14e9)):
        found = lower_bound("all_reduce", (domain, one), data_bytes=8e9, reducing=reducing)
        assert found.bound_s == pytest.approx(sent / 450e9)
    # Between domains they send 2 x 3/4 of it over the cards of 8, whatever the switches inside do.
    both = lower_bound("all_reduce", (domain, network), data_bytes=8e9, reducing=True)
    assert both.bound_s == pytest.approx(1.5 * 8e9 / (8 * 50e9))


@given(st.sampled_from(KINDS), NAMES, st.integers(1, 144), st.sampled_from(MADE_OF))
def test_times_grow_with_the_domains(
    kind: CollectiveKind, name: str, inside: int, made_of: NetworkKind
) -> None:
    """Over one domain, two, which may exchange their sums, and up to 400 racks."""
    outside = np.array([1, 2, 3, 4, 8, 20, 100, 400])
    found = on_network(kind, name, (inside, outside), made_of)
    bound = [
        lower_bound(
            "broadcast" if kind == "reduce" else kind,
            (Level("switch", inside, RATES[name]), Level("switch", int(count), 50e9)),
            data_bytes=1.0,
            fabric="rail-optimized",
            reducing=bool(links_of(name).domain.in_switch),
        ).bound_s
        for count in outside
    ]
    for size in (1.0, 1e4, 1e6, 1e8, 1e10):
        took_s = found.seconds(size)
        # Of an all_to_all steps are known inside of one domain only.
        assert (np.diff(took_s)[kind == "all_to_all" :] >= -1e-15).all()
        assert (took_s >= np.array(bound) * size * (1 - 1e-12)).all()
        # 400 domains take no more than 400 / 3 times what a message takes among three.
        assert (took_s[2:] <= outside[2:] / 3 * took_s[2] * (1 + 1e-12)).all()


@given(st.sampled_from(MADE_OF), MEMBERS)
def test_no_kind_is_faster_than_infiniband(made_of: NetworkKind, members: tuple[int, int]) -> None:
    """Where the same ways are open: bounds of searches take that for all of one kind."""
    for kind in KINDS:
        usual, other = (
            on_network(kind, "nvlink-4", members, network) for network in ("infiniband", made_of)
        )
        if "tree" not in other.names(1e9):
            assert (usual.seconds(BYTES) <= other.seconds(BYTES) * (1 + 1e-12)).all()


@given(st.sampled_from(GATHERS[:2]), NAMES, MEMBERS, st.integers(2, 4))
def test_larger_groups_are_never_faster(
    kind: CollectiveKind, name: str, members: tuple[int, int], more: int
) -> None:
    """As the search takes it of replicas, whose collectives these are."""
    inside, outside = members
    few, many = times(kind, name, members), times(kind, name, (inside, outside * more))
    assert (few.seconds(BYTES) <= many.seconds(BYTES) * (1 + 1e-12)).all()


def test_transfers_between_stages() -> None:
    # Two stages in a domain, four domains: 1 + 0 hops inside of each, 3 between them.
    used = Communication("flat_ring", links=links_of("nvlink-4"))
    network = CollectiveNetwork((Level("switch", 2, 450e9), Level("switch", 4, 50e9)), used)
    placements = Placements.of(Placement((Degrees(pipeline=2), Degrees(pipeline=4))))
    fill, slowest = network.hops(placements)
    # A pair exchanges D/2: X = 1e8 / (0.905 x 450e9), and 1e8 / (0.97 x 50e9) outside.
    one, other = 1e8 / (0.905 * 450e9), 1e8 / (0.97 * 50e9)
    inside = 6.091e-6 + 0.141e-6 + one + 2 * (18.481e-6 * one) ** 0.5
    outside = 15e-6 + other + 2 * (5e-6 * other) ** 0.5
    assert fill.seconds(1e8)[0] == pytest.approx(4 * inside + 3 * outside, rel=1e-12)
    assert slowest.seconds(1e8)[0] == pytest.approx(outside, rel=1e-12)
    assert fill.mean_of(np.array([7.0])).seconds(1e8)[0] == pytest.approx(
        (4 * inside + 3 * outside) / 7, rel=1e-12
    )
    # 512 MiB move at 280 to 298 GB/s on Hopper.
    half = 256 * MIB
    taken_s = network.transfer_s(0, 1, half)
    assert 270e9 < half / taken_s < 400e9


def test_rings_keep_their_form() -> None:
    levels = (Level("ring", 4, 50e9, 1e-6), Level("ring", 4, 50e9, 1e-6))
    group = Group(np.array([[4], [4]]), np.ones((2, 1), int))
    plain = Communication("flat_ring", 0.7)
    measured = replace(plain, links=links_of("nvlink-4"))
    for kind in KINDS:
        one, other = (
            CollectiveNetwork(levels, used).collective(kind, group) for used in (plain, measured)
        )
        assert one.seconds(1e9) == pytest.approx(other.seconds(1e9), rel=1e-12)


def test_links_are_of_two_kinds() -> None:
    with pytest.raises(CatalogError, match="collectives measured on a link"):
        LINKS.load("nvlink-4")
    with pytest.raises(CatalogError, match="no collectives measured on this link"):
        MEASURED_LINKS.load("pcie4")
