"""The fastest block of LINPACK: bounds leave out no block that a full scan would take."""

from itertools import product

import pytest

from netplan.performance.mapping.network import ChipGrid
from netplan.performance.mapping.system import BLOCKS, fastest_steps, linpack_steps
from netplan.records import replace
from netplan.traffic.published_topology import Dimension
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.families import LinpackModel
from netplan.workloads.models import WORKLOADS


@pytest.mark.parametrize("chip", ["a100-80gb", "sn10"])
@pytest.mark.parametrize("link_bytes_per_s", [1e9, 25e9, 900e9])
@pytest.mark.parametrize("unknowns", [4096, 16_384])
def test_bounds_find_what_a_full_scan_finds(
    chip: str, link_bytes_per_s: float, unknowns: int
) -> None:
    hpl = WORKLOADS.load("hpl-16k")
    assert isinstance(hpl, LinpackModel)
    model, accelerator = replace(hpl, unknowns=unknowns), ACCELERATORS.load(chip)
    rate = link_bytes_per_s
    grids = [
        ChipGrid.published(Dimension("ring", rows, rate), Dimension("ring", 8, rate))
        for rows in (1, 4)
    ]
    designs = list(product([block for block in BLOCKS if block <= unknowns], grids))
    timed = []
    for block, grid in designs:
        exact = linpack_steps(replace(model, block=block), accelerator, grid)
        bound = linpack_steps(replace(model, block=block), accelerator, grid, bound=True)
        assert (bound.time_s <= exact.time_s * (1 + 1e-12)).all()
        timed.append((float(exact.time_s.sum()), block, grid.rows))
    total_s, steps = fastest_steps(model, accelerator, designs)
    assert (total_s, steps.block, steps.grid.rows) == min(timed, key=lambda run: run[0])
