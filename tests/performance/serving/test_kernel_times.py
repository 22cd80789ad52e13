"""What serving times by tables, and by forms as before: formats, origins, answers of before."""

import numpy as np
import pytest

import netplan
from netplan.performance.serving.cases import ServingSoftware, formats_of
from netplan.performance.serving.kernel_times import ServingKernels
from netplan.performance.stacks import SERVING_STACKS
from netplan.published.measured_serving import BY_SOFTWARE, TYPICAL, predicted, serving_points
from netplan.records import replace
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.inference import Cut, ServingStep, inference_layer
from netplan.workloads.models import MODELS

BEFORE = {  # of points, TPOT and TTFT by the typical stack, and by the software's own [s]
    0: (0.006473982149443115, 0.146724323143429, 0.007238305879911864, 0.10136327240350605),
    330: (0.02027986806727986, 0.2970326443345029, 0.021431151270404857, 0.5706229849393911),
    560: (0.009186902208450257, 0.5920473742163601, 0.008494711647626848, 0.50494873702426),
    820: (0.010598531154501392, 0.1760329108646196, 0.011435135646688892, 0.3018827290393818),
    1300: (0.03159332126969658, 0.46995586966069236, 0.03204132126969658, 0.8523024863792199),
    1450: (0.009557247863161169, 0.19285815416262203, 0.010326561217653359, 0.14761494728578636),
}


def test_fitted_kernels_are_those_of_before_to_the_last_digit() -> None:
    points = [serving_points()[index] for index in BEFORE]
    for place, way in ((0, TYPICAL), (2, BY_SOFTWARE)):
        times = predicted(points, replace(way, kernels="fitted"))
        for name, column in (("tpot", place), ("ttft", place + 1)):
            before = [row[column] for row in BEFORE.values()]
            # Digits of other processors differ in the last place.
            assert getattr(times, name) == pytest.approx(before, rel=1e-12)


def test_fitted_answers_are_those_of_before() -> None:
    """Before there were tables: 8 H100 and gpt-oss with weights of 8 bits."""
    asked = {"gpus": 8, "concurrency": 64, "top": 1, "kernels": "fitted"}
    ((model, chip, precision, tpot_s, ttft_s),) = (
        ("gpt-oss-120b", "h100-80gb", "fp8", 0.009751388836489818, 0.1463531884867661),
    )
    (plan,) = netplan.serving(
        "serving-r1-h200",
        model=model,
        accelerator=chip,
        precision=precision,
        fixed={"tensor": 1, "attention-data": 8, "expert": 8},
        **asked,
    ).plans
    assert (plan.tpot_s, plan.ttft_s) == pytest.approx((tpot_s, ttft_s), rel=1e-12)
    assert set(plan.kernel_source.values()) == {"form"}


@pytest.mark.parametrize(
    ("chip", "model", "precision", "stack", "kernel", "weight_bytes", "cache_bytes"),
    [
        ("h100-80gb", "gpt-oss-120b", "fp8", "tensorrt-llm", "mxfp4-w4a16", 0.53125, 2.0),
        ("a100-80gb", "gpt-oss-20b", "mxfp4", "vllm", "mxfp4-w4a16", 0.53125, 2.0),
        ("b200", "gpt-oss-20b", "fp8", "tensorrt-llm", "mxfp4-w4a8", 0.53125, 1.0),
        ("b200", "gpt-oss-20b", "fp4", "vllm", "mxfp4-w4a8", 0.53125, 2.0),
        ("b200", "gpt-oss-20b", "bf16", "vllm", "bf16", 2.0, 2.0),
        ("b200", "deepseek-r1", "fp4", "tensorrt-llm", "fp4", 0.5625, 1.0),
        ("h200", "deepseek-r1", "fp8", "tensorrt-llm", "fp8-block", 1.0, 1.0),
        ("h200", "qwen3-235b-a22b", "fp8", "tensorrt-llm", "fp8", 1.0, 1.0),
        ("h200", "qwen3-235b-a22b", "fp8", "vllm", "fp8-block", 1.0, 1.0),
        ("h200", "llama-4-maverick", "fp8", "vllm", "fp8", 1.0, 1.0),
        ("h200", "kimi-k2.5", "int4", "vllm", "int4", 0.5625, 2.0),
    ],
)
def test_experts_have_the_kernel_of_their_checkpoint(  # noqa: PLR0913, PLR0917 - a row
    chip: str,
    model: str,
    precision: str,
    stack: str,
    kernel: str,
    weight_bytes: float,
    cache_bytes: float,
) -> None:
    software = ServingSoftware(SERVING_STACKS.load(stack))
    on, served = ACCELERATORS.load(chip), MODELS.load(model)
    formats = formats_of(on, served, precision, software=software)
    number = formats.feed_forward
    assert (number.kernel, number.weight_bytes) == (kernel, weight_bytes)
    assert formats.cache_bytes == cache_bytes
    asked = formats_of(on, served, precision, "fp8", software)
    assert asked.cache_bytes == 1.0  # what is asked for counts


