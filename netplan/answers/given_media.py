"""Fabrics whose file gives the medium of their links: a sign, and a sentence."""

from collections.abc import Iterable, Iterator

from netplan.costing.fabric_bill import Bill

GIVEN = "medium given by the file: not in the verdict until a hall confirms it"


def given_mark(bill: Bill | None) -> tuple[str, str]:
    """The sign of a fabric whose file gives the medium of its links."""
    return "", (" †" if bill is not None and bill.media_given else "")


def given_words(bills: Iterable[Bill]) -> Iterator[str]:
    """A sentence on each fabric whose file gives the medium of its links."""
    for bill in bills:
        if bill.media_given:
            yield f"{bill.name} is aside, {GIVEN} ({bill.media_given})."
