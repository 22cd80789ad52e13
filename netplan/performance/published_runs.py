"""Published training runs: rows of two tables, and the one that is nearest.

`reports/published/measured-runs.csv` has dense models, `reports/published/dated-runs.csv` those of
known software, experts and hybrids among them; the nearest is one of either, but for those of the
latter that were left out as context.

A run is near what is asked if it trained the same model on GPUs of the same family, and on no
fewer than a quarter and no more than four times as many. Of those that are, the nearest has the
least

    |ln(GPUs / GPUs asked)| + |ln(batch / batch asked)| + (1 if the precision differs else 0);

of runs as near as each other the one whose sequences are most alike, then the fastest a token.
What a row means as a run is `netplan.calibration.published`.
"""

from collections.abc import Mapping
from functools import cache
from math import log
from typing import NamedTuple

from netplan.catalog import shipped_rows
from netplan.inputs.choices import Precision
from netplan.workloads.models import Model
from netplan.workloads.precision import precision_named

MOST_TIMES = 4.0
"""GPUs of a run over those asked for, or the other way, from which on it says little [1]."""

ALIKE = 0.01
"""Difference of sizes up to which two models are the same [1]."""

PARTS_OF_THEIR_OWN = ("h100-96gb-500w",)
"""Accelerators that share their family's name and not its power: 500 W instead of 700 W."""


@cache
def published_rows(table: str = "measured-runs") -> tuple[dict[str, str], ...]:
    """All rows of a table, as texts.

    Parameters
    ----------
    table
        Its name: ``measured-runs``, or ``dated-runs`` of runs whose software has a date.

    Returns
    -------
    tuple[dict[str, str], ...]
        Texts by column, a row each.

    Examples
    --------
    >>> len(published_rows()), len(published_rows("dated-runs"))
    (237, 368)
    """
    return tuple(shipped_rows(f"reports/published/{table}.csv"))


def family_of(accelerator: str) -> str:
    """Accelerators of one generation under their common name.

    Parameters
    ----------
    accelerator
        Name of its file.

    Returns
    -------
    str
        What stands before its memory or power.

    Examples
    --------
    >>> [family_of(name) for name in ("a100-40gb", "h100-80gb", "h200", "h100-96gb-500w")]
    ['a100', 'h100', 'h200', 'h100-96gb-500w']
    """
    if accelerator in PARTS_OF_THEIR_OWN or accelerator.startswith("tpu-"):
        return accelerator
    return accelerator.partition("-")[0]


class AskedRun(NamedTuple):
    """What published runs are compared with.

    Parameters
    ----------
    model
        What is trained.
    accelerator
        Name of the GPU's file.
    gpus, batch
        GPUs [1] and global batch [sequences].
    precision
        Precision of the matrix products.
    """

    model: Model
    accelerator: str
    gpus: int
    batch: int
    precision: Precision


def nearest_row(asked: AskedRun) -> Mapping[str, str] | None:
    """The row of the published run that is nearest to what is asked.

    Parameters
    ----------
    asked
        Model, GPUs, batch and precision.

    Returns
    -------
    mapping or None
        The row, of software of a date where both tables have the run; None if no run is near.

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> llama = MODELS.load("llama-3-405b")
    >>> nearest_row(AskedRun(llama, "h100-80gb", 16384, 2048, "bf16"))["id"]
    'LLAMA3-T4-2'
    >>> nearest_row(AskedRun(llama, "h100-80gb", 128, 32, "bf16"))["id"]
    'DGXC25.04.02-llama-3-405b-H100-512-bf16-g256'
    >>> nearest_row(AskedRun(llama, "h100-80gb", 64, 32, "bf16")) is None
    True
    """
    model, gpus = asked.model, asked.gpus
    family = family_of(asked.accelerator)

    def apart(row: Mapping[str, str]) -> tuple[float, float, float]:
        more_gpus, more_batch = float(row["gpus"]) / gpus, float(row["global_batch"]) / asked.batch
        differs = precision_named(row["precision"]) != asked.precision
        tokens = float(row["global_batch"]) * float(row["seq"])
        return (
            abs(log(more_gpus)) + abs(log(more_batch)) + differs,
            abs(log(float(row["seq"]) / model.sequence_length)),
            float(row["gpus"]) * float(row["sec_per_iter"]) / tokens,
        )

    dated = (row for row in published_rows("dated-runs") if row["use"] != "context")
    near = [
        row
        for row in (*dated, *published_rows())
        if family_of(row["accelerator"]) == family
        and gpus <= MOST_TIMES * float(row["gpus"]) <= MOST_TIMES**2 * gpus
        and (row["model"] == model.name or _same_sizes(row, model))
    ]
    return min(near, key=apart, default=None)


def _same_sizes(row: Mapping[str, str], model: Model) -> bool:
    """Whether layers, widths and heads are those of the row, its experts and Mamba too."""
    experts, mamba = model.experts, model.mamba
    sizes = {"layers": model.layers, "hidden": model.hidden_size, "heads": model.heads}
    if experts is not None:
        ffn_size = experts.ffn_size or model.inner_size
        sizes |= {"experts": experts.count, "top_k": experts.per_token, "expert_ffn": ffn_size}
    else:
        sizes |= {"ffn": model.inner_size, "kv_heads": model.key_heads, "experts": 0}
    sizes["mamba_layers"] = mamba.layers if mamba else 0
    return all(
        abs(float(row.get(name) or 0) - size) <= ALIKE * size for name, size in sizes.items()
    )
