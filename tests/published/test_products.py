"""Products of 2026: what reproduces, by hand, and what netplan has no structure for."""

import pytest

from netplan.published.checks import published
from netplan.published.product_designs import PrintedProduct, product_checks

ROWS = published("product-designs")
EVIDENCE = {"shipping", "announced", "rumoured"}


def test_every_row_is_computed_or_says_what_is_missing() -> None:
    checks = {check.name: check for check in product_checks()}
    assert len(checks) == len(ROWS) == 60
    assert {check.verdict for check in checks.values()} == {"pass", "known"}
    for row in ROWS:
        assert bool(row["quantity"]) == bool(row["inputs"])
        assert row["evidence"] in EVIDENCE
        assert row["date"] >= "2025"
        assert row["quantity"] or len(row["reason"]) > 40
    # A round number of cables, and gigabytes that are rounded in a file.
    close = [check.name for check in checks.values() if check.grade == "close"]
    assert close == ["Vera Rubin NVL72: copper cables", "Trn3 Gen2 UltraServer: memory, GiB"]
    # What is not planned is off, or its source's where its wiring is not published.
    unplanned = {row["name"] for row in ROWS if not row["quantity"]}
    assert {checks[name].got for name in unplanned} == {"not planned"}
    assert {checks[name].grade for name in unplanned} == {"off", "source"}


@pytest.mark.parametrize(
    ("name", "by_hand"),
    [
        ("Vera Rubin NVL72: NVLink switch chips", 9 * 4),
        ("Vera Rubin NVL72: links of GPUs to switch chips", 72 * 36),
        ("Vera Rubin NVL72: ConnectX-9 ports", 18 * 8),
        ("Vera Rubin NVL72: HBM, TB", 72 * 0.288),
        ("Vera Rubin NVL72: fp8, PFLOP/s", 72 * 17.5),
        ("Trn3 Gen2 UltraServer: MXFP8, TFLOP/s".replace("TFLOP", "PFLOP"), 144 * 2.517),
        ("Trn3 Gen2 UltraServer: EFA, Gb/s", 144 * 200),
        ("Trn3: links of a chip", 4 + 5 + 2),
        ("Atlas 950 SuperCluster: NPUs", 64 * 8192),
        ("CloudMatrix384: L1 UB switches", 48 * 7),
        ("CloudMatrix384: L2 UB switches", 7 * 16),
        ("CloudMatrix384: rate of an NPU, GB/s", 7 * 56),
        ("MRC, eight planes: ports of 100G of a 51.2T switch", 51_200 / 100),
        ("MRC, eight planes: switches", 8 * (512 + 256)),
        ("MRC, eight planes: lost with a link of a leaf", 1 / 256),
        ("MRC, one plane: lost with a link of a leaf", 1 / 32),
        ("AMD Helios: scale-out, both ways, TB/s", 72 * 0.6),
        ("SN6800: ports of 800G", 512),
    ],
)
def test_by_hand(name: str, by_hand: float) -> None:
    (check,) = (check for check in product_checks() if check.name == name)
    assert float(check.got) == pytest.approx(by_hand, rel=0.01)
    assert check.verdict == "pass"


def test_a_wrong_part_is_found() -> None:
    """One switch chip a tray less, or cards of half the rate, would not be what is printed."""
    rack = PrintedProduct(accelerator="vr-nvl72", fabric="vr-nvl72")
    assert rack.hb["switches"] == 36
    fewer = PrintedProduct(accelerator="vr-nvl72", fabric="nvl72")
    assert (fewer.hb["switches"], fewer.hb["links"]) == (18, 72 * 18)
    helios = PrintedProduct(accelerator="mi455x", gpus=72)
    slower = PrintedProduct(accelerator="mi455x", gpus=72, nic_gbps=1200)
    assert slower.built.gpu_bytes_per_s == pytest.approx(helios.built.gpu_bytes_per_s / 2)
