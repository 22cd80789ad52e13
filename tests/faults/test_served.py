"""Failures of clusters that serve: servers lost by hand, what is left as netplan serving has it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netplan
from netplan.answers.served_faults_answer import ServedFabric, ServedFaultsAnswer, ServedScenario
from netplan.errors import InputError
from netplan.faults.damage.damage import find_effects
from netplan.faults.damage.scenario import parse_faults
from netplan.faults.years.served import ServedCluster, ServedImpact, answering
from netplan.performance.serving.disaggregated import Pools, disaggregated
from netplan.performance.serving.outcomes import Goal
from netplan.questions.serving import ServingQuestion
from netplan.records import replace
from netplan.scenarios.reading import CatalogReader
from netplan.setup.serving_run import search_servers
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Sizing
from netplan.topologies.specs import FABRICS

EIGHT = {"model": "llama-3.1-8b", "accelerator": "h200", "gpus": 8, "precision": "fp8"}
ONE_EACH = EIGHT | {"fixed": {"tensor": 1, "pipeline": 1}}
ACROSS = {"model": "llama-3.1-70b", "accelerator": "h200", "gpus": 32, "precision": "fp8"}
LONG = ACROSS | {"fixed": {"tensor": 16, "pipeline": 1}, "concurrency": 64}


def asked(**question: object) -> ServedFaultsAnswer:
    rail = {"fabrics": "rail-only", "workload": "serving"}
    found = netplan.faults("serving-70b-h200", **(rail | question), prices="rail-only-2023")
    assert isinstance(found, ServedFaultsAnswer)
    return found


def fabric(**question: object) -> ServedFabric:
    (found,) = asked(**question).fabrics
    return found


def failed(*parts: str, **question: object) -> ServedImpact:
    found = fabric(fail=parts, **question).scenario
    assert isinstance(found, ServedScenario)
    return found.impact


def cluster(question: dict[str, object], spare_domains: int = 0) -> ServedCluster:
    """A rail-only cluster that serves."""
    serving = ServingQuestion.make("serving-70b-h200", **question)
    searched = search_servers(serving, CatalogReader(None, None), serving.cluster.fabric)
    spec, gpus = FABRICS.load("rail-only"), int(str(question["gpus"]))
    sizing = Sizing(gpus, 64, 8, 450e9, 50e9)
    return ServedCluster(
        *(spec, sizing, build_fabric(spec, sizing), None, spare_domains),
        planned=searched.found.best(searched.case),
        goal=Goal(),
    )


def test_one_of_eight_full_servers_takes_an_eighth() -> None:
    """Without a number of requests there are as many as memory holds: no server takes more."""
    lost = failed("gpu-3", **ONE_EACH)
    assert (lost.gpus_down, lost.servers_lost, lost.servers_left, lost.way) == (1, 1, 7, "without")
    assert lost.throughput_share == pytest.approx(7 / 8, rel=0.03)


def test_seven_eighths_of_the_requests_leave_seven_eighths_of_the_tokens() -> None:
    """Every server has as many requests as before: exactly."""
    eight = cluster(ONE_EACH | {"concurrency": 800})
    fewer = replace(eight.planned.outcome, concurrency=np.array([700.0]))
    seven = replace(eight, planned=replace(eight.planned, outcome=fewer))
    left = answering(seven, [np.ones((7, 2))])
    assert left is not None
    tokens = float(eight.planned.outcome.tokens_per_s[0])
    assert left.tokens_per_s / tokens == pytest.approx(7 / 8, rel=1e-12)


def test_servers_that_are_not_full_take_more_requests_each() -> None:
    """8 requests on 8 servers: of 7 servers each has 8/7, and a step is hardly longer."""
    lost = failed("gpu-3", **ONE_EACH, concurrency=8)
    assert 7 / 8 < lost.throughput_share < 1


@pytest.mark.parametrize("concurrency", [8, 512, 40_000])
def test_what_is_left_is_what_as_many_servers_give(concurrency: int) -> None:
    lost = failed("gpu-3", "gpu-6", **ONE_EACH, concurrency=concurrency)
    six = EIGHT | {"fixed": {"tensor": 1, "pipeline": 1, "replicas": 6}, "concurrency": concurrency}
    plan = netplan.serving("serving-70b-h200", **six).best
    assert lost.tokens_per_s == pytest.approx(plan.tokens_per_s, rel=1e-12)
    assert (lost.ttft_s, lost.tpot_s) == pytest.approx((plan.ttft_s, plan.tpot_s), rel=1e-12)


@pytest.mark.parametrize("extra", [{}, {"disaggregated": True}])
def test_without_failures_it_is_the_plan_of_serving(extra: dict[str, bool]) -> None:
    question = ACROSS | {"concurrency": 256} | extra
    answer = netplan.serving("serving-70b-h200", **question)
    found = fabric(**question)
    assert replace(found.plan, rank=1) == answer.best
    nothing = failed("gpu=0", **question)
    assert nothing.tokens_per_s == pytest.approx(answer.best.tokens_per_s, rel=1e-12)
    assert nothing.throughput_share == pytest.approx(1)
    assert nothing.way == "all servers"


@pytest.mark.parametrize("tensor", [1, 2, 4, 8])
def test_a_gpu_stops_the_server_that_it_belongs_to(tensor: int) -> None:
    """Servers of neighbours in domains of 8: GPU g belongs to server g / tensor."""
    one = cluster(EIGHT | {"gpus": 16, "fixed": {"tensor": tensor, "pipeline": 1}})
    for gpu in range(16):
        damage = parse_faults([f"gpu-{gpu}"], one.graph)
        (paces,) = one.shares(damage, find_effects(one.graph, damage, one.components))
        assert np.flatnonzero((paces == 0).all(axis=1)).tolist() == [gpu // tensor]
        assert np.delete(paces, gpu // tensor, axis=0).min(initial=1) == 1


def test_half_of_the_ports_are_half_of_the_network() -> None:
    """A server of two domains, of which one has four of eight ports: as on links half as fast."""
    ports = [f"gpu-{gpu}:1" for gpu in range(4)]
    plain = fabric(**LONG)
    slow = failed(*ports, **LONG)
    rate = 25e9  # half of the 50e9 bytes/s of a port of H200
    rails = {"fabric": "rail-only", "overrides": {"accelerator.network_bytes_per_s": str(rate)}}
    half = netplan.serving("serving-70b-h200", **LONG | rails).best
    assert plain.plan.replicas == 2
    assert (slow.servers_lost, slow.gpus_cut_off) == (0, 4)
    # Either both servers answer, one slowly, or the other alone gives more.
    assert slow.tpot_s is not None
    if slow.servers_slowed:
        assert slow.tpot_s == pytest.approx(half.tpot_s, rel=1e-9)
    else:
        assert slow.servers_left == 1
    lone = answering(cluster(LONG), [np.array([[1.0, 0.5], [1.0, 0.5]])])
    assert lone is not None
    assert lone.slowed == 2
    assert lone.tpot_s == pytest.approx(half.tpot_s, rel=1e-9)
    assert lone.tokens_per_s == pytest.approx(half.tokens_per_s, rel=1e-9)


def test_ports_do_not_matter_to_servers_inside_their_domain() -> None:
    found = fabric(**ACROSS, concurrency=256)
    alone = {one.kind: one.impact for one in found.singles}
    for kind in ("nic", "host", "leaf"):
        assert (alone[kind].throughput_share, alone[kind].way) == (1, "all servers")
    assert alone["domain"].servers_lost == 8 // (found.plan.gpus_used // found.plan.replicas)


def test_idle_gpus_take_over() -> None:
    seven = EIGHT | {"fixed": {"tensor": 1, "pipeline": 1, "replicas": 7}, "concurrency": 64}
    again = failed("gpu-3", **seven)
    assert (again.servers_lost, again.servers_restarted, again.way) == (1, 1, "spare")
    assert again.throughput_share == pytest.approx(1)
    # The spare itself fails, too.
    assert failed("gpu-3", "gpu-7", **seven).servers_restarted == 0
    domain = failed("domain-0", **ACROSS, concurrency=256, spare_domains=1)
    assert (domain.servers_lost, domain.way) == (domain.servers_restarted, "spare")


def test_a_service_level_is_kept_or_missed() -> None:
    question = ONE_EACH | {"concurrency": 512}
    plan = netplan.serving("serving-70b-h200", **question).best
    assert failed("gpu-3", **question, level=False).keeps_level is None
    lost = failed("gpu-3", **question)
    assert lost.keeps_level is True  # the usual one
    assert lost.tpot_s is not None
    between = 500 * (plan.tpot_s + lost.tpot_s)  # ms
    assert failed("gpu-3", **question, tpot_ms=between).keeps_level is False
    assert failed("gpu-3", **question, tpot_ms=2 * between).keeps_level is True
    assert failed("gpu=8", **question, tpot_ms=between).way == "stopped"


def test_a_server_for_prompts_is_one_less_for_prompts() -> None:
    one = cluster(ACROSS | {"concurrency": 256, "disaggregated": True})
    assert one.planned.pools is not None
    first = int(one.servers[0][0, 0])
    found = one.impact(parse_faults([f"gpu-{first}"], one.graph))
    fewer = replace(one.planned.pools.prefill, replicas=one.planned.pools.prefill.replicas - 1)
    if not int(fewer.replicas[0]):
        assert found.way == "stopped"
        return
    left = disaggregated(one.planned.case, Pools(fewer, one.planned.pools.decode), 256.0)
    assert found.tokens_per_s == pytest.approx(float(left.tokens_per_s[0]))


@settings(max_examples=6, deadline=None)
@given(
    gpus=st.lists(st.integers(0, 31), min_size=1, max_size=6, unique=True),
    ports=st.lists(st.integers(0, 31), max_size=6, unique=True),
)
def test_a_further_failure_never_gives_more_tokens(gpus: list[int], ports: list[int]) -> None:
    parts = [*[f"gpu-{gpu}:1" for gpu in ports], *[f"gpu-{gpu}" for gpu in gpus]]
    rate = 1.0
    for count in range(1, len(parts) + 1):
        found = SPREAD.impact(parse_faults(parts[:count], SPREAD.graph))
        assert found.throughput_share <= rate * (1 + 1e-9)
        assert found.servers_left <= 8
        rate = found.throughput_share


SPREAD = cluster(ACROSS | {"fixed": {"tensor": 1, "pipeline": 4}, "concurrency": 64})


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ({"checkpoint_write_minutes": 2.0}, "--checkpoint-write 2.0 means nothing for --workload"),
        ({"timing": False}, "--no-timing"),
        ({"zero_stage": 1}, "--zero 1 means nothing for --workload serving"),
        ({"fail": ["spine=1"], "gpus": 32}, "--fail on rail-only"),
    ],
)
def test_inputs_of_training_are_refused(given_: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        fabric(**EIGHT | given_)


def test_inputs_of_serving_are_refused_of_training() -> None:
    with pytest.raises(InputError, match=r"--tpot-ms 20\.0 means nothing for training"):
        netplan.faults("rail-only-paper", gpus=64, tpot_ms=20.0)


def test_json_and_tables_name_all_failures() -> None:
    answer = asked(**ONE_EACH, concurrency=64, fail=["gpu=1"], draws=3)
    shown = answer.to_dict()
    (one,) = shown["fabrics"]
    assert one["fabric"] == "rail-only"
    assert one["plan"]["tokens_per_s"] > 0
    assert {"checkpoint_write_minutes", "iteration_model", "timing"}.isdisjoint(shown["inputs"])
    assert next(row["kind"] for row in one["singles"]) == "gpu"
    assert len(answer.to_frame()) > 0
    assert "goes on" in answer.text(details=True)
