"""The shipped models and accelerators: they load, and their numbers are the published ones."""

import re
from pathlib import Path

import pytest

from netplan.catalog import Record, check_file, shipped_root
from netplan.costing.dfmodel import die_power_w
from netplan.performance.mapping.partitions import ComputeTiles
from netplan.topologies.specs import CARDS, FABRICS
from netplan.workloads.accelerators import ACCELERATORS, Accelerator
from netplan.workloads.models import MODELS, WORKLOADS, Model
from netplan.workloads.technologies import LINKS, MEMORIES

MODEL_NAMES = (
    "gpt-22b",
    "gpt-146b",
    "gpt-175b",
    "gpt-310b",
    "gpt-530b",
    "gpt-1t",
    "vit-64k",
    "llama-3-8b",
    "llama-3-70b",
    "llama-3-405b",
)
ACCELERATOR_NAMES = (
    "v100-32gb",
    "a100-80gb",
    "h100-80gb",
    "gh200-96gb",
    "h200",
    "b200",
    "tpu-v4",
    "a100-40gb",
    "h100-96gb-500w",
    "b200-1000w",
    "b300",
    "gb200",
    "gb300",
    "mi300x",
    "mi355x",
    "tpu-v5e",
    "tpu-v5p",
    "tpu-v6e",
    "tpu-v7",
    "trainium2",
    *("vr-nvl72", "kyber-nvl144", "mi455x", "mi325x", "mi350x", "trainium3", "tpu-8t", "tpu-8i"),
    *("ascend-910c", "ascend-950dt", "gaudi-3", "h800", "h20"),
)
FILES = (*WORKLOADS.paths().values(), *ACCELERATORS.paths().values())
README = (shipped_root() / "traffic" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["sn10", "sn30", "sn40l"])
def test_ports_that_no_data_sheet_has_are_marked(name: str) -> None:
    chip = ACCELERATORS.load(name)
    assert chip.chip_ports
    assert chip.sources["chip_ports"].startswith("assumed, ")


def gpt_parameters(model: Model) -> int:
    """Attention 4 h^2 and feed-forward 8 h^2 a layer, 13 h of biases and norms, embeddings.

    The closed form of arXiv:2104.04473: 12 l h^2 (1 + 13/(12 h) + (V + s)/(12 l h)).
    """
    hidden = model.hidden_size
    layer = 12 * hidden**2 + 13 * hidden
    return model.layers * layer + (model.vocabulary + model.sequence_length) * hidden


def llama_parameters(model: Model) -> int:
    """Queries and output h^2 each, keys and values h^2 kv/heads each, three matrices of h x ffn.

    Two norms a layer and one at the end, of h; input and output embedding apart; no biases.
    """
    assert model.ffn_size is not None
    assert model.kv_heads is not None
    hidden = model.hidden_size
    key_value = hidden * hidden * model.kv_heads // model.heads
    layer = 2 * hidden**2 + 2 * key_value + 3 * hidden * model.ffn_size + 2 * hidden
    return model.layers * layer + hidden + 2 * model.vocabulary * hidden


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_file_is_sound(path: Path) -> None:
    shelf = WORKLOADS if path.parent.name == "models" else ACCELERATORS
    assert check_file(shelf, path) is None


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_record_names_a_public_source_and_its_date(path: Path) -> None:
    shelf = WORKLOADS if path.parent.name == "models" else ACCELERATORS
    record = shelf.load(path.stem)
    assert re.search(
        r"arXiv:\d{4}\.\d{5}|huggingface\.co|NVIDIA|AMD|Google Cloud|AWS|Intel|Huawei|Wccftech"
        r"|Tenstorrent",
        record.source,
    )
    assert re.fullmatch(r"20\d\d(-[01]\d)?", record.date)


def test_other_names_find_a_file_that_is_called_otherwise() -> None:
    """And no name stands for two files of a shelf."""
    assert ACCELERATORS.load("b300-hgx") == ACCELERATORS.load("b300")
    replaced = ACCELERATORS.load("b300-hgx", overrides={"b300-hgx.power_w": "1200"})
    assert (replaced.name, replaced.power_w) == ("b300", 1200)
    for shelf in (WORKLOADS, ACCELERATORS):
        records = [shelf.load(name) for name in shelf.paths()]
        names = [name for record in records for name in (record.name, *record.aliases)]
        assert len(names) == len(set(names)) > len(records)


