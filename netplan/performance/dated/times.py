"""Times of all layers of a model under software of a date, for many shardings at once.

Collectives of tensor and context groups are those of the levels of the fabric, as without a date
(`netplan.performance.compute`); what experts exchange goes over groups of ranks that follow each
other, on as many HB domains as they fill.
"""

import numpy as np

from netplan.arrays import Floats, Ints, real
from netplan.errors import InputError
from netplan.performance.calibrated_run import CalibratedRun
from netplan.performance.dated.blocks import BlockCollectives
from netplan.performance.dated.exchange import ExpertGroups, dispatch_s
from netplan.performance.dated.layer import DatedLayer
from netplan.performance.dated.part import Part
from netplan.performance.dated.run import DatedRun
from netplan.performance.setting import Setting
from netplan.records import replace
from netplan.traffic.hierarchy import CollectiveNetwork, Group
from netplan.workloads import operations as ops
from netplan.workloads.operations import Sharding


def dated_layer(
    setting: Setting, sharding: Sharding, network: CollectiveNetwork, tensor_s: Floats, ring: Floats
) -> DatedLayer:
    """All layers of the setting's model, of shape (shardings,).

    Parameters
    ----------
    setting
        What is trained, under software of a date.
    sharding, network
        How microbatches are cut, and the levels of the fabric.
    tensor_s
        One tensor collective of each sharding alone [s].
    ring
        Slowest hop times the rounds of its context ring [s/B].

    Returns
    -------
    DatedLayer
        Its times of shape (shardings,) [s].

    Raises
    ------
    InputError
        If the setting has no software of a date.
    """
    run, dated = _run_of(setting)
    sharing = setting.sharing
    part = part_of(setting, sharding)
    sent = BlockCollectives(
        tensor_s=sharing.tensor_share * tensor_s,
        ring_s_per_element=2 * ops.ELEMENT_BYTES * ring,
        exchange_s=_exchanged(run, dated, part, sharding, setting, network),
        contention=sharing.contention,
    )
    windows = _windows_of(setting, sharding)
    half, trains = dated.numbers.half_recompute, setting.trains
    layer = DatedLayer.of(part, dated.reach, sent, half, windows, trains=trains)
    layer = replace(layer, growth=dated.software_factor)
    if not trains:
        return layer
    again = dict(setting.variant.again)
    if not setting.by_stack and setting.variant.recompute != "none":
        words = {"selective": "core_attn"}
        again = {words.get(setting.variant.recompute, setting.variant.recompute): 1.0}
    return layer.redoing(again)


def _run_of(setting: Setting) -> tuple[CalibratedRun, DatedRun]:
    """What the setting's run reaches, and that of its date."""
    run = setting.training.calibrated
    if run is None or run.dated is None:
        raise InputError("no software of a date is meant: give one")
    return run, run.dated


def part_of(setting: Setting, sharding: Sharding) -> Part:
    """What a GPU has of the setting's model, with the experts that it is asked for.

    Parameters
    ----------
    setting, sharding
        What is trained, and how microbatches are cut.

    Returns
    -------
    Part
        What depends on the sharding of shape (shardings,).
    """
    model = setting.transformer
    if setting.variant.sparse:
        model = model.changed(experts=setting.experts)
    part = Part.of(
        model,
        sharding,
        sequence_parallel=setting.variant.sequence_parallel,
        imbalance=setting.training.imbalance,
    )
    windows = model.window_attention
    if windows is None or not windows.own_heads:
        return part
    full = float(model.sequence_length)
    return replace(part, seen=full, attention_blocks=part.attention_blocks - windows.layers)


def _windows_of(setting: Setting, sharding: Sharding) -> Part | None:
    """The part of layers with windows, where these have heads of their own."""
    model, windows = setting.transformer, setting.transformer.window_attention
    if windows is None or not windows.own_heads:
        return None
    every = model.in_windows()
    # All its layers have windows, so that as many tokens are seen as these let through.
    every = every.changed(window_attention=windows.changed(layers=model.layers))
    part = Part.of(every, sharding, sequence_parallel=setting.variant.sequence_parallel)
    return replace(part, attention_blocks=float(windows.layers))


def exchange_alone_s(setting: Setting, sharding: Sharding, network: CollectiveNetwork) -> Floats:
    """One dispatch or combine of each sharding with nothing beside it, shape (shardings,) [s].

    Parameters
    ----------
    setting
        What is trained, under software of a date.
    sharding, network
        How microbatches are cut, and the levels of the fabric.

    Raises
    ------
    InputError
        If the setting has no software of a date.
    """
    run, dated = _run_of(setting)
    alone = replace(dated, shares=replace(dated.shares, visible=1.0))
    return _exchanged(run, alone, part_of(setting, sharding), sharding, setting, network)


def _exchanged(
    run: CalibratedRun,
    dated: DatedRun,
    part: Part,
    sharding: Sharding,
    setting: Setting,
    network: CollectiveNetwork,
) -> Floats:
    """One dispatch or combine of each sharding, as far as it shows [s]."""
    levels = network.levels
    over, group = real(sharding.experts_over), sharding.experts_over * sharding.expert_tensor
    if setting.experts is None or max(level.size for level in levels) == 1:
        return np.zeros(len(over))
    domain = setting.options.use_per_domain or levels[0].size
    domains = np.ones_like(group) if run.one_domain else -(-group // domain)
    merged = dated.recipe.merges(group, domain).astype(np.float64)
    asked = setting.training.overlap_share
    return np.asarray(
        dispatch_s(
            part,
            ExpertGroups(
                over=over,
                domains=real(domains),
                domain=float(domain),
                network_s_per_byte=_outside(run, domains, network),
                hb_s_per_byte=run.raw_share(0, levels[0]) / levels[0].link_bytes_per_s,
                merged=merged,
                exchanges=float(dated.recipe.exchanges),
                forwards=float(any(level.same_rank for level in levels[1:])),
                overlap_share=merged if asked is None else asked,
            ),
            dated.shares,
        )
    )


def _outside(run: CalibratedRun, domains: Ints, network: CollectiveNetwork) -> Floats:
    """Time of a byte that leaves its HB domain for another of so many, at links' raw rates [s/B].

    That of switches is the link's own; rings and leaves that block are slower.
    """
    several, index = np.unique(domains, return_inverse=True)
    members = np.ones((len(network.levels), len(several)), np.int64)
    rest, raw = several.copy(), np.zeros(len(several))
    for row, level in enumerate(network.levels[1:], start=1):
        members[row] = np.minimum(rest, level.size)
        rest = -(-rest // members[row])
        raw = np.where(members[row] > 1, run.raw_share(row, level), raw)
    sent = network.collective("all_to_all", Group(members, np.ones_like(members)))
    slope = np.asarray(sent.seconds(1.0) - sent.seconds(0.0))
    outside = 1 - 1 / real(several)
    s_per_byte: Floats = raw * slope / np.where(outside > 0, outside, 1.0)
    return s_per_byte[index]
