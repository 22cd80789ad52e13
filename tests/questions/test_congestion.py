"""``netplan congestion``: closed forms, beside loads, seeds, costs, files, refusals."""

import csv
import json
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netplan
from netplan import Scenario
from netplan.answers.congestion_answer import CongestionAnswer, marked
from netplan.errors import NetplanError
from netplan.questions.congestion import congestion
from netplan.questions.simulating.contention import bad_name
from netplan.records import replace
from netplan.reports.schema import plain_data
from netplan.simulation.congestion import FabricLinks, pattern_flows, percentile, share_pattern
from netplan.topologies.graph import FabricGraph
from netplan.traffic.flow_paths import PathRouter
from netplan.traffic.matrix import KINDS, TrafficMatrix, UniformGroups

SMALL = {"gpus": 128, "radix": 16, "hb_size": 4, "fabric": "fat-tree", "traffic": "permutation"}


def ask(**given: object) -> CongestionAnswer:
    return congestion("hgx-h100", **(SMALL | given))


def graph_of(gpus: int = 128, fabric: str = "fat-tree", **more: object) -> FabricGraph:
    values = {"gpus": gpus, "radix": 16, "hb_size": 4} | more
    return Scenario.load("hgx-h100").replace(**values).fabric(fabric).graph()


@pytest.mark.parametrize("ratio", [1, 3, 7])
def test_a_sprayed_permutation_is_slower_by_the_ratio(ratio: int) -> None:
    """Leaves of 16 ports at R:1; whatever crosses leaves has 1/R of the rate of a port."""
    answer = ask(oversubscription=ratio, routing="spray", gpus=112)
    design = answer.designs[0]
    # Latency is part of both times; some leaf may send less than all of its GPUs do.
    assert 1.0 <= design.slowdown_p50 <= ratio + 1e-9
    if ratio == 1:
        assert design.slowdown_p50 == pytest.approx(1.0)
        assert design.time_low_s == design.uncontended_time_s


def test_an_incast_is_its_receivers_and_nobody_elses() -> None:
    answer = ask(traffic="incast:7", message_bytes=100e6)
    hashed, spray = answer.designs
    assert hashed.slowdown_p50 == spray.slowdown_p50 == pytest.approx(1.0)
    graph = graph_of()
    seconds = 7 * 100e6 / graph.bytes_per_s[graph.links_with("host")[0]]
    assert spray.time_low_s == pytest.approx(seconds, rel=0.02)
    assert "gpu-0" in spray.hot_links[0].link
    assert spray.hot_links[0].flows == 7


@pytest.mark.parametrize("fabric", ["fat-tree", "rail-only", "dragonfly"])
def test_an_all_to_all_of_one_class_takes_the_time_of_the_loads(fabric: str) -> None:
    graph = graph_of(fabric=fabric)
    router = PathRouter(graph)
    members = np.arange(graph.gpus, dtype=np.int32)[None]
    none = np.empty(0, np.int32)
    groups = (UniformGroups(members, 5e6, KINDS.index("other")),)
    matrix = TrafficMatrix(graph.gpus, none, none, np.empty(0), np.empty(0, np.int8), groups)
    links = FabricLinks(router, np.tile(graph.bytes_per_s, 2), "split")
    pattern = pattern_flows("all-to-all", graph.gpus, graph.hb_size)
    shared = share_pattern(links, pattern, 5e6)
    assert shared.time_s == pytest.approx(router.loads(matrix).busiest_s, rel=1e-6)
    assert shared.flows == 1


def test_an_all_to_all_pair_by_pair_takes_as_long_where_it_is_even() -> None:
    graph = graph_of(32)
    links = FabricLinks(PathRouter(graph, "ecmp"), np.tile(graph.bytes_per_s, 2), "split")
    pattern = pattern_flows("all-to-all", 32, 4)
    coupled, apart = (
        share_pattern(links, pattern, 1e6, collectives=collectives)
        for collectives in ("coupled", "steps")
    )
    assert apart.time_s == pytest.approx(coupled.time_s, rel=1e-9)
    assert (apart.flows, coupled.flows) == (32 * 31, 1)
    assert len(pattern.listed(graph).source) == 32 * 31


