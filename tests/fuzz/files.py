"""Files of every kind that netplan reads, whole, and damaged in random ways."""

from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from netplan.catalog import shipped_root
from tests.cli.command import netplan

FABRIC = ("--gpus", "32", "--radix", "8", "--hb-size", "4")
MADE = (
    (
        "traffic",
        "rail-only-paper",
        *FABRIC,
        "--model",
        "gpt-22b",
        "--batch",
        "64",
        "--save",
        "matrix.npz",
    ),
    (
        "traffic",
        "rail-only-paper",
        *FABRIC,
        "--model",
        "gpt-22b",
        "--batch",
        "64",
        "--save",
        "matrix.csv",
    ),
    ("cables", "rail-only-paper", "--fabric", "rail-only", *FABRIC, "-o", "plan.csv"),
    ("cables", "rail-only-paper", "--fabric", "rail-only", *FABRIC, "-o", "plan.xlsx"),
    (
        "cables",
        "rail-only-paper",
        "--fabric",
        "rail-only",
        *FABRIC,
        "--to",
        "netbox-cables",
        "-o",
        "netbox.csv",
    ),
    (
        "export",
        "rail-only-paper",
        "--fabric",
        "rail-only",
        *FABRIC,
        "--to",
        "graphml",
        "-o",
        "fabric.graphml",
    ),
    (
        "export",
        "rail-only-paper",
        "--fabric",
        "rail-only",
        *FABRIC,
        "--to",
        "edges",
        "-o",
        "edges.csv",
    ),
    (
        "export",
        "rail-only-paper",
        "--fabric",
        "rail-only",
        *FABRIC,
        "--to",
        "topo",
        "-o",
        "fabric.topo",
    ),
    ("study", "run", "mine.yaml"),
)
STUDY = """\
name: mine
title: Mine
source: me
date: "2026"
ask: search
scenario: rail-only-paper
inputs: {accelerator: b200, model: gpt-22b, batch: 64}
axes:
  - {input: gpus, values: [16, 32]}
  - {input: hb_size, values: [4, 8], when: "gpus > 16", otherwise: 2}
conditions: ["hb_size <= gpus and model != 'x'"]
outputs: [iteration_time_s, plan, {name: speed, formula: "1 / iteration_time_s"}]
charts: [{kind: lines, title: Speed, x: gpus, y: speed, series: [hb_size]}]
"""
TEXTS = {
    "mine.yaml": STUDY,
    "two.yaml": STUDY.replace("name: mine", "name: two").replace("ask: search", "ask: compare"),
    "designs.csv": "design,gpus,nodes,radix\nbig pod,1000,128,64\nx,8,1,4\n",
    "models-mixer.yaml": (Path(__file__).parents[2] / "examples/mixer.yaml").read_text("utf-8"),
    "jobs.yaml": "jobs: [{model: gpt-22b, gpus: 8, batch: 8}, {model: gpt-22b, placement: 8-15}]",
    "ranks.txt": "0-7 # in order\n15-8\n",
    "groups.csv": "group,part\nshelf,gpu-1\nshelf,gpu-2\n",
    "fails.txt": "gpu-1\nlinks=2\n",
    "incidents.yaml": "modes:\n  - {weight: 1, fail: [gpu-1]}\n  - {weight: 2, fail: [links=2]}\n",
    "hall.ibnetdiscover": (
        'Switch 8 "S-1" # "rail-0/leaf-0" enhanced port 0 lid 1 lmc 0\n'
        '[1] "H-1"[1](a1) # "gpu-0" lid 2 4xNDR\n\n'
        'Ca 1 "H-1" # "gpu-0"\n[1](a1) "S-1"[1] # lid 2 lmc 0 "rail-0/leaf-0" lid 1 4xNDR\n'
    ),
}
COPIED = (
    *("traffic/models/gpt-22b.yaml", "traffic/accelerators/h100-80gb.yaml"),
    *("traffic/iteration-models/4d.yaml", "topologies/rail-only.yaml", "topologies/torus-2d.yaml"),
    *("topologies/scenarios/hgx-h100.yaml", "topologies/scenarios/rail-only-paper.yaml"),
    *("topologies/floor-plans/example-hall.yaml", "topologies/networks/storage.yaml"),
    *("costing/prices/2026.yaml", "costing/power/2026.yaml", "costing/cabling/2026.yaml"),
    *("costing/economics/2026.yaml", "costing/switches/qm9700.yaml", "costing/failures/2026.yaml"),
    *("topologies/designs/lumi.yaml", "reports/definitions/procurement.yaml"),
    *("topologies/dragonfly.yaml", "topologies/bcube.yaml"),
)
TOKENS = (
    *(
        b"9" * 400,
        b"-1",
        b"0",
        b"1e999",
        b"nan",
        b"",
        b"\xff\xfe",
        b"\x00",
        b"\x1b[2J",
        b"\xc2\x9b",
    ),
    *(
        b"[" * 3000,
        b"&a [*a]",
        b"!!python/object:os.system x",
        b"\r",
        b",",
        b'"',
        b"<!DOCTYPE a []>",
    ),
    *(
        b"gpu-0",
        b"=1+1",
        b"99999999999999999999",
        b"0.5",
        b"a" * 5000,
        b"\xe2\x80\xae",
        b": ",
        b"- ",
    ),
)


@cache
def whole_files() -> dict[str, bytes]:
    """Files of every kind, by name."""
    found = {name: text.encode() for name, text in TEXTS.items()}
    for place in COPIED:
        kind = Path(place).parent.name
        found[f"{kind}-{Path(place).name}"] = (shipped_root() / place).read_bytes()
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "mine.yaml").write_text(STUDY, encoding="utf-8")
        for words in MADE:
            done = netplan(*words, cwd=folder)
            assert done.returncode == 0, done.stderr
        found |= {path.name: path.read_bytes() for path in folder.iterdir()}
    return found


def damaged(content: bytes, rng: Random) -> bytes:
    """The content with a few bytes, lines or words changed, cut, doubled or put in."""
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(content) + 1)
        end = min(len(content), at + rng.choice((1, 4, 30, 300)))
        match rng.randrange(7):
            case 0:
                content = content[:at] + rng.choice(TOKENS) + content[at:]
            case 1:
                content = content[:at] + rng.choice(TOKENS) + content[end:]
            case 2:
                content = content[:at] + content[end:]
            case 3:
                content = content[:end] + content[at:]
            case 4:
                content = content[:at] + rng.randbytes(end - at) + content[end:]
            case 5:
                lines = content.split(b"\n")
                rng.shuffle(lines)
                content = b"\n".join(lines)
            case _:
                content = content[:at]
    return content
