"""Optical circuit switches that join the cubes of a torus.

Cubes of side c hold c^d chips. At each position of a face, the links that leave all cubes in one
dimension meet on one circuit switch, with two ports a cube, so that any whole cubes make a torus:
d c^(d-1) switches for d dimensions (Jouppi et al., arXiv:2304.01433: 3 x 16 = 48 for 64 cubes of
4 x 4 x 4). A link between cubes becomes two fibres, one from each face to the switch.
"""

from dataclasses import dataclass

from netplan.costing.switches import SwitchModel
from netplan.errors import InputError
from netplan.topologies.clos import ceil_div
from netplan.topologies.fabric import Fabric
from netplan.topologies.specs import FabricSpec
from netplan.topologies.torus import torus_shape


@dataclass(frozen=True, slots=True)
class CircuitLayer:
    """Circuit switches of one model and their ports in use [1]."""

    model: SwitchModel
    switches: int
    ports_used: int
    notes: tuple[str, ...] = ()


def circuit_layer(spec: FabricSpec, fabric: Fabric, model: SwitchModel) -> CircuitLayer:
    """Circuit switches for a torus of whole cubes.

    Parameters
    ----------
    spec, fabric
        A torus of single chips with ``copper_block``, and its sized form.
    model
        An optical circuit switch of the catalog.

    Raises
    ------
    InputError
        If the fabric is not a torus of whole cubes, or the model switches packets.

    Examples
    --------
    >>> from netplan.costing.switches import SWITCHES
    >>> from netplan.topologies.build import build_fabric
    >>> from netplan.topologies.fabric import Sizing
    >>> from netplan.topologies.specs import FABRICS
    >>> spec = FABRICS.load("torus-3d")
    >>> sizing = Sizing(4096, 64, 1, hb_bytes_per_s=300e9, network_bytes_per_s=50e9)
    >>> layer = circuit_layer(spec, build_fabric(spec, sizing), SWITCHES.load("palomar"))
    >>> layer.switches, layer.ports_used
    (48, 6144)
    """
    block, chips = spec.copper_block, fabric.sizing.hb_size == 1
    if model.kind != "circuit":
        raise InputError(f"--ocs {model.name}: it switches packets: use --switch {model.name}")
    if spec.family != "torus":
        raise InputError(
            f"--ocs {model.name}: {spec.name} is no torus; circuit switches join cubes"
        )
    sizes = torus_shape(spec, fabric.sizing)
    if block < 2 or not chips or any(size % block for size in sizes):  # noqa: PLR2004
        shape = " x ".join(str(size) for size in sizes)
        raise InputError(
            f"--ocs {model.name}: {spec.name} is {shape} of domains of"
            f" {fabric.sizing.hb_size:,}: circuit switches join whole cubes of single GPUs; give"
            f" --hb-size 1 and a number of GPUs that fills cubes of side {block}"
        )
    # Every link between cubes lands with both its halves on circuit switches.
    ports = 2 * sum(group.links for group in fabric.links if group.medium == "optical")
    positions = len(sizes) * block ** (len(sizes) - 1)
    each = ceil_div(ceil_div(ports, positions), model.cages)
    shared = (
        f"{each} circuit switches share a face position, which needs more than"
        f" {model.cages} ports: not every choice of cubes can be joined."
    )
    return CircuitLayer(model, positions * each, ports, (shared,) if each > 1 else ())
