"""Random small pipelines whose times add up without rounding, so that equal means equal."""

from random import Random

from netplan.simulation.tasks import Branch, Burst, Message, Operations, Pass, Phase, Pipeline
from netplan.simulation.tasks import one_after_the_other as in_turn

LINKS = 8


def _ticks(random: Random) -> float:
    """A time of whole 64ths."""
    return random.choice([1.0, 2.0, random.randint(1, 64) / 64])


def _message(random: Random) -> Message:
    links = tuple(random.sample(range(LINKS), random.randint(1, 3)))
    seconds = _ticks(random) / 4
    circuit = random.random() < 0.6
    busy = () if circuit else tuple(seconds * random.randint(0, 64) / 64 for _ in links)
    return Message(links, seconds, busy)


def _phase(random: Random) -> Phase:
    if random.random() < 0.5:
        return _ticks(random)
    return Burst(tuple(_message(random) for _ in range(random.randint(1, 3))))


def random_branch(random: Random) -> Branch:
    """One to three delays and bursts."""
    return tuple(_phase(random) for _ in range(random.randint(1, 3)))


def _work(random: Random) -> Operations:
    if random.random() < 0.3:
        return (tuple(random_branch(random) for _ in range(random.randint(1, 2))),)
    return in_turn(*random_branch(random))


def _pass(random: Random) -> Pass:
    first, last = (_work(random) if random.random() < 0.2 else None for _ in range(2))
    return Pass(_work(random), first, last)


def _some(random: Random, virtual: int) -> tuple[Operations, ...]:
    """Work for some of the virtual stages, in one case of two."""
    if random.random() < 0.5:
        return ()
    return tuple(_work(random) if random.random() < 0.5 else () for _ in range(virtual))


def random_pipeline(seed: int) -> Pipeline:
    """A pipeline of up to six stages and 60 microbatches on `LINKS` links."""
    random = Random(seed)  # noqa: S311 - a test
    stages, microbatches = random.randint(1, 6), random.randint(1, 60)
    chunks = random.choice([1, 1, 2, 3])
    virtual = stages * chunks
    forward, backward = (tuple(_pass(random) for _ in range(virtual)) for _ in range(2))
    ahead, back = (tuple(random_branch(random) for _ in range(virtual - 1)) for _ in range(2))
    return Pipeline(
        stages,
        microbatches,
        forward,
        backward,
        ahead,
        back,
        finish=tuple(_work(random) for _ in range(stages)),
        schedule="interleaved" if chunks > 1 else random.choice(["1f1b", "gpipe"]),
        eager=random.random() < 0.5,
        finish_together=random.random() < 0.5,
        prepare=((), *some[1:]) if (some := _some(random, virtual)) else (),
        settle=_some(random, virtual),
    )
