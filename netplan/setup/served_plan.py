"""One plan of servers and what it gives, as every answer about a served model has it."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from netplan.inputs.choices import TimeOrigin
from netplan.setup.inputs import found_words, short_inputs
from netplan.units import MILLI, si


class ServedPool(Struct, frozen=True):
    """Servers of one kind."""

    tensor: int
    pipeline: int
    expert: int
    attention_data: int
    expert_tensor: int
    replicas: int
    gpus: int

    @property
    def shape(self) -> str:
        """Degrees in short."""
        copies = f" x {self.attention_data} copies" if self.attention_data > 1 else ""
        expert = f", EP {self.expert}" if self.expert > 1 else ""
        return f"TP {self.tensor}{copies} x PP {self.pipeline}{expert}"


LevelSource = Literal["default", "given"]
"""Who asks for a service level."""


class ServiceLevel(Struct, frozen=True):
    """Times that a plan should have at most, in the mean [s], who says so, and whether it does."""

    ttft_s: float | None
    tpot_s: float | None
    source: LevelSource
    met: bool

    @property
    def words(self) -> str:
        """The level in words."""
        parts = (("TTFT", self.ttft_s), ("TPOT", self.tpot_s))
        return " and ".join(
            f"{name} {most / MILLI:g} ms" for name, most in parts if most is not None
        )


class TierLoad(Struct, frozen=True):
    """What a tier has to give under some requests a second.

    Parameters
    ----------
    tier
        Its name.
    hit
        Share of the hits that it has [1].
    request_bytes
        That a request reads which hits: f P v [B].
    bytes_per_s, gpu_bytes_per_s
        Of the whole cluster, and of each GPU that works [B/s].
    round_bytes
        Of the whole cluster in the time of a token [B].
    utilisation
        Of what GPUs can read of it [1].
    added_s
        To the first token of a request that hits [s].
    prefixes
        Of such length that all GPUs' room holds [1].
    """

    tier: str
    hit: float
    request_bytes: float
    bytes_per_s: float
    gpu_bytes_per_s: float
    round_bytes: float
    utilisation: float
    added_s: float
    prefixes: float


class ServedPlan(
    Struct, frozen=True, rename={"bottleneck": "binds", "ttft_bottleneck": "ttft_binds"}
):
    """One plan: its servers, and what they give."""

    json_parts = "*", "-kv_tiers", "?kv_tiers"

    rank: int
    tensor: int
    pipeline: int
    expert: int
    attention_data: int
    expert_tensor: int
    replicas: int
    gpus_used: int
    batch: int
    concurrency: int
    ttft_s: float
    ttft_low_s: float
    ttft_high_s: float
    tpot_s: float
    tpot_low_s: float
    tpot_high_s: float
    error_basis: str
    tokens_per_s: float
    tokens_per_s_per_gpu: float
    tokens_per_s_low: float
    tokens_per_s_high: float
    memory_bytes: float
    bottleneck: str
    ttft_bottleneck: str
    queue_s: float
    service_level: ServiceLevel | None
    breakdown_s: dict[str, float]
    ttft_breakdown_s: dict[str, float]
    kernel_source: dict[str, TimeOrigin]
    error_class: str | None = None
    error_held: float | None = None  # share of points whose model was left out that such bars hold
    prefill: ServedPool | None = None
    decode: ServedPool | None = None
    kv_sent_bytes: float | None = None
    kv_tiers: tuple[TierLoad, ...] = ()

    def tier_notes(self) -> Iterator[str]:
        """What tiers of caches have to give, a sentence each."""
        for tier in self.kv_tiers:
            way = " over the storage network" if tier.tier == "remote" else ""
            yield (
                f"KV cache from {tier.tier}{way}: {si(tier.bytes_per_s, 'B/s')} in all,"
                f" {si(tier.gpu_bytes_per_s, 'B/s')} a GPU ({tier.utilisation:.0%} of what it can"
                f" read), {si(tier.request_bytes, 'B')} a request that hits, whose first token"
                f" waits {si(tier.added_s, 's')} for it."
            )

    @property
    def rate_bar(self) -> bool:
        """Whether tokens a second have a bar of their own."""
        return self.error_class is not None and not self.error_class.startswith("TPOT")

    @property
    def shape(self) -> str:
        """Servers in short."""
        pool = ServedPool(
            *(self.tensor, self.pipeline, self.expert, self.attention_data, self.expert_tensor),
            *(self.replicas, self.gpus_used),
        )
        if self.prefill is None:
            return f"{self.replicas:,} x ({pool.shape})"
        prompts = f"{self.prefill.replicas:,} x ({self.prefill.shape})"
        return f"{prompts} -> {self.replicas:,} x ({pool.shape})"


def serving_words(inputs: Mapping[str, Any]) -> str:
    """What is served, to whom, on what."""
    inputs = short_inputs(inputs)
    words = (
        f"serving {inputs['model']}, prompts of {inputs['prompt']:,} tokens, answers of"
        f" {inputs['output']:,}, weights of {inputs['precision']}, on {inputs['accelerator']}"
    )
    return ", ".join(filter(None, (words, found_words(inputs))))
