"""Topologies in JSON for two tools of NVIDIA: DSX Air, and the network operator of Kubernetes.

*Air* simulates a network on virtual machines. Its import takes ``format``, ``name``, ``content``:
nodes by name with their image, and links as pairs of ``node`` and ``interface``
(docs.nvidia.com/dsx-air, POST /api/v3/simulations/import and the SDK's import_from_data, read
2026-11; links as in CumulusNetworks/docs, nvidia-air-v2/Custom-Topology.md, where the name is still
a ``title``). Air's own management network is left on. Images and their sizes are those of that
example, for the user to change.

*The operator* gives every port of a worker its address from ``topology.json``, which its launch kit
reads (``l8k generate --topology-file``; NVIDIA/k8s-launch-kit, docs/user/spectrum-x.md, read
2026-11): ``nodes`` with role and type, and links from a leaf, with its ``plane``, to a host, with
its ``rail``; ``su`` and ``pod``, of both, number what hangs together below the leaves and below the
second tier. Links between switches have no place there. Hosts must be called as Kubernetes calls
its nodes: rename them, here or there.

A switch port is ``swp7``, or ``swp4s0`` in a cage of several links. A host's port is ``eth3`` to
Air and ``eth_p0_r2`` to the operator: plane 0 of rail 2. The rail is the rank of a GPU in its host;
the plane is the port of the GPU, where GPUs have several.
"""

import json
from collections.abc import Iterator

import numpy as np

from netplan.arrays import distinct_values
from netplan.errors import InputError
from netplan.topologies.cabling.device_names import Hosts, host_name, hosts_of, slashless_names
from netplan.topologies.graph import GPU, SWITCH, FabricGraph, network_only, parts_below

SWITCH_IMAGE = {"os": "cumulus-vx-5.16.1", "cpu": 2, "memory": 4096, "storage": 20}
HOST_IMAGE = {"os": "generic/ubuntu2404", "cpu": 2, "memory": 2048, "storage": 10}
"""Images of virtual machines: cores [1], memory [MiB], disk [GB]."""

UNIT_TIER, POD_TIER = 1, 2
"""Tiers up to which switches hang together in a unit, and in a pod."""


def air_lines(
    graph: FabricGraph, *, host_gpus: int | None = None, cage_links: int = 1
) -> Iterator[str]:
    """Write a network for NVIDIA DSX Air.

    Parameters
    ----------
    graph
        The fabric.
    host_gpus
        GPUs of a server; an HB domain if absent [1].
    cage_links
        Links in a cage of every switch [1].

    Raises
    ------
    InputError
        If hosts cannot have so many GPUs, or names differ by a slash alone.

    Examples
    --------
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=128, radix=16)
    >>> graph = scenario.fabric("rail-optimized").graph()
    >>> air = json.loads("".join(air_lines(graph)))
    >>> air["content"]["links"][17]
    [{'node': 'rail-1-leaf-0', 'interface': 'swp3'}, {'node': 'host-2', 'interface': 'eth2'}]
    """
    network, hosts, names = _seen(graph, host_gpus)
    yield f'{{"format": "JSON", "name": {json.dumps(graph.name)}, "content": {{\n'
    yield '"nodes": {\n'
    # Nodes that stand for devices: the first GPU of each host, then all else.
    shown = [*range(0, network.gpus, hosts.gpus), *range(network.gpus, network.node_count)]
    for place, number in enumerate(shown):
        name = host_name(hosts.of(number)) if number < network.gpus else names[number]
        image = SWITCH_IMAGE if network.node_kind[number] == SWITCH else HOST_IMAGE
        yield f"{json.dumps(name)}: {json.dumps(image)}{',' * (place < len(shown) - 1)}\n"
    yield '},\n"links": [\n'
    last = network.link_count - 1
    for link, (a, a_port, b, b_port, *_) in enumerate(network.link_rows()):
        pair = []
        for node, port in ((b, b_port), (a, a_port)):
            name, interface = names[node], f"eth{port + 1}"
            if node < network.gpus:  # a host's ports are numbered through
                name, interface = host_name(hosts.of(node)), f"eth{hosts.port(node, port)}"
            elif network.node_kind[node] == SWITCH:
                interface = _switch_port(port, cage_links)
            pair.append({"node": name, "interface": interface})
        yield f"{json.dumps(pair)}{',' * (link < last)}\n"
    yield "]}}\n"


