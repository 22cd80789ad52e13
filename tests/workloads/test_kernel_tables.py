"""Tables of measured kernels: worked by hand, against plain Python, rising, and hostile files."""

import csv
import gzip
import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import convert

from netplan.catalog import shipped_root
from netplan.errors import CatalogError, InputError
from netplan.inputs.choices import Precision
from netplan.workloads.accelerators import ACCELERATORS, Accelerator
from netplan.workloads.kernel_tables import (
    EXPERTS,
    LATENT,
    PRODUCTS,
    ExpertKernel,
    StoredNumbers,
    expert_table_s,
    latent_table_s,
    product_table_s,
)
from netplan.workloads.kernels import fused_experts_time_s, latent_generation_time_s, product_time_s
from netplan.workloads.measured_rates import KernelTables
from netplan.workloads.operations import ExpertShape

FOLDER = shipped_root() / "traffic" / "kernel-tables"
CHIPS = ("a100-80gb", "h100-80gb", "h200", "b200", "b200-1000w", "b300", "gb200", "gb300")


def chip_with(tmp_path: Path, kind: str, text: str, name: str = "b200") -> Accelerator:
    """A chip with one table, of this text."""
    path = tmp_path / f"{kind}.csv"
    path.write_text(text, encoding="utf-8")
    return ACCELERATORS.load(name).changed(tables=convert({kind: str(path)}, KernelTables))


def times(
    chip: Accelerator, m: Sequence[float], n: float = 1024.0, k: float = 2048.0
) -> list[float]:
    """Products of bf16 in us."""
    sizes = np.array(m, dtype=np.float64), np.array(n), np.array(k)
    taken_s = product_table_s(chip, "bf16", *sizes)
    assert taken_s is not None
    return [float(1e6 * value) for value in taken_s]


def test_a_product_between_two_columns_and_two_matrices(tmp_path: Path) -> None:
    rows = ["dtype,n,k,m1,m16", "bf16,1024,1024,10,20", "bf16,1024,4096,30,90"]
    chip = chip_with(tmp_path, "products", "\n".join(rows))

    def form(m: float, k: float) -> float:
        return 1e6 * float(product_time_s(chip, "bf16", m, 1024, k, corrections=False))

    # k = 2048 lies ln 2 from both matrices: both weigh 1/2; m = 4 is half the way from 1 to 16.
    logs = [
        math.log(taken / form(m, k))
        for m, k, taken in ((1, 1024, 10), (16, 1024, 20), (1, 4096, 30), (16, 4096, 90))
    ]
    r = sum(logs) / 4
    assert times(chip, [4]) == pytest.approx([form(4, 2048) * math.exp(r)], rel=1e-12)
    # Points themselves: the other matrix has a weight of (0.001 / (ln 4 + 0.001))^2 = 5.2e-7.
    assert times(chip, [1, 16], k=1024) == pytest.approx([10, 20], rel=1e-5)
    # Beyond the table r stays that of the edge, and the form grows: m of 16 -> 64, k of 4096.
    beyond = 90 * form(64, 4096) / form(16, 4096)
    assert times(chip, [64], k=4096) == pytest.approx([beyond], rel=1e-5)
    smaller = 10 * form(1, 512) / form(1, 1024)
    assert times(chip, [1], k=512) == pytest.approx([smaller], rel=1e-5)


def test_a_dip_takes_what_fewer_rows_took(tmp_path: Path) -> None:
    rows = ["dtype,n,k,m1,m16,m64,m256", "bf16,1024,2048,10,40,20,50"]
    chip = chip_with(tmp_path, "products", "\n".join(rows))
    assert times(chip, [1, 16, 32, 64, 256]) == pytest.approx([10, 40, 40, 40, 50], rel=1e-9)


def test_a_cap_slows_what_was_measured_as_it_slows_the_form() -> None:
    full, capped = (
        ACCELERATORS.load("b200-1000w", overrides=asked)
        for asked in ({}, {"accelerator.power_cap_w": "500"})
    )
    (whole,), (slow,) = (times(chip, [16384], 8192, 8192) for chip in (full, capped))
    assert slow / whole == pytest.approx(1 / 0.6128, rel=0.02)  # it computes, memory hardly counts
    (whole,), (slow,) = (times(chip, [1], 8192, 8192) for chip in (full, capped))
    assert 1 <= slow / whole < 1.01  # it reads weights


