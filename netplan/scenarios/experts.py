"""The part of a workload that says how unevenly tokens choose experts, of training and serving."""

from typing import Annotated

from msgspec import Meta

from netplan.inputs.option import Option
from netplan.scenarios.described import Described, Typed, read_with
from netplan.workloads.expert_load import ExpertPlacement, skew_of


class ExpertRouting(Described, frozen=True, kw_only=True):
    """How unevenly tokens choose experts, and on which GPUs these lie."""

    expert_skew: Annotated[
        str | None,
        Option(
            "Tokens by expert, as gini:0.15, power:1.2 or FILE.csv.",
            metavar="SHARES",
            otherwise="all experts alike",
            quiet=True,
        ),
    ] = None
    expert_placement: Annotated[
        ExpertPlacement | None,
        Typed(
            "Where they lie: in a drawn order, or packed by load as EPLB does.",
            otherwise="shuffled, with --expert-skew",
            quiet=True,
        ),
    ] = None
    redundant_experts: Annotated[
        Annotated[int, Meta(ge=0, le=100_000)],
        Typed("Further copies of the most loaded experts of a layer, by EPLB.", low=0, quiet=True),
    ] = 0

    def __post_init__(self) -> None:
        """Refuse what is no skew."""
        if self.expert_skew is not None:
            read_with(skew_of, self.expert_skew)