def operator_lines(
    graph: FabricGraph, *, host_gpus: int | None = None, cage_links: int = 1
) -> Iterator[str]:
    """Write the ports of hosts for NVIDIA's network operator.

    Parameters are those of :func:`air_lines`.

    Raises
    ------
    InputError
        If GPUs are joined to each other, not to leaves, or hosts cannot have so many GPUs.

    Examples
    --------
    >>> from netplan import Scenario
    >>> scenario = Scenario.load("hgx-h100").replace(gpus=128, radix=16)
    >>> graph = scenario.fabric("rail-optimized").graph()
    >>> leaf, host = json.loads("".join(operator_lines(graph)))["links"][17]
    >>> leaf["attributes"], host["interface"]
    ({'role': 'leaf', 'plane': 0, 'pod': 0, 'su': 0, 'rail_group': [1]}, 'eth_p0_r1')
    """
    network, hosts, names = _seen(graph, host_gpus)
    is_gpu, is_switch = network.node_kind == GPU, network.node_kind == SWITCH
    if (is_gpu[network.source] & is_gpu[network.target]).any() or not is_switch.any():
        raise InputError(
            f"{graph.name} joins GPUs to each other: the operator's topology needs leaves"
        )
    links = np.flatnonzero(is_gpu[network.source] & is_switch[network.target])
    domain = np.arange(graph.gpus) // graph.hb_size
    unit, pod = (parts_below(network, tier, domain) for tier in (UNIT_TIER, POD_TIER))
    leaves = distinct_values(network.target[links])
    yield '{"nodes": [\n'
    workers = [host_name(n) for n in range(hosts.of(network.gpus - 1) + 1)]
    yield "".join(_node(name, "host", "default") + ",\n" for name in workers)
    yield ",\n".join(_node(names[leaf], "leaf", "cumulus") for leaf in leaves.tolist())
    yield '\n],\n"links": [\n'
    rails: dict[int, list[int]] = {}
    pairs = np.stack((network.target[links], network.source[links] % hosts.gpus), axis=1)
    for leaf, rail in np.unique(pairs, axis=0).tolist():
        rails.setdefault(leaf, []).append(rail)
    for place, link in enumerate(links.tolist()):
        gpu, leaf = int(network.source[link]), int(network.target[link])
        plane, rail = int(network.source_port[link]), gpu % hosts.gpus
        place_of = {"pod": int(pod[gpu]), "su": int(unit[gpu])}
        near = {"role": "leaf", "plane": plane, **place_of, "rail_group": rails[leaf]}
        pair = [
            {
                "node": names[leaf],
                "interface": _switch_port(int(network.target_port[link]), cage_links),
                "attributes": near,
            },
            {
                "node": host_name(hosts.of(gpu)),
                "interface": f"eth_p{plane}_r{rail}",
                "attributes": {"role": "host", "rail": rail, **place_of},
            },
        ]
        yield f"{json.dumps(pair)}{',' * (place < len(links) - 1)}\n"
    yield "]}\n"


def _seen(graph: FabricGraph, host_gpus: int | None) -> tuple[FabricGraph, Hosts, list[str]]:
    """Network outside HB domains, its hosts, and names that host names can be."""
    network = network_only(graph)
    hosts = hosts_of(network, graph.hb_size if host_gpus is None else host_gpus)
    return network, hosts, slashless_names(network.node_names())


def _switch_port(port: int, cage_links: int) -> str:
    """Name of a switch port, from 0, in Cumulus Linux.

    Examples
    --------
    >>> _switch_port(6, 1), _switch_port(6, 2), _switch_port(7, 2)
    ('swp7', 'swp4s0', 'swp4s1')
    """
    if cage_links == 1:
        return f"swp{port + 1}"
    cage, place = divmod(port, cage_links)
    return f"swp{cage + 1}s{place}"


def _node(name: str, role: str, type_: str) -> str:
    return json.dumps({"name": name, "role": role, "type": type_})
