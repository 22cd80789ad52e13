r"""Streams of jobs that are drawn: laws of sizes, durations and arrivals.

=========  =========================================================================================
g          GPUs of a job, 2^k up to the smaller of half the cluster and the law's largest [1]
P(g)       share of jobs: P(1) as given, else in proportion to g^-a [1]
d          duration alone [s]: ln d = mu + beta ln g + sigma z, z standard normal, cut at
           ``longest_s``
m(g)       its mean, uncut: exp(mu + beta ln g + sigma^2 / 2) [s]
=========  =========================================================================================

Arrivals are Poisson's, of rate load x GPUs / mean(g d) of the drawn jobs. Real ones come in days
and bursts: such a stream waits too little. Large jobs run longer, by beta: mean GPU time of a job
is far more than the product of the means of GPUs and time.

It leaves out users, hours of the day, and what users do when queues are long.
"""

from math import erf, exp, inf, log, sqrt
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from netplan.arrays import Floats, Ints
from netplan.catalog import Catalog, Record
from netplan.errors import InfeasibleError, InputError
from netplan.records import Entry
from netplan.simulation.job_clusters import LeafTrunks
from netplan.simulation.job_places import JobPlace
from netplan.simulation.job_traces import SHORTEST_S, JobTrace
from netplan.simulation.jobs import InitialJobs, StreamRules, too_large

MOST_REFUSED = 100
"""Jobs one after another that find no place, when the cluster counts as full [1]."""


class SizeLaw(Entry, frozen=True, kw_only=True):
    """How sizes and durations of jobs are distributed.

    Parameters
    ----------
    a
        Exponent of sizes [1].
    beta, sigma, mu
        Slope, spread and middle of the logarithm of durations [1].
    largest
        Most GPUs of a job [1].
    p1
        Share of jobs of one GPU; by the exponent as all others if None [1].
    """

    # Ends so wide that no power of a number of GPUs leaves what a float holds.
    a: Annotated[float, Meta(ge=-20, le=20)]
    beta: Annotated[float, Meta(ge=-10, le=10)]
    sigma: Annotated[float, Meta(ge=0, le=20)]
    mu: Annotated[float, Meta(ge=-100, le=100)]
    largest: Annotated[int, Meta(ge=1)]
    p1: Annotated[float, Meta(ge=0, le=1)] | None = None

    def sizes(self, cluster_gpus: float = inf) -> tuple[Ints, Floats]:
        """Sizes of jobs on a cluster, and their shares.

        Parameters
        ----------
        cluster_gpus
            GPUs of the cluster, of which no job takes more than half [1].

        Returns
        -------
        tuple of ndarray
            GPUs of a job, and the share of jobs, shape (sizes,) [1].

        Examples
        --------
        >>> law = SizeLaw(a=1.0, beta=0.0, sigma=1.0, mu=0.0, largest=8, p1=0.5)
        >>> [values.tolist() for values in law.sizes(8)]
        [[1, 2, 4], [0.5, 0.3333333333333333, 0.16666666666666666]]
        """
        most = max(1, int(min(cluster_gpus / 2, self.largest)))
        sizes = 2 ** np.arange(most.bit_length(), dtype=np.int64)
        share = sizes.astype(np.float64) ** -self.a
        if self.p1 is None or len(sizes) == 1:
            return sizes, share / share.sum()
        share[1:] *= (1 - self.p1) / share[1:].sum()
        share[0] = self.p1
        return sizes, share

    def mean_s(self, gpus: Ints) -> Floats:
        """Mean duration of jobs, uncut.

        Parameters
        ----------
        gpus
            Of each, shape (jobs,) [1].

        Returns
        -------
        ndarray
            Shape (jobs,) [s].
        """
        return np.exp(self.mu + self.beta * np.log(gpus) + self.sigma**2 / 2)

    def means(self, longest_s: float = inf) -> dict[str, float]:
        """Figures of the law in closed form.

        Parameters
        ----------
        longest_s
            Where durations are cut [s].

        Returns
        -------
        dict
            ``run_s``, ``gpus``, ``gpu_s`` (means of a job), ``median_s``, and ``large_share``, the
            share of GPU time in jobs of 64 GPUs or more.

        Examples
        --------
        One size of median 1 s, cut at infinity: the mean of a lognormal is exp(sigma^2 / 2).

        >>> law = SizeLaw(a=1.0, beta=0.0, sigma=1.0, mu=0.0, largest=1)
        >>> figures = law.means()
        >>> round(figures["run_s"], 4), round(figures["median_s"], 6)
        (1.6487, 1.0)
        """
        sizes, share = self.sizes()
        run_s = np.array([self._cut_mean_s(int(size), longest_s) for size in sizes])
        gpu_s = share * sizes * run_s
        return {
            "run_s": float((share * run_s).sum()),
            "gpus": float((share * sizes).sum()),
            "gpu_s": float(gpu_s.sum()),
            "median_s": self._median_s(sizes, share),
            "large_share": float(gpu_s[sizes >= LARGE].sum() / gpu_s.sum()),
        }

    def _cut_mean_s(self, gpus: int, longest_s: float) -> float:
        """Mean duration of a size where longer ones are cut: of min(d, longest)."""
        middle = self.mu + self.beta * log(gpus)
        mean_s = exp(middle + self.sigma**2 / 2)
        if longest_s == inf:
            return mean_s
        z = (log(longest_s) - middle) / self.sigma
        return mean_s * _below(z - self.sigma) + longest_s * (1 - _below(z))

    def _median_s(self, sizes: Ints, share: Floats) -> float:
        """Duration that half of the jobs stay below, by bisection of its logarithm."""
        middles = self.mu + self.beta * np.log(sizes)
        low, high = float(middles.min()), float(middles.max())
        for _ in range(BISECTIONS):
            point = (low + high) / 2
            below = sum(
                part * _below((point - middle) / self.sigma)
                for part, middle in zip(share, middles, strict=True)
            )
            low, high = (point, high) if below < 1 / 2 else (low, point)
        return exp(low)


