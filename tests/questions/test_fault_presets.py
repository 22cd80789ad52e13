"""Recoveries, optics, bad servers and ranges as ``netplan faults`` and its neighbours answer."""

from typing import Any

import pytest
from msgspec import convert

from netplan import diff, faults, study
from netplan.answers.faults_answer import FaultsAnswer
from netplan.answers.faults_rows import ScenarioImpact
from netplan.answers.faults_screen import _preset, not_ranked
from netplan.costing.lifetime import ECONOMICS_BOOKS
from netplan.errors import InputError, NetplanError
from netplan.faults.years.checkpoints import best_interval_h, exact_time_ratio
from netplan.faults.years.forecast import (
    CheckpointPolicy,
    ForecastOptions,
    ReliabilityForecast,
    reliability_forecast,
)
from netplan.faults.years.rates import FAILURE_BOOKS
from netplan.faults.years.recovery_presets import RECOVERY_PRESETS, OnGpus
from netplan.published.reliability import default_time
from netplan.scenarios.scenario import Scenario

SMALL: dict[str, Any] = {"gpus": 512, "fabrics": ("rail-optimized",), "timing": False, "years": 20}


def asked(**given: Any) -> FaultsAnswer:  # noqa: ANN401 - inputs of any type
    return faults("hgx-h100", **SMALL | given)


def forecast(**given: Any) -> ReliabilityForecast:  # noqa: ANN401 - inputs of any type
    return asked(**given).fabrics[0].forecast


def test_verify_tests_what_users_get_by_default() -> None:
    found = forecast(gpus=16_384, failures="llama-3-54-days", years=1)
    assert found.mtbf_h == pytest.approx(54 * 24 / 419)
    assert found.effective_closed_form == pytest.approx(
        default_time(16_384, failures="llama-3-54-days")
    )
    assert found.goodput_closed_form == pytest.approx(0.908, abs=0.0005)
    robust = forecast(gpus=9600, failures="byterobust", recovery="warm-standby", years=1)
    got = default_time(9600, failures="byterobust", recovery="warm-standby")
    assert robust.effective_closed_form == pytest.approx(got)
    assert round(robust.goodput_closed_form, 2) == 0.97


def test_times_that_are_given_stand_in_for_the_preset() -> None:
    answer = asked(checkpoint_write_minutes=2.0, restart_minutes=5.0)
    found = answer.fabrics[0].forecast
    assert answer.inputs["recovery"] == "llama3"
    assert answer.inputs["checkpoint_write_minutes"] == pytest.approx(2.0)
    assert answer.inputs["restart_minutes"] == pytest.approx(5.0)
    assert found.interval_h == pytest.approx(best_interval_h(2 / 60, found.mtbf_h))
    assert asked().inputs["checkpoint_write_minutes"] == pytest.approx(1 / 6)
    kept = forecast(checkpoint_interval_minutes=30.0)
    assert (kept.interval_low_h, kept.interval_h, kept.interval_high_h) == (0.5, 0.5, 0.5)


def test_goodput_has_a_range_of_five_times_the_interruptions_either_way() -> None:
    found = forecast(failures="llama-3-54-days")
    assert (found.spread_few, found.spread_many) == (0.2, 5.0)
    assert found.interval_low_h == pytest.approx(best_interval_h(10 / 3600, found.mtbf_h / 5))
    assert found.interval_high_h == pytest.approx(best_interval_h(10 / 3600, found.mtbf_h * 5))
    assert found.goodput_low < found.goodput_closed_form < found.goodput_high
    times = {"gpus": SMALL["gpus"] * 5}
    # Without repairs nothing is down: five times the GPUs have five times the stops.
    assert found.goodput_low == pytest.approx(
        forecast(failures="llama-3-54-days", **times).goodput_closed_form
    )


def test_a_book_without_a_spread_ranges_over_its_rates() -> None:
    # 10 faults of 504 GPUs: the exact 95 % interval of the count is 4.795 to 18.39.
    book = FAILURE_BOOKS.load("b200-73-days")
    scenario = Scenario.load("hgx-h100").replace(gpus=512)
    fabric = scenario.fabric("rail-only").counts
    options = ForecastOptions(CheckpointPolicy(1 / 60, 10 / 60), years=2)
    found = reliability_forecast(fabric, book.placed(8), options)
    assert found.spread_few == pytest.approx(0.4795, rel=1e-3)
    assert found.spread_many == pytest.approx(1.839, rel=1e-3)


