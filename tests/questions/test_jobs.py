"""``netplan jobs``: fabrics as leaves, spreads, verdicts, files, refusals."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netplan
from netplan import Scenario
from netplan.answers.jobs_answer import NO_DIFFERENCE, JobsAnswer, Spread
from netplan.errors import NetplanError
from netplan.faults.job_cluster import JobCluster, job_cluster
from netplan.questions.jobs import Jobs, jobs
from netplan.records import replace
from netplan.topologies.expand import expand
from netplan.topologies.specs import FABRICS

SMALL = {"gpus": 256, "radix": 32, "fabric": "fat-tree", "count": 150, "draws": 2}
HEADER = "id,arrival,gpus,duration,comm,pattern\n"


def ask(**given: object) -> JobsAnswer:
    return jobs("hgx-h100", **(SMALL | given))


def cluster_of(
    fabric: str, fail: tuple[str, ...] = (), name: str = "hgx-h100", **more: float
) -> JobCluster:
    scenario = Scenario.load(name).replace(**({"gpus": 512, "radix": 16} | more))
    spec = FABRICS.load(fabric)
    return job_cluster(expand(spec, scenario.sizing), spec, scenario.sizing, fail)


def trace(folder: Path, *lines: str, header: str = HEADER) -> str:
    path = folder / "jobs.csv"
    path.write_text(header + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("fabric", "more", "shape", "ratio"),
    [
        # Leaves of 16 ports: 8 down are one node of 8, two of 4.
        ("fat-tree", {}, (64, 1, 8), 1.0),
        ("fat-tree", {"hb_size": 4}, (64, 2, 4), 1.0),
        # At 3:1 12 ports go down, three nodes of 4, on 44 leaves that are wired alike.
        ("fat-tree", {"hb_size": 4, "oversubscription": 3.0}, (44, 3, 4), 3.0),
        # A leaf a rail: 8 nodes below each, 64 nodes in 8 groups of rails.
        ("rail-only", {}, (8, 8, 8), 1.0),
        ("rail-optimized", {}, (8, 8, 8), 1.0),
        # No switches between the nodes of a full mesh.
        ("full-mesh", {"gpus": 64}, (1, 8, 8), 1.0),
        # 8 x 8 x 8 chips are 2 x 2 x 2 cubes of 64, in rows of 2.
        ("torus-3d", {"hb_size": 1}, (4, 2, 64), 1.0),
    ],
)
def test_leaves_are_those_of_the_fabric(
    fabric: str, more: dict[str, Any], shape: tuple[int, int, int], ratio: float
) -> None:
    cluster = cluster_of(fabric, **more)
    trunks = cluster.trunks
    assert (trunks.leaves, trunks.nodes, trunks.gpus) == shape
    assert trunks.ratio == pytest.approx(ratio)
    members = cluster.gpus_of_node[cluster.gpus_of_node >= 0]
    assert sorted(members.tolist()) == list(range(more.get("gpus", 512)))


def test_cubes_hold_neighbours() -> None:
    """Chip (x, y, z) of 8 x 8 x 8 has number x + 8 y + 64 z; cube 0 has all below 4."""
    cube = cluster_of("torus-3d", hb_size=1).gpus_of_node[0]
    places = np.stack([cube % 8, cube // 8 % 8, cube // 64])
    assert len(cube) == 64
    assert places.max() == 3


def test_failed_parts_are_out_for_the_whole_run() -> None:
    """Nodes go before the first job, and are paid for; their leaves keep their links."""
    trunks = cluster_of("fat-tree", fail=("domain-3", "gpu-100")).trunks
    assert trunks.present is not None
    assert np.flatnonzero(~trunks.present.ravel()).tolist() == [3, 12]
    assert (trunks.capacity.sum(), trunks.total_gpus) == (64, 496)
    # One of two spines of radix 16 above 4 leaves takes half of each trunk.
    whole, half = (
        cluster_of("fat-tree", fail, gpus=32, oversubscription=1.0).trunks
        for fail in ((), ("spine-0",))
    )
    assert (half.capacity / whole.capacity).tolist() == [0.5] * whole.leaves
    answer = ask(fail=("domain-3", "gpu-100"), draws=1)
    assert "2 nodes" in " ".join(answer.notes)
    row = answer.rows[0]
    assert row.usd_per_useful_gpu_hour is not None
    assert row.total_usd is not None
    useful_hours = row.total_usd / row.usd_per_useful_gpu_hour.mean
    hours = useful_hours / row.figures["useful"].mean / (240 * 8760)
    assert hours == pytest.approx(
        round(hours), rel=1e-9
    )  # whole years of the 240 GPUs that are left


def test_links_of_the_fabric_go_round_what_has_failed() -> None:
    """A spine less: jobs on the fabric's own links are as slow as on trunks of what is left."""
    given = {"placement": "scattered", "oversubscription": 3, "fail": ("spine=1",), "draws": 1}
    overrides = {"stream.all_to_all_share": "0"}
    trunk, fabric = (
        ask(**given, overrides=overrides, **links).rows[0].figures["mean_slowdown"].mean
        for links in ({}, {"links": "fabric"})
    )
    assert trunk > 1.001
    assert fabric == pytest.approx(trunk, rel=0.02)
    with pytest.raises(NetplanError, match="knows no ways round failures"):
        ask(**given, links="fabric", routing="hashed")


