"""Plans of servers that a search found, as rows of an answer: degrees, times with bars, caches."""

from typing import Any

import numpy as np

from netplan.performance.serving.bars import bar_of
from netplan.performance.serving.disaggregated import Pools, cache_sent
from netplan.performance.serving.outcomes import Goal, ServingCase, ServingResult, prefills
from netplan.performance.serving.plans import ServingPlans
from netplan.performance.serving.serving_search import ServingFound, binding
from netplan.setup.served_plan import LevelSource, ServedPlan, ServedPool, ServiceLevel, TierLoad

POOL_FIELDS = ("tensor", "pipeline", "expert", "attention_data", "expert_tensor", "replicas")


def served_plans(
    searched: ServingFound, case: ServingCase, gpus: int, most: int | None = None
) -> tuple[ServedPlan, ...]:
    """Rows of an answer, the first ``most`` of them."""
    outcome, pools = searched.ranked, searched.pools
    levels = _levels(searched.goal, outcome)
    count = outcome.plans.count if most is None else min(most, outcome.plans.count)
    binds, first = binding(outcome), binding(outcome, first=True)
    sent = cache_sent(case, pools).gpu_bytes if pools is not None else None
    origins = case.served.origins(case.decodes(np.ones(1)))
    rows = []
    for index in range(count):
        barred = _barred(case, outcome, index, offered=searched.goal.rate is not None)
        rate, centre = barred["tokens_per_s"], barred.pop("centre")
        used = outcome.plans.gpus_used if pools is None else pools.gpus_used
        rows.append(
            ServedPlan(
                rank=index + 1,
                **_degrees(outcome.plans, index),
                gpus_used=int(used[index]),
                batch=_batch(outcome, index),
                concurrency=round(float(outcome.concurrency[index])),
                tokens_per_s_per_gpu=rate / gpus,
                **barred,
                memory_bytes=float(outcome.memory_bytes[index]),
                binds=binds[index],
                ttft_binds=first[index],
                queue_s=float(outcome.queue_s[index]),
                service_level=levels[index] if levels else None,
                breakdown_s={
                    name: centre * float(part[index]) for name, part in outcome.parts.items()
                },
                ttft_breakdown_s={
                    name: float(part[index]) for name, part in outcome.prompt_parts.items()
                },
                kernel_source=origins,
                prefill=_pool(pools.prefill, index) if pools is not None else None,
                decode=_pool(pools.decode, index) if pools is not None else None,
                kv_sent_bytes=float(sent[index]) if sent is not None else None,
                kv_tiers=_tiers(case, outcome, pools, index),
            )
        )
    return tuple(rows)


def _levels(goal: Goal, outcome: ServingResult) -> list[ServiceLevel]:
    """The level that is asked for, and whether outcomes keep it; nothing without one."""
    if goal.ttft_s is None and goal.tpot_s is None:
        return []
    source: LevelSource = "default" if goal.usual else "given"
    kept = goal.meets(outcome).tolist()
    return [ServiceLevel(goal.ttft_s, goal.tpot_s, source, met) for met in kept]


def _barred(
    case: ServingCase, outcome: ServingResult, index: int, *, offered: bool
) -> dict[str, Any]:
    """Times and throughput with the ends of their error bars, by class of model if one is known.

    Where the centre of a class is off, what is printed is the prediction times that ``centre``.
    """
    crowd = outcome.concurrency[index] / outcome.plans.gpus_used[index]
    basis = "measured" if crowd <= case.stack.crowded_requests else "extrapolated"
    basis = "transferred" if case.untried else basis
    wider = 1.0 if basis == "measured" else case.stack.beyond
    ttft_s, tpot_s = float(outcome.ttft_s[index]), float(outcome.tpot_s[index])
    first, per_token = 1 + wider * case.stack.ttft_error, 1 + wider * case.stack.tpot_error
    low_s, high_s, centre, kind = tpot_s / per_token, tpot_s * per_token, 1.0, None
    held: float | None = None
    output, predicted = float(case.requests.output), float(outcome.tokens_per_s[index])
    if (bar := bar_of(case, "tpot")) is not None:
        low_s, high_s = tpot_s * bar.low**wider, tpot_s * bar.high**wider
        centre, kind, held = bar.shown_centre, f"TPOT, {bar.kind}", bar.held

    def rate(first_s: float, each_s: float) -> float:
        request_s = first_s + (output - 1) * each_s
        if outcome.run_rate is None:
            return float(outcome.concurrency[index]) * output / request_s
        return predicted * float(outcome.request_s[index]) / request_s

    ends = rate(ttft_s * first, high_s), rate(ttft_s / first, low_s)
    shown = predicted if centre == 1.0 else rate(ttft_s, centre * tpot_s)
    finite = bar_of(case, "offline") if outcome.run_rate is not None else None
    whole = bar_of(case, "tokens/s", _batch(outcome, index)) or finite
    if whole is not None:
        ends, kind = (predicted * whole.low, predicted * whole.high), whole.words
        held = whole.held
        shown = predicted * whole.shown_centre
    if offered:  # as many tokens as are asked for
        shown, ends = predicted, (predicted, predicted)
    return {
        "ttft_s": ttft_s,
        "ttft_low_s": ttft_s / first,
        "ttft_high_s": ttft_s * first,
        "tpot_s": centre * tpot_s,
        "tpot_low_s": low_s,
        "tpot_high_s": high_s,
        "error_basis": basis,
        "error_class": kind,
        "error_held": held,
        "tokens_per_s": shown,
        "tokens_per_s_low": ends[0],
        "tokens_per_s_high": ends[1],
        "centre": centre,
    }


def _tiers(
    case: ServingCase, outcome: ServingResult, pools: Pools | None, index: int
) -> tuple[TierLoad, ...]:
    """What tiers of caches have to give to one plan; GPUs that take prompts read them."""
    plans = outcome.plans if pools is None else pools.prefill
    place = np.array([index])
    one_plan, rate = plans.take(place), float(outcome.tokens_per_s[index] / case.requests.output)
    if not case.tiers:
        return ()
    prompt, stored = prefills(case, one_plan, np.ones(1)), case.stored_bytes
    gpus, readers = int(one_plan.gpus_used[0]), one_plan.tensor * one_plan.pipeline
    every = [rate * tier.hit * stored for tier in case.tiers]
    return tuple(
        TierLoad(
            tier=tier.name,
            hit=tier.hit,
            request_bytes=stored,
            bytes_per_s=read,
            gpu_bytes_per_s=read / gpus,
            round_bytes=read * float(outcome.tpot_s[index]),
            utilisation=read / (gpus * tier.bytes_per_s),
            added_s=float(tier.added_s(stored, readers, prompt.rest_s)[0]),
            prefixes=gpus * tier.size_bytes / stored,
        )
        for tier, read in zip(case.tiers, every, strict=True)
    )


def _batch(outcome: ServingResult, index: int) -> int:
    """Requests that one server decodes together, the fullest one."""
    copies = int(outcome.plans.attention_data[index])
    return max(1, round(float(outcome.running[index]) * copies))


def _degrees(plans: ServingPlans, index: int) -> dict[str, Any]:
    """Degrees and number of the servers of one plan."""
    return {name: int(getattr(plans, name)[index]) for name in POOL_FIELDS}


def _pool(plans: ServingPlans, index: int) -> ServedPool:
    """Servers of one pool."""
    return ServedPool(**_degrees(plans, index), gpus=int(plans.gpus_used[index]))
