"""Inputs of the 4D oracle: model, system, plan.

Source: "Comprehensive Performance Modeling and System Design Insights for Foundation Models"
(Subramanian et al.), Sec. III and Table A3. Units as in the paper's code: GB (1e9 bytes), GB/s in
one direction, TFLOP/s, seconds.
"""

from dataclasses import dataclass, replace
from typing import Literal

Strategy = Literal["1d", "2d-context", "2d-summa"]
"""Table I, Table II, Table A2."""

Mode = Literal["published-code", "corrected"]
"""`published-code` keeps four slips of the authors' program; `corrected` follows the text."""


@dataclass(frozen=True, slots=True)
class Model:
    """A transformer: l, e, h, d of Sec. III; the hidden dimension f is always 4e."""

    name: str
    sequence: int
    embedding: int
    heads: int
    depth: int


@dataclass(frozen=True, slots=True)
class System:
    """One GPU generation (Table A3) and the number of GPUs in one NVSwitch domain.

    The factor `flop_efficiency` and the `bandwidth_efficiency` of both networks are not in Table
    A3: the first stands only in the authors' code, the second in Appendix A ("efficiencies of
    70%").
    """

    name: str
    tensor_tflops: float
    vector_tflops: float
    hbm_gb_per_s: float
    hbm_gb: float
    nvlink_gb_per_s: float
    network_gb_per_s: float
    domain: int = 8
    ports_per_gpu: int = 1
    bandwidth_efficiency: float = 0.7
    flop_efficiency: float = 0.8
    flop_latency_s: float = 20e-6
    fast_latency_s: float = 2.5e-6
    slow_latency_s: float = 5e-6

    @property
    def beta_fast(self) -> float:
        """Bandwidth inside a domain [GB/s]."""
        return self.nvlink_gb_per_s * self.bandwidth_efficiency

    @property
    def beta_slow(self) -> float:
        """Bandwidth of one network port [GB/s]."""
        return self.network_gb_per_s * self.bandwidth_efficiency


@dataclass(frozen=True, slots=True)
class Split:
    """All that the time of one layer and microbatch depends on.

    strategy: tensor parallelism; b: sequences in a microbatch; n1, n2: tensor degrees over the
    embedding and over the sequence; v1, v2: members of each group inside one domain; n_b: SUMMA
    panels (1 and without meaning in the other strategies).
    """

    strategy: Strategy
    b: int
    n1: int
    n2: int
    v1: int
    v2: int
    n_b: int = 1


@dataclass(frozen=True, slots=True)
class Plan:
    """One configuration of the search (S3): a `Split` and the pipeline and data parallelism.

    n_p, n_d: pipeline and data degrees; v_p, v_d: their members inside one domain; m: microbatches
    of one iteration. The global batch is B = m*b*n_d, the GPUs are n = n1*n2*n_p*n_d.
    """

    split: Split
    n_p: int
    n_d: int
    v_p: int
    v_d: int
    m: int

    @property
    def gpus(self) -> int:
        """Number of GPUs n."""
        return self.split.n1 * self.split.n2 * self.n_p * self.n_d

    @property
    def batch(self) -> int:
        """Global batch B [sequences]."""
        return self.m * self.split.b * self.n_d


MODELS = {
    model.name: model
    for model in (
        Model("GPT3-175B", sequence=2048, embedding=12288, heads=96, depth=96),
        Model("GPT3-1T", sequence=2048, embedding=25600, heads=160, depth=128),
        Model("ViT-ERA5", sequence=64800, embedding=12288, heads=64, depth=48),
    )
}
"""Sec. III-B and, for GPT3-175B, the validation in Sec. IV."""

# Tensor and vector TFLOP/s, HBM GB/s, HBM GB, NVLink GB/s, network GB/s. Table A3 prints 990 and
# 134 TFLOP/s for the H200; the authors' code holds the unrounded values.
SYSTEMS = {
    system.name: system
    for system in (
        System("A100", 312.0, 78.0, 1555.0, 80.0, 300.0, 25.0),
        System("H200", 989.4, 133.8, 4800.0, 141.0, 450.0, 50.0),
        System("B200", 2500.0, 339.0, 8000.0, 192.0, 900.0, 100.0),
    )
}
"""Table A3, with domains of 8 GPUs."""


def system_with_domain(name: str, domain: int) -> System:
    """Return a system of Table A3 with `domain` GPUs per NVSwitch domain."""
    return replace(SYSTEMS[name], domain=domain)
