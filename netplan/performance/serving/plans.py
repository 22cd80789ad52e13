"""Ways to lay copies of a served model on a cluster, as arrays.

A server has pipeline x attention-data x tensor GPUs; as many of them as there is room for work
beside each other (*replicas*), and GPUs that no server fills are idle, and bought. Neighbours in a
stage fill HB domains (:func:`laid`), of which a stage takes whole ones or a divisor of one: six
GPUs that talk to each other have a domain of eight to themselves.

Which of them a serving engine can be told to make: rows of `traffic/serving-stacks/degrees.csv` say
by engine and degree what is allowed, in words with a source, and name one of `RULES`. Left out is
what kernels of single models ask for, such as whole blocks of scales a GPU.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from math import prod

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Columns, Ints
from netplan.catalog import shipped_rows
from netplan.errors import InputError
from netplan.records import replace
from netplan.traffic.placement import Degrees, Placement, distinct, divisors
from netplan.workloads.expert_load import check_divides
from netplan.workloads.inference import Cut
from netplan.workloads.models import Experts, Model

SMALL, STAGES = (3, 6), (3, 5, 6, 7)
"""Degrees that are tried beside powers of two: of both parts of a stage, and of stages [1]."""

DEGREES = ("tensor", "pipeline", "expert", "attention_data", "replicas")
"""What a serving plan fixes; expert and attention-data share GPUs with tensor."""


class ServingPlans(Columns, frozen=True, eq=False):
    """Plans, one entry each, all of shape (plans,) [1].

    Parameters
    ----------
    tensor, attention_data, expert
        As in `netplan.workloads.inference`.
    pipeline
        Stages of a server.
    replicas
        Servers of the cluster.
    """

    tensor: Ints
    attention_data: Ints
    expert: Ints
    pipeline: Ints
    replicas: Ints

    @property
    def count(self) -> int:
        """Plans [1]."""
        return len(self.tensor)

    @property
    def server_gpus(self) -> Ints:
        """GPUs of one server [1]."""
        return self.tensor * self.attention_data * self.pipeline

    @property
    def gpus_used(self) -> Ints:
        """GPUs that work [1]."""
        return self.server_gpus * self.replicas

    def places(self, sizes: Sequence[int]) -> Ints:
        """GPUs that one server keeps others from, its own included [1]."""
        inside = laid((self.tensor, self.attention_data), sizes)[0].prod(axis=0)
        if prod(sizes) <= sizes[0]:  # a single domain has no border to keep to
            return self.server_gpus
        whole = divisors(sizes[0])
        room = whole[np.searchsorted(whole, inside)]
        return np.asarray(self.server_gpus // inside * room)

    @property
    def expert_tensor(self) -> Ints:
        """GPUs that one expert is cut over [1]."""
        return self.tensor * self.attention_data // self.expert

    @property
    def cut(self) -> Cut:
        """How each stage is cut."""
        parts = (self.tensor, self.attention_data, self.expert)
        return Cut(*(part.astype(np.float64) for part in parts))


class EngineDegree(Struct, frozen=True):
    """What an engine allows of one degree: a row of the table."""

    stack: str
    degree: str
    rule: str
    allowed: str
    how: str
    mark: str
    source: str
    date: str

    @property
    def rule_words(self) -> str:
        """What is allowed, and who says so."""
        return f"{self.degree} degrees are {self.allowed} ({self.source})"


@cache
def engine_degrees(engine: str, exchange: str = "") -> tuple[EngineDegree, ...]:
    """Rows of an engine that bind a degree, in the order of the table.

    Rows of a degree ``with`` an exchange bind where tokens reach their experts by that one.

    Examples
    --------
    >>> [(row.degree, row.rule) for row in engine_degrees("vllm")][:3]
    [('tensor', 'divides-heads'), ('attention-data', 'any'), ('expert', 'one-or-server')]
    """
    rows = [EngineDegree(**row) for row in shipped_rows("traffic/serving-stacks/degrees.csv")]
    binding = [row for row in rows if row.stack in (engine, "all") and row.rule in RULES]
    return tuple(row for row in binding if row.degree.partition(" with ")[2] in ("", exchange))


class Runnable(Struct, frozen=True):
    """Plans that a stack runs on a cluster.

    Parameters
    ----------
    stack, degrees
        Name of the stack, and what its engine allows.
    model
        What it serves.
    node
        GPUs of an HB domain [1].
    stages
        Stages of a plan that nobody fixes [1].
    """

    stack: str
    degrees: tuple[EngineDegree, ...]
    model: Model
    node: int
    stages: frozenset[int]

    def runs(self, plans: ServingPlans) -> Bools:
        """Which plans the engine can be told to make, shape (plans,)."""
        good = np.ones(plans.count, dtype=np.bool_)
        for row in self.degrees:
            good &= RULES[row.rule](plans, self)
        return good

    def broken(self, plans: ServingPlans) -> EngineDegree:
        """The first rule that leaves none of some plans; the last one where all leave some."""
        good = np.ones(plans.count, dtype=np.bool_)
        for row in self.degrees:
            good &= RULES[row.rule](plans, self)
            if not good.any():
                return row
        return self.degrees[-1]

    def refusal(self, plans: ServingPlans, fixed: Mapping[str, int]) -> InputError:
        """Why none of some plans runs: the first rule that leaves none, and who says so."""
        broken = self.broken(plans)
        given = " ".join(f"{name.replace('_', '-')}={value}" for name, value in fixed.items())
        like = f", which runs what {broken.stack} does"
        like = "" if broken.stack in (self.stack, "all") else like
        return InputError(
            f"--fix {given}: of {self.stack}{like}, {broken.rule_words}: fix others, or --any-plan"
        )


RULES: Mapping[str, Callable[[ServingPlans, Runnable], Bools]] = {
    "any": lambda plans, _: np.ones(plans.count, dtype=np.bool_),
    "divides-heads": lambda plans, runnable: runnable.model.heads % plans.tensor == 0,
    "one-or-server": lambda plans, _: (plans.expert == 1) | (plans.expert_tensor == 1),
    "whole-server": lambda plans, _: plans.expert_tensor == 1,
    "divides-server": lambda plans, _: plans.tensor * plans.attention_data % plans.expert == 0,
    "power-or-nodes": lambda plans, runnable: _power_or_nodes(plans, runnable.node),
    "one-or-all": lambda plans, _: (plans.attention_data == 1) | (plans.tensor == 1),
    "even-experts": lambda plans, runnable: _even_experts(plans, runnable.model),
}
"""Which plans keep a rule of the table."""


def _even_experts(plans: ServingPlans, model: Model) -> Bools:
    """Whether all groups have as many experts, and all GPUs of a group as much of each."""
    if model.experts is None:
        return np.ones(plans.count, dtype=np.bool_)
    inner = model.experts.ffn_size or model.inner_size
    return np.asarray(
        (model.experts.count % plans.expert == 0) & (inner % plans.expert_tensor == 0)
    )


def _power_or_nodes(plans: ServingPlans, node: int) -> Bools:
    """Whether a stage has a power of two of GPUs within a node, or whole nodes."""
    stage = plans.tensor * plans.attention_data
    power = (stage & (stage - 1) == 0) & (stage <= node)
    return np.asarray(power | (stage % node == 0))


def serving_plans(
    model: Model,
    gpus: int,
    sizes: Sequence[int],
    fixed: Mapping[str, int],
    runnable: Runnable | None = None,
) -> ServingPlans:
    """Every plan of a model on a cluster, or of them those that its software runs.

    Degrees are powers of two, 3 and 6; of tensor groups within a domain also divisors of the heads,
    of copies of attention those of an HB domain, of stages 5 and 7; or those fixed. They are the
    same whatever the cluster has, so that a larger one has all plans of a smaller one; a degree
    beyond the heads only pads them. Stages are at most the layers. Copies of attention share
    experts; dense models have replicas instead.

    Parameters
    ----------
    model
        The transformer.
    gpus
        GPUs of the cluster [1].
    sizes
        Members of each level, the HB domain first [1].
    fixed
        Degrees that are given, by name.
    runnable
        What the software runs; all plans where it is None.

    Raises
    ------
    InputError
        If a degree is unknown, no plan has those given, or the software runs none that has.

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> plans = serving_plans(MODELS.load("llama-3-8b"), 8, (8,), {"pipeline": 1})
    >>> list(zip(plans.tensor.tolist(), plans.replicas.tolist()))
    [(1, 8), (2, 4), (3, 2), (4, 2), (6, 1), (8, 1)]
    """
    check_fixed(model, gpus, fixed)
    powers = {1 << bit for bit in range(gpus.bit_length())}
    common = {*SMALL, *powers}
    if gpus > sizes[0]:
        common |= {*divisors(sizes[0]).tolist()}
    heads = {divisor for divisor in divisors(model.heads).tolist() if divisor <= sizes[0]}
    tensors = _choices("tensor", {*SMALL, *powers, *heads}, min(gpus, model.heads), fixed)
    usual = {*STAGES, *powers} if runnable is None else runnable.stages
    stages = _choices("pipeline", usual, min(gpus, model.layers), fixed)
    copies = _choices("attention_data", common if model.experts else {1}, gpus, fixed)
    grid = np.meshgrid(tensors, copies, stages, indexing="ij")
    tensor, copy, stage = (degree.ravel() for degree in grid)
    fits = tensor * copy * stage <= gpus
    tensor, copy, stage = tensor[fits], copy[fits], stage[fits]
    rows = np.arange(len(tensor))
    if model.experts is None:
        expert = np.ones_like(tensor)
    else:
        kinds = _expert_degrees(tensor * copy, model.experts, fixed.get("expert"))
        rows = np.repeat(rows, [len(kind) for kind in kinds])
        expert = np.concatenate([*kinds, np.empty(0, dtype=np.int64)])
    alone = ServingPlans(tensor[rows], copy[rows], expert, stage[rows], np.ones_like(expert))
    most = gpus // alone.places(sizes)
    replicas = np.full_like(most, fixed["replicas"]) if "replicas" in fixed else most
    good = (replicas <= most) & (most > 0)
    plans = replace(alone, replicas=replicas).take(good)
    if not plans.count:
        asked = ", ".join(f"{name.replace('_', '-')} {value}" for name, value in fixed.items())
        raise InputError(
            f"no way to lay {model.name} on {gpus:,} GPUs with {asked}: degrees of a server"
            " multiply to its GPUs, and expert divides tensor x attention-data: fix fewer"
        )
    if runnable is None:
        return plans
    runs = runnable.runs(plans)
    if not runs.any():
        raise runnable.refusal(plans, fixed)
    return plans.take(runs)


def laid(degrees: Sequence[Ints], sizes: Sequence[int]) -> Ints:
    """How groups of neighbours lie on levels, shape (levels, degrees, plans) [1].

    Each level takes the largest divisor of what is left of the first degree that it has room for,
    then of the next one in the room that this leaves; what no level has room for lies in the
    outermost.

    Parameters
    ----------
    degrees
        Degrees of every plan, the innermost first, each of shape (plans,) [1].
    sizes
        Members of each level, the HB domain first [1].

    Examples
    --------
    Groups of 4, 16 and 6 on domains of 8; two copies of groups of 4 fit one of them, three do not.

    >>> laid((np.array([4, 16, 6]),), (8, 4))[:, 0]
    array([[4, 8, 6],
           [1, 2, 1]])
    >>> laid((np.array([4, 4]), np.array([2, 3])), (8, 4))[:, 1]
    array([[2, 1],
           [1, 3]])
    """
    rows = np.stack(degrees)
    first, which = distinct(rows)
    table = np.ones((len(sizes), len(rows), len(first)), dtype=np.int64)
    for index, totals in enumerate(rows[:, first].T.tolist()):
        rest = [int(degree) for degree in totals]
        for level, size in enumerate(sizes[:-1]):
            room = size
            for dimension, total in enumerate(rest):
                most = max(divisor for divisor in divisors(total).tolist() if divisor <= room)
                table[level, dimension, index] = most
                rest[dimension], room = total // most, room // most
        table[-1, :, index] = rest
    return table[:, :, which]


def placed(plans: ServingPlans, sizes: Sequence[int], first: int = 0) -> Placement:
    """Where the ranks of one plan stand: tensor innermost, then copies, stages, and servers.

    Copies of attention stand in the place of the expert degree. Behind the fabric's levels there
    are two more, of stages and of servers.

    Parameters
    ----------
    plans
        One plan.
    sizes
        Members of each level, the HB domain first [1].
    first
        GPU at which its first server begins [1].

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> fixed = {"tensor": 6, "pipeline": 1}
    >>> plans = serving_plans(MODELS.load("llama-3-8b"), 16, (8, 2), fixed)
    >>> placed(plans, (8, 2)).groups("tensor").tolist()
    [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]
    >>> placed(plans, (8, 2)).gpu_of_rank.tolist()
    [0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13]
    """
    inner = laid((plans.tensor, plans.attention_data), sizes)[:, :, 0].tolist()
    levels = [Degrees(tensor=tensor, expert=copies) for tensor, copies in inner]
    stages, servers = int(plans.pipeline[0]), int(plans.replicas[0])
    levels += [Degrees(pipeline=stages), Degrees(data=servers)]
    outer = [prod(level) for level in levels[1:]]
    room = int(plans.places(sizes)[0]) // prod(outer[:-1])
    return Placement(tuple(levels), (room, *outer), first)


def check_fixed(model: Model, gpus: int, fixed: Mapping[str, int]) -> None:
    """Refuse degrees that no plan has."""
    for name, value in fixed.items():
        if name not in DEGREES:
            known = ", ".join(degree.replace("_", "-") for degree in DEGREES)
            raise InputError(
                f"--fix {name.replace('_', '-')}={value}: a serving plan fixes {known}, and with"
                " --disaggregated those of one pool, such as prefill-tensor"
            )
        if not 1 <= value <= gpus:
            raise InputError(f"--fix {name}={value} is out of range: give 1 to {gpus:,}, the GPUs")
    for name in ("expert", "attention_data"):
        if fixed.get(name, 1) > 1 and model.experts is None:
            raise InputError(
                f"--fix {name.replace('_', '-')}={fixed[name]}: {model.name} has no experts that"
                " copies of attention could share: fix replicas instead"
            )
    experts = model.experts
    if experts is not None and fixed.get("expert", 1) > experts.held:
        raise InputError(
            f"--fix expert={fixed['expert']}: {model.name} has {experts.count} experts a layer"
        )
    if fixed.get("pipeline", 1) > model.layers:
        raise InputError(
            f"--fix pipeline={fixed['pipeline']}: {model.name} has {model.layers} layers"
        )


def _choices(name: str, common: Collection[int], most: int, fixed: Mapping[str, int]) -> Ints:
    """Degrees that are tried, in rising order."""
    degrees = {fixed[name]} if name in fixed else {degree for degree in common if degree <= most}
    return np.array(sorted(degrees), dtype=np.int64)


def _expert_degrees(gpus: Ints, experts: Experts, fixed: int | None) -> list[Ints]:
    """Expert degrees of stages of so many GPUs: divisors of them, up to the experts.

    Those that are loaded unevenly lie as many on each GPU, copies included.
    """
    table, load = {}, experts.load
    redundant = experts.held - experts.count
    if load is not None and load.shares and fixed is not None:
        check_divides(experts.count, fixed, redundant)
    for size in np.unique(gpus).tolist():
        every = divisors(size)
        every = every[every <= experts.held]
        if load is not None:
            every = load.divides(every, experts.count)
        table[size] = every if fixed is None else every[every == fixed]
    if redundant and all(kinds.max(initial=1) == 1 for kinds in table.values()):
        # No plan spreads experts, which redundant ones are for: what is missing least is named.
        several = {degree for size in table for degree in divisors(size).tolist()} - {1}
        least = min(several, key=lambda degree: (-experts.held % degree, degree), default=1)
        check_divides(experts.count, least, redundant)
    return [table[size] for size in gpus.tolist()]