def test_the_spread_of_clusters_is_only_of_books_about_its_middle() -> None:
    # 0.037 and 0.91 a GPU and year lie 4.6 and 5.4 times from Llama 3's 0.17: five times either
    # way. Of RSC-1's 2.3725 / 8 = 0.297 they would be eight times less and three times more.
    books = [FAILURE_BOOKS.load(name) for name in FAILURE_BOOKS.paths()]
    assert {book.name for book in books if book.spread} == {"2026", "llama-3-54-days"}
    for book in (book for book in books if book.spread):
        assert book.spread is not None
        assert "0.17" in book.spread.source
        assert 0.9 < 0.91 / 0.17 / book.spread.times < 1.1
    answer = asked(failures="rsc-1")
    found = answer.fabrics[0].forecast
    assert (found.spread_few, found.spread_many) == (1.0, 1.0)
    # One rate has no ends to show, and the answer does not say that it had.
    assert found.goodput_low == found.goodput_high
    assert "clusters differ" not in answer.text(80)
    assert "clusters differ" in asked().text(80)


def test_the_remainder_is_rework_and_its_absence_an_upper_bound() -> None:
    whole = forecast(recovery="in-memory", years=400)
    bound = asked(recovery="in-memory", overrides={"recovery.remainder.base": "0"}, years=400)
    free = bound.fabrics[0].forecast
    per_stop_h = whole.lost_h["rework"] / whole.interruptions_per_year
    assert per_stop_h == pytest.approx(22.5 / 60, rel=0.03)
    assert whole.lost_h["restart"] == pytest.approx(free.lost_h["restart"], rel=0.03)
    assert bound.fabrics[0].is_upper_bound
    assert "≤ " in str(bound)
    assert "≤ " not in str(asked())


def test_a_checkpoint_of_every_iteration_takes_the_time_of_one() -> None:
    answer = faults(
        "hgx-h100",
        gpus=64,
        model="llama-3-8b",
        fabrics=("rail-only",),
        years=5,
        recovery="in-memory",
    )
    row = answer.fabrics[0]
    assert row.iteration_time_s is not None
    assert 3600 * row.forecast.interval_h == pytest.approx(row.iteration_time_s)
    assert forecast(recovery="in-memory").interval_h == pytest.approx(10 / 3600)


def test_checkpoints_to_storage_take_their_bytes_over_its_rate() -> None:
    answer = asked(networks=("storage",), model="llama-3-8b")
    # 14 bytes a parameter; 64 nodes write half of the 80 GB/s of 128.
    seconds = 60 * answer.inputs["checkpoint_write_minutes"]
    assert seconds == pytest.approx(14 * 8.03e9 / 40e9, rel=0.01)
    plain = asked(networks=("storage",), model="llama-3-8b", optimizer="sgd")
    assert 60 * plain.inputs["checkpoint_write_minutes"] == pytest.approx(seconds * 6 / 14)
    memory = asked(networks=("storage",), model="llama-3-8b", recovery="in-memory")
    assert 60 * memory.inputs["checkpoint_write_minutes"] == pytest.approx(0.04)
    given = asked(networks=("storage",), checkpoint_write_minutes=3.0)
    assert given.inputs["checkpoint_write_minutes"] == pytest.approx(3.0)


def test_storage_grows_with_the_cluster_and_its_ends_are_in_the_range() -> None:
    # A checkpoint of 405.85e9 x 14 B on sixteen times 128 nodes: 4.4 s, as most jobs have it, in
    # place of the 10 s that are assumed without storage.
    given = {"gpus": 16_384, "model": "llama-3-405b", "years": 2}
    stored = asked(**given, networks=("storage",))
    usual_s = 14 * 405.85e9 / (16 * 80e9)
    assert 60 * stored.inputs["checkpoint_write_minutes"] == pytest.approx(usual_s, rel=1e-3)
    found, without = stored.fabrics[0].forecast, asked(**given).fabrics[0].forecast
    assert found.goodput_closed_form > without.goodput_closed_form
    # The most failures meet the slowest storage of the guidelines, 30 GB/s of 128 nodes, and the
    # fewest the fastest, 250: nothing between has a goodput outside.
    slow, fast = (
        asked(**given, checkpoint_write_minutes=usual_s * times / 60).fabrics[0].forecast
        for times in (80 / 30, 80 / 250)
    )
    assert found.goodput_low == pytest.approx(slow.goodput_low, rel=1e-4)
    assert found.goodput_high == pytest.approx(fast.goodput_high, rel=1e-4)
    assert found.interval_low_h == pytest.approx(slow.interval_low_h, rel=1e-3)


