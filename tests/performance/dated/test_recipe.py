"""Recipes by date: every row of the table of presets, over all that its cells depend on."""

from itertools import product

import numpy as np
import pytest

from netplan.inputs.readers import FIRST_MONTH, LAST_MONTH
from netplan.performance.dated.recipe import Recipe, date_of, month_of
from netplan.workloads.accelerators import Generation

MONTHS = [
    f"{year}-{month:02}"
    for year in (2024, 2025, 2026)
    for month in range(1, 13)
    if FIRST_MONTH <= f"{year}-{month:02}" <= LAST_MONTH
]
GPUS: tuple[Generation, ...] = ("hopper", "blackwell")
GROUPS = np.array([1, 4, 8, 16, 64])
ALL = ("dispatcher", "expert_overlap", "graphs", "fused_experts")


def filled(  # noqa: PLR0913 - all that presets depend on
    recipe: Recipe,
    generation: Generation,
    *,
    rack: bool = False,
    hybrid: bool = False,
    detail: str = "bf16",
    gated: bool = True,
    sparse: bool = True,
) -> Recipe:
    return recipe.completed(
        generation=generation,
        rack=rack,
        precision_detail=detail,
        gated=gated,
        hybrid=hybrid,
        sparse=sparse,
    )


def switches(recipe: Recipe) -> tuple[str | None, bool | None, str | None, bool | None]:
    return recipe.dispatcher, recipe.expert_overlap, recipe.graphs, recipe.fused_experts


@pytest.mark.parametrize("month", [month for month in MONTHS if month <= "2025-07"])
def test_early_software_exchanges_plainly_and_launches_kernel_by_kernel(month: str) -> None:
    for generation, rack, hybrid in product(GPUS, (False, True), (False, True)):
        recipe = filled(Recipe(date_of(month)), generation, rack=rack, hybrid=hybrid)
        assert switches(recipe) == ("alltoall", False, "none", False)
        assert not recipe.merges(GROUPS, 8).any()


@pytest.mark.parametrize("month", [month for month in MONTHS if "2025-08" <= month <= "2026-05"])
@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("detail", ["bf16", "mxfp8"])
def test_presets_of_2025(month: str, *, hybrid: bool, detail: str) -> None:
    for generation in GPUS:
        hopper = generation == "hopper"
        racks = filled(Recipe(date_of(month)), generation, rack=True, hybrid=hybrid, detail=detail)
        assert switches(racks) == ("hybridep", hopper, "attn", False)
        assert racks.merges(GROUPS, 64).all()
        server = filled(Recipe(date_of(month)), generation, hybrid=hybrid, detail=detail)
        graphs = "attn" if hybrid else "router"
        assert switches(server) == (None, hopper, graphs, False)


@pytest.mark.parametrize(
    ("month", "hb_size", "names"),
    [
        # Of groups of 1, 4, 8, 16 and 64 GPUs; until December 2025 wherever domains end.
        ("2025-08", 8, "alltoall alltoall alltoall deepep deepep"),
        ("2025-12", 8, "alltoall alltoall alltoall deepep deepep"),
        ("2025-12", 4, "alltoall alltoall alltoall deepep deepep"),
        ("2026-01", 8, "hybridep hybridep hybridep deepep deepep"),
        ("2026-05", 8, "hybridep hybridep hybridep deepep deepep"),
        # What is no larger than a server, but than a domain, is exchanged as the year before.
        ("2026-05", 4, "hybridep hybridep alltoall deepep deepep"),
    ],
)
def test_dispatcher_of_servers_depends_on_the_group(month: str, hb_size: int, names: str) -> None:
    recipe = filled(Recipe(date_of(month)), "hopper")
    assert [recipe.dispatcher_of(group, hb_size) for group in GROUPS.tolist()] == names.split()
    merged = [name != "alltoall" for name in names.split()]
    assert recipe.merges(GROUPS, hb_size).tolist() == merged
    assert recipe.exchanges


@pytest.mark.parametrize("month", ["2026-06", "2026-07", "2026-09"])
def test_presets_of_june_2026_fuse_gated_experts_in_mxfp8_on_blackwell(month: str) -> None:
    for generation, rack, hybrid, detail, gated in product(
        GPUS, (False, True), (False, True), ("bf16", "fp8", "mxfp8", "fp4"), (False, True)
    ):
        recipe = filled(
            Recipe(date_of(month)), generation, rack=rack, hybrid=hybrid, detail=detail, gated=gated
        )
        fused = (generation, detail, gated) == ("blackwell", "mxfp8", True)
        assert switches(recipe) == ("hybridep", fused, "full" if fused else "attn", fused)
        assert recipe.merges(GROUPS, 8).all()
        assert recipe.from_date == ALL


def test_what_is_given_is_not_taken_from_the_date() -> None:
    given = Recipe(
        2026.42, dispatcher="alltoall", expert_overlap=False, graphs="router", fused_experts=False
    )
    assert filled(given, "blackwell", detail="mxfp8") == given  # from_date is empty, too
    assert not given.merges(GROUPS, 64).any()
    # Each switch stands alone: overlap and graphs stay those of the month's presets.
    part = filled(Recipe(2026.42, fused_experts=False), "blackwell", detail="mxfp8")
    assert switches(part) == ("hybridep", False, "attn", False)
    assert part.from_date == ("dispatcher", "expert_overlap", "graphs")
    gathered = filled(Recipe(2025.83, dispatcher="fsdp"), "hopper")
    assert not gathered.exchanges
    assert gathered.dispatcher_of(64, 8) == "fsdp"


@pytest.mark.parametrize("month", ["2025-01", "2025-10", "2026-06"])
def test_presets_are_of_experts_on_gpus(month: str) -> None:
    others: tuple[tuple[Generation, bool, bool], ...] = (
        ("hopper", False, False),
        ("blackwell", False, True),
        ("tpu", False, False),
        ("tpu", True, False),
    )
    for generation, sparse, hybrid in others:
        recipe = filled(
            Recipe(date_of(month)),
            generation,
            rack=True,
            hybrid=hybrid,
            detail="mxfp8",
            sparse=sparse,
        )
        # TPUs gather experts, and of dense models nobody asks.
        assert switches(recipe) == ("fsdp" if sparse else None, False, "none", False)
        assert recipe.from_date == ()
    kept = filled(Recipe(date_of(month), graphs="full"), "hopper", sparse=False)
    assert switches(kept) == (None, False, "full", False)


def test_months_and_dates_are_the_same() -> None:
    # 2026-06 is 2026 + 5/12 = 2026.4167, 2026.42 with two digits.
    assert [date_of(month) for month in ("2024-07", "2025-08", "2026-01", "2026-06")] == [
        2024.5,
        2025.58,
        2026.0,
        2026.42,
    ]
    for month in MONTHS:
        assert month_of(date_of(month)) == month
        assert abs(date_of(month) - int(month[:4]) - (int(month[5:]) - 1) / 12) <= 0.005
