"""Circuit switches in front of rails: counts by hand, ports, and who may take whose place."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netplan.topologies.rail_circuits import BLOCK, PLACE, SPARE, CircuitPlan, CircuitPorts


@st.composite
def plans(draw: st.DrawFn) -> CircuitPlan:
    spares = draw(st.integers(0, 3))
    return CircuitPlan(
        cages=draw(st.integers(2, 24)) + spares,
        domains=draw(st.integers(1, 6)),
        blocks=draw(st.integers(1, 20)),
        fibres=draw(st.integers(1, 3)),
        spares=spares,
    )


def switches_of(ports: CircuitPorts, kind: int) -> dict[tuple[int, int], set[tuple[int, int]]]:
    """Fibres and their circuit switches of everything of a kind, by domain and number."""
    there: dict[tuple[int, int], set[tuple[int, int]]] = {}
    of_kind = ports.kind == kind
    columns = (ports.domain, ports.block, ports.fibre, ports.switch)
    for domain, block, fibre, switch in zip(
        *(part[of_kind].tolist() for part in columns), strict=True
    ):
        there.setdefault((domain, block), set()).add((fibre, switch))
    return there


@settings(deadline=None, max_examples=80)
@given(plans())
def test_every_port_is_there_and_has_one_fibre(plan: CircuitPlan) -> None:
    ports = plan.table()
    taken = ports.switch * plan.cages + ports.port
    assert len(np.unique(taken)) == len(taken) == plan.ports_used
    assert (ports.port >= 0).all()
    assert (ports.port < plan.cages).all()
    assert ports.switch.max() == plan.switches - 1
    assert plan.ports_used <= plan.ports
    assert plan.set_sizes.sum() == plan.blocks
    assert plan.set_sizes.max() == plan.largest
    assert (ports.kind == SPARE).sum() == plan.spare_blocks * plan.fibres
    # A block and its place meet on a switch for each fibre.
    assert switches_of(ports, BLOCK) == switches_of(ports, PLACE)


@settings(deadline=None, max_examples=80)
@given(plans(), st.data())
def test_as_many_take_over_as_a_matching_on_the_ports_allows(
    plan: CircuitPlan, data: st.DataObject
) -> None:
    """Which failed blocks find an idle one, by the ports alone: a largest matching."""
    plan = CircuitPlan(plan.cages, plan.domains, plan.blocks, plan.fibres)
    idle = data.draw(st.integers(0, plan.blocks))
    failed = np.array(
        data.draw(st.lists(st.booleans(), min_size=plan.blocks, max_size=plan.blocks))
    )
    standing = plan.idle_blocks(idle)
    ports = plan.table()
    blocks, places = switches_of(ports, BLOCK), switches_of(ports, PLACE)
    graph = nx.Graph()
    lost = [("lost", b) for b in np.flatnonzero(failed & ~standing).tolist()]
    graph.add_nodes_from(lost)
    for spare in np.flatnonzero(standing & ~failed).tolist():
        for node in lost:
            if blocks[0, spare] == places[0, node[1]]:
                graph.add_edge(node, ("idle", spare))
    matching = nx.bipartite.maximum_matching(graph, lost)
    assert plan.replaced(failed, idle) == len(matching) // 2


@settings(deadline=None, max_examples=60)
@given(plans())
def test_spares_beside_reach_the_domains_of_their_group(plan: CircuitPlan) -> None:
    """By the ports alone: which places a spare block has all its fibres in common with."""
    ports = plan.table()
    places, spares = switches_of(ports, PLACE), switches_of(ports, SPARE)
    for (_, number), own in spares.items():
        reached = {place for place, theirs in places.items() if theirs == own}
        group, of_set = divmod(number // plan.spares, plan.sets)
        domains = range(group * plan.domains_each, (group + 1) * plan.domains_each)
        blocks = np.flatnonzero(plan.set_of == of_set).tolist()
        assert reached == {(d, b) for d in domains if d < plan.domains for b in blocks}


@settings(deadline=None, max_examples=60)
@given(plans())
def test_no_fewer_sets_would_do(plan: CircuitPlan) -> None:
    room = (plan.cages - plan.spares) // 2
    assert plan.largest <= room
    assert plan.sets == 1 or (plan.sets - 1) * room < plan.blocks
    # Domains share their spares only where one set holds them whole.
    assert plan.domains_each == 1 or plan.sets == 1 or not plan.spares


@pytest.mark.parametrize(
    ("idle", "spread"), [(1, [0, 0, 0, 1]), (4, [1, 1, 1, 1]), (6, [1, 2, 1, 2]), (240, [60] * 4)]
)
def test_idle_gpus_of_256_are_spread_over_four_switches(idle: int, spread: list[int]) -> None:
    plan = CircuitPlan(136, 64, 256, 1)
    assert plan.idle_of_sets(idle).tolist() == spread
    assert plan.idle_blocks(idle).sum() == idle
    # A spread as even leaves no failure without an idle GPU that another spread would help.
    first = np.zeros(256, bool)
    first[:2] = True
    assert plan.replaced(first, idle) == min(2, spread[0])
