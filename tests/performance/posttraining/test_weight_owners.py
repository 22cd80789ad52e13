"""Owners of weights: every replica as busy as every other, experts where they are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan.performance.posttraining.placed_weights import (
    LayerWeights,
    PlacedCopies,
    group_count,
    grouped_owners,
    over_rails,
    placed_copies,
    stages_of_layers,
)
from netplan.performance.posttraining.sync_traffic import SyncPools, SyncScheme, sync_traffic
from netplan.traffic.placement import Degrees, Placement


def copies_of(first: int, **degrees: int) -> PlacedCopies:
    placement = Placement((Degrees(**degrees),), first=first)
    return placed_copies(placement, stages_of_layers(4, placement.totals.pipeline))


@given(st.integers(1, 12), st.integers(1, 9), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2]))
def test_all_gpus_of_the_trainer_send_as_much(
    replicas: int, takers: int, tensor: int, stages: int
) -> None:
    """Layers that are alike: each of the trainer's GPUs sends its part of all copies."""
    trainer = copies_of(0, tensor=tensor, data=replicas, pipeline=stages)
    size = trainer.gpus.size
    owners = grouped_owners(trainer, group_count(replicas, takers))
    assert sorted(owners.gpus.ravel().tolist()) == list(range(size))
    servers = copies_of(size, tensor=4, data=takers)
    layers = LayerWeights(np.full(4, 2.0), np.zeros(4), 2.0)
    pools = SyncPools(owners, servers, gpus=size + 4 * takers, domain=1)
    flows = sync_traffic(layers, pools, SyncScheme()).listed()
    sent = np.bincount(flows.source, weights=flows.flow_bytes, minlength=size)
    assert sent[:size] == pytest.approx(np.full(size, takers * 16.0 / size))


def test_groups_keep_experts_where_they_are() -> None:
    """Two replicas of two expert ranks: both of a rank share the range that it has."""
    trainer = copies_of(0, expert=2, data=2)
    owners = grouped_owners(trainer, 1)
    before = trainer.by_experts  # replicas, stages, ranges
    assert set(owners.by_experts[0, 0, :2].tolist()) == set(before[:, 0, 0].tolist())
    assert set(owners.by_experts[0, 0, 2:].tolist()) == set(before[:, 0, 1].tolist())


def test_parts_of_a_domain_are_of_all_ranges() -> None:
    """Sixteen GPUs in domains of four: rank q of all domains has quarter q."""
    alone = PlacedCopies(np.arange(16).reshape(1, 1, 16, 1), np.zeros(1, np.int64))
    quarters = over_rails(alone, 4).by_tensor.reshape(4, 4)
    assert (quarters % 4 == np.arange(4)[:, None]).all()
