"""Ways to lay copies of a served model on a cluster, as arrays.

A server has pipeline x attention-data x tensor GPUs; as many of them as there is room for work
beside each other (*replicas*), and GPUs that no server fills are idle, and bought.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from netplan.arrays import Bools, Floats, Ints
from netplan.errors import InputError
from netplan.traffic.placement import divisors
from netplan.workloads.inference import Cut
from netplan.workloads.models import Model

DEGREES = ("tensor", "pipeline", "expert", "attention_data", "replicas")
"""What a serving plan fixes; expert and attention-data share GPUs with tensor."""


class ServingPlans(Struct, frozen=True, eq=False):
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

    @property
    def expert_tensor(self) -> Ints:
        """GPUs that one expert is cut over [1]."""
        return self.tensor * self.attention_data // self.expert

    @property
    def cut(self) -> Cut:
        """How each stage is cut."""
        parts = (self.tensor, self.attention_data, self.expert)
        return Cut(*(part.astype(np.float64) for part in parts))

    def take(self, index: Ints | Bools) -> "ServingPlans":
        """Some of the plans."""
        return ServingPlans(*(getattr(self, name)[index] for name in self.__struct_fields__))


def serving_plans(
    model: Model, gpus: int, sizes: Sequence[int], fixed: Mapping[str, int]
) -> ServingPlans:
    """Every plan of a model on a cluster.

    Degrees divide the cluster, an HB domain or the heads, or are powers of two, or are those fixed;
    a degree beyond the heads only pads them. Stages are at most the layers. Copies of attention
    share experts; dense models have replicas instead.

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

    Raises
    ------
    InputError
        If a degree is unknown, or no plan has those given.

    Examples
    --------
    >>> from netplan.workloads.models import MODELS
    >>> plans = serving_plans(MODELS.load("llama-3-8b"), 8, (8,), {"pipeline": 1})
    >>> list(zip(plans.tensor.tolist(), plans.replicas.tolist()))
    [(1, 8), (2, 4), (4, 2), (8, 1)]
    """
    check_fixed(model, gpus, fixed)
    common = {*divisors(gpus).tolist(), *divisors(sizes[0]).tolist()}
    common |= {1 << bit for bit in range(gpus.bit_length())}
    heads = {one for one in divisors(model.heads).tolist() if one <= sizes[0]}
    tensors = _choices("tensor", {*common, *heads}, min(gpus, model.heads), fixed)
    stages = _choices("pipeline", common, min(gpus, model.layers), fixed)
    copies = _choices("attention_data", common if model.experts else {1}, gpus, fixed)
    grid = np.meshgrid(tensors, copies, stages, indexing="ij")
    tensor, copy, stage = (one.ravel() for one in grid)
    fits = tensor * copy * stage <= gpus
    tensor, copy, stage = tensor[fits], copy[fits], stage[fits]
    rows = np.arange(len(tensor))
    if model.experts is None:
        expert = np.ones_like(tensor)
    else:
        kinds = _expert_degrees(tensor * copy, model.experts.count, fixed.get("expert"))
        rows = np.repeat(rows, [len(one) for one in kinds])
        expert = np.concatenate([*kinds, np.empty(0, dtype=np.int64)])
    tensor, copy, stage = tensor[rows], copy[rows], stage[rows]
    most = gpus // (tensor * copy * stage)
    replicas = np.full_like(most, fixed["replicas"]) if "replicas" in fixed else most
    good = replicas <= most
    found = ServingPlans(tensor, copy, expert, stage, replicas).take(good)
    if not found.count:
        asked = ", ".join(f"{name.replace('_', '-')} {value}" for name, value in fixed.items())
        raise InputError(
            f"no way to lay {model.name} on {gpus:,} GPUs with {asked}: degrees of a server"
            " multiply to its GPUs, and expert divides tensor x attention-data: fix fewer"
        )
    return found


def check_fixed(model: Model, gpus: int, fixed: Mapping[str, int]) -> None:
    """Refuse degrees that no plan has."""
    for name, value in fixed.items():
        if name not in DEGREES:
            known = ", ".join(one.replace("_", "-") for one in DEGREES)
            raise InputError(f"--fix {name}={value}: a serving plan fixes {known}")
        if not 1 <= value <= gpus:
            raise InputError(f"--fix {name}={value} is out of range: give 1 to {gpus:,}, the GPUs")
    for name in ("expert", "attention_data"):
        if fixed.get(name, 1) > 1 and model.experts is None:
            raise InputError(
                f"--fix {name.replace('_', '-')}={fixed[name]}: {model.name} has no experts that"
                " copies of attention could share: fix replicas instead"
            )
    if model.experts is not None and fixed.get("expert", 1) > model.experts.count:
        raise InputError(
            f"--fix expert={fixed['expert']}: {model.name} has {model.experts.count} experts a"
            " layer"
        )
    if fixed.get("pipeline", 1) > model.layers:
        raise InputError(
            f"--fix pipeline={fixed['pipeline']}: {model.name} has {model.layers} layers"
        )


def _choices(name: str, common: set[int], most: int, fixed: Mapping[str, int]) -> Ints:
    """Degrees that are tried, in rising order."""
    found = {fixed[name]} if name in fixed else {one for one in common if one <= most}
    return np.array(sorted(found), dtype=np.int64)


def _expert_degrees(gpus: Ints, experts: int, fixed: int | None) -> list[Ints]:
    """Expert degrees of stages of so many GPUs: divisors of them, up to the experts."""
    table = {}
    for size in np.unique(gpus).tolist():
        every = divisors(size)
        every = every[every <= experts]
        table[size] = every if fixed is None else every[every == fixed]
    return [table[size] for size in gpus.tolist()]


def fractions(plans: ServingPlans, requests: Floats | float) -> Floats:
    """Requests of one copy of attention, one at least, if so many are in flight in all [1]."""
    each: Floats = np.maximum(requests / (plans.replicas * plans.attention_data), 1.0)
    return each
