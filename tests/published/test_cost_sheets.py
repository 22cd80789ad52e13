"""A public sheet of what an H100's network costs: its four totals, and netplan's, by hand."""

from netplan.published.checks import Check
from netplan.published.product_designs import cost_sheet_checks

SWITCH = 50_000
"""A box of 64 ports of 400 Gb/s [USD], as the sheet and the book have it."""

CARD_MODULE = 611.95
"""A module of one link of 400 Gb/s, of a card [USD]: the middle of eight lists of 2026."""

TWIN_MODULE = 889.0
"""A module of two such links, of a switch [USD]: the middle of two lists."""

SHEET = {512: 1883, 1024: 4247, 2048: 4247, 32_768: 6612}


def by_hand(gpus: int) -> float:
    """Switches and optics for one GPU [USD]: eight rails of boxes of 64 ports."""
    hosts = gpus // 8
    if hosts <= 64:  # a rail is one box of as many ports as it has hosts
        boxes, trunks = 8, 0
    elif hosts <= 32 * 64:  # leaves of 32 down and 32 up, spines of 64: 1/32 + 1/64 boxes a host
        boxes, trunks = gpus // 32 + gpus // 64, gpus
    else:  # two tiers of 32 down and 32 up, and a top of 64
        boxes, trunks = 2 * (gpus // 32) + gpus // 64, 2 * gpus
    switch_ends = gpus + 2 * trunks  # two links a cage
    return (boxes * SWITCH + switch_ends // 2 * TWIN_MODULE + gpus * CARD_MODULE) / gpus


def test_four_totals_of_a_public_sheet_are_met_within_fifteen_percent() -> None:
    checks: list[Check] = list(cost_sheet_checks())
    assert [float(check.expected) for check in checks] == list(SHEET.values())
    for check, (gpus, published) in zip(checks, SHEET.items(), strict=True):
        mine = by_hand(gpus)
        assert abs(float(check.got) - mine) < 1, (gpus, mine)
        assert abs(mine / published - 1) < 0.15
        assert (check.verdict, bool(check.reason)) == ("pass", True)