# An oracle of its own: rows of the shipped files, one point at a time, no arrays.


@cache
def rows_of(chip: str, kind: str) -> list[dict[str, str]]:
    with gzip.open(FOLDER / f"{chip}-{kind}.csv.gz", "rt", encoding="utf-8") as file:
        return list(csv.DictReader(file))


Row = dict[str, str]
Timed = Callable[[float], float]


def weighed(
    rows: list[Row], places: list[tuple[float, ...]], wanted: tuple[float, ...], falling: float
) -> list[tuple[float, Row]]:
    """The nearest rows, four of them or six, with their weights."""
    axes = list(zip(*places, strict=True))
    inside = [min(max(x, min(axis)), max(axis)) for x, axis in zip(wanted, axes, strict=True)]
    apart = sorted((math.dist(inside, place), number) for number, place in enumerate(places))
    near = apart[: 6 if falling == 3 else 4]
    weights = [(distance + 0.001) ** -falling for distance, _ in near]
    return [(w / sum(weights), rows[number]) for w, (_, number) in zip(weights, near, strict=True)]


def left(row: Row, letter: str, size: float, form: Timed) -> float:
    """What a row leaves of its form at a size, linear between its columns that are not empty."""
    known = [
        (float(name[1:]), float(cell))
        for name, cell in row.items()
        if name[0] == letter and name[1:].isdigit() and cell
    ]
    size = min(max(size, known[0][0]), known[-1][0])
    logs = [math.log(1e-6 * taken / form(step)) for step, taken in known]
    for number in range(len(known) - 1):
        low, high = (math.log(known[number + end][0]) for end in (0, 1))
        if low <= math.log(size) <= high:
            share = (math.log(size) - low) / (high - low)
            return logs[number] + share * (logs[number + 1] - logs[number])
    return logs[0]


def number(row: Row, *names: str) -> tuple[float, ...]:
    """Cells of a row."""
    return tuple(float(row[name]) for name in names)


def logs_of(*sizes: float) -> tuple[float, ...]:
    """Natural logarithms."""
    return tuple(map(math.log, sizes))


def rising(time: Timed, size: float, steps: list[float]) -> float:
    """A time, no less than at smaller columns, no more than at larger ones."""
    expected = max(time(size), *(time(step) for step in steps if step <= size))
    after = [step for step in steps if step > size][:1]
    return min([expected, *(max(time(step), expected) for step in after)])


@pytest.mark.parametrize(
    ("name", "precision"), [("b200", "fp8"), ("h100-80gb", "bf16"), ("gb300", "fp4")]
)
def test_products_are_those_of_plain_python(name: str, precision: Precision) -> None:
    chip, random = ACCELERATORS.load(name), np.random.default_rng(1)
    rows = [row for row in rows_of(name, "products") if row["dtype"] == precision]
    places = [logs_of(*number(row, "n", "k")) for row in rows]
    steps = [float(key[1:]) for key in rows[0] if key[1:].isdigit()]
    shapes = np.exp(random.uniform(np.log([1, 90, 90]), np.log([3e4, 9e4, 9e4]), (12, 3))).tolist()
    for m, n, k in shapes:
        near = weighed(rows, places, logs_of(n, k), 2)

        def form(x: float, n: float, k: float) -> float:
            return float(product_time_s(chip, precision, x, n, k, corrections=False))

        def time(
            x: float, n: float = n, k: float = k, near: list[tuple[float, Row]] = near
        ) -> float:
            r = sum(
                weight * left(row, "m", x, lambda y, row=row: form(y, *number(row, "n", "k")))  # type: ignore[misc]
                for weight, row in near
            )
            return form(x, n, k) * math.exp(r)

        taken_s = product_table_s(chip, precision, *(np.array([size]) for size in (m, n, k)))
        assert taken_s == pytest.approx([rising(time, m, steps)], rel=1e-9)


SHAPE = ("hidden", "inter", "top_k", "experts")
Layer = tuple[float, float, float, float]
DEEPSEEK, OTHER = (7168.0, 2048.0, 8.0, 256.0), (5120.0, 1536.0, 6.0, 160.0)


