"""Memory of published runs against memory model ``stack``.

`reports/published/memory-peaks.csv` has peaks as software printed them, of tests of Megatron-LM and
of torchtitan's runs; `memory-fits.csv` all runs of one study with what became of them: they ran, or
memory ran out. All runs of `measured-runs.csv` ran; `memory-runs.csv` says by which software's
rules their memory is counted, what they computed again and what the host's memory held.

Peaks are those of the stage that was printed. Most runs that ran out of memory and fit by these
formulas compute every layer again, and failed at 0.4 to 0.9 of the capacity: what else their
software holds is not published, and nothing is tuned on them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from statistics import fmean, median
from typing import Any, cast

from msgspec import Struct

from netplan.calibration.published import held_as_made, published_run
from netplan.performance.memory_verdict import Verdict, verdict
from netplan.performance.published_runs import published_rows
from netplan.performance.stack_memory import PlanSizes, StackMemory
from netplan.performance.stacks import MemoryOfStack, MemoryRow
from netplan.published.checks import Check, check, published
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import Experts, LatentAttention, Model
from netplan.workloads.recomputation import Recomputation

TITLE = "Memory of published runs"
LARGE_BYTES = 8e9
"""Peaks above it are those of models as people train them [B]."""

MOST_MEDIAN, MOST_REFUSED, LEAST_REFUSED = 0.03, 4, 160
"""Median error of printed peaks, refused runs that ran, and refused runs that did not, beyond which
a check fails [1]."""

GOLDEN = "MLM-gpt"
"""Source of Megatron-LM's golden values: small models of one family, near-duplicates."""


class RunMemory(Struct, frozen=True):
    """A published run, what it printed and what memory model ``stack`` says of it.

    Parameters
    ----------
    name, source
        The run, and who published it.
    bytes
        Computed peak of the stage that was printed, else of the fullest one [B].
    printed_bytes
        Peak as printed [B]; 0 where only the outcome is known.
    verdict
        Whether it fits by the model; empty where only the peak is compared.
    ran
        Whether it ran.
    """

    name: str
    source: str
    bytes: float
    printed_bytes: float = 0.0
    verdict: Verdict | str = ""
    ran: bool = True

    @property
    def error(self) -> float:
        """Absolute relative error of the computed peak [1]."""
        return abs(self.bytes / self.printed_bytes - 1)


@cache
def run_memories() -> Mapping[str, tuple[RunMemory, ...]]:
    """Computed memory of every row, by the name of its table.

    Examples
    --------
    >>> {table: len(runs) for table, runs in run_memories().items()}
    {'memory-peaks': 77, 'memory-fits': 422, 'memory-runs': 237}
    """
    return {
        "memory-peaks": tuple(map(_peak, published("memory-peaks"))),
        "memory-fits": tuple(map(_outcome, published("memory-fits"))),
        "memory-runs": tuple(map(_run, published_rows())),
    }


def _peak(row: Mapping[str, str]) -> RunMemory:
    stage = None if row["printed_stage"] == "worst" else float(row["printed_stage"])
    return RunMemory(row["id"], row["source"], _peak_bytes(row, stage), float(row["peak_bytes"]))


def _outcome(row: Mapping[str, str]) -> RunMemory:
    peak_bytes = _peak_bytes(row)
    usable = ACCELERATORS.load(row["accelerator"]).usable_bytes
    ran = row["outcome"] == "ok"
    return RunMemory(
        row["id"], row["source"], peak_bytes, verdict=verdict(peak_bytes, usable), ran=ran
    )


def _run(row: Mapping[str, str]) -> RunMemory:
    """A run of `measured-runs.csv` as it was made."""
    run = published_run(row)
    peak_bytes = float(held_as_made(run).total[0])
    fit = verdict(peak_bytes, run.accelerator.usable_bytes)
    return RunMemory(run.name, run.source, peak_bytes, verdict=fit)


SIZES = (
    "layers",
    "hidden_size",
    "ffn_size",
    "heads",
    "vocabulary",
    "sequence_length",
    "prediction_layers",
)
EXPERTS = {
    "count": "experts",
    "per_token": "per_token",
    "ffn_size": "expert_ffn_size",
    "shared_ffn_size": "shared_ffn_size",
    "dense_first_layers": "dense_first_layers",
}
LATENT = {
    "query_rank": "query_rank",
    "kv_rank": "kv_rank",
    "head_size": "latent_head_size",
    "rotary_head_size": "rotary_head_size",
    "value_head_size": "latent_value_size",
}
"""Keys of a model and of its blocks, by their columns."""


