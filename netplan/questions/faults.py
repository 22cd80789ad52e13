"""Failures on fabrics, side by side: what breaks, what it costs, what to keep in spare."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from netplan.catalog import unknown_name
from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.fabric_bill import BillBooks
from netplan.costing.power import POWER_BOOKS
from netplan.costing.prices import PRICE_BOOKS
from netplan.costing.switches import SWITCHES
from netplan.errors import InputError, NetplanError
from netplan.faults.forecast import SPARED_KINDS, CheckpointPolicy, ForecastOptions
from netplan.faults.rates import FAILURE_BOOKS
from netplan.performance.iteration_model import ITERATION_MODELS
from netplan.performance.setting import Training
from netplan.questions.cost import cost
from netplan.questions.fabric_faults import FaultQuestion, Racks, fabric_faults, only
from netplan.questions.faults_answer import FabricFaults, FaultsAnswer
from netplan.questions.inputs import CatalogReader, sizing_on
from netplan.topologies.fabric import Sizing
from netplan.topologies.floor_plan import FLOOR_PLANS
from netplan.topologies.specs import FABRICS
from netplan.workloads.accelerators import ACCELERATORS
from netplan.workloads.models import MODELS

DEFAULT_FABRICS = ("rail-optimized", "rail-only", "dragonfly", "torus-3d")
MINUTES_PER_HOUR = 60.0
CIRCUIT_SWITCH = "palomar"
MAX_DRAWS = 10_000
MAX_YEARS = 1_000_000


def faults(  # noqa: PLR0913 - one keyword an input, as on the command line
    *,
    gpus: int,
    radix: int,
    fail: Sequence[str] = (),
    draws: int = 1,
    hb_size: int | None = None,
    model: str = "gpt-1t",
    accelerator: str = "gh200-96gb",
    batch: int | None = None,
    fabrics: Sequence[str] = (),
    oversubscription: float | None = None,
    iteration_model: str = "ptd-p",
    failures: str = "2026",
    rates: Literal["low", "base", "high"] = "base",
    prices: str = "2026",
    years: int = 1000,
    seed: int = 0,
    checkpoint_write_minutes: float = 1.0,
    checkpoint_interval_minutes: float | None = None,
    restart_minutes: float = 10.0,
    service_level: float = 0.99,
    spares: Sequence[str] = (),
    spare_domains: int = 0,
    floor_plan: str | None = None,
    gpus_per_rack: int | None = None,
    switches_per_rack: int = 16,
    optics_batch: float | None = None,
    groups: str | Path | None = None,
    timing: bool = True,
    catalog: str | Path | None = None,
    overrides: Mapping[str, str] | None = None,
) -> FaultsAnswer:
    """Put fabrics under failures: single ones, those asked for, and years of them.

    Parameters
    ----------
    gpus, radix, hb_size, model, accelerator, batch, fabrics, oversubscription, iteration_model
        As in :func:`netplan.compare`.
    fail
        Parts that fail together: by name (``rail-0/leaf-3``), by number (``links=10``), by share
        (``gpu=0.1%``), or from a file (``@faults.txt``).
    draws
        How often the random ones are drawn [1].
    failures, rates
        Book of failure rates, and which end of its ranges counts.
    prices
        Price book, for recoveries and the price of an hour.
    years, seed
        Years to simulate [1], and the seed of all draws.
    checkpoint_write_minutes, checkpoint_interval_minutes, restart_minutes
        How the job saves its work; the best interval if absent [min].
    service_level
        Share of the time in which no part may lack a spare, above 0 and below 1 [1].
    spares
        Spares that are kept, such as ``switch=2``: the simulation waits for deliveries beyond
        them, and they must reach the service level.
    spare_domains
        Idle HB domains beside the job's [1].
    floor_plan, gpus_per_rack, switches_per_rack
        Where racks stand, or what one holds [1]: needed to fail racks, rows, feeds or trays.
    optics_batch
        Share of all transceivers that come from one batch: then ``batch=1`` can fail [1].
    groups
        File with risk groups of the user's own.
    timing
        Whether to search the best plan on what is left.
    catalog, overrides
        As in :func:`netplan.compare`.

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
    reader = CatalogReader(catalog, overrides)
    on, trained = reader.load(ACCELERATORS, accelerator), reader.load(MODELS, model)
    assumptions = reader.load(ITERATION_MODELS, iteration_model)
    book, priced = reader.load(FAILURE_BOOKS, failures), reader.load(PRICE_BOOKS, prices)
    specs = [reader.load(FABRICS, name) for name in fabrics or DEFAULT_FABRICS]
    hall = reader.load(FLOOR_PLANS, floor_plan) if floor_plan else None
    circuit = reader.load(SWITCHES, CIRCUIT_SWITCH)
    sizing = sizing_on(
        on, gpus=gpus, radix=radix, hb_size=hb_size, oversubscription=oversubscription
    )
    training = Training.on(on, trained, assumptions, batch=batch) if timing else None
    _check(draws, spare_domains, years, seed)
    options = ForecastOptions(
        CheckpointPolicy(
            write_h=checkpoint_write_minutes / MINUTES_PER_HOUR,
            restart_h=restart_minutes / MINUTES_PER_HOUR,
            interval_h=None
            if checkpoint_interval_minutes is None
            else checkpoint_interval_minutes / MINUTES_PER_HOUR,
        ),
        level=service_level,
        years=years,
        seed=seed,
        end=rates,
        spares=_spares(spares),
        idle_domains=spare_domains,
    )
    inputs = {
        "gpus": gpus,
        "radix": radix,
        "hb_size": sizing.hb_size,
        "fail": list(fail),
        "draws": draws,
        "model": model if timing else None,
        "accelerator": accelerator,
        "batch": training.batch if training else None,
        "fabrics": [spec.name for spec in specs],
        "oversubscription": oversubscription,
        "iteration_model": iteration_model,
        "failures": failures,
        "rates": rates,
        "prices": prices,
        "years": years,
        "seed": seed,
        "checkpoint_write_minutes": checkpoint_write_minutes,
        "checkpoint_interval_minutes": checkpoint_interval_minutes,
        "restart_minutes": restart_minutes,
        "service_level": service_level,
        "spares": list(spares),
        "spare_domains": spare_domains,
        "floor_plan": floor_plan,
        "gpus_per_rack": gpus_per_rack,
        "switches_per_rack": switches_per_rack if gpus_per_rack else None,
        "optics_batch": optics_batch,
        "groups": str(groups) if groups else None,
        "link_gbps": sizing.speed_gbps,
        "set": reader.replaced(),
    }
    given = dict(zip((spec.name for spec in specs), fabrics or DEFAULT_FABRICS, strict=True))
    question = FaultQuestion(
        sizing=sizing,
        training=training,
        spare_domains=spare_domains,
        racks=Racks(
            hall,
            gpus_per_rack,
            switches_per_rack,
            Path(groups) if groups else None,
            optics_batch,
            seed,
        ),
        fail=tuple(fail),
        draws=draws,
        options=options,
        book=book,
        books=BillBooks(
            priced, reader.load(POWER_BOOKS, "2026"), reader.load(CABLING_BOOKS, "2026")
        ),
        circuit=circuit,
        yearly=_yearly_costs(given, sizing, accelerator, prices, catalog, overrides or {}),
        given=given,
        overrides=overrides or {},
        run={
            "gpus": gpus,
            "radix": radix,
            "hb_size": hb_size,
            "model": model,
            "accelerator": accelerator,
            "batch": batch,
            "iteration_model": iteration_model,
            "oversubscription": oversubscription,
            "catalog": catalog,
        },
    )
    rows = [fabric_faults(spec, question) for spec in specs]
    found = tuple(row for row in rows if isinstance(row, FabricFaults))
    refused = tuple(row for row in rows if isinstance(row, tuple))
    if not found:
        raise InputError(f"{refused[0][0]}: {refused[0][1]}")
    if fail and all(isinstance(row.scenario, str) for row in found):
        raise InputError(f"--fail: {found[0].scenario}")
    return FaultsAnswer(inputs, priced.currency, found, refused)


