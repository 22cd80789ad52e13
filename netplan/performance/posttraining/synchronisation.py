r"""New weights on their way from the trainer to the servers of rollouts: bytes, bounds, times.

D dense and E routed-expert parameters of w bytes on the wire; C copies of g GPUs, e of which share
the experts; K GPUs of an HB domain:

=========  =========================  ===========================================================
kind       a GPU gets                 over the network
=========  =========================  ===========================================================
full       (D + E) w                  that once a domain: one enters, the rest get it inside
relay      (D + E) w                  that once a GPU: each takes all over its own card
experts    (D + E / e) w              a domain: D w + E w min(K, g C, e) / e
sharded    (D + E) w / g              C (D + E) w; once a domain where g < K
delta:x    x (D + E) (w + 4) / g      as sharded
=========  =========================  ===========================================================

Least seconds are those of the wire. Printed times are 2.6 to 7 times as long with a pipelined
engine, and 20 to 103 times inside one framework: software sets them today, not the wire
(``traffic/synchronisation`` has rates of one copy that software reaches).

Fully sharded exchange: le.qun.ch, 2025-09; relay and domains: checkpoint-engine (Moonshot AI),
README; changed weights alone: arXiv:2602.03839.
"""

from typing import Literal, NamedTuple, get_args

from msgspec import Struct

from netplan.catalog import Catalog, Record
from netplan.costing.ranges import Estimate
from netplan.errors import InputError
from netplan.inputs.choices import SyncKind

Sending = Literal["tensors", "buckets", "pipelined"]
"""How software sends a copy."""

SYNC_KINDS: tuple[SyncKind, ...] = get_args(SyncKind)

WIRE_BYTES = {"bf16": 2.0, "fp8": 1 + 4 / 128**2, "mxfp8": 1 + 1 / 32, "fp4": 0.5 + 1 / 16}
"""Bytes of a parameter on the wire: bf16; fp8 with a 32-bit scale a block of 128 x 128
(DeepSeek-V3, arXiv:2412.19437, Sec. 3.3.2); mxfp8 with one of 8 bits a block of 32 (OCP MX 1.0);
nvfp4 with one of 8 bits a block of 16 (NVIDIA, 2025) [B]."""

INDEX_BYTES = 4
"""Of the place of a changed weight, as int32 [B]."""


class SyncSoftware(Record, frozen=True, kw_only=True):
    """Rates at which software hands one copy of the weights over.

    ``rates`` are those of one copy by how it is sent [B/s]: ``tensors`` one by one from one rank,
    ``buckets`` from a rank of each pipeline stage, ``pipelined`` from all GPUs of the trainer. Low
    and high are the ends of the printed runs; other software lies outside of them.
    """

    rates: dict[Sending, Estimate]


SYNC_SOFTWARE = Catalog("synchronisation", "traffic/synchronisation", SyncSoftware)


class Weights(Struct, frozen=True):
    """What is sent.

    Parameters
    ----------
    dense, expert
        Parameters outside of routed experts, and of these [1].
    width_bytes
        Of one on the wire, w [B].

    Raises
    ------
    InputError
        If there are none, or of no bytes.

    Examples
    --------
    >>> Weights(17.1e9, 653.9e9, WIRE_BYTES["bf16"]).copy_bytes
    1342000000000.0
    """

    dense: float
    expert: float
    width_bytes: float

    def __post_init__(self) -> None:
        """Refuse weights of nothing."""
        if min(self.dense, self.expert) < 0 or not self.dense + self.expert > 0:
            raise InputError(
                f"{self.dense:g} dense and {self.expert:g} expert parameters: give 0 or more, and"
                " not 0 of both"
            )
        if not self.width_bytes > 0:
            raise InputError(f"a parameter of {self.width_bytes:g} bytes on the wire: give more")

    @property
    def copy_bytes(self) -> float:
        """One copy of all [B]."""
        return (self.dense + self.expert) * self.width_bytes