def _peak_bytes(row: Mapping[str, str], stage: float | None = None) -> float:
    """Computed peak of a row with the sizes of its model and its plan [B]."""
    memory = StackMemory(
        _model(row),
        MemoryOfStack(software=cast("MemoryRow", row["software"])),
        precision=row.get("precision", "bf16"),
        sequence_parallel=row["sequence_parallel"] == "true",
        fused_attention=row["fused_attention"] == "true",
        dropout=row.get("dropout") == "true",
        head_bytes=float(row["head_bytes"]) if row["head_bytes"] else None,
        gradient_bytes=float(row.get("gradient_bytes") or 0.0) or None,
        positions=int(row.get("positions", 0)),
    )
    sizes = PlanSizes(*(float(row.get(name, 1)) for name in PlanSizes.__struct_fields__[:-1]))
    held = memory.held(
        sizes,
        recompute=Recomputation.read(row["recompute"]),
        zero=int(row.get("zero", 1)),
        stage=stage,
    )
    return float(held.total[0])


def _model(row: Mapping[str, str]) -> Model:
    blocks: dict[str, Any] = {**_whole(row, {name: name for name in SIZES})}
    if row.get("kv_rank"):
        blocks["latent_attention"] = LatentAttention(**_whole(row, LATENT))
    else:
        blocks |= _whole(row, {name: name for name in ("kv_heads", "head_size")})
    if row.get("experts"):
        experts: dict[str, Any] = {**_whole(row, EXPERTS)}
        blocks["experts"] = Experts(**experts)
    return Model(
        name=row["id"],
        title=row["id"],
        source=row["url"],
        date=row.get("released", ""),
        batch=1,
        gated_ffn=row.get("gated_ffn", "true") == "true",
        tied_embeddings=row.get("tied_embeddings") == "true",
        **blocks,
    )


def _whole(row: Mapping[str, str], columns: Mapping[str, str]) -> dict[str, int]:
    """Whole numbers of a row by the keys of a record; empty cells are left out."""
    return {key: int(row[name]) for key, name in columns.items() if row.get(name)}


def run_memory_checks() -> Iterator[Check]:
    """Errors of printed peaks, and verdicts on runs that ran and on runs that did not."""
    tables = run_memories()
    peaks = tables["memory-peaks"]
    large = [run for run in peaks if run.printed_bytes > LARGE_BYTES]
    golden = [run for run in peaks if run.source == GOLDEN]
    for name, runs in (
        ("printed peaks", peaks),
        (f"those above {LARGE_BYTES / 1e9:.0f} GB", large),
        ("golden values of Megatron-LM among them", golden),
    ):
        errors = [run.error for run in runs]
        yield check(
            f"{name}: median error of {len(runs)}, %",
            f"{TITLE}, printed peaks",
            f"at most {100 * MOST_MEDIAN:.1f}",
            f"{100 * median(errors):.1f} (mean {100 * fmean(errors):.1f}, largest"
            f" {100 * max(errors):.1f})",
            met=median(errors) <= MOST_MEDIAN,
            gap=median(errors),
        )
    fits, runs = tables["memory-fits"], tables["memory-runs"]
    yield _verdicts("training runs, all of which ran", runs, most=MOST_REFUSED)
    yield _verdicts("runs of a study that ran", [run for run in fits if run.ran], most=0)
    out = [run for run in fits if not run.ran]
    yield _verdicts("runs of a study that ran out of memory", out, least=LEAST_REFUSED)


def _verdicts(
    name: str, runs: Sequence[RunMemory], *, most: int | None = None, least: int = 0
) -> Check:
    """How many of some runs are refused."""
    counts = Counter(run.verdict for run in runs)
    limit = f"at least {least}" if most is None else f"at most {most}"
    wrong = sum((run.verdict == "no") == run.ran for run in runs)
    return check(
        f"{name}: refused of {len(runs)}",
        f"{TITLE}, outcomes",
        limit,
        f"{counts['no']} (tight {counts['tight']}, fit {counts['fit']})",
        same=not wrong,
        met=least <= counts["no"] <= (len(runs) if most is None else most),
        gap=wrong / len(runs),
    )
