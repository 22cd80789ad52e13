"""Published totals of what a network costs for one GPU, against netplan's bills.

``reports/published/cost-sheets.csv`` has the switches and optics for one H100 of a public sheet of
August 2024, by the size of the cluster. Its switches are those of eight rails, of boxes of 64 ports
of 400 Gb/s; from its totals follow 1,102 USD for a link of a server and 802 USD for one between
switches, if a switch is the 50,000 USD that it names. Fibre, cards, racks and installation are not
among the totals, and are left out here, too.
"""

from collections.abc import Iterator

from netplan.inputs.choices import AS_PUBLISHED
from netplan.published.checks import Measured, published, suite
from netplan.questions.cost import cost

TABLE = "cost-sheets"
SHEET = {"fabrics": ("rail-only",), "switch": "qm9700", "hall": AS_PUBLISHED, "prices": "2026"}
"""What the sheet counts: optics everywhere, in the order of its own boxes."""


@suite(TABLE)
def cost_sheet_checks() -> Iterator[Measured]:
    """Switches and optics for one GPU, of every size of the sheet."""
    for row in published(TABLE):
        bill = cost("hgx-h100", gpus=int(row["gpus"]), spares=(), **SHEET).bills[0]
        yield row["name"], bill.cost_of("switches", "transceivers").base / bill.gpus
