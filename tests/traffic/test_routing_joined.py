"""Switches joined directly: no bound above the busiest link, no busiest link above the model."""

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.graph import FabricGraph
from netplan.topologies.specs import JOINED
from netplan.traffic.hierarchy import Network
from netplan.traffic.matrix import flows_matrix
from netplan.traffic.placement import DATA, EXPERT, Degrees, Placement, Placements
from netplan.traffic.routing import link_loads
from tests.traffic.test_leaves import (
    GB,
    PHASED,
    built,
    loads_of,
    model_s,
    network_alone,
    network_busiest_s,
)

PORT = 50e9


@st.composite
def cases(draw: st.DrawFn, dimension: str) -> tuple[Fabric, FabricGraph, Placement]:
    """A fabric of any size, and a group that crosses its HB domains."""
    name, radix = draw(st.sampled_from(JOINED)), draw(st.sampled_from((8, 12, 16, 32)))
    hb_size = draw(st.sampled_from((1, 2, 3, 4, 8)))
    gpus = draw(st.integers(4 * hb_size + 4, 300))
    try:
        fabric, graph = built(name, Sizing(gpus, radix, hb_size, 450e9, PORT))
    except InputError:
        assume(condition=False)
    inside = draw(st.sampled_from([n for n in range(1, hb_size + 1) if hb_size % n == 0]))
    domains = gpus // hb_size
    members = draw(st.integers(2, domains))
    tensor = draw(st.integers(1, domains // members))
    others = draw(st.integers(1, domains // members // tensor))
    beside = "data" if dimension == "pipeline" else "pipeline"
    inner = Degrees(**{dimension: inside, "tensor": hb_size // inside})
    outer = Degrees(**{"tensor": tensor, dimension: members, beside: others})
    return fabric, graph, Placement((inner, outer), (hb_size, domains))


@settings(deadline=None, max_examples=400)
@given(cases("data"))
def test_rings_are_never_slower_than_the_model(
    case: tuple[Fabric, FabricGraph, Placement],
) -> None:
    fabric, graph, placement = case
    found = network_busiest_s(loads_of(graph, placement, "all_gather", "hierarchical"))
    assert found <= model_s(fabric, placement, "all_gather", PHASED, DATA) * (1 + 1e-9)


@settings(deadline=None, max_examples=400)
@given(cases("expert"))
def test_all_to_alls_are_never_slower_than_the_model(
    case: tuple[Fabric, FabricGraph, Placement],
) -> None:
    fabric, graph, placement = case
    over = ("expert",)
    found = network_busiest_s(loads_of(graph, placement, "all_to_all", "hierarchical", over))
    assert found <= model_s(fabric, placement, "all_to_all", PHASED, EXPERT) * (1 + 1e-9)


@settings(deadline=None, max_examples=400)
@given(cases("pipeline"))
def test_hops_are_never_slower_than_the_model(
    case: tuple[Fabric, FabricGraph, Placement],
) -> None:
    fabric, graph, placement = case
    _, slowest = Network(network_alone(fabric), PHASED).hops(Placements.of(placement))
    chain = placement.gpu_of_rank[placement.groups("pipeline", snake=True)]
    flows = flows_matrix(
        graph.gpus, source=chain[:, :-1], destination=chain[:, 1:], flow_bytes=GB, kind="pipeline"
    )
    found = network_busiest_s(link_loads(graph, flows))
    assert found <= float(slowest.sending_s(GB)[0]) * (1 + 1e-9)
