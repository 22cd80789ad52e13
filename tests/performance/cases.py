"""Settings shared by the tests: the accelerators and clusters of the published tables."""

import csv
from pathlib import Path

from netplan.inputs.choices import Strategy
from netplan.levels import Level
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.setting import TrainedModel
from netplan.workloads.models import MODELS, Model

PUBLISHED = Path(__file__).parents[1] / "published"
REL = 1e-9

Row = dict[str, str]

FOURD = ITERATION_MODELS.load("4d")
PTDP = ITERATION_MODELS.load("ptd-p")
MEASURED = ITERATION_MODELS.load("measured")

# Tensor and vector FLOP/s, memory B and B/s, NVLink and network B/s (arXiv:2410.00273, Table A3,
# with the unrounded values of its code).
SYSTEMS = {
    "A100": (312e12, 78e12, 80e9, 1555e9, 300e9, 25e9),
    "H200": (989.4e12, 133.8e12, 141e9, 4800e9, 450e9, 50e9),
    "B200": (2500e12, 339e12, 192e9, 8000e9, 900e9, 100e9),
}
MODEL_NAMES = {"GPT3-175B": "gpt-175b", "GPT3-1T": "gpt-1t", "ViT-ERA5": "vit-64k"}
STRATEGIES: dict[str, Strategy] = {"1d": "1d", "2d-context": "2d", "2d-summa": "summa"}


def read(name: str) -> list[Row]:
    with (PUBLISHED / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def small_model(**changes: object) -> Model:
    """A little transformer: e = 512, 4 layers, 8 heads, 256 tokens, unless changed."""
    values: dict[str, object] = {
        "name": "small",
        "title": "small",
        "source": "test",
        "date": "2024",
        "hidden_size": 512,
        "layers": 4,
        "heads": 8,
        "sequence_length": 256,
        "vocabulary": 1000,
        "batch": 16,
    }
    return Model.read(values | changes)


def training(model: Model, system: str = "B200", batch: int | None = None) -> TrainedModel:
    """Training under the 4D model on a system of Table A3."""
    tensor, vector, capacity, memory, _, _ = SYSTEMS[system]
    return TrainedModel(model, batch or model.batch, tensor, capacity, FOURD, vector, memory)


def two_tiers(system: str, domain: int, gpus: int) -> tuple[Level, Level]:
    """HB domains and a network; a cluster smaller than a domain lies inside one."""
    *_, fast, slow = SYSTEMS[system]
    inside = min(domain, gpus)
    return (
        Level("switch", inside, fast, step_latency_s=2.5e-6),
        Level("switch", gpus // inside, slow, step_latency_s=5e-6),
    )


def published_case(row: Row) -> tuple[TrainedModel, tuple[Level, ...]]:
    """Training and levels of one row of the published tables of the 4D model."""
    model = MODELS.load(MODEL_NAMES[row["model"]])
    levels = two_tiers(row["system"], int(row["nvs"]), int(row.get("n") or row["nvs"]))
    return training(model, row["system"], int(row.get("B") or 1)), levels


def strategy_of(row: Row) -> Strategy:
    return STRATEGIES[row["strategy"]]
