"""A real slurmctld reads the exported tree, and scontrol shows which hosts lie below each switch.

Needs Slurm (Debian: ``slurmctld``, ``slurm-client``); skipped without. Its release there, 22.05,
knows trees alone: blocks and ``topology.yaml`` are of later ones.
"""

import os
import pwd
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from netplan.topologies.expand import expand
from netplan.topologies.fabric import Sizing
from netplan.topologies.formats.slurm import slurm_lines
from netplan.topologies.specs import FABRICS

SBIN = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin"))
SLURMCTLD, SCONTROL = (shutil.which(name, path=SBIN) for name in ("slurmctld", "scontrol"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (SLURMCTLD and SCONTROL), reason="needs slurmctld and scontrol"),
]


def configured(folder: Path, hosts: int) -> Path:
    """Configuration of a controller that nothing but itself is asked to start."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "state").mkdir()
    path = folder / "slurm.conf"
    path.write_text(
        "ClusterName=plan\nSlurmctldHost=localhost\nAuthType=auth/none\nCredType=cred/none\n"
        f"SlurmUser={pwd.getpwuid(os.getuid()).pw_name}\nSlurmctldPort={port}\n"
        f"StateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/state\n"
        f"SlurmctldPidFile={folder}/pid\nSlurmctldLogFile={folder}/log\n"
        "SelectType=select/cons_tres\nTopologyPlugin=topology/tree\nMpiDefault=none\n"
        "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSwitchType=switch/none\n"
        f"NodeName=host-[0-{hosts - 1}] CPUs=1 NodeAddr=127.0.0.1\n"
        "PartitionName=all Nodes=ALL Default=YES\n"
    )
    return path


def shown(path: Path) -> str:
    """Topology as the controller has it, once it answers."""
    around = {**os.environ, "SLURM_CONF": str(path)}
    with (
        (path.parent / "output").open("w") as output,
        subprocess.Popen(
            [str(SLURMCTLD), "-D", "-c", "-f", str(path)],
            env=around,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as controller,
    ):
        try:
            deadline = time.monotonic() + 30
            while True:
                run = subprocess.run(
                    [str(SCONTROL), "-o", "show", "topology"],
                    env=around,
                    capture_output=True,
                    text=True,
                    timeout=30,
                    check=False,
                )
                if run.returncode == 0 or time.monotonic() > deadline:
                    return run.stdout
                time.sleep(0.2)
        finally:
            controller.kill()


def numbers(hostlist: str) -> list[int]:
    """Numbers of a host list of one bracket."""
    found: list[int] = []
    for part in hostlist.strip("[]").split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def test_slurm_takes_the_tree_and_knows_the_hosts_below_each_switch(tmp_path: Path) -> None:
    # Leaves of 4 hosts of 4 GPUs on 32 ports; 128 hosts, 32 leaves, two tiers or pods of leaves.
    graph = expand(FABRICS.load("fat-tree"), Sizing(512, 32, 4, 450e9, 50e9))
    lines = list(slurm_lines(graph))
    (tmp_path / "topology.conf").write_text("".join(lines))
    text = shown(configured(tmp_path, graph.domains))
    switches = dict(re.findall(r"SwitchName=(\S+) .*?Nodes=host-(\S+)", text))
    assert len(switches) == len(lines)
    assert numbers(switches["s1-0"]) == [0, 1, 2, 3]
    below: dict[str, list[int]] = {}
    for line in lines:
        name, kind, prefix, members = re.findall(r"SwitchName=(\S+) (\w+)=([a-z0-9]+-)(\S+)", line)[
            0
        ]
        hosts = numbers(members)
        if kind == "Switches":
            hosts = sorted(n for child in hosts for n in below[f"{prefix}{child}"])
        below[name] = hosts
        assert numbers(switches[name]) == hosts
    assert below[name] == list(range(128))  # the last line is the root
