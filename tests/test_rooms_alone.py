"""Rooms load alone: who asks for a file, a price or a training run loads nothing else."""

import subprocess
import sys

import pytest

SERVING = (
    *("netplan.performance.serving", "netplan.simulation.serving"),
    *(
        "netplan.faults.years.served",
        "netplan.questions.served_faults",
        "netplan.questions.serving",
    ),
    *("netplan.answers.serving_answer", "netplan.answers.served_faults"),
    *("netplan.setup.serving_run", "netplan.setup.served_run"),
)
CHIPS = (
    *("netplan.performance.mapping", "netplan.workloads.graph_", "netplan.workloads.model_graphs"),
    *("netplan.questions.map", "netplan.answers.map_answer"),
)
GRAPHS = ("netplan.topologies.own.graph_fabric", "netplan.topologies.formats")
DRAWINGS = ("netplan.topologies.drawings",)
WINGS = tuple(f"netplan.{room}" for room in ("published", "studies", "procurement", "explore"))
SPARES = ("netplan.faults", *(f"netplan.faults.years{name}" for name in ("", ".rates")))
SPARES += ("netplan.faults.years.reliability", "netplan.faults.years.ordered_spares")
RUNS = tuple(f"netplan.{room}" for room in ("performance", "simulation", "faults"))
TRAINING = (*SERVING, *CHIPS, *GRAPHS, *DRAWINGS, *WINGS, "netplan.calibration")
BUYING = tuple(room for room in TRAINING if room not in (*DRAWINGS, "netplan.procurement"))
ASK = "import netplan; netplan.{0}('hgx-b200', gpus={1}{2}).text()"


def loaded_by(script: str) -> list[str]:
    """Modules of netplan that a fresh process has loaded after a script."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{script}\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return [name for name in done.stdout.split() if name.startswith("netplan")]


@pytest.mark.parametrize(
    ("script", "needless"),
    [
        ("import netplan", ("netplan.",)),
        ("import netplan.questions.export", (*RUNS, *WINGS)),
        ("import netplan.questions.cables", (*RUNS, *WINGS)),
        (ASK.format("cost", 256, ""), (*RUNS, "netplan.traffic", *TRAINING)),
        (ASK.format("search", 64, ", model='gpt-22b'"), (*TRAINING, "netplan.simulation")),
        (ASK.format("compare", 64, ", model='gpt-22b'"), (*TRAINING, *RUNS[1:])),
        (ASK.format("traffic", 64, ", model='gpt-22b'"), (*TRAINING, *RUNS[1:])),
        (ASK.format("loads", 64, ", model='gpt-22b'"), TRAINING),
        (ASK.format("simulate", 16, ", model='llama-3-8b'"), TRAINING),
        (ASK.format("faults", 64, ", model='gpt-22b'"), TRAINING),
        (ASK.format("diff", 64, ", model='gpt-22b', b={'radix': 64}"), (*TRAINING, *RUNS[1:])),
        (ASK.format("optimize", 64, ", model='gpt-22b', searched=()"), TRAINING),
        (ASK.format("procurement", 64, ", model='gpt-22b'"), (*BUYING, "netplan.simulation")),
        (ASK.format("grow", "None", ", phases=(64, 128)"), (*RUNS, "netplan.traffic", *TRAINING)),
        (ASK.format("draw", 64, ", fabric='rail-only'"), tuple({*TRAINING} - {*DRAWINGS})),
    ],
)
def test_nothing_is_loaded_that_has_no_use(script: str, needless: tuple[str, ...]) -> None:
    loaded = loaded_by(script)
    # A comparison says which spares to order: rates of failures and the rule of spares, no more.
    known = ("netplan.version", *(SPARES if "netplan.compare" in script else ()))
    assert [name for name in loaded if name.startswith(needless) and name not in known] == []
