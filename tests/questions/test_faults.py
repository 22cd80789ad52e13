"""Failures side by side: the paper's claims, recoveries, years of failures, wrong input."""

import csv
import io
import json
from importlib import import_module
from math import exp

import pytest

import netplan
from netplan.answers.faults_answer import FaultsAnswer
from netplan.errors import InputError, NetplanError
from netplan.faults.years.rates import FAILURE_BOOKS
from netplan.procurement.report import procurement
from netplan.questions.compare import compare
from netplan.questions.faults import faults
from netplan.questions.search import search
from netplan.reports.charts import Chart
from netplan.reports.quantities import nomenclature
from tests.questions.fault_cases import BOOKS, PAIR, SMALL, scenario, single, small


@pytest.fixture(scope="module")
def large() -> FaultsAnswer:
    """The paper's main case: 32,768 GPUs in domains of 256."""
    return faults("rail-only-paper", gpus=32_768, radix=128, fabrics=PAIR, years=100, **BOOKS)


def test_claims_of_section_4_1_as_numbers(large: FaultsAnswer) -> None:
    clos, rail_only = large.fabrics
    # Fewer points of failure: Table 2 has 1,280 and 256 switches, 3 and 1 links a GPU.
    assert (clos.switches, rail_only.switches) == (1280, 256)
    assert (clos.links, rail_only.links) == (3 * 32_768, 32_768)
    # A leaf of the Clos holds 64 GPUs, a rail switch 128: each GPU hangs at one switch either way.
    assert single(clos, "leaf").gpus_cut_off * 512 == 32_768
    assert single(rail_only, "leaf").gpus_cut_off * 256 == 32_768
    assert clos.gpus_cut_off_per_year == pytest.approx(rail_only.gpus_cut_off_per_year)
    # And by hand: every GPU loses its port with its link's rate and its leaf's.
    book = FAILURE_BOOKS.load("2026")
    parts = {row.cause: row.rate_per_year.base for row in book.rates}
    link = 2 * parts["Optical module"] + parts["Fibre and connectors"]
    rate = link + parts["Leaf switch"]
    assert rail_only.gpus_cut_off_per_year == pytest.approx(32_768 * rate)
    # A link cuts off its GPU and no other, and the domain sends on through its 255 others.
    for fabric in large.fabrics:
        impact = single(fabric, "host")
        assert (impact.gpus_cut_off, impact.gpus_unreachable) == (1, 0)
        assert impact.bandwidth_share == pytest.approx(255 / 256)


def test_a_worst_pair_that_may_not_be_the_worst_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    question = {"gpus": 320, "hb_size": 8, "radix": 16, "years": 1, "fabrics": ("rail-only",)}
    exact = small(**question)
    impact = single(exact.fabrics[0], "leaf")
    assert impact.bandwidth_share == impact.bandwidth_share_low == 7 / 8
    assert "87.50 %" in exact.text(120, details=True)
    assert "≤" not in exact.text(120, details=True)
    # Without classes, 24 of 780 pairs are chosen.
    monkeypatch.setattr(import_module("netplan.faults.damage.capacity"), "MAX_ENDS", 0)
    chosen = small(**question)
    impact = single(chosen.fabrics[0], "leaf")
    assert (impact.bandwidth_share, impact.bandwidth_share_low) == (7 / 8, 0)
    assert "≤ 87.50 %" in chosen.text(120, details=True)
    assert "HB pair ≤: the worst of the pairs that are known, which are not all." in chosen.text(
        120, details=True
    )


def test_damage_makes_no_plan_faster() -> None:
    """Of plans within 1 % the preferred one of the damaged network may take less."""
    fabrics = ("rail-only", "rail-optimized")
    answer = faults("hgx-h100", gpus=2048, fabrics=fabrics, fail=("leaf=1", "links=10"), years=1)
    slowdowns = [scenario(fabric).impact.slowdown for fabric in answer.fabrics]
    assert len(slowdowns) == 2
    assert all(slowdown is not None and 0 <= slowdown < 0.02 for slowdown in slowdowns)


