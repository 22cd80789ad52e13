"""Failures on fabrics, side by side: what breaks, what it costs, what to keep in spare."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from netplan.catalog import unknown_name
from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.fabric_bill import BillBooks
from netplan.costing.power import POWER_BOOKS
from netplan.costing.prices import PRICE_BOOKS
from netplan.costing.switches import SWITCHES
from netplan.errors import InputError, NetplanError
from netplan.faults.forecast import SPARED_KINDS, CheckpointPolicy, ForecastOptions
from netplan.faults.rates import FAILURE_BOOKS
from netplan.performance.setting import Training
from netplan.questions.cost import cost
from netplan.questions.fabric_faults import FabricQuestion, Racks, fabric_faults
from netplan.questions.faults_answer import FabricFaults, FaultsAnswer
from netplan.questions.inputs import CatalogReader
from netplan.questions.question import ClusterQuestion, asks, default_of, optional, shared
from netplan.questions.training import TrainingQuestion
from netplan.topologies.fabric import Sizing
from netplan.topologies.floor_plan import FLOOR_PLANS
from netplan.topologies.specs import FABRICS
from netplan.workloads.accelerators import ACCELERATORS

DEFAULT_FABRICS = ("rail-optimized", "rail-only", "dragonfly", "torus-3d")
MINUTES_PER_HOUR = 60.0
CIRCUIT_SWITCH = "palomar"
MAX_DRAWS = 10_000
MAX_YEARS = 1_000_000
COST_ROLES = frozenset({"accelerator", "prices", "fabric"})
"""Roles of the files that a bill reads, of those of a question about failures."""


@dataclass(frozen=True, kw_only=True)
class Faults(TrainingQuestion[FaultsAnswer], ClusterQuestion[FaultsAnswer]):
    """Put fabrics under failures: what is cut off, how training goes on, what to keep in spare.

    Parts fail by name (rail-0/leaf-3, gpu-5, gpu-5:1--rail-0/leaf-3:6, domain-7), by number
    (links=10, leaf=2), by share (transceiver=0.1%) or from a file (@faults.txt), all together. A
    file @incidents.yaml has modes with weights, of which each draw takes one.

    Racks, power feeds, rows, cable trays and own groups fail as a whole in the simulated years too,
    where a floor plan, --gpus-per-rack or a file says what belongs to one.

    Raises
    ------
    NetplanError
        If an input is not allowed; the message says what is.

    Examples
    --------
    >>> answer = faults(gpus=1024, radix=64, hb_size=8, fail=["leaf=1"], years=50,
    ...                 model="gpt-22b", batch=1024, fabrics=("rail-only", "rail-optimized"))
    >>> [(one.name, one.scenario.impact.gpus_cut_off) for one in answer.fabrics]
    [('rail-only', 32), ('rail-optimized', 32)]
    """

    command: ClassVar[str] = "faults"
    examples: ClassVar[tuple[str, ...]] = (
        "netplan faults --gpus 32768 --radix 128",
        "netplan faults --gpus 16384 --radix 64 --fabric rail-only --fail leaf=1 --fail links=10",
        "netplan faults --gpus 4096 --radix 64 --gpus-per-rack 32 --fail rack=1 --draws 20",
    )

    fail: Sequence[str] = optional(
        "Fails: rail-0/leaf-3, links=10, gpu=0.1%, @FILE.", many=True, metavar="PART", default=()
    )
    draws: int = optional("Draws of random parts.", "whole", default=1, low=1, high=MAX_DRAWS)
    fabrics: Sequence[str] = optional(
        "Only this fabric (repeatable).", flag="--fabric", many=True, default=()
    )
    failures: str = shared("Book of failure rates.")
    rates: Literal["low", "base", "high"] = optional(
        "Which end of the book's ranges.",
        "choice",
        choices=("low", "base", "high"),
        default="base",
    )
    prices: str = shared("Price book, for recoveries and the price of an hour.")
    years: int = optional("Years to simulate.", "whole", default=1000, low=1, high=MAX_YEARS)
    seed: int = optional("Seed of all draws.", "whole", default=0, low=0, high=2**64)
    checkpoint_write_minutes: float = optional(
        "Minutes to write a checkpoint.", "real", flag="--checkpoint-write", unit="min", default=1.0
    )
    checkpoint_interval_minutes: float | None = optional(
        "Minutes between two.", "real", flag="--checkpoint-interval", unit="min", otherwise="best"
    )
    restart_minutes: float = optional(
        "Minutes from a failure to computing again.",
        "real",
        flag="--restart",
        unit="min",
        default=10.0,
    )
    service_level: float = optional(
        "Share of the time in which no part may lack a spare.", "percent", default=0.99
    )
    spares: Sequence[str] = optional(
        "Spares kept, such as switch=2; the years wait for deliveries beyond them.",
        many=True,
        metavar="PART=N",
        default=(),
    )
    spare_domains: int = optional("Idle HB domains beside the job's.", "whole", default=0, low=0)
    floor_plan: str | None = optional("Hall, to fail racks, rows, feeds and trays.")
    gpus_per_rack: int | None = optional("The same without a hall: racks and feeds.", "whole")
    switches_per_rack: int = optional("Beside the former.", "whole", default=16)
    optics_batch: float | None = optional("Of all modules in a batch, as 5%: batch=1.", "percent")
    groups: str | Path | None = optional("Your own risk groups (.csv or .yaml).", "path")
    timing: bool = optional(
        "Leave the iteration times out.", "flag", flag="--no-timing", default=True
    )

    def ask(self) -> FaultsAnswer:
        """Fail single parts, those asked for, and years of them, fabric by fabric."""
        self._check()
        reader = CatalogReader(self.catalog, self.overrides)
        on = reader.load(ACCELERATORS, self.accelerator)
        trained, assumptions = self.trained(reader)
        book, priced = (
            reader.load(FAILURE_BOOKS, self.failures),
            reader.load(PRICE_BOOKS, self.prices),
        )
        named = tuple(self.fabrics) or DEFAULT_FABRICS
        specs = [reader.load(FABRICS, name) for name in named]
        hall = reader.load(FLOOR_PLANS, self.floor_plan) if self.floor_plan else None
        circuit = reader.load(SWITCHES, CIRCUIT_SWITCH)
        sizing = self.sized(on)
        search = None
        if self.timing:
            search = self.search(Training.on(on, trained, assumptions, batch=self.batch))
        inputs = self.inputs(
            hb_size=sizing.hb_size,
            model=self.model if self.timing else None,
            batch=search.training.batch if search else None,
            fabrics=[spec.name for spec in specs],
            switches_per_rack=self.switches_per_rack if self.gpus_per_rack else None,
            groups=str(self.groups) if self.groups else None,
            link_gbps=sizing.speed_gbps,
            set=reader.replaced(),
        )
        given = dict(zip((spec.name for spec in specs), named, strict=True))
        question = FabricQuestion(
            sizing=sizing,
            search=search,
            spare_domains=self.spare_domains,
            racks=Racks(
                hall,
                self.gpus_per_rack,
                self.switches_per_rack,
                Path(self.groups) if self.groups else None,
                self.optics_batch,
                self.seed,
            ),
            fail=tuple(self.fail),
            draws=self.draws,
            options=self._forecast(),
            book=book,
            books=BillBooks(
                priced,
                reader.load(POWER_BOOKS, str(default_of("cost", "power", self.catalog))),
                reader.load(CABLING_BOOKS, str(default_of("cost", "cabling", self.catalog))),
            ),
            circuit=circuit,
            yearly=self._yearly_costs(given, sizing),
        )
        rows = [fabric_faults(spec, question) for spec in specs]
        found = tuple(row for row in rows if isinstance(row, FabricFaults))
        refused = tuple(row for row in rows if isinstance(row, tuple))
        if not found:
            raise InputError(f"{refused[0][0]}: {refused[0][1]}")
        if self.fail and all(isinstance(row.scenario, str) for row in found):
            raise InputError(f"--fail: {found[0].scenario}")
        return FaultsAnswer(inputs, priced.currency, found, refused)

    def _check(self) -> None:
        """Refuse numbers that are out of range."""
        if self.years > MAX_YEARS:
            raise InputError(f"--years {self.years:,} is out of range: give 1 to {MAX_YEARS:,}")
        if self.seed < 0:
            raise InputError(f"--seed {self.seed}: give 0 or more")
        if not 1 <= self.draws <= MAX_DRAWS:
            raise InputError(f"--draws {self.draws:,} is out of range: give 1 to {MAX_DRAWS:,}")
        if self.switches_per_rack < 1:
            raise InputError(f"--switches-per-rack {self.switches_per_rack}: give 1 or more")
        if self.spare_domains < 0:
            raise InputError(f"--spare-domains {self.spare_domains}: give 0 or more")

    def _forecast(self) -> ForecastOptions:
        """What the years assume."""
        interval = self.checkpoint_interval_minutes
        return ForecastOptions(
            CheckpointPolicy(
                write_h=self.checkpoint_write_minutes / MINUTES_PER_HOUR,
                restart_h=self.restart_minutes / MINUTES_PER_HOUR,
                interval_h=None if interval is None else interval / MINUTES_PER_HOUR,
            ),
            level=self.service_level,
            years=self.years,
            seed=self.seed,
            end=self.rates,
            spares=_spares(self.spares),
            idle_domains=self.spare_domains,
        )

    def _yearly_costs(self, given: Mapping[str, str], sizing: Sizing) -> dict[str, float]:
        """Annuity and energy of each network that has a bill [currency a year]."""
        found: dict[str, float] = {}
        for name, fabric in given.items():
            try:
                answer = cost(
                    gpus=sizing.gpus,
                    radix=sizing.radix,
                    hb_size=sizing.hb_size,
                    oversubscription=sizing.oversubscription,
                    accelerator=self.accelerator,
                    fabrics=(fabric,),
                    prices=self.prices,
                    catalog=self.catalog,
                    overrides={
                        key: text
                        for key, text in (self.overrides or {}).items()
                        if key.partition(".")[0] in COST_ROLES | {name}
                    },
                )
            except NetplanError:
                continue  # its price is not the question here
            found |= {bill.name: bill.life.per_year.base for bill in answer.bills}
        return found


faults = asks(Faults)


def _spares(texts: Sequence[str]) -> dict[str, int]:
    """Read ``switch=2`` texts.

    Raises
    ------
    InputError
        If a text has another form, or the part is none that spares are kept of.
    """
    found = {}
    for text in texts:
        kind, equals, number = text.partition("=")
        if not equals or not number.strip().isdecimal():
            raise InputError(f"--spares {text!r}: write a part and a number, such as switch=2")
        if kind.strip() not in SPARED_KINDS:
            raise unknown_name("kind of spares", kind.strip(), SPARED_KINDS)
        found[kind.strip()] = int(number)
    return found