def test_shelves_hold_what_users_are_told() -> None:
    assert set(MODEL_NAMES) <= set(MODELS.paths())
    assert set(ACCELERATOR_NAMES) <= set(ACCELERATORS.paths())


def test_readme_names_every_file_and_every_key() -> None:
    shared = {*Record.__struct_fields__, "notes"}
    names = {*WORKLOADS.paths(), *ACCELERATORS.paths(), *MEMORIES.paths(), *LINKS.paths()}
    keys = {*Model.__struct_fields__, *Accelerator.__struct_fields__} | shared
    assert [word for word in sorted(names | keys) if f"`{word}`" not in README] == []


# --- models ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in MODELS.paths() if re.match(r"gpt-\d", name)])
def test_gpt_parameters_are_the_published_ones(name: str) -> None:
    # 1T: 128 (12 * 25600^2 + 13 * 25600) + (51200 + 2048) * 25600 = 1,008.04e9.
    model = MODELS.load(name)
    assert model.sequence_length == 2048
    assert model.vocabulary == 51200
    assert model.parameters == pytest.approx(gpt_parameters(model), rel=0.005)


@pytest.mark.parametrize(
    ("name", "published"),
    [
        # 32 layers of 2 x 4096^2 + 2 x 4096 x 1024 + 3 x 4096 x 14336 + 8192, in all
        # 6,979,584,000; the last norm, 4,096; embeddings of 2 x 128256 x 4096 = 1,050,673,152.
        ("llama-3-8b", 8_030_261_248),
        ("llama-3-70b", 70_553_706_496),
        ("llama-3-405b", 405_853_388_800),
    ],
)
def test_llama_parameters_are_the_published_ones(name: str, published: int) -> None:
    model = MODELS.load(name)
    assert model.gated_ffn
    assert llama_parameters(model) == published
    assert model.parameters == pytest.approx(published, rel=0.001)
    # Table 4 of the report: 128 replicas of 16 sequences, 16M = 2^24 tokens.
    assert model.batch * model.sequence_length == 2**24


@pytest.mark.parametrize("name", ["llama-3.1-8b", "llama-3.1-70b"])
def test_a_configuration_says_what_the_report_says(name: str) -> None:
    other = MODELS.load(name), MODELS.load(name.replace("3.1", "3"))
    for field in ("hidden_size", "layers", "heads", "kv_heads", "ffn_size", "vocabulary", "batch"):
        assert len({getattr(one, field) for one in other}) == 1


def test_vision_transformer_has_no_vocabulary() -> None:
    model = MODELS.load("vit-64k")
    assert model.vocabulary == 0
    # Patches of 4 x 4 points on a grid of 720 x 1440.
    assert model.sequence_length == (720 // 4) * (1440 // 4) == 64_800
    assert (model.hidden_size, model.heads, model.layers) == (12_288, 64, 48)
    assert model.parameters is None


@pytest.mark.parametrize(
    ("name", "batch"),
    [
        ("gpt-22b", 4),
        ("gpt-146b", 1024),
        ("gpt-175b", 64),
        ("gpt-310b", 2160),
        ("gpt-530b", 280),
        ("gpt-1t", 4096),
        ("vit-64k", 4096),
    ],
)
def test_batch_is_that_of_the_cited_run(name: str, batch: int) -> None:
    assert MODELS.load(name).batch == batch


# --- accelerators ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "tensor", "vector", "memory", "hb_gb_per_s", "network_gb_per_s"),
    [
        ("a100-80gb", 312, 78, (80, 2039), 300, 25),  # the table has 1555, see below
        ("h200", 989.4, 133.8, (141, 4800), 450, 50),
        ("b200", 2500, 339, (192, 8000), 900, 100),
    ],
)
def test_values_of_table_a3(
    *,
    name: str,
    tensor: float,
    vector: float,
    memory: tuple[float, float],
    hb_gb_per_s: float,
    network_gb_per_s: float,
) -> None:
    gpu = ACCELERATORS.load(name)
    assert gpu.tensor_flops_per_s == pytest.approx(tensor * 1e12, rel=1e-12)
    assert gpu.vector_flops_per_s == pytest.approx(vector * 1e12, rel=1e-12)
    capacity_gb, bandwidth_gb_per_s = memory
    assert gpu.memory_bytes == pytest.approx(capacity_gb * 1e9, rel=1e-12)
    assert gpu.memory_bytes_per_s == pytest.approx(bandwidth_gb_per_s * 1e9, rel=1e-12)
    assert gpu.hb_bytes_per_s == pytest.approx(hb_gb_per_s * 1e9, rel=1e-12)
    assert gpu.network_bytes_per_s == pytest.approx(network_gb_per_s * 1e9, rel=1e-12)
    assert (gpu.hb_latency_s, gpu.network_latency_s) == (2.5e-6, 5e-6)
    assert gpu.hb_size == 8


