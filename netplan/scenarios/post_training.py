"""What is trained by reinforcement: a trainer, rollouts beside it, and what joins both.

A step begins with prompts, of each of which a group of answers is rolled out by servers of the
model. They are scored, the model is trained on them, and its new weights are sent to the servers
(`netplan.performance.posttraining`). Inputs of the trainer are those of training.
"""

from collections.abc import Mapping
from typing import Annotated, cast

from msgspec import Meta, structs

from netplan.errors import InputError
from netplan.inputs.choices import SyncKind, SyncOver, WirePrecision
from netplan.inputs.option import Option
from netplan.inputs.readers import decimal
from netplan.scenarios.described import Typed, read_with
from netplan.scenarios.parts import LARGEST_CLUSTER, BatchSize, CachePrecision, Training, Whole

LARGEST_GROUP = 10**6
"""Prompts, or answers to one, of a step [1]."""
MOST_STALE = 1000
"""Versions of the weights that rollouts may be behind [1]."""
SYNC_WORDS = ("full", "relay", "experts", "sharded")
DELTA = "delta:"
SYNC_RATES = ("tensors", "buckets", "pipelined")
"""How software sends a copy, where no rate is given (`traffic/synchronisation`)."""
LEAST_RATE_BYTES_PER_S = 1.0
"""Least rate of a store or a copy: below, times leave the range of numbers [B/s]."""
LEAST_CHANGED = 1e-12
"""Least share of a delta: a weight of as many as the largest models have [1]."""
MOST_RULE_S = 1e6
"""Most seconds of a rule, as of an environment [s]."""
SCORES: Mapping[str, int] = {"old": 0, "reference": 0, "reward": 1, "judge": 2, "rule": 1}
"""What answers are scored by, and how many values stand behind its name."""

Count = Annotated[int, Meta(ge=0, le=LARGEST_GROUP)]


def read_sync(text: str) -> tuple[SyncKind, float]:
    """How weights are sent: a kind, and the share of the weights that a delta has changed.

    Parameters
    ----------
    text
        ``full``, ``relay``, ``experts``, ``sharded``, or ``delta:SHARE``.

    Raises
    ------
    InputError
        If it is none.

    Examples
    --------
    >>> read_sync("sharded"), read_sync("delta:0.03")
    (('sharded', 1.0), ('delta', 0.03))
    """
    if text in SYNC_WORDS:
        return cast("SyncKind", text), 1.0
    if text.startswith(DELTA):
        share = _number(text.removeprefix(DELTA))
        if LEAST_CHANGED <= share <= 1:
            return "delta", share
        raise InputError(
            f"--sync {text!r:.40}: the share that has changed is {LEAST_CHANGED:g} to 1, such as"
            " delta:0.03"
        )
    raise InputError(f"unknown --sync {text!r:.40}: use {', '.join(SYNC_WORDS)} or delta:SHARE")


def read_rates(text: str) -> tuple[float, float]:
    """Rates of a store, WRITE:READ [B/s].

    Raises
    ------
    InputError
        If there are not two of 1 B/s or more.

    Examples
    --------
    >>> read_rates("40e9:80e9")
    (40000000000.0, 80000000000.0)
    """
    ends = text.split(":")
    rates = tuple(_number(end) for end in ends)
    whole = all(LEAST_RATE_BYTES_PER_S <= rate < float("inf") for rate in rates)
    if len(rates) != 2 or not whole:  # noqa: PLR2004
        raise InputError(
            f"--storage-bytes-per-s {text!r:.40}: give bytes a second, 1 or more, as WRITE:READ,"
            " such as 40e9:80e9"
        )
    return rates[0], rates[1]


def read_score(text: str) -> tuple[str, str, float]:
    """What answers are scored by: its kind, its model, and tokens of a judge or seconds of a rule.

    Raises
    ------
    InputError
        If it is none.

    Examples
    --------
    >>> read_score("old"), read_score("judge:llama-3-70b:200"), read_score("rule:2.5")
    (('old', '', 0.0), ('judge', 'llama-3-70b', 200.0), ('rule', '', 2.5))
    """
    kind, *values = text.split(":")
    if kind == "none":
        raise InputError("--score none beside others: leave it out, or give it alone")
    known = "use old, reference, reward:MODEL, judge:MODEL:TOKENS or rule:SECONDS"
    if kind not in SCORES or len(values) != SCORES[kind] or not all(values):
        raise InputError(f"unknown --score {text!r:.60}: {known}")
    if kind == "rule":
        seconds = _number(values[0])
        if not 0 <= seconds <= MOST_RULE_S:
            raise InputError(f"--score {text!r:.60}: give 0 to {MOST_RULE_S:,.0f} seconds")
        return kind, "", seconds
    if kind == "judge":
        tokens = _number(values[1])
        if not 1 <= tokens <= LARGEST_CLUSTER or tokens != int(tokens):
            raise InputError(
                f"--score {text!r:.60}: a judge writes a whole number of tokens, 1 to"
                f" {LARGEST_CLUSTER:,}"
            )
        return kind, values[0], tokens
    return kind, values[0] if values else "", 0.0


