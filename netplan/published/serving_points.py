"""Printed throughput of serving against serving plans, as each point ran.

The points stand in `reports/published/serving-points.csv`: a model with its weights and cache as
they ran, GPUs and how they share it, requests, and tokens of output a second and GPU. They are of
three kinds, which `scenario` tells:

- *offline*: all requests come at once, and tokens count over the whole run (71 points of
  TensorRT-LLM's overview). Classes: dense models, gpt-oss, other mixtures of experts;
- *static batches*: some prompts start together, and nothing else comes;
- *closed loops*: a number of requests is always in flight.

Nothing is fitted to classes: a class has its geometric mean of predicted over printed tokens a
second, and its median error.

Serving under load: queues with laws, a batch that another program simulated, caches over cards.

The batch's values stand in `reports/published/serving-simulation.csv`, to six digits, from the same
generator. M/D/1 queues, of which the first two cases are, have a mean time of rho S / (2 (1 - rho))
+ S; a simulation of 200,000 requests is a draw of it.

DualPath loads the caches of prompts over the storage cards of servers for decode, too, and sends
them on to prefill (Wu et al., arXiv:2602.21548). Only the abstract was readable, and summaries: of
its clusters not how many servers take prompts and how many decode, of its agents not how long their
prompts are. So netplan's value is a bound: two pools of as many servers, each with a storage card
for its GPUs, and loading that binds both ways, as prompts that are nearly all cached let it. Where
computing binds before the second card is full, less is gained; with more servers for decode, more.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Literal

import numpy as np
from msgspec import Struct, convert

from netplan.arrays import Floats
from netplan.inputs.choices import ServingFormat
from netplan.levels import Level
from netplan.performance.serving.arrivals import RequestStream, arrivals
from netplan.performance.serving.bars import serving_bars
from netplan.performance.serving.batch import BatchOutcome, BatchServer, TimeSpread, simulate_batch
from netplan.performance.serving.cases import (
    ServingSoftware,
    domain_levels,
    formats_of,
    serving_case,
)
from netplan.performance.serving.outcomes import (
    Requests,
    aggregated,
    decode_steps,
    finite_waves,
    prefills,
)
from netplan.performance.serving.plans import ServingPlans
from netplan.performance.serving.queueing import mean_field_step_s, queue_wait_s
from netplan.performance.serving.tiers import read_tiers
from netplan.performance.stacks import SERVING_STACKS
from netplan.published.checks import Check, check, claim, published
from netplan.published.measured_serving import OWN
from netplan.records import PositiveFloat, PositiveInt
from netplan.scenarios.reading import sizing_on
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import MIN_GPUS
from netplan.topologies.specs import FABRICS
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS

TABLE = "serving-points"
OFFLINE, STATIC, LOOP = "offline", "static batch", "closed loop"
"""How scenarios begin."""

BALANCED = ("deepseek-r1",)
"""Models whose printed configuration lets copies of attention start prompts together
(attention_dp_config, enable_balance)."""

RADIX = 64
"""Ports of switches, of which a torus has none [1]."""

OfflineClass = Literal["dense", "gpt-oss", "other experts"]


class PrintedServing(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One printed point.

    Parameters
    ----------
    model, accelerator, gpus
        Names in the catalogs, and GPUs of the whole.
    software, software_date
        What served, and when as far as it is known.
    precision, weights_as_run, cache
        As it is asked for, and what weights and cache were.
    tensor, pipeline, attention_data, expert
        Degrees.
    prompt, output
        Tokens.
    requests, concurrency
        In all, and in flight, if printed [1].
    tokens_per_s_per_gpu
        Tokens of output a second and GPU [1/s].
    ttft_s, tpot_s
        If printed [s].
    scenario, source
        How it ran, and where it is printed.
    """

    model: str
    accelerator: str
    gpus: PositiveInt
    software: Literal["TensorRT-LLM", "vLLM"]
    software_date: str
    precision: ServingFormat
    weights_as_run: str
    cache: ServingFormat | None = None
    tensor: PositiveInt
    pipeline: PositiveInt
    attention_data: PositiveInt
    expert: PositiveInt = 1
    prompt: PositiveInt
    output: PositiveInt
    requests: PositiveInt | None = None
    concurrency: PositiveInt | None = None
    tokens_per_s_per_gpu: PositiveFloat
    ttft_s: PositiveFloat | None = None
    tpot_s: PositiveFloat | None = None
    scenario: str
    source: str

    @property
    def kind(self) -> OfflineClass:
        """Class of its model."""
        if MODELS.load(self.model).experts is None:
            return "dense"
        return "gpt-oss" if self.model.startswith("gpt-oss") else "other experts"


