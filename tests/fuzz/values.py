"""Random values of options: right ones, wrong ones, and some that nobody would type."""

from collections.abc import Callable
from random import Random

import click

from netplan.questions.shelves import all_shelves
from netplan.studies import definition as _definition  # noqa: F401 - makes the shelf of studies

JUNK = (
    *(
        "",
        " ",
        "x",
        "-",
        "=",
        ",",
        ",,",
        ".",
        "..",
        "/",
        "@",
        "@x",
        "a=b",
        "a.b=c",
        "a,b",
        "'",
        '"',
    ),
    *("0", "-1", "1", "7", "0.5", "1e3", "1e308", "1e400", "nan", "inf", "-inf", "1_0", "٣", "½"),
    *("9" * 30, "9" * 5000, "a" * 300, "é" * 300, "[" * 30_000, "{" * 2000, "a\nb", "\t", "\u202e"),
    *("\x1b[2J", "\x9b2J", "\x7f", "\udcff", "🦉", "<b>", "=1+1", "%s%n", "{0}", "../..", "/etc"),
    *("'a'*9999999999", "true", "null", "2026-02-30", "~", "$HOME", "a/b", "--gpus", "-o", "100%"),
)
NUMBERS = (
    "1000000000000",
    "64",
    "0",
    "1",
    "2",
    "-1",
    "1e-300",
    "1e-9",
    "0.5",
    "3",
    "1e9",
    "1e300",
    "nan",
    "true",
    "x",
    "",
)
SIZES = (8, 9, 16, 16, 24, 32, 32, 36, 64, 64, 72, 96, 100, 128, 128, 192, 256, 256, 320, 512, 1000)
RADICES = (4, 6, 8, 16, 32, 36, 40, 64, 64, 64, 128)
HB_SIZES = (1, 2, 3, 4, 4, 8, 8, 8, 8, 16, 64)
SHELVES = {
    **{f"--{role}": role for role in ("accelerator", "model", "iteration-model", "fabric")},
    **{f"--{role}": role for role in ("prices", "power", "cabling", "economics", "failures")},
    "--switch": "switch",
    "--ocs": "switch",
    "--memory": "memory",
    "--link": "link",
    "--floor-plan": "floor-plan",
    "--with": "network",
    "--report": "report",
    **dict.fromkeys(("scenario", "other"), "scenario"),
}
FOLDERS = {
    "accelerator": "accelerators-",
    "model": "models-",
    "fabric": "topologies-",
    "memory": "memories-",
    "link": "links-",
    "iteration-model": "iteration-models-",
    "switch": "switches-",
    "report": "definitions-",
    "floor-plan": "floor-plans-",
    "network": "networks-",
    "prices": "prices-",
    "power": "power-",
    "cabling": "cabling-",
    "economics": "economics-",
    "failures": "failures-",
    "scenario": "scenarios-",
}
"""Start of the names of a shelf's files among the case's."""

FITTING: dict[str, str | tuple[str, ...]] = {
    "--matrix": "matrix.",
    "--graph": ("fabric.", "edges.", "hall."),
    "--compare": ("plan.", "netbox.", "edges.", "hall.", "fabric."),
    "--jobs": "jobs.",
    "--groups": ("groups.", "incidents."),
    "file": ("designs", "plan.", "netbox.", "fabric.", "hall.", "edges."),
    "store": "mine.study",
}
"""Start of the names of files that an option may take."""

OUTPUTS = ("--output-file", "--save", "--heat-map", "--xlsx", "--store", "--timeline", "--trace")
"""Options whose value names a file to write."""

