"""What a question takes is said beforehand, holds, and is refused where it is more than allowed."""

import tracemalloc
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import netplan
from netplan.errors import InfeasibleError, InputError
from netplan.faults.damage.capacity import PairGraph
from netplan.questions.export import Export
from netplan.questions.faults import Faults
from netplan.questions.loads import Loads
from netplan.setup import footprint
from netplan.setup.faults_inputs import usual_years
from netplan.setup.footprint import IDLE_BYTES, fabric_links, free_bytes, measured_footprints
from netplan.setup.placed_run import as_wired
from netplan.topologies.expand import expand
from netplan.traffic.routing import Router
from netplan.traffic.training import use_traffic
from tests.cli.command import netplan as run
from tests.turns import one_in

FULL = 1_048_576


def peak_bytes(fabric: str, **given: object) -> tuple[float, float]:
    """Most memory of loads as counted, and as said beforehand, both beyond an idle process."""
    question = Loads.make(fabric=fabric, **given, max_memory=100e9)
    netplan.loads(gpus=64, fabric=fabric)  # modules and files are read
    tracemalloc.start()
    try:
        question.ask()
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert question.footprint
    return taken, question.footprint.peak_bytes - IDLE_BYTES


@pytest.mark.parametrize(
    ("fabric", "given"),
    [
        ("rail-optimized", {"gpus": 16_384}),
        pytest.param("rail-optimized", {"gpus": 65_536}, marks=pytest.mark.slow),
        ("rail-optimized", {"gpus": 36_864, "accelerator": "gb200", "radix": 64}),
        ("torus-3d", {"gpus": 32_768}),
        ("dragonfly", {"gpus": 32_768}),
    ],
)
def test_the_memory_said_beforehand_is_about_what_is_taken(
    fabric: str, given: dict[str, object]
) -> None:
    taken, said = peak_bytes(fabric, **given)
    assert said / 2 < taken < said * 2


def test_a_question_above_its_limit_is_refused_in_one_line_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("netplan.questions.loads.place_run", pytest.fail)
    done = run("loads", "--gpus", str(FULL), "--max-memory", "0.5GB", "-o", "x.json", cwd=tmp_path)
    assert (done.returncode, done.stdout, [*tmp_path.iterdir()]) == (2, "", [])
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"netplan: loads of {FULL:,} GPUs: about ")
    assert line.endswith(
        "500 MB is allowed (--max-memory): allow more, or ask about fewer GPUs or fabrics"
    )


def test_unasked_three_quarters_of_what_is_free_are_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(footprint, "free_bytes", lambda: 1e9)
    with pytest.raises(InfeasibleError, match=r"750 MB is allowed \(75 % of what is free\)"):
        Faults.make(gpus=FULL)
    assert Faults.make(gpus=FULL, max_memory="64GB").max_memory == 64e9
    monkeypatch.setattr(footprint, "free_bytes", lambda: 0.0)
    Faults.make(gpus=4096)  # small ones are not weighed


def test_a_limit_is_one_size() -> None:
    with pytest.raises(InputError, match="--max-memory is one size, such as 8GB, and no range"):
        Loads.make(max_memory="1GB..2GB")
    with pytest.raises(InputError, match="max_memory: 'much' is no size"):
        Loads.make(max_memory="much")
    with pytest.raises(InfeasibleError, match="loads of 1,024 GPUs: about"):
        Loads.make(gpus=1024, max_memory=1e6)


def test_what_is_long_is_said_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("export", "--gpus", "65536", "--to", "edges", "-o", "edges.csv")
    assert not run(*words, cwd=tmp_path).stderr.startswith("netplan: ")
    monkeypatch.setattr(footprint, "LONG_S", 0.1)
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 0
    said = Loads.make(gpus=65_536).also(Export, to="edges").footprint
    assert said
    assert done.stderr.splitlines()[0] == f"netplan: {said.text}"
    written = (tmp_path / "edges.csv").stat().st_size
    assert written / 1.3 < said.file_bytes < written * 1.3


def test_several_fabrics_come_one_after_the_other() -> None:
    names = ("rail-optimized", "torus-3d")
    both, *alone = (
        Faults.make(gpus=FULL, fabrics=some, max_memory=1e12).footprint
        for some in (names, names[:1], names[1:])
    )
    assert both
    assert both.processor_s == pytest.approx(sum(one.processor_s for one in alone if one))
    assert both.peak_bytes == max(one.peak_bytes for one in alone if one)
    assert "GPUs on 2 fabrics" in both.text