@pytest.mark.parametrize(
    ("routing", "why"),
    [
        ("valiant", "fat-tree is no dragonfly, nor are its switches joined directly"),
        ("adaptive", "fat-tree is no dragonfly, nor are its switches joined directly"),
        ("minimal", "fat-tree is no dragonfly: take routing"),
        ("dimension-order", "fat-tree has no rings"),
        ("minimal-adaptive", "fat-tree has no rings"),
    ],
)
def test_a_routing_of_other_fabrics_is_refused_even_if_no_job_leaves_its_node(
    tmp_path: Path, routing: str, why: str
) -> None:
    alone = trace(tmp_path, "17,0,8,100,0.5,ring")
    given = {"stream": alone, "count": 2000, "draws": 5, "links": "fabric"}
    assert ask(**given, routing="spray").rows[0].jobs == 1
    with pytest.raises(NetplanError, match=why):
        ask(**given, routing=routing)


def test_domains_of_several_sizes_are_nodes_of_their_own() -> None:
    """8 racks of 72 GPUs and 8 servers of 8, whose last one holds 2 GPUs and stays idle."""
    trunks = cluster_of("mixed-domains", name="hgx-b200", gpus=634, radix=64).trunks
    assert trunks.sizes is not None
    assert np.unique(trunks.sizes, return_counts=True)[1][1:].tolist() == [7, 8]
    assert (trunks.gpus, trunks.total_gpus) == (8, 632)
    # In cards of servers a rack has 9.
    assert trunks.capacity.sum() == 8 * 9 + 7
    answer = ask(gpus=640, fabric="mixed-domains", oversubscription=2, migrate="2", draws=1)
    assert "HB domains: 8 of 8 GPUs, 8 of 72 GPUs" in " ".join(answer.notes)
    assert answer.rows[0].figures["mean_slowdown"].mean >= 1


def test_draws_have_the_same_jobs_under_every_placement() -> None:
    answer = ask(placement=("packed", "scattered"), oversubscription=4)
    packed, scattered = answer.rows
    slower = scattered.figures["mean_slowdown"].less(packed.figures["mean_slowdown"])
    assert slower.low > 0
    assert packed.figures["mean_leaves"].mean < scattered.figures["mean_leaves"].mean
    rows = [entry for entry in answer.differences if entry.figure == "mean slowdown"]
    assert [entry.seen for entry in rows] == ["yes"]


def test_links_that_are_free_pay_the_same_everywhere() -> None:
    """Without sharing two ratios differ in price alone, draw by draw."""
    answer = ask(no_sharing=True, oversubscription=(1, 4))
    one, four = answer.rows
    assert one.figures["mean_completion_s"] == four.figures["mean_completion_s"]
    assert four.figures["mean_slowdown"].values == pytest.approx((1.0, 1.0))
    assert answer.ranked[0] is four
    assert answer.decided
    for row in answer.rows:
        cost, useful = row.usd_per_useful_gpu_hour, row.figures["useful"]
        assert cost is not None
        assert row.total_usd is not None
        hours = row.total_usd / (cost.values[0] * useful.values[0])
        assert hours % (256 * 8760) == pytest.approx(0, abs=1)


