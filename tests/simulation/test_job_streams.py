"""Streams of jobs: a plain event loop beside them, queues with known waits, traces as files."""

import csv
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.errors import NetplanError
from netplan.simulation.job_clusters import LeafTrunks
from netplan.simulation.job_outcomes import JobStream
from netplan.simulation.job_places import IN_BOXES, POLICIES, JobPlace, Occupancy, uplink_loads
from netplan.simulation.job_traces import JobTrace, read_trace
from netplan.simulation.jobs import run_stream, stream
from tests.oracles import job_streams as plain

Job = plain.Job
PLAIN = POLICIES[:4]
"""Policies that the plain event loop knows."""
GOLDEN = Path(__file__).parents[1] / "golden"


def trace_of(jobs: list[Job]) -> JobTrace:
    ordered = sorted(jobs, key=lambda job: (job.arrival, job.number))
    return JobTrace(
        name="made",
        ids=tuple(str(job.number) for job in ordered),
        arrival_s=np.array([job.arrival for job in ordered]),
        duration_s=np.array([job.duration for job in ordered]),
        gpus=np.array([job.gpus for job in ordered]),
        comm=np.array([job.comm for job in ordered]),
        all_to_all=np.array([job.to_all for job in ordered]),
    )


def alike(shape: tuple[int, int, int]) -> dict[tuple[int, int], int]:
    """GPUs of every node by leaf and node."""
    leaves, nodes, gpus = shape
    return {(leaf, node): gpus for leaf in range(leaves) for node in range(nodes)}


@st.composite
def streams(draw: st.DrawFn) -> tuple[tuple[int, int, int], float, list[Job]]:
    """Small clusters and jobs; whole times so that many events meet, or any."""
    shape = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.sampled_from([1, 2, 8]))
    leaves, nodes, gpus = shape
    whole = draw(st.booleans())
    time = st.integers(1, 20).map(float) if whole else st.floats(0.5, 50.0)
    small, large = st.integers(1, gpus), st.integers(1, leaves * nodes * gpus)
    jobs, now = [], 0.0
    for number in range(draw(st.integers(1, 25))):
        now += draw(st.just(0.0) | time)
        comm = draw(st.sampled_from([0.0, 0.2, 0.35]))
        jobs.append(Job(number, now, draw(small | large), draw(time), comm, draw(st.booleans())))
    return shape, draw(st.sampled_from([0.5, 1.0, 2.0, 4.0, 16.0])), jobs


@pytest.mark.parametrize("queue", ["fifo", "backfill", "sjf"])
@pytest.mark.parametrize("policy", PLAIN)
@given(case=streams())
@settings(max_examples=15, deadline=None)
def test_streams_are_those_of_a_plain_event_loop(
    case: tuple[tuple[int, int, int], float, list[Job]], policy: str, queue: str
) -> None:
    shape, ratio, jobs = case
    copies = [replace(job) for job in jobs]
    taken = plain.run(copies, plain.Stream(alike(shape), ratio, policy, 3), queue)
    ran = run_stream(trace_of(jobs), LeafTrunks(*shape, ratio), policy=policy, queue=queue, seed=3)  # type: ignore[arg-type]
    assert ran.start_s == pytest.approx([job.start for job in copies], rel=1e-9, abs=1e-9)
    assert ran.end_s == pytest.approx([job.end for job in copies], rel=1e-9, abs=1e-9)
    assert ran.leaves.tolist() == [job.leaves for job in copies]
    assert ran.gpu_s == pytest.approx(taken, rel=1e-9)
    assert ran.figures()["mean_slowdown"] >= 1 - 1e-9


@pytest.mark.parametrize("queue", ["fifo", "backfill"])
@given(case=streams())
@settings(max_examples=15, deadline=None)
def test_jobs_under_one_leaf_are_those_of_a_plain_event_loop(
    case: tuple[tuple[int, int, int], float, list[Job]], queue: str
) -> None:
    shape, ratio, jobs = case
    jobs = [replace(job, gpus=min(job.gpus, shape[1] * shape[2])) for job in jobs]
    copies = [replace(job) for job in jobs]
    plain.run(copies, plain.Stream(alike(shape), ratio, "domain", 3), queue)
    ran = run_stream(trace_of(jobs), LeafTrunks(*shape, ratio), policy="domain", queue=queue)  # type: ignore[arg-type]
    assert ran.start_s == pytest.approx([job.start for job in copies], rel=1e-9, abs=1e-9)
    assert ran.leaves.tolist() == [1] * len(jobs)


