"""A step of post-training, put together from the questions about its parts.

The trainer is what ``netplan search`` finds on its GPUs, the servers what ``netplan serving`` runs
on theirs; both are asked about scenarios of their own, so that a step without rollouts is training
and one without training is serving.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, cast

from msgspec import Struct, structs

from netplan.errors import InfeasibleError, InputError, NetplanError
from netplan.performance.plan import PlanTime
from netplan.performance.posttraining.forward_pass import forward_pass
from netplan.performance.posttraining.given_lengths import lengths_of
from netplan.performance.posttraining.lengths import equivalent_batch, packed_bins, padded_use
from netplan.performance.posttraining.rollouts import Turns
from netplan.performance.posttraining.servers import RolledOut, roll_out
from netplan.performance.posttraining.step import StepWork
from netplan.performance.serving.outcomes import ServingCase
from netplan.performance.setting import Setting
from netplan.records import replace
from netplan.scenarios.parts import Serving, Training
from netplan.scenarios.post_training import PostTraining
from netplan.scenarios.reading import CatalogReader
from netplan.scenarios.scenario import Scenario
from netplan.setup.question import NETWORK, SERVED, TRAINED, AnyQuestion, Question
from netplan.setup.runs import PLACED
from netplan.setup.serving_run import Searched, search_servers
from netplan.setup.training import TrainingCase, plan_search, training_case
from netplan.units import counted, si
from netplan.workloads.accelerators import ACCELERATORS, Accelerator
from netplan.workloads.models import MODELS, Model

TRAIN, ROLLOUT = "train.", "rollout."
"""What degrees of either pool begin with in --fix."""
SEQUENCE = "model.sequence_length"
MOST_PACKED = 200_000
"""Sequences that are packed one by one; of more a sample of so many [1]."""
SAME = 1e-9
"""Share that bytes of a matrix may be off those of the formula [1]."""
PADDED = 2
"""Sequences of a microbatch that are padded to the longer one: the least that are padded [1]."""
BATCH_STEPS, SEQUENCE_STEPS = 32, 128
"""Steps, each a power of two, that a batch and a sequence have at least [1]."""
PartCache = dict[object, Any]
"""What searches of one question found, by what they were asked."""


@dataclass(frozen=True, kw_only=True)
class TrainerQuestion(Question[Any]):
    """What ``netplan search`` is asked, of the trainer alone."""

    command: ClassVar[str] = "search"
    reads: ClassVar[frozenset[str]] = NETWORK | TRAINED | PLACED
    workload: ClassVar[str] = "training"


@dataclass(frozen=True, kw_only=True)
class ServersQuestion(Question[Any]):
    """What ``netplan serving`` is asked, of the servers alone."""

    command: ClassVar[str] = "serving"
    reads: ClassVar[frozenset[str]] = NETWORK | SERVED | PLACED
    workload: ClassVar[str] = "serving"


class Trainer(NamedTuple):
    """The trainer's pool: what it trains, by which plan, and how long passes take.

    Parameters
    ----------
    asked
        The question about it alone.
    case, setting, timed
        What it trains on which fabric, and the plan with its iteration.
    scored
        What a forward pass is of: all answers of a step, not those of an update.
    train_s, forward_s
        All updates of a step, and one forward pass over its answers [s].
    """

    asked: AnyQuestion
    case: TrainingCase
    setting: Setting
    timed: PlanTime
    scored: Setting
    train_s: float
    forward_s: float

    @property
    def stages(self) -> int:
        """Pipeline stages [1]."""
        return self.timed.plan.pipeline

    @property
    def group(self) -> int:
        """GPUs of one copy of the model [1]."""
        plan = self.timed.plan
        return plan.tensor * plan.context * plan.pipeline


class ServerPool(NamedTuple):
    """The pool of servers: the question about it alone, what it serves, its plan and rollouts."""

    asked: AnyQuestion
    searched: Searched
    case: ServingCase
    rolled: RolledOut

    @property
    def copies(self) -> int:
        """Copies of the model, each of all its weights [1]."""
        return int(self.rolled.plans.replicas[0])

    @property
    def copy_gpus(self) -> int:
        """GPUs of one [1]."""
        return int(self.rolled.plans.server_gpus[0])

    @property
    def expert_gpus(self) -> int:
        """GPUs that share the experts of one, whole ones or parts of them [1]."""
        plans = self.rolled.plans
        return int(plans.expert[0] * plans.expert_tensor[0])

    @property
    def shape(self) -> str:
        """Its plan in words."""
        plans = self.rolled.plans
        expert = f" EP{int(plans.expert[0]):,}" if plans.expert[0] > 1 else ""
        data = f" DP{int(plans.attention_data[0]):,}" if plans.attention_data[0] > 1 else ""
        cut = f"TP{int(plans.tensor[0]):,}{data} PP{int(plans.pipeline[0]):,}{expert}"
        return f"{self.copies:,} x {cut}"


class PostRun(Struct, frozen=True, dict=True):
    """A post-training job: the question, what a step does, and what of it was found before.

    Parameters
    ----------
    asked
        The question.
    reader
        Reads its files.
    fabric
        The fabric that it lies on, by name.
    known
        Pools that were searched before, on this fabric or on others of equal levels.
    """

    asked: AnyQuestion
    reader: CatalogReader
    fabric: str
    known: PartCache

    @cached_property
    def job(self) -> PostTraining:
        """What is asked of it."""
        return self.asked.scenario.post_training

    @cached_property
    def gpus(self) -> int:
        """All GPUs [1]."""
        return self.asked.cluster.gpus

    @cached_property
    def model(self) -> Model:
        """The policy.

        Raises
        ------
        InputError
            If it is no transformer.
        """
        return self.reader.load(MODELS, self.job.model)

    @cached_property
    def chip(self) -> Accelerator:
        """The trainer's accelerator."""
        return self.reader.load(ACCELERATORS, self.asked.cluster.accelerator)

    @cached_property
    def server_name(self) -> str:
        """Name of the accelerator of the servers."""
        return self.job.rollout_accelerator or self.asked.cluster.accelerator

    @cached_property
    def server_chip(self) -> Accelerator:
        """The accelerator of the servers."""
        return self.server_reader.load(ACCELERATORS, self.server_name)

    @cached_property
    def server_reader(self) -> CatalogReader:
        """Reads the servers' files: values of the trainer's accelerator are not theirs."""
        return self.asked.reader_of(self.server_name)

    @cached_property
    def work(self) -> StepWork:
        """What a step does."""
        job = self.job
        lengths = lengths_of(str(job.answer_tokens))
        if job.turns > lengths.cap:
            raise InputError(
                f"--turns {job.turns:,} of answers that stop at {lengths.cap:,} tokens: give fewer"
            )
        return StepWork(
            lengths=lengths,
            prompts=job.prompts,
            group=job.group,
            prompt_tokens=job.prompt_tokens,
            over_sample=job.over_sample,
            partial=job.partial,
            turns=Turns(job.turns, job.environment_s),
            updates=job.updates,
            staleness=job.staleness,
            prefix_cache=job.prefix_cache,
            hidden=job.sync_hidden,
        )

    @cached_property
    def equivalent(self) -> tuple[float, float]:
        """Equal sequences that cost as much as a step's: tokens of each, how many [tokens, 1]."""
        work = self.work
        return equivalent_batch(work.kept, work.answers, work.prompt_tokens)

    @cached_property
    def used(self) -> float:
        """Share of the tokens of a bin, or of a padded microbatch, that is used [1].

        Packed sequences lie one after another without padding (THD layouts), which is least; bins
        of a given size are filled up.
        """
        work, job = self.work, self.job
        if not work.rolls_out:
            return 1.0
        if not job.packing:
            return padded_use(work.kept, PADDED, work.prompt_tokens)
        if job.pack is None:
            return 1.0
        size = max(int(work.prompt_tokens) + work.lengths.cap, job.pack)
        import numpy as np

        count = min(work.answers, MOST_PACKED)
        sizes = work.kept.draw(np.random.default_rng(0), count) + int(work.prompt_tokens)
        return packed_bins(sizes, size).used

    @cached_property
    def trained_batch(self) -> tuple[int, int]:
        """Equal sequences of an update: tokens of each, and how many; whole ones.

        A batch of 513 would give one of 128 replicas five sequences, and none can cut 5,679 tokens
        in four. What is asked for stands for mixed lengths that software deals out evenly: numbers
        are rounded to what many degrees divide, and the tokens are the same but for a 128th.
        """
        sequence, batch = self.equivalent
        batch /= self.used * max(1, self.job.updates)
        tokens = sequence * batch
        step = power_of_two(batch / BATCH_STEPS)
        whole = max(1, step * round(batch / step))
        step = power_of_two(tokens / whole / SEQUENCE_STEPS)
        return max(1, int(tokens / whole) // step * step), whole

    def trainer(self, gpus: int, model: str = "") -> Trainer:
        """The trainer's pool on so many GPUs; or that of another model, which scores.

        Raises
        ------
        InfeasibleError
            If no plan fits: the pool is named.
        """
        key = ("trainer", self.fabric, gpus, model)
        if key in self.known:
            return cast("Trainer", self.known[key])
        asked = self.trainer_question(gpus, model)
        try:
            case = training_case(asked)
            levels = ("levels", case.fabric.levels, gpus, model)
            if levels not in self.known:
                self.known[levels] = plan_search(asked, case.training).best_on_all(
                    case.fabric.levels
                )
        except (InfeasibleError, InputError) as error:
            who = f"pool that scores by {model}" if model else "trainer"
            raise named(error, f"the {who} has {counted(gpus, 'GPU')}") from None
        result = self.known[levels]
        timed, updates = result.best, self.job.updates
        setting = result.setting_of(timed)
        scored = of_all_updates(setting, updates)
        passes = forward_pass(scored, case.fabric.levels, timed)
        train_s = updates * timed.iteration_time_s
        times_s = (train_s, sum(passes.values()))
        self.known[key] = trainer = Trainer(asked, case, setting, timed, scored, *times_s)
        return trainer

    def trainer_question(self, gpus: int, model: str = "") -> AnyQuestion:
        """What ``netplan search`` is asked about the trainer alone.

        Equal sequences stand in for prompts and answers.
        """
        job, overrides = self.job, dict(self.asked.overrides or {})
        values = {name: getattr(job, name) for name in Training.__struct_fields__}
        values |= {"model": model or job.model, "fixed": self.fixed(TRAIN)}
        if model:  # degrees that are given are the policy's; what scores keeps weights alone
            memory = structs.replace(job.memory, ignore_memory=True)
            values |= {"fixed": None, "memory": memory}
        if self.work.rolls_out:
            sequence, batch = self.trained_batch
            values["batch"] = batch
            overrides[SEQUENCE] = str(sequence)
        scenario = self._pool_scenario(gpus, Training(**values), self.asked.cluster.accelerator)
        return self.asked.also(TrainerQuestion, scenario=scenario, overrides=overrides, varied={})

    def servers(self, gpus: int) -> ServerPool:
        """The pool of servers on so many GPUs.

        Raises
        ------
        InfeasibleError
            If no plan fits: the pool is named.
        """
        key = ("servers", self.fabric, gpus)
        if key in self.known:
            return cast("ServerPool", self.known[key])
        asked, job = self.server_question(gpus), self.job
        searches = self.known.setdefault(("servings", gpus), {})
        try:
            searched = search_servers(asked, self.server_reader, self.fabric, searches)
            case = searched.case
            if job.colocated:
                case = replace(case, memory_bytes=self._left_bytes(case, gpus))
            rolled = roll_out(case, searched.found.ranked.plans, self.work)
        except (InfeasibleError, InputError) as error:
            if isinstance(error, InfeasibleError):  # whose remedies are flags of servers alone
                remedies = "give more GPUs, or a narrower --rollout-precision or --kv-precision"
                error = InfeasibleError(f"{str(error).partition(': give ')[0]}: {remedies}")
            raise named(error, f"the rollout pool has {counted(gpus, 'GPU')}") from None
        self.known[key] = pool = ServerPool(asked, searched, case, rolled)
        return pool

    def _left_bytes(self, case: ServingCase, gpus: int) -> float:
        """Memory of a GPU that servers may take beside the trainer [B]."""
        kept = self.job.resident if self.job.swap else self.trainer(gpus).timed.memory_bytes
        left = case.memory_bytes - kept / case.stack.memory_share
        if left <= 0:
            raise InfeasibleError(
                f"the trainer leaves nothing of {si(case.memory_bytes, 'B')} a GPU: it keeps"
                f" {si(kept, 'B')}"
            )
        return left

    def server_question(self, gpus: int) -> AnyQuestion:
        """What ``netplan serving`` is asked about the servers alone: all answers in flight."""
        job, work = self.job, self.work
        serving = Serving(
            model=job.model,
            precision=job.rollout_precision or "bf16",
            stack=job.rollout_stack,
            kv_precision=job.kv_precision,
            fixed=self.fixed(ROLLOUT),
            prompt=job.prompt_tokens,
            output=max(1, round(work.lengths.mean)),
            concurrency=max(1, work.started),
            level=False,
            routing=job.routing,
        )
        scenario = self._pool_scenario(gpus, serving, self.server_name)
        return self.asked.also(
            ServersQuestion, scenario=scenario, overrides=self.server_reader.overrides, varied={}
        )

    def judge(self, gpus: int, model: str, tokens: int) -> Searched:
        """Servers of a model that reads all answers, and writes so many tokens of each.

        Raises
        ------
        InfeasibleError
            If it does not fit: the pool is named.
        """
        work = self.work
        serving = Serving(
            model=model,
            precision=self.job.rollout_precision or "bf16",
            prompt=max(1, round(work.prompt_tokens + work.lengths.mean)),
            output=max(1, tokens),
            requests=max(1, work.answers),
            level=False,
        )
        scenario = self._pool_scenario(gpus, serving, self.asked.cluster.accelerator)
        asked = self.asked.also(ServersQuestion, scenario=scenario, varied={})
        try:
            return search_servers(asked, self.reader, self.fabric)
        except (InfeasibleError, InputError) as error:
            who = f"the pool that judges by {model} has {counted(gpus, 'GPU')}"
            raise named(error, who) from None

    def _pool_scenario(self, gpus: int, workload: Training | Serving, accelerator: str) -> Scenario:
        """The scenario of a pool."""
        cluster = structs.replace(
            self.asked.cluster, gpus=gpus, accelerator=accelerator, fabric=self.fabric
        )
        return structs.replace(self.asked.scenario, cluster=cluster, workload=workload)

    def fixed(self, pool: str) -> dict[str, int] | None:
        """Degrees that are given of a pool.

        Raises
        ------
        InputError
            If one is of neither.
        """
        fixed = self.job.fixed or {}
        for name in fixed:
            if not name.startswith((TRAIN, ROLLOUT)):
                raise InputError(
                    f"--fix {name}={fixed[name]}: there are two pools: write {TRAIN}{name}="
                    f"{fixed[name]} or {ROLLOUT}{name}={fixed[name]}"
                )
        ours = {name.removeprefix(pool): number for name, number in fixed.items() if pool in name}
        return ours or None


def named(error: NetplanError, pool: str) -> NetplanError:
    """A refusal with the pool that it is of before it, in its own kind.

    Inputs that a question knows by flags are told as they are: no pool is to blame for them.
    """
    text = str(error)
    if isinstance(error, InputError) and not OF_A_SIZE.search(text):
        return error
    return type(error)(f"{pool}: {text}")


OF_A_SIZE = re.compile(r"\bGPUs?\b")
"""Refusals that speak of the size of a pool."""


def of_all_updates(setting: Setting, updates: int) -> Setting:
    """The setting of an update with the batch of all of a step: answers are scored before them.

    Parameters
    ----------
    setting
        Of an update.
    updates
        Of a step [1].
    """
    batch = setting.training.batch * max(1, updates)
    return replace(setting, training=replace(setting.training, batch=batch))


def power_of_two(value: float) -> int:
    """The largest power of two up to a value, 1 at least.

    Examples
    --------
    >>> [power_of_two(value) for value in (0.3, 1, 7.9, 64)]
    [1, 1, 4, 64]
    """
    return 1 << max(0, int(value).bit_length() - 1)
