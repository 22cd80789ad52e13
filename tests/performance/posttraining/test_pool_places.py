"""Pools on the GPUs of a cluster: each GPU once, whole HB domains first, pieces in one domain."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.performance.posttraining.placed_weights import pool_gpus

POOLS = st.lists(st.integers(0, 60), min_size=1, max_size=3)


@given(POOLS, st.integers(0, 40), st.integers(1, 9))
def test_every_gpu_is_in_one_pool_at_most(sizes: list[int], idle: int, domain: int) -> None:
    gpus = sum(sizes) + idle
    pools = pool_gpus(sizes, gpus, domain)
    together = np.concatenate(pools)
    assert [len(pool) for pool in pools] == sizes
    assert len(np.unique(together)) == len(together)
    assert not len(together) or 0 <= together.min() <= together.max() < gpus
    for size, pool in zip(sizes, pools, strict=True):
        whole = pool[: size // domain * domain].reshape(-1, domain)
        assert (whole % domain == np.arange(domain)).all()
        assert (whole // domain == whole[:, :1] // domain).all()


@given(POOLS, st.integers(1, 9))
def test_what_fills_no_domain_lies_in_one_where_domains_are_left(
    sizes: list[int], domain: int
) -> None:
    """As many more domains as there are pools: each piece may have one of its own."""
    whole = sum(-(-size // domain) for size in sizes)
    pools = pool_gpus(sizes, whole * domain, domain)
    for size, pool in zip(sizes, pools, strict=True):
        assert len(np.unique(pool[size // domain * domain :] // domain)) <= 1


def test_pieces_of_both_pools_share_a_domain() -> None:
    """100 and 116 of 216 in domains of 72: the pieces are 28 and 44, 72 together."""
    rollout, trainer = pool_gpus((100, 116), 216, 72)
    assert rollout.tolist() == list(range(100))
    assert trainer.tolist() == [*range(144, 216), *range(100, 144)]


def test_pools_larger_than_their_cluster_are_refused() -> None:
    with pytest.raises(InputError, match="pools of 8, 9 GPUs on 16"):
        pool_gpus((8, 9), 16, 8)
