"""One training job over several sites: how long its plan takes with replicas or stages in each.

*Data*: whole replicas in each site, which reduce gradients there first; like GPUs of all sites
exchange what they hold, and gather. *Pipeline*: stages in order over the sites, replicas of a stage
in one site, activations over the borders. What the distance adds is added to the plan's time in one
site: the difference of two exposed exchanges, or of two pipelines in fixed order
(`netplan.performance.sites`). Without any distance and transfer that is the time in one site.

Stages up to the last border hold ``ahead`` microbatches more, which hides that border alone: of two
stages around an earlier one both hold them.

A border delays by its way d and the transfer x of one microbatch of all replicas, and carries m of
them and no more than one at a time: the iteration takes at least (m + 1) x + 2 d beside one
microbatch through all stages.

A ring of exchange, and a direct one where every site has fibre to every other, has all of a site's
rate; elsewhere the busiest fibre counts, with what others send over it. Collectives that know no
sites run one ring through all members of a group, whose GPUs at the borders alone send over them.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import floor, inf
from typing import Literal

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Ints
from netplan.errors import InputError
from netplan.inputs.choices import ScheduleName
from netplan.performance.fixed_orders import ZERO_BUBBLE, order_times_s, pass_order
from netplan.performance.plan import PlanTime
from netplan.performance.sites import Exchange, ahead_of_stages, exchange_s, exposed_s, one_way_s
from netplan.records import replace
from netplan.topologies.sites import Sites

Across = Literal["data", "pipeline"]
"""What of a plan lies in several sites: replicas, or stages."""

Bottleneck = Literal["wire", "delay", "memory"]
"""What a job over sites loses most by: rate between them, distance, room for microbatches."""

HELD_AHEAD: tuple[ScheduleName, ...] = ("1f1b", "zb-1p", "zb-2p")
"""Schedules whose stages can hold more microbatches before a border."""

SHORT = 6
"""Stages and windows of microbatches after which a pipeline may repeat itself [1]."""

ROUNDS, POINTS = 5, 24
"""Rounds of a search for the distance of a loss, and points of each [1]."""


class SpreadRun(Struct, frozen=True, kw_only=True):
    """What of a plan counts where its parts lie in several sites.

    Parameters
    ----------
    time_s
        An iteration in one site [s].
    stages, chunks, microbatches, schedule
        Its pipeline: stages, virtual stages of each, microbatches, order of passes [1].
    forward_s, backward_s
        Passes of a microbatch through the slowest stage [s].
    gradient_bytes
        What is reduced over replicas in an iteration, all of the model, as often as it is [B].
    collectives
        Collectives over replicas that follow each other in an iteration [1].
    inside_s
        What they take within one site [s].
    hidden_s, pieces
        Work beside which gradients go, in so many pieces [s, 1].
    boundary_bytes
        What all replicas send over a border for a microbatch [B].
    ahead_bytes, room_bytes
        Activations of a microbatch on the fullest GPU, and what is free there [B].
    members, rings
        Replicas of a group and groups, whose rings cross borders where nobody knows of sites [1].
    """

    time_s: float
    stages: int
    chunks: int
    microbatches: int
    schedule: ScheduleName
    forward_s: float
    backward_s: float
    gradient_bytes: float
    collectives: float
    inside_s: float
    hidden_s: float
    pieces: int
    boundary_bytes: float
    ahead_bytes: float
    room_bytes: float
    members: int
    rings: float

    @property
    def most_ahead(self) -> int:
        """Microbatches that stages before a border can hold more [1]."""
        if self.schedule not in HELD_AHEAD or self.chunks > 1:
            return 0
        fits = inf if not self.ahead_bytes else self.room_bytes / self.ahead_bytes
        return max(0, self.microbatches if fits >= self.microbatches else floor(fits))


class Haul(Struct, frozen=True, kw_only=True):
    """How bytes get from site to site, beside fibre and rates.

    Parameters
    ----------
    exchange, chunks
        Ring or direct, and in which pieces it follows what happens within a site.
    detour, equipment_s
        Fibre over route [1], and what equipment adds one way of each fibre [s].
    in_flight_bytes, queue_pairs
        Bytes in flight of a queue pair, infinite where nothing limits them [B], and pairs of a GPU.
    sync_every
        Iterations from one exchange to the next [1].
    """

    exchange: Exchange = "direct"
    chunks: int = 8
    detour: float = 1.0
    equipment_s: float = 0.0
    in_flight_bytes: float = inf
    queue_pairs: int = 1
    sync_every: int = 1

    def way_s(self, sites: Sites, a: int, b: int) -> float:
        """From one site to another, one way [s].

        Parameters
        ----------
        sites, a, b
            The sites, and the numbers of two.

        Returns
        -------
        float
            Over all fibre between them [s].
        """
        ways = sites.paths[a, b] or ()
        fibres = (one_way_s(self.detour * sites.fibres[ends].km, self.equipment_s) for ends in ways)
        return float(sum(fibres))

    def limited(self, sites: Sites) -> Sites:
        """The sites with the rates that bytes in flight leave.

        Parameters
        ----------
        sites
            The sites.

        Returns
        -------
        Sites
            W no more than queue pairs x bytes in flight / round trip, of the poorest site.
        """
        if self.in_flight_bytes == inf:
            return sites
        share = 1.0
        for number, site in enumerate(sites.sites):
            ends = [(pair.a, pair.b) for pair in sites.pairs if number in (pair.a, pair.b)]
            trip_s = 2 * max(self.way_s(sites, *two) for two in ends)
            flying = site.gpus * self.queue_pairs * self.in_flight_bytes
            if trip_s:
                share = min(share, flying / trip_s / sites.egress_bytes_per_s[number])
        return sites.changed(share) if share < 1 else sites


class SpreadTime(Struct, frozen=True, kw_only=True):
    """How long a plan takes over sites.

    Parameters
    ----------
    across
        What of it lies in several sites.
    time_s, one_site_s
        An iteration over the sites, and in one [s].
    ahead
        Microbatches that stages before the last border hold more [1].
    exchange_s, exposed_s
        Exchange of gradients, or transfer over the slowest border; what of that shows [s].
    bottleneck
        What it loses most by.
    """

    across: Across
    time_s: float
    one_site_s: float
    ahead: int = 0
    exchange_s: float = 0.0
    exposed_s: float = 0.0
    bottleneck: Bottleneck = "delay"

    @property
    def loss(self) -> float:
        """What it loses against one site [1]."""
        return self.time_s / self.one_site_s - 1


class Crossing(Struct, frozen=True):
    """What goes from one site to another over the fibre between them in an iteration.

    Parameters
    ----------
    sender, receiver
        Names of the sites.
    kind
        Gradients, or activations and their gradients.
    total_bytes, bytes_per_s
        How much it is [B], and how much the fibre carries each direction [B/s].
    utilisation
        Share of the iteration in which the fibre is busy [1].
    """

    json_parts = ("*", "busy_s")

    sender: str
    receiver: str
    kind: Literal["gradients", "activations"]
    total_bytes: float
    bytes_per_s: float
    utilisation: float

    @property
    def busy_s(self) -> float:
        """How long the fibre is busy in an iteration [s]."""
        return self.total_bytes / self.bytes_per_s


class OverSites(Struct, frozen=True, kw_only=True):
    """A plan over sites: what of it lies in each, and how long it takes there.

    Parameters
    ----------
    sites
        The sites.
    haul
        How bytes get from one to another.
    run
        What of the plan counts.
    dealt
        Replicas, or stages, of each site [1].
    time
        How long it takes.
    """

    json_parts = (
        *("time.across", "dealt", "iteration_time_s=time.time_s"),
        *("one_site_time_s=time.one_site_s", "time.loss", "time.ahead", "time.exchange_s"),
        *("time.exposed_s", "time.bottleneck", "crossings"),
    )

    sites: Sites
    haul: Haul
    run: SpreadRun
    dealt: tuple[int, ...]
    time: SpreadTime

    @property
    def crossings(self) -> tuple[Crossing, ...]:
        """What goes over each fibre in an iteration, each direction by itself."""
        data, every, sites = self.time.across == "data", 1, self.haul.limited(self.sites)
        if data:
            sent, every = gradient_bytes(self.run, sites, self.haul), self.haul.sync_every
        else:
            sent = activation_bytes(self.run, self.dealt)
        names = [site.name for site in sites.sites]
        crossings = []
        for (a, b), carried in sites.carried_bytes(sent).items():
            rate, amount = sites.fibres[a, b].bytes_per_s, carried / every
            crossings.append(
                Crossing(
                    names[a],
                    names[b],
                    "gradients" if data else "activations",
                    amount,
                    rate,
                    amount / rate / self.time.time_s,
                )
            )
        return tuple(crossings)

    @property
    def words(self) -> str:
        """What lies where, and what that loses."""
        what = "replicas" if self.time.across == "data" else "stages"
        dealt = " + ".join(map(str, self.dealt))
        if len(self.dealt) > 3 and len({*self.dealt}) == 1:  # noqa: PLR2004 - few are listed
            dealt = f"{len(self.dealt)} x {self.dealt[0]}"
        held = f", {self.time.ahead} ahead" if self.time.ahead else ""
        return (
            f"by {self.time.across}: {dealt} {what}{held}, {100 * self.time.loss:.2g} % lost to the"
            f" distance ({self.time.bottleneck})"
        )


def timed_over(timed: PlanTime, time: SpreadTime) -> PlanTime:
    """A plan's time in one site with what several add, as a part of its own.

    Parameters
    ----------
    timed, time
        The plan in one site, and over several.

    Returns
    -------
    PlanTime
        Its time and utilisation over the sites.
    """
    share = time.one_site_s / time.time_s
    return replace(
        timed,
        iteration_time_s=time.time_s,
        breakdown_s={**timed.breakdown_s, "long_haul": time.time_s - time.one_site_s},
        mfu=share * timed.mfu,
        hfu=share * timed.hfu,
    )


def gradient_bytes(run: SpreadRun, sites: Sites, haul: Haul) -> dict[tuple[int, int], float]:
    """What sites send to others in one exchange of gradients.

    Parameters
    ----------
    run, sites, haul
        As of :func:`data_time`.

    Returns
    -------
    dict
        By the numbers of both sites [B]: 2 (S - 1)/S of the gradients from each site, to all others
        where a ring goes by all fibre of a mesh, too.
    """
    count = len(sites.sites)
    ring = haul.exchange == "ring" and not sites.complete
    each_bytes = 2 * (count - 1) / count * run.gradient_bytes
    talking = _talking(count, ring=ring)
    if ring and sites.layout == "ring":  # both ways round at once
        talking += [(b, a) for a, b in talking]
    return dict.fromkeys(talking, each_bytes * count / len(talking))


def activation_bytes(run: SpreadRun, dealt: Sequence[int]) -> dict[tuple[int, int], float]:
    """What a pipeline sends over its borders in an iteration, forward and back.

    Parameters
    ----------
    run
        The plan.
    dealt
        Stages of each site [1].

    Returns
    -------
    dict
        By the numbers of both sites [B]; interleaved stages also go from the last to the first.
    """
    each_bytes = run.boundary_bytes * run.microbatches
    sent: dict[tuple[int, int], float] = {}
    times = [(ends, run.chunks) for ends in pairwise(range(len(dealt)))]
    times += [((len(dealt) - 1, 0), run.chunks - 1)]
    for (a, b), chunks in times:
        for ends in ((a, b), (b, a)) if chunks else ():
            sent[ends] = sent.get(ends, 0.0) + chunks * each_bytes
    return sent


def data_time(run: SpreadRun, sites: Sites, haul: Haul) -> SpreadTime:
    """An iteration whose replicas lie in several sites.

    Parameters
    ----------
    run, sites, haul
        The plan, the sites, how bytes get from one to another.

    Returns
    -------
    SpreadTime
        Its time, and what shows of the exchange [s].

    Examples
    --------
    405 billion parameters in 2 B on 2 x 8,192 GPUs of 50 GB/s at 512:1, 1,000 km, 8 s hidden in 16
    pieces:

    >>> from netplan.topologies.sites import deal_gpus
    >>> run = SpreadRun(time_s=20.0, stages=1, chunks=1, microbatches=1, schedule="1f1b",
    ...     forward_s=4.0, backward_s=8.0, gradient_bytes=8.1e11, collectives=2, inside_s=0.5,
    ...     hidden_s=8.0, pieces=16, boundary_bytes=0.0, ahead_bytes=0.0, room_bytes=0.0,
    ...     members=2048, rings=8)
    >>> sites = Sites.laid_out(
    ...     deal_gpus(16_384, 2, 8), "mesh", km=1000.0, ratio=512.0, gpu_rate=50e9)
    >>> time = data_time(run, sites, Haul())
    >>> round(time.exchange_s, 6), round(time.loss, 6)
    (1.084794, 0.001827)
    """
    sites, count = haul.limited(sites), len(sites.sites)
    ring = haul.exchange == "ring"
    each_bytes = 2 * (count - 1) / count * run.gradient_bytes
    if sites.complete or (ring and sites.layout == "ring"):
        wire_s = each_bytes / min(sites.egress_bytes_per_s)
    else:
        wire_s = sites.busiest_s(gradient_bytes(run, sites, haul))
    way_s = max(haul.way_s(sites, *ends) for ends in _talking(count, ring=ring))
    # Every collective has a trip, or S - 1 of a ring; exchange_s counts two collectives.
    transfer_s = float(
        exchange_s(
            run.gradient_bytes,
            sites=count,
            egress_bytes_per_s=each_bytes / wire_s if wire_s else inf,
            delay_s=way_s * run.collectives / 2,
            inside_s=run.inside_s,
            exchange=haul.exchange,
            chunks=haul.chunks,
        )
    )
    trips_s = run.collectives * (count - 1 if ring else 1) * way_s
    return _exchanged(run, haul, transfer_s, "delay" if trips_s > wire_s else "wire")


def _exchanged(run: SpreadRun, haul: Haul, transfer_s: float, bottleneck: Bottleneck) -> SpreadTime:
    """An iteration whose replicas exchange gradients over sites, as far as that shows."""
    shown_s = float(exposed_s(transfer_s, run.hidden_s, run.pieces))
    inside_s = float(exposed_s(run.inside_s, run.hidden_s, run.pieces))
    return SpreadTime(
        across="data",
        time_s=run.time_s + (shown_s - inside_s) / haul.sync_every,
        one_site_s=run.time_s,
        exchange_s=transfer_s,
        exposed_s=shown_s,
        bottleneck=bottleneck,
    )


def _talking(count: int, *, ring: bool) -> list[tuple[int, int]]:
    """Which sites send to which in an exchange."""
    if ring:
        return [(number, (number + 1) % count) for number in range(count)]
    return [(a, b) for a in range(count) for b in range(count) if a != b]


def flat_time(run: SpreadRun, sites: Sites, haul: Haul, gpu_rate: float) -> SpreadTime:
    """The same with collectives that know nothing of sites: one ring through each group.

    Parameters
    ----------
    run, sites, haul
        As of :func:`data_time`.
    gpu_rate
        Rate of the network of a GPU [B/s].

    Returns
    -------
    SpreadTime
        Every ring sends 2 (D - 1)/D of its gradients over each border, by one GPU; of 2 (D - 1)
        steps one after the other two go over each of S borders.
    """
    sites, members = haul.limited(sites), run.members
    rate = min(*sites.egress_bytes_per_s, run.rings * gpu_rate)
    wire_s = 2 * (members - 1) / members * run.gradient_bytes / rate
    ways = _talking(len(sites.sites), ring=True)
    steps_s = 2 * sum(haul.way_s(sites, *ends) for ends in ways)
    transfer_s = max(wire_s, run.inside_s) + steps_s
    return _exchanged(run, haul, transfer_s, "delay" if steps_s > wire_s else "wire")


class Borders(Struct, frozen=True, eq=False):
    """Borders of a pipeline in several cases: behind which stages, and what they delay.

    ``way_s`` and ``transfer_s`` are of the border behind each of ``cuts``, and of the way back
    from the last site to the first, shape (borders + 1, cases) [s]; ``busy_s`` is what the busiest
    fibre takes in an iteration, shape (cases,) [s].
    """

    cuts: tuple[int, ...]
    way_s: Floats
    transfer_s: Floats
    busy_s: Floats

    @classmethod
    def of(
        cls, run: SpreadRun, dealt: Sequence[int], cases: Sequence[Sites], haul: Haul
    ) -> "Borders":
        """Borders of stages that are dealt out, for every case of sites.

        Parameters
        ----------
        run, haul
            The plan, and how bytes get from site to site.
        dealt
            Stages of each site [1].
        cases
            The sites, as far and as well joined as each case has them.

        Returns
        -------
        Borders
            Of all cases.
        """
        ends = [*pairwise(range(len(dealt))), (len(dealt) - 1, 0)]
        used = ends if run.chunks > 1 else ends[:-1]
        both = [two for a, b in used for two in ((a, b), (b, a))]
        ways, transfers, busy = [], [], []
        for case in cases:
            sites = haul.limited(case)
            crossing: dict[tuple[int, int], int] = {}
            for two in both:
                for fibre in sites.paths[two] or ():
                    crossing[fibre] = crossing.get(fibre, 0) + 1
            busy.append(sites.busiest_s(activation_bytes(run, dealt)))
            ways.append([haul.way_s(sites, *two) for two in ends])
            transfers.append(
                [
                    max(
                        run.boundary_bytes
                        * crossing.get(fibre, 0)
                        / sites.fibres[fibre].bytes_per_s
                        for fibre in sites.paths[two] or ()
                    )
                    for two in ends
                ]
            )
        cuts = tuple(int(cut) for cut in np.cumsum(dealt)[:-1] - 1)
        return cls(cuts, np.array(ways).T, np.array(transfers).T, np.array(busy))

    @property
    def delay_s(self) -> Floats:
        """Way and transfer of each border, shape (borders + 1, cases) [s]."""
        return np.asarray(self.way_s + self.transfer_s)

    def take(self, cases: Ints) -> "Borders":
        """Some of the cases."""
        parts = self.way_s[:, cases], self.transfer_s[:, cases], self.busy_s[cases]
        return Borders(self.cuts, *parts)


def pipeline_times(run: SpreadRun, borders: Borders, ahead: int | None) -> list[SpreadTime]:
    """Iterations whose stages lie in several sites, one for each case of borders.

    Parameters
    ----------
    run
        The plan.
    borders
        What is delayed, and for how long.
    ahead
        Microbatches that stages up to the last border hold more; None takes the least that hides
        the delay, as many as fit [1].

    Returns
    -------
    list of SpreadTime
        Of each case.

    Raises
    ------
    InputError
        If so many do not fit.
    """
    most, pass_s = run.most_ahead, run.forward_s + run.backward_s
    if ahead is not None and ahead > most:
        why = f"memory and {run.microbatches} microbatches leave room for {most}"
        if run.chunks > 1 or run.schedule not in HELD_AHEAD:
            why = f"schedule {run.schedule} with {run.chunks} stages a GPU holds none: take 1f1b"
        raise InputError(f"--ahead {ahead}: {why}")
    delay_s = borders.delay_s[:-1].max(axis=0)
    needed = np.ceil(2 * delay_s / pass_s - ROUNDING).astype(np.int64)
    held = np.minimum(needed, most) if ahead is None else np.full_like(needed, ahead)
    times_s = np.zeros(len(held))
    for count in np.unique(held):
        some = np.flatnonzero(held == count)
        times_s[some] = _added_s(run, borders.take(some), int(count))
    # What transfers one after the other take longer than the passes that they follow.
    through_s = (run.microbatches + 1) * borders.transfer_s + 2 * borders.way_s
    longest_s = np.maximum(through_s[:-1].max(axis=0), borders.busy_s)
    wire_s = (longest_s - (run.microbatches - 1) * pass_s).clip(min=0.0)
    whole_s = run.time_s + np.maximum(times_s, wire_s)
    transfer_s = borders.transfer_s[:-1].max(axis=0)
    times = []
    holds = ahead is None and run.schedule in HELD_AHEAD and run.chunks == 1
    for case, time_s in enumerate(whole_s.tolist()):
        slow_wire = wire_s[case] > times_s[case] or transfer_s[case] > delay_s[case] / 2
        short = holds and held[case] < min(needed[case], run.microbatches)
        times.append(
            SpreadTime(
                across="pipeline",
                time_s=time_s,
                one_site_s=run.time_s,
                ahead=int(held[case]),
                exchange_s=float(transfer_s[case]),
                exposed_s=time_s - run.time_s,
                bottleneck="memory" if short else "wire" if slow_wire else "delay",
            )
        )
    return times


ROUNDING = 1e-9
"""Share of a microbatch by which delays are off that hide exactly [1]."""


def _added_s(run: SpreadRun, borders: Borders, ahead: int) -> Floats:
    """What borders add to the pipeline in its fixed order, shape (cases,) [s].

    Long runs of 1F1B over one border repeat themselves after every 2 + ahead microbatches. Where a
    shorter run has reached the period of that border, (2 c + 2 D) / (2 + ahead), or c, nothing is
    slower later on, and what is left is counted by it. Several borders wait for each other, and
    their joint period shows late: every pass is followed.
    """
    period = 2 + ahead
    fewer = SHORT * (run.stages + period)
    fewer += (run.microbatches - fewer) % period
    repeats = run.schedule == "1f1b" and run.chunks == 1 and len(borders.cuts) == 1
    if not repeats or run.microbatches <= 2 * fewer:
        return _walked_s(run, borders, ahead)
    pass_s = run.forward_s + run.backward_s
    slowest_s = borders.delay_s[:-1].max(axis=0)
    each_s = np.maximum(pass_s, (2 * pass_s + 2 * slowest_s) / period) - pass_s
    short, shorter = (
        _walked_s(replace(run, microbatches=count), borders, ahead)
        for count in (fewer, fewer - period)
    )
    added: Floats = short + (run.microbatches - fewer) * each_s
    apart = np.abs(short - shorter - period * each_s)
    unlike = np.flatnonzero(apart > ROUNDING * (pass_s + slowest_s))
    if len(unlike):
        added[unlike] = _walked_s(run, borders.take(unlike), ahead)
    return added


def _walked_s(run: SpreadRun, borders: Borders, ahead: int) -> Floats:
    """The same by following every pass, shape (cases,) [s]."""
    stages, chunks = run.stages, run.chunks
    ahead_of = ahead_of_stages(stages, borders.cuts, ahead)
    order = pass_order(run.schedule, stages, run.microbatches, chunks=chunks, ahead=ahead_of)
    cases = borders.way_s.shape[1]
    between_s = np.zeros((stages * chunks - 1, cases + 1))  # the last case is one site
    for number, cut in enumerate(borders.cuts):
        between_s[cut::stages, :-1] = borders.delay_s[number]
    between_s[stages - 1 :: stages, :-1] = borders.delay_s[-1]
    virtual = stages * chunks
    forward_s = np.full(virtual, run.forward_s / chunks)
    backward_s = np.full(virtual, run.backward_s / chunks)
    halves = (backward_s / 2, backward_s / 2) if run.schedule in ZERO_BUBBLE else (backward_s, None)
    times_s = order_times_s(order, forward_s, halves[0], between_s, halves[1])
    return np.asarray(times_s[:-1] - times_s[-1])


def largest_below(
    loss_at: Callable[[Floats], Floats], target: float, ends: tuple[float, float]
) -> float:
    """Largest value up to which a loss that never falls stays at a target or below.

    Parameters
    ----------
    loss_at
        Losses of several values at once [1].
    target
        The target [1].
    ends
        Where it is looked for.

    Returns
    -------
    float
        The value; the upper end if the loss is no larger there, and NaN if it is larger
        everywhere.

    Examples
    --------
    >>> round(largest_below(lambda km: 1e-4 * km, 0.05, (0.0, 40_000.0)), 3)
    500.0
    """
    low, high = ends
    if loss_at(np.array([high]))[0] <= target:
        return high
    if loss_at(np.array([low]))[0] > target:
        return float("nan")
    for _ in range(ROUNDS):
        values = np.linspace(low, high, POINTS + 2)
        over = np.flatnonzero(loss_at(values[1:-1]) > target)
        first = int(over[0]) + 1 if len(over) else POINTS + 1
        low, high = values[first - 1], values[first]
    return float(low + high) / 2
