"""The best parallel plans of a model on one fabric, and why one plan or mode beats another."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from netplan.errors import InputError
from netplan.performance.explain import Difference, explain, explain_modes
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.plan import PlanTime, SearchResult
from netplan.performance.search import search_plans
from netplan.performance.setting import AnyStrategy, Setting, Training, TrainingOptions
from netplan.questions.inputs import CatalogReader, sizing_on
from netplan.reports.text import Cell
from netplan.topologies.build import build_fabric
from netplan.topologies.specs import FABRICS
from netplan.version import __version__
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS
from netplan.workloads.operations import Mode, Recompute
from netplan.workloads.program import Zero

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_RADIX = 64


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """The answer of :func:`search`.

    Parameters
    ----------
    inputs
        The question, with all defaults filled in.
    found
        Best plans and size of the space.
    memory_bytes
        Memory of one GPU [B].
    notes
        What the fabric assumes.
    differences
        Term by term, where an explanation was asked for.
    """

    inputs: dict[str, Any]
    found: SearchResult
    memory_bytes: float
    notes: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Exactly the JSON of ``netplan search --format json``."""
        answer = {"netplan_version": __version__, **self.found.to_dict(), "notes": list(self.notes)}
        answer["inputs"] = self.inputs
        if self.differences:
            answer["explanation"] = [difference.to_dict() for difference in self.differences]
        return answer

    def to_rows(self) -> list[dict[str, Cell]]:
        """One flat row a plan."""
        return [_flat(rank, plan) for rank, plan in enumerate(self.found.plans, start=1)]

    def to_frame(self) -> "pd.DataFrame":
        """One row a plan, one column a number."""
        import pandas as pd

        return pd.DataFrame(self.to_rows()).set_index("rank")

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(escape=True))


def search(  # noqa: PLR0913 - one keyword an input, as on the command line
    *,
    gpus: int,
    model: str = "gpt-1t",
    accelerator: str = "gh200-96gb",
    hb_size: int | None = None,
    batch: int | None = None,
    fabric: str = "rail-optimized",
    radix: int = DEFAULT_RADIX,
    oversubscription: float | None = None,
    strategy: AnyStrategy = "1d",
    iteration_model: str = "4d",
    mode: Mode = "corrected",
    top: int = 1,
    recompute: Recompute = "selective",
    experts: int = 1,
    top_k: int = 1,
    expert_degree: int | None = None,
    embedding: bool = False,
    lm_head: bool = False,
    zero_stage: Zero | None = None,
    interleave: Literal["none", "whole", "any"] | None = None,
    fixed: Mapping[str, int] | None = None,
    explain: str | None = None,
    catalog: str | Path | None = None,
    overrides: Mapping[str, str] | None = None,
) -> SearchAnswer:
    """Find the best parallel plans of a model on a cluster, proven over the whole space.

    Parameters
    ----------
    gpus
        GPUs in the cluster [1].
    model, accelerator, fabric, iteration_model
        Catalog names or paths to files.
    hb_size
        GPUs per HB domain; the accelerator's own if absent [1].
    batch
        Global batch; the model's own if absent [sequences].
    radix, oversubscription
        The fabric's switches, and bandwidth down over up at the leaves of Clos networks [1].
    strategy, mode, recompute, experts, top_k, expert_degree, embedding, lm_head, zero_stage
        As in `netplan.performance.setting.TrainingOptions`; so is ``interleave``.
    top
        Plans to return [1].
    fixed
        Values that the search leaves no choice of, such as ``{"pipeline": 64, "microbatch": 1}``.
    explain
        ``modes`` compares the modes on the best plan, ``1,2`` two plans by rank.
    catalog, overrides
        As in :func:`netplan.compare`.

    Raises
    ------
    InputError
        If an input is not allowed.
    InfeasibleError
        If no plan divides model and batch over the GPUs, or none fits the memory.

    Examples
    --------
    >>> best = search(gpus=4096, accelerator="b200", hb_size=8, mode="published-code")
    >>> best.found.enumerated, best.found.feasible, round(best.found.plans[0].iteration_time_s, 4)
    (2544, 484, 9.039)
    """
    reader = CatalogReader(catalog, overrides)
    on, spec = reader.load(ACCELERATORS, accelerator), reader.load(FABRICS, fabric)
    trained, assumptions = (
        reader.load(MODELS, model),
        reader.load(ITERATION_MODELS, iteration_model),
    )
    sizing = sizing_on(
        on, gpus=gpus, radix=radix, hb_size=hb_size, oversubscription=oversubscription
    )
    built = build_fabric(spec, sizing)
    if not built.levels or built.sizing.full_domains * built.sizing.hb_size != gpus:
        raise InputError(
            f"{gpus:,} GPUs do not fill HB domains of {built.sizing.hb_size:,} on {spec.name}:"
            " give a multiple, or another --hb-size"
        )
    method = TrainingOptions(
        strategy=strategy,
        mode=mode,
        recompute=recompute,
        experts=experts,
        top_k=top_k,
        expert_degree=expert_degree,
        embedding=embedding,
        lm_head=lm_head,
        zero_stage=zero_stage,
        interleave=interleave,
    )
    options = method.options(fixed)
    training = Training.on(on, trained, assumptions, batch=batch)
    wanted = max(top, *_ranks(explain)) if explain else top
    found = search_plans(
        training,
        built.levels,
        strategy=method.strategy,
        mode=method.mode,
        options=options,
        top=wanted,
    )
    differences = _explained(found, explain) if explain else ()
    found = replace(found, plans=found.plans[:top])
    inputs = {
        "gpus": gpus,
        "model": model,
        "accelerator": accelerator,
        "hb_size": built.sizing.hb_size,
        "batch": training.batch,
        "fabric": fabric,
        "radix": radix,
        "oversubscription": oversubscription,
        "iteration_model": iteration_model,
        "top": top,
        **method.inputs(found.settings[0]),
        "fixed": options.fixed.given,
        "explain": explain,
        "set": reader.replaced(),
    }
    return SearchAnswer(inputs, found, on.memory_bytes, built.notes, differences)