@pytest.mark.parametrize("layer", [DEEPSEEK, OTHER])
def test_experts_are_those_of_plain_python(layer: Layer) -> None:
    chip, random = ACCELERATORS.load("b200"), np.random.default_rng(2)
    key = {"stack": "sglang", "dtype": "fp8-block", "distribution": "power_law_1.01"}
    rows = [row for row in rows_of("b200", "experts") if key.items() <= row.items()]
    same = [row for row in rows if number(row, *SHAPE) == layer]
    rows, exact = same or rows, bool(same)
    places = []
    for row in rows:
        inter, experts, tensor, expert = number(row, "inter", "experts", "tensor", "expert")
        places.append(logs_of(inter / tensor, experts / expert))
    _, inter, top_k, experts = layer
    for _ in range(10):
        tensor, expert = (float(2 ** random.integers(0, 4)) for _ in range(2))
        # Rows of other shapes are looked up at columns, and r is linear between these.
        power = random.uniform(0, 7)
        tokens = float(4**power) if exact else float(4 ** round(power))
        near = weighed(rows, places, logs_of(inter / tensor, experts / expert), 2)

        def form(x: float, sizes: tuple[float, ...]) -> float:
            hidden, inter, top_k, experts, tensor, expert, *_ = sizes
            shape = ExpertShape(hidden, inter, top_k, experts, tensor, expert)
            return float(
                fused_experts_time_s(chip, "fp8", x, shape, routing="random", corrections=False)
            )

        def time(
            x: float,
            cut: tuple[float, ...] = (tensor, expert),
            near: list[tuple[float, Row]] = near,
        ) -> float:
            r = 0.0
            for weight, row in near:
                sizes = number(row, *SHAPE, "tensor", "expert")
                moved = x if exact else x * top_k / experts * sizes[3] / sizes[2]
                r += weight * left(row, "t", moved, lambda y, sizes=sizes: form(y, sizes))  # type: ignore[misc]
            return form(x, (*layer, *cut)) * math.exp(r)

        kernel = ExpertKernel(key["stack"], key["dtype"], key["distribution"], "fp8", 1.0)
        shape = ExpertShape(*layer, np.array([tensor]), np.array([expert]))
        timed = expert_table_s(chip, kernel, np.array([tokens]), shape)
        assert timed is not None
        taken_s, origin = timed
        assert origin == ("table" if exact else "table-other-shape")
        steps = [float(4**power) for power in range(8)]
        assert taken_s == pytest.approx([rising(time, tokens, steps)], rel=1e-4)


def test_latent_attention_is_that_of_plain_python() -> None:
    chip = ACCELERATORS.load("b300")
    rows = [row for row in rows_of("b300", "latent") if row["cache"] == "fp8"]
    names = ("batch", "context", "heads")
    places = [logs_of(*number(row, *names)) for row in rows]

    def time(*sizes: float) -> float:
        near = weighed(rows, places, logs_of(*sizes), 3)
        # By the rates of a B200, as the file has them.
        forms = [
            latent_generation_time_s("b200", *place, kv_bytes=1.0)
            for place in (sizes, *(number(row, *names) for _, row in near))
        ]
        r = sum(
            weight * math.log(1e-6 * float(row["time_us"]) / float(form))
            for (weight, row), form in zip(near, forms[1:], strict=True)
        )
        return float(forms[0]) * math.exp(r)

    heads = 48.0  # of no row: between 32 and 64
    corner = {
        (b, c): max(time(2.0**i, 2.0**j, heads) for i in range(b + 1) for j in range(7, c + 1))
        for b in (5, 6)
        for c in (11, 12)
    }
    kept = StoredNumbers(512.0, 64.0, 1.0)
    taken_s = latent_table_s(chip, "fp8", 2.0**5.25, 2.0**11.5, heads, kept)
    low, high = (0.75 * math.log(corner[5, c]) + 0.25 * math.log(corner[6, c]) for c in (11, 12))
    assert taken_s == pytest.approx(math.exp((low + high) / 2), rel=1e-9)


CUTS = st.tuples(st.sampled_from([1.0, 2.0, 3.0, 8.0]), st.sampled_from([1.0, 4.0, 6.0, 64.0]))


