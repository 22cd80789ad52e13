"""Whether two networks train as fast: errors of one model are shared."""

import pytest

import netplan


def test_a_network_that_no_run_is_like_is_not_as_fast_for_that() -> None:
    """Experts over domains of rails have a wider bar, and are forwarded: that costs a fifth."""
    asked = {"model": "deepseek-v3", "gpus": 1024, "dispatcher": "alltoall"}
    asked |= {"expert_degree": 64, "fabrics": ["rail-only", "rail-optimized"]}
    rows = netplan.compare("hgx-b200", **asked)
    rails, clos = (row.best for row in rows.rows)
    assert rails is not None
    assert clos is not None
    slower = rails.iteration_time_s / clos.iteration_time_s - 1
    assert slower == pytest.approx(0.2, abs=0.05)
    assert rails.equals(clos)
    assert not rails.as_fast_as(clos)
    assert rows.to_dict()["decision"]["winner"] == "rail-optimized"