def test_differences_smaller_than_their_spread_are_not_seen() -> None:
    answer = ask(placement=("packed", "first"), no_sharing=True)
    assert not answer.decided
    assert NO_DIFFERENCE in answer.in_a_line() or "undecided" in answer.in_a_line()
    assert "Undecided" in str(answer.to_dict()["verdict"]["sentence"])
    assert not Spread.of([-1.0, 2.0]).seen
    assert not Spread.of([1.0 + 1e-15, 2.0]).less(Spread.of([1.0, 1.0])).seen
    assert Spread.of([0.5, 2.0]).seen


def test_trunks_are_the_sprayed_links_of_the_fabric() -> None:
    """A fat tree of 3:1 exactly: 24 ports of 32 go down, 8 up; rings over the same trunks."""
    given = {"oversubscription": 3, "hb_size": 8, "set": ["stream.all_to_all_share=0"]}
    overrides = {"stream.all_to_all_share": "0"}
    del given["set"]
    trunk, fabric = (
        ask(**given, overrides=overrides, **links)
        for links in ({}, {"links": "fabric", "routing": "spray"})
    )
    slow = [answer.rows[0].figures["mean_slowdown"].mean for answer in (trunk, fabric)]
    assert slow[0] > 1.001
    assert slow[1] == pytest.approx(slow[0], rel=0.02)


def test_boxes_of_a_torus_lose_to_circuit_switches(tmp_path: Path) -> None:
    """Eight cubes, 2 x 2 x 2. Jobs of 2, 2, 2, 2 cubes; two that end leave no box of 4 x 64.

    Boxes of 2 fill the four rows along z of (x, y) = (0, 0), (0, 1), (1, 0), (1, 1). The second and
    the third end at 50 s: they touch nowhere along a face, so that a box of 4 waits until 100 s,
    while circuit switches join them at once.
    """
    lines = [f"{job},0,128,{50 if job in (1, 2) else 100},0,ring" for job in range(4)]
    path = trace(tmp_path, *lines, "4,10,256,10,0,ring")
    answer = jobs(
        "tpu-v7", gpus=512, placement=("cube", "cube-ocs"), stream=path, queue="fifo", count=2000
    )
    box, joined = answer.rows
    waits = [row.figures["wait_p99_s"].values[0] for row in (box, joined)]
    assert [row.bars[4].start_s for row in (box, joined)] == [100.0, 50.0]
    assert waits[0] > waits[1]
    assert box.figures["refused_while_free"].mean == pytest.approx(50 / 110)
    assert joined.figures["refused_while_free"].mean == 0
    assert answer.to_dict()["verdict"]["sentence"].startswith("Boxes of torus-3d lose")


def test_large_domains_strand_their_rests() -> None:
    """64 of 72 GPUs: a ninth of each last domain is lost; of 8 nothing."""
    answer = jobs("nvl72-gb200", gpus=1152, hb_size=(8, 72), count=150, draws=2, fabric="fat-tree")
    small, large = (row.figures["lost_share"].mean for row in answer.rows)
    assert small == 0
    assert large > 0.01
    sentence = answer.to_dict()["verdict"]["sentence"]
    assert sentence.startswith(f"HB domains of 72 strand {100 * large:.2g} % of the GPU time")


def test_migration_bounds_fragments_and_frees_rings() -> None:
    """With two fragments a leaf and trunks of two nodes no ring waits for a link."""
    answer = ask(
        placement="scattered",
        migrate="2",
        gpus=192,
        oversubscription=3,
        hb_size=4,
        count=80,
        draws=1,
        overrides={"stream.all_to_all_share": "0", "stream.migration_s": "0"},
    )
    row = answer.rows[0]
    assert row.ratio * 2 <= 6
    assert row.figures["fragments_max"].mean <= 2
    assert row.figures["moves"].mean > 0
    assert row.figures["mean_slowdown"].mean == pytest.approx(1.0, abs=1e-6)


def test_a_file_is_one_stream(tmp_path: Path) -> None:
    """Of two jobs on all 256 GPUs the second waits 60 s; warm-up leaves none of two out."""
    answer = ask(stream=trace(tmp_path, "a,0,256,100,0,ring", "b,40,256,50,,ring"), count=2000)
    row = answer.rows[0]
    assert (row.draws, row.jobs) == (1, 2)
    assert row.figures["mean_wait_s"].mean == 30.0
    assert row.figures["sor"].mean == 1.0
    assert any("assumed 20 % for 1 job without" in note for note in answer.notes)
    assert any("load is over 1" in note for note in answer.notes)
    gar = answer.to_dict()["rows"][0]["gar"]
    assert gar["share"][-2:] == [1.0, 0.0]