def test_fitted_kernels_know_no_published_weights() -> None:
    gpt = MODELS.load("gpt-oss-120b")
    for kernels in ("fitted", "roofline"):
        software = ServingSoftware(SERVING_STACKS.load("vllm"), kernels)
        formats = formats_of(ACCELERATORS.load("h200"), gpt, "fp8", software=software)
        assert (formats.feed_forward.weight_bytes, formats.cache_bytes) == (1.0, 1.0)


def origins(chip: str, model: str, precision: str, stack: str = "vllm") -> dict[str, str]:
    """Where times of a layer in decode are from."""
    on, served = ACCELERATORS.load(chip), MODELS.load(model)
    software = ServingSoftware(SERVING_STACKS.load(stack))
    formats = formats_of(on, served, precision, software=software)
    step = ServingStep("decode", 16.0, 1.0, 2048.0)
    layer = inference_layer(served, Cut.of(2, 2, 4), step, formats)
    kernels = software.kernels_of(on)
    cache = formats.cache_bytes
    return {part.name: kernels.time(part, cache).origin for part in layer.operations}


def test_times_say_where_they_are_from() -> None:
    r1 = origins("b200", "deepseek-r1", "fp8")
    assert [r1[name] for name in ("output", "attention", "experts", "norm")] == [
        *("table", "table", "table", "form")
    ]
    assert origins("h200", "deepseek-r1", "fp8")["attention"] == "form"  # tables of Hopper are off
    assert origins("b200", "gpt-oss-120b", "fp8")["experts"] == "table-other-shape"  # SGLang's
    assert origins("b200", "gpt-oss-120b", "fp8", "sglang")["experts"] == "table"
    assert origins("h200", "kimi-k2.5", "int4")["experts"] == "form"
    assert origins("h200", "llama-4-scout", "fp8")["experts"] == "table"
    assert set(origins("mi300x", "deepseek-r1", "fp8").values()) == {"form"}


def test_a_gb200_is_no_slower_at_latent_attention_than_a_b200() -> None:
    """By its own fit 1,038 us; a B200 takes about 240, with 128 heads of 8 bits."""
    step = ServingStep("decode", 320.0, 1.0, 5120.0)
    taken = {}
    for name in ("b200", "gb200"):
        chip, model = ACCELERATORS.load(name), MODELS.load("deepseek-r1")
        formats = formats_of(chip, model, "fp8")
        layer = inference_layer(model, Cut.of(1), step, formats)
        (attention,) = (part for part in layer.operations if part.name == "attention")
        for source in ("measured", "fitted"):
            kernels = ServingKernels.of(chip, source)
            taken[name, source] = 1e6 * float(np.ravel(kernels.time(attention, 1.0).seconds)[0])
    assert taken["gb200", "fitted"] == pytest.approx(1038, rel=0.01)
    assert taken["gb200", "measured"] == pytest.approx(taken["b200", "measured"], rel=0.1)
    assert 150 < taken["b200", "measured"] < 300


def test_even_experts_take_other_rows_than_uneven_ones() -> None:
    chip, model = ACCELERATORS.load("h200"), MODELS.load("deepseek-r1")
    layer = inference_layer(
        model,
        Cut.of(8, 1, 8),
        ServingStep("decode", 64.0, 1.0, 2048.0),
        formats_of(chip, model, "fp8"),
    )
    (experts,) = (part for part in layer.operations if part.name == "experts")
    uneven, even = (
        float(ServingKernels(chip, "measured", "vllm", how).time(experts, 1.0).seconds[0])
        for how in ("power_law_1.01", "balanced")
    )
    assert even != uneven
    assert uneven == pytest.approx(even, rel=0.5)
