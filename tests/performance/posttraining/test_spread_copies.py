"""Copies of an HB domain that share what enters: as many bytes, over more cards."""

import numpy as np
import pytest

from netplan.performance.posttraining.placed_weights import (
    LayerWeights,
    PlacedCopies,
    placed_copies,
    stages_of_layers,
)
from netplan.performance.posttraining.sync_traffic import SyncPools, SyncScheme, sync_traffic
from netplan.records import replace
from netplan.traffic.matrix import TrafficMatrix
from netplan.traffic.placement import Degrees, Placement

DOMAIN = 8
LAYERS = LayerWeights(np.array([3.0, 1.0, 2.0, 5.0]), np.array([0.0, 8.0, 8.0, 8.0]), 2.0)


def copies_of(first: int, **degrees: int) -> PlacedCopies:
    """Copies on GPUs from the first one on."""
    placement = Placement((Degrees(**degrees),), first=first)
    return placed_copies(placement, stages_of_layers(4, placement.totals.pipeline))


def pools_of(tensor: int, pipeline: int) -> SyncPools:
    """Two domains of servers whose copies have so many GPUs, behind a trainer of two domains."""
    servers = copies_of(16, tensor=tensor, pipeline=pipeline, data=16 // (tensor * pipeline))
    return SyncPools(copies_of(0, tensor=4, data=4), servers, gpus=32, domain=DOMAIN)


def entering(matrix: TrafficMatrix) -> np.ndarray:
    """What each GPU takes from other domains [B]."""
    flows = matrix.listed()
    away = flows.source // DOMAIN != flows.destination // DOMAIN
    taken: np.ndarray = np.bincount(
        flows.destination[away], weights=flows.flow_bytes[away], minlength=matrix.gpus
    )
    return taken


def received(matrix: TrafficMatrix) -> np.ndarray:
    """What each GPU takes of all others [B]."""
    flows = matrix.listed()
    taken: np.ndarray = np.bincount(
        flows.destination, weights=flows.flow_bytes, minlength=matrix.gpus
    )
    return taken


@pytest.mark.parametrize(("tensor", "pipeline"), [(1, 1), (2, 1), (4, 1), (2, 2), (8, 1), (8, 2)])
@pytest.mark.parametrize("kind", ["sharded", "experts", "delta"])
def test_every_gpu_gets_as_much_and_domains_as_much(kind: str, tensor: int, pipeline: int) -> None:
    pools = pools_of(tensor, pipeline)
    scheme = SyncScheme(
        kind=kind,  # type: ignore[arg-type]
        changed=0.5 if kind == "delta" else 1.0,
        expert_gpus=tensor,
    )
    first, shared = (
        sync_traffic(LAYERS, pools, replace(scheme, spread=spread)) for spread in (False, True)
    )
    assert received(shared) == pytest.approx(received(first))
    by_domain = [entering(matrix).reshape(-1, DOMAIN).sum(axis=1) for matrix in (first, shared)]
    assert by_domain[1] == pytest.approx(by_domain[0])
    assert entering(shared).max() <= entering(first).max() * (1 + 1e-12)


def test_four_copies_of_two_gpus_take_a_quarter_each() -> None:
    """70 B of weights, halved: 35 B enter a domain for each shard, over four cards."""
    weights = LAYERS.weights
    assert weights.copy_bytes == 70.0
    shared = sync_traffic(LAYERS, pools_of(2, 1), SyncScheme(spread=True))
    assert entering(shared)[16:] == pytest.approx(np.full(16, 35.0 / 4))
    flows = shared.listed()
    inside = flows.source // DOMAIN == flows.destination // DOMAIN
    # Each hands its quarter on to three others of its shard.
    assert (flows.source[inside] % 2 == flows.destination[inside] % 2).all()
    assert flows.flow_bytes[inside] == pytest.approx(35.0 / 4)
    assert inside.sum() == 16 * 3
