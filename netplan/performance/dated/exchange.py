"""Dispatch and combine of tokens between experts, under software of a date.

Experts are spread over x GPUs, of whom e share one: groups of x e ranks that follow each other, on
N = ceil(x e / h) HB domains of h. Of each of E rows of q elements in 16 bits k copies go to
experts,

    w = start + E 2 q max(out / (en NIC), in / (ev HB))

``alltoall``: out = k (N-1)/N leave the domain, in = k (x-1)/x the GPU; ``deepep`` and ``hybridep``
send a row once to each place, of which D(y) = y (1 - (1 - 1/y)^k) among y are met: out =
D(N) (N-1)/N, in = D(x) (x-1)/x. Shares ``en`` and ``ev`` of the links' raw rates were fitted on
published runs. Four of them a block: dispatch and combine, there and back.

On a rail-only network a plain copy for another rail is forwarded inside a domain of X GPUs:
``alltoall`` adds out (X-1)/X to ``in``, and both follow each other (Wang et al., arXiv:2307.12169,
Eq. 21). Merged copies go to the GPU of the sender's rail in any case, and are handed on as they
come. Where tokens choose experts unevenly, links of the busiest GPU have so many times the bytes
of the mean (`netplan.workloads.expert_load`). An overlap share o takes the place of both:
max + (1 - o) min of the two.
"""

import numpy as np

from netplan.arrays import Amount, Columns
from netplan.performance.dated.part import Part
from netplan.traffic.measured import forwarded
from netplan.traffic.patterns import distinct_places
from netplan.workloads.operations import ELEMENT_BYTES


class ExpertGroups(Columns, frozen=True, eq=False):
    """GPUs that exchange tokens; numbers, or arrays of one shape.

    Parameters
    ----------
    over
        GPUs over which experts are spread, x [1].
    domains, domain
        HB domains of a group, and GPUs of one [1].
    network_s_per_byte, hb_s_per_byte
        Time of a byte over the network and inside a domain, at the links' raw rates [s/B].
    merged
        Whether a row is sent once to each place (1), or once for each expert (0).
    exchanges
        Whether tokens move at all (1); weights of experts do where they do not (0).
    forwards
        Whether copies for other rails are forwarded inside a domain (1 or 0).
    overlap_share
        Of the shorter of both ways, where copies are forwarded, the share that hides behind the
        other [1].
    """

    over: Amount
    domains: Amount
    domain: Amount
    network_s_per_byte: Amount
    hb_s_per_byte: Amount
    merged: Amount
    exchanges: Amount
    forwards: Amount
    overlap_share: Amount


class ExchangeShares(Columns, frozen=True, eq=False):
    """What dispatch and combine reach of the links' rates, plain and merged [1].

    ``visible`` shows of them, all where they are not overlapped. A plain one starts in
    ``a2a_start_s`` as every collective does, a merged one in ``ep_start_s``.
    """

    a2a_network: Amount
    a2a_hb: Amount
    ep_network: Amount
    ep_hb: Amount
    visible: Amount
    a2a_start_s: Amount
    ep_start_s: Amount


def dispatch_s(part: Part, group: ExpertGroups, shares: ExchangeShares) -> Amount:
    """Time of one dispatch or combine, as far as it shows [s].

    Parameters
    ----------
    part
        What a GPU has of the experts.
    group
        With whom it exchanges tokens.
    shares
        What is reached of the links.

    Returns
    -------
    Amount
        Of the shape of the part's arrays [s].
    """
    copies, outside = part.chosen, 1 - 1 / np.asarray(group.domains, np.float64)
    inside = 1 - 1 / np.asarray(group.over, np.float64)
    merged, forwards = np.asarray(group.merged) > 0, np.asarray(group.forwards) > 0
    out = np.where(merged, distinct_places(group.domains, copies), copies) * outside
    within = np.where(merged, distinct_places(group.over, copies), copies) * inside
    follows = forwards & ~merged
    within = within + np.where(follows, out * (1 - 1 / np.asarray(group.domain, np.float64)), 0.0)
    out_s = out * group.network_s_per_byte / np.where(merged, shares.ep_network, shares.a2a_network)
    in_s = within * group.hb_s_per_byte / np.where(merged, shares.ep_hb, shares.a2a_hb)
    both_s = forwarded(in_s, out_s, np.where(forwards, group.overlap_share, 1.0))
    start_s = np.where(merged, shares.ep_start_s, shares.a2a_start_s)
    sent_s = part.scattered * ELEMENT_BYTES * part.expert_size * both_s
    whole_s = start_s + part.hottest * sent_s
    several = np.greater(group.over, 1) & (np.asarray(group.exchanges) > 0)
    return np.where(several, shares.visible * whole_s, 0.0)
