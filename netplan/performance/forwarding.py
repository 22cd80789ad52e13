"""What rails forward of the tokens of experts, and what that costs.

A network of rails joins GPUs of one rank of their HB domains. Tokens for experts on another rail go
to the GPU of that rail in their own domain first (Wang et al., arXiv:2307.12169, Eq. 21). Whether
that hides behind the network decides what a rail-only network loses, so that the other assumption
is timed, too. Experts inside of one domain, or on one rail, have nothing forwarded.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from netplan.levels import Level
from netplan.performance.ladder import NEAR
from netplan.performance.plan import Plan, PlanTime, SearchResult
from netplan.performance.search import PlanSearch
from netplan.performance.setting import Setting
from netplan.records import replace

ExpertPlacement = Literal["unspread", "domain", "rail", "domains"]
"""GPUs that exchange tokens: none, those of one HB domain, of one rail, of several domains."""

NOT_FORWARDED: dict[ExpertPlacement, str] = {
    "unspread": "no experts are spread",
    "domain": "experts stay inside HB domains",
    "rail": "experts of a rank are on one rail",
}
"""Placements of experts for which nothing is forwarded, in words."""


class Forwarding(Struct, frozen=True):
    """What a plan on rails forwards for its experts, and what rails lose.

    Parameters
    ----------
    placement
        Where the plan on rails places the GPUs that exchange tokens.
    dispatcher
        Who brings tokens to their experts in the plan that forwards, on rails or else where all
        GPUs are joined; empty where the iteration model does not say it.
    overlap_share
        Share of what is forwarded that hides [1].
    asked
        Whether that share was asked for.
    loss
        How much longer the best plan takes on rails than where all GPUs are joined, as
        :func:`rails_loss` has it [1].
    other, other_loss
        What asks for the other assumption, and what rails lose then; empty and None where nothing
        is forwarded.
    """

    json_parts = (
        *("experts_placed=placement", "dispatcher?", "overlap_share", "loss"),
        *("other?", "other_loss"),
    )

    placement: ExpertPlacement
    dispatcher: str
    overlap_share: float
    asked: bool
    loss: float
    other: str = ""
    other_loss: float | None = None

    @property
    def reason(self) -> str:
        """Why rails lose that, and what they lose on the other assumption.

        Examples
        --------
        >>> Forwarding("domains", "hybridep", 1.0, False, 0.0, "--dispatcher alltoall", 0.09).reason
        'forwarding is hidden by hybridep; with --dispatcher alltoall rail-only loses 9.0 %'
        >>> Forwarding("domain", "hybridep", 1.0, False, 0.0).reason
        'experts stay inside HB domains, so that nothing is forwarded'
        >>> Forwarding("domain", "", 0.0, False, 0.02, "--overlap-share 1", 0.0).reason
        'experts stay inside HB domains, since forwarding would take longer; with --overlap-share 1
        rail-only loses 0.0 %'
        """
        if self.placement != "domains":
            why = "so that nothing is forwarded"
            if self.other_loss is not None and self.overlap_share < 1:
                why = "since forwarding would take longer"
            hides = f"{NOT_FORWARDED[self.placement]}, {why}"
        elif self.asked:
            hides = f"{100 * self.overlap_share:.3g} % of what is forwarded for experts hides"
        elif self.overlap_share:
            hides = f"forwarding is hidden by {self.dispatcher}"
        elif self.dispatcher:
            hides = f"{self.dispatcher} forwards inside HB domains before it sends"
        else:
            hides = "tokens are forwarded inside HB domains before they are sent (Eq. 21)"
        if self.other_loss is None:
            return hides
        return f"{hides}; with {self.other} rail-only loses {100 * self.other_loss:.1f} %"

    @property
    def sentence(self) -> str:
        """What rails lose, and why."""
        return f"Rail-only loses {100 * self.loss:.1f} % with these experts: {self.reason}."


def forwarding_of(
    search: PlanSearch, rails: Sequence[Level], joined: Sequence[Level] | None = None
) -> Forwarding | None:
    """What the best plan on rails forwards for its experts, and what rails lose.

    Parameters
    ----------
    search
        The search for plans.
    rails
        Levels of the network of rails.
    joined
        Levels of the network that it is compared with; absent: the same, but that every GPU reaches
        every other.

    Returns
    -------
    Forwarding or None
        None without experts, or where no plan fits.
    """
    setting = search.setting
    if setting.experts is None:
        return None
    if joined is None:
        joined = tuple(replace(level, same_rank=False) for level in rails)
    pair = tuple(rails), tuple(joined)
    best, reference = (_best(search, levels) for levels in pair)
    if best is None or reference is None:
        return None
    placement = _placement(setting, best.plan, rails)
    on_joined = _placement(setting, reference.plan, joined)
    forwarded = reference.plan if placement != "domains" == on_joined else best.plan
    given, dated = search.training.overlap_share, search.training.dated
    dispatcher, share = "", given or 0.0  # who brings tokens to experts, what of it hides
    if dated is not None:
        domain = setting.options.use_per_domain or rails[0].size
        group = forwarded.experts_over * forwarded.expert_tensor
        dispatcher = dated.recipe.dispatcher_of(group, domain)
        share = float(dispatcher != "alltoall") if given is None else given
    loss = rails_loss(best.iteration_time_s, reference.iteration_time_s)
    forwarding = Forwarding(placement, dispatcher, share, given is not None, loss)
    if "domains" not in (placement, on_joined):
        return forwarding
    other, text = _opposite(search, dispatcher, share)
    times = [_best(other, levels) for levels in pair]
    if times[0] is None or times[1] is None:
        return forwarding
    other_loss = rails_loss(times[0].iteration_time_s, times[1].iteration_time_s)
    return replace(forwarding, other=text, other_loss=other_loss)


def rails_loss(rails_s: float, joined_s: float) -> float:
    """How much longer an iteration takes on rails than where all GPUs are joined.

    Rails join fewer GPUs, so that one plan is never faster on them. The search takes any plan that
    is within :data:`netplan.performance.ladder.NEAR` of the fastest, which may make rails seem
    faster by so much: that is no loss. A larger gain stands as it is, below zero.

    Parameters
    ----------
    rails_s, joined_s
        Iteration times of the best plan on rails, and where all GPUs are joined [s].

    Returns
    -------
    float
        Share of the latter that is lost [1].

    Examples
    --------
    >>> [round(rails_loss(time_s, 10.0), 3) for time_s in (10.9, 9.95, 9.5)]
    [0.09, 0.0, -0.05]
    """
    if rails_s <= joined_s <= NEAR * rails_s:
        return 0.0
    return rails_s / joined_s - 1


def _best(search: PlanSearch, levels: tuple[Level, ...]) -> PlanTime | None:
    result = search.best_on_subset(levels)
    return result.best if isinstance(result, SearchResult) else None


def _placement(setting: Setting, plan: Plan, levels: Sequence[Level]) -> ExpertPlacement:
    """Where a plan places the GPUs that exchange tokens."""
    if plan.experts_over == 1 or setting.gathers_experts:
        return "unspread"
    if plan.folded is not None:
        domain = setting.options.use_per_domain or levels[0].size
        return "domain" if plan.experts_over * plan.expert_tensor <= domain else "domains"
    inside = plan.placement.levels[0].expert
    if inside == plan.experts_over:
        return "domain"
    return "rail" if inside == 1 else "domains"


def _opposite(search: PlanSearch, dispatcher: str, share: float) -> tuple[PlanSearch, str]:
    """The search under the opposite assumption on what hides, and what asks for it."""
    training = search.training
    run = training.calibrated
    if training.overlap_share is not None or run is None or run.dated is None:
        other_share = 0.0 if share else 1.0
        changed = replace(training, overlap_share=other_share)
        return replace(search, training=changed), f"--overlap-share {other_share:g}"
    other = "hybridep" if dispatcher == "alltoall" else "alltoall"
    recipe = replace(run.dated.recipe, dispatcher=other)
    run = replace(run, dated=replace(run.dated, recipe=recipe))
    return replace(search, training=replace(training, calibrated=run)), f"--dispatcher {other}"
