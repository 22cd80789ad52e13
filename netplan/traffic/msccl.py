"""Spanning trees as an MSCCL program: the XML that its runtime loads for one collective.

A GPU has a thread block for each GPU that it sends to, and one for each that it receives from; both
ends of a connection go through the same steps in the same order. Every tree of count m moves m
chunks. Steps are sorted by the round in which their chunks can be there, and a step waits
(``depid`` and ``deps``, block and step) for the one before it on the same chunks:

all_gather
    ``s`` and ``r`` from the root on; a GPU's own shard lies in its input.
reduce_scatter
    Towards the root. ``rrc`` adds what comes in, one child after the other, then the sum goes on.
all_reduce
    Both, one after the other, in the input.

All are in place: a GPU's input is its part of the output of an all_gather, its output its part of
the input of a reduce_scatter, and the same in an all_reduce.

Source: attributes as msccl-tools writes them, `msccl/language/ir.py` of
https://github.com/microsoft/msccl-tools (read 2026-11-23). Left out: protocols and numbers of
channels, which a runtime may tune; its own limits on steps and counts.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Literal
from xml.sax.saxutils import quoteattr

from msgspec import Struct

from netplan.errors import InputError
from netplan.traffic.trees import Forest, Tree

Gathering = Literal["all_gather", "reduce_scatter", "all_reduce"]
Move = tuple[int, int, int, int, bool]
"""Round and tree of a chunk, GPU that sends it, GPU that receives it, and whether this adds it."""
COLL = {"all_gather": "allgather", "reduce_scatter": "reduce_scatter", "all_reduce": "allreduce"}
MAX_CHUNKS = 65_536
"""Chunks of all GPUs of one program [1]."""


class _BlockStep(Struct):
    """A step of a thread block: what it does, from and to which chunks, and what it waits for."""

    kind: str
    buffer: str
    offset: int
    count: int
    waits: tuple[int, int] = (-1, -1)
    awaited: bool = False


def msccl_lines(name: str, collective: Gathering, forest: Forest) -> Iterator[str]:
    """Write trees as an MSCCL program, line by line.

    Parameters
    ----------
    name
        Of the program.
    collective
        What the GPUs do.
    forest
        Trees of an all_gather, from their roots on.

    Raises
    ------
    InputError
        If the trees cut the message into too many chunks.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from netplan.topologies.graph.symmetry import ring
    >>> from netplan.traffic.trees import pack_trees
    >>> lines = list(msccl_lines("pair", "all_gather", pack_trees(ring(4), Fraction(3, 2))))
    >>> print(lines[0].strip()[:62])
    <algo name="pair" proto="Simple" nchannels="1" nchunksperloop=
    """
    chunks = forest.gpus * forest.per_root
    if chunks > MAX_CHUNKS:
        raise InputError(
            f"{name}: its trees cut a message into {chunks:,} chunks, more than {MAX_CHUNKS:,}:"
            " round the rates of its links"
        )
    blocks = _blocks(collective, forest)
    yield (
        f'<algo name={quoteattr(name)} proto="Simple" nchannels="1" nchunksperloop="{chunks}"'
        f' ngpus="{forest.gpus}" coll="{COLL[collective]}" inplace="1">\n'
    )
    gathers, scattered = collective == "all_gather", collective == "reduce_scatter"
    for gpu in range(forest.gpus):
        sizes = (
            f'i_chunks="{forest.per_root if gathers else chunks}"'
            f' o_chunks="{forest.per_root if scattered else chunks}" s_chunks="0"'
        )
        yield f'  <gpu id="{gpu}" {sizes}>\n'
        for number, (peers, steps) in enumerate(blocks[gpu].items()):
            yield f'    <tb id="{number}" send="{peers[0]}" recv="{peers[1]}" chan="0">\n'
            for index, step in enumerate(steps):
                where = "".join(
                    f' {end}buf="{step.buffer}" {end}off="{step.offset}"' for end in ("src", "dst")
                )
                yield (
                    f'      <step s="{index}" type="{step.kind}"{where} cnt="{step.count}"'
                    f' depid="{step.waits[0]}" deps="{step.waits[1]}"'
                    f' hasdep="{int(step.awaited)}"/>\n'
                )
            yield "    </tb>\n"
        yield "  </gpu>\n"
    yield "</algo>\n"


def _blocks(collective: Gathering, forest: Forest) -> list[dict[tuple[int, int], list[_BlockStep]]]:
    """Thread blocks of every GPU by whom they send to and receive from, with their steps."""
    blocks: list[dict[tuple[int, int], list[_BlockStep]]] = [
        defaultdict(list) for _ in range(forest.gpus)
    ]
    first, used = [], [0] * forest.gpus
    for tree in forest.trees:
        first.append(used[tree.root])
        used[tree.root] += tree.count
    last: dict[tuple[int, int], tuple[int, int]] = {}  # GPU and tree: block and step before
    for _, number, sender, receiver, adds in sorted(_moves(collective, forest.trees)):
        tree = forest.trees[number]
        for gpu, sends in ((sender, True), (receiver, False)):
            peers = (receiver, -1) if sends else (-1, sender)
            at_root = collective == "all_gather" and gpu == tree.root
            offset = first[number] + (0 if at_root else tree.root * forest.per_root)
            inside = at_root or collective != "all_gather"
            kind = "s" if sends else "rrc" if adds else "r"
            step = _BlockStep(kind, "i" if inside else "o", offset, tree.count)
            known = blocks[gpu]
            known[peers].append(step)
            before = last.get((gpu, number))
            if before is not None:
                numbers = list(known)
                if numbers[before[0]] != peers:
                    step.waits = before
                known[numbers[before[0]]][before[1]].awaited |= step.waits == before
            if not sends:
                last[gpu, number] = (list(known).index(peers), len(known[peers]) - 1)
    return blocks


def _moves(collective: Gathering, trees: tuple[Tree, ...]) -> Iterator[Move]:
    """What goes where in which round, all sums before what is gathered."""
    sums = 0
    for number, tree in enumerate(trees):
        height, deep = tree.heights, tree.depth
        if collective != "all_gather":
            for tail, head in tree.arcs:
                yield deep - height[head], number, head, tail, True
        sums = max(sums, deep)
    if collective == "reduce_scatter":
        return
    begin = sums if collective == "all_reduce" else 0
    for number, tree in enumerate(trees):
        height = tree.heights
        for tail, head in tree.arcs:
            yield begin + height[tail], number, tail, head, False