def test_communication_is_that_of_a_models_plan(tmp_path: Path) -> None:
    """By search on the design: a thinner network exposes more, and a plan that is said less."""
    header = "id,arrival,gpus,duration,model,plan\n"
    lines = ("a,0,64,100,llama-3-8b,", "b,0,64,100,llama-3-8b,tensor=1", "c,0,16,9,llama-3-405b,")
    answer = ask(stream=trace(tmp_path, *lines, header=header), oversubscription=3, count=2000)
    assert any("No plan of llama-3-405b on 16 GPUs" in note for note in answer.notes)
    assert any("assumed 20 % for 1 job" in note for note in answer.notes)
    question = Jobs.make("hgx-h100", **{name: SMALL[name] for name in ("gpus", "radix", "fabric")})
    exposed = [
        question._exposed(
            "llama-3-8b", plan, 64, {"fabric": "fat-tree", "hb_size": 8, "oversubscription": ratio}
        )
        for ratio, plan in ((1.0, ""), (7.0, ""), (7.0, "tensor=8"))
    ]
    assert 0 <= exposed[0] < exposed[1] < 1
    assert exposed[2] != exposed[1]
    with pytest.raises(NetplanError, match=r"jobs.csv: job a: .*no-such-model"):
        ask(stream=trace(tmp_path, "a,0,64,100,no-such-model,", header=header), count=2000)


@pytest.mark.parametrize(
    ("header", "line", "gpus"),
    [
        ("job_id,gpu_num,submit_time,duration", "x,16,2023-05-17 11:00:58+00:00,60", 16),
        ("job_id,num_gpu,submit_time,duration", "x,4,10,60", 4),
        ("job_name,gpu_request,worker_num,submit_time,duration", "x,8,2,10,60", 16),
        (
            "name,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time",
            "x,2,1000,5,70,10",
            2,
        ),
    ],
)
def test_published_traces_are_read_by_their_header(
    tmp_path: Path, header: str, line: str, gpus: int
) -> None:
    zero = ",".join("0" if cell in ("16", "4", "8", "2") else cell for cell in line.split(","))
    path = trace(tmp_path, line, zero.replace("x", "y", 1), header=f"{header}\n")
    answer = ask(stream=path, count=2000)
    assert answer.rows[0].jobs == 1
    assert answer.rows[0].bars[0].gpus == gpus
    assert answer.rows[0].bars[0].alone_s == 60
    assert any("1 row without a GPU" in note for note in answer.notes)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"placement": "cube"}, "is of tori"),
        ({"migrate": "many"}, "give none, or a whole number"),
        ({"routing": "spray"}, "is of --links fabric"),
        ({"stream": "unheard-of"}, "unknown stream"),
        ({"stream": "trace"}, "has no law"),
        ({"overrides": {"stream.longest_s": "0"}}, "above 1e-9, in seconds, or inf"),
        ({"overrides": {"stream.law.p1": "2"}}, "law.p1: got 2"),
        ({"overrides": {"stream.law.a": "-1e30"}}, "law.a: got -1"),
        ({"overrides": {"stream.warm_up": "1"}}, "below 1"),
        ({"overrides": {"stream.estimate": "0"}}, "above 0"),
        ({"overrides": {"stream.nothing": "1"}}, "unknown key nothing: known: .*, warm_up$"),
        ({"overrides": {"stream.p1": "0.5"}}, r"p1: did you mean stream\.law\.p1\?$"),
        ({"overrides": {"stream.lagest": "1"}}, r"did you mean stream\.law\.largest\?$"),
        ({"overrides": {"stream.law.sgima": "1"}}, r"key law\.sgima: did you mean sigma\?$"),
        ({"overrides": {"stream.law.nil": "1"}}, "known: a, beta, sigma, mu, largest, p1$"),
        ({"overrides": {"strem.law.p1": "1"}}, r"record 'strem': did you mean stream\?"),
        ({"count": 0}, "1"),
        ({"placement": "domain"}, "puts nowhere in the empty cluster"),
    ],
)
def test_what_is_not_allowed_is_refused(given: dict[str, object], text: str) -> None:
    with pytest.raises(NetplanError, match=text):
        ask(**given)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("17,0,512,100,0,ring", "job 17 asks for 512 of 256 GPUs"),
        ("17,0,0,100,0,ring", "jobs.csv:2: column gpus"),
        ("17,0,1.5,100,0,ring", "whole number"),
        ("17,0,1,1e-10,0,ring", "column duration"),
        ("17,0,1,nan,0,ring", "column duration"),
        ("17,soon,1,1,0,ring", "column arrival"),
        ("17,0,1,1,1,ring", "column comm"),
        ("17,0,1,1,0,star", "column pattern"),
    ],
)
def test_bad_rows_name_their_line(tmp_path: Path, line: str, text: str) -> None:
    with pytest.raises(NetplanError, match=text):
        ask(stream=trace(tmp_path, line), count=2000)
    with pytest.raises(NetplanError, match="a file, which has its jobs"):
        ask(stream=trace(tmp_path, line), count=10)