def test_a_ring_that_leaves_a_leaf_once_has_its_full_rate_by_any_hash() -> None:
    """One flow an uplink at the most; at 16:1 it is so, too (a row of verify, MonkeyTree)."""
    design = congestion(
        "hgx-h100", gpus=1024, fabric="rail-optimized", routing="hashed", draws=5, traffic="ring"
    ).designs[0]
    assert design.seeds == 5
    assert design.slowdown_max == pytest.approx(1.0)
    assert max(design.times_s) == pytest.approx(design.uncontended_time_s, rel=1e-9)


def test_more_connections_collide_less_and_seeds_differ() -> None:
    slowdowns = [ask(routing="hashed", connections=n).designs[0].slowdown_p50 for n in (1, 4, 16)]
    assert slowdowns == sorted(slowdowns, reverse=True)
    assert slowdowns[0] > 1.5 * slowdowns[2]
    design = ask(routing="hashed", seed=3, draws=4).designs[0]
    assert len(set(design.times_s)) > 1
    assert design.bad_is == "max of 4 seeds"
    assert design.slowdown_bad == design.slowdown_max


def test_designs_within_a_hair_of_the_least_cost_pay_alike() -> None:
    design = ask(routing="spray", gpu_hour=2.0).designs[0]
    assert design.total_usd is not None
    dearer = [replace(design, total_usd=design.total_usd * more) for more in (1.0, 1.005, 1.02)]
    assert [priced.pays for priced in marked(dearer)] == [True, True, False]


def test_costs_of_ratios_stand_beside_their_slowdowns() -> None:
    answer = ask(oversubscription=(1, 3), routing=("spray", "hashed"), gpu_hour=2.0, draws=3)
    assert [(design.oversubscription, design.routing) for design in answer.designs] == [
        (1, "ecmp"), (1, "hashed"), (3, "ecmp"), (3, "hashed"),
    ]  # fmt: skip
    least = min(answer.designs, key=lambda design: design.usd_times_slowdown or np.inf)
    assert [design.pays for design in answer.designs].count(True) == 1
    assert least.pays
    assert answer.chosen == least
    first, third = answer.designs[0], answer.designs[2]
    assert first.network_usd is not None
    assert third.network_usd is not None
    assert first.network_usd > third.network_usd
    assert first.total_usd is not None
    # GPU hours of all years of use: 128 GPUs at 2 USD.
    years = (first.total_usd - first.network_usd) / (128 * 2.0 * 8760)
    assert years == pytest.approx(round(years))


def test_json_has_what_is_promised_and_is_of_python_alone() -> None:
    answer = ask(draws=2).to_dict()
    assert json.loads(json.dumps(answer)) == answer
    promised = "sharing routing seeds connections uncontended_time_s times_s slowdown_p50"
    promised += " slowdown_bad bad_is time_low_s time_high_s error_basis hot_links solves flows"
    promised += " classes oversubscription network_usd total_usd usd_times_slowdown pays"
    for design in answer["designs"]:
        assert set(promised.split()) <= design.keys()
        assert len(design["times_s"]) == design["seeds"]
        assert design["time_high_s"] == pytest.approx(1.14 * design["time_low_s"])
    assert answer["seconds"] > 0
    again = ask(draws=2).to_dict()
    assert [design["times_s"] for design in again["designs"]] == [
        design["times_s"] for design in answer["designs"]
    ]


def test_the_screen_begins_with_the_verdict_and_is_a_screen() -> None:
    text = str(ask(transport="fair-queue", draws=2))
    assert "slowdown 1.00: " in text
    assert "error bar 0 to +1 %" in " ".join(text.split())
    assert len(text.splitlines()) <= 25


