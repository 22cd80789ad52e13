"""Failures of the fibre between sites: a run over what is left of it."""

from collections.abc import Sequence

from msgspec import Struct

from netplan.answers.faults_rows import ScenarioImpact
from netplan.costing.long_haul import fibre_pairs_of
from netplan.errors import InfeasibleError, InputError
from netplan.faults.damage.impact import Impact, Single
from netplan.records import replace
from netplan.reports.schema import plain_data
from netplan.scenarios.reading import sized
from netplan.setup.inputs import span_of
from netplan.setup.over_sites import SitePlans, ends_of
from netplan.setup.placed_run import PlacedRun
from netplan.setup.question import AnyQuestion
from netplan.workloads.accelerators import ACCELERATORS

FIBRE, ROUTE = "fibre", "route"
"""Kinds of parts between sites: a fibre pair, and all fibre of two sites."""

NOTE = "long-haul rate of the poorest site"


def parted(asked: AnyQuestion, fail: Sequence[str], sites: Sequence[str]) -> tuple[str, ...]:
    """Failures that are cuts of fibre between sites; none where all are parts of fabrics.

    Parameters
    ----------
    asked
        The question.
    fail
        Failures that are asked for.
    sites
        Names of the sites.

    Returns
    -------
    tuple of str
        All of them, or none.

    Raises
    ------
    InputError
        If some are cuts and others are not.
    """
    cuts = tuple(text for text in fail if ":" in text and {*ends_of(text)} <= {*sites})
    others = [text for text in fail if text not in cuts]
    if cuts and others:
        raise InputError(
            f"--fail {cuts[0]} beside --fail {others[0]}: netplan {asked.command} cuts fibre"
            " between sites or fails parts of a fabric: ask one after the other"
        )
    return cuts


def refuse_cuts(asked: AnyQuestion, fail: Sequence[str]) -> None:
    """Refuse cuts of fibre where the links of one site are asked about.

    Raises
    ------
    InputError
        If a failure is a cut.
    """
    if not fail or (span := span_of(asked)) is None:
        return
    reader = asked.reader()
    sizing = sized(asked.cluster, reader.load(ACCELERATORS, asked.cluster.accelerator))
    if cuts := parted(asked, fail, [site.name for site in span.dealt(sizing).sites]):
        raise InputError(
            f"--fail {cuts[0]} cuts fibre between sites, and netplan {asked.command} has the links"
            f" of a site: ask netplan faults or netplan sites with --fail {cuts[0]}"
        )


class FibreFailures(Struct, frozen=True, kw_only=True):
    """A run over sites on one fabric, whole and with fibre cut.

    Parameters
    ----------
    plans
        Its plans over the sites.
    intact
        The run over the whole fibre.
    """

    plans: SitePlans
    intact: PlacedRun

    @property
    def time_s(self) -> float:
        """An iteration over the whole fibre [s]."""
        return self.intact.timed_there.iteration_time_s

    def impact(self, *cuts: str) -> Impact:
        """What cuts do: a slower run, or a job that stands still.

        Parameters
        ----------
        *cuts
            Fibre that is cut, by the names of both sites.

        Returns
        -------
        Impact
            With the time that ``netplan sites --fail`` has [s].
        """
        whole = min(self.plans.sites.egress_bytes_per_s)
        try:
            run = self.plans.run(cuts=cuts)
        except InfeasibleError:
            return Impact(network_share=0.0, way="stopped", note=NOTE)
        over = run.over
        left = min(over.sites.egress_bytes_per_s) / whole if over else 0.0
        time_s = run.timed_there.iteration_time_s
        return Impact(
            network_share=left,
            iteration_time_s=time_s,
            way="all GPUs",
            slowdown=time_s / self.time_s - 1,
            plan=plain_data(run.timed.plan),
            note=NOTE,
        )

    def singles(self) -> tuple[Single[Impact], ...]:
        """The worst cut of a fibre pair, and of all fibre of two sites."""
        names = [site.name for site in self.plans.sites.sites]
        pairs = {
            f"{names[pair.a]}:{names[pair.b]}": fibre_pairs_of(pair, self.plans.book)
            for pair in self.plans.sites.pairs
        }
        fibres = [(f"{pair}=1", self.impact(f"{pair}=1")) for pair in pairs]
        routes = [(pair, self.impact(pair)) for pair in pairs]
        counts = {FIBRE: sum(pairs.values()), ROUTE: len(pairs)}
        worst = {FIBRE: max(fibres, key=_badness), ROUTE: max(routes, key=_badness)}
        return tuple(Single(kind, *worst[kind][:1], counts[kind], worst[kind][1]) for kind in worst)

    def scenario(self, cuts: Sequence[str]) -> ScenarioImpact:
        """All cuts that were asked for together."""
        impact = self.impact(*cuts)
        return ScenarioImpact(
            text=tuple(cuts),
            draws=1,
            impact=impact,
            mean_iteration_time_s=impact.iteration_time_s,
            mean_slowdown=impact.slowdown,
            mean_worst_bandwidth_share=None,
            stopped=int(impact.way == "stopped"),
        )

    def over(self, impact: Impact) -> Impact:
        """The failure of a part of a fabric, with the time over the sites.

        It slows the run over them by the share by which it slows that in one site.
        """
        if impact.slowdown is None:
            return impact
        return replace(impact, iteration_time_s=(1 + impact.slowdown) * self.time_s)


def fibre_failures(asked: AnyQuestion, fabric: str, roles: frozenset[str]) -> FibreFailures | None:
    """The run of a question over its sites, on one fabric; None in one site, or without a plan.

    Parameters
    ----------
    asked
        The question.
    fabric
        Name of the fabric.
    roles
        Records that no plan is read from.

    Returns
    -------
    FibreFailures or None
        What fails of its fibre.
    """
    if span_of(asked) is None:
        return None
    try:
        plans = SitePlans.of(asked.with_values(fabric=fabric), roles=roles)
    except (InputError, InfeasibleError):
        return None
    return FibreFailures(plans=plans, intact=plans.run())


def _badness(cut: tuple[str, Impact]) -> tuple[bool, float]:
    """Order of cuts: those that stop the job, then the slowest."""
    return cut[1].way == "stopped", cut[1].slowdown or 0.0