class PostTraining(Training, frozen=True, kw_only=True, tag_field="kind", tag="post-training"):
    """What is trained by reinforcement, and how: trainer, rollouts, scoring, synchronisation.

    Examples
    --------
    >>> step = PostTraining(model="llama-3.1-8b", prompts=128)
    >>> step.answers, step.sync, step.staleness
    (2048, 'sharded', 0.0)
    """

    model: Annotated[str, Option("The policy: a transformer.", basic=True)] = "llama-3-70b"
    batch: Annotated[
        BatchSize | str | None,
        Option(
            "Global batch without rollouts (--prompts 0).",
            "batch",
            unit="sequences",
            low=1,
            otherwise="prompts x group size",
        ),
    ] = None
    prompts: Annotated[Count, Typed("Prompts of a step.", basic=True)] = 64
    group: Annotated[Count, Typed("Answers to a prompt.", flag="--group-size", basic=True)] = 16
    prompt_tokens: Annotated[Whole, Typed("Tokens of a prompt.", unit="tokens", low=1)] = 512
    answer_tokens: Annotated[
        str | float,
        Option(
            "Lengths of answers: MEAN:P99[:MAX] (lognormal), pareto:MEAN:P99[:MAX], a number, or a"
            " CSV file of length or length,count.",
            metavar="LENGTHS|FILE",
            basic=True,
        ),
    ] = "2000:8000:16384"
    rollout_gpus: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Typed(
            "GPUs that roll out.",
            unit="GPUs",
            otherwise="searched, and where --gpus is given",
            basic=True,
        ),
    ] = None
    rollout_accelerator: Annotated[
        str | None, Option("Accelerator of rollouts.", metavar="NAME", otherwise="the trainer's")
    ] = None
    rollout_precision: Annotated[
        str | None,
        Option(
            "Numbers of the servers' weights: bf16, fp8, fp4 or int4.",
            metavar="NAME",
            otherwise="bf16",
        ),
    ] = None
    rollout_stack: Annotated[
        str | None, Option("Software of the servers.", metavar="NAME", otherwise="typical-server")
    ] = None
    kv_precision: CachePrecision = None
    colocated: Annotated[bool, Typed("Both phases in turn on the same GPUs.", basic=True)] = False
    resident: Annotated[
        float,
        Meta(ge=0, le=1e12),
        Typed("Bytes a GPU that a trainer leaves in its memory, colocated.", unit="B", quiet=True),
    ] = 4e9
    swap: Annotated[
        bool,
        Typed(
            "Trainer and servers share the memory, colocated, and none is swapped out.",
            flag="--no-swap",
            quiet=True,
        ),
    ] = True
    staleness: Annotated[
        float,
        Meta(ge=0, le=MOST_STALE),
        Typed(
            "Versions of the weights that rollouts may be behind: 0 in turn, 1 one step off; below"
            " 1 the share of a batch.",
            basic=True,
        ),
    ] = 0.0
    over_sample: Annotated[
        float, Meta(ge=1, le=100), Typed("Answers started over those that are kept.")
    ] = 1.0
    partial: Annotated[bool, Typed("Answers that are not done go on in the next step.")] = False
    turns: Annotated[int, Meta(ge=1, le=1000), Typed("Turns of an answer.")] = 1
    environment_s: Annotated[
        float,
        Meta(ge=0, le=1e6),
        Typed("Seconds of tool or environment after each turn but the last.", unit="s"),
    ] = 0.0
    prefix_cache: Annotated[
        bool,
        Typed(
            "Servers take the prompt of every answer, not of a group once.",
            flag="--no-prefix-cache",
            quiet=True,
        ),
    ] = True
    updates: Annotated[
        int, Meta(ge=0, le=10_000), Typed("Optimizer steps on the answers of a step.")
    ] = 1
    pack: Annotated[
        Whole | None,
        Typed(
            "Tokens of a bin that sequences are packed into.",
            unit="tokens",
            low=1,
            otherwise="prompt and longest answer",
            quiet=True,
        ),
    ] = None
    packing: Annotated[
        bool,
        Typed(
            "Sequences are padded to the longest of a microbatch.", flag="--no-packing", quiet=True
        ),
    ] = True
    score: Annotated[
        tuple[str, ...],
        Option(
            "What scores answers: old, reference, reward:MODEL, judge:MODEL:TOKENS, rule:SECONDS"
            " (repeatable), or none.",
            many=True,
            metavar="WHAT",
        ),
    ] = ("old", "reference")
    score_gpus: Annotated[
        int, Meta(ge=0), Typed("GPUs of reward or judge; 0: the trainer's.", unit="GPUs")
    ] = 0
    sync: Annotated[
        str,
        Option(
            "How new weights are sent: full, relay, experts, sharded or delta:SHARE.",
            metavar="HOW",
            basic=True,
        ),
    ] = "sharded"
    sync_over: Annotated[SyncOver, Typed("Over the network, or through storage.")] = "network"
    sync_precision: Annotated[
        WirePrecision | None,
        Typed("Numbers of the weights that are sent.", otherwise="the rollout's"),
    ] = None
    sync_rate: Annotated[
        str | float | None,
        Option(
            "Bytes a second of one copy that software reaches, or tensors, buckets, pipelined.",
            metavar="RATE",
            otherwise="as fast as the links allow",
        ),
    ] = None
    sync_hidden: Annotated[
        float, Meta(ge=0, le=1), Typed("Share of sending off the critical path, 0 to 1.")
    ] = 0.0
    anchor: Annotated[
        int,
        Meta(ge=1, le=10**6),
        Typed("Steps of which one sends a whole copy under delta.", quiet=True),
    ] = 10
    storage: Annotated[
        str | None,
        Option(
            "Rates of the store under --sync-over storage, such as 40e9:80e9.",
            flag="--storage-bytes-per-s",
            metavar="WRITE:READ",
        ),
    ] = None
    measured: Annotated[
        str | None,
        Option(
            "Phases of one run or two that were measured, a YAML file: an estimate in place of a"
            " bound.",
            "path",
            metavar="FILE",
        ),
    ] = None
    steps: Annotated[int, Meta(ge=1, le=10**9), Typed("Steps of a run, for its cost.")] = 1000

    def __post_init__(self) -> None:
        """Refuse words that mean nothing; read numbers as the texts that they may be, too."""
        super().__post_init__()
        for name in ("answer_tokens", "sync_rate"):
            if isinstance(number := getattr(self, name), (int, float)):
                structs.force_setattr(self, name, f"{number:.15g}")
        if self.measured is not None:  # a command line gives paths, which JSON has none of
            structs.force_setattr(self, "measured", str(self.measured))
        read_with(read_sync, self.sync)
        for text in self.score:
            if self.score != ("none",):
                read_with(read_score, text)
        if self.storage is not None:
            read_with(read_rates, self.storage)
        if self.sync_rate is not None and self.sync_rate not in SYNC_RATES:
            read_with(read_copy_rate, str(self.sync_rate))

    @property
    def contradiction(self) -> str:
        """Two inputs that exclude each other, and the way out; empty if none do."""
        of_servers = f"--rollout-accelerator {self.rollout_accelerator}"
        if self.rollout_gpus:
            of_servers = f"--rollout-gpus {self.rollout_gpus:,}"
        rules = {
            f"--group-size 0 with --prompts {self.prompts:,}: give 1 answer or more": (
                self.prompts and not self.group
            ),
            f"--batch {self.batch}: the batch is prompts x group-size, {self.answers:,}; leave it"
            " out, or take --prompts 0": self.prompts and self.batch is not None,
            f"--staleness {self.staleness:g} with --colocated, whose phases take turns: leave one"
            " out": self.colocated and self.staleness > 0,
            f"{of_servers} with --colocated, where all GPUs train and roll out: leave one out": (
                self.colocated and (self.rollout_gpus or self.rollout_accelerator)
            ),
            f"--sync {self.sync} with --colocated, where all weights change places on the same"
            " GPUs: leave one out": self.colocated and self.sync.startswith(DELTA),
            "--partial with --over-sample 1, which leaves no answer unfinished: give more, such as"
            " 1.5, or leave it out": self.partial and self.over_sample == 1,
            "--sync-over storage needs --storage-bytes-per-s WRITE:READ": (
                self.sync_over == "storage" and self.storage is None
            ),
        }
        return next((text for text, excluded in rules.items() if excluded), "")

    @property
    def too_many(self) -> str:
        """That a step starts more answers than are served at once; empty if it does not."""
        started = self.answers * self.over_sample
        if started <= LARGEST_CLUSTER:
            return ""
        return (
            f"--prompts {self.prompts:,} x --group-size {self.group:,} x --over-sample"
            f" {self.over_sample:g} are {started:,.0f} answers at once: give at most"
            f" {LARGEST_CLUSTER:,}"
        )

    @property
    def answers(self) -> int:
        """Answers that a step trains on, N [1]."""
        return self.prompts * self.group

    @property
    def scored_by(self) -> tuple[tuple[str, str, float], ...]:
        """What scores answers, as of :func:`read_score`; nothing under ``none``."""
        return () if self.score == ("none",) else tuple(read_score(text) for text in self.score)


def read_copy_rate(text: str) -> float:
    """A rate of one copy [B/s].

    Raises
    ------
    InputError
        If it is none of 1 B/s or more.
    """
    rate = _number(text)
    if not LEAST_RATE_BYTES_PER_S <= rate < float("inf"):
        raise InputError(
            f"--sync-rate {text!r:.40}: give bytes a second, 1 or more, such as 6e9, or"
            f" {', '.join(SYNC_RATES)}"
        )
    return rate


def _number(text: str) -> float:
    """A number inside of a text; -1 of what is none, which no range here has."""
    try:
        return decimal(text)
    except InputError:
        return -1.0