@cache
def printed_servings() -> tuple[PrintedServing, ...]:
    """All points of the table, in its order.

    Examples
    --------
    >>> points = printed_servings()
    >>> len(points), sum(point.scenario.startswith(OFFLINE) for point in points)
    (85, 71)
    """
    rows = ({name: text for name, text in row.items() if text} for row in published(TABLE))
    return tuple(convert(row, PrintedServing, strict=False) for row in rows)


def predicted_rates(points: Sequence[PrintedServing]) -> Floats:
    """Tokens a second and GPU of points, each as it ran, shape (points,) [1/s]."""
    alike: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for place, point in enumerate(points):
        same = (point.model, point.accelerator, point.precision, point.cache, point.software)
        alike[*same, point.scenario.split()[0]].append(place)
    rates = np.empty(len(points))
    for index in alike.values():
        rates[index] = _rates_together([points[place] for place in index])
    return rates


def _rates_together(points: Sequence[PrintedServing]) -> Floats:
    """Rates of points of one model on one kind of system that ran in one way."""
    first = points[0]
    chip, model = ACCELERATORS.load(first.accelerator), MODELS.load(first.model)
    numbers = ("prompt", "output", "requests", "concurrency", "gpus")
    prompt, output, requests, concurrency, gpus = (
        np.array([getattr(point, name) or np.nan for point in points]) for name in numbers
    )
    stack = SERVING_STACKS.load(OWN[first.software])
    if first.model in BALANCED:
        stack = stack.changed(balance=True)
    if not chip.torus_dimensions:
        levels: Sequence[Level] = domain_levels(chip, chip.hb_size)
    else:
        spec = FABRICS.load(f"torus-{chip.torus_dimensions}d")
        levels = build_fabric(
            spec, sizing_on(chip, gpus=max(first.gpus, MIN_GPUS), radix=RADIX)
        ).levels
    software = ServingSoftware(stack)
    case = serving_case(
        chip,
        model,
        levels,
        Requests(prompt, output),
        formats_of(chip, model, first.precision, first.cache, software),
        software,
    )
    degrees = ("tensor", "attention_data", "expert", "pipeline")
    rows = [[getattr(point, name) for name in degrees] + [1] for point in points]
    plans = ServingPlans(*np.array(rows, dtype=np.int64).T)
    if first.scenario.startswith(OFFLINE):
        rates = finite_waves(case, plans, requests).tokens_per_s
    elif first.scenario.startswith(STATIC):
        # A batch that starts at once, and that nothing joins.
        prompts_s = concurrency * prefills(case, plans, concurrency).each_s
        steps_s = (output - 1) * decode_steps(case, plans, concurrency).step_s
        rates = concurrency * output / (case.stack.prompt_s + prompts_s + steps_s)
    else:
        rates = aggregated(case, plans, concurrency).tokens_per_s
    return np.asarray(rates / gpus)


class ClassErrors(Struct, frozen=True):
    """Predicted over printed tokens a second of a class of points [1].

    Parameters
    ----------
    group
        The class.
    points
        How many it has.
    ratio
        Geometric mean.
    error
        Median of absolute errors.
    """

    group: str
    points: int
    ratio: float
    error: float


@cache
def offline_errors() -> tuple[ClassErrors, ...]:
    """Errors of offline points: all of them, then each class."""
    points = [point for point in printed_servings() if point.scenario.startswith(OFFLINE)]
    printed = np.array([point.tokens_per_s_per_gpu for point in points])
    ratios = predicted_rates(points) / printed
    kinds = np.array([point.kind for point in points])
    groups: Mapping[str, Floats] = {
        "all": ratios,
        **{kind: ratios[kinds == kind] for kind in ("dense", "gpt-oss", "other experts")},
    }
    return tuple(class_errors(group, some) for group, some in groups.items())


def class_errors(group: str, ratios: Floats) -> ClassErrors:
    """Errors of one class, of predicted over printed values.

    Examples
    --------
    >>> class_errors("two", np.array([0.5, 2.0]))
    ClassErrors(group='two', points=2, ratio=1.0, error=0.75)
    """
    mean = float(np.exp(np.log(ratios).mean()))
    return ClassErrors(group, len(ratios), mean, float(np.median(np.abs(ratios - 1))))


TITLE = "Printed points of serving"
WITHIN = 0.92, 1.08
"""Geometric means of predicted over printed tokens a second that a class is held to [1]."""

HOLDS = 0.85, 0.95
"""Shares of points with their model left out that bars are held to [1]."""

MOST_ERROR: Mapping[str, float] = {"dense": 0.06, "gpt-oss": 0.14, "other experts": 0.14}
"""Median errors that a class is held to [1]."""


