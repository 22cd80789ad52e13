"""Tables that correct measured products: shipped ones follow from the measured times."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.interpolate import RegularGridInterpolator

from netplan.errors import CatalogError
from netplan.published.checks import published
from netplan.workloads.accelerators import ACCELERATORS, Accelerator
from netplan.workloads.corrections import PRODUCT_SIZES, Corrections, corrections_of
from netplan.workloads.kernels import product_time_s
from netplan.workloads.precision import precision_named

MEASURED = sorted({row["accelerator"] for row in published("measured-products")})


def table_of(accelerator: Accelerator) -> Path:
    assert accelerator.measured is not None
    return Path(accelerator.measured.corrections)


def fitted(accelerator: Accelerator) -> Iterator[str]:
    """Lines of the table that belongs to an accelerator, from what was measured on a grid."""
    yield ",".join(["dtype", *PRODUCT_SIZES, "per_mille"])
    rows = published("measured-products")
    for row in rows:
        if row["accelerator"] == accelerator.name and row["use"] == "grid":
            m, n, k = (int(row[name]) for name in "mnk")
            computed_s = product_time_s(accelerator, row["dtype"], m, n, k, corrections=False)
            per_mille = round(1000 * math.log(float(row["time_s"]) / computed_s))
            yield f"{row['dtype']},{m},{n},{k},{per_mille}"


@pytest.mark.parametrize("name", MEASURED)
def test_shipped_tables_follow_from_what_was_measured(name: str) -> None:
    accelerator = ACCELERATORS.load(name)
    assert table_of(accelerator).stem == name
    lines = "\n".join(fitted(accelerator)) + "\n"
    if os.environ.get("NETPLAN_UPDATE_GOLDEN"):
        table_of(accelerator).write_text(lines, encoding="utf-8")
    assert table_of(accelerator).read_text(encoding="utf-8") == lines  # else NETPLAN_UPDATE_GOLDEN
    for dtype, table in corrections_of(table_of(accelerator)).items():
        assert table.values.shape == (9, 6, 6), dtype  # 324, of which the source lacks 9
        assert np.count_nonzero(table.values) <= 315


def test_interpolation_agrees_with_scipy() -> None:
    table = corrections_of(table_of(ACCELERATORS.load("h100-80gb")))["fp8"]
    oracle = RegularGridInterpolator(table.axes, table.values)
    rng = np.random.default_rng(7)
    m, n, k = np.exp(rng.uniform(np.log(1), np.log(1e6), (3, 500)))
    ends = [(axis[0], axis[-1]) for axis in table.axes]
    inside = [np.clip(np.log(s), *end) for s, end in zip((m, n, k), ends, strict=True)]
    expected = np.exp(oracle(np.stack(inside, axis=1)))
    np.testing.assert_allclose(table.factor(m, n, k), expected, rtol=1e-12)


def test_tables_are_met_at_their_own_sizes() -> None:
    # per mille of the logarithm: half a unit is 0.05 %
    grid = [row for row in published("measured-products") if row["use"] == "grid"]
    for row in grid[:40]:
        sizes = [int(row[name]) for name in "mnk"]
        time_s = product_time_s("a100-80gb", "bf16", *sizes, corrections=True)
        assert time_s == pytest.approx(float(row["time_s"]), rel=5.1e-4)


def test_a_missing_entry_is_no_correction(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("dtype,m,n,k,per_mille\nbf16,1,1,1,693.147\nbf16,4,4,4,693.147\n")
    table = corrections_of(path)["bf16"]
    assert table.factor(1, 1, 1) == pytest.approx(2)
    assert table.factor(4, 1, 1) == 1
    assert table.factor(2, 2, 2) == pytest.approx(2 ** (2 / 8))  # two of eight corners
    assert isinstance(table, Corrections)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("m,n,k\n", ":1: got columns 'm,n,k'"),
        ("dtype,m,n,k,per_mille\nbf16,1,2,3\n", ":2: a row has a precision and 4 numbers"),
        ("dtype,m,n,k,per_mille\nbf16,1,2,x,4\n", ":2: a row has a precision and 4 numbers"),
        ("dtype,m,n,k,per_mille\nint8,1,2,3,4\n", ":2: unknown dtype 'int8'"),
        ("dtype,m,n,k,per_mille\nbf16,0,2,3,4\n", ":2: sizes m, n, k are 1 to 1e+12"),
        ("dtype,m,n,k,per_mille\nbf16,1,2,3,nan\n", "per_mille at most 10000"),
        ("dtype,m,n,k,per_mille\nbf16,1,2,3,4\n", "bf16 has 1 x 1 x 1 sizes m, n, k"),
        ("dtype,m,n,k,per_mille\n" + "bf16,1,2,3,4\nbf16,2,3,4,5\n" * 2, "two rows of the same"),
        ("\xff", ":1: not UTF-8 text"),
    ],
)
def test_faults_of_a_table_name_file_and_line(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(CatalogError) as caught:
        corrections_of(path)
    assert str(path) in str(caught.value)
    assert fault in str(caught.value)


def test_tables_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    rows = [f"bf16,{i},{i},{i},1" for i in range(1, 200)]  # 199^3 entries
    path.write_text("\n".join(["dtype,m,n,k,per_mille", *rows]))
    with pytest.raises(CatalogError, match="at most 1,048,576 entries"):
        corrections_of(path)
    path.write_bytes(b"x" * (1 << 23))
    with pytest.raises(CatalogError, match="larger than 4 MiB"):
        corrections_of(path)
    with pytest.raises(CatalogError, match="cannot be read"):
        corrections_of(tmp_path / "none.csv")


def test_a_table_is_found_beside_its_accelerator_and_read_late(tmp_path: Path) -> None:
    text = ACCELERATORS.find("h100-80gb").read_text(encoding="utf-8")
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        text.replace("name: h100-80gb", "name: mine").replace("h100-80gb.csv", "mine.csv")
    )
    accelerator = ACCELERATORS.load(str(mine))  # there is no mine.csv yet
    plain_s = product_time_s(accelerator, "bf16", 64, 64, 64)
    with pytest.raises(CatalogError, match=r"mine\.csv: cannot be read"):
        product_time_s(accelerator, "fp8", 64, 64, 64)
    corners = [f"bf16,{m},{n},{k},1000" for m in (1, 9) for n in (1, 9) for k in (1, 9)]
    (tmp_path / "mine.csv").write_text("\n".join(["dtype,m,n,k,per_mille", *corners]))
    corrected_s = product_time_s(accelerator, "bf16", 64, 64, 64, corrections=True)
    assert corrected_s == pytest.approx(math.e * plain_s)
    (tmp_path / "mine.csv").write_text("\n".join(["dtype,m,n,k,per_mille", *corners[:7]]))
    corrected_s = product_time_s(accelerator, "bf16", 64, 64, 64, corrections=True)
    assert corrected_s == pytest.approx(plain_s)  # the changed file is read
    assert precision_named("fp16") == "bf16"