def messages(folder: Path, text: str) -> Path:
    path = folder / "messages.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_classes_are_told_and_compared_where_flows_are_split(tmp_path: Path) -> None:
    """A ring in each of four rails is one flow each, all alike; step by step some leave leaves.

    Of twelve messages, six into a GPU of each of two leaves, those of one size are alike.
    """
    ring = {"traffic": "ring", "check_classes": True}
    coupled, steps, hashed = (
        ask(**ring, routing=routing, collectives=how, draws=1).designs[0]
        for routing, how in (("spray", "coupled"), ("spray", "steps"), ("hashed", "steps"))
    )
    assert (coupled.flows, coupled.classes) == (4, 1)
    assert (steps.flows, hashed.flows, hashed.classes) == (128, 128, 128)
    assert 1 <= steps.classes <= 3
    assert steps.times_s == coupled.times_s
    lines = [
        f"{8 * part + 16 + target},{target},{size}"
        for target in (0, 4)
        for part, size in enumerate((1e6, 1e6, 1e6, 2e6, 2e6, 2e6))
    ]
    path = messages(tmp_path, "\n".join(["source,target,bytes", *lines]))
    design = ask(traffic=str(path), routing="spray", check_classes=True).designs[0]
    assert (design.flows, design.classes) == (12, 2)
    port = graph_of().bytes_per_s[graph_of().links_with("host")[0]]
    assert design.time_low_s == pytest.approx(9e6 / port, rel=0.05)


def test_messages_of_a_file_wait_and_share(tmp_path: Path) -> None:
    """Two of 100 MB into GPU 8, then one back after the first: 2 x 100 MB and 100 MB at 50 GB/s."""
    text = "source,target,bytes,after\n0,8,100e6,\n4,8,100e6,\n8,0,100e6,0\n"
    path = messages(tmp_path, text)
    design = ask(traffic=str(path), collectives="steps", routing="spray").designs[0]
    graph = graph_of()
    port = graph.bytes_per_s[graph.links_with("host")[0]]
    assert design.time_low_s == pytest.approx(300e6 / port, rel=1e-2)
    assert design.time_low_s > 300e6 / port
    split = ask(traffic=str(path), collectives="steps", routing="hashed", connections=4, draws=2)
    assert split.designs[0].time_low_s >= design.time_low_s * (1 - 1e-9)
    matrix = messages(tmp_path, "source,destination,bytes,kind\n0,8,100e6,data\n")
    assert ask(traffic=str(matrix), routing="spray").designs[0].slowdown_p50 == pytest.approx(1.0)


def test_messages_in_a_chain_take_their_time_one_after_the_other(tmp_path: Path) -> None:
    """Three messages, each after the last: no collective, unless it is said to be one."""
    rows = "source,target,bytes,after\n0,8,50e9,\n8,16,50e9,0\n16,24,50e9,1\n"
    chain = {"traffic": str(messages(tmp_path, rows)), "routing": "spray"}
    rate = graph_of().bytes_per_s[graph_of().links_with("host")[0]]
    one_by_one = ask(**chain).designs[0].time_low_s
    assert one_by_one == pytest.approx(3 * 50e9 / rate, rel=1e-3)
    coupled = ask(**chain, collectives="coupled").designs[0].time_low_s
    assert coupled == pytest.approx(50e9 / rate, rel=1e-3)


def test_slow_links_slow_what_takes_them() -> None:
    fast, slow = (
        ask(routing="spray", slow=text).designs[0].slowdown_p50
        for text in ((), ("leaf-spine=0.5",))
    )
    assert slow == pytest.approx(2 * fast, rel=1e-3)


CLOS = {"gpus": 32, "radix": 8, "hb_size": 2, "fabric": "fat-tree", "routing": "spray"}