def printed_point_checks() -> Iterator[Check]:
    """Geometric means and median errors of classes, and points of chips without tables."""
    for errors in offline_errors()[1:]:
        low, high = WITHIN
        yield check(
            f"offline, {errors.group} ({errors.points} points): predicted over printed tokens/s",
            f"{TITLE}, offline",
            f"{low} to {high}",
            f"{errors.ratio:.2f}",
            met=low <= errors.ratio <= high,
            gap=errors.ratio - 1,
        )
        most = MOST_ERROR[errors.group]
        yield check(
            f"offline, {errors.group} ({errors.points} points): median error, %",
            f"{TITLE}, offline",
            f"at most {100 * most:.0f}",
            f"{100 * errors.error:.1f}",
            met=errors.error <= most,
            gap=errors.error,
        )
    for bar in serving_bars():
        if bar.quantity != "tpot":
            continue
        low, high = HOLDS
        share = bar.held_wide or 0.0
        yield check(
            f"bar of TPOT, {bar.kind}: share of points held with their model left out, %",
            f"{TITLE}, bars",
            f"{100 * low:.0f} to {100 * high:.0f}",
            f"{100 * share:.0f} (not widened {100 * (bar.held or 0.0):.0f})",
            met=low <= share <= high,
            gap=share - 0.9,
        )
    others = [point for point in printed_servings() if not point.scenario.startswith(OFFLINE)]
    for point, rate in zip(others, predicted_rates(others), strict=True):
        chip = "TPU" if point.accelerator.startswith("tpu") else "MI300X"
        printed = point.tokens_per_s_per_gpu
        yield check(
            f"{point.model} on {point.gpus} {point.accelerator}, {point.prompt:,}/{point.output:,},"
            f" {point.concurrency} requests: tokens/s a GPU",
            f"{TITLE}, {chip}",
            f"{printed:.1f}",
            f"{rate:.1f}",
            gap=rate / printed - 1,
        )


SIMULATED = "serving-simulation"
PROGRAM = "plain simulation of a batch, numpy's default_rng(1)"
DIGITS = 1e-5
"""Relative error of six printed digits, with room for one [1]."""
POOL_GPUS = np.array([8, 16])
"""GPUs of prefill alone, and with as many for decode [1]."""


def simulated(row: Mapping[str, str]) -> BatchOutcome:
    """One case of the table, from its own generator.

    Parameters
    ----------
    row
        Its cells by column.

    Returns
    -------
    BatchOutcome
        What became of its requests.
    """
    number = {name: float(text) for name, text in row.items() if name != "case"}
    times_s = arrivals(
        number["rate"], int(number["requests"]), int(number["seed"]), number["burstiness"]
    )
    stream = RequestStream.of(times_s, prompt=int(number["prompt"]), output=int(number["output"]))
    slots, chunk = int(number["slots"]), int(number["chunk"])
    server = BatchServer.linear(number["a"], number["b"], number["c"], slots=slots, chunk=chunk)
    return simulate_batch(stream, server)


def serving_load_checks() -> Iterator[Check]:
    """Simulated batches, laws of queues, and caches over the cards of both pools."""
    rows = {row["case"]: row for row in published(SIMULATED)}
    outcomes = {case: simulated(row) for case, row in rows.items()}
    for case, row in rows.items():
        outcome = outcomes[case]
        ttft, tpot = TimeSpread.of(outcome.ttft_s), TimeSpread.of(outcome.tpot_s)
        values = {
            "ttft_mean": ttft.mean,
            "ttft_p99": ttft.p99,
            "tpot_mean": tpot.mean,
            "tokens_per_s": outcome.tokens_per_s,
            "in_system": outcome.in_system,
        }
        for name, value in values.items():
            near = abs(value - float(row[name])) <= DIGITS * float(row[name])
            yield check(f"{case}: {name}", PROGRAM, row[name], f"{value:.6g}", same=near)
    for case in ("md1-0.5", "md1-0.8"):
        time_s = float(queue_wait_s(float(rows[case]["rate"]), 0.1)) + 0.1
        yield claim(f"{case}: mean time, closed form, s", f"{time_s:.2f}")
        drawn_s = float(outcomes[case].sojourn_s.mean())
        yield claim(f"{case}: mean time, simulated, s", f"{drawn_s:.4f}")
    for case in ("llm-light", "llm-heavy"):
        numbers = {name: float(rows[case][name]) for name in ("a", "b", "c", "prompt", "output")}
        step_s = mean_field_step_s(
            float(rows[case]["rate"]),
            prompt=numbers["prompt"],
            output=numbers["output"],
            step_s=numbers["a"],
            request_s=numbers["b"],
            prompt_token_s=numbers["c"],
        )
        yield check(
            f"{case}: mean field of TPOT, s", PROGRAM, rows[case]["tpot_mean"], f"{step_s:.6f}"
        )
    (card,) = read_tiers(["remote=1000:6.25:1"])
    alone, both = card.most_rate(1e9, POOL_GPUS)
    for what, least in (("offline, at most", 1.87), ("online, in the mean", 1.96)):
        name = f"DualPath: throughput over loading by prefill alone, {what}"
        yield claim(name, f"{both / alone:.2f}", met=least <= both / alone)