def test_measured_sizes_are_given_back_as_measured() -> None:
    rows = [row for row in measured_footprints() if row.command == "loads"]
    assert {row.fabric for row in rows} >= {"rail-optimized", "torus-3d", "dragonfly"}
    for row in rows:
        question = Loads.make(gpus=FULL, fabric=row.fabric, max_memory=1e12)
        assert fabric_links(question.cluster, question.reader(), row.fabric) == row.links
        assert question.footprint
        said = question.footprint.processor_s, question.footprint.peak_bytes
        assert said == pytest.approx((row.processor_s, row.peak_bytes))


def test_free_memory_is_the_least_of_machine_container_and_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = {"/proc/meminfo": ["MemTotal: 9 kB", "MemAvailable:  2000 kB"]}
    monkeypatch.setattr(footprint, "_lines", lambda path: files.get(path, []))
    monkeypatch.setattr(footprint, "_left_of_limit", list)
    assert free_bytes() == 2_048_000
    files |= {"/sys/fs/cgroup/memory.max": ["max"], "/sys/fs/cgroup/memory.current": ["5"]}
    assert free_bytes() == 2_048_000
    files["/sys/fs/cgroup/memory.max"] = ["1005"]
    assert free_bytes() == 1000
    monkeypatch.setattr(footprint, "_left_of_limit", lambda: [600.0])
    assert free_bytes() == 600
    files.clear()
    monkeypatch.setattr(footprint, "_left_of_limit", list)
    assert free_bytes() == float("inf")


def random_pair_graph(domains: int, switches: int, ports: int, seed: int) -> PairGraph:
    """Domains on some switches each, by one to three links."""
    random = np.random.default_rng(seed)
    leaf = np.concatenate(
        [np.sort(random.choice(switches, ports, replace=False)) for _ in range(domains)]
    )
    ends = np.stack((leaf, switches + np.repeat(np.arange(domains), ports)))
    units = random.integers(1, 4, len(leaf)).astype(np.float64)
    return PairGraph(np.ones(switches, np.int64), domains, ends, units)


def test_common_hubs_of_unlike_domains_are_those_of_each_pair_by_itself() -> None:
    graph = random_pair_graph(20, 12, 5, seed=3)
    a, b = np.triu_indices(20, 1)
    least, most = graph.common_hubs(a, b)
    reach = np.zeros((20, 12))
    reach[graph.ends[1] - 12, graph.ends[0]] = graph.units
    pairs = [(reach[i], reach[j]) for i, j in zip(a.tolist(), b.tolist(), strict=True)]
    assert least.tolist() == [int(np.minimum(one, other).sum()) for one, other in pairs]
    assert most.tolist() == [int(min(one.sum(), other.sum())) for one, other in pairs]


def test_a_million_classes_of_pairs_do_not_fill_the_memory() -> None:
    """1,389 domains of 72 GPUs under leaves of 64 ports: pairs times leaves were 22.5 GiB."""
    graph = random_pair_graph(1389, 3136, 72, seed=0)
    a, b = np.triu_indices(1389, 1)
    tracemalloc.start()
    try:
        graph.common_hubs(a, b)
        assert tracemalloc.get_traced_memory()[1] < 300e6
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_years_of_very_many_gpus_see_as_many_failures() -> None:
    answer = netplan.faults(
        "rail-only-paper", gpus=131_072, radix=128, fabrics=("rail-only",), timing=False
    )
    assert answer.inputs["years"] == answer.fabrics[0].forecast.years == 1000
    few = netplan.faults("rail-only-paper", gpus=64, radix=16, fabrics=("rail-only",), years=7)
    assert few.inputs["years"] == few.fabrics[0].forecast.years == 7


def test_usual_years_see_as_many_failures_whatever_the_size() -> None:
    assert [usual_years(gpus) for gpus in (131_072, 2 * 131_072)] == [1000, 500]


@pytest.mark.parametrize(
    ("fabric", "algorithm"),
    one_in(
        4,
        product(
            ("rail-only", "torus-3d", "dragonfly", "jellyfish"), ("ring", "hierarchical", "direct")
        ),
    ),
)
def test_like_collectives_are_as_busy_as_if_each_was_routed(fabric: str, algorithm: str) -> None:
    answer = netplan.loads(gpus=256, fabric=fabric, algorithm=algorithm)
    assert answer.run
    router = Router(expand(answer.run.spec, answer.run.fabric.sizing))
    (part,) = answer.run.parts
    for row, (use, placement, _) in zip(answer.collectives, part.uses, strict=True):
        matrix = use_traffic(use, placement, answer.run.algorithm, gpus=256)
        assert row.busiest_s == router.loads(as_wired(part.levels, matrix, uneven=False)).busiest_s
