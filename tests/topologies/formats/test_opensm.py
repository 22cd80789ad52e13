"""The real OpenSM routes what netplan exports as a fat tree, told the roots where trunks differ.

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


def with_roots(folder: Path, network: Path) -> tuple[str, str]:
    """Options that list the switches that no other stands above."""
    up, nodes = set(), []
    lines = network.read_text().splitlines()
    for guid, node in pairwise(lines):
        if node.startswith("Switch"):
            nodes.append((guid.partition("=")[2], node.split('"')[1], node.split('"')[3]))
    tiers = {"leaf": 1, "spine": 2, "core": 3, "tier-4": 4, "tier-5": 5}
    tier = {name: tiers[text.rpartition("/")[2].rpartition("-")[0]] for _, name, text in nodes}
    here = ""
    for line in lines:
        if line.startswith(("Switch", "Ca")):
            here = line.split('"')[1]
        other = line.split('"')[1] if line.startswith("[") else ""
        if tier.get(here, 9) < tier.get(other, 0):
            up.add(here)
    (folder / "roots").write_text("\n".join(guid for guid, name, _ in nodes if name not in up))
    return "-a", str(folder / "roots")


@pytest.mark.parametrize(
    ("fabric", "gpus", "radix"),
    [
        ("rail-optimized", 768, 64),  # two tiers
        ("rail-optimized", 1152, 64),  # 36 leaves, a link to each of 32 spines
        ("fat-tree", 1536, 40),
        ("rail-optimized", 1024, 16),
        ("fat-tree", 4096, 64),
        ("dgx-superpod", 1000, 16),
        ("dgx-superpod", 352, 8),  # 11 units, wired as 12
        ("rail-only", 2048, 8),  # a rail of 256 hosts: four tiers
        ("fat-tree", 700, 8),  # five tiers
    ],
)
def test_plain_designs_are_fat_trees_to_opensm(
    fabric: str, gpus: int, radix: int, tmp_path: Path
) -> None:
    log = subnet_log(tmp_path, exported(tmp_path, fabric, gpus, radix))
    assert ROUTED in log
    assert REFUSED not in log


@pytest.mark.parametrize(
    ("fabric", "gpus", "radix"),
    [
        ("fat-tree", 672, 64),  # 32 uplinks to 11 spines
        ("rail-optimized", 2480, 64),  # 31 to 4 planes, 32 to 11 cores
        ("rail-only", 520, 64),  # two networks of four rails
        ("rail-only", 672, 64),  # one of eight
        ("uneven-clos", 1000, 16),  # pods of unequal size
        ("uneven-clos", 2560, 64),
    ],
)
def test_uneven_trunks_and_pods_are_refused_unless_the_roots_are_listed(
    fabric: str, gpus: int, radix: int, tmp_path: Path
) -> None:
    network = exported(tmp_path, fabric, gpus, radix)
    log = subnet_log(tmp_path, network)
    assert REFUSED in log
    assert ROUTED not in log
    (tmp_path / "opensm.log").unlink()
    assert ROUTED in subnet_log(tmp_path, network, *with_roots(tmp_path, network))


@pytest.mark.parametrize(("fabric", "gpus"), [("fat-tree", 672), ("rail-only", 672)])
def test_even_trunks_need_no_roots(fabric: str, gpus: int, tmp_path: Path) -> None:
    spec = FABRICS.load(fabric).changed(even_trunks=True)
    graph = expand(spec, Sizing(gpus, 64, 8, 450e9, 50e9))
    network = tmp_path / "network.ibnetdiscover"
    network.write_text("".join(ibnetdiscover_lines(graph)))
    log = subnet_log(tmp_path, network)
    assert ROUTED in log
    assert REFUSED not in log