@pytest.mark.parametrize("policy", ["packed", "scattered", "first", "domain"])
@given(case=streams(), larger=st.sets(st.integers(0, 15), min_size=1))
@settings(max_examples=15, deadline=None)
def test_nodes_of_several_sizes_are_those_of_a_plain_event_loop(
    case: tuple[tuple[int, int, int], float, list[Job]], larger: set[int], policy: str
) -> None:
    """Some nodes have thrice the GPUs; trunks carry the cards below them over the ratio."""
    (leaves, nodes, gpus), ratio, jobs = case
    sizes = np.full((leaves, nodes), gpus)
    sizes.reshape(-1)[[place % sizes.size for place in larger]] *= 3
    least = int(sizes.min())
    cluster = LeafTrunks(
        leaves, nodes, least, ratio, sizes=sizes, trunks=sizes.sum(axis=1) / least / ratio
    )
    free = cluster.empty(policy)  # type: ignore[arg-type]
    jobs = [job for job in jobs if free.most(job.gpus)] or [replace(jobs[0], gpus=1)]
    copies = [replace(job) for job in jobs]
    by_place = {(leaf, node): int(sizes[leaf, node]) for leaf, node in np.ndindex(leaves, nodes)}
    taken = plain.run(copies, plain.Stream(by_place, ratio, policy, 0), "backfill")
    ran = run_stream(trace_of(jobs), cluster, policy=policy)  # type: ignore[arg-type]
    assert ran.start_s == pytest.approx([job.start for job in copies], rel=1e-9, abs=1e-9)
    assert ran.end_s == pytest.approx([job.end for job in copies], rel=1e-9, abs=1e-9)
    assert ran.leaves.tolist() == [job.leaves for job in copies]
    assert ran.taken.tolist() == [sum(job.at.values()) for job in copies]
    assert ran.gpu_s == pytest.approx(taken, rel=1e-9)


