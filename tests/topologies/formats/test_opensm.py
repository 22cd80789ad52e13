"""The real OpenSM routes what netplan exports: as a fat tree by default, and not with unequal pods.

Needs OpenSM and the simulator ibsim (Debian: ``opensm``, ``ibsim-utils``); skipped without.
"""

import os
import shutil
import subprocess
import time
from itertools import pairwise
from pathlib import Path

import pytest

from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.formats.subnet_files import ibnetdiscover_lines
from netplan.topologies.specs import FABRICS

# Debian's sbin is not on every user's path.
FOLDERS = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))
OPENSM, IBSIM = (shutil.which(name, path=FOLDERS) for name in ("opensm", "ibsim"))
LIBRARY = next(
    (
        path
        for folder in ("/usr/lib", "/usr/lib64", "/usr/local/lib")
        for below in ("", "*/")
        for path in sorted(Path(folder).glob(f"{below}umad2sim/libumad2sim.so"))
    ),
    None,
)
ROUTED, REFUSED = "ftree tables configured", "hasn't been identified as FatTree"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (OPENSM and IBSIM and LIBRARY), reason="needs opensm and ibsim (ibsim-utils)"
    ),
]


def subnet_log(folder: Path, network: Path, *options: str) -> str:
    """Log of an OpenSM that sweeps a simulated subnet once, with fat-tree routing."""
    name = f"netplan-{os.getpid()}"
    around = {**os.environ, "IBSIM_SOCKNAME": name}
    limits = ("-N", "40000", "-S", "10000", "-P", "400000")
    log = folder / "opensm.log"
    with (
        (folder / "ibsim.log").open("w") as output,
        subprocess.Popen(
            [str(IBSIM), "-n", "-s", *limits, str(network)],
            env=around,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as simulator,
    ):
        try:
            sockets = Path("/proc/net/unix")
            deadline = time.monotonic() + 30
            while f"@{name}:ctl" not in sockets.read_text() and time.monotonic() < deadline:
                time.sleep(0.1)
            subprocess.run(
                [str(OPENSM), "-R", "ftree", "-o", "-f", str(log), *options],
                env={
                    **around,
                    "LD_PRELOAD": str(LIBRARY),
                    "OSM_TMP_DIR": str(folder),
                    "OSM_CACHE_DIR": str(folder),
                },
                cwd=folder,
                check=True,
                capture_output=True,
                timeout=120,
            )
        finally:
            simulator.terminate()
    return log.read_text()


def exported(folder: Path, fabric: str, gpus: int, radix: int) -> Path:
    graph = expand(FABRICS.load(fabric), Sizing(gpus, radix, min(8, gpus), 450e9, 50e9))
    path = folder / "network.ibnetdiscover"
    with path.open("w") as file:
        file.writelines(ibnetdiscover_lines(graph))
    return path


@pytest.mark.parametrize(
    ("fabric", "gpus", "radix"),
    [
        ("rail-optimized", 768, 64),  # two tiers
        ("fat-tree", 544, 64),  # two tiers, with more leaves than full ones
        ("rail-optimized", 2560, 64),
        ("fat-tree", 1536, 40),
        ("rail-optimized", 1000, 16),
        ("fat-tree", 3000, 64),
        ("dgx-superpod", 1000, 16),
        ("dgx-superpod", 352, 8),  # 11 units, wired as 12
        ("rail-only", 1600, 8),  # a rail of 200 hosts: four tiers
        ("fat-tree", 700, 8),  # five tiers
    ],
)
def test_default_designs_are_fat_trees_to_opensm(
    fabric: str, gpus: int, radix: int, tmp_path: Path
) -> None:
    log = subnet_log(tmp_path, exported(tmp_path, fabric, gpus, radix))
    assert ROUTED in log
    assert REFUSED not in log


@pytest.mark.parametrize(("gpus", "radix"), [(1000, 16), (2560, 64)])
def test_unequal_pods_are_refused_unless_the_roots_are_listed(
    gpus: int, radix: int, tmp_path: Path
) -> None:
    network = exported(tmp_path, "uneven-clos", gpus, radix)
    log = subnet_log(tmp_path, network)
    assert REFUSED in log
    assert ROUTED not in log
    lines = network.read_text().splitlines()
    roots = [
        guid.partition("=")[2]
        for guid, node in pairwise(lines)
        if node.startswith("Switch") and "core-" in node
    ]
    (tmp_path / "roots").write_text("\n".join(roots))
    (tmp_path / "opensm.log").unlink()
    assert ROUTED in subnet_log(tmp_path, network, "-a", str(tmp_path / "roots"))