def test_one_uplink_less_on_a_small_clos_by_hand(tmp_path: Path) -> None:
    """Eight leaves of four GPUs and four uplinks, of which leaf 0 has three left.

    What goes from there to leaf 1, or back, has three links for four GPUs and takes 4/3 of the
    time; from leaf 2 to leaf 3 there are all. Without contention each message has its port.
    """
    slowdowns = {}
    for first, last in ((0, 1), (1, 0), (2, 3)):
        rows = "\n".join(f"{4 * first + port},{4 * last + port},100e6" for port in range(4))
        path = messages(tmp_path, f"source,target,bytes\n{rows}\n")
        for fail in ((), ("leaf-0--spine-0",)):
            (design,) = ask(**CLOS, traffic=str(path), fail=fail, collectives="steps").designs
            slowdowns[first, len(fail)] = design.slowdown_p50
            assert (design.routing, design.flows) == ("ecmp", 4)
    whole = {(first, 0): 1.0 for first in range(3)}
    left = {(0, 1): 4 / 3, (1, 1): 4 / 3, (2, 1): 1.0}
    assert slowdowns == pytest.approx(whole | left, rel=2e-3)  # latency is in both times
    path = messages(tmp_path, "source,target,bytes\n0,2,5\n")
    with pytest.raises(NetplanError, match=r"^gpu-0 cannot reach gpu-2: "):
        ask(**CLOS, traffic=str(path), fail=("gpu-0",))


def test_failed_spines_leave_their_share_and_draws_mean_nothing() -> None:
    """Of eight spines one is out: a permutation that fills all uplinks takes 8/7 of its time."""
    answer = ask(fail=("spine=1",), seed=5, draws=3)
    (design,) = answer.designs
    assert (design.routing, design.seeds) == ("auto", 1)
    assert design.slowdown_p50 == pytest.approx(8 / 7, rel=1e-3)
    notes = answer.to_dict()["notes"]
    assert any("Failed: spine=1." in note for note in notes)
    assert any("Seeds change nothing" in note for note in notes)
    drawn = {
        ask(fail=("leaf-spine=20",), seed=seed, traffic="all-to-all").designs[0].slowdown_p50
        for seed in (1, 2)
    }
    assert len(drawn) == 2
    left, whole = (ask(fail=fail, fabric="dragonfly", gpus=64) for fail in (("links=5",), ()))
    assert left.designs[0].time_low_s > whole.designs[0].time_low_s


def test_iterations_go_round_failures_as_in_simulate() -> None:
    given = ITERATION | {"fail": ("spine=4",), "oversubscription": 1}
    (design,) = congestion("hgx-h100", **given).designs
    simulated = netplan.simulate("hgx-h100", **given, sharing="fluid").to_dict()
    assert simulated["times_s"] == list(design.times_s)
    assert simulated["uncontended_time_s"] == design.uncontended_time_s
    assert (simulated["routing"], design.routing) == ("auto", "auto")
    assert design.slowdown_p50 > 1.0


def test_a_graph_of_a_file_has_no_cost(tmp_path: Path) -> None:
    path = tmp_path / "fabric.graphml"
    made = netplan.export("hgx-h100", gpus=32, radix=8, hb_size=4, fabric="fat-tree", to="graphml")
    path.write_text("".join(made.lines()), encoding="utf-8")
    answer = congestion(graph=str(path), hb_size=4, traffic="ring", draws=2)
    assert answer.designs[0].network_usd is None
    assert answer.designs[0].pays is None
    assert any("no bill" in note for note in answer.to_dict()["notes"])
    assert {design.routing for design in answer.designs} == {"hashed", "ecmp"}