def test_a_synthetic_trace_is_as_the_specification_has_it() -> None:
    """20 runs of its reference program, each figure to 1e-6; packed places beat scattered ones."""
    slowdown: dict[tuple[str, ...], float] = {}
    with (GOLDEN / "job_streams_expected.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        cluster = {name: int(row[name]) for name in ("leaves", "nodes", "gpus")}
        policy, queue = row["policy"], row["queue"]
        figures = stream(
            GOLDEN / f"{row['trace']}.csv",
            **cluster,
            ratio=float(row["ratio"]),
            policy=policy,  # type: ignore[arg-type]
            queue=queue,  # type: ignore[arg-type]
            arrival_scale=float(row["arrival_scale"]),
        )
        expected = {name: float(row[name]) for name in list(row)[8:]}
        assert {name: figures[name] for name in expected} == pytest.approx(
            expected, rel=1e-6, abs=1e-6
        )
        slowdown[policy, queue, row["ratio"]] = float(figures["mean_slowdown"])
    assert len(rows) == 20
    assert round(slowdown["packed", "backfill", "8"], 3) == 1.025
    assert round(slowdown["scattered", "backfill", "8"], 3) == 1.189


def drawn(jobs: int, gpus: int, load: float, seed: int) -> JobTrace:
    """Poisson arrivals, heavy-tailed durations that grow with size, sizes of powers of 2."""
    rng = np.random.default_rng(seed)
    sizes = 2 ** rng.integers(0, int(np.log2(gpus)), jobs)
    durations = np.exp(3.0 + 0.5 * np.log(sizes) + 1.5 * rng.standard_normal(jobs))
    between = rng.exponential(np.mean(sizes * durations) / (load * gpus), jobs)
    return JobTrace(
        name="drawn",
        ids=tuple(map(str, range(jobs))),
        arrival_s=np.cumsum(between),
        duration_s=durations,
        gpus=sizes,
        comm=np.where(sizes <= 8, 0.0, 0.35),
        all_to_all=rng.random(jobs) < 0.3,
    )


def singles(jobs: int, servers: int, load: float, seed: int) -> JobTrace:
    """Jobs of one GPU, exponential of mean 100 s."""
    rng = np.random.default_rng(seed)
    return replace_columns(
        drawn(jobs, 8, load, seed),
        arrival_s=np.cumsum(rng.exponential(100 / (load * servers), jobs)),
        duration_s=rng.exponential(100, jobs),
        gpus=np.ones(jobs, np.int64),
    )


def replace_columns(trace: JobTrace, **columns: object) -> JobTrace:
    values = {name: getattr(trace, name) for name in trace.__struct_fields__}
    return JobTrace(**(values | columns))


@pytest.mark.parametrize("policy", POLICIES + IN_BOXES)
def test_single_gpus_wait_as_in_a_queue_of_many_servers(policy: str) -> None:
    """Kiefer and Wolfowitz: the first server that is free takes the next job."""
    trace = singles(800, 16, 0.8, 5)
    cluster = LeafTrunks(2, 2, 4, grid=(2, 2, 1))
    ran = run_stream(trace, cluster, policy=policy, queue="fifo")  # type: ignore[arg-type]
    free = np.zeros(16)
    waits = []
    for arrival, duration in zip(trace.arrival_s, trace.duration_s, strict=True):
        server = free.argmin()
        start = max(arrival, free[server])
        waits.append(start - arrival)
        free[server] = start + duration
    assert ran.start_s - trace.arrival_s == pytest.approx(waits, rel=1e-9, abs=1e-6)


def test_whole_clusters_wait_as_in_a_queue_of_one_server() -> None:
    """Lindley: a wait is the last one and its job less the time between, or nothing."""
    trace = replace_columns(singles(800, 1, 0.7, 6), gpus=np.full(800, 32))
    ran = run_stream(trace, LeafTrunks(2, 2, 8, 4.0), queue="fifo")
    waits = ran.start_s - trace.arrival_s
    expected = [0.0]
    for job, (early, late) in enumerate(pairwise(trace.arrival_s.tolist())):
        expected.append(max(0.0, expected[-1] + trace.duration_s[job] - (late - early)))
    assert waits == pytest.approx(expected, rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("queue", ["fifo", "backfill", "sjf"])
def test_little_and_the_gpu_time(queue: str) -> None:
    trace = drawn(400, 128, 0.9, 8)
    ran = run_stream(trace, LeafTrunks(4, 4, 8, 4.0), queue=queue)  # type: ignore[arg-type]
    # The time integral of the number that waits is the sum of the waits.
    events = sorted([(s, 1) for s in trace.arrival_s] + [(s, -1) for s in ran.start_s])
    waiting, area, before = 0, 0.0, 0.0
    for time, change in events:
        area, before = area + waiting * (time - before), time
        waiting += change
    assert area == pytest.approx((ran.start_s - trace.arrival_s).sum(), rel=1e-9)
    nodes = np.where(trace.gpus <= 8, trace.gpus, -(-trace.gpus // 8) * 8)
    assert ran.gpu_s == pytest.approx((nodes * (ran.end_s - ran.start_s)).sum(), rel=1e-9)
    assert 0 <= ran.early_gpu_s <= ran.gpu_s


@pytest.mark.parametrize("policy", POLICIES)
def test_trunks_of_full_rate_are_no_trunks(policy: str) -> None:
    trace = drawn(300, 64 if policy == "domain" else 128, 0.9, 9)  # a leaf has 32
    shared, alone = (
        run_stream(trace, LeafTrunks(4, 4, 8, 1.0, sharing=sharing), policy=policy)  # type: ignore[arg-type]
        for sharing in (True, False)
    )
    assert shared.end_s.tolist() == alone.end_s.tolist()


@pytest.mark.parametrize(("jobs", "nodes", "rate"), [(2, 8, 1 / 2), (3, 8, 2 / 3)])
def test_rings_over_the_same_two_leaves_share_their_trunk(
    jobs: int, nodes: int, rate: float
) -> None:
    """Two rings on a trunk of one node have 1/2 each, three on one of two nodes 2/3."""
    trunk = {2: 1.0, 3: 2.0}[jobs]
    ratio = nodes / trunk
    trace = trace_of([Job(i, 0.0, 2, 100.0, 0.3, to_all=False) for i in range(jobs)])
    ran = run_stream(trace, LeafTrunks(2, nodes, 1, ratio), policy="scattered", queue="fifo")
    assert ran.leaves.tolist() == [2] * jobs
    slowdown = 1 - 0.3 + 0.3 / rate
    assert ran.end_s == pytest.approx([100 * slowdown] * jobs, rel=1e-12)
    if jobs == 2:
        assert slowdown == pytest.approx(1 + 0.3)


def test_backfilling_passes_a_head_that_still_starts_in_time() -> None:
    """8 GPUs: 6 run to 100 s; the head of 8 waits; of two that fit now the short one starts."""
    jobs = [Job(0, 0, 6, 100, 0, to_all=False), Job(1, 1, 8, 50, 0, to_all=False)]
    jobs += [Job(2, 2, 2, 120, 0, to_all=False), Job(3, 3, 2, 97, 0, to_all=False)]
    ran = run_stream(trace_of(jobs), LeafTrunks(1, 1, 8), queue="backfill")
    assert ran.start_s.tolist() == [0.0, 100.0, 150.0, 3.0]
    assert run_stream(trace_of(jobs), LeafTrunks(1, 1, 8), queue="fifo").start_s[3] == 150.0
    # Shortest first: at 100 s the head of 50 s takes all, then 97 s and 120 s go side by side.
    shortest = run_stream(trace_of(jobs), LeafTrunks(1, 1, 8), queue="sjf")
    assert shortest.start_s.tolist() == [0.0, 100.0, 150.0, 150.0]


def test_policies_choose_as_their_table_says() -> None:
    """Leaves of 3 nodes of 4 GPUs; a job of 2 GPUs on the first node, one of 8 on leaf 1."""

    def cluster(policy: str) -> Occupancy:
        occupancy = Occupancy(3, 3, 4, policy)  # type: ignore[arg-type]
        occupancy.take(JobPlace(np.array([0]), 2, np.array([0]), np.array([1])))
        occupancy.take(JobPlace(np.array([3, 4]), 4, np.array([1]), np.array([2])))
        return occupancy

    nodes = {
        policy: [
            place.nodes.tolist() for gpus in (2, 1, 8, 12) if (place := cluster(policy).place(gpus))
        ]
        for policy in ("packed", "scattered", "first")
    }
    assert nodes == {
        "packed": [[0], [0], [1, 2], [6, 7, 8]],
        "scattered": [[6], [6], [1, 6], [1, 6, 7]],
        "first": [[0], [0], [1, 2], [1, 2, 5]],
    }
    # 20 GPUs are 5 of 6 free nodes: packed takes leaf 2, and then leaf 0 that holds the rest.
    packed = cluster("packed").place(20)
    assert packed is not None
    assert packed.nodes.tolist() == [1, 2, 6, 7, 8]
    assert cluster("packed").place(28) is None


def test_all_to_all_asks_more_of_the_leaf_that_holds_half() -> None:
    place = JobPlace(np.arange(8), 8, np.array([0, 1, 2]), np.array([4, 3, 1]))
    assert uplink_loads(place, all_to_all=True) == pytest.approx([16 / 7, 15 / 7, 1.0])
    alone = JobPlace(np.arange(3), 8, np.array([0]), np.array([3]))
    assert uplink_loads(alone, all_to_all=True).tolist() == [0.0]


HEADER = "id,arrival,gpus,duration,comm,pattern\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "trace.csv"
    path.write_text(text, encoding="utf-8")
    return path


def figures(path: Path, **more: object) -> dict[str, object]:
    given: dict[str, object] = {"leaves": 2, "nodes": 2, "gpus": 8, "ratio": 2}
    given |= {"policy": "packed", "queue": "backfill"} | more
    return dict(stream(path, **given))  # type: ignore[arg-type]


def test_a_trace_is_sorted_scaled_and_answered_by_name(tmp_path: Path) -> None:
    """Two of 32 GPUs: 100 s from 0, 50 s from 20 x 0.5: it waits 90 s. Slowdown 1.2 at R = 1/2.

    All to all over leaves of 2 of 4 nodes wants 2 x 2 / 3 of a trunk of 1: R = 3/4.
    """
    path = written(tmp_path, HEADER + "9,20,32,50,0.3,all-to-all\n10,0,32,100,0,ring\n")
    assert read_trace(path).ids == ("10", "9")
    found = figures(path, arrival_scale=0.5)
    slowdown = 1 - 0.3 + 0.3 * 4 / 3
    assert found["trace"] == "trace"
    assert found["mean_wait"] == pytest.approx(45.0)
    assert found["makespan"] == pytest.approx(100 + 50 * slowdown)
    assert found["mean_slowdown"] == pytest.approx((1 + slowdown) / 2)
    assert found["sor_to_last_arrival"] == pytest.approx(1.0)
    assert found["mean_leaves"] == 2
    columns = "trace arrival_scale leaves nodes gpus ratio policy queue makespan mean_wait"
    columns += " mean_completion mean_slowdown mean_leaves sor sor_to_last_arrival gfr"
    assert list(found) == columns.split()


def test_what_a_trace_leaves_out_is_assumed(tmp_path: Path) -> None:
    """No exposed communication inside a node, 0.2 in a ring beyond it."""
    short = written(tmp_path, "id,user,arrival,gpus,duration\na,x,0,8,10\nb,y,0,16,10\n")
    jobs = read_trace(short)
    assert np.isnan(jobs.comm).all()
    assert not jobs.all_to_all.any()
    given = replace_columns(jobs, comm=np.array([0.0, 0.2]))
    cluster = LeafTrunks(2, 2, 8, 8.0)
    both: list[JobStream] = [
        run_stream(each, cluster, policy="scattered") for each in (jobs, given)
    ]
    assert both[0].end_s.tolist() == both[1].end_s.tolist()
    assert both[0].end_s[1] > 10


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "a column 'id'"),
        ("id,arrival,duration\n", "a column 'gpus'"),
        (HEADER, "no job in it"),
        (HEADER + "1,0,8,5,0,ring\n1,0,8,5,0,ring\n", "3: job 1 stands on line 2"),
        (HEADER + ",0,8,5,0,ring\n", "2: column id is empty"),
        (HEADER + "1,-1,8,5,0,ring\n", "column arrival is -1"),
        (HEADER + "1,soon,8,5,0,ring\n", "column arrival is soon"),
        (HEADER + "1,nan,8,5,0,ring\n", "column arrival is nan"),
        (HEADER + "1,0,0,5,0,ring\n", "column gpus is 0: give 1 or more"),
        (HEADER + "1,0,1.5,5,0,ring\n", "column gpus is 1.5: give a whole number"),
        (HEADER + "1,0,8,0,0,ring\n", "column duration is 0"),
        (HEADER + "1,0,8,1e308,0,ring\n", r"column duration is 1e308: give .* below 1e\+12"),
        (HEADER + "1,0,8,5,1,ring\n", "column comm is 1: give 0 or more, below 1"),
        (HEADER + "1,0,8,5,0,star\n", "column pattern is star"),
        (HEADER + "1,0,8\n", "column duration is empty"),
        (HEADER + "1,0,64,5,0,ring\n", "job 1 asks for 64 of 32 GPUs"),
        (HEADER + '1,0,"8,5\n', "not CSV"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, text: str, word: str) -> None:
    with pytest.raises(NetplanError, match=word):
        figures(written(tmp_path, text))


def test_what_is_no_cluster_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER + "1,0,8,5,0,ring\n")
    for more, word in (
        ({"leaves": 0}, "has leaves"),
        ({"ratio": 0}, "oversubscribed 0 to 1"),
        ({"policy": "tetris"}, "places jobs 'tetris'"),
        ({"queue": "lifo"}, "is called 'lifo'"),
        ({"arrival_scale": -1.0}, "scaled by -1"),
    ):
        with pytest.raises(NetplanError, match=word):
            figures(path, **more)
    with pytest.raises(NetplanError, match="nowhere"):
        figures(tmp_path / "nowhere.csv")
