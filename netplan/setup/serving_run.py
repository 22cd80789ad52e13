"""What serving asks for, read from catalogs, and the search for the servers that do it best.

How requests come, a rate or a trace, with the caches before them; and plans as rows of an answer:
degrees, times with bars, caches.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from netplan.errors import InputError
from netplan.levels import Level
from netplan.performance.serving import cases, outcomes
from netplan.performance.serving.arrivals import read_requests
from netplan.performance.serving.bars import months_older, served_bar
from netplan.performance.serving.disaggregated import POOLS, Pools, cache_sent, pool_degrees
from netplan.performance.serving.load import Arrivals
from netplan.performance.serving.plans import ServingPlans
from netplan.performance.serving.serving_search import ServingFound, best_servers, binding
from netplan.performance.serving.speculation import check_window
from netplan.performance.serving.tiers import KvTier, read_tiers
from netplan.performance.stacks import DATAFLOW_SERVING_STACK, DEFAULT_SERVING_STACK, SERVING_STACKS
from netplan.records import replace
from netplan.scenarios.reading import CatalogReader, in_planes, sized, variants
from netplan.setup.expert_routing import with_expert_load
from netplan.setup.question import AnyQuestion
from netplan.setup.served_plan import LevelSource, ServedPlan, ServedPool, ServiceLevel, TierLoad
from netplan.topologies.build import build_fabric, own_rates
from netplan.topologies.fabric import MIN_GPUS
from netplan.topologies.specs import FABRICS
from netplan.traffic.measured_links import MeasuredLinks
from netplan.units import MILLI, si
from netplan.workloads.accelerators import ACCELERATORS, Accelerator
from netplan.workloads.inference import Formats
from netplan.workloads.models import MODELS, Model
from netplan.workloads.precision import published_precision, serving_precision

ServingCache = dict[tuple[Level, ...], ServingFound]
"""What searches of one question found, by the levels of the fabric."""


class Searched(NamedTuple):
    """What is served, its plans, what to know of their numbers, and how requests come."""

    case: outcomes.ServingCase
    found: ServingFound
    notes: tuple[str, ...]
    load: Arrivals | None = None


def serve_best(
    asked: AnyQuestion, reader: CatalogReader, fabric: str, known: ServingCache | None = None
) -> tuple[Searched, ServedPlan]:
    """The best plan on a fabric, as `netplan serving` has it for these inputs.

    Raises
    ------
    NetplanError
        As that question.
    """
    searched = search_servers(asked, reader, fabric, known)
    (plan,) = served_plans(searched.found, searched.case, asked.cluster.gpus, 1)
    return searched, plan


def search_servers(
    asked: AnyQuestion, reader: CatalogReader, fabric: str, known: ServingCache | None = None
) -> Searched:
    """Read the files, and search; levels that are ``known`` were searched before."""
    cluster, serving = asked.cluster, asked.serving
    named = reader.load(ACCELERATORS, cluster.accelerator)
    chip = variants(reader, named, (cluster.expanded_memory,))[0].chip
    model = reader.load(MODELS, serving.model)
    model = with_expert_load(model, serving.routing, serving.imbalance)
    levels, known = _levels(asked, fabric, reader, chip), {} if known is None else known
    load = load_of(asked)
    case = serving_case_on(asked, reader, chip, model, levels, load)
    if levels not in known:
        goal = goal_of(asked, model)
        goal = goal if load is None else replace(goal, rate=load.rate, requests=None)
        known[levels] = best_servers(
            case,
            cluster.gpus,
            fixed_degrees(asked),
            goal,
            apart=serving.disaggregated,
            runnable=None if serving.any_plan else case.runnable(serving.exchange),
        )
    notes = serving_notes(chip, model, case, serving.precision)
    if not known[levels].feasible:
        notes.insert(0, f"No plan keeps {known[levels].goal.words}: the nearest to it is shown.")
    return Searched(case, known[levels], tuple(notes), load)


def fixed_degrees(asked: AnyQuestion) -> Mapping[str, int]:
    """Degrees that are given, by the names of plans."""
    given = asked.serving.fixed or {}
    return {name.replace("-", "_"): value for name, value in given.items()}


def _levels(
    asked: AnyQuestion, fabric: str, reader: CatalogReader, chip: Accelerator
) -> tuple[Level, ...]:
    """Levels of the fabric, of HB domains that are all full; one domain needs no fabric."""
    members = asked.cluster.hb_size or chip.hb_size
    spec = in_planes(reader.load(FABRICS, fabric), chip.network_cards)
    members = spec.hb_size or members
    alone = asked.cluster.gpus <= members
    if alone and spec.hb_kind == "switch":
        return cases.domain_levels(chip.changed(hb_size=members), asked.cluster.gpus)
    members = min(members, asked.cluster.gpus)
    whole = max(-(-asked.cluster.gpus // members) * members, MIN_GPUS)
    # Serving asks nothing of ports.
    cluster = replace(asked.cluster, gpus=whole, hb_size=members, ports="shared")
    sizing = sized(cluster, chip)
    if not alone and (levels := build_fabric(spec, sizing).levels):
        return levels
    domain, network = cases.domain_levels(chip.changed(hb_size=members), asked.cluster.gpus)
    if alone:
        domain = spec.hb_level(own_rates(spec, sizing))
    return domain, network.as_found(sizing.network_kind or spec.network_kind, sizing.as_found)


def goal_of(asked: AnyQuestion, model: Model) -> outcomes.Goal:
    """Requests in flight, and the service level: the usual one where none is given.

    A finite number of requests that comes at once waits: it has no usual level.

    A plan that is given with its requests is told with its times, whatever they are.

    Raises
    ------
    InputError
        If a level is given and taken away.
    """
    serving = asked.serving
    given = {"ttft_s": serving.ttft_ms, "tpot_s": serving.tpot_ms}
    level = {name: most * MILLI for name, most in given.items() if most is not None}
    if level and not serving.level:
        raise InputError("--no-level means nothing beside --ttft-ms or --tpot-ms: leave one out")
    offline = serving.requests is not None and load_of(asked) is None
    usual = serving.level and not level and not offline
    if usual:
        level = {"ttft_s": outcomes.USUAL_TTFT_S, "tpot_s": outcomes.USUAL_TPOT_S}
    whole = serving.concurrency is not None and _all_fixed(asked, model)
    return outcomes.Goal(
        concurrency=serving.concurrency,
        batch=serving.batch,
        requests=serving.requests,
        **level,
        usual=usual,
        binding=not (usual or whole),
    )


def _all_fixed(asked: AnyQuestion, model: Model) -> bool:
    """Whether every degree of a server is given, of both pools and with their numbers if apart."""
    fixed = fixed_degrees(asked)
    degrees = {"tensor", "pipeline"} | ({"expert", "attention_data"} if model.experts else set())
    if not asked.serving.disaggregated:
        return degrees <= fixed.keys()
    return all(degrees | {"replicas"} <= pool_degrees(fixed, pool).keys() for pool in POOLS)


def serving_case_on(
    asked: AnyQuestion,
    reader: CatalogReader,
    chip: Accelerator,
    model: Model,
    levels: tuple[Level, ...],
    load: Arrivals | None = None,
) -> outcomes.ServingCase:
    """What is served on levels.

    Raises
    ------
    InputError
        If a request is longer than the model's context, or inputs contradict each other.
    """
    requests, most = _requests(asked, load)
    if model.context_length is not None and most > model.context_length:
        words = f"--prompt {requests.prompt:,} and --output {requests.output:,} are {most:,} tokens"
        if load is not None and load.trace is not None:
            words = f"{asked.serving.load.trace}: its longest request has {most:,} tokens"
        raise InputError(
            f"{words}, and the context of {model.name} has {model.context_length:,}: give fewer"
        )
    fused = chip.execution == "fused"
    usual = DATAFLOW_SERVING_STACK if fused else DEFAULT_SERVING_STACK
    stack = reader.load(SERVING_STACKS, asked.serving.stack or usual)
    names = (SERVING_STACKS.role, SERVING_STACKS.short, stack.name, *stack.aliases)
    values = (key.partition(".") for key in reader.overrides)
    given = {value for name, _, value in values if name in names}
    if asked.serving.exchange is not None:
        if model.experts is None:
            raise InputError(
                f"--exchange {asked.serving.exchange} means nothing for {model.name}, which has no"
                " experts that copies of attention could share: leave it out"
            )
        stack, given = stack.changed(exchange=asked.serving.exchange), given | {"exchange"}
    older = months_older(stack, asked.serving.software_date)
    links = MeasuredLinks.of(chip, reader.load)
    software = cases.ServingSoftware(
        stack, asked.serving.kernels, links, given=frozenset(given), older_months=older
    )
    formats = _formats(asked, chip, model, software)
    software = replace(software, drafts=_drafts(asked, reader, chip, software))
    case = cases.serving_case(chip, model, levels, requests, formats, software)
    tiers, share = tiers_of(asked), asked.serving.load.prefix_share
    case = replace(case, prefix_share=share, tiers=tiers) if share else case
    if case.room_bytes <= 0:
        room = case.room_bytes + sum(tier.size_bytes for tier in tiers if tier.name == "hbm")
        raise InputError(
            f"--kv-tier hbm takes all of the {si(room, 'B')} that weights and caches have of a"
            " GPU's memory: give it less, or the prefixes another tier"
        )
    return case


def _formats(
    asked: AnyQuestion, chip: Accelerator, model: Model, software: cases.ServingSoftware
) -> Formats:
    """Numbers of a model as they are asked for."""
    serving = asked.serving
    return cases.formats_of(chip, model, serving.precision, serving.kv_precision, software)


def _drafts(
    asked: AnyQuestion, reader: CatalogReader, chip: Accelerator, software: cases.ServingSoftware
) -> cases.Drafts | None:
    """The model that drafts, if one is named."""
    if asked.serving.speculation == "mtp":
        return _predicts(asked, reader, chip, software)
    drafting = {
        "--window": asked.serving.window,
        "--acceptance": asked.serving.acceptance,
        "--speculation": asked.serving.speculation,
        "--draft-tokens": asked.serving.draft_tokens,
    }
    given = [flag for flag, value in drafting.items() if value is not None]
    if asked.serving.draft is None:
        if given:
            what = "--speculation mtp" if given[0] == "--draft-tokens" else "--draft"
            raise InputError(f"{given[0]} needs a model that drafts: give {what}, too")
        return None
    if asked.serving.draft_tokens is not None:
        raise InputError(
            "--draft-tokens are those of --speculation mtp: give --window with --draft"
        )
    if asked.serving.window is None or asked.serving.acceptance is None:
        missing = "--window" if asked.serving.window is None else "--acceptance"
        raise InputError(f"--draft {asked.serving.draft} needs {missing}: give it, too")
    scheme = asked.serving.speculation or "sequence"
    check_window(asked.serving.window, scheme)
    model = reader.load(MODELS, asked.serving.draft)
    formats = _formats(asked, chip, model, software)
    return cases.Drafts(model, formats, asked.serving.window, asked.serving.acceptance, scheme)


def _predicts(
    asked: AnyQuestion, reader: CatalogReader, chip: Accelerator, software: cases.ServingSoftware
) -> cases.Drafts:
    """Layers of the model itself that draft: multi-token prediction."""
    serving = asked.serving
    for flag, value in (("--draft", serving.draft), ("--window", serving.window)):
        if value is not None:
            raise InputError(
                f"--speculation mtp drafts with layers of {serving.model} itself, --draft-tokens of"
                f" them: leave out {flag}"
            )
    if serving.acceptance is None:
        raise InputError("--speculation mtp needs --acceptance: give it, too")
    model = reader.load(MODELS, serving.model)
    formats = _formats(asked, chip, model, software)
    tokens = serving.draft_tokens or max(1, model.prediction_layers)
    return cases.Drafts(model, formats, tokens, serving.acceptance, own=True)


def serving_notes(
    chip: Accelerator, model: Model, case: outcomes.ServingCase, precision: str
) -> list[str]:
    """What to know of the numbers."""
    notes = []
    published = case.served.kernels.source == "measured" and cases.as_published(model, precision)
    served = (
        published_precision(chip, model.name) if published else serving_precision(chip, precision)
    )
    if served.note:
        notes.append(served.note)
    notes += case.untried
    if model.experts is not None and len(case.served.sizes) > 1 and case.served.sizes[1] > 1:
        notes.append(
            "Exchanges between HB domains are not hidden here: wide EP may be twice as fast."
        )
    if model.experts and model.experts.load and case.served.kernels.tabled:
        notes.append(
            "Tables of kernels have tokens that are a little uneven already, with skew or without:"
            " times of uneven experts are so many times these."
        )
    if case.speculated is not None and case.speculated.own:
        if not model.prediction_layers:
            notes.append(
                f"{model.name} has no layers that predict further tokens: one of its own stands in."
            )
    elif model.prediction_layers:
        notes.append(
            f"Layers of {model.name} that predict further tokens are not loaded: give"
            " --speculation mtp."
        )
    if case.older_months and (model.experts is None or case.served.kernels.source != "measured"):
        notes.append("--software-date changes nothing here: it widens bars of models with experts.")
    left = [note_left for note_left in model.left_out if note_left]
    if left:
        notes.append(f"Left out of {model.name}: {', '.join(left)}.")
    return notes


def load_of(asked: AnyQuestion) -> Arrivals | None:
    """How requests come, if anything says so.

    Raises
    ------
    InputError
        If inputs contradict each other, or a trace is none.
    """
    load, count = asked.serving.load, asked.serving.requests
    if load.rate is None and load.trace is None:
        if load.burstiness != 1.0:
            raise InputError("--burstiness shapes the gaps of --rate: give that, too")
        return None
    flag = "--rate" if load.trace is None else "--trace"
    if asked.serving.disaggregated:
        raise InputError(
            f"{flag} with --disaggregated is not modelled, arrivals at two pools: leave one out"
        )
    for name, value in (
        ("--concurrency", asked.serving.concurrency),
        ("--batch", asked.serving.batch),
    ):
        if value is not None:
            raise InputError(
                f"{flag} and {name} both say how many requests are in flight: give one"
            )
    if load.trace is None:
        return Arrivals(load.rate or 0.0, load.burstiness, None, count)
    given = [
        f"--{name}" for name in ("rate", "burstiness", "prompt", "output") if name in asked.given
    ]
    if given:
        raise InputError(f"--trace says it in place of {given[0]}: leave that out")
    trace = read_requests(Path(load.trace))
    if count is not None and count > len(trace.arrival_s):
        raise InputError(
            f"--requests {count:,} are more than the {len(trace.arrival_s):,} of"
            f" {load.trace}: give fewer"
        )
    trace = trace.first(count)
    rate = trace.rate
    if rate == float("inf"):
        raise InputError(
            f"{load.trace}: all requests come at once, at no rate: give --requests without --trace"
        )
    return Arrivals(rate, load.burstiness, trace, len(trace.arrival_s))


def _requests(asked: AnyQuestion, load: Arrivals | None) -> tuple[outcomes.Requests, int]:
    """The mean request, and tokens of the longest one [1]."""
    serving, trace = asked.serving, load.trace if load is not None else None
    if trace is None:
        return outcomes.Requests(serving.prompt, serving.output), serving.prompt + serving.output
    mean = outcomes.Requests(round(trace.prompt.mean()), round(trace.output.mean()))
    return mean, int((trace.prompt + trace.output).max())


def tiers_of(asked: AnyQuestion) -> tuple[KvTier, ...]:
    """Tiers of stored caches.

    Raises
    ------
    InputError
        If there is no share of prompts that they could hold.
    """
    load = asked.serving.load
    if load.kv_tiers and not load.prefix_share:
        raise InputError("--kv-tier holds a share of prompts: give --prefix-share, too")
    if not 0 <= load.prefix_share < 1:
        raise InputError(
            f"--prefix-share {load.prefix_share:g}: give a share from 0 to below 1; the last token"
            " of a prompt is always computed"
        )
    return read_tiers(load.kv_tiers)


POOL_FIELDS = ("tensor", "pipeline", "expert", "attention_data", "expert_tensor", "replicas")


def served_plans(
    searched: ServingFound, case: outcomes.ServingCase, gpus: int, most: int | None = None
) -> tuple[ServedPlan, ...]:
    """Rows of an answer, the first ``most`` of them."""
    outcome, pools = searched.ranked, searched.pools
    goal, kept = searched.goal, searched.goal.meets(outcome).tolist()
    aims = goal.ttft_s is not None or goal.tpot_s is not None
    source: LevelSource = "default" if goal.usual else "given"
    count = outcome.plans.count if most is None else min(most, outcome.plans.count)
    bottlenecks, first = binding(outcome), binding(outcome, first=True)
    sent_bytes = cache_sent(case, pools)[0] if pools is not None else None
    origins = case.served.origins(case.decodes(np.ones(1)))
    rows = []
    for index in range(count):
        barred = _barred(case, outcome, index, offered=goal.rate is not None)
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
                bottleneck=bottlenecks[index],
                ttft_bottleneck=first[index],
                queue_s=float(outcome.queue_s[index]),
                service_level=ServiceLevel(goal.ttft_s, goal.tpot_s, source, kept[index])
                if aims
                else None,
                breakdown_s={
                    name: centre * float(part[index]) for name, part in outcome.parts.items()
                },
                ttft_breakdown_s={
                    name: float(part[index]) for name, part in outcome.prompt_parts.items()
                },
                kernel_source=origins,
                prefill=_pool(pools.prefill, index) if pools is not None else None,
                decode=_pool(pools.decode, index) if pools is not None else None,
                kv_sent_bytes=float(sent_bytes[index]) if sent_bytes is not None else None,
                kv_tiers=_tiers(case, outcome, pools, index),
            )
        )
    return tuple(rows)


def _barred(
    case: outcomes.ServingCase, outcome: outcomes.ServingResult, index: int, *, offered: bool
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
    if (bar := served_bar(case, "tpot")) is not None:
        low_s, high_s = tpot_s * bar.low**wider, tpot_s * bar.high**wider
        centre, kind, held = bar.shown_centre, f"TPOT, {bar.kind}", bar.held

    def rate(first_s: float, each_s: float) -> float:
        request_s = first_s + (output - 1) * each_s
        if outcome.run_rate is None:
            return float(outcome.concurrency[index]) * output / request_s
        return predicted * float(outcome.request_s[index]) / request_s

    ends = rate(ttft_s * first, high_s), rate(ttft_s / first, low_s)
    shown = predicted if centre == 1.0 else rate(ttft_s, centre * tpot_s)
    finite = served_bar(case, "offline") if outcome.run_rate is not None else None
    whole = served_bar(case, "tokens/s", _batch(outcome, index)) or finite
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
    case: outcomes.ServingCase, outcome: outcomes.ServingResult, pools: Pools | None, index: int
) -> tuple[TierLoad, ...]:
    """What tiers of caches have to give to one plan; GPUs that take prompts read them."""
    plans = outcome.plans if pools is None else pools.prefill
    place = np.array([index])
    one_plan, rate = plans.take(place), float(outcome.tokens_per_s[index] / case.requests.output)
    if not case.tiers:
        return ()
    prompt, stored = outcomes.prefills(case, one_plan, np.ones(1)), case.stored_bytes
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


def _batch(outcome: outcomes.ServingResult, index: int) -> int:
    """Requests that one server decodes together, the fullest one."""
    copies = int(outcome.plans.attention_data[index])
    return max(1, round(float(outcome.in_flight[index]) * copies))


def _degrees(plans: ServingPlans, index: int) -> dict[str, Any]:
    """Degrees and number of the servers of one plan."""
    return {name: int(getattr(plans, name)[index]) for name in POOL_FIELDS}


def _pool(plans: ServingPlans, index: int) -> ServedPool:
    """Servers of one pool."""
    return ServedPool(**_degrees(plans, index), gpus=int(plans.gpus_used[index]))
