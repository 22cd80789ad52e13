"""Training runs under software of a date as arrays, by the formulas of `netplan.performance.dated`.

As `netplan.calibration.runs`: two levels, HB domains and the network. Groups of experts are ranks
that follow each other, and so are the GPUs that hold the same ones, as many ranks apart as a group
has. The whole slice of a TPU is one domain.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount, Floats
from netplan.calibration.runs import (
    NOTHING_ELSE,
    Bandwidths,
    MeasuredRun,
    MeasuredRuns,
    Quantities,
    quantities_of,
    record_of,
    stages_of,
    tensor_collective_s,
    transfer_s,
)
from netplan.errors import InputError
from netplan.performance.calibrated import Sharing, Stages
from netplan.performance.calibrated_run import CalibrationPart
from netplan.performance.dated.blocks import Reach, Sent
from netplan.performance.dated.exchange import ExchangeShares, ExpertGroups, exchange_s
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


class DatedRuns(Struct, frozen=True, eq=False):
    """Measured runs under software of a date, every array of shape (runs,)."""

    runs: tuple[MeasuredRun, ...]
    measured_s: Floats
    part: Part
    groups: ExpertGroups
    stages: Stages
    again: dict[str, Floats]  # share of the layers, by word
    degrees: Floats  # shape (9, runs), as in RunDegrees
    copies: Floats  # GPUs that hold the same experts
    links: Bandwidths
    zero_stage: Floats
    doublings: Floats  # of the GPUs, above the smallest job
    model: CalibrationPart
    quantities: dict[str, Floats]

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
        known = [quantities_of(run, model) for run in runs]
        degrees = np.array([run.degrees for run in runs], np.float64).T
        gpus = degrees[:4].prod(axis=0)
        sparse = np.array([run.model.experts is not None for run in runs])
        copies = np.maximum(1.0, gpus / degrees[3] / (degrees[7] * degrees[8]))
        words = dict.fromkeys(word for run in runs for word in run.redone)
        return cls(
            runs=tuple(runs),
            measured_s=np.array([run.seconds for run in runs]),
            part=Part.stacked([_part(run) for run in runs]),
            groups=ExpertGroups.stacked([_groups(run) for run in runs]),
            stages=stages_of(runs, degrees),
            again={word: np.array([run.redone.get(word, 0.0) for run in runs]) for word in words},
            degrees=degrees,
            copies=np.where(sparse, copies, 1.0),
            links=Bandwidths.of(runs, model),
            zero_stage=np.array([run.zero_stage for run in runs], np.float64),
            doublings=np.log2(np.maximum(gpus / SMALLEST_JOB, 1.0)),
            model=model,
            quantities={name: np.array([values[name] for values in known]) for name in known[0]},
        )

    def seconds(self, changed: Quantities = NOTHING_ELSE) -> Floats:
        """Iteration times, with other values of some quantities than the files have [s]."""
        values = {**self.quantities, **changed}
        on, sharing = record_of(Reach, values), record_of(Sharing, values)
        layer = DatedLayer.of(self.part, on, self._sent(values, sharing), values["half"])
        layer = layer.redoing(self.again)
        network = values["network"]
        hop_s = transfer_s(self.part, self.degrees, self.links, self.model, network)
        exchange = self._exchange(layer, network)
        total = self.stages.pipeline_s(layer.passes)
        total = total + self.stages.transfers * hop_s * sharing.pipeline_visible
        total = total + exchange.data_s(self.stages, sharing)
        total = total + exchange.optimizer_s(self.stages, sharing, on)
        growth = values["software"] * (1 + values["jitter"] * self.doublings)
        total_s: Floats = np.asarray(growth * (total + sharing.iteration_s))
        return total_s

    def _sent(self, values: Quantities, sharing: Sharing) -> Sent:
        """What collectives of a block show, each alone."""
        network, (tensor, context) = values["network"], self.degrees[:2]
        one_s = tensor_collective_s(self.part, self.degrees, self.links, self.model, network)
        round_s = (context - 1) * self.links.hop(tensor * context, network)
        return Sent(
            tensor_s=sharing.tensor_share * one_s,
            ring_s_per_element=2 * ELEMENT_BYTES * round_s,
            exchange_s=exchange_s(self.part, self.groups, record_of(ExchangeShares, values)),
            contention=sharing.contention,
        )

    def _exchange(self, layer: DatedLayer, network: Amount) -> DatedExchange:
        tensor, context, data = self.degrees[:3]
        members, step = context * data, self.degrees[7] * self.degrees[8]
        return DatedExchange(
            layer,
            self.links.pace(members, tensor, network),
            self.links.pace(self.copies, step, network),
            members,
            self.copies,
            self.zero_stage,
        )


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