def _ranks(text: str) -> tuple[int, ...]:
    """Ranks that an explanation compares; the best plan alone for modes.

    Raises
    ------
    InputError
        If the text is neither ``modes`` nor two ranks.
    """
    if text == "modes":
        return (1,)
    first, comma, second = text.partition(",")
    if comma and first.strip().isdecimal() and second.strip().isdecimal():
        ranks = int(first), int(second)
        if min(ranks) >= 1:
            return ranks
    raise InputError(f"--explain {text!r}: write modes, or two ranks such as 1,2")


def _explained(found: SearchResult, text: str) -> tuple[Difference, ...]:
    ranks = _ranks(text)
    if max(ranks) > len(found.plans):
        raise InputError(f"--explain {text}: only {found.feasible:,} plans fit")
    chosen = [found.plans[rank - 1] for rank in ranks]
    settings = [_setting(found, plan) for plan in chosen]
    if text == "modes":
        return explain_modes(settings[0], found.levels, chosen[0].plan)
    first, second = ((setting, one.plan) for setting, one in zip(settings, chosen, strict=True))
    return explain(found.levels, first, second)


def _setting(found: SearchResult, plan: PlanTime) -> Setting:
    """The setting under which a plan was found."""
    return next(setting for setting in found.settings if setting.strategy == plan.strategy)


def _flat(rank: int, plan: PlanTime) -> dict[str, Cell]:
    data = plan.to_dict(rank)
    row: dict[str, Cell] = {"rank": rank, "strategy": plan.strategy}
    row |= {key: data[key] for key in ("iteration_time_s", "mfu", "memory_bytes")}
    row |= {key: value for key, value in data["plan"].items() if isinstance(value, int)}
    row |= {f"hb_{key}": value for key, value in data["plan"]["hb"].items()}
    row |= {f"{key}_s": value for key, value in plan.breakdown_s.items()}
    return row
