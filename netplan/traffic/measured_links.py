"""Links as collectives measured on them show them: records of `traffic/links`, family measured.

The times of collectives follow from them by the forms of `netplan.traffic.measured`. Networks have
a record for each kind of them (``kinds``), which says whether its start and ramp were measured,
fitted to a few runs, or are assumed.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct

from netplan.arrays import Floats, Ints
from netplan.catalog import Catalog, Record
from netplan.documents import Document
from netplan.errors import CatalogError
from netplan.inputs.choices import NetworkKind
from netplan.records import Entry, ErrorShare, NonNegativeFloat, PositiveInt, PositiveShare
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.technologies import LinkTechnology

POOLED = "pooled"
"""Record of the links inside of HB domains that nobody has measured."""
NETWORKS = ("network", "efa", "tcpxo", "slingshot")
"""Records of the links outside of HB domains, first that of kinds that have none of their own."""
NetworkBasis = Literal["measured", "fitted", "assumed"]
"""What start, ramp and share of a network's links rest on."""


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


class Beyond(Entry, frozen=True, kw_only=True):
    """The ring inside of HB domains of which more work together than switches sum for.

    Its numbers were fitted on ``fitted_domains`` of them. Times lie from ``low`` to ``high`` times
    what is said.
    """

    fitted_domains: PositiveInt
    step_s: NonNegativeFloat
    efficiency: PositiveShare
    low: PositiveShare
    high: Annotated[float, Meta(ge=1)]


class InSwitch(Entry, frozen=True, kw_only=True):
    """Reduction inside the switches of an HB domain, for groups of so many of its members or more.

    The row of the largest ``least_members`` counts. It holds for groups on up to ``most_domains``,
    for any number of them if that is left out; on more of them the ring of ``beyond`` counts. It
    was fitted on groups of ``fitted_members`` in each domain.
    """

    least_members: PositiveInt
    fitted_members: PositiveInt
    most_domains: PositiveInt | None = None
    beyond: Beyond | None = None
    start_s: NonNegativeFloat
    efficiency: PositiveShare
    ramp_s: NonNegativeFloat

    def __post_init__(self) -> None:
        """Refuse numbers beyond a limit that is not given, and a limit without them."""
        if (self.most_domains is None) != (self.beyond is None):
            raise ValueError("in_switch: most_domains and beyond go together: give both or neither")


class TreeExchange(Entry, frozen=True, kw_only=True):
    """An all_reduce in which two HB domains exchange their sums, each card all of its part.

    Libraries pick it where the domains sum up in their switches; on some networks everywhere. Where
    its form was fitted on another network, its times err by ``error`` at least.
    """

    start_s: NonNegativeFloat
    efficiency: PositiveShare
    ramp_s: NonNegativeFloat
    needs_sums: bool = True
    error: ErrorShare | None = None


class LinkError(Entry, frozen=True, kw_only=True):
    """Error of times of messages of so many bytes or more.

    Nine of ten times lie from ``low`` to ``high`` times what is said, and ``share`` is their mean
    relative error, which stands for both where they are left out. Where nobody has measured any,
    times lie between the ``factor``-th part and as many times what is said.
    """

    least_bytes: NonNegativeFloat
    share: ErrorShare | None = None
    low: PositiveShare | None = None
    high: Annotated[float, Meta(ge=1)] | None = None
    factor: Annotated[float, Meta(gt=1)] | None = None

    def __post_init__(self) -> None:
        """Refuse a row of neither, or of both, or with one end."""
        if (self.share is None) == (self.factor is None):
            raise ValueError("errors: a row has a share or a factor: give one of them")
        if (self.low is None) != (self.high is None) or (self.factor and self.low):
            raise ValueError("errors: a row with a share has low and high, or neither: give both")

    @property
    def ends(self) -> tuple[float, float]:
        """Low and high end of a time, as multiples of it [1].

        Examples
        --------
        >>> LinkError(least_bytes=0, share=0.5).ends, LinkError(least_bytes=0, factor=2).ends
        ((0.6666666666666666, 2.0), (0.5, 2))
        >>> LinkError(least_bytes=0, share=0.06, low=0.93, high=1.2).ends
        (0.93, 1.2)
        """
        if self.low is not None and self.high is not None:
            return self.low, self.high
        if self.factor is not None:
            return 1 / self.factor, self.factor
        share = self.share or 0.0
        return 1 / (1 + share), 1 / (1 - share)

    @property
    def mean(self) -> float:
        """Mean relative error; of what nobody has measured that of the longest times [1]."""
        return self.share if self.share is not None else 1 - 1 / self.ends[1]


class KindOfNetwork(Entry, frozen=True, kw_only=True):
    """A kind of network whose links a record describes, and what that rests on."""

    kind: NetworkKind
    basis: NetworkBasis