def test_notes_restore_the_study_where_the_product_differs() -> None:
    settings = _settings(ACCELERATORS.load("a100-80gb"))
    assert settings["accelerator.memory_bytes_per_s"] == "1555e9"
    paper = ACCELERATORS.load("a100-80gb", overrides=settings)
    assert paper.memory_bytes_per_s == 1555e9
    assert paper.hb_size == 4


@pytest.mark.parametrize("name", list(ACCELERATORS.paths()))
def test_every_setting_in_the_notes_loads(name: str) -> None:
    settings = _settings(ACCELERATORS.load(name))
    changed = ACCELERATORS.load(name, overrides=settings).to_dict()
    for key, text in settings.items():
        assert changed[key.removeprefix("accelerator.")] == float(text)


@pytest.mark.parametrize(
    ("name", "dense", "printed_sparse"),
    [
        ("a100-80gb", 312e12, 624e12),
        ("h100-80gb", 989.4e12, 1979e12),
        ("gh200-96gb", 989.4e12, 1979e12),
        ("h200", 989.4e12, 1979e12),
        ("b200", 2500e12, 5000e12),
        ("b200-1000w", 2250e12, 4500e12),  # an eighth of a DGX B200's 36 PFLOP/s
        ("gb200", 2500e12, 360e15 / 72),  # of an NVL72
        ("gb300", 2500e12, 360e15 / 72),
        ("mi300x", 1307e12, 2614.9e12),
        ("mi355x", 2517e12, 5033e12),
    ],
)
def test_peaks_are_dense(name: str, dense: float, printed_sparse: float) -> None:
    peak = ACCELERATORS.load(name).tensor_flops_per_s
    assert peak == dense
    assert 2 * peak == pytest.approx(printed_sparse, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "nvlink_both_ways"),
    [
        ("v100-32gb", 300e9),
        ("a100-80gb", 600e9),
        ("h100-80gb", 900e9),
        ("gh200-96gb", 900e9),
        ("h200", 900e9),
        ("b200", 1800e9),
        ("b200-1000w", 1800e9),
        ("gb300", 130e12 / 72),
    ],
)
def test_nvlink_is_one_way(name: str, nvlink_both_ways: float) -> None:
    found = 2 * ACCELERATORS.load(name).hb_bytes_per_s
    assert found == pytest.approx(nvlink_both_ways, rel=0.004)  # 130 TB/s is rounded


@pytest.mark.parametrize(
    ("name", "ports", "gbps", "gpus"),
    [
        ("v100-32gb", 4, 100, 8),  # DGX-1
        ("a100-80gb", 8, 200, 8),
        ("h100-80gb", 8, 400, 8),
        ("gh200-96gb", 1, 400, 1),
        ("h200", 8, 400, 8),
        ("b200", 8, 800, 8),
        ("b200-1000w", 8, 400, 8),
        ("gb300", 4, 800, 4),  # a tray
        ("trainium2", 16, 200, 16),  # 3.2 Tb/s of EFA
    ],
)
def test_network_is_the_share_of_the_servers_ports(
    name: str, ports: int, gbps: float, gpus: int
) -> None:
    expected = ports * gbps * 1e9 / 8 / gpus
    assert ACCELERATORS.load(name).network_bytes_per_s == pytest.approx(expected)