def test_traffic_inside_domains_is_said_to_be() -> None:
    answer = congestion("hgx-h100", gpus=8, fabric="rail-only", traffic="all-to-all")
    assert answer.designs[0].slowdown_p50 == 1.0
    assert "No message leaves its HB domain." in answer.to_dict()["notes"]
    lone = congestion("hgx-h100", gpus=8, fabric="rail-only", traffic="ring")
    assert lone.designs[0].slowdown_p50 == 1.0
    assert "No message is sent." in lone.to_dict()["notes"]


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"traffic": "star"}, "no pattern is called 'star'"),
        ({"traffic": "incast:0"}, "no pattern is called"),
        ({"traffic": "incast:99"}, "give incast:31 or less"),
        ({"draws": 0}, "draws"),
        ({"connections": 0}, "connections"),
        ({"slow": ("leaf-spine=0",)}, "--slow 'leaf-spine=0': .* use --fail"),
        ({"slow": ("leaf-spine=1.5",)}, "above 0 and at most 1"),
        ({"routing": "static", "fabric": "torus-3d"}, "static routing is of Clos"),
        ({"routing": "minimal"}, "is no dragonfly"),
        ({"traffic": "nowhere.csv"}, "nowhere.csv"),
        ({"traffic": "all-to-all", "gpus": 8192, "routing": "hashed"}, "about 13 GB: take spray"),
        ({"traffic": f"incast:{'9' * 5000}"}, "needs as many HB domains"),
    ],
)
def test_what_is_no_question_is_refused(given: dict[str, object], word: str) -> None:
    with pytest.raises(NetplanError, match=word):
        ask(**given)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "a column 'source'"),
        ("source,target\n0,1\n", "a column 'bytes'"),
        ("source,target,bytes\n", "no message in it"),
        ("source,target,bytes\n0,1,5\n0,128,5\n", "messages.csv:3: target is 128: give 0 to 127"),
        ("source,target,bytes\n0,1,-5\n", "messages.csv:2: bytes is -5"),
        ("source,target,bytes,after\n0,1,5,7\n", "messages.csv:2: after is 7"),
        ("source,target,bytes,after\n0,1,5,1\n1,0,5,0\n", "messages.csv:2 never starts"),
        ("source,target,bytes,weight\n0,1,5,0\n", "messages.csv:2: weight is 0"),
        ("source,target,bytes,limit\n0,1,5,0\n", "messages.csv:2: limit is 0"),
        ("source,target,bytes,spine\n0,9,5,1\n", "spine is 1: give none here"),
        ("source,target,bytes,connection\n0,9,5,3000000000\n", "connection is 3000000000: give 0"),
    ],
)
def test_what_is_no_file_of_messages_is_refused(tmp_path: Path, text: str, word: str) -> None:
    with pytest.raises(NetplanError, match=word):
        ask(traffic=str(messages(tmp_path, text)))


def test_the_order_of_rows_changes_nothing(tmp_path: Path) -> None:
    """Bit by bit: rows have their numbers, and equal times are ties by number."""
    rng = np.random.default_rng(5)
    rows = [
        f"{number},{source},{target},{size},{number // 2 if number % 3 == 0 and number else ''}"
        for number, (source, target, size) in enumerate(rng.integers(0, 120, (40, 3)).tolist())
    ]
    given = {"collectives": "steps", "draws": 2, "message_bytes": 256e6}
    times = []
    for order in (range(40), rng.permutation(40).tolist()):
        lines = "\n".join(rows[place] for place in order)
        path = messages(tmp_path, f"message,source,target,bytes,after\n{lines}\n")
        times.append([design.times_s for design in ask(**given, traffic=str(path)).designs])
    assert times[0] == times[1]


def test_one_path_a_pair_is_solved_once() -> None:
    answer = ask(fabric="rail-only", traffic="ring", gpus=64, routing="hashed", draws=7)
    assert answer.designs[0].seeds == 1
    assert "Each pair has one path, which no seed changes: solved once." in answer.notes


def test_percentiles_of_seeds() -> None:
    values = list(map(float, range(1, 201)))
    assert (percentile(values, 99), percentile(values, 50), percentile(values, 100)) == (
        198,
        100,
        200,
    )
    assert percentile([5.0], 50) == 5.0
    assert bad_name(200, 99) == "p99"
    assert bad_name(20, 50) == "p50"


ITERATION = {
    "gpus": 128, "radix": 16, "fabric": "fat-tree", "model": "gpt-22b", "batch": 128,
}  # fmt: skip
SHARED = (
    "sharing routing seeds connections uncontended_time_s times_s slowdown_p50 slowdown_bad bad_is"
    " time_low_s time_high_s error_basis hot_links solves flows classes"
)