def test_too_large_jobs_can_be_dropped(tmp_path: Path) -> None:
    path = trace(tmp_path, "1,0,512,100,0,ring", "2,0,8,100,0,ring")
    answer = ask(stream=path, count=2000, overrides={"stream.skip_too_large": "true"})
    assert answer.rows[0].jobs == 1
    assert any("Dropped" in note for note in answer.notes)


def test_a_stream_without_draws_stands_beside_each_draw_of_another(tmp_path: Path) -> None:
    """Packed jobs of a file are placed alike each time, random ones three ways."""
    jobs_file = trace(
        tmp_path, *(f"{job},{job},{16 + 16 * (job % 5)},100,0.3,ring" for job in range(30))
    )
    answer = ask(
        stream=jobs_file, placement=("packed", "random"), oversubscription=3, count=2000, draws=3
    )
    assert [row.draws for row in answer.rows] == [1, 3]
    slower = [entry for entry in answer.differences if entry.figure == "mean slowdown"]
    assert len(slower[0].difference.values) == 3
    assert slower[0].seen == "yes"
    assert "over 3 draws" in answer.to_dict()["verdict"]["sentence"]


def test_designs_that_are_worse_in_every_draw_are_ruled_out() -> None:
    answer = ask(count=20)
    prices = {1.0: (1.0, 2.0), 2.0: (1.5, 1.9), 4.0: (3.0, 3.0), 8.0: (2.0, 2.1)}
    rows = tuple(
        replace(answer.rows[0], ratio=ratio, usd_to_last_arrival=Spread.of(values))
        for ratio, values in prices.items()
    )
    sentence = replace(answer, rows=rows).to_dict()["verdict"]["sentence"]
    assert sentence == (
        "Undecided between 1:1 and 2:1: no difference seen. 1:1 has 1.500 USD a useful GPU hour,"
        " and the difference is -0.1 to 0.5 over 2 draws; 8:1 and 4:1 are dearer in every draw."
    )
    assert "wait p95" in answer.text(100, details=True)


def test_forms() -> None:
    answer = ask(draws=1, count=60)
    text = json.loads(json.dumps(answer.to_dict()))
    names = {"mean_wait_s", "wait_p50_s", "wait_p90_s", "wait_p99_s", "mean_completion_s"}
    names |= {"mean_slowdown", "slowdown_p99", "slowed_share", "gar", "sor", "gfr", "useful"}
    names |= {
        "wait_p95_s",
        "sor_to_last_arrival",
        "mean_leaves",
        "fragments_max",
        "refused_while_free",
    }
    names |= {"lost_by_rounding", "moves", "migration_s", "usd_per_useful_gpu_hour"}
    assert names <= text["rows"][0].keys()
    assert text["rows"][0]["sor"].keys() == {"mean", "low", "high"}
    page = answer.render("html") if hasattr(answer, "render") else ""
    assert not page or "occupancy" in page
    assert netplan.jobs is jobs


def test_a_number_without_an_end_is_refused() -> None:
    with pytest.raises(NetplanError, match=r"--migrate .*: give none, or a whole number"):
        ask(migrate="9" * 5000)
