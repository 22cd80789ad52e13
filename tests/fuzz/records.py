"""Random records: models of every family, chips with and without compute tiles, ranks."""

import json
from random import Random

SIZES = (1, 2, 3, 7, 16, 100, 512, 1024, 4096, 12_288, 65_537)
ODD: tuple[object, ...] = (
    0,
    -1,
    1.5,
    "nan",
    ".nan",
    ".inf",
    "x",
    None,
    True,
    [],
    {},
    1e-300,
    1e300,
    1 << 62,
    10**30,
)
"""Values that hardly any key takes; one stands in a share of the records."""

NAMES = ("up", "down", "<b>&amp;", 'a"b', "a'b", "é🦉", "=1+1", "a b", "[red]x[/red]", "%s", "\\n")
ODD_NAMES = ("", "a,b", "a..b", "\x1b[2J", "\u202e", "n" * 41, "up")
KINDS = ("gemm", "gemm", "gemm", "simd", "simd", "update", "x")
BYTES = ("output_bytes", "weight_bytes", "all_reduce_bytes", "outside_bytes", "read_bytes")
MARKS = ("whole_rows", "added_elsewhere", "backward")


def drawn_files(rng: Random) -> dict[str, bytes]:
    """A model of every family, a chip and a table of ranks, by name; most of them hold."""
    records = {
        "models-graph.yaml": _graph(rng),
        "models-tables.yaml": _keys(
            rng,
            "recommendation",
            *("width", "bottom_layers", "top_layers", "tables", "rows"),
            *("embedding", "pooled", "batch"),
        ),
        "models-grid.yaml": {**_keys(rng, "linpack", "unknowns", "block"), "word_bytes": 8.0},
        "models-square.yaml": {**_keys(rng, "fft", "side"), "word_bytes": 8.0},
        "accelerators-tiles.yaml": _chip(rng),
    }
    count = rng.choice((64, 64, 32, 16, 7, 0))
    ranks = [str(rank) for rank in rng.sample(range(count), count)]
    texts = {name: json.dumps(_spoiled(one, rng), indent=1) for name, one in records.items()}
    return {
        **{name: text.encode() for name, text in texts.items()},
        "drawn-ranks.txt": "\n".join(ranks).encode(),
    }


def _head(name: str) -> dict[str, object]:
    return {"name": name, "title": name, "source": "drawn", "date": "2026"}


def _keys(rng: Random, family: str, *keys: str) -> dict[str, object]:
    """A model with sizes that fit each other, seldom."""
    return {**_head(family), "family": family, **{key: rng.choice(SIZES) for key in keys}}


def _chip(rng: Random) -> dict[str, object]:
    """A chip: tiles in odd numbers, memories from nothing to more than there is."""
    return {
        **_head("tiles"),
        "tensor_flops_per_s": rng.choice((1e9, 3e14, 2e15)),
        "vector_flops_per_s": rng.choice((1e9, 1e14)),
        "memory_bytes": rng.choice((1e6, 8e10, 1e13)),
        "memory_bytes_per_s": rng.choice((1e9, 2e12)),
        "hb_bytes_per_s": rng.choice((1e9, 9e11)),
        "network_bytes_per_s": rng.choice((1e9, 5e10)),
        "hb_size": rng.choice((1, 2, 8)),
        "hb_latency_s": 1e-6,
        "network_latency_s": rng.choice((0.0, 1e-5)),
        "power_w": 100.0,
        "chip_ports": rng.choice((0, 2, 6)),
        "execution": rng.choice(("fused", "kernel-by-kernel")),
        **{
            key: rng.choice(values)
            for key, values in TILES.items()
            if rng.random() < rng.choice((0.0, 0.9, 1.0))
        },
    }


TILES = {
    "tiles": (1, 2, 3, 7, 108, 432, 640, 16_384, 850_000),
    "vector_width": (1, 2, 16, 33),
    "stage_height": (1, 6, 16, 17),
    "clock_hz": (1.0, 1e9, 2.7e9),
    "sram_bytes": (1.0, 1e3, 3e8, 1e12),
}


def _graph(rng: Random) -> dict[str, object]:
    """A graph of up to 40 kernels, most edges from an earlier to a later one."""
    count = rng.choice((1, 2, 3, 5, 9, 14, 40))
    names = [f"k{at}" for at in range(count)]
    for at in rng.sample(range(count), min(count, rng.choice((0, 1, 4)))):
        names[at] = rng.choice(ODD_NAMES if rng.random() < 0.1 else NAMES) + str(at)
    ends = [(rng.choice(names), rng.choice(names)) for _ in range(rng.choice((0, 1, 2)) * count)]
    place = {name: at for at, name in enumerate(names)}
    edges = {(one, other) for one, other in ends if place[one] < place[other]}
    return {
        **_head("graph"),
        "family": "graph",
        "chips": rng.choice((1, 1, 1, 2, 8)),
        "layers": rng.choice((1, 1, 2, 12, 1000)),
        "batch": rng.choice((1, 8, 64, 100_000)),
        "kernels": [_kernel(name, rng) for name in names],
        "edges": sorted(edges) + (ends[:1] if rng.random() < 0.05 else []),
    }


def _kernel(name: str, rng: Random) -> dict[str, object]:
    kind = rng.choice(KINDS if rng.random() < 0.01 else KINDS[:-1])
    found: dict[str, object] = {"name": name, "kind": kind}
    found |= {key: rng.choice(SIZES) for key in ("m", "n", *(("k",) if kind == "gemm" else ()))}
    found |= {key: rng.choice((0.0, 1.0, 1e6, 1e12)) for key in BYTES if rng.random() < 0.3}
    return found | {key: True for key in MARKS if rng.random() < 0.05}


def _spoiled(record: dict[str, object], rng: Random) -> dict[str, object]:
    """The record or, one time in five, with an odd value, without a key, or with one too many."""
    if rng.random() < 0.8:
        return record
    key = rng.choice(list(record))
    kernels = record.get("kernels")
    if isinstance(kernels, list) and rng.random() < 0.5:
        one = rng.choice(kernels)
        one[rng.choice(list(one))] = rng.choice(ODD)
        return record
    kept = {name: value for name, value in record.items() if name != key}
    return rng.choice((kept, {**record, key: rng.choice(ODD)}, {**record, "x": rng.choice(ODD)}))
