"""Recovery presets, and what book 2026 knows of optics, flaps, bad servers and other clusters."""

from math import exp, expm1, log, log2

import numpy as np
import pytest

from netplan.costing.ranges import Range
from netplan.errors import CatalogError, InputError
from netplan.faults.damage.groups import engine_groups
from netplan.faults.years.checkpoints import exact_time_ratio
from netplan.faults.years.forecast import flaps_of
from netplan.faults.years.rates import FAILURE_BOOKS, unit_counts
from netplan.faults.years.recovery_presets import RECOVERY_PRESETS, OnGpus
from netplan.scenarios.scenario import Scenario
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FABRICS

LLAMA_H = 54 * 24 / 419
SIZING = Sizing(1024, 64, 8, 450e9, 50e9)


def daly(interval_s: float, write_s: float, restart_s: float, mtbf_h: float) -> float:
    """T / (M e^(R/M) (e^((T+w)/M) - 1)), written out anew [1]."""
    tau, write, restart = (seconds / 3600 for seconds in (interval_s, write_s, restart_s))
    return tau / (mtbf_h * exp(restart / mtbf_h) * expm1((tau + write) / mtbf_h))


@pytest.mark.parametrize(
    ("name", "share"), [("llama3", 0.908), ("cold-restart", 0.811), ("warm-standby", 0.873)]
)
def test_effective_time_on_16384_gpus(name: str, share: float) -> None:
    job = RECOVERY_PRESETS.load(name).policy(16_384).times_at(LLAMA_H)
    assert exact_time_ratio(job, LLAMA_H) == pytest.approx(share, abs=0.0006)


def test_without_its_remainder_warm_standby_is_an_upper_bound() -> None:
    preset = RECOVERY_PRESETS.load("warm-standby", overrides={"recovery.remainder.base": "0"})
    assert preset.is_upper_bound
    assert not RECOVERY_PRESETS.load("warm-standby").is_upper_bound
    assert not RECOVERY_PRESETS.load("llama3").is_upper_bound
    share = exact_time_ratio(preset.policy(16_384).times_at(LLAMA_H), LLAMA_H)
    assert share == pytest.approx(daly(10, 0.02, 60 + 768 / 10.87, LLAMA_H))
    assert share == pytest.approx(0.986, abs=0.0005)


def test_byterobust_comes_to_97_percent() -> None:
    book = FAILURE_BOOKS.load("byterobust")
    hours = 8760 / (book.rates[0].rate_per_year.base * 9600)
    assert hours == pytest.approx(91 * 24 / 175)
    got = exact_time_ratio(RECOVERY_PRESETS.load("in-memory").policy(9600).times_at(hours), hours)
    assert book.effective_time is not None
    assert round(got, 2) == book.effective_time.ratio


@pytest.mark.parametrize(("gpus", "schedule_s"), [(2048, 454), (4096, 545), (16_384, 768)])
def test_times_printed_for_a_size_are_those_of_the_size(gpus: int, schedule_s: float) -> None:
    cold, warm = (RECOVERY_PRESETS.load(name) for name in ("cold-restart", "warm-standby"))
    assert 3600 * cold.policy(gpus).restart_h == pytest.approx(60 + 510 + schedule_s)
    assert 3600 * warm.policy(gpus).restart_h == pytest.approx(60 + schedule_s / 10.87)


def test_times_between_and_beyond_sizes() -> None:
    schedule = RECOVERY_PRESETS.load("cold-restart").restart[-1]
    between = 635 + (768 - 635) * log2(10_000 / 8192)
    assert schedule.value_on(10_000).base == pytest.approx(between)
    assert schedule.value_on(65_536).base == pytest.approx(768 + 2 * 103)
    assert schedule.value_on(8).base == 454
    # The fit of the reference, 446 + 103 log2(N / 2048), is within 2 % of all printed.
    for gpus, printed_s in schedule.by_gpus:
        assert 446 + 103 * log2(gpus / 2048) == pytest.approx(printed_s, rel=0.03)


