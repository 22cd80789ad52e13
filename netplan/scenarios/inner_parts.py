"""Parts that lie inside others: routing, software and load of a workload, sites, terms of money."""

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from netplan.errors import CatalogError, InputError
from netplan.inputs import choices, readers
from netplan.inputs.option import Option
from netplan.scenarios.described import Described, Typed, read_with
from netplan.workloads.expert_load import ExpertPlacement, skew_of

if TYPE_CHECKING:
    from netplan.topologies.fabric import Sizing
    from netplan.topologies.sites import Sites


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


BY_DATE = "by --software-date"
"""What holds of software where nothing is asked for."""


class Software(Described, frozen=True, kw_only=True):
    """Of when training software is, and what it does that others of that date do not."""

    software_date: Annotated[
        str | None,
        Option(
            f"Month of that software, from {readers.FIRST_MONTH} to {readers.LAST_MONTH}, or none.",
            metavar="YYYY-MM",
            otherwise=f"{readers.NEWEST_SCORED} under calibrated",
        ),
    ] = None
    dispatcher: Annotated[
        choices.Dispatcher | None,
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
            otherwise="1 by deepep and hybridep, else 0",
            quiet=True,
        ),
    ] = None
    graphs: Annotated[
        choices.Graphs | None,
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
            read_with(readers.software_month, self.software_date)


MOST_RATE = 1e9
"""Requests a second that nothing asks for [1/s]."""


class Load(Described, frozen=True, kw_only=True):
    """Requests as they come, and what of their prompts is in a cache.

    Examples
    --------
    >>> Load(rate=5.0).burstiness, Load().rate
    (1.0, None)
    """

    rate: Annotated[
        Annotated[float, Meta(gt=0, le=MOST_RATE)] | None,
        Typed(
            "Requests a second of the whole cluster, in place of requests in flight.",
            unit="1/s",
            low=1e-9,
            high=MOST_RATE,
            quiet=True,
        ),
    ] = None
    burstiness: Annotated[
        Annotated[float, Meta(gt=0, le=1e6)],
        Typed(
            "Shape of the gaps under --rate: 1 is Poisson, less comes in bursts.",
            low=1e-3,
            high=1e6,
            quiet=True,
        ),
    ] = 1.0
    trace: Annotated[
        str | None,
        Option(
            "Requests as they came: a CSV file of arrival_s, prompt and output.", "path", quiet=True
        ),
    ] = None
    prefix_share: Annotated[
        Annotated[float, Meta(ge=0, lt=1)],
        Typed(
            "Share of each prompt that a cache holds already, below 1.",
            metavar="SHARE",
            low=0,
            high=1,
            quiet=True,
        ),
    ] = 0.0
    kv_tiers: Annotated[
        tuple[str, ...],
        Option(
            "Where that share lies: hbm, host, ssd or remote=GB:GBps:HIT, of a GPU (repeatable).",
            flag="--kv-tier",
            many=True,
            metavar="TIER=GB:GBps:HIT",
            quiet=True,
        ),
    ] = ()


class SiteSpan(Described, frozen=True, kw_only=True):
    """Sites that a cluster lies in, and the fibre between them.

    Examples
    --------
    >>> from netplan import Scenario
    >>> span = SiteSpan(sites="2", km=1000.0, ratio=4.5)
    >>> sites = span.dealt(Scenario.load("hgx-h100").replace(gpus=1000).sizing)
    >>> [site.gpus for site in sites.sites], sites.pairs[0].km
    ([504, 496], 1000.0)
    """

    sites: Annotated[
        str | None,
        Option(
            "Sites of the job, or a file of them with km and ratio of each pair.",
            metavar="N|FILE",
            otherwise="one; netplan sites has 2",
            quiet=True,
        ),
    ] = None
    km: Annotated[
        Annotated[float, Meta(ge=0, le=choices.LONGEST_KM)] | None,
        Typed("Length of the fibre between sites.", unit="km", otherwise="1 to 3000", quiet=True),
    ] = None
    ratio: Annotated[
        Annotated[float, Meta(ge=choices.LEAST_RATIO, le=choices.MOST_RATIO)] | None,
        Option(
            "Rate of a site's GPUs over what leaves it, each direction.",
            "quotient",
            metavar="RATIO",
            low=choices.LEAST_RATIO,
            high=choices.MOST_RATIO,
            otherwise="1 to 1024",
            quiet=True,
        ),
    ] = None
    layout: Annotated[choices.Layout, Typed("Which sites have fibre to which.", quiet=True)] = (
        "mesh"
    )
    across: Annotated[
        choices.AcrossSites,
        Typed("What lies in several sites: replicas, stages, or either.", quiet=True),
    ] = "both"

    @property
    def count(self) -> int | None:
        """Number of sites; None of a file, or where nobody says [1]."""
        text = (self.sites or "").strip()
        return readers.digits(text)

    def dealt(self, sizing: "Sizing") -> "Sites":
        """The sites with their GPUs, and the fibre between them.

        Parameters
        ----------
        sizing
            GPUs of all of them, their HB domains, and the rate of their network.

        Returns
        -------
        Sites
            As many as are asked for, of whole HB domains; or those of the file.

        Raises
        ------
        InputError
            If they are too few or too many, or nobody says how far apart they are.
        CatalogError
            If the file is malformed, or has other GPUs.
        """
        from netplan.topologies.sites import Sites, deal_gpus  # noqa: PLC0415 - a scenario loads alone

        gpu_rate = sizing.cards * sizing.network_bytes_per_s
        if self.count is None:
            return _of_file(Path(str(self.sites)), sizing, gpu_rate)
        dealt = deal_gpus(sizing.gpus, self.count, sizing.hb_size)
        if self.km is None or self.ratio is None:
            raise InputError(
                "several sites are planned at one length and one ratio: give --km and --ratio, or"
                " --sites FILE"
            )
        return Sites.laid_out(dealt, self.layout, km=self.km, ratio=self.ratio, gpu_rate=gpu_rate)


def _of_file(path: Path, sizing: "Sizing", gpu_rate: float) -> "Sites":
    """The sites of a file, which have all GPUs in whole HB domains."""
    from netplan.topologies.sites import read_sites  # noqa: PLC0415 - as above

    sites = read_sites(path, gpu_rate)
    total = sum(site.gpus for site in sites.sites)
    if total != sizing.gpus:
        raise InputError(
            f"{path} has {total:,} GPUs, the cluster {sizing.gpus:,}: give --gpus {total}"
        )
    for site in sites.sites:
        if site.gpus % sizing.hb_size:
            raise CatalogError(
                f"{path}: {site.name} has {site.gpus:,} GPUs, no whole HB domains of"
                f" {sizing.hb_size}: give a multiple"
            )
    return sites


class Terms(Described, frozen=True, kw_only=True):
    """Values in place of those of the economics book."""

    years: Annotated[
        Annotated[int, Meta(ge=1, le=100)] | None,
        Option("Years of use.", "whole", otherwise="the economics book's"),
    ] = None
    pue: Annotated[float | None, Typed("Facility over equipment power.", otherwise="the same")] = (
        None
    )
    tariff: Annotated[float | None, Typed("Price of a kWh.", otherwise="the same")] = None
    interest: Annotated[
        float | None, Option("Interest a year, as 7%.", "percent", otherwise="the same")
    ] = None
    cooling: Annotated[
        float | choices.Cooling | None,
        Option(
            "What cools (air, cold-plate, immersion), with its PUE; or its energy over the rest.",
            "percent-or-cooling",
            metavar="KIND|%",
            otherwise="the servers' if they come with one alone; book's share of PUE - 1",
        ),
    ] = None
    maintenance: Annotated[
        float | None,
        Option("Work on site, of the price a year.", "percent", otherwise="the economics book's"),
    ] = None
    support: Annotated[
        float | None,
        Option("Maker's contract, of the price a year.", "percent", otherwise="the same"),
    ] = None
    yearly_spares: Annotated[
        float | None, Option("Parts used up, of the price a year.", "percent", otherwise="the same")
    ] = None
    grid: Annotated[
        str | None, Option("Country whose electricity it is, for carbon.", otherwise="the book's")
    ] = None
    gpu_hour: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        Typed("Price of a GPU hour, for the cost of a run.", low=0, otherwise="economics book's"),
    ] = None

    def __post_init__(self) -> None:
        """Refuse a GPU hour that costs less than nothing, or no number."""
        if self.gpu_hour is not None and not 0 <= self.gpu_hour < inf:
            raise InputError(f"--gpu-hour {self.gpu_hour:g}: give a price of at least 0")