@given(
    name=st.sampled_from(CHIPS),
    layer=st.sampled_from(
        [DEEPSEEK, OTHER, (2880.0, 2880.0, 4.0, 128.0), (4096.0, 14336.0, 2.0, 8.0)]
    ),
    cut=CUTS,
    stack=st.sampled_from(["vllm", "sglang", "tensorrt-llm"]),
    first=st.floats(1.0, 4e4),
    more=st.floats(1.0, 3.0),
)
@example("gb300", (4096.0, 14336.0, 2.0, 8.0), (1.0, 1.0), "tensorrt-llm", 20.0, 1.01)
@settings(deadline=None, max_examples=150)
def test_more_rows_or_tokens_take_no_less_time(
    name: str, layer: Layer, cut: tuple[float, float], stack: str, first: float, more: float
) -> None:
    chip, sizes = ACCELERATORS.load(name), np.array([first, first * more])
    kernel = ExpertKernel(stack, "bf16", "power_law_1.01", "bf16", 2.0)
    shape = ExpertShape(*layer, np.array(cut[0]), np.array(cut[1]))
    timed = expert_table_s(chip, kernel, sizes, shape)
    assert timed is not None
    small, large = timed[0]
    assert small <= large * (1 + 1e-5)
    taken_s = product_table_s(chip, "bf16", sizes, np.array(layer[1] / cut[0]), np.array(layer[0]))
    assert taken_s is not None
    assert taken_s[0] <= taken_s[1] * (1 + 1e-9)
    if chip.tables and chip.tables.latent:
        heads, kept = np.array(128 / cut[0]), StoredNumbers(512.0, 64.0, 1.0)
        for batch, context in ((sizes, 2000.0), (40.0, sizes)):
            latent_s = latent_table_s(chip, "fp8", batch, context, heads, kept)
            assert latent_s is not None
            assert latent_s[0] <= latent_s[1] * (1 + 1e-9)


def test_every_table_of_the_catalog_is_read_and_named() -> None:
    kinds = {"products": PRODUCTS, "experts": EXPERTS, "latent": LATENT}
    named = set()
    for name in CHIPS:
        tables = ACCELERATORS.load(name).tables
        assert tables is not None
        named |= {Path(path).name for path in tables.named.values()}
    files = {file.name for file in FOLDER.glob("*.csv.gz")}
    unnamed = {f"{name}-latent.csv.gz" for name in CHIPS[:3]}  # of them the form is nearer
    assert files == named | unnamed
    for file in sorted(files):
        columns = kinds[file.removesuffix(".csv.gz").rpartition("-")[2]]
        with gzip.open(FOLDER / file, "rt", encoding="utf-8") as text:
            header, *lines = csv.reader(text)
        fixed = [*columns.keys, *columns.sizes]
        assert header[: len(fixed)] == fixed
        cells = np.array([[cell or "nan" for cell in line[len(columns.keys) :]] for line in lines])
        numbers = cells.astype(np.float64)
        assert np.nanmin(numbers) > 0
        assert not np.isnan(numbers[:, : len(columns.sizes) + 1]).any()


def test_what_has_no_table_has_none() -> None:
    sizes = np.array([1.0]), np.array([1024.0]), np.array([1024.0])
    assert product_table_s(ACCELERATORS.load("mi300x"), "bf16", *sizes) is None
    assert product_table_s(ACCELERATORS.load("h200"), "fp4", *sizes) is None
    assert (
        latent_table_s(ACCELERATORS.load("h200"), "fp8", *sizes, StoredNumbers(512.0, 64.0, 1.0))
        is None
    )
    kernel = ExpertKernel("vllm", "int4", "power_law_1.01", "bf16", 0.5625)
    kimi = ExpertShape(7168.0, 2048.0, 8.0, 384.0, np.array([1.0]), np.array([8.0]))
    assert expert_table_s(ACCELERATORS.load("h200"), kernel, sizes[0], kimi) is None
    assert expert_table_s(ACCELERATORS.load("b200"), kernel, sizes[0], kimi) is not None


