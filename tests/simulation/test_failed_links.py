"""Iterations on what failures leave: by hand, beside netplan faults, and never faster."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.faults.damage.damage import find_effects
from netplan.faults.damage.degraded_links import routing_of_left
from netplan.faults.damage.rerouting import LiveRouter, training_loads
from netplan.faults.damage.scenario import parse_faults
from netplan.performance.plan_traffic import plan_traffic
from netplan.simulation.outcome import SimulationOutcome
from netplan.simulation.simulate import Conditions, simulate_training
from tests.simulation.placed import Case, placed

RAIL: Case = {
    "gpus": 24,
    "radix": 8,
    "oversubscription": 3,
    "hb_size": 2,
    "fabric": "rail-only",
    "model": "gpt-22b",
    "batch": 24,
    "fixed": {"pipeline": 2, "tensor": 2, "microbatch": 1},
    "iteration_model": "ptd-p",
}
"""Two rails; the six GPUs below a leaf are one stage's, and share two links up."""


def failed(*fail: str, seed: int = 0, **inputs: Any) -> SimulationOutcome:  # noqa: ANN401 - of every type
    """What becomes of such a run when parts fail; without any, on the same kind of routes."""
    run, graph = placed(**inputs)
    damage = parse_faults(fail, graph, rng=np.random.default_rng(seed))
    routing = routing_of_left("auto", graph)
    conditions = Conditions(routing=routing, routes=LiveRouter(graph, damage) if fail else None)
    return simulate_training(run.setting, run.timed, run.fabric, graph, conditions)


def test_one_of_two_trunks_dead_doubles_what_passes_the_other() -> None:
    """Six GPUs below a leaf hand on over two links, three each; then over one, six.

    One microbatch crosses forward, and its gradients back: twice the time of what passes a trunk.
    """
    one = {**RAIL, "batch": 6}
    whole, broken = failed(**one), failed("leaf-spine=1", **one)
    before, after = (
        next(group.busy_s for group in found.groups if group.group == "leaf-spine")
        for found in (whole, broken)
    )
    assert after == pytest.approx(2 * before, rel=1e-12)
    more_s = broken.iteration_time_s - whole.iteration_time_s
    assert more_s == pytest.approx(2 * before, rel=1e-9)


@pytest.mark.parametrize("fabric", ["fat-tree", "rail-only", "torus-2d", "dragonfly", "hyperx"])
def test_nothing_failed_changes_nothing(fabric: str) -> None:
    whole, same = failed(fabric=fabric), failed("links=0", fabric=fabric)
    assert same.iteration_time_s == pytest.approx(whole.iteration_time_s, rel=1e-9)
    for one, other in zip(same.groups, whole.groups, strict=True):
        assert one.busy_s == pytest.approx(other.busy_s, rel=1e-9)


def test_links_are_as_busy_as_netplan_faults_reroutes_them() -> None:
    """The same bytes by the same equal split: the busiest network link slows alike."""
    run, graph = placed(**RAIL)
    matrix = plan_traffic(run.setting, run.timed, graph.gpus, "hierarchical", ())
    for fail in (("leaf-spine=1",), ("leaf-spine=3",), ("rail-1/leaf-0",)):
        damage = parse_faults(fail, graph)
        loads = training_loads(graph, damage, matrix)
        found, whole = failed(*fail, **RAIL), failed(**RAIL)
        network = [
            max(one.busy_s for one in each.groups if one.group != "hb") for each in (found, whole)
        ]
        ratio = loads.busiest_s / loads.intact_busiest_s
        assert network[0] / network[1] == pytest.approx(ratio, rel=1e-9)


@settings(max_examples=10, deadline=None)
@given(
    fabric=st.sampled_from(
        ["fat-tree", "rail-only", "rail-optimized", "torus-2d", "dragonfly", "hyperx", "jellyfish"]
    ),
    links=st.integers(1, 12),
    seed=st.integers(0, 1_000),
    pipeline=st.sampled_from([1, 4, 16]),
)
def test_a_failure_never_makes_an_iteration_faster(
    fabric: str, links: int, seed: int, pipeline: int
) -> None:
    case: Case = {"fabric": fabric, "fixed": {"pipeline": pipeline}}
    _, graph = placed(**case)
    fail = f"links={links}"
    effects = find_effects(graph, parse_faults([fail], graph, rng=np.random.default_rng(seed)))
    if len(effects.cut_off_forwarding):
        with pytest.raises(InputError, match="ask netplan faults"):
            failed(fail, seed=seed, **case)
        return
    found, whole = failed(fail, seed=seed, **case), failed(**case)
    assert found.iteration_time_s >= whole.iteration_time_s * (1 - 1e-9)