def test_tpu_is_a_torus_chip() -> None:
    tpu = ACCELERATORS.load("tpu-v4")
    assert tpu.hb_size == 1
    assert tpu.hb_bytes_per_s == 6 * tpu.network_bytes_per_s == 300e9
    # 2 cores, 4 arrays of 128 x 128 each, a multiply and an add a cycle at 1.05 GHz: 275.3e12.
    assert tpu.tensor_flops_per_s == pytest.approx(2 * 4 * 128 * 128 * 2 * 1.05e9, rel=0.002)
    assert tpu.vector_flops_per_s == pytest.approx(2 * 128 * 16 * 1.05e9, rel=0.001)
    assert tpu.memory_bytes == pytest.approx(32 * 2**30, rel=1e-4)


@pytest.mark.parametrize(
    ("name", "links", "pod_gb_per_s", "gib"),
    [("tpu-v5p", 6, 1200, 95), ("tpu-v6e", 4, 800, None), ("tpu-v7", 6, 1200, 192)],
)
def test_a_link_of_a_tpu_is_its_share_of_the_printed_rate_one_way(
    name: str, links: int, pod_gb_per_s: float, gib: float | None
) -> None:
    tpu = ACCELERATORS.load(name)
    assert (tpu.hb_size, tpu.chip_ports) == (1, links)
    assert 2 * links * tpu.network_bytes_per_s == 2 * tpu.hb_bytes_per_s == pod_gb_per_s * 1e9
    assert gib is None or tpu.memory_bytes == pytest.approx(gib * 2**30, rel=1e-4)


@pytest.mark.parametrize(
    ("name", "fp8", "fp4"),
    [
        ("h200", 1979e12, None),
        ("b200", 5000e12, 10000e12),
        ("b200-1000w", 36e15 / 8, 72e15 / 8),  # DGX B200
        ("gb200", 360e15 / 72, 720e15 / 72),
        ("gb300", 360e15 / 72, 1080e15 / 72),
        ("tpu-v7", 4614e12, None),
        ("a100-80gb", None, None),
    ],
)
def test_narrow_peaks_are_those_of_the_data_sheet(
    name: str, fp8: float | None, fp4: float | None
) -> None:
    narrow = ACCELERATORS.load(name).narrow_flops_per_s
    assert (narrow.get("fp8"), narrow.get("fp4")) == (fp8, fp4)


# --- what training runs reach -------------------------------------------------------------------

TRAINED = {name for name in ACCELERATORS.paths() if ACCELERATORS.load(name).training}


@pytest.mark.parametrize(
    ("name", "sms", "shares", "wave", "attention"),
    [
        ("a100-80gb", 108, (0.78, None, None), 0.55, (0.60, None, 0.48)),
        ("a100-40gb", 108, (0.78, None, None), 0.55, (0.60, None, 0.48)),
        ("h100-80gb", 132, (0.62, 0.635, None), 0.07, (0.295, 0.565, None)),
        ("h100-96gb-500w", 132, (0.535, 0.485, None), 0.07, (0.295, 0.565, None)),
        ("h200", 132, (0.62, 0.595, None), 0.07, (0.295, 0.565, None)),
        ("b200-1000w", 148, (0.66, 0.56, None), 0.07, (None, 0.455, None)),
        ("gb200", 152, (0.62, 0.51, 0.435), 0.07, (None, 0.455, None)),
        ("gb300", 152, (0.68, 0.64, 0.41), 0.07, (None, 0.455, None)),
    ],
)
def test_fitted_rates_are_those_of_the_fit(
    *,
    name: str,
    sms: int,
    shares: tuple[float | None, ...],
    wave: float,
    attention: tuple[float | None, ...],
) -> None:
    rates = ACCELERATORS.load(name).training
    assert rates is not None
    assert rates.fitted
    assert (rates.sms, rates.wave) == (sms, wave)
    expected = dict(zip(("bf16", "fp8", "fp4"), shares, strict=True))
    assert rates.gemm == {key: share for key, share in expected.items() if share}
    expected = dict(zip(("fa2", "cudnn", "unfused"), attention, strict=True))
    assert rates.attention == {key: share for key, share in expected.items() if share}