class FitBasis(Entry, frozen=True, kw_only=True):
    """What a record was fitted on: all_reduces of so many HB domains, of links of one record."""

    domains: PositiveInt
    inside: str


class MeasuredLink(Record, frozen=True, kw_only=True):
    """What collectives take on links of one kind, as its catalog file describes it.

    It was fitted on groups of up to ``fitted_members``; larger ones err by ``larger_error`` at
    least. A record of a network has the ``kinds`` of it, and perhaps a ``tree`` of two domains; one
    that is ``fitted`` to a single place has other errors, ``otherwise``, everywhere else.

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
    kinds: tuple[KindOfNetwork, ...] = ()
    tree: TreeExchange | None = None
    fitted_members: PositiveInt | None = None
    larger_error: ErrorShare | None = None
    fitted: FitBasis | None = None
    errors: tuple[LinkError, ...]
    otherwise: tuple[LinkError, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse rows out of order."""
        for name, least in (
            ("errors", [row.least_bytes for row in self.errors]),
            ("otherwise", [row.least_bytes for row in self.otherwise]),
            ("in_switch", [row.least_members for row in self.in_switch]),
        ):
            if sorted(set(least)) != least:
                raise ValueError(f"{name}: rows stand in rising order, each begins once")
        if not self.errors or any(rows[0].least_bytes for rows in (self.errors, self.elsewhere)):
            raise ValueError("errors: the first row begins at 0 bytes: give one")

    def in_switch_of(self, members: int) -> InSwitch | None:
        """The row of a group of so many members of a domain."""
        return next((row for row in self.in_switch[::-1] if row.least_members <= members), None)

    @property
    def elsewhere(self) -> tuple[LinkError, ...]:
        """Errors where it was not fitted; those of where it was, if it has no others."""
        return self.otherwise or self.errors

    def _row_of(self, message_bytes: Floats, rows: tuple[LinkError, ...]) -> Ints:
        """Row of the errors of each message."""
        least = [row.least_bytes for row in rows]
        return np.searchsorted(least, message_bytes, side="right") - 1

    def ends(self, message_bytes: Floats, *, elsewhere: bool = False) -> tuple[Floats, Floats]:
        """Low and high end of the time of each message, as multiples of it.

        Parameters
        ----------
        message_bytes
            Messages, shape (messages,) [B].
        elsewhere
            Whether they are sent where the record was not fitted.

        Returns
        -------
        tuple[Floats, Floats]
            Low and high ends, shape (messages,) each [1].
        """
        rows = self.elsewhere if elsewhere else self.errors
        low, high = np.array([row.ends for row in rows])[self._row_of(message_bytes, rows)].T
        return low, high

    def error(self, message_bytes: Floats) -> Floats:
        """Mean relative error of the time of each message [1]."""
        means: Floats = np.array([row.mean for row in self.errors])
        return means[self._row_of(message_bytes, self.errors)]

    def basis(self, kind: NetworkKind) -> NetworkBasis:
        """What its numbers rest on for one kind of network; assumed of kinds it does not name."""
        return next((known.basis for known in self.kinds if known.kind == kind), "assumed")


class MeasuredLinks(Struct, frozen=True):
    """Links inside of HB domains, and outside of them: a record for each kind, the usual first."""

    domain: MeasuredLink
    networks: tuple[MeasuredLink, ...]

    def network(self, kind: NetworkKind) -> MeasuredLink:
        """Links of one kind of network; the usual ones of a kind that no record names."""
        named = (link for link in self.networks if any(known.kind == kind for known in link.kinds))
        return next(named, self.networks[0])

    @classmethod
    def of(
        cls,
        accelerator: Accelerator,
        load: Callable[[Catalog[MeasuredLink], str], MeasuredLink] | None = None,
    ) -> "MeasuredLinks":
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
        >>> MeasuredLinks.of(ACCELERATORS.load("tpu-v4")).domain.name
        'pooled'
        """
        load = load or (lambda shelf, name: shelf.load(name))
        measured = accelerator.measured
        name = measured.collectives if measured and measured.collectives else POOLED
        networks = tuple(load(MEASURED_LINKS, network) for network in NETWORKS)
        return cls(load(MEASURED_LINKS, name), networks)


def _measured(document: Document) -> type[MeasuredLink]:
    """Measured links alone, beside which links of other studies stand."""
    if document.data.get("family") != "measured":
        raise CatalogError(
            f"{document.path}:1: no collectives measured on this link: name one of family"
            " measured, such as nvlink-4"
        )
    return MeasuredLink


MEASURED_LINKS = Catalog("link", "traffic/links", MeasuredLink, kind_of=_measured)
ANY_LINK = Catalog[Any](
    *("link", "traffic/links", Record),
    kind_of=lambda document: MeasuredLink if "family" in document.data else LinkTechnology,
)
