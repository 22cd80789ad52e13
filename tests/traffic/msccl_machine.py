"""A small machine that runs MSCCL programs, and knows of every chunk whose inputs it sums up.

Blocks of a GPU run beside each other, steps of a block one after the other; a step waits for the
one that it names, and for what it receives. Input and output share memory: programs are in place.
"""

import xml.etree.ElementTree as ET
from collections import Counter, deque

Chunk = Counter[tuple[int, int]]
"""How often the chunk holds the input of a GPU at a place."""


class Machine:
    """The state of all GPUs of a program."""

    def __init__(self, text: str) -> None:
        algo = ET.fromstring(text)  # noqa: S314 - our own
        assert algo.get("inplace") == "1"
        self.coll = algo.attrib["coll"]
        self.chunks = int(algo.attrib["nchunksperloop"])
        self.part = self.chunks // int(algo.attrib["ngpus"])
        self.steps: dict[tuple[int, int], list[dict[str, str]]] = {}
        self.peers: dict[tuple[int, int], tuple[int, int]] = {}
        for gpu in algo:
            at = int(gpu.attrib["id"])
            for tb in gpu:
                block = at, int(tb.attrib["id"])
                self.peers[block] = int(tb.attrib["send"]), int(tb.attrib["recv"])
                self.steps[block] = [dict(step.attrib) for step in tb]
                assert [int(one["s"]) for one in self.steps[block]] == [*range(len(tb))]
            own = [pair for (owner, _), pair in self.peers.items() if owner == at]
            assert len(own) == len(set(own))  # one block a connection
        self.done = dict.fromkeys(self.steps, 0)
        self.wires: dict[tuple[int, int], deque[list[Chunk]]] = {}
        self.memory = {int(gpu.attrib["id"]): self._begin(int(gpu.attrib["id"])) for gpu in algo}

    def _begin(self, gpu: int) -> list[Chunk]:
        """Memory of a GPU before the program: its own part, or a whole message."""
        own = self.coll == "allgather"
        return [
            Counter({(gpu, place): 1}) if not own or place // self.part == gpu else Counter()
            for place in range(self.chunks)
        ]

    def place(self, gpu: int, buffer: str) -> int:
        """Where a buffer of a GPU begins."""
        scattered = {"allgather": "i", "reduce_scatter": "o"}.get(self.coll)
        return gpu * self.part if buffer == scattered else 0

    def step(self, block: tuple[int, int]) -> bool:
        """Run the next step of a block, if there is one that need not wait."""
        gpu, at = block[0], self.done[block]
        if at == len(self.steps[block]):
            return False
        step = self.steps[block][at]
        awaited = gpu, int(step["depid"])
        if awaited in self.steps:
            assert self.steps[awaited][int(step["deps"])]["hasdep"] == "1"
            if self.done[awaited] <= int(step["deps"]):
                return False
        send, recv = self.peers[block]
        count = int(step["cnt"])
        if step["type"] == "s":
            first = self.place(gpu, step["srcbuf"]) + int(step["srcoff"])
            held = [one.copy() for one in self.memory[gpu][first : first + count]]
            self.wires.setdefault((gpu, send), deque()).append(held)
        elif self.wires.get((recv, gpu)):
            came = self.wires[recv, gpu].popleft()
            assert len(came) == count
            first = self.place(gpu, step["dstbuf"]) + int(step["dstoff"])
            for number, one in enumerate(came, first):
                before = self.memory[gpu][number] if step["type"] == "rrc" else Counter()
                self.memory[gpu][number] = before + one
        else:
            return False
        self.done[block] += 1
        return True


def played(text: str) -> dict[int, list[Chunk]]:
    """Outputs of all GPUs once a program has ended; it must end, with nothing left on a wire."""
    machine = Machine(text)
    while any(machine.step(block) for block in machine.steps):
        pass
    assert all(at == len(machine.steps[block]) for block, at in machine.done.items())
    assert not any(machine.wires.values())
    size = machine.part if machine.coll == "reduce_scatter" else machine.chunks
    return {gpu: held[machine.place(gpu, "o") :][:size] for gpu, held in machine.memory.items()}
