"""Fabrics of all families in any size, for property tests."""

from hypothesis import assume
from hypothesis import strategies as st

from netplan.errors import InputError
from netplan.topologies.build import build_fabric
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.specs import FABRICS
from tests.topologies.kinds import DIRECT, JOINED

NAMES = tuple(FABRICS.paths())
SPECS = {name: FABRICS.load(name) for name in NAMES}
# As dragonflies are published: a file that names its media.
SPECS["dragonfly"] = SPECS["dragonfly"].changed(host_medium="copper", local_medium="copper")


def sizing(gpus: int, radix: int, hb_size: int, gbps: float = 400.0) -> Sizing:
    """Size a cluster with links of this rate."""
    return Sizing(gpus, radix, hb_size, hb_bytes_per_s=450e9, network_bytes_per_s=gbps * 1e9 / 8)


def built(name: str, gpus: int, radix: int, hb_size: int = 8, gbps: float = 400.0) -> Fabric:
    """Build a shipped fabric."""
    return build_fabric(SPECS[name], sizing(gpus, radix, hb_size, gbps))


@st.composite
def fabrics(draw: st.DrawFn, radix: int | None = None) -> Fabric:
    """Draw any shipped fabric in any size that it can be built in."""
    # No card of 400 Gb/s splits its port, and a QM9700 runs at no other rate.
    whole = [
        name
        for name in NAMES
        if radix is None or SPECS[name].planes == SPECS[name].trunk_width == 1
    ]
    name = draw(st.sampled_from(whole))
    gpus = draw(st.one_of(st.integers(8, 5000), st.integers(8, 4_194_304)))
    if SPECS[name].family == "bcube":
        gpus = draw(st.integers(3, 60)) ** 2
    if SPECS[name].family == "tiles":
        gpus = 16 * draw(st.integers(1, 300))
    if SPECS[name].family in (*DIRECT, *JOINED):
        gpus = 8 + gpus % 5000  # their graphs are made to be counted
    ports = radix or 2 * draw(st.integers(4, 128))
    hb_size = draw(st.sampled_from((1, 2, 8, 72, 256)))
    try:
        return built(name, gpus, ports, min(hb_size, gpus))
    except InputError:
        assume(False)
        raise