WORDS = {
    "--catalog": (".",),
    "--bytes": ("512MiB", "8e9", "1kB..1 GB", "8..", "..8", "4..2", "1e400", "0", "5q", "1..9e14"),
    "--strategy": ("1d", "2d", "summa", "all"),
    "--mode": ("corrected", "published-code"),
    "--explain": ("modes", "1,2", "mapping", "layer", "memory", "1,1", "9,99"),
    "--cut": ("AddPrev..V,QK..LN2,FFN0..GeLU,FFN1..Add2", "AddPrev", "LN1..Q,x", "Norm1..Add2"),
    "--placement": ("line", "snake", "ranks.txt", "drawn-ranks.txt", "mine.yaml", "x"),
    "--slow": (
        "leaf-spine=0.5",
        "host=0.1",
        "gpu-0--rail-0/leaf-0=0.5",
        "link=0.9",
        "hb-link=1",
        "gpu-1:1=0.5",
        "gpu-1=0.5",
        "leaf-0=2",
        "host=nan",
        "host=0",
        "x",
    ),
    "--dimensions": ("ring-ring", "mesh-switch", "ring", "ring-ring-ring", "mesh-mesh", "x-y"),
    "--currency": ("USD", "EUR", "CHF", "XYZ"),
    "--date": ("2026-11-22", "2026-13-01"),
    "--spares": ("2%", "transceiver=3%", "switch=2", "link=1", "nic=0", "5%,switch=2%"),
    "--fail": (
        *("leaf=1", "links=3", "gpu=0.1%", "rack=1", "domain-1", "gpu-5", "rail-0/leaf-0", "hb=1"),
        *(
            "@fails.txt",
            "@incidents.yaml",
            "@groups.csv",
            "spine=1",
            "transceiver=1%",
            "nic=2",
            "batch=1",
            "feed=1",
            "row=1",
            "tray=1",
            "x=y",
        ),
    ),
    "--vary": ("gpus=64,128", "hb_size=8", "batch=256,512", "model=gpt-22b", "gpus=abc", "x=1"),
    "--fix": ("tensor=8", "pipeline=2", "data=4", "fixed.tensor=2", "interleave=2", "tensor=3"),
    "--a": ("radix=64", "hb_size=4", "nic_gbps=800", "gpus=0", "x=1"),
    "--b": ("radix=32", "hb_size=2", "fabric=torus-2d", "model.layers=3", "batch=0"),
    "--only": ("table2", "real", "reliability", "x"),
    "--scheduler": ("nonsense", ""),
    "name": ("h200", "gpt-1t", "prices/2026", "fabric/torus-3d", "nosuch"),
    "role": ("model", "study", "prices", "nosuch"),
    "study": ("mine.yaml", "two.yaml", "hb-sise"),
}
WHOLE = {
    "--gpus": SIZES,
    "--radix": RADICES,
    "--hb-size": HB_SIZES,
    "--batch": (1, 8, 64, 96, 256, 1000, 1024),
    "--experts": (1, 1, 8),
    "--top-k": (1, 1, 2),
    "--expert-degree": (1, 1, 2),
    "--zero": (0, 1, 2, 3),
    "--offload": ("optimizer", "gradients", "weights", "activations"),
    "--memory-policy": ("states-first", "uniform"),
    "--years": (1, 5, 30),
    "--draws": (1, 2, 5),
    "--workers": (0, -1, 1_000_000),
    "--host-gpus": (1, 4, 8),
    "--tensor": (1, 2, 4, 8, 7, 64, 1000),
    "--pipeline": (1, 1, 2, 3, 96),
    "--data": (1, 1, 2, 5),
    "--micro-batch": (1, 3, 42),
    "--sequence-tile": (1, 7, 32, 64, 2048),
}
KEYS = (
    *("accelerator.tiles", "accelerator.vector_width", "accelerator.stage_height"),
    *("accelerator.clock_hz", "accelerator.sram_bytes", "accelerator.compute_utilisation"),
    *("accelerator.execution", "accelerator.expanded_bytes", "model.sequence_length"),
    *("model.unknowns", "model.block", "model.word_bytes", "model.side", "model.tables"),
    *("model.width", "model.ffn_size", "model.kv_heads", "model.hidden_size", "model.chips"),
    *("accelerator.memory_bytes", "accelerator.hb_bytes_per_s", "accelerator.network_bytes_per_s"),
    *("accelerator.hb_size", "accelerator.tensor_flops_per_s", "accelerator.network_latency_s"),
    *(
        "model.layers",
        "model.hidden",
        "model.heads",
        "model.sequence",
        "model.batch",
        "fabric.name",
    ),
    *("iteration-model.compute.kernel_latency_s", "iteration-model.overlap.bubble"),
    *("prices.prices.switch_port@400.base", "prices.currency", "fabric.dimensions", "fabric.sizes"),
    *("fabric.oversubscription", "fabric.planes", "fabric.family", "fabric.hb_size", "power.x"),
    *("economics.years", "cabling.date", "qm9700.lead_time_weeks", "h100-80gb.memory_bytes", "a.b"),
)


def junk(rng: Random) -> str:
    """A text that hardly any option takes."""
    return rng.choice(JUNK)


def value_of(one: click.Parameter, rng: Random, files: list[str], wild: float) -> str:
    """A value of an option: one that it may take or, in a share of ``wild``, anything."""
    name = one.opts[-1]
    if rng.random() < wild:
        return rng.choice((junk(rng), junk(rng), rng.choice(files), _any_number(rng)))
    if isinstance(one.type, click.Choice):
        return str(rng.choice(tuple(one.type.choices)))
    if isinstance(one.type, click.Path):
        return _file(name, rng, files)
    if name in SHELVES:
        return _record(name, rng, files)
    if name == "--set":
        return f"{rng.choice(KEYS)}={rng.choice(NUMBERS)}"
    write = _SANE.get(one.type.name, _word)
    return str(rng.choice(WHOLE[name])) if name in WHOLE else write(rng, name)


def _record(name: str, rng: Random, files: list[str]) -> str:
    if name == "--model" and rng.random() < 0.6:
        return "gpt-22b"
    if name == "--model" and rng.random() < 0.3:
        return rng.choice([one for one in files if one.startswith(FOLDERS["model"])])
    own = [one for one in files if one.startswith(FOLDERS[SHELVES[name]])]
    known = tuple(all_shelves()[SHELVES[name]].paths())
    return rng.choice(own if own and rng.random() < 0.1 else known)


def _file(name: str, rng: Random, files: list[str]) -> str:
    if name in OUTPUTS:
        endings = (".txt", ".csv", ".npz", ".html", ".xlsx", ".json", ".study")
        out = f"out-{name[2:]}{rng.choice(endings)}"
        return rng.choice((out, out, out, "out.csv", "no/folder/x", "."))
    fitting = [one for one in files if one.startswith(FITTING.get(name, ""))]
    return rng.choice(fitting) if rng.random() < 0.95 else "missing.csv"


def _word(rng: Random, name: str) -> str:
    return rng.choice(WORDS.get(name, JUNK))


def _any_number(rng: Random) -> str:
    return rng.choice((*NUMBERS, str(rng.uniform(-1, 100)), str(10 ** rng.randrange(40))))


_SANE: dict[str, Callable[[Random, str], str]] = {
    "integer": lambda rng, _: str(rng.choice((0, 1, 1, 2, 3, 4, 8, 16))),
    "float": lambda rng, _: rng.choice(("1", "2.5", "12", "0.1", "1e6", "1e9", "0", "-1")),
    "ratio": lambda rng, _: rng.choice(("1", "2:1", "3:1", "1.5", "7:3")),
    "percent": lambda rng, _: rng.choice(("0%", "5%", "99.9%", "50%", "20")),
    "text": _word,
}