def test_a_job_inside_one_domain_does_not_notice_its_network() -> None:
    answer = faults(
        "rail-only-paper",
        gpus=256,
        radix=32,
        model="gpt-146b",
        fabrics=("rail-optimized",),
        years=1,
    )
    fabric = answer.fabrics[0]
    for kind in ("nic", "host", "leaf-spine", "leaf", "spine"):
        impact = single(fabric, kind)
        assert (impact.way, impact.slowdown, impact.bandwidth_share) == ("all GPUs", 0, None)
    assert single(fabric, "gpu").way == "without"
    assert single(fabric, "hb-switch").way == "stopped"
    text = answer.text(80, details=True)
    assert "HB pair -: no two HB domains are left to send between." in text
    # Its cards, links and switches fail in the years, too, and stop nothing.
    assert fabric.forecast.network_interruptions_per_year == 0
    assert {one.told_apart: one.interruptions_per_year for one in fabric.record}["network"] == 0
    failing = {one.cause for one in fabric.forecast.causes if one.failures_per_year}
    stopping = {one.cause for one in fabric.forecast.causes if one.interruptions_per_year}
    assert {"NIC", "Optical module, host link"} <= failing - stopping
    assert "the job needs no network" in fabric.notes[0]
    # Without one that does, there is no survival to draw.
    assert sum(isinstance(section, Chart) for section in answer.sections()) == 1


def test_it_says_why_no_plan_fits_and_still_how_the_job_would_go_on() -> None:
    answer = faults(
        "rail-only-paper",
        gpus=64,
        radix=64,
        hb_size=8,
        model="gpt-1t",
        fabrics=("rail-only",),
        years=1,
    )
    fabric = answer.fabrics[0]
    assert fabric.iteration_time_s is None
    assert fabric.notes[0].startswith("Not timed: gpt-1t fits on no plan: the nearest needs 286 GB")
    assert [single(fabric, kind).way for kind in ("nic", "gpu")] == ["all GPUs", "without"]


def test_the_answers_to_a_failed_gpu(large: FaultsAnswer) -> None:
    clos, rail_only = large.fabrics
    behind, idle, moved, forwarded = rail_only.recoveries
    # 256 GPUs and 256 rail ports of a domain meet on four circuit switches, each with an idle GPU.
    assert "4 idle GPUs in each of 128 domains, 512 palomar between" in behind.hardware
    assert (behind.circuit_switches, behind.idle_gpus) == (4 * 128, 4 * 128)
    # A Clos joins the rails; 128 of 32,768 GPUs stand by, with their share of the network.
    asked = {"gpus": 32_768, "radix": 128, "fabrics": PAIR, "prices": "2026"}
    bills = netplan.cost("rail-only-paper", **asked).bills
    assert (clos.recoveries[0].circuit_switches, clos.recoveries[0].idle_gpus) == (0, 128)
    assert clos.recoveries[0].price == pytest.approx(bills[0].capital.base / 256)
    assert (clos.recoveries[0].iteration_time_s or 0) > (clos.iteration_time_s or 0)
    # The bill with circuit switches above that without, and 4 of 256 of the network.
    (through,) = netplan.cost("rail-only-paper", **{**asked, "fabrics": ("rail-only-ocs",)}).bills
    step = through.capital.base - bills[1].capital.base
    assert step > 512 * 136 * 520
    assert behind.price == pytest.approx(step + bills[1].capital.base * 4 / 256)
    # One of the present domains, as a failed GPU without a spare leaves out one.
    assert (idle.idle_gpus, idle.extra_gpus) == (256, 0)
    assert idle.price == pytest.approx(bills[1].capital.base / 128)
    assert idle.iteration_time_s == single(rail_only, "gpu").iteration_time_s
    # 129 domains do not fit a rail switch of 128 ports: a second tier, whose switches rails share.
    # 256 x 129 hosts fill 3 x 33,024 / 128 = 774 switches at least.
    assert (moved.extra_gpus, moved.extra_switches) == (256, 778 - 256)
    assert "a network for 33,024 GPUs in 2 tiers: switches +522" in moved.hardware
    assert moved.hardware.endswith("the step to the next size")
    assert forwarded.iteration_time_s == single(rail_only, "nic").iteration_time_s


