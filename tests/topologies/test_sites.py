"""Sites and the fibre between them: rates, ways, files, what is dealt out to them."""

from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan.errors import CatalogError, InfeasibleError, InputError
from netplan.inputs.choices import Layout
from netplan.topologies.sites import Site, Sites, deal_gpus, deal_parts, read_sites

RATE = 50e9


def joined(count: int, layout: Layout, ratio: float = 1.0) -> Sites:
    return Sites.laid_out(
        deal_gpus(8 * count, count, 8), layout, km=100.0, ratio=ratio, gpu_rate=RATE
    )


@pytest.mark.parametrize(
    ("layout", "pairs", "share"),
    [
        ("mesh", 6, 1 / 3),  # each of four sites has three pairs
        ("ring", 4, 1 / 2),
        ("line", 3, 1 / 2),  # an end has one pair and a middle two: the poorer one counts
        ("hub", 3, 1 / 3),  # the hub deals its rate out to three
    ],
)
def test_a_site_deals_its_rate_out_to_its_pairs(layout: Layout, pairs: int, share: float) -> None:
    sites = joined(4, layout, ratio=2.0)
    assert len(sites.pairs) == pairs
    assert sites.egress_bytes_per_s == (8 * RATE / 2,) * 4
    assert [pair.bytes_per_s for pair in sites.pairs] == pytest.approx([share * 4 * RATE] * pairs)


def way_km(sites: Sites, a: int, b: int) -> float:
    """Length of the shortest way between two sites."""
    return sum(sites.fibres[ends].km for ends in sites.paths[a, b] or ())


@pytest.mark.parametrize("layout", get_args(Layout))
def test_two_sites_are_a_mesh(layout: Layout) -> None:
    assert joined(2, layout).layout == "mesh"


def test_ways_without_fibre_go_over_others() -> None:
    line = joined(4, "line")
    assert line.paths[0, 3] == ((0, 1), (1, 2), (2, 3))
    assert way_km(line, 3, 0) == 300.0
    assert joined(4, "hub").paths[1, 3] == ((1, 0), (0, 3))
    # 2 G/S from every site to every other: over the middle fibre of four go 2 x 2 of them.
    sent = {(a, b): 1.0 for a in range(4) for b in range(4) if a != b}
    assert line.busiest_s(sent) == pytest.approx(4 / line.pairs[1].bytes_per_s)


def test_joined_sites_go_by_their_own_fibre_however_long(tmp_path: Path) -> None:
    path = tmp_path / "triangle.yaml"
    text = FILE + "  - {between: [north, west], km: 900, ratio: 8}\n"
    path.write_text(text, "utf-8")
    assert read_sites(path, RATE).paths[0, 2] == ((0, 2),)


def test_a_cut_sends_bytes_over_what_is_left() -> None:
    ring = joined(4, "ring")
    left = ring.without(0, 3)
    assert left.paths[0, 3] == ((0, 1), (1, 2), (2, 3))
    assert left.egress_bytes_per_s[0] == ring.pairs[0].bytes_per_s
    assert left.egress_bytes_per_s[1] == ring.egress_bytes_per_s[1]
    with pytest.raises(InputError, match="no fibre joins site-1 and site-3"):
        ring.without(0, 2)
    with pytest.raises(InfeasibleError, match="stands still"):
        joined(2, "mesh").without(0, 1)


@given(st.integers(2, 16), st.integers(1, 300), st.sampled_from([1, 8, 72]))
def test_sites_differ_by_a_domain_at_the_most(count: int, domains: int, hb_size: int) -> None:
    if domains < count:
        with pytest.raises(InputError, match="too few"):
            deal_gpus(domains * hb_size, count, hb_size)
        return
    gpus = [site.gpus for site in deal_gpus(domains * hb_size, count, hb_size)]
    assert sum(gpus) == domains * hb_size
    assert max(gpus) - min(gpus) <= hb_size
    assert all(number % hb_size == 0 for number in gpus)