class Receivers(Struct, frozen=True, kw_only=True):
    """Servers that get new weights.

    Parameters
    ----------
    copies, copy_gpus
        Copies of the model, C, and GPUs of each, g [1].
    expert_gpus
        GPUs that share the experts of a copy, e [1].
    domain
        GPUs of an HB domain, K [1].

    Raises
    ------
    InputError
        If a count is below 1.
    """

    copies: int
    copy_gpus: int
    expert_gpus: int = 1
    domain: int = 8

    def __post_init__(self) -> None:
        """Refuse counts of nothing."""
        if min(self.copies, self.copy_gpus, self.expert_gpus, self.domain) < 1:
            raise InputError(
                f"{self.copies} copies of {self.copy_gpus} GPUs, experts over {self.expert_gpus},"
                f" in domains of {self.domain}: give at least 1 of each"
            )

    @property
    def gpus(self) -> int:
        """Of all copies [1]."""
        return self.copies * self.copy_gpus

    @property
    def domains(self) -> int:
        """HB domains that they fill [1]."""
        return -(-self.gpus // self.domain)


class SyncBytes(NamedTuple):
    """Bytes of one synchronisation: what a GPU gets, all get, and what enters domains [B]."""

    per_gpu: float
    total: float
    network: float


def sync_bytes(
    weights: Weights, receivers: Receivers, kind: SyncKind = "sharded", changed: float = 1.0
) -> SyncBytes:
    """Bytes of one synchronisation (this module's table).

    Parameters
    ----------
    weights, receivers
        What is sent, and to whom.
    kind
        How it is split.
    changed
        Share of the weights that a delta sends, as measured: none is assumed, and compression is
        not counted [1].

    Returns
    -------
    SyncBytes
        [B].

    Raises
    ------
    InputError
        If the kind is unknown, or the share of a delta not above 0 and at most 1.

    Examples
    --------
    Eight copies of llama-3-70b on eight GPUs each; sharded, a copy enters each domain:

    >>> weights = Weights(70_553_706_496, 0, WIRE_BYTES["bf16"])
    >>> eight = Receivers(copies=8, copy_gpus=8)
    >>> per_gpu, total, network = sync_bytes(weights, eight)
    >>> per_gpu, total == network == 8 * weights.copy_bytes
    (17638426624.0, True)
    >>> sync_bytes(weights, eight, "full").total == 64 * weights.copy_bytes
    True
    """
    if kind not in SYNC_KINDS:
        raise InputError(f"unknown synchronisation {kind!r:.40}: use {', '.join(SYNC_KINDS)}")
    width, gpus, domains = weights.width_bytes, receivers.gpus, receivers.domains
    inside = min(receivers.domain, gpus)
    if kind in ("full", "relay"):
        one_gpu = weights.copy_bytes
        return SyncBytes(one_gpu, one_gpu * gpus, one_gpu * (gpus if kind == "relay" else domains))
    if kind == "experts":
        sharing = receivers.expert_gpus
        dense_bytes, expert_bytes = weights.dense * width, weights.expert * width
        one_gpu = dense_bytes + expert_bytes / sharing
        entering = dense_bytes + expert_bytes / sharing * min(inside, sharing)
        return SyncBytes(one_gpu, one_gpu * gpus, domains * entering)
    if kind == "delta":
        if not 0 < changed <= 1:
            raise InputError(f"a delta of a share {changed:g}: give one above 0 and at most 1")
        width = changed * (width + INDEX_BYTES)
    one_gpu = (weights.dense + weights.expert) * width / receivers.copy_gpus
    entering = gpus if receivers.copy_gpus >= inside else domains * receivers.copy_gpus
    return SyncBytes(one_gpu, one_gpu * gpus, one_gpu * entering)


def anchored_bytes(delta_bytes: float, copy_bytes: float, every: int) -> float:
    """Mean bytes of a step where one of so many ships a whole copy in place of a delta [B].

    >>> anchored_bytes(1.0, 100.0, every=10)
    10.9
    """
    return (delta_bytes * (every - 1) + copy_bytes) / every


def gather_bytes(weights: Weights, stages: int, shards: int) -> float:
    """What the sender of a stage takes from others of the trainer before it sends all of it [B].

    Of full and relay alone: with sharded weights nobody gathers.

    Parameters
    ----------
    weights
        What is sent.
    stages, shards
        Pipeline stages of the trainer, p, and GPUs that share a stage, t e [1].

    Examples
    --------
    >>> gather_bytes(Weights(8e9, 0, 2), stages=2, shards=4)  # 3/4 of half of 16 GB
    6000000000.0
    """
    return (1 - 1 / shards) * weights.copy_bytes / stages


def reshard_bytes(
    weights: Weights, rollout_shards: int, *, stages: int, shards: int, aligned: bool = True
) -> float:
    """What a GPU has to get that trains and serves in turn.

    It needs 1 / r of all layers, and holds of 1 / p of them one of t shards:
    (D + E) w (1 / r - 1 / (p max(t, r))), or 1 / (p t r) where shards lie at odds.

    Parameters
    ----------
    weights
        What is held.
    rollout_shards
        GPUs that share a copy when it serves, r [1].
    stages, shards
        Stages of the trainer, p, and GPUs that share a stage, t; of FSDP 1 and its data degree [1].
    aligned
        Whether shards of both are parts of each other.

    Returns
    -------
    float
        0 where both plans are the same [B].

    Examples
    --------
    >>> weights = Weights(70_553_706_496, 0, 2.0)
    >>> reshard_bytes(weights, 8, stages=4, shards=8)
    13228819968.0
    >>> reshard_bytes(weights, 8, stages=1, shards=8)
    0.0
    """
    together = max(shards, rollout_shards) if aligned else shards * rollout_shards
    need = weights.copy_bytes / rollout_shards
    return max(0.0, need - weights.copy_bytes / stages / together)


class SyncLinks(Struct, frozen=True, kw_only=True):
    """Rates of a synchronisation.

    Parameters
    ----------
    senders
        GPUs of the trainer that send [1].
    nic_bytes_per_s, hb_bytes_per_s
        Of a GPU's cards together, and inside its domain, one way [B/s].
    """

    senders: int
    nic_bytes_per_s: float
    hb_bytes_per_s: float


def sync_bound_s(
    sent: SyncBytes, receivers: Receivers, links: SyncLinks, entering_s: float | None = None
) -> float:
    """Least seconds of a synchronisation: what senders, receivers and domains carry at best.

    max(network / (domains K NIC), network / domains / (senders NIC), per GPU / HB rate)

    Parameters
    ----------
    sent, receivers, links
        Bytes, who takes them, and at which rates.
    entering_s
        Time of the busiest link of a fabric, in place of the first term [s].

    Returns
    -------
    float
        A bound that no software is below [s].

    Examples
    --------
    >>> weights, to = Weights(70_553_706_496, 0, 2.0), Receivers(copies=8, copy_gpus=8)
    >>> rates = {"nic_bytes_per_s": 50e9, "hb_bytes_per_s": 450e9}
    >>> sharded, full = (sync_bytes(weights, to, kind) for kind in ("sharded", "full"))
    >>> round(sync_bound_s(sharded, to, SyncLinks(senders=64, **rates)), 4)
    0.3528
    >>> round(sync_bound_s(full, to, SyncLinks(senders=1, **rates)), 4)
    2.8221
    """
    taken_s = entering_s
    if taken_s is None:
        taken_s = sent.network / (receivers.domains * receivers.domain * links.nic_bytes_per_s)
    sent_s = sent.network / receivers.domains / (links.senders * links.nic_bytes_per_s)
    return max(taken_s, sent_s, sent.per_gpu / links.hb_bytes_per_s)


def storage_bound_s(
    sent: SyncBytes, receivers: Receivers, copy_bytes: float, rates: tuple[float, float], nic: float
) -> float:
    """Least seconds over storage: one copy is written, then read as often as it enters domains.

    Parameters
    ----------
    sent, receivers, copy_bytes
        Bytes, who takes them, and those of one copy [B].
    rates
        Of writing and of reading, of the whole store [B/s].
    nic
        Of a GPU's cards together [B/s].

    Returns
    -------
    float
        [s].

    Raises
    ------
    InputError
        If a rate is not above 0.

    Examples
    --------
    >>> weights, to = Weights(70_553_706_496, 0, 2.0), Receivers(copies=8, copy_gpus=8)
    >>> sent = sync_bytes(weights, to)
    >>> round(storage_bound_s(sent, to, weights.copy_bytes, (40e9, 80e9), 50e9), 4)
    17.6384
    """
    write, read = rates
    if not min(write, read) > 0:
        raise InputError(f"storage of {write:g} and {read:g} B/s: give rates above 0")
    taken = receivers.domains * receivers.domain * nic
    return copy_bytes / write + sent.network / min(read, taken)


def sync_s(bound_s: float, copy_bytes: float, copy_bytes_per_s: float | None = None) -> float:
    """Seconds of a synchronisation by software that hands a copy over at some rate.

    Parameters
    ----------
    bound_s
        Least seconds [s].
    copy_bytes, copy_bytes_per_s
        One copy, and the rate of one; None for the bound [B, B/s].

    Returns
    -------
    float
        [s].

    Raises
    ------
    InputError
        If the rate is not above 0, or beats the bound.

    Examples
    --------
    >>> sync_s(0.35, 141e9), sync_s(0.35, 141e9, 6e9)
    (0.35, 23.5)
    """
    if copy_bytes_per_s is None:
        return bound_s
    most = copy_bytes / bound_s if bound_s else 0.0
    if not copy_bytes_per_s > 0 or (bound_s and copy_bytes_per_s > most):
        raise InputError(
            f"a copy at {copy_bytes_per_s:.4g} B/s: the wire allows at most {most:.4g} B/s, which"
            f" takes {bound_s:.4g} s; give a rate above 0 and up to that"
        )
    return copy_bytes / copy_bytes_per_s
