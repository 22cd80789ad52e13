"""What serving asks for, read from catalogs, and the search for the servers that do it best."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from netplan.errors import InputError
from netplan.levels import Level
from netplan.performance.serving.cases import (
    Drafts,
    Software,
    domain_levels,
    formats_of,
    serving_case,
)
from netplan.performance.serving.outcomes import Goal, Requests, ServingCase
from netplan.performance.serving.serving_search import ServingFound, best_servers
from netplan.performance.serving.speculation import check_window
from netplan.performance.stacks import DATAFLOW_SERVING_STACK, DEFAULT_SERVING_STACK, SERVING_STACKS
from netplan.questions.answers.served_plan import ServedPlan
from netplan.questions.answers.serving_answer import served_plans
from netplan.questions.question import Question
from netplan.records import replace
from netplan.scenarios.reading import CatalogReader, in_planes, sized, variants
from netplan.topologies.build import build_fabric, own_rates
from netplan.topologies.fabric import MIN_GPUS
from netplan.topologies.specs import FABRICS
from netplan.units import MILLI
from netplan.workloads.accelerators import ACCELERATORS, Accelerator
from netplan.workloads.measured_links import Links
from netplan.workloads.models import MODELS, Model
from netplan.workloads.precision import serving_precision

Asked = Question[Any]
Known = dict[tuple[Level, ...], ServingFound]
"""What searches of one question found, by the levels of the fabric."""


class Searched(NamedTuple):
    """What is served, its plans, and what to know of their numbers."""

    case: ServingCase
    found: ServingFound
    notes: tuple[str, ...]


class ServedBest(NamedTuple):
    """The best plan of a served model on one fabric."""

    searched: Searched
    plan: ServedPlan


def serve_best(
    asked: Asked, reader: CatalogReader, fabric: str, known: Known | None = None
) -> ServedBest:
    """The best plan on a fabric, as `netplan serving` has it for these inputs.

    Raises
    ------
    NetplanError
        As that question.
    """
    searched = search_servers(asked, reader, fabric, known)
    servers_found, gpus = searched.found, asked.cluster.gpus
    (plan,) = served_plans(servers_found.ranked, servers_found.pools, searched.case, gpus, 1)
    return ServedBest(searched, plan)


def search_servers(
    asked: Asked, reader: CatalogReader, fabric: str, known: Known | None = None
) -> Searched:
    """Read the files, and search; levels that are ``known`` were searched before."""
    cluster, serving = asked.cluster, asked.serving
    named = reader.load(ACCELERATORS, cluster.accelerator)
    chip = variants(reader, named, (cluster.expanded_memory,))[0].chip
    model = served_model(reader, serving.model)
    levels, known = _levels(asked, fabric, reader, chip), {} if known is None else known
    case = serving_case_on(asked, reader, chip, model, levels)
    if levels not in known:
        known[levels] = best_servers(
            case, cluster.gpus, fixed_degrees(asked), goal_of(asked), apart=serving.disaggregated
        )
    return Searched(case, known[levels], tuple(serving_notes(chip, model, case, serving.precision)))


def fixed_degrees(asked: Asked) -> Mapping[str, int]:
    """Degrees that are given, by the names of plans."""
    given = asked.serving.fixed or {}
    return {name.replace("-", "_"): value for name, value in given.items()}


def _levels(
    asked: Asked, fabric: str, reader: CatalogReader, chip: Accelerator
) -> tuple[Level, ...]:
    """Levels of the fabric, of HB domains that are all full; one domain needs no fabric."""
    members = asked.cluster.hb_size or chip.hb_size
    spec = in_planes(reader.load(FABRICS, fabric), chip.network_cards)
    members = spec.hb_size or members
    alone = asked.cluster.gpus <= members
    if alone and spec.hb_kind == "switch":
        return domain_levels(chip.changed(hb_size=members), asked.cluster.gpus)
    members = min(members, asked.cluster.gpus)
    whole = max(-(-asked.cluster.gpus // members) * members, MIN_GPUS)
    # Serving asks nothing of ports.
    cluster = replace(asked.cluster, gpus=whole, hb_size=members, ports="shared")
    sizing = sized(cluster, chip)
    if not alone and (levels := build_fabric(spec, sizing).levels):
        return levels
    domain, network = domain_levels(chip.changed(hb_size=members), asked.cluster.gpus)
    if alone:
        domain = spec.hb_level(own_rates(spec, sizing))
    return domain, network.as_found(sizing.network_kind or spec.network_kind, sizing.as_found)


def goal_of(asked: Asked) -> Goal:
    """Requests in flight, and the service level."""
    return Goal(
        concurrency=asked.serving.concurrency,
        batch=asked.serving.batch,
        ttft_s=None if asked.serving.ttft_ms is None else asked.serving.ttft_ms * MILLI,
        tpot_s=None if asked.serving.tpot_ms is None else asked.serving.tpot_ms * MILLI,
    )


def serving_case_on(
    asked: Asked, reader: CatalogReader, chip: Accelerator, model: Model, levels: tuple[Level, ...]
) -> ServingCase:
    """What is served on levels.

    Raises
    ------
    InputError
        If a request is longer than the model's context, or inputs contradict each other.
    """
    requests = Requests(asked.serving.prompt, asked.serving.output)
    if model.context_length is not None and requests.tokens > model.context_length:
        raise InputError(
            f"--prompt {requests.prompt:,} and --output {requests.output:,} are {requests.tokens:,}"
            f" tokens, and the context of {model.name} has {model.context_length:,}: give fewer"
        )
    fused = chip.execution == "fused"
    usual = DATAFLOW_SERVING_STACK if fused else DEFAULT_SERVING_STACK
    stack = reader.load(SERVING_STACKS, asked.serving.stack or usual)
    formats = formats_of(chip, model, asked.serving.precision, asked.serving.kv_precision)
    links = Links.of(chip, reader.load)
    software = Software(stack, asked.serving.kernels, links, _drafts(asked, reader, chip))
    return serving_case(chip, model, levels, requests, formats, software)


def _drafts(asked: Asked, reader: CatalogReader, chip: Accelerator) -> Drafts | None:
    """The model that drafts, if one is named."""
    drafting = {
        "--window": asked.serving.window,
        "--acceptance": asked.serving.acceptance,
        "--speculation": asked.serving.speculation,
    }
    given = [flag for flag, value in drafting.items() if value is not None]
    if asked.serving.draft is None:
        if given:
            raise InputError(f"{given[0]} needs a model that drafts: give --draft, too")
        return None
    if asked.serving.window is None or asked.serving.acceptance is None:
        missing = "--window" if asked.serving.window is None else "--acceptance"
        raise InputError(f"--draft {asked.serving.draft} needs {missing}: give it, too")
    scheme = asked.serving.speculation or "sequence"
    check_window(asked.serving.window, scheme)
    model = served_model(reader, asked.serving.draft)
    formats = formats_of(chip, model, asked.serving.precision, asked.serving.kv_precision)
    return Drafts(model, formats, asked.serving.window, asked.serving.acceptance, scheme)


def served_model(reader: CatalogReader, name: str) -> Model:
    """The transformer that is served."""
    return reader.load(MODELS, name)


def serving_notes(chip: Accelerator, model: Model, case: ServingCase, precision: str) -> list[str]:
    """What to know of the numbers."""
    notes = []
    if note := serving_precision(chip, precision).note:
        notes.append(note)
    notes += case.untried
    if model.prediction_layers:
        notes.append(
            f"Layers of {model.name} that predict further tokens are not loaded: give --draft for"
            " speculation."
        )
    left = [note_left for note_left in model.left_out if note_left]
    if left:
        notes.append(f"Left out of {model.name}: {', '.join(left)}.")
    return notes