@given(st.lists(st.integers(1, 12), min_size=2, max_size=6), st.integers(2, 40))
def test_parts_are_dealt_as_they_fit(sizes: list[int], parts: int) -> None:
    sites = [Site(f"s{number}", 8 * size) for number, size in enumerate(sizes)]
    try:
        dealt = deal_parts(parts, 8.0, sites, "stages")
    except InputError:
        assert parts < len(sizes) or sum(sizes) < parts
        return
    assert sum(dealt) == parts
    assert all(1 <= got <= most for got, most in zip(dealt, sizes, strict=True))


def test_parts_that_do_not_fit_say_which_would() -> None:
    sites = deal_gpus(64, 2, 8)
    with pytest.raises(InputError, match=r"3 stages of 21.3333 GPUs do not fit .* such as 2 or 4"):
        deal_parts(3, 64 / 3, sites, "stages")
    with pytest.raises(InputError, match="1 stage cannot be dealt out to 2 sites"):
        deal_parts(1, 64.0, sites, "stages")


FILE = """sites:
  - {name: north, gpus: 64}
  - {name: south, gpus: 32}
  - {name: west, gpus: 32}
pairs:
  - {between: [north, south], km: 40, ratio: 4, usd_month: 9000}
  - {between: [west, south], km: 60, ratio: 8}
"""


def test_a_file_has_a_rate_for_each_pair(tmp_path: Path) -> None:
    path = tmp_path / "sites.yaml"
    path.write_text(FILE, "utf-8")
    sites = read_sites(path, RATE)
    # Of the smaller site: 32 x 50 GB/s / 4 and / 8.
    assert [pair.bytes_per_s for pair in sites.pairs] == [400e9, 200e9]
    assert sites.egress_bytes_per_s == (400e9, 600e9, 200e9)
    assert sites.pairs[0].usd_month == 9000
    assert sites.paths[0, 2] == ((0, 1), (1, 2))
    assert way_km(sites, 0, 2) == 100.0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("name: west", "name: south", "sites.yaml:4: a site before it is called south, too"),
        ("[west, south]", "[west, east]", "sites.yaml:7: no site is called east"),
        ("[west, south]", "[west, west]", "sites.yaml:7: west needs no fibre to itself"),
        (
            "[west, south]",
            "[south, north]",
            "sites.yaml:7: north and south stand twice with different values",
        ),
        ("km: 60", "km: 50000", "sites.yaml:7: km 50000: give 0 to 40,000"),
        ("km: 60", "km: -1", "sites.yaml:7"),
        ("ratio: 8", "ratio: 0.01", "sites.yaml:7: ratio 0.01: give 0.1 or more"),
        ("ratio: 8", "rate: 8", "sites.yaml:7"),
        ("gpus: 64", "gpus: many", "sites.yaml:2"),
        (
            "  - {between: [west, south], km: 60, ratio: 8}\n",
            "",
            "sites.yaml:5: no fibre leads from north to west",
        ),
    ],
)
def test_what_is_wrong_in_a_file_has_its_line(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    path = tmp_path / "sites.yaml"
    assert old in FILE
    path.write_text(FILE.replace(old, new), "utf-8")
    with pytest.raises(CatalogError) as caught:
        read_sites(path, RATE)
    assert said in str(caught.value)


def test_a_file_of_one_site_is_a_search(tmp_path: Path) -> None:
    path = tmp_path / "one.yaml"
    path.write_text("sites: [{name: a, gpus: 8}]\n", "utf-8")
    with pytest.raises(CatalogError, match="use netplan search"):
        read_sites(path, RATE)


@pytest.mark.parametrize(
    ("km", "ratio", "said"),
    [(-1.0, 1.0, "--km -1"), (40_001.0, 1.0, "--km 40001"), (1.0, 0.05, "--ratio 0.05")],
)
def test_lengths_and_ratios_that_are_none_are_refused(km: float, ratio: float, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Sites.laid_out(deal_gpus(16, 2, 8), "mesh", km=km, ratio=ratio, gpu_rate=RATE)