def is_simulated(scenario: str, seeds: int, **given: Any) -> CongestionAnswer:  # noqa: ANN401 - of every type
    """An answer about a run whose every draw is that of `netplan simulate --sharing fluid`."""
    answer = congestion(scenario, **given, routing=("hashed", "spray"), draws=seeds, hot=3)
    hashed, spray = answer.designs
    times = {"hashed": hashed.times_s, "ecmp": spray.times_s}
    assert (len(hashed.times_s), len(spray.times_s)) == (seeds, 1)
    given |= {"sharing": "fluid", "hot": 3}
    for design in answer.designs:
        routing = design.routing
        for seed, time_s in enumerate(times[routing]):
            more = {"seed": seed} if routing == "hashed" else {"connections": 1}
            simulated = netplan.simulate(scenario, **given | {"routing": routing} | more).to_dict()
            assert simulated["times_s"] == [time_s]
    facts = plain_data(spray)
    assert facts["error_basis"] == "37 packet-level cases to 64 hosts"
    same = set(SHARED.split()) - {"connections"}
    assert {name: simulated[name] for name in same} == {name: facts[name] for name in same}
    assert simulated["seconds"] > 0
    return answer


def test_programs_read_the_links_of_every_design() -> None:
    answer = ask(draws=2)
    rows = [row for row in csv.DictReader(StringIO(answer.csv())) if row["table"] == "hot_links"]
    assert [(row["routing"], row["hottest"], float(row["utilisation"])) for row in rows] == [
        (design.routing, link.link, link.utilisation)
        for design in answer.designs
        for link in design.hot_links
    ]
    assert len({row["routing"] for row in rows}) == len(answer.designs) == 2


def test_an_iteration_is_that_of_simulate_with_shared_links() -> None:
    answer = is_simulated("hgx-h100", 3, **ITERATION)
    hashed, spray = answer.designs
    assert hashed.uncontended_time_s == spray.uncontended_time_s
    assert hashed.slowdown_p50 > 1.05
    assert hashed.slowdown_p50 > spray.slowdown_p50 >= 1.0
    assert hashed.hot_links[0].flows > 0
    assert 0 < hashed.hot_links[0].utilisation <= 1
    text = str(answer)
    assert "Congestion of an iteration of gpt-22b" in text
    assert len(text.splitlines()) <= 25


def test_iterations_pay_by_their_time_though_each_ratio_has_its_own_plan() -> None:
    given = {"gpus": 512, "model": "llama-3-70b", "routing": "spray", "hb_size": 8}
    first, last = congestion("hgx-h100", **given, oversubscription=(1, 16)).designs
    assert first.usd_times_slowdown is not None
    assert last.usd_times_slowdown is not None
    dearer = (first.total_usd or 0.0) / (last.total_usd or 1.0)
    slower = last.time_low_s / first.time_low_s
    assert first.usd_times_slowdown / last.usd_times_slowdown == pytest.approx(dearer / slower)
    assert slower > 1.005 > last.slowdown_p50


def test_more_connections_of_an_iteration_collide_less() -> None:
    one = is_simulated("hgx-h100", 2, **ITERATION).designs[0]
    four = is_simulated("hgx-h100", 2, **ITERATION, connections=4).designs[0]
    assert four.connections == 4
    assert max(four.times_s) < min(one.times_s)
    static, spray = congestion("hgx-h100", **ITERATION, routing=("static", "spray")).designs
    assert static.times_s == spray.times_s  # rings of whole leaves (Ethereal, arXiv:2407.00550)


