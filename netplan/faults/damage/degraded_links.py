"""Links and GPUs that are slower than they were built, or have failed: what an iteration finds.

A link or GPU has a share of its rate left (``--slow``), or a part is gone, with routes round it
(``--fail``).
"""

import re
from collections.abc import Sequence
from typing import Literal

import numpy as np

from netplan.arrays import AnyInts, Floats, Ints
from netplan.errors import InputError, UnknownNameError
from netplan.faults.damage.damage import Damage, find_effects
from netplan.faults.damage.inventory import Inventory, PartNames, Parts
from netplan.faults.damage.rerouting import LiveRouter
from netplan.faults.damage.scenario import parse_faults
from netplan.inputs.readers import number_or_nan
from netplan.simulation.links import RunRouting, channels_of
from netplan.topologies.graph import FabricGraph
from netplan.traffic.routing import Routing
from netplan.traffic.routing_joined import has_joined_switches
from netplan.units import counted

NOTHING = ("0", "0.0", "0%")
LEAST_SHARE = 1e-6
"""Least share of its rate that a degraded link has left [1]."""

GPU = re.compile(r"gpu(-\d+)?\s*=")
"""A GPU and its share, or all of them."""

LEAST_COMPUTE = 1e-3
"""Least share of its rate that a slow GPU has left [1]."""

ROUND = (
    "Routes go round it by the shortest paths that are left, split evenly, as the equal split of"
    " netplan faults has them; its pace is that of the best split."
)
ADAPTIVE_ROUND = (
    "What is left is routed adaptively, over shortest paths and detours, as the whole fabric is and"
    " netplan faults routes it, whose pace is that of the best split."
)


def shares_left(slow: Sequence[str], graph: FabricGraph) -> Floats | None:
    """Share of its rate that each link has, shape (links,); None if all have all of it.

    GPUs are refused: :func:`slow_parts` takes them.

    Parameters
    ----------
    slow
        A link, or a group of links, and its share each.
    graph
        The links.

    Raises
    ------
    InputError
        If a name is unknown or none of a link, or a share not above 0 and at most 1.

    Examples
    --------
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=64, radix=16)
    >>> graph = scenario.fabric("rail-only").graph()
    >>> shares = shares_left(["gpu-1--leaf-0=0.5", "host=0.5"], graph)
    >>> {share: int((shares == share).sum()) for share in (0.25, 0.5, 1.0)}
    {0.25: 1, 0.5: 63, 1.0: 64}
    """
    links, gpus = _shares_left(slow, graph)
    if gpus is not None:
        named = next(text for text in slow if _shares_left([text], graph)[1] is not None)
        raise _no_link(named.rpartition("=")[0], "a GPU", Inventory(graph))
    return links


def _shares_left(slow: Sequence[str], graph: FabricGraph) -> tuple[Floats | None, Floats | None]:
    """Shares of links, and of GPUs; None where all have all of it."""
    inventory = Inventory(graph)
    names = PartNames(inventory)
    links, gpus = np.ones(graph.link_count), np.ones(graph.gpus)
    of_gpus = []
    for text in slow:
        name, equals, number = text.rpartition("=")
        share = number_or_nan(number)
        if equals and number.strip() in NOTHING:
            raise InputError(f"--slow {text!r:.60}: a part of which nothing is left: use --fail")
        if not (equals and 0 < share <= 1):
            raise InputError(
                f"--slow {text!r:.60}: write LINK=SHARE or GPU=SHARE, above 0 and at most 1, such"
                " as gpu-5--leaf-0=0.5, leaf-spine=0.5 or gpu-5=0.5"
            )
        is_gpu, numbers = _parts(name.strip(), inventory, names)
        of_gpus.append(is_gpu)
        (gpus if is_gpu else links)[numbers] *= share
    _check_left(links, "link", LEAST_SHARE)
    _check_left(gpus, "GPU", LEAST_COMPUTE)
    return (links if not all(of_gpus) else None, gpus if any(of_gpus) else None)


def _check_left(shares: Floats, what: str, least: float) -> None:
    """Refuse parts of which as good as nothing is left."""
    if shares.min(initial=1.0) < least:
        raise InputError(
            f"--slow leaves a {what} {shares.min():.3g} of its rate: leave it {least:g} or more,"
            " or ask netplan faults what fails without it"
        )


def slow_parts(
    slow: Sequence[str], graph: FabricGraph, used: AnyInts
) -> tuple[Floats | None, Floats | None]:
    """Shares of their rates that links and GPUs have, (links,) and (gpus,); None if all of it.

    Parameters
    ----------
    slow
        As of :func:`shares_left`, or a GPU, or ``gpu`` for all of them, and its share.
    graph
        The links.
    used
        GPUs that run.

    Raises
    ------
    InputError
        If a name is unknown, a share not above 0 and at most 1, or a GPU alone and not in use.

    Examples
    --------
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=64, radix=16)
    >>> links, gpus = slow_parts(["gpu-5=0.5"], scenario.fabric("rail-only").graph(), np.arange(64))
    >>> links is None, gpus[5], gpus.min()
    (True, np.float64(0.5), np.float64(0.5))
    """
    if not slow:
        return None, None
    links, gpus = _shares_left(slow, graph)
    if gpus is not None and links is None and (gpus[used] == 1).all() and gpus.min() < 1:
        idle = graph.node_name(int(gpus.argmin()))
        raise InputError(
            f"--slow: {idle} is not among the {len(used):,} of {graph.gpus:,} GPUs that are"
            f" simulated, and none of them waits for it: name one in use, such as"
            f" {graph.node_name(int(used[0]))}"
        )
    return links, gpus