@pytest.mark.parametrize(("gpus", "switches"), [(1024, 16), (4096, 64), (32_768, 512)])
def test_fibres_of_a_domain_meet_on_one_circuit_switch(gpus: int, switches: int) -> None:
    """Eight GPUs and eight rail ports: 16 of 136 ports, so that eight domains share a switch."""
    asked = {"gpus": gpus, "radix": 64, "hb_size": 8, "fabrics": ("rail-only",), "prices": "2026"}
    found = faults("rail-only-paper", **asked, years=1, timing=False).fabrics[0].recoveries[0]
    assert (found.circuit_switches, found.idle_gpus) == (switches, gpus // 8)
    assert found.single_mode_modules == 2 * gpus
    # 520 USD a port, and all else that sets the two bills apart; and an eighth of the network.
    both = {**asked, "fabrics": ("rail-only", "rail-only-ocs")}
    bill, through = netplan.cost("rail-only-paper", **both).bills
    step = through.capital.base - bill.capital.base
    assert step > switches * 136 * 520
    assert found.price == pytest.approx(step + bill.capital.base / 8)
    # `cost` marks the same bill: fibre and racks have no price in the book.
    assert found.price_complete == (not bill.quote.unpriced)


def test_a_network_of_one_domain_needs_no_circuit_switches() -> None:
    found = faults(
        "rail-only-paper",
        gpus=64,
        radix=64,
        hb_size=64,
        fabrics=("rail-only",),
        years=1,
        timing=False,
    ).fabrics[0]
    assert [(one.circuit_switches, one.idle_gpus) for one in found.recoveries] == [(0, 1)]


def test_years_agree_with_the_closed_forms(large: FaultsAnswer) -> None:
    for fabric in large.fabrics:
        years = fabric.forecast
        gap = abs(years.interruptions_per_year - years.interruptions_closed_form)
        assert gap < 2 * years.interruptions_half_width
        gap = abs(years.effective_time_ratio - years.effective_closed_form)
        assert gap < 0.002
        assert sum(years.lost_h.values()) == pytest.approx(
            8760 * (1 - years.effective_time_ratio), rel=1e-6
        )
        assert sum(one.interruptions_per_year for one in years.causes) == pytest.approx(
            years.interruptions_per_year
        )
    # 1,280 and 256 switches, 0.00612 failures of 4 h a year each.
    downs = [fabric.forecast.no_switch_down for fabric in large.fabrics]
    down = 0.00612 * 4 / 8760
    assert downs == pytest.approx([exp(-1280 * down), exp(-256 * down)])
    spares = {row.kind: row for row in large.fabrics[0].forecast.spares}
    assert spares["switch"].service_level >= 0.99
    assert spares["switch"].spares < 20


def test_iteration_time_is_the_search_on_what_is_left() -> None:
    answer = small(fail=["rail-3/leaf-0"], fabrics=("rail-only",))
    impact = scenario(answer.fabrics[0]).impact
    # Rail 3 of a rail-only network of 128 domains has four leaves of 32; one of them fails.
    assert impact.gpus_cut_off == 32
    assert impact.bandwidth_share == pytest.approx(7 / 8)
    thinner = search(
        "rail-only-paper",
        gpus=1024,
        hb_size=8,
        model="gpt-22b",
        batch=1024,
        fabric="rail-only",
        iteration_model="ptd-p",
        overrides={"accelerator.network_bytes_per_s": str(50e9 * 7 / 8)},
    )
    assert impact.way == "all GPUs"
    assert impact.iteration_time_s == pytest.approx(thinner.found.plans[0].iteration_time_s)
    assert impact.slowdown == pytest.approx(
        thinner.found.plans[0].iteration_time_s / (answer.fabrics[0].iteration_time_s or 1) - 1
    )


def test_a_spare_domain_takes_over_from_a_failed_gpu() -> None:
    without, spare = (
        small(fail=["gpu-5"], spare_domains=number, fabrics=("rail-only",)).fabrics[0]
        for number in (0, 1)
    )
    assert scenario(without).impact.way == "without"
    assert (scenario(without).impact.slowdown or 0) > 0.01
    assert scenario(spare).impact.way == "spare"
    assert scenario(spare).impact.slowdown == 0


def test_a_domain_without_its_switch_is_lost() -> None:
    impact = single(small(fabrics=("rail-only",)).fabrics[0], "hb-switch")
    assert (impact.domains_hit, impact.way) == (1, "without")
    # One of 18 planes of an NVL72 domain takes 1/18 of its bandwidth, and the job goes on.
    answer = faults(
        "rail-only-paper",
        gpus=1152,
        radix=64,
        model="gpt-22b",
        batch=1152,
        fabrics=("nvl72",),
        years=10,
        iteration_model="ptd-p",
    )
    plane = single(answer.fabrics[0], "hb-switch")
    assert plane.domains_hit == 1
    assert plane.way == "all GPUs"
    assert 0 < (plane.slowdown or 0) < 0.06


def test_twin_planes_lose_half_and_a_single_one_the_gpus() -> None:
    twin = "topologies/designs/twin-plane.yaml"
    answer = faults(
        "rail-only-paper",
        gpus=512,
        radix=64,
        hb_size=8,
        fabrics=(twin,),
        timing=False,
        years=10,
        fail=["plane=1"],
    )
    impact = scenario(answer.fabrics[0]).impact
    assert impact.gpus_cut_off == 0
    assert impact.bandwidth_share == pytest.approx(0.5)


def test_parts_are_those_of_the_fabric_with_several_planes_too() -> None:
    twin = "topologies/designs/twin-plane.yaml"
    for name in (twin, "rail-optimized", "dragonfly"):
        found = faults(
            "rail-only-paper", gpus=512, radix=64, hb_size=8, fabrics=(name,), timing=False, years=5
        ).fabrics[0]
        parts = {one.kind: one.parts for one in found.singles}
        assert parts["leaf"] + parts.get("spine", 0) == found.switches
        inside = {"gpu", "nic", "card", "hb-link", "leaf", "spine", "hb-switch", "domain", "group"}
        assert sum(parts[kind] for kind in parts if kind not in inside) == found.links


def test_the_price_of_an_hour_follows_the_question() -> None:
    def price(**question: object) -> float:
        fabric = small(fabrics=("fat-tree",), years=5, **question).fabrics[0]
        return fabric.forecast.network_cost_per_effective_gpu_hour or 0.0

    dear = {"prices.prices.64x400g@400.base": "69760"}
    assert price(oversubscription=3.0) < 0.9 * price()
    assert price(overrides=dear) > 1.02 * price()


def test_a_price_of_an_hour_without_all_parts_says_so() -> None:
    def years(prices: str) -> tuple[FaultsAnswer, dict[str, str]]:
        answer = faults(
            "rail-only-paper",
            gpus=512,
            radix=64,
            hb_size=8,
            fabrics=("torus-3d", "torus-2d", "rail-only"),
            timing=False,
            years=2,
            prices=prices,
        )
        text = answer.text(details=True).partition("Time that counts")[2].partition("counts:")[0]
        return answer, {line.split()[0]: line for line in text.splitlines() if line}

    answer, lines = years("rail-only-2023")
    solid, flat, rails = answer.fabrics
    # At 66.7 Gb/s nothing has a price: not 0 USD an hour. At 100 Gb/s the cards have none.
    assert solid.forecast.network_cost_per_effective_gpu_hour is None
    assert lines["torus-3d"].endswith(" -")
    assert "≥ " in lines["torus-2d"]
    assert "≥" not in lines["rail-only"]
    assert [one.network_cost_complete for one in (solid, flat, rails)] == [False, False, True]


def test_networks_that_stop_no_job_say_what_that_assumes() -> None:
    names = ("torus-3d", "rail-only")
    found = faults(
        "rail-only-paper", gpus=512, radix=64, hb_size=8, fabrics=names, timing=False, years=2
    ).fabrics
    assert not found[0].forecast.network_interruptions_per_year
    said = ["go on over the ports that are left is assumed" in " ".join(one.notes) for one in found]
    assert said == [True, False]


def test_two_planes_survive_what_a_single_one_does_not() -> None:
    twin, single_plane = (
        faults(
            "rail-only-paper",
            gpus=512,
            radix=64,
            hb_size=8,
            fabrics=(name,),
            timing=False,
            years=400,
        ).fabrics[0]
        for name in ("topologies/designs/twin-plane.yaml", "rail-optimized")
    )
    assert single(twin, "leaf").gpus_cut_off == single(twin, "host").gpus_cut_off == 0
    assert single(single_plane, "leaf").gpus_cut_off == 32
    assert twin.gpus_cut_off_per_year == 0
    # Neither links nor leaves stop the job, but a card, which takes both planes; all other causes
    # are the same.
    network = twin.forecast.network_interruptions_per_year
    assert network == pytest.approx(512 * 0.0029)
    assert network < single_plane.forecast.network_interruptions_per_year
    causes = {one.cause: one.interruptions_per_year for one in twin.forecast.causes}
    assert causes["Leaf switch"] == causes["Fibre and connectors, host link"] == 0
    assert causes["GPU"] == pytest.approx(512 * 0.0699, rel=0.05)


def test_training_traffic_is_rerouted() -> None:
    answer = small(fail=["gpu-0:1"])
    for fabric in answer.fabrics:
        found = scenario(fabric)
        assert found.cut_off == ("gpu-0",)
        assert found.loads is not None
        # The GPU's traffic goes through the seven others of its domain: nothing is lost.
        assert found.loads.detour_bytes > 0
        assert found.loads.cut_bytes == found.loads.lost_bytes == 0
        assert found.loads.busiest_s >= found.loads.intact_busiest_s > 0
    down = scenario(small(fail=["gpu-0"], fabrics=("rail-only",)).fabrics[0])
    assert down.loads is not None
    assert down.loads.lost_bytes > 0


def test_spares_that_are_kept_must_reach_the_level_and_are_waited_for() -> None:
    asked = {"fabrics": ("rail-optimized",), "years": 300}
    free = small(**asked).fabrics[0].forecast
    kept = small(**asked, spares=["gpu=3", "transceiver=7"]).fabrics[0].forecast
    # Repairs without a spare begin late: domains are missing for longer.
    assert free.lost_h["waiting"] < 0.1  # both feeds, 6 h at a time
    assert kept.slowed_h > free.slowed_h
    waiting = (
        small(**asked, spares=["gpu=3", "transceiver=7"], while_down="wait").fabrics[0].forecast
    )
    assert waiting.lost_h["waiting"] > 10
    assert waiting.effective_time_ratio < free.effective_time_ratio
    # 4,096 modules at 0.00876 a year, four weeks: 2.753 on the way; e^-2.753 is 6.38 %.
    with pytest.raises(InputError, match=r"transceiver: 0 spares cover 6\.38 %.* 99 % .*: keep 7"):
        small(fabrics=("rail-optimized",), spares=["transceiver=0"])


def test_random_failures_are_drawn_and_the_worst_is_shown() -> None:
    answer = small(fail=["links=20"], draws=5, fabrics=("rail-optimized",))
    many = answer.fabrics[0]
    one = small(fail=["links=20"], fabrics=("rail-optimized",)).fabrics[0]
    assert scenario(many).draws == 5
    assert (scenario(many).impact.iteration_time_s or 0) >= (
        scenario(one).impact.iteration_time_s or 0
    )
    assert "Failed together: links=20, the worst of 5 draws" in answer.text(details=True)
    again = small(fail=["links=20"], draws=5, fabrics=("rail-optimized",)).fabrics[0]
    assert again.scenario == many.scenario
    other = small(fail=["links=20"], draws=5, seed=7, fabrics=("rail-optimized",)).fabrics[0]
    assert other.forecast != many.forecast


def test_a_fabric_without_such_parts_says_so() -> None:
    answer = small(fail=["leaf=1"], fabrics=("rail-only", "torus-2d"))
    assert isinstance(answer.fabrics[1].scenario, str)
    assert "unknown kind of part 'leaf'" in answer.fabrics[1].scenario


def test_a_network_that_lost_all_its_gpus_has_no_throughput_left() -> None:
    answer = faults(
        "rail-only-paper",
        gpus=8,
        radix=64,
        hb_size=8,
        fabrics=("fat-tree",),
        years=1,
        timing=False,
        fail="gpu=100%",
    )
    assert single(answer.fabrics[0], "domain").pod_share is None
    assert scenario(answer.fabrics[0]).impact.pod_share is None
    assert '"pod_share": null' in answer.json()


def test_one_switch_group_has_no_traffic_between_pods_to_lose() -> None:
    answer = small(gpus=512, radix=128, fabrics=("frontier",), years=1, timing=False)
    assert {one.impact.pod_share for one in answer.fabrics[0].singles} == {None}


def test_forms() -> None:
    answer = small(fail=["leaf=1"])
    data = json.loads(json.dumps(answer.to_dict(), allow_nan=False))
    assert data["fabrics"][1]["fabric"] == "rail-only"
    assert data["fabrics"][1]["scenario"]["impact"]["gpus_cut_off"] == 32
    frame = answer.to_frame().reset_index()
    assert (frame["kind"][0], frame["part"][0]) == ("scenario", "leaf=1")
    assert len(frame) == sum(1 + len(fabric.singles) for fabric in answer.fabrics)
    assert "rail-only" in answer._repr_html_()
    tables = {row["table"] for row in csv.DictReader(io.StringIO(answer.csv()))}
    assert tables == {
        *("failures", "years", "scenario", "loads", "recoveries", "causes", "record", "spares"),
        *("capacity", "recovery"),
    }
    page = answer.html()
    assert 'id="chart-survival"' in page
    assert "Interruptions of a year by cause" in page


def test_every_number_of_the_json_has_a_name_and_a_meaning() -> None:
    answer = small(fail=["leaf=1", "links=10"], draws=2, spare_domains=1, timing=True)
    named, missing = nomenclature(), set()

    def look(value: object, *path: str) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                look(inner, *path, key)
        elif isinstance(value, list):
            for inner in value:
                look(inner, *path)
        elif not {path[-1], ".".join(path[-2:])} & named.keys():
            missing.add(".".join(path))

    for fabric in json.loads(answer.json())["fabrics"]:
        look(fabric)
    assert not missing
    assert "record" in named


def test_defaults_are_those_of_compare_and_the_heading_names_them() -> None:
    answer = faults("rail-only-paper", **(SMALL | {"fabrics": PAIR, "timing": True}))
    same = compare(
        "rail-only-paper", gpus=1024, radix=64, hb_size=8, model="gpt-22b", batch=1024, fabrics=PAIR
    )
    assert answer.inputs["prices"] == same.inputs["prices"] == "rail-only-2023"
    assert answer.inputs["iteration_model"] == same.inputs["iteration_model"] == "4d"
    for fabric, row in zip(answer.fabrics, same.rows, strict=True):
        assert row.best is not None
        assert fabric.iteration_time_s == row.best.iteration_time_s
    text = answer.text(100, details=True)
    assert "rates 2026 (base, 2 % assumed), prices rail-only-2023, seed 0; training" in text
    assert "iteration model 4d" in text


def test_training_options_are_those_of_search() -> None:
    question = {"fabrics": ("rail-only",), "fail": ["gpu-0:1"], "iteration_model": "4d"}
    plain = small(**question).fabrics[0]
    for options in ({"recompute": "full"}, {"experts": 8, "top_k": 2}, {"zero_stage": 3}):
        asked = {key: SMALL[key] for key in ("gpus", "hb_size", "model", "batch")}
        found = small(**question, **options).fabrics[0]
        same = search(
            "rail-only-paper",
            fabric="rail-only",
            radix=64,
            iteration_model="4d",
            **asked,
            **options,
        )
        assert found.iteration_time_s == same.found.plans[0].iteration_time_s
        assert found.iteration_time_s != plain.iteration_time_s
    # Weights that are gathered for each microbatch pass the busiest link as well.
    heavy, light = scenario(found).loads, scenario(plain).loads
    assert heavy is not None
    assert light is not None
    assert heavy.intact_busiest_s > 1.5 * light.intact_busiest_s
    assert heavy.detour_bytes > 1.5 * light.detour_bytes


def test_plans_that_must_divide_say_that_more_failures_may_seem_better() -> None:
    # Without 5 of 64 domains a torus has 59, a prime, which divides worse than 56.
    asked = {"gpus": 512, "fabrics": ("torus-2d",), "years": 1}
    five, eight = (
        small(**asked, space="model", fail=[f"domain={count}"]).fabrics[0] for count in (5, 8)
    )
    times = [scenario(one).impact.iteration_time_s or 0.0 for one in (five, eight)]
    assert 0 < times[1] < times[0]
    assert any(note.startswith("Plans must divide") for note in five.notes)
    free = small(**asked, fail=["domain=5"]).fabrics[0]
    assert not any(note.startswith("Plans must divide") for note in free.notes)


def test_a_batch_that_does_not_divide_is_no_cost_of_a_failure() -> None:
    """Seven domains of 8 train a batch of 14, which six of them do not divide."""
    asked = {"gpus": 56, "radix": 16, "batch": 14, "model": "llama-3-8b", "years": 1}
    exact, free = (
        netplan.faults("hgx-b200", **asked, fabrics=("rail-optimized",), space=space)
        for space in ("model", "free")
    )
    rows = exact.fabrics[0]
    lost = next(single.impact for single in rows.singles if single.kind == "domain")
    assert lost.slowdown is not None
    assert rows.batch_slowdown is not None
    assert rows.batch_slowdown == pytest.approx(lost.slowdown - 1 / 6, rel=1e-9)
    assert rows.batch_slowdown > 0.1
    assert f"{100 * rows.batch_slowdown:.3g} % of the time are no cost" in rows.notes[0]
    text = " ".join(str(exact).split())
    assert f"{100 * rows.batch_slowdown:.2g} % since plans must divide" in text
    assert free.fabrics[0].batch_slowdown is None
    assert "must divide" not in str(free)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"fail": ["leafs-3"]}, "leafs-3"),
        ({"fail": ["rail-99/leaf-0"]}, "rail-99/leaf-0"),
        ({"fail": ["links=9999999"]}, "give 0 to"),
        ({"fail": ["links=-1"]}, "links=-1"),
        ({"fail": ["gpu=200%"]}, "0% to 100%"),
        ({"fail": ["rack=1"]}, "nobody says where racks stand"),
        ({"draws": 0}, "--draws 0"),
        ({"spare_domains": -1}, "--spare-domains -1"),
        ({"years": 0}, "--years 0 is out of range: give a number from 1 to 1,000,000"),
        ({"service_level": 1.0}, "--service-level 100% is out of range: give more than 0%"),
        ({"service_level": 0.0}, "--service-level 0% is out of range"),
        ({"fail": ["leaf=1"], "fabrics": ("torus-3d",)}, "--fail on torus-3d: unknown kind"),
        ({"checkpoint_interval_minutes": 0.0}, "checkpoint interval of 0"),
        ({"spares": ["gpu"]}, "write a part and a number"),
        ({"spares": ["fan=2"]}, "unknown kind of spares 'fan'"),
        ({"spares": ["switch=5000"]}, "give 0 to"),
        ({"years": 99_999_999_999}, "--years 99,999,999,999"),
        ({"seed": -1}, "--seed -1"),
        ({"switches_per_rack": 4}, "without --gpus-per-rack"),
        ({"failures": "2027"}, "unknown failures '2027'"),
        ({"fabrics": ("rail-onyl",)}, "did you mean rail-only"),
    ],
)
def test_wrong_input(question: dict[str, object], message: str) -> None:
    with pytest.raises(NetplanError, match=message.replace("?", r"\?")) as caught:
        small(**question)
    assert "\n" not in str(caught.value)