@pytest.mark.parametrize(
    ("name", "bf16", "fp8"),
    [  # best kernel over peak
        ("gh200-96gb", 828.6 / 989.4, 1535 / 1979),
        ("b300", 1769 / 2250, 3353.3 / 4500),
        ("mi300x", 668.4 / 1307, None),
        ("mi355x", 1565 / 2517, None),
    ],
)
def test_without_a_run_four_fifths_of_the_best_kernel_count(
    name: str, bf16: float, fp8: float | None
) -> None:
    rates = ACCELERATORS.load(name).training
    assert rates is not None
    assert not rates.fitted
    best = {"bf16": bf16} if fp8 is None else {"bf16": bf16, "fp8": fp8}
    assert rates.gemm == pytest.approx({key: 0.8 * share for key, share in best.items()}, rel=0.01)
    assert (rates.wave, rates.attention) == (0.07, {"cudnn": 0.5})


@pytest.mark.parametrize("name", sorted(TRAINED))
def test_trained_peaks_are_the_data_sheets_and_every_share_has_one(name: str) -> None:
    chip = ACCELERATORS.load(name)
    assert chip.training is not None
    # XLA's fp8 products on a TPU v6e are assumed to run at the printed rate of int8.
    of_training = {"tpu-v6e": {"fp8": 1836e12}}.get(name, chip.narrow_flops_per_s)
    assert chip.training.peaks == of_training
    assert set(chip.training.gemm) <= {"bf16", *chip.training.peaks}


@pytest.mark.parametrize("name", ["v100-32gb", "tpu-v4", "tpu-v7", "trainium2"])
def test_chips_without_runs_or_kernels_take_those_of_others(name: str) -> None:
    rates = ACCELERATORS.load(name).training
    assert rates is not None
    assert (rates.fitted, rates.gemm, rates.attention) == (False, {"bf16": 0.63}, {"cudnn": 0.5})


@pytest.mark.parametrize("name", list(ACCELERATORS.paths()))
def test_values_hang_together(name: str) -> None:
    gpu = ACCELERATORS.load(name)
    assert gpu.vector_flops_per_s < gpu.tensor_flops_per_s
    # The dataflow chips have links of one rate; one of them is a wafer.
    assert gpu.network_bytes_per_s <= gpu.hb_bytes_per_s
    # A core of a wafer or chip has its share of the memory, and the links of the whole.
    core = name.endswith("-core")
    assert gpu.hb_bytes_per_s < gpu.memory_bytes_per_s or core
    assert (gpu.network_bytes_per_s < gpu.hb_bytes_per_s) == (gpu.execution != "fused")
    assert gpu.hb_latency_s <= gpu.network_latency_s
    most_w = {"wse-2": 25_000, "dojo-tray": 110_000}.get(name, 3600 if gpu.unsold else 1500)
    least_w = {"palm-wafer-core": 40, "grayskull-core": 0.5, "grayskull": 65}.get(name, 100)
    assert least_w <= gpu.power_w <= most_w
    peaks = [gpu.tensor_flops_per_s, *gpu.narrow_flops_per_s.values()]
    assert peaks == sorted(peaks)  # fp8 is written before fp4
    assert set(gpu.sources) <= set(Accelerator.__struct_fields__)


@pytest.mark.parametrize(
    ("name", "tiles", "width", "height", "clock_ghz", "tera"),
    [
        # 2 x 432 x 16 x 16 x 1.41 GHz
        ("a100-40gb", 432, 16, 16, 1.41, 311.87),
        ("a100-80gb", 432, 16, 16, 1.41, 311.87),
        ("h100-80gb", 528, 16, 16, 1.837, 496.61),
        ("tpu-v4", 8, 128, 128, 1.05, 275.25),
        ("sn10", 640, 32, 6, 1.25, 307.2),
        ("sn30", 1280, 32, 6, 1.25, 614.4),
    ],
)
def test_compute_tiles_are_those_of_the_published_input_files(
    name: str, tiles: int, width: int, height: int, clock_ghz: float, tera: float
) -> None:
    found = ComputeTiles.of(ACCELERATORS.load(name))
    assert found == ComputeTiles(tiles, width, height, clock_ghz * 1e9)
    assert found.flops_per_s / 1e12 == pytest.approx(tera, rel=2e-5)