def test_steps_of_collectives_are_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone a ring takes as long step by step; beside others by a few per cent less or more."""
    cases = (
        {"routing": "hashed"},
        {"routing": "spray", "oversubscription": 3},
        {"fail": ("spine=1",), "oversubscription": 3},
    )
    for more in cases:
        given = ITERATION | {"draws": 1} | more
        coupled, steps = (
            congestion("hgx-h100", **given, collectives=collectives).designs
            for collectives in ("coupled", "steps")
        )
        for one, other in zip(coupled, steps, strict=True):
            within = 0.02 if "oversubscription" in more else 1e-9
            assert other.times_s == pytest.approx(one.times_s, rel=within)
            assert other.uncontended_time_s == pytest.approx(
                one.uncontended_time_s, rel=within / 10
            )
            assert other.flows > 20 * one.flows
    monkeypatch.setattr("netplan.simulation.linked_work.MOST_MESSAGES", 9_000)
    with pytest.raises(NetplanError, match=r"makes 9,600 messages .* minutes a draw: take coupled"):
        congestion("hgx-h100", **ITERATION, routing="hashed", collectives="steps")


def test_a_round_of_servers_is_that_of_simulate() -> None:
    """Tensor groups of two HB domains, whose hashed paths collide."""
    run = {"gpus": 64, "radix": 16, "fabric": "fat-tree", "fixed": {"tensor": 16}}
    answer = is_simulated("serving-70b-h200", 2, **run, workload="serving")
    assert "a round of llama-3.1-70b" in str(answer)
    hashed, spray = answer.designs
    assert hashed.slowdown_p50 > 1.1
    assert spray.slowdown_p50 == pytest.approx(1.0)


def test_several_jobs_share_by_their_weights(tmp_path: Path) -> None:
    """The job that loses most counts; a heavier one loses less."""
    text = """jobs:
  - {name: large, model: gpt-22b, gpus: 16, batch: 32, fix: {pipeline: 2}, placement: alternate}
  - {name: small, model: gpt-22b, gpus: 16, fix: {pipeline: 2}, placement: alternate, batch: 16%s}
"""
    path, slowdowns = tmp_path / "jobs.yaml", []
    given = {"gpus": 64, "hb_size": 4, "fabric": "fat-tree", "oversubscription": 7, "radix": 16}
    for weight in ("", ", weight: 20"):
        path.write_text(text % weight, encoding="utf-8")
        answer = is_simulated("rail-only-paper", 1, **given, jobs=str(path))
        spray = answer.designs[1]
        large, small = spray.jobs
        worst = max(spray.jobs, key=lambda job: job.slowdown_p50)
        assert (large.name, small.name) == ("large", "small")
        assert spray.slowdown_p50 == worst.slowdown_p50 == worst.time_s / worst.uncontended_time_s
        slowdowns.append(small.slowdown_p50)
    assert 1.0 <= slowdowns[1] < slowdowns[0]
    assert f"of job {worst.name}" in " ".join(str(answer).split())


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"message_bytes": 1e6}, "means nothing for an iteration"),
        ({"mode": "published-code"}, "--mode published-code means nothing for netplan congestion"),
        ({"schedule": "zb-1p"}, "netplan congestion runs 1f1b, gpipe, interleaved"),
        ({"traffic": "ring", "jobs": "jobs.yaml"}, "--jobs jobs.yaml means nothing for --traffic"),
        ({"fail": ("spine=1",), "routing": "hashed"}, "--routing hashed knows no ways round"),
        ({"fail": ("spine=1",), "routing": "static"}, "--routing static knows no ways round"),
        ({"fail": ("gpu-5",)}, "1 GPU in use, gpu-5 first, would be down"),
    ],
)
def test_what_an_iteration_has_not_is_refused(given: dict[str, object], word: str) -> None:
    with pytest.raises(NetplanError, match=word):
        congestion("hgx-h100", **(ITERATION | given))


@pytest.mark.parametrize("given", [{"sharing": "fluid"}, {"routing": "hashed"}, {}])
def test_simulate_has_connections_of_shared_hashed_links_alone(given: dict[str, object]) -> None:
    with pytest.raises(NetplanError, match="--connections 8 means nothing for messages without"):
        netplan.simulate("hgx-h100", **ITERATION, **given, connections=8)
