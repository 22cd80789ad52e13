"""Every question about several sites has the plan, time, bytes and bill of ``netplan sites``."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import netplan
from netplan.errors import NetplanError
from netplan.reports.answer import Answer

WHERE = {"sites": "2", "km": 1000.0, "ratio": 16.0}
RUN = {"gpus": 128, "model": "llama-3-8b"}
FABRIC = "rail-optimized"


def ask(question: Callable[..., Answer], **given: object) -> dict[str, Any]:
    return question("hgx-h100", **(RUN | WHERE | given)).to_dict()


@pytest.fixture(scope="module")
def sites() -> dict[str, Any]:
    return ask(netplan.sites)


@pytest.fixture(scope="module")
def bill() -> dict[str, Any]:
    given = {"gpus": RUN["gpus"], **WHERE, "fabrics": (FABRIC,)}
    fabric = netplan.cost("hgx-h100", **given).to_dict()["fabrics"][0]
    assert isinstance(fabric, dict)
    return fabric


def fastest(answer: dict[str, Any]) -> dict[str, Any]:
    return min(answer["grid"], key=lambda row: row["iteration_time_s"])


def test_all_questions_have_one_time_one_plan_and_the_same_bytes(sites: dict[str, Any]) -> None:
    row = fastest(sites)
    (compared,) = ask(netplan.compare, fabrics=(FABRIC,))["fabrics"]
    traffic, loads = ask(netplan.traffic), ask(netplan.loads)
    searched = ask(netplan.search)["over_sites"]
    for answer in (compared, traffic, loads, searched):
        assert answer["iteration_time_s"] == row["iteration_time_s"]
        over = answer["over_sites"]
        assert (over["across"], over["loss"]) == (row["across"], row["loss"])
        assert over["crossings"] == sites["crossings"]
        assert answer["plan"]["data"] == traffic["plan"]["data"]
    parts = compared["breakdown_s"]
    assert parts["long_haul"] == row["iteration_time_s"] - row["one_site_time_s"]
    assert sum(parts.values()) == pytest.approx(row["iteration_time_s"])
    alone = netplan.search("hgx-h100", **RUN).best
    assert searched["iteration_time_s"] >= alone.iteration_time_s
    simulated = ask(netplan.simulate)
    assert simulated["analytic_time_s"] == row["iteration_time_s"]
    assert simulated["over_sites"]["crossings"] == sites["crossings"]


def test_bytes_over_a_border_by_hand(sites: dict[str, Any]) -> None:
    """A site of two sends all gradients, 2 (S - 1)/S of them, and gets as many."""
    (data,) = (plan for plan in sites["plans"] if plan["across"] == "data")
    parameters = 8.03e9
    for row in sites["crossings"]:
        assert row["kind"] == "gradients"
        assert row["total_bytes"] == pytest.approx(2 * parameters, rel=0.15)  # in bf16
        assert row["bytes_per_s"] == 64 * 50e9 / 16
        assert row["busy_s"] == row["total_bytes"] / row["bytes_per_s"]
    assert [row["sender"] for row in sites["crossings"]] == ["site-1", "site-2"]
    assert data["dealt"] == [data["plan"]["data"] // 2] * 2


def test_a_pipeline_sends_activations_there_and_back() -> None:
    fixed = {"pipeline": 4, "interleave": 1, "tensor": 2}
    answer = ask(netplan.traffic, across="pipeline", fixed=fixed)
    plan, rows = answer["plan"], answer["over_sites"]["crossings"]
    # Hidden size 4,096 x 8,192 tokens x 2 B a sequence: of every sequence of the batch, once.
    batch = plan["data"] * plan["microbatch"] * plan["microbatches"]
    hidden = 4096 * 8192 * 2 * batch
    assert [row["kind"] for row in rows] == ["activations"] * 2
    assert [row["total_bytes"] for row in rows] == pytest.approx([hidden, hidden])


def test_a_bill_of_sites_is_a_network_in_each_and_the_long_haul(
    sites: dict[str, Any], bill: dict[str, Any]
) -> None:
    half, whole = (
        netplan.cost("hgx-h100", gpus=gpus, fabrics=(FABRIC,)).bills[0] for gpus in (64, 128)
    )
    known = bill["in_sites"]
    assert known["sites_network"] == pytest.approx(2 * half.networks.base)
    assert known["one_site_network"] == whole.networks.base
    # 64 x 50 GB/s / 16 are 1.6 Tb/s: two wavelengths, twelve huts on 1,000 km.
    lit = known["long_haul"]
    names = ("wavelengths", "modules", "fibre_pairs", "huts", "amplifiers", "ports")
    assert [lit[name] for name in names] == [2, 4, 1, 12, 24, 4]
    assert bill["cost"]["base"] == known["sites_network"] + lit["cost"]["base"]
    assert bill["unpriced"] == ["long-haul network: Line amplifier", LIT]
    assert bill["cost_complete"]  # every fabric lacks them
    haul = sites["long_haul"]
    assert haul["cost_usd"] == lit["cost"]["base"]
    assert haul["sites_network_usd"] == known["sites_network"]
    assert haul["one_site_network_usd"] == known["one_site_network"]
    (row,) = ask(netplan.compare, fabrics=(FABRIC,), timing=False)["fabrics"]
    assert row["cost"]["base"] == bill["cost"]["base"]
    assert row["in_sites"] == known
    assert row["switches"] == 2 * half.fabric.switches


LIT = "long-haul network: Fibre pair of 1,000 km"


def test_prices_of_yours_close_the_sum() -> None:
    overrides = {"sites.fibre_km_month_usd": "3"}
    asked = {"gpus": 128, **WHERE, "fabrics": (FABRIC,), "overrides": overrides}
    answer = netplan.cost("hgx-h100", years=5, **asked)
    lines = {item.line.part: item for item in answer.bills[0].quote.items}
    # One fibre pair of 1,000 km at 3 USD a km and month, 60 months.
    assert lines["lit_fibre"].total.base == 1000 * 3 * 60
    assert "≥" in answer.text()
    assert answer.to_dict()["fabrics"][0]["unpriced"] == ["long-haul network: Line amplifier"]
    overrides |= {"sites.amplifier": "{base: 9000, date: '2026', source: me, confidence: low}"}
    whole = netplan.cost("hgx-h100", **asked).bills[0]
    assert not whole.quote.unpriced
    (amplifiers,) = (item for item in whole.quote.items if item.line.part == "amplifier")
    assert amplifiers.total.base == 24 * 9000


FILE = """sites: [{name: a, gpus: 64}, {name: b, gpus: 32}, {name: c, gpus: 32}]
pairs:
  - {between: [a, b], km: 40, ratio: 4, usd_month: 9000}
  - {between: [b, c], km: 400, ratio: 16}
  - {between: [a, c], km: 900, ratio: 16}
