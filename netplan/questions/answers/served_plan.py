"""One plan of servers and what it gives, as every answer about a served model has it."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from netplan.questions.setup.inputs import found_words, told
from netplan.records import asdict


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


class ServedPlan(Struct, frozen=True):
    """One plan: its servers, and what they give."""

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
    binds: str
    ttft_binds: str
    queue_s: float
    breakdown_s: dict[str, float]
    ttft_breakdown_s: dict[str, float]
    prefill: ServedPool | None = None
    decode: ServedPool | None = None
    kv_sent_bytes: float | None = None

    def in_short(self) -> dict[str, Any]:
        """What other answers about the plan say in JSON."""
        fields = asdict(self)
        del fields["rank"]
        return fields

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
    inputs = told(inputs)
    words = (
        f"serving {inputs['model']}, prompts of {inputs['prompt']:,} tokens, answers of"
        f" {inputs['output']:,}, weights of {inputs['precision']}, on {inputs['accelerator']}"
    )
    return ", ".join(filter(None, (words, found_words(inputs))))
