"""FLOPs of one iteration by which utilisation is measured, experts included."""

from dataclasses import dataclass

from netplan.performance.training import Setting
from netplan.traffic.transformer import iteration_flops


@dataclass(frozen=True, slots=True)
class IterationWork:
    """FLOPs of one iteration: of the model alone, and with what is computed again [FLOP]."""

    model: float
    hardware: float


def iteration_work(setting: Setting) -> IterationWork:
    """FLOPs of one iteration by the closed forms of arXiv:2205.05198.

    Every expert that a token visits counts like one feed-forward part. Hardware FLOPs contain the
    attention scores once more under selective recomputation, and the whole forward pass (a third
    of the training) under full recomputation.
    """
    model, batch = setting.training.model, setting.training.batch
    flops = iteration_flops(model, batch)
    matrices = (3 if model.gated_ffn else 2) * model.hidden_size
    matrices *= model.ffn_size or 4 * model.hidden_size
    tokens = batch * model.sequence_length
    visits = setting.variant.top_k - 1
    useful = flops.model + 6.0 * tokens * model.layers * matrices * visits
    again = {"none": 0.0, "selective": flops.hardware - flops.model, "full": useful / 3}
    return IterationWork(useful, useful + again[setting.variant.recompute])
