"""Five of the shipped cases again, packet by packet: the fluid beside a simulator that is not ours.

``packets.cc`` is built against the headers and libraries of the package ``ns3`` and run here. With
fair queues every message arrives as shipped. With marks single messages do not (which of two equal
flows is marked first decides which is done first, by up to 20 %), but the last finish does.
"""

import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from netplan.arrays import Floats
from netplan.published.shared_links import PacketCase, packet_cases
from netplan.units import gbps

CASES = (
    *("two-share-unequal", "parking-lot", "incast-4", "three-connections-against-one"),
    "perm16-ecmp-s0",
)
LIBRARIES = ["core", "network", "stats", "bridge", "internet", "point-to-point", "traffic-control"]
AS_SHIPPED = 0.01
FAIR, ECN = (0.989, 1.011), (0.99, 1.15)
"""Last finish of packets over that of the fluid: least and most."""


@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    package = find_spec("ns3")
    if package is None or not package.submodule_search_locations:
        pytest.skip("needs the package ns3: pip install --no-deps ns3==3.44.post0")
    if shutil.which("g++") is None:
        pytest.skip("needs g++, to build what runs ns-3")
    ns3 = Path(next(iter(package.submodule_search_locations)))
    libraries = [next((ns3 / "lib64").glob(f"libns3*-{name}.so")) for name in LIBRARIES]
    source, program = Path(__file__).with_name("packets.cc"), tmp_path_factory.mktemp("ns3") / "run"
    flags = ("-std=c++20", f"-I{ns3 / 'include'}", f"-Wl,-rpath,{ns3 / 'lib64'}")
    built = subprocess.run(
        ["g++", *flags, source, "-o", program, *libraries],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    assert not built.returncode, built.stderr
    return program


def packets_ms(simulator: Path, case: PacketCase, transport: str) -> Floats:
    """When each message arrives in packets [ms]."""
    lines = [
        f"{row['source']} {row['target']} {row['spine'] or -1} {row['bytes']}"
        f" {row['start_us'] or 0} {row['after']}"
        for row in case.messages
    ]
    fabric = case.fabric
    options = [
        f"--leaves={fabric.leaves}",
        f"--hosts_a_leaf={fabric.hosts_a_leaf}",
        f"--spines={fabric.spines}",
        f"--uplink_gbps={gbps(fabric.uplink_bytes_per_s):g}",
    ]
    ran = subprocess.run(
        [simulator, f"--transport={transport}", *options],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=True,
    )
    return np.array(ran.stdout.split(), np.float64)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_packets_arrive_as_shipped_and_near_the_fluid(simulator: Path, name: str) -> None:
    case = next(case for case in packet_cases() if case.name == name)
    last_ms = case.fluid_ms.max()
    fair_ms, ecn_ms = (packets_ms(simulator, case, kind) for kind in ("fair-queue", "ecn"))
    assert FAIR[0] <= fair_ms.max() / last_ms <= FAIR[1]
    assert ECN[0] <= ecn_ms.max() / last_ms <= ECN[1]
    assert fair_ms == pytest.approx(case.packets_ms["fair-queue"], rel=AS_SHIPPED)
    for found_ms, kind in ((fair_ms, "fair-queue"), (ecn_ms, "ecn")):
        assert found_ms.max() == pytest.approx(case.packets_ms[kind].max(), rel=AS_SHIPPED)
