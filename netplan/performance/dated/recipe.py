"""Recipes: what training software does with experts, as its presets of a month switch it on.

Names of months are decimal years inside, year + (month - 1) / 12, with two digits as published
tables of runs have them. Dates, dispatchers, graphs and bounds are those of the presets of
Megatron-Bridge (github.com/NVIDIA-NeMo/Megatron-Bridge, tags v0.2.0, v0.3, v0.4 and v0.5). The
presets of other software are not looked at.
"""

import numpy as np
from msgspec import Struct, structs

from netplan.arrays import Bools, Ints
from netplan.inputs.choices import Dispatcher, Graphs
from netplan.workloads.accelerators import Generation

SERVER_GPUS = 8
"""GPUs of a server: up to them, early presets exchange tokens by plain all_to_all; larger domains
are racks [1]."""
FIRST_PRESETS, YEAR_2026, PRESETS_OF_JUNE = 2025.57, 2026.0, 2026.41
"""Dates from which other presets count: August 2025, January 2026, June 2026 [decimal years]."""


def date_of(month: str) -> float:
    """Decimal year of a month, with two digits.

    Examples
    --------
    >>> date_of("2026-06"), date_of("2025-01")
    (2026.42, 2025.0)
    """
    year, number = month.split("-")
    return round(int(year) + (int(number) - 1) / 12, 2)


def month_of(date: float) -> str:
    """Month that a decimal year is in, or nearest to the beginning of.

    Examples
    --------
    >>> month_of(2026.42), month_of(2025.0)
    ('2026-06', '2025-01')
    """
    year, number = divmod(round(date * 12), 12)
    return f"{year}-{number + 1:02}"


class Recipe(Struct, frozen=True):
    """What software does with experts.

    Parameters
    ----------
    date
        Of the software, as a decimal year.
    dispatcher
        Who brings tokens to their experts: ``alltoall``, ``deepep``, ``hybridep``; ``fsdp`` where
        experts are gathered and tokens stay. None: by date, and then by plan.
    expert_overlap
        Whether that is overlapped with products; None: by date.
    graphs
        Which blocks are launched as graphs; None: by date.
    fused_experts
        Whether activations and casts of experts are fused into their products; None: by date.
    from_date
        What was taken from the date: answers have a wider bar then.
    """

    date: float
    dispatcher: Dispatcher | None = None
    expert_overlap: bool | None = None
    graphs: Graphs | None = None
    fused_experts: bool | None = None
    from_date: tuple[str, ...] = ()

    def completed(
        self,
        *,
        generation: Generation,
        rack: bool,
        precision_detail: str,
        gated: bool,
        hybrid: bool,
        sparse: bool,
    ) -> "Recipe":
        """The same with what is not given taken from the date.

        A dispatcher that depends on the plan stays None (`dispatcher_of`). Presets are those of
        experts on GPUs: of dense models and on TPUs nothing is taken from them, so that what is
        not given is off, and TPUs gather experts.

        Parameters
        ----------
        generation
            Of the chip.
        rack
            Whether HB domains are racks: larger than a server.
        precision_detail
            Numbers of products as asked for; mxfp8 is what experts are fused in.
        gated
            Whether experts are gated.
        hybrid
            Whether there are Mamba blocks.
        sparse
            Whether there are experts.

        Returns
        -------
        Recipe
            Only its dispatcher may be None.

        Examples
        --------
        >>> chip = {"generation": "blackwell", "rack": True, "hybrid": False, "sparse": True}
        >>> newest = Recipe(2026.42, graphs="attn")
        >>> newest = newest.completed(precision_detail="mxfp8", gated=True, **chip)
        >>> newest.dispatcher, newest.expert_overlap, newest.graphs, newest.fused_experts
        ('hybridep', True, 'attn', True)
        >>> newest.from_date
        ('dispatcher', 'expert_overlap', 'fused_experts')
        """
        hopper = generation == "hopper"
        dispatcher: Dispatcher | None = None
        overlap, graphs, fused = False, "none", False
        preset = sparse and generation != "tpu"
        if not preset:
            dispatcher = "fsdp" if sparse else None
        elif self.date < FIRST_PRESETS:
            dispatcher = "alltoall"
        elif self.date < PRESETS_OF_JUNE:
            dispatcher = "hybridep" if rack else None
            overlap, graphs = hopper, "attn" if rack or hybrid else "router"
        else:
            fused = precision_detail == "mxfp8" and gated and not hopper
            dispatcher = "hybridep"
            fuses = fused if self.fused_experts is None else self.fused_experts
            overlap, graphs = fuses, "full" if fuses else "attn"
        taken: dict[str, object] = {
            "dispatcher": dispatcher,
            "expert_overlap": overlap,
            "graphs": graphs,
            "fused_experts": fused,
        }
        taken = {name: value for name, value in taken.items() if getattr(self, name) is None}
        return structs.replace(self, **taken, from_date=tuple(taken) if preset else ())

    @property
    def exchanges(self) -> bool:
        """Whether tokens go to their experts; else experts are gathered."""
        return self.dispatcher != "fsdp"

    def merges(self, group: Ints, hb_size: int) -> Bools:
        """Whether a token is sent once to each place, and not once for each of its experts.

        Parameters
        ----------
        group
            GPUs that tokens are exchanged among, expert degree x expert tensor degree; of plans in
            any shape [1].
        hb_size
            GPUs of an HB domain [1].

        Returns
        -------
        Bools
            Of the same shape.

        Examples
        --------
        >>> Recipe(2025.83).merges(np.array([8, 16]), 8).tolist()
        [False, True]
        """
        if self.dispatcher is not None:
            return np.full(np.shape(group), self.dispatcher != "alltoall")
        inside = (self.date >= YEAR_2026) & (group <= hb_size)
        return np.asarray(inside | (group > SERVER_GPUS))

    def dispatcher_of(self, group: int, hb_size: int) -> Dispatcher:
        """Who brings tokens to their experts in one plan.

        Parameters
        ----------
        group
            GPUs that tokens are exchanged among [1].
        hb_size
            GPUs of an HB domain [1].

        Returns
        -------
        Dispatcher
            As given, or by date: on servers, presets of 2025 and those of 2026 differ.

        Examples
        --------
        >>> [Recipe(date).dispatcher_of(8, 8) for date in (2025.83, 2026.0)]
        ['alltoall', 'hybridep']
        >>> [Recipe(date).dispatcher_of(16, 8) for date in (2025.83, 2026.0)]
        ['deepep', 'deepep']
        """
        if self.dispatcher is not None:
            return self.dispatcher
        if self.date >= YEAR_2026 and group <= hb_size:
            return "hybridep"
        return "alltoall" if group <= SERVER_GPUS else "deepep"
