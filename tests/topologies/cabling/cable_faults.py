"""Faults of every kind, put into a list of cables, and what a comparison must say of them."""

import numpy as np

from netplan.topologies.cabling.as_built import Cable, End

KINDS = ("swapped", "wrong port", "wrong speed", "missing", "extra")
Fault = tuple[str, str, str]


def inject(
    plan: list[Cable], count: int, rng: np.random.Generator
) -> tuple[list[Cable], list[Fault]]:
    """Cables with ``count`` faults on distinct cables, and each fault's kind, plan and build."""
    chosen = [int(i) for i in rng.choice(len(plan), 2 * count, replace=False)]
    built: dict[int, list[Cable]] = {}
    faults = []
    for number in range(count):
        one, two = sorted(chosen[2 * number : 2 * number + 2])
        kind = KINDS[int(rng.integers(len(KINDS)))]
        cable, other = plan[one], plan[two]
        planned, made = str(cable), ""
        match kind:
            case "swapped":
                first, second = Cable(cable.a, other.z, cable.gbps), Cable(other.a, cable.z)
                built[one], built[two] = [first], [second]
                planned, made = f"{cable}; {other}", f"{first}; {second}"
            case "wrong port":
                # a port beyond all that the switch has: free for certain
                moved = Cable(cable.a, End(cable.z.device, str(900 + number)), cable.gbps)
                built[one], made = [moved], str(moved)
            case "wrong speed":
                built[one] = [cable._replace(gbps=cable.gbps / 2)]
                planned = f"{cable} at {cable.gbps:g} Gb/s"
                made = f"{cable} at {cable.gbps / 2:g} Gb/s"
            case "missing":
                built[one] = []
            case _:
                extra = Cable(End(f"new-{number}", "1"), End(other.z.device, str(800 + number)))
                built[one] = [cable, extra]
                planned, made = "", str(extra)
        faults.append((kind, planned, made))
    cables = [c for i, cable in enumerate(plan) for c in built.get(i, [cable])]
    return [cables[i] for i in rng.permutation(len(cables))], faults