def test_what_no_fabric_has_is_refused_before_any_is_worked_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("netplan.questions.faults.fabric_faults", never)
    with pytest.raises(NetplanError, match="--fail on rail-optimized: unknown kind of part 'laef'"):
        small(fabrics=(), fail=["laef=1"])
    # A fabric that has it is reached, however many before it have not.
    with pytest.raises(AssertionError):
        small(fabrics=("torus-3d", "dragonfly"), fail=["leaf=1"])


def test_the_report_has_a_section_on_failures() -> None:
    answer = procurement(
        "rail-only-paper",
        gpus=256,
        radix=32,
        hb_size=8,
        model="gpt-22b",
        batch=256,
        fabrics=("rail-only", "torus-2d"),
        fail=["links=3"],
        prices="2026",
    )
    page = answer.html()
    assert '<section id="faults">' in page
    assert "Failed together: links=3" in page
    for chart in ("survival", "failures"):
        assert f'id="chart-{chart}"' in page
    assert answer.to_dict()["faults"]["inputs"]["fail"] == ["links=3"]
    tables = {line.partition(",")[0] for line in answer.csv().splitlines()}
    assert {"years", "faults: years"} <= tables  # of one name, they would be one table
    plain = procurement(
        "rail-only-paper",
        gpus=256,
        radix=32,
        hb_size=8,
        timing=False,
        fabrics=("rail-only",),
        prices="2026",
    )
    assert '<section id="faults">' not in plain.html()
