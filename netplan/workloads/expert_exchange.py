"""Time in which tokens travel to their experts and back, by rates that were measured.

T tokens a GPU of w bytes each take

    t = t0 + T w max(r / (e_n B_n), s / (e_v B_v))

with the bandwidths of a GPU into the network and into its HB domain. Each token has k experts. With
d(x) = x (1 - (1 - 1/x)^k), the distinct ones of x places that k choices meet, copies of a token
travel, of N nodes with n GPUs in all,

=============  =====================================  =========================================
kind           r, over the network                    s, inside a domain
=============  =====================================  =========================================
`normal`       d(m) (N-1)/N, m = min(N, 4) nodes      d(x) (x-1)/x, x = m n/N GPUs
`low-latency`  k (N-1)/N                              k (n-1)/n
`rack`         none                                   d(n) (n-1)/n
=============  =====================================  =========================================

Normal and low latency are modes of DeepEP, the rack is TensorRT-LLM in one NVLink domain. Fitted to
AIConfigurator 0.12.0 (NVIDIA, Apache-2.0) with 8 experts a token and nodes of 8 GPUs.
"""

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount
from netplan.errors import InputError
from netplan.workloads.accelerators import Accelerator, accelerator_of
from netplan.workloads.measured_rates import ExchangeKind, ExchangePhase, pooled
from netplan.workloads.precision import precision_named

TOKEN_BYTES = {"bf16": 2.0, "fp8": 1.0 + 4 / 128}
"""Bytes of a number of a token; of fp8 with its share of a scale of 32 bits for 128 numbers [B]."""
MOST_NODES = 4
"""Nodes that the experts of one token lie on at most, where tokens go once to each node [1]."""


class ExpertExchange(Struct, frozen=True):
    """Who exchanges what: tokens of ``hidden`` numbers among GPUs on so many nodes.

    Raises
    ------
    InputError
        If there is no such exchange.
    """

    hidden: int
    top_k: int
    gpus: int
    nodes: int = 1
    kind: ExchangeKind = "normal"
    dtype: str = "bf16"

    def __post_init__(self) -> None:
        """Refuse what does not exist."""
        if min(self.hidden, self.top_k, self.gpus, self.nodes) < 1 or self.gpus % self.nodes:
            raise InputError(
                f"an exchange of {self.top_k} experts a token over {self.gpus} GPUs on {self.nodes}"
                f" nodes, {self.hidden} numbers each: all are at least 1, and nodes divide GPUs"
            )
        if self.kind not in pooled().expert_exchange:
            known = ", ".join(pooled().expert_exchange)
            raise InputError(f"unknown kind of exchange {self.kind!r:.40}: use {known}")
        if self.kind == "rack" and self.nodes > 1:
            raise InputError(f"a rack is one node, got {self.nodes}: take kind normal")
        if precision_named(self.dtype) not in TOKEN_BYTES:
            raise InputError(f"tokens travel as {' or '.join(TOKEN_BYTES)}, got {self.dtype}")

    @property
    def copies(self) -> tuple[float, float]:
        """Copies of each token over the network, and inside a domain [1].

        Examples
        --------
        >>> ExpertExchange(hidden=7168, top_k=8, gpus=16, nodes=2, kind="low-latency").copies
        (4.0, 7.5)
        """
        outside = (self.nodes - 1) / self.nodes
        if self.kind == "low-latency":
            return self.top_k * outside, self.top_k * (self.gpus - 1) / self.gpus
        nodes = min(self.nodes, MOST_NODES)
        near = nodes * self.gpus // self.nodes
        return self._distinct(nodes) * outside, self._distinct(near) * (near - 1) / near

    def _distinct(self, places: int) -> float:
        """Places that ``top_k`` even choices among them meet."""
        return float(places * (1 - (1 - 1 / places) ** self.top_k))


def expert_exchange_s(
    accelerator: Accelerator | str, phase: ExchangePhase, tokens: Amount, exchange: ExpertExchange
) -> Amount:
    """Time in which the tokens of a GPU are dispatched to their experts, or combined again [s].

    Parameters
    ----------
    accelerator
        A record, or its name in the catalog, for the bandwidths of its links.
    phase
        ``dispatch`` or ``combine``.
    tokens
        Tokens of one GPU, a number or an array [1].
    exchange
        Who exchanges what.

    Returns
    -------
    Amount
        Time, a float or an array of the shape of ``tokens`` [s].

    Raises
    ------
    InputError
        If the phase is unknown, or there are no tokens.

    References
    ----------
    Form and rates are fitted on AIConfigurator 0.12.0 (NVIDIA, Apache-2.0).

    Examples
    --------
    >>> wide = ExpertExchange(hidden=7168, top_k=8, gpus=32, nodes=4, dtype="fp8")
    >>> round(1e6 * expert_exchange_s("h100-80gb", "dispatch", 4096, wide), 1)
    2187.0
    """
    phases = pooled().expert_exchange[exchange.kind]
    if phase not in phases:
        raise InputError(f"unknown phase {phase!r:.40} of an exchange: use {' or '.join(phases)}")
    if not np.all((np.asarray(tokens) >= 0) & np.isfinite(tokens)):
        raise InputError("tokens of a GPU are finite and at least 0: got others")
    one, rates = accelerator_of(accelerator), phases[phase]
    network, near = exchange.copies
    slowest = max(
        network / (rates.network_efficiency * one.network_bytes_per_s),
        near / (rates.hb_efficiency * one.hb_bytes_per_s),
    )
    token_bytes = TOKEN_BYTES[precision_named(exchange.dtype)] * exchange.hidden
    time_s: Amount = rates.latency_s + np.asarray(tokens) * token_bytes * slowest
    return time_s if np.ndim(time_s) else float(time_s)
