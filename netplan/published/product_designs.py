"""Products of 2026 and what is announced after them: counts and rates of whole racks and pods.

``reports/published/product-designs.csv`` holds a row a number that a maker or a paper prints: the
accelerator, the fabric and their size, which quantity of them is meant, the source, its date, and
whether the product ships. Totals of a rack are those of netplan's own files: GPUs of an HB domain,
rates and memory of one GPU, switches and links of the built fabric. A row without a quantity names
the structure that netplan lacks.

Published totals of what a network costs for one GPU, against netplan's bills.

``reports/published/cost-sheets.csv`` has the switches and optics for one H100 of a public sheet of
August 2024, by the size of the cluster. Its switches are those of eight rails, of boxes of 64 ports
of 400 Gb/s; from its totals follow 1,102 USD for a link of a server and 802 USD for one between
switches, if a switch is the 50,000 USD that it names. Fibre, cards, racks and installation are not
among the totals, and are left out here, too.
"""

import json
from collections.abc import Iterator
from functools import cached_property, lru_cache

import numpy as np

from netplan.costing.switches import SWITCHES, SwitchModel
from netplan.inputs.choices import AS_PUBLISHED
from netplan.published.checks import Check, Measured, check, formula_value, published, suite
from netplan.questions.cost import cost
from netplan.records import Entry
from netplan.scenarios.reading import CatalogReader, in_planes, sizing_on
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import domain_link_count, expand
from netplan.topologies.fabric import Fabric
from netplan.topologies.graph import HB_SWITCH
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.workloads.accelerators import ACCELERATORS, Accelerator

TABLE = "product-designs"


class PrintedProduct(Entry, frozen=True, kw_only=True, dict=True):
    """A rack, a pod or a cluster of one accelerator, and the quantities that are printed of it.

    Without ``gpus`` it is one HB domain. ``link_gb_per_s`` is the rate of one link inside it, which
    is published apart; ``cables_per_link`` are the pairs of wires that a table counts; ``switch``
    names a model. A quantity of the table is a formula of properties and of paths to fields.
    """

    accelerator: str = "b200-1000w"
    fabric: str = "rail-optimized"
    gpus: int = 0
    radix: int = 64
    nic_gbps: float = 0.0
    link_gb_per_s: float = 0.0
    cables_per_link: int = 1
    switch: str = ""

    @cached_property
    def reader(self) -> CatalogReader:
        """The shipped catalogs, with cards of the rate that is asked for."""
        rate = {"accelerator.network_bytes_per_s": f"{self.nic_gbps / 8 * 1e9}"}
        return CatalogReader(overrides=rate if self.nic_gbps else {})

    @cached_property
    def chip(self) -> Accelerator:
        """Its accelerator."""
        return self.reader.load(ACCELERATORS, self.accelerator)

    @cached_property
    def spec(self) -> FabricSpec:
        """Its fabric, with a plane for each network card of the accelerator, read first."""
        return in_planes(self.reader.load(FABRICS, self.fabric), self.chip.network_cards)

    @cached_property
    def built(self) -> Fabric:
        """The fabric's counts."""
        gpus = self.gpus or self.spec.hb_size or self.chip.hb_size
        return build_fabric(self.spec, sizing_on(self.chip, gpus=gpus, radix=self.radix))

    @property
    def model(self) -> SwitchModel:
        """The switch model."""
        return SWITCHES.load(self.switch)

    @property
    def accelerators(self) -> int:
        """Accelerators of the whole [1]."""
        return self.built.sizing.domains * self.built.sizing.hb_size

    @property
    def hb_cables(self) -> int:
        """Cables inside HB domains [1]."""
        return self.cables_per_link * domain_link_count(self.spec, self.built.sizing)

    @property
    def longest_path(self) -> int:
        """Most switches between two accelerators of a Clos network [1]."""
        return 2 * len(self.built.tiers) - 1

    @property
    def uplink_share(self) -> float:
        """What of a leaf's uplinks is lost with one of them [1]."""
        return self.built.tiers[0].switches / self.built.links[1].links

    @cached_property
    def hb(self) -> dict[str, int]:
        """Links of accelerators in HB domains, switches at their ends, and those above, by graph.

        Returns
        -------
        dict of str to int
            ``links``, ``switches`` and ``spines`` [1].
        """
        graph = expand(self.spec, self.built.sizing)
        links = graph.links_of("hb")
        ends = np.sort(np.stack((graph.source[links], graph.target[links])), axis=0)
        lower = ends[0] < graph.gpus
        leaves = len(np.unique(ends[1][lower]))
        switches = int((graph.node_kind == HB_SWITCH).sum())
        return {"links": int(lower.sum()), "switches": leaves, "spines": switches - leaves}


@lru_cache(maxsize=4)
def _product(inputs: str) -> PrintedProduct:
    """The product of a row of the table, from its inputs as JSON."""
    return PrintedProduct.read(json.loads(inputs))


@suite(TABLE)
def product_checks() -> Iterator[Measured | Check]:
    """All printed numbers of all products.

    Examples
    --------
    >>> checks = {check.name: check for check in product_checks()}
    >>> checks["Vera Rubin NVL72: NVLink switch chips"].got
    '36'
    """
    rows = published(TABLE)
    for row in rows:
        if row["quantity"]:
            yield row["name"], formula_value(_product(row["inputs"]), row["quantity"])
    for row in rows:
        if not row["quantity"]:
            name, source, printed = row["name"], row["source"], row["expected"]
            yield check(name, source, printed, "not planned", row["reason"])


SHEETS = "cost-sheets"
SHEET = {"fabrics": ("rail-only",), "switch": "qm9700", "hall": AS_PUBLISHED, "prices": "2026"}
"""What the sheet counts: optics everywhere, in the order of its own boxes."""


@suite(SHEETS)
def cost_sheet_checks() -> Iterator[Measured]:
    """Switches and optics for one GPU, of every size of the sheet."""
    for row in published(SHEETS):
        bill = cost("hgx-h100", gpus=int(row["gpus"]), spares=(), **SHEET).bills[0]
        yield row["name"], bill.cost_of("switches", "transceivers").base / bill.gpus