def test_remarks_of_a_preset_are_made_of_its_own_rows() -> None:
    standing = " ".join(asked(recovery="in-memory").text(200).split())
    assert "warm-standby (the same as in-memory): 2 machines of 16 GPUs that stand by" in standing
    assert "presets without a remainder leave out: do not rank them by this" in standing
    # A preset that is given a remainder and machines of its own says these, and never that it
    # leaves the remainder out.
    lost = {"what": "work of a shift", "base": 60, "source": "s", "date": "2026"}
    lost |= {"evidence": "assumed", "confirmed": "none"}
    cold = RECOVERY_PRESETS.load("cold-restart").changed(
        remainder=convert(lost, OnGpus), machines=convert(lost | {"what": "trays of 4"}, OnGpus)
    )
    said = " ".join((*_preset(cold, 2048), *not_ranked(cold)))
    assert said == (
        "cold-restart: 60 trays of 4 beside these GPUs (--spare-domains, whose network is on the"
        " bill). cold-restart counts work of a shift, which presets without a remainder leave out:"
        " do not rank them by this."
    )
    assert not list(_preset(RECOVERY_PRESETS.load("cold-restart"), 2048))


def test_bad_servers_cost_what_the_answer_says() -> None:
    found = forecast(bad_servers=0.012, failures="2026")
    plain = forecast()
    assert found.goodput_without_bad_servers == pytest.approx(plain.goodput_closed_form)
    more = found.interruptions_closed_form - plain.interruptions_closed_form
    assert found.bad_servers_per_year == pytest.approx(more)
    assert plain.goodput_without_bad_servers is None
    assert "Bad servers make" in str(asked(bad_servers=0.012))


def test_packaged_optics_stop_a_job_less_often() -> None:
    fibres = "as-published"
    plain, packaged = forecast(hall=fibres), forecast(optics="cpo", hall=fibres)
    modules = {cause.cause: cause.failures_per_year for cause in packaged.causes}
    # 512 host links: 32 engines, and a module in each card.
    assert modules["Optical engine"] == pytest.approx(32 * 0.0539)
    assert modules["Optical module, host link"] == pytest.approx(512 * 0.00876)
    assert modules["Optical module, trunk"] == 0
    fewer = plain.network_interruptions_per_year - packaged.network_interruptions_per_year
    assert fewer == pytest.approx(512 * 0.00876 - 32 * 0.0539)


def test_switches_with_packaged_optics_take_no_copper() -> None:
    # With leaves in the racks copper of up to 7 m reaches 372 of 512 cards: 520 fibres on the
    # bill, 380 of them trunks. A module in each card and each leaf's end of the other 140.
    modules, fibres = "Optical module, host link", "Fibre and connectors, host link"
    plain, packaged = (
        {cause.cause: cause.failures_per_year for cause in forecast(optics=optics).causes}
        for optics in ("dsp", "cpo")
    )
    assert plain[modules] == pytest.approx(2 * 140 * 0.00876)
    assert plain[fibres] == pytest.approx(140 * 0.00458)
    assert packaged[modules] == pytest.approx(512 * 0.00876)
    assert packaged[fibres] == pytest.approx(512 * 0.00458)
    assert not [name for name, rate in packaged.items() if "copper" in name and rate]


def test_a_card_of_two_planes_stops_a_job_once_and_its_links_never() -> None:
    found = forecast(fabrics=("two-planes",))
    stops = {cause.cause: cause.failures_per_year for cause in found.causes}
    assert stops["NIC"] == pytest.approx(512 * 0.0029)
    assert found.network_interruptions_per_year == pytest.approx(512 * 0.0029)
    assert not [name for name in stops if name.startswith("Own group")]


def test_planes_ride_through_flaps_and_engines() -> None:
    alone, planes = forecast(optics="cpo"), forecast(optics="cpo", fabrics=("two-planes",))
    assert alone.flaps is not None
    assert planes.flaps is not None
    assert (alone.flaps.rides_through, planes.flaps.rides_through) == (False, True)
    assert planes.flaps.held_up_h.base < alone.flaps.held_up_h.base / 100
    assert "Optical engine" not in {
        cause.cause for cause in planes.causes if cause.interruptions_per_year
    }


def test_diff_has_the_goodput_of_faults() -> None:
    given = {"gpus": 512, "fabric": "rail-only"}
    found = diff(
        "hgx-h100", **given, goodput=True, timing=False, a={}, b={"recovery": "cold-restart"}
    )
    alone = [
        faults("hgx-h100", gpus=512, fabrics=("rail-only",), recovery=name).fabrics[0].forecast
        for name in ("llama3", "cold-restart")
    ]
    assert found.a.goodput is not None
    assert found.b.goodput is not None
    assert [found.a.goodput.value, found.b.goodput.value] == [one.goodput for one in alone]