def test_given_times_stand_in_for_those_of_a_preset() -> None:
    preset = RECOVERY_PRESETS.load("in-memory")
    policy = preset.policy(2048, write_s=36.0, interval_s=720.0, restart_s=0.0)
    assert (policy.write_h, policy.interval_h, policy.restart_h) == (0.01, 0.2, 0.0)
    assert not policy.each_iteration
    assert policy.of_iterations(5.0).interval_h == 0.2
    assert preset.policy(2048).of_iterations(5.0).interval_h == pytest.approx(5 / 3600)
    assert preset.policy(2048, storage_s=Range.point(99.0)).write_h == pytest.approx(0.04 / 3600)
    stored = RECOVERY_PRESETS.load("llama3").policy(8, storage_s=Range(18.0, 36.0, 72.0))
    assert (stored.write_h, stored.write_ends_h) == (0.01, (0.005, 0.02))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "give either base"),
        ({"base": 1.0, "by_gpus": ((8, 1.0),)}, "give either base"),
        ({"by_gpus": ((8, 1.0), (8, 2.0))}, "from few GPUs to many"),
        ({"base": 1.0, "low": 2.0}, "low <= base <= high"),
    ],
)
def test_values_of_presets_that_are_none(values: dict[str, object], message: str) -> None:
    facts = {"source": "test", "date": "2026", "evidence": "assumed", "confirmed": "none"}
    with pytest.raises(ValueError, match=message):
        OnGpus(what="a step", **facts, **values)  # type: ignore[arg-type]


def test_a_preset_has_one_interval() -> None:
    one = "{what: x, base: 1, source: s, date: '2026', evidence: assumed, confirmed: none}"
    with pytest.raises(CatalogError, match="give one of them"):
        RECOVERY_PRESETS.load("in-memory", overrides={"recovery.interval": one})


def test_modules_fail_by_their_kind() -> None:
    book = FAILURE_BOOKS.load("2026")
    stops = {}
    for optics in ("dsp", "lpo", "cpo"):
        rows = book.placed(8, optics=optics).rates
        stops[optics] = {row.cause for row in rows if row.kind == "transceiver"}
    assert stops["dsp"] == {"Optical module, host link", "Optical module, trunk"}
    assert stops["lpo"] == {"Linear optical module, host link", "Linear optical module, trunk"}
    assert stops["cpo"] == stops["dsp"] | {"Optical engine"}
    engine, module = book.rate("Optical engine"), book.rate("Optical module")
    assert engine.ports_each == 16
    # 2.6 million hours a port; pluggable ones have a million.
    assert engine.rate_per_year.base / 16 == pytest.approx(8760 / 2.6e6, rel=1e-3)
    assert module.rate_per_year.base == pytest.approx(8760 / 1e6)
    lpo = book.rate("Linear optical module").rate_per_year.base
    assert lpo == pytest.approx(module.rate_per_year.base - 300e-9 * 8760, rel=1e-3)
    assert book.rate("Linear optical module").is_assumed
    assert not engine.is_assumed


def test_with_packaged_optics_cards_alone_have_modules() -> None:
    fabric = build_fabric(FABRICS.load("rail-optimized"), SIZING)
    plugged, packaged = (unit_counts(fabric, None, optics) for optics in ("dsp", "cpo"))
    assert (plugged["host_transceiver"], packaged["host_transceiver"]) == (2048, 1024)
    assert (plugged["trunk_transceiver"], packaged["trunk_transceiver"]) == (2048, 0)
    graph = expand(FABRICS.load("rail-optimized"), SIZING)
    engines = engine_groups(graph, 16)
    assert len(engines) == 1024 // 16
    assert np.bincount(engines.link_group).tolist() == [16] * 64
    # All links of an engine end at one switch, and no link is in two.
    switch = np.maximum(graph.source, graph.target)[engines.link].reshape(64, 16)
    assert (switch == switch[:, :1]).all()
    assert len(set(engines.link.tolist())) == 1024
    # Ports that are no multiple of sixteen end in a smaller engine.
    odd = engine_groups(graph, 24)
    assert sorted(set(np.bincount(odd.link_group).tolist())) == [8, 24]


def test_passive_and_active_copper_are_apart_and_together() -> None:
    scenario = Scenario.load("nvl72-gb200").replace(gpus=576)
    units = unit_counts(scenario.fabric("rail-only").counts)
    assert units["copper_cable"] == units["dac"] + units["aec"]
    assert units["dac"] == units["host_dac"] + units["trunk_dac"]


