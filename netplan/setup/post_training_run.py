"""A step of post-training placed on a fabric: both pools, and who sends what to whom in a step.

==============  ==================================================================================
kind            bytes of a step
==============  ==================================================================================
rollout         collectives of the servers: of a round, as often as all tokens of the step need it
train-*         those of an iteration, as often as there are updates
score           those of a forward pass over all answers, for ``old`` and for ``reference`` each;
                of a reward the same of its own model, of a judge what its servers send
sync            new weights, of one synchronisation: under a delta what has changed
sync-gather     what senders of full or relayed copies gather inside the trainer first
sync-storage    over storage: what goes on inside HB domains; what is written and read takes no
                link of this network
trajectories    prompts and answers with log-probabilities, from servers to the trainer
==============  ==================================================================================

Servers lie first, the trainer behind them (`netplan.performance.posttraining.placed_weights`).
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from netplan.arrays import Ints
from netplan.errors import InputError
from netplan.levels import Level
from netplan.performance.posttraining.forward_pass import scored_plan, scoring_setting
from netplan.performance.posttraining.sync_traffic import trajectory_traffic
from netplan.performance.serving.outcomes import ServingCase
from netplan.performance.serving.rounds import ServingRound, served_batch
from netplan.records import replace
from netplan.reports.schema import plain_data
from netplan.reports.sections import Heading
from netplan.scenarios.reading import sized
from netplan.setup import post_training_links
from netplan.setup.inputs import short_inputs
from netplan.setup.placed_run import PlacedRun, PoolRun, Run, as_wired, is_uneven
from netplan.setup.post_training import ServerPool, Trainer
from netplan.setup.post_training_step import PostTrained, post_train
from netplan.setup.post_training_words import job_words, least, pool_words, sync_words
from netplan.setup.question import AnyQuestion
from netplan.setup.served_run import served_uses, timed_on
from netplan.topologies.build import build_fabric
from netplan.traffic.matrix import TRAINING_OF_A_STEP, TrafficMatrix, combine, no_traffic
from netplan.traffic.patterns import Pattern


class PoolTraffic(NamedTuple):
    """What the GPUs of one pool send each other in a step, by their numbers in the pool.

    Parameters
    ----------
    matrix
        Their traffic, by kinds of one pool.
    places
        GPU of the cluster that each of them is.
    levels, uneven
        Levels on which its collectives run, and whether experts are loaded unevenly.
    names
        Kinds of a step that its kinds become.
    """

    matrix: TrafficMatrix
    places: Ints
    levels: Sequence[Level]
    uneven: bool
    names: Mapping[str, str] | str

    def on_cluster(self, gpus: int, *, wired: bool) -> TrafficMatrix:
        """The same between GPUs of the cluster; as links of rings take it if ``wired``."""
        matrix = self.matrix
        matrix = as_wired(self.levels, matrix, uneven=self.uneven) if wired else matrix
        return matrix.relabelled(self.places.astype(np.int32), gpus).renamed(self.names)


class PostTrainedRun(Run, frozen=True, eq=False, dict=True):
    """A step of post-training on a fabric.

    Parameters
    ----------
    trained
        The step, and its pools.
    places
        Which GPUs these have.
    """

    trained: PostTrained
    places: post_training_links.PoolPlaces

    each: ClassVar[str] = "a step"

    @property
    def within(self) -> str:
        """How long a step takes, in words."""
        return f" of a step, which takes {least(self.trained)}"

    @property
    def in_short(self) -> dict[str, Any]:
        """What every answer about the run says in JSON."""
        step: dict[str, Any] = plain_data(self.trained)
        return step

    @cached_property
    def parts(self) -> tuple[PoolRun, ...]:
        """Collectives of both pools: of all updates, and of all rollouts."""
        trained, where, parts = self.trained, (self.spec, self.fabric), []
        if trained.trainer:
            run = self._trainer_run(trained.trainer)
            uses = tuple(
                timed._replace(use=replace(timed.use, times=timed.use.times * self._updates))
                for timed in run.collectives()
            )
            way = run.communication
            parts.append(PoolRun("train-", *where, run.levels, way, uses, self.places.trainer))
        if trained.servers:
            case = trained.servers.case
            uses = tuple(served_uses(case, self._rollouts(trained.servers)))
            timed = timed_on(case)
            parts.append(PoolRun("rollout-", *where, *timed, uses, self.places.rollout))
        return tuple(parts)

    @property
    def _updates(self) -> int:
        """Optimizer steps of a step [1]."""
        return self.trained.run.job.updates

    def _trainer_run(self, trainer: Trainer) -> PlacedRun:
        """A trainer on the fabric of its pool."""
        case = trainer.case
        return PlacedRun({}, case.spec, case.fabric, self.algorithm, trainer.setting, trainer.timed)

    def _rollouts(self, servers: ServerPool) -> ServingRound:
        """All rounds of a step: tokens of kept answers and of those that are thrown away."""
        work, rollouts = self.trained.step.work, self.trained.step.rollouts
        ahead = work.staleness if work.mode == "async" else 0.0
        return served_batch(
            servers.case,
            servers.rolled.plans,
            servers.rolled.servers.busy(work, ahead=ahead),
            tokens=work.answers * rollouts.kept_mean + rollouts.thrown_tokens,
            prompts=work.taken,
        )

    def matrix(self) -> TrafficMatrix:
        """Traffic of a step."""
        return self._matrix(wired=False)

    def matrices(self) -> tuple[TrafficMatrix, TrafficMatrix]:
        """Traffic of a step, and the same as links take it, pool by pool."""
        ringed = any(level.kind == "ring" for part in self.parts for level in part.levels)
        matrix = self.matrix()
        return matrix, self._matrix(wired=True) if ringed else matrix

    def _matrix(self, *, wired: bool) -> TrafficMatrix:
        """All kinds together."""
        gpus = self.fabric.sizing.gpus
        within = [pool.on_cluster(gpus, wired=wired) for pool in self._within()]
        return combine([no_traffic(gpus), *within, *self._between()])

    def _within(self) -> Iterator[PoolTraffic]:
        """What GPUs of a pool send each other."""
        trained, places = self.trained, self.places
        if trained.trainer:
            run = self._trainer_run(trained.trainer)
            matrix, uneven = run.matrix().scaled(self._updates), is_uneven(run.collectives())
            yield PoolTraffic(matrix, places.trainer, run.levels, uneven, TRAINING_OF_A_STEP)
        if trained.servers:
            rolled = self._rollouts(trained.servers)
            yield self._served(trained.servers.case, rolled, places.rollout, "rollout")
        if trained.trainer and trained.servers:
            yield from self._scored(trained.trainer)

    def _served(
        self, case: ServingCase, batch: ServingRound, places: Ints, name: str
    ) -> PoolTraffic:
        """All rounds of a batch."""
        matrix = batch.matrix(len(places), self.algorithm)
        uneven = is_uneven(served_uses(case, batch))
        return PoolTraffic(matrix, places, case.served.network.levels, uneven, name)

    def _scored(self, trainer: Trainer) -> Iterator[PoolTraffic]:
        """Forward passes of the policy, of the reference and of a reward; what judges send."""
        run, places = self.trained.run, self.places
        for kind, model, value in run.job.scored_by:
            if kind in ("old", "reference"):
                yield self._forward(trainer, places.trainer)
            elif kind == "reward":
                yield self._forward(run.trainer(len(places.score), model), places.score)
            elif kind == "judge":
                searched = run.judge(len(places.score), model, int(value))
                best = searched.found.best(searched.case).outcome
                answers = run.work.answers
                batch = served_batch(
                    *(searched.case, best.plans, float(best.in_flight[0])),
                    tokens=answers * value,
                    prompts=answers,
                )
                yield self._served(searched.case, batch, places.score, "score")

    def _forward(self, trainer: Trainer, places: Ints) -> PoolTraffic:
        """One forward pass over all answers of a step."""
        setting = scoring_setting(trainer.timed.plan.applied_to(trainer.scored))
        timed = replace(trainer.timed, plan=scored_plan(setting, trainer.timed.plan))
        case = trainer.case
        run = PlacedRun({}, case.spec, case.fabric, self.algorithm, setting, timed)
        uneven = is_uneven(run.collectives())
        return PoolTraffic(run.matrix(), places, run.levels, uneven, "score")

    def _between(self) -> Iterator[TrafficMatrix]:
        """What pools send each other: new weights one way, answers the other."""
        trained, places = self.trained, self.places
        trainer, servers, sync = trained.trainer, trained.servers, trained.sync
        if trainer is None or servers is None or sync is None:
            return
        run, pools = trained.run, (trainer, servers)
        if run.job.colocated:
            yield post_training_links.resharded_matrix(
                run, pools, places, sync.sent, sync.weights.width_bytes
            )
            return
        scheme = post_training_links.sync_scheme(run, servers, sync.kind, sync.changed)
        domain, width_bytes = self.fabric.sizing.hb_size, sync.weights.width_bytes
        yield post_training_links.sync_matrix(
            run, pools, places, scheme, domain=domain, width_bytes=width_bytes
        )
        # Both pools in one numbering, the servers first.
        behind = replace(post_training_links.trainer_placement(trainer), first=len(places.rollout))
        both = np.concatenate([places.rollout, places.trainer]).astype(np.int32)
        tokens = trained.step.tokens
        sent = trajectory_traffic(
            post_training_links.server_placement(servers), behind, tokens, len(both)
        )
        yield sent.relabelled(both, self.fabric.sizing.gpus)

    def phase_of(self, kind: str) -> tuple[str, float]:
        """The phase in which a kind of traffic runs, and how long it takes [s].

        Answers go to the trainer as they are done, while others are rolled out.
        """
        step = self.trained.step
        if kind == "score":
            return "score", max(step.score_s, step.apart_score_s)
        if kind in ("sync", "sync-gather", "sync-storage"):
            return "sync", step.sync_s
        if kind in ("rollout", "trajectories"):
            return "rollout", step.rolled_s
        return "train", step.train_s

    def notes(self) -> Iterator[str]:
        """What of step and fabric an answer about the traffic says."""
        trained, sync, job = self.trained, self.trained.sync, self.trained.run.job
        yield from self.fabric.notes
        yield from trained.notes
        if not job.colocated and trained.servers and trained.trainer:
            rollout, trainer = self.places.rollout, self.places.trainer
            yield (
                f"Servers have GPUs {rollout.min():,} to {rollout.max():,}, the trainer"
                f" {trainer.min():,} to {trainer.max():,}, each whole HB domains first."
            )
        if sync is not None and sync.sent.total:
            yield sync_words(sync)
            if sync.bound_by == "links":
                yield "Its bound is the busiest link of this fabric, by the fabric's own routing."
            else:
                yield "Its bound is that of network cards: no links of this fabric are in it."
            if sync.kind == "delta":
                yield (
                    f"Bytes of new weights are those of a delta; one step in {job.anchor:,} sends"
                    " a whole copy, which is in the mean time of sync."
                )
            if sync.over == "storage":
                yield "What is written to storage and read from it takes no link of this network."
        if trained.servers and trained.trainer and job.scored_by:
            yield "Score: collectives of forward passes, and what judges send."

    def heading(self, what: str, *, timed: bool = True) -> Heading:
        """What an answer about the run says first; the time of its step if that is ``timed``."""
        trained, inputs = self.trained, short_inputs(self.inputs)
        title = job_words(trained)
        plans = "; ".join(f"{pool.role} {pool.plan}" for pool in trained.pools if pool.plan)
        where = f"HB domains of {self.fabric.sizing.hb_size:,}, fabric {inputs['fabric']}"
        lines = [f"{where}; {self.algorithm} collectives; {pool_words(trained)}", f"plans: {plans}"]
        if timed:
            lines.append(f"A step takes {least(trained)}.")
        return Heading(f"{what} of {title[0].lower()}{title[1:]}", tuple(lines))


def place_post_training(asked: AnyQuestion, algorithm: Pattern | str) -> PostTrainedRun:
    """A step of post-training, by the best plans of its pools.

    Parameters
    ----------
    asked
        The question.
    algorithm
        Which pairs of a group talk.

    Raises
    ------
    InputError
        If inputs contradict each other, or both pools have GPUs that one network cannot hold.
    InfeasibleError
        If a pool has no plan that fits; it is named.
    """
    reader, cluster = asked.reader(), asked.cluster
    trained = post_train(asked, reader, cluster.fabric)
    run = trained.run
    if not post_training_links.one_kind(run):
        raise InputError(
            f"--rollout-accelerator {run.server_name} beside {cluster.accelerator}: links of a"
            " fabric are those of GPUs with equal HB domains and cards, so ask about each pool by"
            " itself"
        )
    spec = reader.fabric(cluster.fabric, cluster)
    fabric = build_fabric(spec, sized(cluster, run.chip))
    domain = fabric.sizing.hb_size
    inputs = asked.inputs(hb_size=domain, fixed=run.job.fixed, set=reader.replaced())
    places = post_training_links.pool_places(run, trained.trainer, trained.servers, domain)
    return PostTrainedRun(inputs, spec, fabric, algorithm, trained, places)
