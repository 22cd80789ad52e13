"""Training runs under software of a date as arrays, by the formulas of `netplan.performance.dated`.

As `netplan.calibration.runs`: two levels, HB domains and the network. Groups of experts are ranks
that follow each other, and so are the GPUs that hold the same ones, as many ranks apart as a group
has. The whole slice of a TPU is one domain.
"""

from collections.abc import Sequence

import numpy as np

from netplan.arrays import Floats
from netplan.calibration.runs import (
    NOTHING_ELSE,
    MeasuredRun,
    MeasuredRuns,
    Quantities,
    RunArrays,
    record_of,
)
from netplan.errors import InputError
from netplan.performance.calibrated import Sharing
from netplan.performance.calibrated_run import CalibrationPart
from netplan.performance.dated.blocks import BlockCollectives, DatedReach
from netplan.performance.dated.exchange import ExchangeShares, ExpertGroups, dispatch_s
from netplan.performance.dated.layer import DatedExchange, DatedLayer
from netplan.performance.dated.part import Part
from netplan.performance.dated.run import SMALLEST_JOB
from netplan.workloads.operations import ELEMENT_BYTES, Sharding


def arrays_of(runs: Sequence[MeasuredRun], model: CalibrationPart) -> "MeasuredRuns | DatedRuns":
    """Runs as arrays of their kind: all under software of a date, or none.

    Parameters
    ----------
    runs
        What was measured.
    model
        Numbers of the iteration model.

    Returns
    -------
    MeasuredRuns or DatedRuns
        The same, in their order.

    Raises
    ------
    InputError
        If some have a date and some have none, or a rate is missing.
    """
    dated = [run for run in runs if run.recipe is not None]
    if not dated:
        return MeasuredRuns.of(runs, model)
    if len(dated) < len(runs):
        without = next(run for run in runs if run.recipe is None)
        raise InputError(
            f"{without.source}: {without.name} has no software_date, and {dated[0].name} has one:"
            " give one of each row, or none, and fit the others apart"
        )
    return DatedRuns.of(runs, model)


class DatedRuns(RunArrays, frozen=True, eq=False):
    """Measured runs under software of a date, every array of shape (runs,)."""

    part: Part
    groups: ExpertGroups
    again: dict[str, Floats]  # share of the layers, by word
    copies: Floats  # GPUs that hold the same experts
    doublings: Floats  # of the GPUs, above the smallest job

    @classmethod
    def of(cls, runs: Sequence[MeasuredRun], model: CalibrationPart) -> "DatedRuns":
        """Bring runs into arrays.

        Parameters
        ----------
        runs
            Each with a recipe of its software.
        model
            Numbers of the iteration model.

        Returns
        -------
        DatedRuns
            The same, in their order.

        Raises
        ------
        InputError
            If accelerator or stack of a run have no rates under software of a date.
        """
        columns = cls.columns(runs, model)
        degrees = columns["degrees"]
        gpus = degrees[:4].prod(axis=0)
        sparse = np.array([run.model.experts is not None for run in runs])
        copies = np.maximum(1.0, gpus / degrees[3] / (degrees[7] * degrees[8]))
        words = dict.fromkeys(word for run in runs for word in run.redone)
        return cls(
            part=Part.stacked([_part(run) for run in runs]),
            groups=ExpertGroups.stacked([_groups(run) for run in runs]),
            again={word: np.array([run.redone.get(word, 0.0) for run in runs]) for word in words},
            copies=np.where(sparse, copies, 1.0),
            doublings=np.log2(np.maximum(gpus / SMALLEST_JOB, 1.0)),
            **columns,
        )

    def seconds(self, changed: Quantities = NOTHING_ELSE) -> Floats:
        """Iteration times, with other values of some quantities than the files have [s]."""
        values = {**self.quantities, **changed}
        on, sharing = record_of(DatedReach, values), record_of(Sharing, values)
        network, (tensor, context, data) = values["network"], self.degrees[:3]
        ring_s = (context - 1) * self.links.hop(tensor * context, network)
        sent = BlockCollectives(
            tensor_s=sharing.tensor_share * self.tensor_s(network),
            ring_s_per_element=2 * ELEMENT_BYTES * ring_s,
            exchange_s=dispatch_s(self.part, self.groups, record_of(ExchangeShares, values)),
            contention=sharing.contention,
        )
        layer = DatedLayer.of(self.part, on, sent, values["half"]).redoing(self.again)
        members, step = context * data, self.degrees[7] * self.degrees[8]
        ring_shares = (
            self.links.ring_share(members, tensor, network),
            self.links.ring_share(self.copies, step, network),
        )
        exchange = DatedExchange(layer, *ring_shares, members, self.copies, self.zero_stage)
        growth = values["software"] * (1 + values["jitter"] * self.doublings)
        total = self.iteration_s(layer.passes, exchange, sharing, on, network)
        return np.asarray(growth * total)


def _part(run: MeasuredRun) -> Part:
    cut = run.degrees
    sharding = Sharding.of(
        cut.microbatch,
        tensor=cut.tensor,
        context=cut.context,
        experts_over=cut.expert,
        expert_tensor=cut.expert_tensor,
    )
    return Part.of(
        run.model, sharding, sequence_parallel=run.sequence_parallel, imbalance=run.imbalance
    )


def _groups(run: MeasuredRun) -> ExpertGroups:
    """GPUs that exchange tokens: none where experts are gathered."""
    cut, recipe = run.degrees, run.recipe
    group = cut.expert * cut.expert_tensor
    merged = recipe is not None and bool(recipe.merges(np.array(group), run.hb_size))
    return ExpertGroups(
        over=float(cut.expert),
        domains=float(-(-group // run.hb_size)),
        domain=float(run.hb_size),
        network_s_per_byte=1 / run.network_bytes_per_s if run.network_bytes_per_s else 0.0,
        hb_s_per_byte=1 / run.accelerator.hb_bytes_per_s,
        merged=float(merged),
        exchanges=float(recipe is not None and recipe.exchanges),
        forwards=0.0,
        overlap_share=1.0,
    )
