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
from operator import attrgetter

import numpy as np

from netplan.costing.switches import SWITCHES, SwitchModel
from netplan.inputs.choices import AS_PUBLISHED
from netplan.published.checks import Check, Measured, check, published, suite
from netplan.questions.cost import cost
from netplan.records import Entry
from netplan.scenarios.reading import CatalogReader, in_planes, sizing_on
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import domain_link_count, expand
from netplan.topologies.fabric import Fabric
from netplan.topologies.graph import HB_SWITCH
from netplan.topologies.specs import FABRICS, FabricSpec
from netplan.units import gbps
from netplan.workloads.accelerators import ACCELERATORS, Accelerator

TABLE = "product-designs"
BOTH_DIRECTIONS = 2


class Product(Entry, frozen=True, kw_only=True, dict=True):
    """A rack, a pod or a cluster of one accelerator, and the quantities that are printed of it.

    Without ``gpus`` it is one HB domain. ``link_gb_per_s`` is the rate of one link inside it, which
    is published apart; ``cables_per_link`` are the pairs of wires that a table counts; ``switch``
    names a model. A quantity of the table is a property, or the path to a field.
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
    def hb_tb_per_s(self) -> float:
        """Rate into HB domains of all accelerators, both directions [TB/s]."""
        return BOTH_DIRECTIONS * self.accelerators * self.chip.hb_bytes_per_s / 1e12

    @property
    def network_tb_per_s(self) -> float:
        """Rate into the network of all accelerators, both directions [TB/s]."""
        return BOTH_DIRECTIONS * self.built.sizing.gpus * self.built.gpu_bytes_per_s / 1e12

    @property
    def network_gbps(self) -> float:
        """Rate into the network of all accelerators, one direction [Gb/s]."""
        return gbps(self.built.sizing.gpus * self.built.gpu_bytes_per_s)

    @property
    def memory_tb(self) -> float:
        """Memory of all accelerators [TB]."""
        return self.built.sizing.gpus * self.chip.memory_bytes / 1e12

    @property
    def memory_gib(self) -> float:
        """Memory of all accelerators [GiB]."""
        return self.built.sizing.gpus * self.chip.memory_bytes / 2**30

    @property
    def memory_1024_gb(self) -> float:
        """Memory of all accelerators in units of 1,024 GB, which a maker calls TB."""
        return 1000 * self.memory_tb / 1024

    @property
    def memory_tb_per_s(self) -> float:
        """Bandwidth of all memories [TB/s]."""
        return self.built.sizing.gpus * self.chip.memory_bytes_per_s / 1e12

    @property
    def bf16_pflops(self) -> float:
        """Dense rate of all accelerators in bf16 [PFLOP/s]."""
        return self.built.sizing.gpus * self.chip.tensor_flops_per_s / 1e15

    @property
    def fp8_pflops(self) -> float:
        """The same in fp8 [PFLOP/s]."""
        return self.built.sizing.gpus * self.chip.narrow_flops_per_s["fp8"] / 1e15

    @property
    def fp4_pflops(self) -> float:
        """The same in fp4 [PFLOP/s]."""
        return self.built.sizing.gpus * self.chip.narrow_flops_per_s["fp4"] / 1e15

    @property
    def hb_links(self) -> int:
        """Links of accelerators inside HB domains, as the graph has them [1]."""
        return self._hb[0]

    @property
    def hb_switches(self) -> int:
        """Switches of HB domains at which accelerators end [1]."""
        return self._hb[1]

    @property
    def hb_spines(self) -> int:
        """Switches of HB domains above these [1]."""
        return self._hb[2]

    @property
    def hb_cables(self) -> int:
        """Cables inside HB domains [1]."""
        return self.cables_per_link * domain_link_count(self.spec, self.built.sizing)

    @property
    def hb_links_each(self) -> float:
        """Links of an accelerator inside its HB domain, by their rate [1]."""
        return self.chip.hb_bytes_per_s / (1e9 * self.link_gb_per_s)

    @property
    def hb_gb_per_s(self) -> float:
        """Rate of an accelerator inside its HB domain, one direction [GB/s]."""
        return self.built.sizing.hb_bytes_per_s / 1e9

    @property
    def longest_path(self) -> int:
        """Most switches between two accelerators of a Clos network [1]."""
        return 2 * len(self.built.tiers) - 1

    @property
    def port_share(self) -> float:
        """What of an accelerator's rate is lost with one of its ports [1]."""
        return 1 / self.built.ports_per_gpu

    @property
    def uplink_share(self) -> float:
        """What of a leaf's uplinks is lost with one of them [1]."""
        return self.built.tiers[0].switches / self.built.links[1].links

    @cached_property
    def _hb(self) -> tuple[int, int, int]:
        """Links and switches of HB domains as the expanded graph has them."""
        graph = expand(self.spec, self.built.sizing)
        links = graph.links_of("hb")
        ends = np.sort(np.stack((graph.source[links], graph.target[links])), axis=0)
        lower = ends[0] < graph.gpus
        leaves = len(np.unique(ends[1][lower]))
        switches = int((graph.node_kind == HB_SWITCH).sum())
        return int(lower.sum()), leaves, switches - leaves


@lru_cache(maxsize=4)
def _product(inputs: str) -> Product:
    """The product of a row of the table, from its inputs as JSON."""
    return Product.read(json.loads(inputs))


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
            yield row["name"], attrgetter(row["quantity"])(_product(row["inputs"]))
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