def test_experts_of_another_stack_stand_in() -> None:
    """On a B200 vLLM has no w4a8: SGLang's count, the first of the others."""
    shape = ExpertShape(2880.0, 2880.0, 4.0, 128.0, np.array([1.0]), np.array([4.0]))
    taken = {}
    for stack in ("vllm", "sglang", "tensorrt-llm"):
        kernel = ExpertKernel(stack, "mxfp4-w4a8", "power_law_1.01", "fp8", 0.53125)
        timed = expert_table_s(ACCELERATORS.load("b200"), kernel, np.array([64.0]), shape)
        assert timed is not None
        taken[stack] = float(timed[0][0]), timed[1]
    assert taken["vllm"] == (taken["sglang"][0], "table-other-shape")
    assert taken["sglang"][1] == taken["tensorrt-llm"][1] == "table"
    assert taken["sglang"][0] != taken["tensorrt-llm"][0]


def test_a_key_that_is_none_is_refused_with_those_that_are() -> None:
    chip = ACCELERATORS.load("b200")
    shape = ExpertShape(*DEEPSEEK, np.array([1.0]), np.array([8.0]))
    for kernel, words in (
        (ExpertKernel("sgl", "bf16", "balanced", "bf16", 2.0), "no stack 'sgl'.*sglang, tens"),
        (ExpertKernel("vllm", "bf16", "zipf", "bf16", 2.0), "no distribution 'zipf'.*balanced, po"),
    ):
        with pytest.raises(InputError, match=words):
            expert_table_s(chip, kernel, np.array([1.0]), shape)
    lost = ACCELERATORS.load("b200", overrides={"accelerator.tables.products": "mine"})
    with pytest.raises(CatalogError, match=r"no table of kernels 'mine'.*there are a100-80gb-exp"):
        times(lost, [1])
    with pytest.raises(CatalogError, match="give the name of a table in traffic/kernel-tables"):
        ACCELERATORS.load("b200", overrides={"accelerator.tables.products": "../../mine"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", r"products.csv:1: got columns ''"),
        ("dtype,n,k,m1", "got columns 'dtype,n,k,m1'"),
        ("dtype,n,k,m16,m1\nbf16,1,1,1,1", "such a table has dtype,n,k, and then m1, m2"),
        ("dtype,n,k,m1,m2\nbf16", "products.csv:2: got 'bf16'"),
        ("dtype,n,k,m1,m2\nbf16,1,1,1", "products.csv:2: got '1,1,1'"),
        ("dtype,n,k,m1,m2\nbf16,1,1,,", "one of them at least"),
        ("dtype,n,k,m1,m2\nbf16,1,1,1,1\nbf16,1,0,1,1", "products.csv:3: got '1,0,1,1'"),
        ("dtype,n,k,m1,m2\nbf16,1,1,1,-1", "above 0"),
        ("dtype,n,k,m1,m2\nbf16,1,1,1,inf", "at most 1e.12"),
        ("dtype,n,k,m1,m2\nbf16,1,1,1,x", "got '1,1,1,x'"),
    ],
)
def test_a_table_that_is_none_is_refused_in_one_line(tmp_path: Path, text: str, words: str) -> None:
    chip = chip_with(tmp_path, "products", text)
    with pytest.raises(CatalogError, match=words) as refusal:
        times(chip, [1])
    assert "\n" not in str(refusal.value)


def test_a_hostile_compressed_file_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress(b"dtype,n,k,m1,m2\n" + b"bf16,1,1,1,1\n" * 6_000_000)
    for content, words in (
        (whole, "larger than 64 MiB when unpacked"),
        (whole[:1000], "cut short"),
        (b"no gzip at all", "no gzip file"),
    ):
        path = tmp_path / "mine.csv.gz"
        path.write_bytes(content)
        chip = ACCELERATORS.load("b200").changed(tables=KernelTables(products=str(path)))
        with pytest.raises(CatalogError, match=words):
            times(chip, [1])


def test_a_table_of_the_user_stands_in_front(tmp_path: Path) -> None:
    folder = tmp_path / "traffic" / "kernel-tables"
    folder.mkdir(parents=True)
    text = "dtype,n,k,m1,m16\nbf16,1024,2048,70,90"
    (folder / "b200-products.csv").write_text(text, encoding="utf-8")
    chip = ACCELERATORS.load("b200", (tmp_path,))
    assert times(chip, [1, 16]) == pytest.approx([70, 90])