"""


def test_sites_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "three.yaml"
    path.write_text(FILE, "utf-8")
    where = {"sites": str(path), "km": None, "ratio": None}
    told = ask(netplan.sites, **where)
    traffic = ask(netplan.traffic, **where)
    assert traffic["iteration_time_s"] == fastest(told)["iteration_time_s"]
    # Three sites that all talk: 2 x 2/3 of the gradients from each, half of them to either other.
    sent = {row["total_bytes"] for row in traffic["over_sites"]["crossings"]}
    assert len(sent) == 1
    assert len(traffic["over_sites"]["crossings"]) == 6
    bill = netplan.cost("hgx-h100", gpus=128, sites=str(path), fabrics=(FABRIC,)).bills[0]
    parts = (
        netplan.cost("hgx-h100", gpus=gpus, fabrics=(FABRIC,)).bills[0].networks.base
        for gpus in (64, 32, 32)
    )
    assert bill.networks.base == pytest.approx(sum(parts))
    fibre = next(item for item in bill.quote.items if item.line.part == "lit_fibre" and item.price)
    assert fibre.total.base == pytest.approx(9000 * 12 * 6)
    with pytest.raises(NetplanError, match="--km beside --sites"):
        netplan.cost("hgx-h100", gpus=128, sites=str(path), km=4.0)
    with pytest.raises(NetplanError, match="give --gpus 128"):
        netplan.cost("hgx-h100", gpus=256, sites=str(path))


def test_links_of_a_site_beside_the_fibre() -> None:
    loads = netplan.loads("hgx-h100", **RUN, **WHERE)
    known, run = loads.to_dict(), loads.run
    assert known["site"] == "site-1"
    assert loads.graph.gpus == 64
    fibre = known["groups"][-1]
    (crossing, _) = known["over_sites"]["crossings"]
    assert fibre["group"] == "site-1:site-2"
    assert fibre["total_bytes"] == 2 * crossing["total_bytes"]
    assert fibre["busiest_s"] == crossing["busy_s"]
    busiest = max(row["busiest_s"] for row in known["groups"])
    assert fibre["utilisation"] == pytest.approx(crossing["busy_s"] / busiest)
    # What a site's replicas send among themselves is half of what all send, but for gradients.
    assert run is not None
    traffic = netplan.traffic("hgx-h100", **RUN, **WHERE)
    kinds = {share.kind: share.total_bytes for share in traffic.shares}
    inside = loads.total_bytes
    assert inside < traffic.matrix.total_bytes
    replicated = sum(amount for kind, amount in kinds.items() if kind != "data")
    assert replicated / 2 <= inside <= replicated / 2 + kinds["data"] / 2 * 1.0001


def test_a_cut_of_fibre_is_a_slower_run() -> None:
    where = {"ratio": 0.3}  # 85 Tb/s: 107 wavelengths, two fibre pairs
    short = {"years": 1, "fabrics": (FABRIC,), **where}
    cut = ("site-1:site-2=1",)
    told = fastest(ask(netplan.sites, fail=cut, **where))
    faults = netplan.faults("hgx-h100", **(RUN | WHERE | short), fail=cut)
    row = faults.to_dict()["fabrics"][0]
    assert row["iteration_time_s"] == fastest(ask(netplan.sites, **where))["iteration_time_s"]
    impact = row["scenario"]["impact"]
    assert impact["iteration_time_s"] == told["iteration_time_s"]
    assert impact["slowdown"] == pytest.approx(
        told["iteration_time_s"] / row["iteration_time_s"] - 1
    )
    assert impact["slowdown"] > 0
    assert impact["network_share"] == 0.5  # of two fibre pairs
    singles = {single["kind"]: single for single in row["singles"]}
    assert singles["fibre"]["parts"] == 2
    assert singles["fibre"]["impact"] == impact
    assert singles["route"]["impact"]["way"] == "stopped"
    card = singles["nic"]["impact"]
    assert card["iteration_time_s"] == pytest.approx(
        (1 + card["slowdown"]) * row["iteration_time_s"]
    )
    assert "all fibre between two sites: the job stops" in faults.text()
    with pytest.raises(NetplanError, match="one after the other"):
        netplan.faults("hgx-h100", **(RUN | WHERE | short), fail=(*cut, "leaf=1"))


@pytest.mark.parametrize(
    ("question", "given", "said"),
    [
        ("compare", {"km": None, "timing": False}, "give --km and --ratio, or --sites FILE"),
        ("faults", {"ratio": None}, "give --km and --ratio"),
        ("traffic", {"sites": "1"}, "--sites 1 is one site"),
        ("loads", {"sites": "40"}, "--sites 40: give 2 to 16"),
        ("compare", {"power_budget": "1MW"}, "a budget is that of one hall"),
        ("simulate", {"fail": ("site-1:site-2",)}, "ask netplan faults or netplan sites with"),
        ("loads", {"fail": ("site-1:site-2",)}, "ask netplan faults or netplan sites with"),
        ("simulate", {"jobs": "jobs.yaml"}, "jobs that share links are in one site"),
    ],
)
def test_what_sites_cannot_be_asked_has_a_line(
    question: str, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(NetplanError) as caught:
        ask(getattr(netplan, question), **given)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("question", ["cost", "compare", "traffic", "loads", "simulate", "faults"])
def test_servers_in_several_sites_are_refused(question: str) -> None:
    with pytest.raises(NetplanError, match="is of training: servers in several sites"):
        getattr(netplan, question)("serving-70b-h200", **WHERE)
