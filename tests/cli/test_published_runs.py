"""Published training runs, asked on the command line as they were made."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from netplan.calibration.published import SCORED, published_run
from netplan.calibration.runs import MeasuredRun
from netplan.performance.published_runs import published_rows
from netplan.published.measured_runs import OWN, plan_time
from tests.cli.command import netplan

DIMENSIONS = ("hidden_size", "layers", "heads", "kv_heads", "head_size", "ffn_size", "vocabulary")
SIZES = (*DIMENSIONS, "sequence_length", "batch", "gated_ffn", "rotary")
DEGREES = ("tensor", "context", "data", "pipeline", "microbatch", "interleave")


def words(run: MeasuredRun, model: Path) -> Iterator[str]:
    """The question of a run: its model, cluster, software and plan."""
    degrees, stack = run.degrees, run.stack
    options: dict[str, object] = {
        "model": model,
        "gpus": degrees.gpus,
        "accelerator": run.accelerator.name,
        "hb-size": min(run.hb_size, degrees.gpus),
        "iteration-model": OWN,
        "precision": run.precision,
        "stack": stack.name,
        "recompute": run.recompute,
        "network-kind": run.network_kind,
        "software-date": "none",
        "schedule": run.schedule,
        "zero": run.zero_stage,
        "strategy": "2d" if degrees.context > 1 else "1d",
    }
    for name, value in options.items():
        yield from (f"--{name}", str(value))
    for name in DEGREES:
        yield from ("--fix", f"{name}={getattr(degrees, name)}")
    for key, value in (
        ("accelerator.network_bytes_per_s", run.network_bytes_per_s),
        ("stack.gradient_bytes", stack.gradient_bytes),
        ("stack.gather_bytes", stack.gather_bytes),
    ):
        yield from ("--set", f"{key}={value}")
    yield from (["--no-sequence-parallel"] if not run.sequence_parallel else [])
    yield from (["--no-tensor-overlap"] if not run.tensor_overlap else [])
    yield from ("--ignore-memory", "--format", "json")


ROWS = {row["id"]: row for row in published_rows()}
SOME = [name for name, row in ROWS.items() if row["use"] in SCORED][::6]
SOME += [name for name, row in ROWS.items() if row["use"] == "dev"]
# Degrees that could lie elsewhere too, and sequences that are cut without tensor groups.
SOME += [name for name in ROWS if name.startswith(("TITAN-405b", "TITAN-8b-cp"))]


@pytest.mark.parametrize("name", SOME)
def test_a_published_run_is_asked_as_it_was_made(name: str, tmp_path: Path) -> None:
    row, run = ROWS[name], published_run(ROWS[name])
    model = tmp_path / f"{run.model.name}.yaml"
    facts = {"name": model.stem, "title": name, "source": row["url"], "date": row["year"]}
    sizes = {size: getattr(run.model, size) for size in SIZES}
    model.write_text(yaml.safe_dump(facts | sizes), encoding="utf-8")
    done = netplan("search", "rail-only-paper", *words(run, model))
    assert done.returncode == 0, done.stderr
    best = json.loads(done.stdout)["plans"][0]
    known = plan_time(run, OWN)
    assert best["iteration_time_s"] == pytest.approx(known.iteration_time_s, rel=1e-6)
    assert best["breakdown_s"] == pytest.approx(known.breakdown_s, rel=1e-6, abs=1e-9)
    assert best["gpus_used"] == run.degrees.gpus
