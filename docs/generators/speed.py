"""What every command takes at full size: measured as whole processes, kept, shown as a table.

``python -c "import docs.generators.speed as s; s.measure()"`` measures all of them anew (some
minutes), or those whose names are given, and writes `reports/footprints.csv`, by which netplan says
beforehand what a question takes, and the table of the page. Each is a process alone, on one core,
and with no more than `LIMIT_BYTES` of memory.
"""

import csv
import datetime as dt
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from docs.generators.tables import code
from netplan.questions.loads import Loads
from netplan.setup.footprint import FILE, MeasuredFootprint, fabric_links, measured_footprints
from netplan.units import si

PAGE = "background/speed.md"
MADE = re.compile(r"(<!-- made: docs/generators/speed.py -->\n).*?(<!-- end -->)", re.DOTALL)
GPUS = 1_048_576
LIMIT_BYTES = 8_000_000_000
LONGEST_S = 900
ROOT = Path(__file__).parents[2]
PROBE = """
import atexit, pathlib, runpy, sys
place = pathlib.Path(sys.argv.pop(1))
status = pathlib.Path("/proc/self/status")
atexit.register(lambda: place.write_text(status.read_text()))
runpy.run_module("netplan", run_name="__main__", alter_sys=True)
"""
"""Runs a command and keeps what Linux knows of its memory: what waits for it counts its own too."""


class Case(NamedTuple):
    """One command line: the command, its options, the fabric whose graph it makes, its file."""

    command: str
    options: str = ""
    fabric: str = ""
    file: str = ""

    @property
    def words(self) -> list[str]:
        """What follows ``netplan`` but for the file."""
        name, _, target = self.command.partition(" ")
        words = [name, *self.options.split(), "--gpus", str(GPUS)]
        if name == "report":
            words.insert(1, target)
        elif target:
            words += ["--to", target]
        return [*words, "--fabric", self.fabric] if self.fabric else words


GRAPHS = ("rail-optimized", "rail-only", "fat-tree", "dragonfly", "torus-3d")
CASES = (
    *(Case(name) for name in ("compare", "cost", "search", "serving", "optimize", "map")),
    Case("diff", "hgx-b200 hgx-h100"),
    Case("collective", "--kind all_reduce --bytes 512MiB"),
    *(Case("grow", f"--gpus {GPUS // 4}", fabric=name) for name in GRAPHS[:2]),
    Case("report procurement", file="report.html"),
    Case("offers", fabric="rail-optimized", file="rfq.xlsx"),
    *(Case("faults", fabric=name) for name in GRAPHS),
    *(Case("loads", fabric=name) for name in GRAPHS),
    *(Case("traffic", fabric=name) for name in ("rail-optimized", "torus-3d")),
    *(Case("simulate", fabric=name) for name in ("rail-optimized", "torus-3d")),
    *(Case("draw", fabric=name, file="fabric.svg") for name in ("rail-optimized", "torus-3d")),
    *(Case("cables", fabric=name, file="plan.csv") for name in ("rail-optimized", "torus-3d")),
    *(
        Case(f"export {form}", fabric="rail-optimized", file=f"fabric.{ending}")
        for form, ending in (
            ("edges", "csv"),
            ("graphml", "graphml"),
            ("dot", "dot"),
            ("slurm", "conf"),
            ("astra-sim", "yml"),
        )
    ),
)
"""Every command that is about a cluster; others are not about size."""


def measured(case: Case) -> MeasuredFootprint:
    """Run one command and take its processor time, its most memory and its file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / case.file if case.file else None
        status_file = Path(folder) / "status"
        flag = "--template" if case.command == "offers" else "-o"
        words = [*case.words, *([flag, str(file)] if file else [])]
        process = subprocess.Popen(  # noqa: S603 - commands of this file
            [sys.executable, "-c", PROBE, str(status_file), *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
            preexec_fn=_limit,  # noqa: PLW1509 - there are no threads
        )
        assert process.stderr  # noqa: S101
        said = process.stderr.read().decode()
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise RuntimeError(f"netplan {' '.join(words)}: {said}")
        facts = dict(line.split(":", 1) for line in status_file.read_text().splitlines())
        peak_bytes = int(facts["VmHWM"].split()[0]) * 1024
        written = file.stat().st_size if file else 0
    links = 0
    if case.fabric:
        asked = Loads.make(gpus=GPUS, fabric=case.fabric)
        links = fabric_links(asked.cluster, asked.reader(), case.fabric)
    return MeasuredFootprint(
        command=case.command,
        options=case.options,
        fabric=case.fabric,
        links=links,
        processor_s=round(usage.ru_utime + usage.ru_stime, 1),
        peak_bytes=peak_bytes,
        file_bytes=written,
        date=dt.datetime.now(dt.UTC).date().isoformat(),
        machine=f"{processor()}, Python {platform.python_version()}",
    )


def processor() -> str:
    """The processor as Linux names it."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _limit() -> None:
    import resource  # noqa: PLC0415 - Unix has it

    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (LONGEST_S, LONGEST_S))


def write_footprints(rows: Iterable[MeasuredFootprint]) -> None:
    """Write the file anew."""
    names = MeasuredFootprint.__struct_fields__
    with (ROOT / FILE).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(
            [
                f"{getattr(row, name):g}" if name == "processor_s" else getattr(row, name)
                for name in names
            ]
            for row in rows
        )


def speed_page() -> str:
    """The page of speed with its table as the file has it."""
    page = (ROOT / "docs" / PAGE).read_text(encoding="utf-8")
    return MADE.sub(lambda part: f"{part[1]}{footprint_table()}{part[2]}", page)


def footprint_table() -> str:
    """Every command at full size, longest last, and what it was measured on."""
    rows = measured_footprints()
    dates, machines = {row.date for row in rows}, {row.machine for row in rows}
    when = f"{min(dates)} to {max(dates)}" if len(dates) > 1 else f"on {min(dates)}"
    lines = [
        f"\nMeasured {when} on {'; '.join(sorted(machines))}, one core.\n",
        "| `netplan …` | fabric | processor time | peak memory | writes |",
        "|---|---|--:|--:|--:|",
    ]
    lines += [
        f"| {code(f'{row.command} {row.options}'.strip())}"
        f" | {row.fabric or 'those of its defaults'} | {row.processor_s:.1f} s"
        f" | {si(row.peak_bytes, 'B', 2)} | {written(row)} |"
        for row in rows
    ]
    return "\n".join([*lines, "", ""])


def written(row: MeasuredFootprint) -> str:
    """How large the file is that a command writes; empty if none."""
    return si(row.file_bytes, "B", 2) if row.file_bytes else ""


def measure(*names: str) -> None:
    """Measure commands anew, all or some, and those that were not measured yet."""
    chosen = set(names) or {case.command.partition(" ")[0] for case in CASES}
    kept = {(row.command, row.options, row.fabric): row for row in measured_footprints()}
    found = []
    for case in CASES:
        row = kept.get((case.command, case.options, case.fabric))
        if row is None or case.command.partition(" ")[0] in chosen:
            row = measured(case)
            sys.stderr.write(f"{row.command} {row.fabric}: {row.processor_s} s, {row.peak_bytes}\n")
        found.append(row)
        kept[row.command, row.options, row.fabric] = row
        write_footprints(kept.values())  # at once: the rest may take minutes
    write_footprints(found)
    measured_footprints.cache_clear()
    (ROOT / "docs" / PAGE).write_text(speed_page(), encoding="utf-8")
