"""A request for quotation: the lines of one bill that suppliers are asked for, and no prices.

A line has an id made from its place (``L2-01`` is the first line of lot 2), and the request a
*fingerprint*: what was asked, as a hash. A reader of filled-in requests so knows its lines again,
and sees what was changed.
"""

import hashlib
import json
from collections.abc import Collection, Sequence

from msgspec import Struct

from netplan.costing.materials import BillItem, Category
from netplan.reports.escape import plain

LOTS: dict[Category, str] = {
    "switches": "Switches",
    "circuits": "Optical circuit switches",
    "transceivers": "Transceivers",
    "cables": "Cables",
    "cards": "Network cards",
    "racks": "Racks",
    "hb-gear": "Gear inside HB domains",
    "memory": "Expanded memory",
    "accelerators": "Accelerators",
}
"""Lots by category of the bill: each is what one kind of supplier has."""

UNASKED: tuple[Category, ...] = ("hb-gear",)
"""Lots that come with the servers: asked for by name alone."""

MAX_TEXT = 1000
BETWEEN = "; "
"""Between accepted equals in one cell."""


class RequestLine(Struct, frozen=True):
    """One line of a request.

    Parameters
    ----------
    id
        Such as ``L2-01``.
    lot
        Group of lines that a supplier may take whole.
    part_number, accepted
        Order number that is asked for, empty where there is none, and equals that will do.
    description, unit
        What it is, and what one of it is.
    quantity, spares
        Units for the build, and beyond it [1].
    """

    id: str
    lot: str
    part_number: str
    accepted: tuple[str, ...]
    description: str
    unit: str
    quantity: int
    spares: int

    @property
    def order(self) -> int:
        """Units to order [1]."""
        return self.quantity + self.spares

    @property
    def title(self) -> str:
        """What it is, in short."""
        return self.description.partition(BETWEEN)[0]

    def takes(self, part_number: str, also: Sequence[str] = ()) -> bool:
        """Whether a part of this number will do, or one of some others; any where none is asked.

        Examples
        --------
        >>> line = RequestLine("L1-01", "Switches", "MQM9700-NS2F", ("MQM9790-NS2F",), "", "", 4, 0)
        >>> line.takes("mqm9790-ns2f"), line.takes(""), line.takes("SN5600")
        (True, True, False)
        >>> line.takes("SN5600", also=["SN 5600"])
        True
        """
        wanted = {_same_number(one) for one in (self.part_number, *self.accepted) if one}
        if not wanted or not part_number:
            return True
        return _same_number(part_number) in wanted.union(map(_same_number, also))


def _same_number(part_number: str) -> str:
    """An order number as it is compared: small letters, no spaces."""
    return "".join(part_number.split()).casefold()


def _said(text: str) -> str:
    """A text as one cell holds it: in one line, without control signs, cut to a length."""
    return plain(" ".join(text.split()))[:MAX_TEXT].strip()


class Request(Struct, frozen=True):
    """What suppliers are asked for."""

    title: str
    lines: tuple[RequestLine, ...]

    @property
    def lots(self) -> tuple[str, ...]:
        """Its lots, in their order."""
        return tuple(dict.fromkeys(line.lot for line in self.lines))

    @property
    def fingerprint(self) -> str:
        """A hash of what is asked; sixteen hexadecimal digits."""
        asked = [[*_cells(line)] for line in self.lines]
        text = json.dumps([self.title, asked], ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]


def _cells(line: RequestLine) -> tuple[str | int, ...]:
    return (
        *(line.id, line.lot, line.part_number, BETWEEN.join(line.accepted)),
        *(line.description, line.unit, line.quantity, line.spares),
    )


def request_of(title: str, lines: Sequence[BillItem], lots: Collection[Category]) -> Request:
    """The request for the lines of a bill that belong to some lots.

    Examples
    --------
    >>> switch = BillItem("switches", "Switch", "32 cages", 48, "each", "switch_port", 400.0,
    ...                   spares=1)
    >>> rack = BillItem("racks", "Rack", "", 2, "each", "rack", 400.0)
    >>> [(one.id, one.lot, one.order) for one in request_of("A pod", [rack, switch], LOTS).lines]
    [('L1-01', 'Racks', 2), ('L2-01', 'Switches', 49)]
    """
    numbers: dict[Category, list[RequestLine]] = {}
    for line in lines:
        if line.category in lots and line.order:
            found = numbers.setdefault(line.category, [])
            lot = list(numbers).index(line.category) + 1
            words = BETWEEN.join(one for one in (line.title, line.specification) if one)
            equals = (_said(one) for one in line.accepted)
            found.append(
                RequestLine(
                    id=f"L{lot}-{len(found) + 1:02d}",
                    lot=LOTS[line.category],
                    part_number=_said(line.part_number),
                    accepted=tuple(one for one in equals if one),
                    description=_said(words),
                    unit=_said(line.unit),
                    quantity=line.quantity,
                    spares=line.spares,
                )
            )
    return Request(_said(title), tuple(line for found in numbers.values() for line in found))
