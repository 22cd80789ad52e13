"""What distance between sites adds to a simulated pipeline: delays, microbatches ahead, exchange.

What goes over a border takes its way and its transfer before it takes the links of the fabric that
stand for it in one site. Stages before a border hold more microbatches; what an exchange between
sites shows beyond that of one site stands behind the passes.
"""

from msgspec import Struct

from netplan.performance.spread import Borders, OverSites
from netplan.records import replace
from netplan.simulation import tasks
from netplan.simulation.program_work import PlanWork


class Distance(Struct, frozen=True):
    """What several sites add to an iteration.

    Parameters
    ----------
    borders_s
        Delay of what one stage sends the next, by the stage before it, and of what the last one
        sends the first, each way [s].
    ahead
        Microbatches that every stage holds more [1].
    exchange_s
        What gradients between sites show beyond those of one site [s].
    """

    borders_s: tuple[float, ...]
    ahead: tuple[int, ...]
    exchange_s: float = 0.0

    @classmethod
    def of(cls, over: OverSites) -> "Distance":
        """What a plan's sites add to its iteration.

        Parameters
        ----------
        over
            The plan over sites.

        Returns
        -------
        Distance
            Delays of borders of stages, or what shows of an exchange of replicas.
        """
        stages, time = over.run.stages, over.time
        borders_s, held = [0.0] * stages, [0] * stages
        if time.across == "data":
            added_s = time.time_s - time.one_site_s
            return cls(tuple(borders_s), tuple(held), added_s)
        borders = Borders.of(over.run, over.dealt, [over.sites], over.haul)
        for number, cut in enumerate((*borders.cuts, stages - 1)):
            borders_s[cut] = float(borders.delay_s[number, 0])
        held = [time.ahead * (stage <= max(borders.cuts)) for stage in range(stages)]
        return cls(tuple(borders_s), tuple(held))


def with_distance(work: PlanWork, distance: Distance) -> PlanWork:
    """The work of a run whose stages or replicas lie in several sites.

    Parameters
    ----------
    work
        In one site.
    distance
        What several add.

    Returns
    -------
    PlanWork
        With a delay in front of what goes over borders, and behind the passes.

    Examples
    --------
    >>> passes = (tasks.Pass(tasks.delay(1.0)),) * 2
    >>> pipeline = tasks.Pipeline(2, 4, passes, passes, ((),), ((),))
    >>> far = with_distance(PlanWork((pipeline,), ()), Distance((0.5, 0.5), (1, 0))).pipelines[0]
    >>> far.send_forward, far.send_backward, far.ahead
    (((0.5,),), ((0.5,),), (1, 0))
    """
    return replace(
        work, pipelines=tuple(_pipeline(pipeline, distance) for pipeline in work.pipelines)
    )


def _pipeline(pipeline: tasks.Pipeline, distance: Distance) -> tasks.Pipeline:
    """One pipeline with its delays."""

    def delayed(sent: tuple[tasks.Branch, ...]) -> tuple[tasks.Branch, ...]:
        ways_s = (distance.borders_s[virtual % pipeline.stages] for virtual in range(len(sent)))
        return tuple(
            (way_s, *branch) if way_s else branch
            for way_s, branch in zip(ways_s, sent, strict=True)
        )

    finish = pipeline.finish
    if distance.exchange_s and finish:
        finish = tuple((*work, *tasks.delay(distance.exchange_s)) for work in finish)
    return replace(
        pipeline,
        send_forward=delayed(pipeline.send_forward),
        send_backward=delayed(pipeline.send_backward),
        finish=finish,
        ahead=distance.ahead if pipeline.schedule == "1f1b" else (),
    )
