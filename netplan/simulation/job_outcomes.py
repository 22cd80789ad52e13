"""What became of a stream of jobs: when each started and ended, what was taken, and figures."""

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats, Ints
from netplan.simulation.job_traces import JobTrace


class Moves(Struct, frozen=True):
    """What migration did.

    Parameters
    ----------
    nodes
        Nodes that jobs were moved to [1].
    pauses_s
        Time that moved jobs stood still, of all together [s].
    bound
        Most fragments of a leaf that had to be allowed [1].
    unproved
        How often fewer moves may have been enough [1].
    """

    nodes: int = 0
    pauses_s: float = 0.0
    bound: int = 0
    unproved: int = 0


class Occupied(Struct, frozen=True, eq=False):
    """What was taken between events, which begin at ``time_s``.

    Parameters
    ----------
    time_s
        Begin of every stretch, shape (stretches,) [s].
    gpus
        Taken in it, lost rests of nodes too, shape (stretches,) [1].
    waiting
        Jobs that wait in it, shape (stretches,) [1].
    """

    time_s: Floats
    gpus: Ints
    waiting: Ints


class JobStream(Struct, frozen=True, eq=False):
    """What became of a trace of jobs.

    Parameters
    ----------
    trace
        The jobs.
    start_s, end_s
        When each started and ended, shape (jobs,) [s].
    leaves
        That each stood on at its start, shape (jobs,) [1].
    first_node
        Lowest node that each started on, shape (jobs,).
    taken
        GPUs that each took, lost rests of nodes too, shape (jobs,) [1].
    makespan_s
        From 0 to the last end [s].
    gpu_s, early_gpu_s
        GPU time taken, lost rests of nodes too; of it up to the last arrival [GPU s].
    early_useful_gpu_s
        GPU time that work done up to the last arrival needs alone [GPU s].
    broken_s
        Time integral of the share of nodes that are taken in part [s].
    refused_s
        Time in which the head waits though enough GPUs are free [s].
    begun_gpu_s, begun_useful_gpu_s
        GPU time of jobs that ran at the begin: unused in their last nodes; needed alone [GPU s].
    fragments_most
        Most jobs of a leaf that stood on others, too [1].
    total_gpus
        Of the cluster [1].
    occupied
        What was taken, by events.
    moves
        What migration did.
    """

    trace: JobTrace
    start_s: Floats
    end_s: Floats
    leaves: Ints
    first_node: Ints
    taken: Ints
    makespan_s: float
    gpu_s: float
    early_gpu_s: float
    early_useful_gpu_s: float
    broken_s: float
    refused_s: float
    begun_gpu_s: float
    begun_useful_gpu_s: float
    fragments_most: int
    total_gpus: int
    occupied: Occupied
    moves: Moves = Moves()

    @property
    def wait_s(self) -> Floats:
        """From the arrival of each job to its start, shape (jobs,) [s]."""
        return self.start_s - self.trace.arrival_s

    @property
    def slowdown(self) -> Floats:
        """Time that each ran over its time alone; never below 1, shape (jobs,) [1]."""
        slowdown: Floats = (self.end_s - self.start_s) / self.trace.duration_s
        return np.maximum(slowdown, 1.0)  # rounding has taken the rest

    @property
    def last_arrival_s(self) -> float:
        """When the last job came [s]."""
        return float(self.trace.arrival_s[-1])

    @property
    def lost_gpu_s(self) -> float:
        """GPU time of the unused GPUs of last nodes [GPU s]."""
        lost = (self.taken - self.trace.gpus) * (self.end_s - self.start_s)
        return float(lost.sum()) + self.begun_gpu_s

    @property
    def useful(self) -> float:
        """GPU time that jobs would need alone over all [1]."""
        alone = float((self.trace.gpus * self.trace.duration_s).sum()) + self.begun_useful_gpu_s
        return alone / (self.total_gpus * self.makespan_s)

    @property
    def useful_to_last_arrival(self) -> float:
        """The same of work done until the last job came, over all GPU time until then [1]."""
        last_s = self.last_arrival_s
        return self.early_useful_gpu_s / (self.total_gpus * last_s) if last_s > 0 else 0.0

    def figures(self) -> dict[str, float]:
        """Means over all jobs, and shares of the whole time.

        Returns
        -------
        dict
            ``makespan``, ``mean_wait`` and ``mean_completion`` [s], ``mean_slowdown``,
            ``mean_leaves``, ``sor`` (share of all GPU time that is taken), the same
            ``sor_to_last_arrival``, ``gfr`` (share of nodes taken in part) [1].
        """
        total, last_s = self.total_gpus, self.last_arrival_s
        return {
            "makespan": self.makespan_s,
            "mean_wait": float(np.mean(self.wait_s)),
            "mean_completion": float(np.mean(self.end_s - self.trace.arrival_s)),
            "mean_slowdown": float(np.mean(self.slowdown)),
            "mean_leaves": float(np.mean(self.leaves)),
            "sor": self.gpu_s / (total * self.makespan_s),
            "sor_to_last_arrival": self.early_gpu_s / (total * last_s) if last_s > 0 else 0.0,
            "gfr": self.broken_s / self.makespan_s,
        }