LARGE = 64
"""GPUs from which on a job is large [1]."""

BISECTIONS = 80
"""Halvings that exhaust the digits of a number [1]."""


def _below(z: float) -> float:
    """Share of a standard normal below a value [1]."""
    return (1 + erf(z / sqrt(2))) / 2


class Stream(Record, frozen=True, kw_only=True):
    """What is known of a stream of jobs beside its number, load and seed.

    Parameters
    ----------
    law
        How sizes and durations are distributed; None where a file has the jobs.
    arrival_scale
        Factor on the arrivals of a file [1].
    comm
        Exposed communication of a job over several HB domains: of rings, and where a file does not
        say [1].
    all_to_all_comm, all_to_all_share
        The same of those that talk all to all, and their share of drawn jobs [1].
    estimate
        What the scheduler believes of durations, over what they are [1].
    longest_s
        Where drawn durations are cut; ``inf`` for nowhere [s].
    migration_s
        How long a moved job stands still [s].
    skip_too_large
        Whether jobs that never fit are dropped; else they are an error.
    warm_up
        Share of jobs, the first by arrival, whose figures are not counted [1].
    """

    law: SizeLaw | None = None
    arrival_scale: float = 1.0
    comm: float = 0.2
    all_to_all_comm: float = 0.35
    all_to_all_share: float = 0.3
    estimate: float = 1.0
    longest_s: float | Literal["inf"] = 604_800.0
    migration_s: float = 9.02
    skip_too_large: bool = False
    warm_up: float = 0.1

    def __post_init__(self) -> None:
        """Refuse values outside of their ranges."""
        for name, good, allowed in (
            ("arrival_scale", 0 <= self.arrival_scale < inf, "0 or more"),
            ("comm", 0 <= self.comm < 1, "0 or more, below 1"),
            ("all_to_all_comm", 0 <= self.all_to_all_comm < 1, "0 or more, below 1"),
            ("all_to_all_share", 0 <= self.all_to_all_share <= 1, "0 to 1"),
            ("estimate", 0 < self.estimate < inf, "above 0"),
            ("longest_s", self.cut_s > SHORTEST_S, "above 1e-9, in seconds, or inf"),
            ("migration_s", 0 <= self.migration_s < inf, "0 or more, in seconds"),
            ("warm_up", 0 <= self.warm_up < 1, "0 or more, below 1"),
        ):
            if not good:
                value = getattr(self, name)
                raise InputError(f"stream.{name} is {value:g}: give {allowed}")

    @property
    def cut_s(self) -> float:
        """Where drawn durations are cut, infinite for nowhere [s]."""
        return float(self.longest_s)