def test_diff_without_goodput_has_no_recovery() -> None:
    with pytest.raises(InputError, match="means nothing for a diff without --goodput"):
        diff("hgx-h100", gpus=512, timing=False, b={"recovery": "cold-restart"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"recovery": "lukewarm"}, "unknown recovery 'lukewarm'"),
        ({"bad_servers": 0.3}, "--bad-servers 30% is out of range: give 0% to 25%"),
        ({"optics": "laser"}, "optics"),
        ({"checkpoint_write_minutes": -1.0}, "checkpoint"),
        ({"failures": "rsc-1", "bad_servers": 0.01}, "does not say how often bad ones fail"),
    ],
)
def test_inputs_that_mean_nothing(given: dict[str, Any], message: str) -> None:
    with pytest.raises(NetplanError, match=message):
        asked(**given)


def test_exact_ratio_counts_the_remainder_as_a_restart() -> None:
    found = forecast(recovery="warm-standby", failures="llama-3-54-days")
    policy = RECOVERY_PRESETS.load("warm-standby").policy(512)
    job = policy.times_at(found.mtbf_h)
    assert job.restart_h == pytest.approx(policy.restart_h + 0.375)
    assert found.effective_closed_form == pytest.approx(exact_time_ratio(job, found.mtbf_h))


FOUR = ("rail-optimized", "rail-only", "dragonfly", "torus-3d")


@pytest.mark.parametrize("failed", [(), ("leaf=1",)])
def test_no_screen_ranks_recoveries_that_count_unlike(failed: tuple[str, ...]) -> None:
    warm = asked(fabrics=FOUR, recovery="warm-standby", fail=failed)
    says = "which presets without a remainder leave out: do not rank them by this"
    for text in (warm.text(80), warm.text(80, details=True), warm.html()):
        assert says in " ".join(text.split())
    assert len(warm.text(80).splitlines()) <= 25
    assert says in warm.to_dict()["recovery"]["notes"][0]
    assert "do not rank" not in asked(fabrics=FOUR, fail=failed).text(80)


def test_diff_does_not_rank_recoveries_that_count_unlike() -> None:
    given: dict[str, Any] = {"gpus": 512, "model": "gpt-22b", "batch": 512, "goodput": True}
    answer = diff("hgx-h100", b={"recovery": "warm-standby"}, **given)
    assert "do not rank them by goodput: warm-standby counts work rolled back" in answer.sentence
    assert answer.to_dict()["totals"]["goodput"]["alike"] is False
    assert "not alike" in answer.text(80)
    alike = diff("hgx-h100", a={"recovery": "cold-restart"}, b={}, **given)
    assert "rank" not in alike.sentence
    assert alike.to_dict()["totals"]["goodput"]["alike"] is True


def test_failures_together_are_told_for_every_fabric() -> None:
    answer = asked(fabrics=FOUR, fail=("leaf=1", "links=3"))
    hit = {
        fabric.name: fabric.scenario.impact.gpus_down + fabric.scenario.impact.gpus_cut_off
        for fabric in answer.fabrics
        if isinstance(fabric.scenario, ScenarioImpact)
    }
    assert "torus-3d" not in hit
    most = max(hit.values())
    where = ", ".join(name for name, gpus in hit.items() if gpus == most)
    lines = answer.text(80).splitlines()
    screen = " ".join(" ".join(lines).split())
    assert f"leaf=1 links=3 together: at most {most} GPUs down or cut off ({where})" in screen
    assert "; torus-3d has no leaf." in screen
    # What is assumed stands above, whatever is asked for.
    assert lines[1].startswith("rates 2026")
    assert len(lines) <= 25


def test_a_page_begins_with_its_verdict() -> None:
    answer = asked(recovery="cold-restart")
    page = answer.html()
    above = page[: page.index("A year of failures")]
    for words in ("recovery cold-restart", "Goodput: ", "Helps most: "):
        assert words in above


@pytest.mark.slow
@pytest.mark.usefixtures("points")
def test_the_study_of_optics_says_time_and_money_of_the_economics_book() -> None:
    answer = study("optics-and-planes", vary={"gpus": [16_384]})
    hour = ECONOMICS_BOOKS.load("2026").gpu_hours["h100-80gb"]
    assert hour is not None
    lost = {}
    for row in answer.rows:
        counts, usd = row["outlook.effective_closed_form"], row["million_usd_lost"]
        assert isinstance(counts, float)
        assert usd == pytest.approx((1 - counts) * 16_384 * 8760 * hour.base / 1e6)
        lost[row["optics"], row["fabric"]] = usd
    screen = " ".join(answer.text(80).split())
    one_plane = lost["dsp", "rail-optimized"]
    assert f"M USD of GPU time lost a year (16,384 GPUs) {one_plane:.3g} for dsp" in screen
    assert "LPO or CPO for DSP: time that counts 0.22 % higher" in screen
    assert "closed form" not in screen
    assert "switch not set" in screen
    assert "not in it" in screen
