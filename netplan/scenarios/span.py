"""In which sites a cluster lies: how many, how far apart, and what joins them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from netplan.errors import CatalogError, InputError
from netplan.inputs.choices import LEAST_RATIO, LONGEST_KM, MOST_RATIO, AcrossSites, Layout
from netplan.inputs.option import Option
from netplan.inputs.readers import digits
from netplan.scenarios.described import Described, Typed

if TYPE_CHECKING:
    from netplan.topologies.fabric import Sizing
    from netplan.topologies.sites import Sites


class Span(Described, frozen=True, kw_only=True):
    """Sites that a cluster lies in, and the fibre between them.

    Examples
    --------
    >>> from netplan import Scenario
    >>> span = Span(sites="2", km=1000.0, ratio=4.5)
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
        Annotated[float, Meta(ge=0, le=LONGEST_KM)] | None,
        Typed(
            "Length of the fibre between sites.",
            unit="km",
            low=0,
            high=LONGEST_KM,
            otherwise="1 to 3000",
            quiet=True,
        ),
    ] = None
    ratio: Annotated[
        Annotated[float, Meta(ge=LEAST_RATIO, le=MOST_RATIO)] | None,
        Option(
            "Rate of a site's GPUs over what leaves it, each direction.",
            "quotient",
            metavar="RATIO",
            low=LEAST_RATIO,
            high=MOST_RATIO,
            otherwise="1 to 1024",
            quiet=True,
        ),
    ] = None
    layout: Annotated[Layout, Typed("Which sites have fibre to which.", quiet=True)] = "mesh"
    across: Annotated[
        AcrossSites, Typed("What lies in several sites: replicas, stages, or either.", quiet=True)
    ] = "both"

    @property
    def count(self) -> int | None:
        """Number of sites; None of a file, or where nobody says [1]."""
        text = (self.sites or "").strip()
        return digits(text)

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
