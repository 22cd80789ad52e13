"""Max-min rates, and messages over links, in plain Python: one bottleneck after another.

Classical filling (Bertsekas and Gallager, Data Networks, Sec. 6.5.2): all levels rise together,
and flows stop one full link at a time. The event loop finds all rates anew at every event.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

Path = Sequence[tuple[int, float]]


@dataclass
class Sent:
    """A message of the oracle."""

    size: float
    start: float
    after: tuple[int, ...]
    path: Path
    weight: float = 1.0
    limit: float = inf
    latency: float = 0.0


def fill(capacity: Sequence[float], flows: Sequence[tuple[Path, float, float]]) -> list[float]:
    """Rates of flows (path, weight, limit)."""
    free = list(capacity)
    rates: dict[int, float] = {}
    while len(rates) < len(flows):
        waiting = [index for index in range(len(flows)) if index not in rates]
        need = [0.0] * len(free)
        for index in waiting:
            for link, share in flows[index][0]:
                need[link] += share * flows[index][1]
        # The next thing that happens: a link fills, or a flow reaches its limit.
        levels = [
            (room / want, 0, link)
            for link, (room, want) in enumerate(zip(free, need, strict=True))
            if want
        ]
        levels += [(flows[index][2] / flows[index][1], 1, index) for index in waiting]
        level, kind, which = min(levels)
        if level == inf:
            return [rates.get(index, inf) for index in range(len(flows))]
        stops = (
            [which]
            if kind
            else [
                index
                for index in waiting
                if any(link == which and share for link, share in flows[index][0])
            ]
        )
        for index in stops:
            path, weight, _ = flows[index]
            rates[index] = weight * level
            for link, share in path:
                free[link] = max(0.0, free[link] - share * weight * level)
    return [rates[index] for index in range(len(flows))]


def deliver(capacity: Sequence[float], sent: Sequence[Sent]) -> list[float]:
    """When every message finishes."""
    left = [message.size for message in sent]
    finish: dict[int, float] = {}
    gone: set[int] = set()
    now = 0.0
    while len(gone) < len(sent):
        ready = {
            index: max([message.start, *(finish[other] for other in message.after)])
            for index, message in enumerate(sent)
            if index not in gone and all(other in finish for other in message.after)
        }
        running = [index for index, start in ready.items() if start <= now * (1 + 1e-12)]
        rates = fill(capacity, [(sent[i].path, sent[i].weight, sent[i].limit) for i in running])
        steps = [left[i] / rate if left[i] else 0.0 for i, rate in zip(running, rates, strict=True)]
        steps += [start - now for i, start in ready.items() if i not in running]
        step = min(steps)
        now += step
        for index, rate in zip(running, rates, strict=True):
            left[index] = 0.0 if rate == inf else left[index] - rate * step
            if left[index] <= 1e-9 * sent[index].size:
                gone.add(index)
                finish[index] = now + sent[index].latency
    return [finish[index] for index in range(len(sent))]