COST_ROLES = frozenset({"accelerator", "prices", "fabric"})
"""Roles of the files that a bill reads, of those of a question about failures."""


def _yearly_costs(
    given: Mapping[str, str],
    sizing: Sizing,
    accelerator: str,
    prices: str,
    catalog: str | Path | None,
    overrides: Mapping[str, str],
) -> dict[str, float]:
    """Annuity and energy of each network that has a bill [currency a year]."""
    found: dict[str, float] = {}
    for name, fabric in given.items():
        try:
            answer = cost(
                gpus=sizing.gpus,
                radix=sizing.radix,
                hb_size=sizing.hb_size,
                oversubscription=sizing.oversubscription,
                accelerator=accelerator,
                fabrics=(fabric,),
                prices=prices,
                catalog=catalog,
                overrides=only(overrides, COST_ROLES, name),
            )
        except NetplanError:
            continue  # its price is not the question here
        found |= {bill.name: bill.life.per_year.base for bill in answer.bills}
    return found


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


def _check(draws: int, spare_domains: int, years: int, seed: int) -> None:
    if years > MAX_YEARS:
        raise InputError(f"--years {years:,} is out of range: give 1 to {MAX_YEARS:,}")
    if seed < 0:
        raise InputError(f"--seed {seed}: give 0 or more")
    if not 1 <= draws <= MAX_DRAWS:
        raise InputError(f"--draws {draws:,} is out of range: give 1 to {MAX_DRAWS:,}")
    if spare_domains < 0:
        raise InputError(f"--spare-domains {spare_domains}: give 0 or more")