STREAMS = Catalog("stream", "traffic/streams", Stream)


def drawn_trace(
    stream: Stream, count: int, load: float, cluster: tuple[int, int], seed: int
) -> JobTrace:
    """Jobs that a law draws.

    Parameters
    ----------
    stream
        Its law, and how much its jobs communicate.
    count
        Jobs [1].
    load
        GPU time that they ask for over what there is while they come [1].
    cluster
        GPUs, and those of an HB domain [1].
    seed
        Of the draws.

    Returns
    -------
    JobTrace
        By arrival.

    Raises
    ------
    InputError
        If the stream has no law.
    """
    if stream.law is None:
        raise InputError(f"stream {stream.name} has no law to draw from: give a file, or kalos")
    gpus, hb_size = cluster
    rng = np.random.default_rng(seed)
    sizes, share = stream.law.sizes(gpus)
    asked = rng.choice(sizes, count, p=share)
    middle = stream.law.mu + stream.law.beta * np.log(asked)
    durations = np.exp(middle + stream.law.sigma * rng.standard_normal(count))
    durations = np.clip(durations, SHORTEST_S, stream.cut_s)
    to_all = rng.random(count) < stream.all_to_all_share
    mean_gap_s = float(np.mean(asked * durations)) / (load * gpus)
    comm = np.where(to_all, stream.all_to_all_comm, stream.comm)
    return JobTrace(
        name=stream.name,
        ids=tuple(map(str, range(count))),
        arrival_s=np.cumsum(rng.exponential(mean_gap_s, count)),
        duration_s=durations,
        gpus=asked.astype(np.int64),
        comm=np.where(asked <= hb_size, 0.0, comm),
        all_to_all=to_all,
    )


def offered_load(trace: JobTrace, gpus: int) -> float:
    """GPU time that jobs ask for over what there is until the last one comes.

    Parameters
    ----------
    trace
        The jobs.
    gpus
        Of the cluster [1].

    Returns
    -------
    float
        Infinite if all come at once [1].
    """
    asked = float((trace.gpus * trace.duration_s).sum())
    last_s = float(trace.arrival_s[-1])
    return asked / (gpus * last_s) if last_s else inf


def placed_jobs(
    trace: JobTrace, load: float, cluster: LeafTrunks, rules: StreamRules, seed: int
) -> InitialJobs:
    """Jobs that run when a stream begins, so that it need not fill the cluster first.

    They are drawn from the stream's own with probability in proportion to duration, each with a
    uniform share of its duration left, as a look at a random time finds them (inspection paradox;
    Feller, An Introduction to Probability Theory, vol. 2, Sec. I.4), until so many GPUs are taken
    or none of a hundred jobs one after another finds a place.

    Parameters
    ----------
    trace
        The stream.
    load
        Share of all GPUs to take [1].
    cluster, rules
        Where they are put, and how.
    seed
        Of the draws.

    Returns
    -------
    InitialJobs
        With their places.

    Raises
    ------
    InfeasibleError
        If no job of the stream fits.
    """
    rng = np.random.default_rng([seed, 1])
    free = cluster.empty(rules.policy, rules.seed)
    fitting = np.flatnonzero(~too_large(trace, free))
    if not len(fitting):
        raise InfeasibleError("no job of the stream fits into the empty cluster: give smaller ones")
    weight = trace.duration_s[fitting] / trace.duration_s[fitting].sum()
    places: list[JobPlace] = []
    jobs: list[int] = []
    refused = 0
    while free.used < load * free.total and refused < MOST_REFUSED:
        for job in rng.choice(fitting, MOST_REFUSED, p=weight).tolist():
            place = free.place(int(trace.gpus[job]))
            refused = refused + 1 if place is None else 0
            if place is not None:
                free.take(place)
                jobs.append(job)
                places.append(place)
            if free.used >= load * free.total or refused >= MOST_REFUSED:
                break
    chosen = np.array(jobs, np.int64)
    left_s = trace.duration_s[chosen] * rng.random(len(jobs))
    return InitialJobs(trace.take(chosen), np.maximum(left_s, SHORTEST_S), tuple(places))
