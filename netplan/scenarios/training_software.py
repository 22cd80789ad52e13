"""The part of a training workload that says of when its software is, and what it does."""

from typing import Annotated

from msgspec import Meta

from netplan.inputs.choices import Dispatcher, Graphs
from netplan.inputs.option import Option
from netplan.inputs.readers import FIRST_MONTH, LAST_MONTH, NEWEST_SCORED, software_month
from netplan.scenarios.described import Described, Typed, read_with

BY_DATE = "by --software-date"
"""What holds of software where nothing is asked for."""


class Software(Described, frozen=True, kw_only=True):
    """Of when training software is, and what it does that others of that date do not."""

    software_date: Annotated[
        str | None,
        Option(
            f"Month of that software, from {FIRST_MONTH} to {LAST_MONTH}, or none.",
            metavar="YYYY-MM",
            otherwise=f"{NEWEST_SCORED} under calibrated",
        ),
    ] = None
    dispatcher: Annotated[
        Dispatcher | None,
        Typed(
            "What brings tokens to their experts, under calibrated; fsdp gathers experts.",
            otherwise=BY_DATE,
        ),
    ] = None
    expert_overlap: Annotated[
        bool | None,
        Typed(
            "Tokens are sent to experts beside products, under calibrated.",
            flag="--expert-overlap/--no-expert-overlap",
            otherwise=BY_DATE,
        ),
    ] = None
    overlap_share: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        Typed(
            "Share of what rail-only forwards of tokens inside HB domains that hides.",
            metavar="SHARE",
            low=0,
            high=1,
            otherwise="1 by deepep and hybridep, else 0",
            quiet=True,
        ),
    ] = None
    graphs: Annotated[
        Graphs | None,
        Typed(
            "Launched as graphs, under calibrated: nothing, routers, attention and routers, mixers"
            " (attention, Mamba), or all.",
            otherwise=BY_DATE,
        ),
    ] = None
    fused_experts: Annotated[
        bool | None,
        Typed(
            "Products of experts do activations and casts, under calibrated.",
            flag="--fused-experts/--no-fused-experts",
            otherwise=BY_DATE,
        ),
    ] = None
    hybrid_stages: Annotated[
        bool,
        Typed(
            "Pipelines of models with Mamba, too, of which no run was scored, under calibrated.",
            flag="--force",
        ),
    ] = False

    def __post_init__(self) -> None:
        """Refuse what is no month."""
        if isinstance(self.software_date, str):
            read_with(software_month, self.software_date)