@pytest.mark.parametrize(
    ("name", "tera", "sram", "memory_gb", "memory_gb_per_s", "power_w"),
    [
        ("sn30", 614.4, 640 * 2**20, 1099.5116, 300, 444.7061955),
        ("sn40l", 638, 520 * 2**20, 64, 1600, 436.452),
        ("wse-2", 7500, 40e9, 40, 20e6, 20_140),
        ("a100-40gb", 312, 88_080_384, 42.94967296, 1555, 400),
    ],
)
def test_chips_of_the_dataflow_study(
    name: str, tera: float, sram: float, memory_gb: float, memory_gb_per_s: float, power_w: float
) -> None:
    chip = ACCELERATORS.load(name)
    assert (chip.tensor_flops_per_s, chip.sram_bytes) == (tera * 1e12, sram)
    assert (chip.memory_bytes, chip.memory_bytes_per_s) == (memory_gb * 1e9, memory_gb_per_s * 1e9)
    assert chip.power_w == pytest.approx(power_w, rel=2e-4)
    if name in ("sn40l", "wse-2"):  # without a printed power, by the fit
        assert chip.power_w == pytest.approx(die_power_w(chip.tensor_flops_per_s), rel=2e-4)
        assert (chip.tiles, chip.compute_utilisation) == (None, 0.9)


def test_memories_and_links_are_those_of_the_study() -> None:
    known = [MEMORIES.load(name) for name in MEMORIES.paths()]
    rates = {one.name: one.bytes_per_s / 1e9 for one in known if one.memory_bytes is None}
    assert rates == {"ddr-2d": 100, "ddr4": 200, "hbm-2.5d": 1000, "hbm3": 3000, "stacked-3d": 1e5}
    chips = ("nvlink4", "pcie4", "sn40l-link")  # the others say what collectives take
    rates = {name: LINKS.load(name).bytes_per_s / 1e9 for name in chips}
    assert rates == {"nvlink4": 900, "pcie4": 25, "sn40l-link": 25}


def test_expanded_memories_are_those_of_their_sources() -> None:
    # COMET, Table III; Micron CZ120; Samsung CMM-B; a GPU's eighth of a DGX H100.
    known = [MEMORIES.load(name) for name in MEMORIES.paths()]
    found = {
        one.name: (one.memory_bytes / 1e9, one.bytes_per_s / 1e9, one.latency_s)
        for one in known
        if one.memory_bytes is not None
    }
    assert found == {
        "comet-480gb": (480, 500, 0),
        "comet-201gb": (201, 1000, 0),
        "comet-39gb": (39, 1200, 0),
        "cxl-256gb": (256, 36, 0),
        "cxl-box": (2000, 60, 596e-9),
        "host-ddr5": (2000 / 8, 64, 0),
    }


def _settings(gpu: Accelerator) -> dict[str, str]:
    """All ``--set key=value`` in the notes of a record."""
    return dict(re.findall(r"--set ([\w.]+)=([\w.]*\w)", " ".join(gpu.notes)))


def test_all_accelerators_say_what_they_are_sold_in_and_fabrics_know_the_words() -> None:
    chips = [ACCELERATORS.load(name) for name in ACCELERATORS.paths()]
    assert [chip.name for chip in chips if not chip.sold_in] == []
    known = {CARDS} | {chip.name for chip in chips} | {chip.sold_in for chip in chips}
    for name in FABRICS.paths():
        named = {word for entry in FABRICS.load(name).support or () for word in entry.accelerators}
        assert named - known == set(), name


@pytest.mark.parametrize("chip", ["mi300x", "trainium2", "gaudi-3", "ascend-910c", "a100-80gb"])
def test_what_no_maker_sells_for_an_accelerator_is_not_in_the_verdict(chip: str) -> None:
    on = ACCELERATORS.load(chip)
    sold = [name for name in FABRICS.paths() if FABRICS.load(name).support_for(on).unsold == ""]
    assert {"fat-tree", "rail-optimized"} <= {*sold}
    exotic = {"dragonfly", "frontier", "slim-fly", "palm-wafer", "torus-2d", "torus-3d", "bcube"}
    assert exotic.isdisjoint(sold)
    assert ("rail-only" in sold) == (on.sold_in == "HGX servers")  # an operator runs these