def test_flaps_hold_up_single_ports_and_ride_through_on_others() -> None:
    book = FAILURE_BOOKS.load("2026")
    alone = flaps_of(book, 10_000, optics="dsp", slowdown=None)
    assert alone is not None
    assert alone.per_year.base == 70_000
    # Events of h hours a year in all: a year of 8,760 h less the share exp(-h / 8760) without any.
    assert alone.held_up_h.base == pytest.approx(8760 * (1 - exp(-70_000 * 9.3 / 3600 / 8760)))
    assert alone.retransmitting_h.base == pytest.approx(
        8760 * (1 - exp(-70_000 * 4.3 / 3600 / 8760))
    )
    halved = flaps_of(book, 10_000, optics="dsp", slowdown=0.25)
    assert halved is not None
    assert halved.rides_through
    # A fifth of the time in which a link is down, however many are down at once.
    assert halved.held_up_h.base == pytest.approx(0.2 * 8760 * (1 - exp(-70_000 * 5 / 3600 / 8760)))
    assert halved.retransmitting_h.base == 0
    packaged = flaps_of(book, 10_000, optics="cpo", slowdown=None)
    assert packaged is not None
    assert packaged.per_year.base == 35_000
    assert flaps_of(book, 0, optics="dsp", slowdown=None) is None
    assert flaps_of(FAILURE_BOOKS.load("rsc-1"), 8, optics="dsp", slowdown=None) is None


def test_flaps_that_overlap_hold_a_job_up_once() -> None:
    # 131,072 links, 7 times a year for 9.3 s: 2,370.2 h end to end, of which 293.6 h overlap:
    # 8,760 x (1 - exp(-0.27057)) = 2,076.6 h; the highest ends, 12.9 times for 34.3 s, 16,110 h.
    flaps = flaps_of(FAILURE_BOOKS.load("2026"), 131_072, optics="dsp", slowdown=None)
    assert flaps is not None
    assert flaps.held_up_h.base == pytest.approx(2076.6, abs=0.1)
    assert flaps.held_up_h.high == pytest.approx(7367.4, abs=1)
    # Counted: links flap at random moments of a year, and each moment is held up once.
    rng = np.random.default_rng(1)
    starts_s = np.sort(rng.uniform(0, 31_536_000, 131_072 * 7))
    apart_s = np.diff(starts_s, append=np.inf)
    assert np.minimum(apart_s, 9.3).sum() / 3600 == pytest.approx(flaps.held_up_h.base, rel=3e-3)


def test_bad_servers_multiply_what_is_in_servers() -> None:
    book = FAILURE_BOOKS.load("2026")
    assert book.bad_servers is not None
    times = 1 + 0.02 * (book.bad_servers.times - 1)
    plain, bad = book.placed(8), book.placed(8, bad_servers=0.02)
    for before, after in zip(plain.rates, bad.rates, strict=True):
        inside = before.kind in ("gpu", "memory", "nic", "hb-gear", "server", "maintenance")
        factor = after.rate_per_year.base / before.rate_per_year.base
        assert factor == pytest.approx(times if inside else 1.0), before.cause
    # RSC: jobs that fail fall from 14 to 4 % without 1.2 % of the servers.
    ratio = log(1 - 0.14) / log(1 - 0.04)
    assert 1 + book.bad_servers.share * (book.bad_servers.times - 1) == pytest.approx(
        ratio, rel=5e-3
    )


def test_bad_servers_of_a_book_without_any() -> None:
    with pytest.raises(InputError, match="does not say how often bad ones fail"):
        FAILURE_BOOKS.load("rsc-1").placed(8, bad_servers=0.01)


def test_a_time_to_write_of_its_own_takes_the_best_interval() -> None:
    """Ten minutes each are not written every ten seconds, as a preset in memory would have it."""
    own = RECOVERY_PRESETS.load("in-memory").policy(1024, write_s=600)
    assert own.interval_h is None
    assert not own.each_iteration
    assert RECOVERY_PRESETS.load("in-memory").policy(1024).each_iteration
    both = RECOVERY_PRESETS.load("in-memory").policy(1024, write_s=600, interval_s=7200)
    assert both.interval_h == 2