def routing_of_left(routing: Routing, graph: FabricGraph) -> Literal["auto", "ecmp"]:
    """How a fabric is routed of which parts have failed, and the whole one beside it.

    Examples
    --------
    >>> from netplan import Scenario
    >>> from netplan.topologies.expand import expand
    >>> from netplan.topologies.specs import FABRICS
    >>> sizing = Scenario.load("hgx-h100").replace(gpus=64, radix=16).sizing
    >>> [routing_of_left("auto", expand(FABRICS.load(name), sizing))
    ...  for name in ("hyperx", "torus-2d")]
    ['auto', 'ecmp']
    """
    return "auto" if routing != "ecmp" and has_joined_switches(graph) else "ecmp"


def live_router(
    fail: Sequence[str],
    graph: FabricGraph,
    used: AnyInts,
    *,
    seed: int = 0,
    routing: Routing = "auto",
) -> LiveRouter | None:
    """Ways round what has failed, which leaves all GPUs in use joined; None if nothing has.

    Parameters
    ----------
    fail
        Faults, as `netplan.faults.damage.scenario` reads them.
    graph
        The links.
    used
        GPUs that the iteration is on.
    seed
        Draws the parts that are not named.
    routing
        How messages find their way, as :func:`routing_of_left` reads it.

    Raises
    ------
    NetplanError
        If a fault cannot be read, or takes GPUs in use.

    Examples
    --------
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=64, radix=16)
    >>> graph = scenario.fabric("rail-only").graph()
    >>> live_router(["gpu-5"], graph, np.arange(64))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    netplan.errors.InputError: --fail: 1 GPU in use, gpu-5 first, would be down, and ...
    """
    if not fail:
        return None
    damage = parse_faults(fail, graph, rng=np.random.default_rng(seed))
    effects = find_effects(graph, damage)
    for gpus, what in ((effects.gpus_down, "down"), (effects.cut_off_forwarding, "cut off")):
        gone = np.intersect1d(gpus, used)
        if len(gone):
            raise InputError(
                f"--fail: {counted(len(gone), 'GPU')} in use, {graph.node_name(gone[0])} first,"
                f" would be {what}, and the iteration stops: ask netplan faults with the same"
                " --fail how the job goes on, with other GPUs or fewer"
            )
    _check_memory(graph, damage, used)
    return LiveRouter(graph, damage, routing=routing_of_left(routing, graph))


def round_note(fail: Sequence[str], graph: FabricGraph, routing: Routing) -> tuple[str, ...]:
    """What an answer says of routes round failed parts."""
    if not fail:
        return ()
    how = ADAPTIVE_ROUND if routing_of_left(routing, graph) == "auto" else ROUND
    return (f"Failed: {', '.join(fail)}. {how}",)


def check_degraded(
    slow: Sequence[str], fail: Sequence[str], routing: RunRouting, *, contention: bool
) -> None:
    """Refuse slow links and failures that routes or closed forms would not notice.

    Raises
    ------
    InputError
        If nothing takes a link, or the routing has no other ways.

    Examples
    --------
    >>> check_degraded([], ["spine=1"], "hashed", contention=True)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    netplan.errors.InputError: --routing hashed knows no ways round failures, which ...
    """
    slow_links = [text for text in slow if not GPU.match(text.strip())]
    if not contention and (slow_links or fail):
        raise InputError(
            f"--no-contention takes no link, so that {'--fail' if fail else '--slow'} would change"
            " nothing: leave one out"
        )
    if fail and routing not in ("auto", "ecmp", "adaptive"):
        raise InputError(
            f"--routing {routing} knows no ways round failures, which shortest paths split"
            " evenly do, and adaptive routing of joined switches: leave it out beside --fail, or"
            " give ecmp"
        )


def _check_memory(graph: FabricGraph, damage: Damage, used: AnyInts) -> None:
    """Refuse damage that takes memory channels of GPUs in use, which have one each."""
    channels = channels_of(graph)
    needed = channels.link[used] if channels else np.empty(0, np.int64)
    gone = needed[damage.links_out(graph)[needed]]
    if len(gone):
        raise InputError(
            f"--fail: {graph.node_name(int(graph.target[gone[0]]))} is the only memory of"
            f" {counted(int((needed == gone[0]).sum()), 'GPU')} in use, to which no route leads"
            " round: leave it out, or give --slow memory=0.5"
        )


def _parts(name: str, inventory: Inventory, names: PartNames) -> tuple[bool, Ints]:
    """Whether a name is one of GPUs, and these; else links of a group, or as exports write them."""
    group, graph = inventory.kinds.get(name), inventory.graph
    if group is None and name in graph.group_names:  # as answers call it: hb, ring 1 tile
        return False, np.asarray(graph.links_of(name), dtype=np.int64)
    try:
        parts = names.find(name) if group is None else Parts(group, group.numbers)
    except UnknownNameError as error:
        if "did you mean" in str(error):
            raise
        raise _no_link(name, "unknown", inventory) from None
    if parts.kind.name == "gpu":
        return True, parts.numbers
    if parts.kind.space == "end":
        return False, parts.numbers // 2
    if parts.kind.name == "memory":  # which has one link, its channel
        return False, np.flatnonzero(np.isin(graph.target, parts.numbers))
    if parts.kind.space != "link":
        raise _no_link(name, f"a {parts.kind.name}", inventory)
    return False, parts.numbers


def _no_link(name: str, what: str, inventory: Inventory) -> InputError:
    """What to say of a name that is none of a link."""
    groups = ", ".join(group for group, kind in inventory.kinds.items() if kind.space == "link")
    return InputError(
        f"--slow {name[:60]!r} is {what}: name a link as exports write it, such as"
        f" gpu-0--rail-0/leaf-0, or a group of them: {groups}"
    )
