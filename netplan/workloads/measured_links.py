"""Links as collectives measured on them show them: records of `traffic/links`, family measured.

The times of collectives follow from them by the forms of `netplan.traffic.measured`.
"""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from msgspec import Struct

from netplan.arrays import Floats
from netplan.catalog import Catalog, Record
from netplan.documents import Document
from netplan.errors import CatalogError
from netplan.records import Entry, ErrorShare, NonNegativeFloat, PositiveInt, PositiveShare
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.technologies import Link

NETWORK, POOLED = "network", "pooled"
"""Records of the links outside of HB domains, and of those inside that nobody has measured."""


class Protocol(Entry, frozen=True, kw_only=True):
    """One way to send: what it takes to start and for each further member, and what it reaches.

    ``efficiency`` is a share of the link's bandwidth; of pipelined chunks ``ramp_s`` says how long
    the pipeline fills.
    """

    start_s: NonNegativeFloat
    step_s: NonNegativeFloat = 0.0
    efficiency: PositiveShare
    ramp_s: NonNegativeFloat = 0.0


class MeasuredCollective(Entry, frozen=True, kw_only=True):
    """A collective in one level: pipelined ``large`` messages, and ``small`` ones of low latency.

    The small ones are known inside of one level only.
    """

    large: Protocol
    small: Protocol | None = None


class InSwitch(Entry, frozen=True, kw_only=True):
    """Reduction inside the switches of an HB domain, for groups of so many of its members or more.

    The row of the largest ``least_members`` counts. It holds for groups on up to ``most_domains``,
    for any number of them if that is left out; on more of them the ring counts, and times err by
    up to ``beyond_error``. It was fitted on groups of ``fitted_members`` in each domain.
    """

    least_members: PositiveInt
    fitted_members: PositiveInt
    most_domains: PositiveInt | None = None
    beyond_error: ErrorShare | None = None
    start_s: NonNegativeFloat
    efficiency: PositiveShare
    ramp_s: NonNegativeFloat


class LinkError(Entry, frozen=True, kw_only=True):
    """Mean relative error of times of messages of so many bytes or more."""

    least_bytes: NonNegativeFloat
    share: ErrorShare


class MeasuredLink(Record, frozen=True, kw_only=True):
    """What collectives take on links of one kind, as its catalog file describes it.

    It was fitted on groups of up to ``fitted_members``; larger ones err by ``larger_error`` at
    least.

    Examples
    --------
    >>> link = MEASURED_LINKS.load("nvlink-4")
    >>> link.all_gather.large.efficiency, link.error(np.array([1e9, 1e3]))
    (0.849, array([0.088, 0.057]))
    """

    family: Literal["measured"]
    all_gather: MeasuredCollective
    reduce_scatter: MeasuredCollective
    all_reduce: MeasuredCollective
    all_to_all: MeasuredCollective
    in_switch: tuple[InSwitch, ...] = ()
    fitted_members: PositiveInt | None = None
    larger_error: ErrorShare | None = None
    errors: tuple[LinkError, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse rows out of order."""
        for name, least in (
            ("errors", [row.least_bytes for row in self.errors]),
            ("in_switch", [row.least_members for row in self.in_switch]),
        ):
            if sorted(set(least)) != least:
                raise ValueError(f"{name}: rows stand in rising order, each begins once")
        if not self.errors or self.errors[0].least_bytes:
            raise ValueError("errors: the first row begins at 0 bytes: give one")

    def in_switch_of(self, members: int) -> InSwitch | None:
        """The row of a group of so many members of a domain."""
        return next((row for row in self.in_switch[::-1] if row.least_members <= members), None)

    def error(self, message_bytes: Floats) -> Floats:
        """Mean relative error of the time of each message [1]."""
        least, share = zip(*((row.least_bytes, row.share) for row in self.errors), strict=True)
        errors: Floats = np.array(share)[np.searchsorted(least, message_bytes, side="right") - 1]
        return errors


class Links(Struct, frozen=True):
    """Links inside of HB domains, and outside of them."""

    domain: MeasuredLink
    network: MeasuredLink

    @classmethod
    def of(
        cls,
        accelerator: Accelerator,
        load: Callable[[Catalog[MeasuredLink], str], MeasuredLink] | None = None,
    ) -> "Links":
        """Links of an accelerator: those that its file names, else the pooled ones.

        Parameters
        ----------
        accelerator
            Whose links.
        load
            Loads a record from the shelf; from the shipped one if absent.

        Examples
        --------
        >>> from netplan.workloads.accelerators import ACCELERATORS
        >>> Links.of(ACCELERATORS.load("tpu-v4")).domain.name
        'pooled'
        """
        load = load or (lambda shelf, name: shelf.load(name))
        measured = accelerator.measured
        name = measured.collectives if measured and measured.collectives else POOLED
        return cls(load(MEASURED_LINKS, name), load(MEASURED_LINKS, NETWORK))


class MeasuredLinkCatalog(Catalog[MeasuredLink], frozen=True):
    """Measured links, beside which links of other studies stand."""

    def schema_of(self, document: Document) -> type[MeasuredLink]:
        """Type of the record in a file.

        Raises
        ------
        CatalogError
            If it says nothing of collectives.
        """
        if document.data.get("family") != "measured":
            raise CatalogError(
                f"{document.path}:1: no collectives measured on this link: name one of family"
                " measured, such as nvlink-4"
            )
        return self.schema


class AnyLinkCatalog(Catalog[Any], frozen=True):
    """Link files, each of the type that its family says."""

    def schema_of(self, document: Document) -> type[Any]:
        """Type of the record in a file."""
        return MeasuredLink if "family" in document.data else Link


MEASURED_LINKS = MeasuredLinkCatalog("link", "traffic/links", MeasuredLink)
ANY_LINK = AnyLinkCatalog("link", "traffic/links", Record)
