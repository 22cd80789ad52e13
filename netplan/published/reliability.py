"""Checks of failures: published rates and records, closed forms, and the simulation against them.

Sources: Llama 3 (arXiv:2407.21783), Table 5; RSC (arXiv:2410.21680); ATOP/ZCube (SIGCOMM 2025); HPN
(SIGCOMM 2024); Daly (2006); Ironwood (Google Cloud, 2025); ByteRobust (arXiv:2509.16293); the
clusters of ``reports/published/clusters.csv``; the rail-only paper (arXiv:2307.12169), whose words
of faults in section 4.1 are checked as numbers on its main cluster. The seeds are fixed, so that
every run gives the same verdicts.

What is printed of one slow GPU that all others wait for.

Sources of slow GPUs print how often they are met and what jobs lose to them in the mean (Falcon,
arXiv:2410.12588, and Greyhound, USENIX ATC 2025: 1.34 times; ByteDance, arXiv:2505.05713), and not
the plans and rates that a simulation needs: they give no rows. A post has one run of 16 GPUs, of
which the direction can be held.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import numpy as np

from netplan.costing.cabling import CABLING_BOOKS
from netplan.costing.fabric_bill import BillBooks, make_bill
from netplan.costing.prices import POWER_BOOKS, PRICE_BOOKS
from netplan.costing.switches import SWITCHES
from netplan.errors import CatalogError
from netplan.faults.damage.damage import find_effects
from netplan.faults.damage.scenario import parse_faults
from netplan.faults.years import rates, reliability
from netplan.faults.years.checkpoints import CheckpointTimes, daly_interval_h, exact_time_ratio
from netplan.faults.years.clusters import (
    ClusterCount,
    RateSpread,
    interruptions_by_record,
    leave_one_out,
)
from netplan.faults.years.forecast import causes_of
from netplan.faults.years.outages import Cause, Exposure, Mean, Repair, simulate_outages
from netplan.faults.years.recovery_presets import RECOVERY_PRESETS
from netplan.published.checks import Check, Measured, check, claim, published, suite
from netplan.published.rail_only import PAIR
from netplan.questions.simulate import Simulate
from netplan.scenarios.scenario import Scenario
from netplan.topologies.build import build_fabric
from netplan.topologies.expand import expand
from netplan.topologies.fabric import Fabric, Sizing
from netplan.topologies.rail_circuits import CircuitPlan
from netplan.topologies.specs import FABRICS
from netplan.units import DAYS_PER_YEAR, HOURS_PER_DAY

LLAMA = "Llama 3 (arXiv:2407.21783), Table 5"
CLOSED = "Simulation, closed form"

LLAMA_GPUS, LLAMA_DAYS = 16_384, 54
MONTHS_PER_YEAR = 12
NODE_GPUS = 8
SEED = 2026
RUNS, YEARS = 400, 600

LARGEST_FLEET = 10**6
"""Most GPUs that a fleet of unknown size is tried with [1]."""

FROM_ELSEWHERE = {
    "network": "modules of host links as in Meta's study of 2025, their connectors and leaf"
    " switches as in HPN; here both ends of every host link are modules, and a trunk stops no job",
    "racks": "20 rack failures a year among 1,800 servers of 2008",
    "power feeds": "a failure a year among 1,800 servers of 2008",
}
"""Causes whose rates in book 2026 are not made of Llama 3's counts, and where they come from."""


@suite()
def reliability_checks() -> Iterator[Measured | Check]:
    """All checks, by source."""
    # Totals of the table, from its rates as the catalog has them.
    causes = causes_of(_llama(), {"gpu": LLAMA_GPUS})
    a_year = reliability.interruptions_per_year(
        [c.rate_per_year for c in causes], [c.count for c in causes]
    )
    total = a_year * LLAMA_DAYS / DAYS_PER_YEAR
    yield "unexpected interruptions", total
    yield "hours between interruptions", reliability.mtbf_h(a_year)
    yield "per 1000 node-days", 1000 * total / (LLAMA_GPUS / NODE_GPUS * LLAMA_DAYS)
    yield from _llama_shares()
    yield from _llama_by_cause()
    yield from _llama_simulated()
    yield from _clusters()
    yield from _by_default()
    down = rates.FAILURE_BOOKS.load("2026").rate("Leaf switch").down or 0.0
    for switches in (256, 384, 640):
        yield f"no switch of {switches} down, %", 100 * reliability.none_down(down, switches)
    row = rates.FAILURE_BOOKS.load("rsc-1").rate("Node failure")
    for gpus in (16_384, 131_072, 1024):
        hours = reliability.mtbf_h(row.rate_per_year.base * row.count_in({"gpu": gpus}))
        yield f"hours to failure, {gpus:,} GPUs", hours
    for hours in (24.0, 6.0, 0.25):  # Daly, Figures 3 to 5: 5 min to write a checkpoint
        interval_min = 60 * daly_interval_h(5 / 60, hours)
        yield f"best interval, {hours:g} h between failures, min", interval_min
    # Cubes of 64 chips that are up together 95 % of the time.
    yield "usable cubes of 144 at 95 %", reliability.units_up(144, 0.935, 0.95)
    yield _crashes_a_month()
    yield from _simulation()
    yield from _spares()


def _llama() -> rates.FailureBook:
    return rates.FAILURE_BOOKS.load("llama-3-54-days")


def _observed() -> dict[str, rates.Observed]:
    """Printed counts by cause."""
    return {row.cause: row.observed for row in _llama().rates if row.observed is not None}


def _llama_shares() -> Iterator[Measured | Check]:
    """Printed shares against the printed counts."""
    rows = _observed()
    total = sum(row.events for row in rows.values())
    checks = []
    for cause, row in rows.items():
        printed, got = f"{row.printed_percent:.1f}", f"{100 * row.events / total:.1f}"
        why = f"{row.events} of {total} are {got} %, and only with this do the shares sum to 100 %"
        checks.append(check(f"{cause}: share of interruptions, %", LLAMA, printed, got, why))
    agreeing = [share_check for share_check in checks if share_check.verdict == "pass"]
    yield from (share_check for share_check in checks if share_check.verdict != "pass")
    yield "shares that are their counts", f"{len(agreeing)} of {len(rows)}"


def _interruptions(book: rates.FailureBook, gpus: int) -> dict[str, float]:
    """Interruptions of a job by a book on a Clos of switches of 64 ports [1/year]."""
    sizing = Sizing(gpus, 64, NODE_GPUS, hb_bytes_per_s=450e9, network_bytes_per_s=50e9)
    units = rates.unit_counts(build_fabric(FABRICS.load("rail-optimized"), sizing))
    return interruptions_by_record(book.placed(NODE_GPUS), units)


def _llama_by_cause() -> Iterator[Check]:
    """What book 2026 gives for the cluster of the record, cause by cause."""
    interruptions = _interruptions(rates.FAILURE_BOOKS.load("2026"), LLAMA_GPUS)
    seen = interruptions_by_record(_llama(), {"gpu": LLAMA_GPUS})
    for cause, a_year in interruptions.items():
        count = round(seen.get(cause, 0.0) * LLAMA_DAYS / DAYS_PER_YEAR)
        got = a_year * LLAMA_DAYS / DAYS_PER_YEAR
        low, high = rates.poisson_interval(count)
        name = f"{cause}: interruptions by book 2026"
        interval = f"the count has a 95 % interval of {low:.3g} to {high:.3g}"
        why = "the book's rate is made of this count"
        if cause in FROM_ELSEWHERE:
            a_year_seen = count * DAYS_PER_YEAR / LLAMA_DAYS
            seen_too = f"{a_year:.0f} a year against {a_year_seen:.0f}"
            apart = f"{seen_too}, and {interval}: {FROM_ELSEWHERE[cause]}"
            why = interval if low <= got <= high else apart
        same = f"{got:.0f}" == f"{count}"
        yield check(name, LLAMA, f"{count}", f"{got:.3g}", why, same=same, met=low <= got <= high)


def _clusters() -> Iterator[Check]:
    """The failures of every cluster against what the rates of the others predict."""
    rows = published("clusters")
    counts = {
        row["name"]: ClusterCount(
            row["name"],
            int(row["failures"]),
            int(row["accelerators"]) * float(row["days"]) / DAYS_PER_YEAR,
        )
        for row in rows
        if row["accelerators"]
    }
    predictions = {
        prediction.cluster.name: prediction for prediction in leave_one_out([*counts.values()])
    }
    for row in rows:
        name = f"{row['name']}: failures, 90 % by the other clusters"
        if row["name"] not in predictions:
            yield _cluster_of_unknown_size(name, row, [*counts.values()])
            continue
        prediction = predictions[row["name"]]
        got = f"{prediction.low} to {prediction.high}"
        what = f"{prediction.cluster.rate_per_year:.3f} per accelerator and year; {row['what']}"
        why = f"{what}: the other {len(predictions) - 1} have {prediction.others.mean:.3f}"
        expected = row["failures"]
        reason = what if prediction.holds else why
        yield check(name, row["source"], expected, got, reason, met=prediction.holds)


def _cluster_of_unknown_size(name: str, row: dict[str, str], others: list[ClusterCount]) -> Check:
    """Of which sizes a cluster would have as many failures, where nobody says how large it was."""
    spread, failures, days = RateSpread.of(others), int(row["failures"]), float(row["days"])

    def interval(gpus: int) -> tuple[int, int]:
        return spread.count_interval(gpus * days / DAYS_PER_YEAR)

    least = bisect_left(range(LARGEST_FLEET), failures, key=lambda gpus: interval(gpus)[1])
    most = bisect_right(range(LARGEST_FLEET), failures, key=lambda gpus: interval(gpus)[0]) - 1
    got = f"on {least:,} to {most:,} GPUs"
    return check(name, row["source"], row["failures"], got, f"nothing is predicted: {row['what']}")


def default_time(gpus: int, *, failures: str | None = None, recovery: str | None = None) -> float:
    """Share of the time that counts as ``netplan faults`` has it for H100s in servers of 8 [1].

    What is not given is the default of a scenario, which is what a user gets.

    Parameters
    ----------
    gpus
        GPUs of the job [1].
    failures, recovery
        Failure book, and recovery preset.

    Examples
    --------
    >>> round(default_time(16_384, failures="llama-3-54-days"), 3)
    0.908
    """
    usual = Scenario.load("hgx-h100")
    book = rates.FAILURE_BOOKS.load(failures or usual.books.failures)
    preset = RECOVERY_PRESETS.load(recovery or usual.training.checkpoints.recovery)
    between_h = reliability.mtbf_h(sum(_interruptions(book, gpus).values()))
    return exact_time_ratio(preset.policy(gpus).times_at(between_h), between_h)


def _by_default() -> Iterator[Check]:
    """The share of the time that counts, by default and as two fleets had it."""
    for whose, given in (("of book 2026", None), ("of its own", _llama().name)):
        got = 100 * default_time(LLAMA_GPUS, failures=given)
        name = f"effective time by default, {LLAMA_GPUS:,} H100, interruptions {whose}, %"
        # Above 95 % nobody would say more than 90.
        yield claim(name, f"{got:.1f}", met=90 < got < 95)  # noqa: PLR2004
    job = rates.FAILURE_BOOKS.load("byterobust").effective_time
    if job is None:
        raise CatalogError("failures byterobust: it has lost its effective_time")
    got = 100 * default_time(job.gpus, failures="byterobust", recovery="warm-standby")
    yield claim(f"effective time of a job on {job.gpus:,} GPUs, %", f"{got:.1f}")


def _llama_simulated() -> Iterator[Measured | Check]:
    """The record among simulated ones."""
    # A job as Llama 3's could have been; the paper states neither time.
    recovery = RECOVERY_PRESETS.load("llama3").policy(LLAMA_GPUS)
    policy = recovery.times_at(LLAMA_DAYS * HOURS_PER_DAY / 419)
    outages = simulate_outages(
        Exposure(causes_of(_llama(), {"gpu": LLAMA_GPUS})),
        policy,
        years=RUNS,
        rng=np.random.default_rng(SEED),
        hours=LLAMA_DAYS * HOURS_PER_DAY,
    )
    rows = _observed()
    low, high = outages.interruptions_interval()
    total = sum(row.events for row in rows.values())
    met = low <= total <= high
    yield claim("interruptions, 95 % of simulated runs", f"{low:.0f} to {high:.0f}", met=met)
    inside = 0
    for cause, row in rows.items():
        mean = outages.interruptions_of(cause).value / row.unit_years
        inside += row.rate_per_year.low <= mean <= row.rate_per_year.high
    name = "simulated causes in the 95 % interval of their count"
    yield name, f"{inside} of {len(rows)}"
    yield "effective training time, %", 100 * outages.effective_time_ratio.value


def _crashes_a_month() -> Check:
    """One to two crashes a month of one job, from the rates of links and ToR switches.

    A job of 2,048 GPUs with one NIC-ToR link each, 64 to a ToR switch.
    """
    book, gpus, gpus_a_switch = rates.FAILURE_BOOKS.load("2026"), 2048, 64
    module, fibre = book.rate("Optical module"), book.rate("Fibre and connectors")
    # HPN's own modules are the low end.
    of_link = 2 * module.rate_per_year.low + fibre.rate_per_year.base
    link = of_link / MONTHS_PER_YEAR
    switch = book.rate("Leaf switch").rate_per_year.base / MONTHS_PER_YEAR
    of_gpu = link + switch / gpus_a_switch
    got = gpus * of_gpu
    reason = (
        f"for a job of {gpus:,} GPUs on single-homed links; 1 to 2 hold for"
        f" {1 / of_gpu:,.0f} to {2 / of_gpu:,.0f} GPUs. Links make {100 * link / of_gpu:.0f} % of"
        f" them: ToR switches alone would have to be {1 / switch:,.0f} to {2 / switch:,.0f}"
    )
    met = 1 <= got <= 2  # noqa: PLR2004 - as printed
    return claim("crashes a month of one job", f"{got:.2f}", reason, met=met)


def _simulation() -> Iterator[Check]:
    """A job of 4,096 GPUs: simulated means against the exact values."""
    gpus = Cause("GPU slot", 0.17, 4096)
    a_year = gpus.rate_per_year * gpus.count
    for name, job in (
        ("light", CheckpointTimes(0.25, 0.003, 0.1)),
        ("heavy", CheckpointTimes(1.0, 0.1, 0.5)),
    ):
        rng = np.random.default_rng(SEED)
        outages = simulate_outages(Exposure((gpus,)), job, years=YEARS, rng=rng)
        exact = exact_time_ratio(job, reliability.mtbf_h(a_year))
        yield _holds(f"effective time ratio, {name} job", exact, outages.effective_time_ratio)
    yield _holds("interruptions a year", a_year, outages.interruptions_a_year)


def _spares() -> Iterator[Check]:
    """Spares for 100 servers that come back after 300 h: 1.7 are out on average."""
    server = Cause("server", 0.5, 100, lead_h=300.0, pool="servers")
    failures = reliability.outstanding(server.rate_per_year, server.count, server.lead_h)
    cases: tuple[tuple[int, Repair], ...] = ((1, "fixed"), (3, "exponential"))
    for spares, repair in cases:
        outages = simulate_outages(
            Exposure((server,), {"servers": spares}),
            CheckpointTimes(1.0, 0.05, 0.2),
            years=YEARS,
            rng=np.random.default_rng(SEED),
            repair=repair,
        )
        name = f"service level, spares {spares}, {repair} repairs"
        yield _holds(
            name, reliability.service_level(spares, failures), outages.service_level("servers")
        )


def _holds(name: str, exact: float, mean: Mean) -> Check:
    """Whether a simulated mean agrees with a closed form.

    One interval of 95 % in twenty misses by chance; twice its half-width, four standard errors,
    misses once in ten thousand times.
    """
    low, high = mean.value - 2 * mean.half_width, mean.value + 2 * mean.half_width
    got, printed, met = f"{mean.value:.4f}", f"{exact:.4f}", low <= exact <= high
    return check(
        name, CLOSED, printed, str(mean), same=got == printed, met=met, gap=mean.value / exact - 1
    )


RAIL_ONLY_CLUSTER = Sizing(32_768, 128, 256, 450e9, 50e9)
"""The main cluster of the rail-only paper: that of its Table 2 with HB domains of 256."""


@suite()
def fault_checks() -> Iterator[Measured | Check]:
    """All claims of section 4.1 of the rail-only paper, in its order."""
    built = {name: build_fabric(FABRICS.load(name), RAIL_ONLY_CLUSTER) for name in PAIR}
    graphs = {name: expand(FABRICS.load(name), RAIL_ONLY_CLUSTER) for name in PAIR}
    link, leaf = (
        [
            len(find_effects(graph, parse_faults([fault], graph)).cut_off)
            for graph in graphs.values()
        ]
        for fault in ("host=1", "leaf=1")
    )
    hanging = [built[name].tiers[0].switches * cut for name, cut in zip(PAIR, leaf, strict=True)]
    yield "GPUs cut off by one link, Clos and rail-only", "{} and {}".format(*link)
    name = "GPUs that hang at exactly one leaf or rail switch, Clos and rail-only"
    yield name, "{:,} and {:,}".format(*hanging)
    clos, rail = (built[name].switches + built[name].link_count for name in PAIR)
    name = "rail-only has fewer points of failure: switches and links"
    yield claim(name, str(rail < clos), f"{rail:,} against {clos:,}")
    yield from _redundancy(built[PAIR[0]])
    yield from _circuits(built[PAIR[1]])


REDUNDANT = "rail-only-redundant"


def _redundancy(joined: Fabric) -> Iterator[Check]:
    """Extra rail switches: what one that fails takes, and the price beside any-to-any."""
    graph = expand(FABRICS.load(REDUNDANT), RAIL_ONLY_CLUSTER)
    lost = len(find_effects(graph, parse_faults(["leaf=1"], graph)).cut_off)
    yield claim("GPUs cut off by a rail switch where every rail has another one", str(lost))
    books = BillBooks(
        PRICE_BOOKS.load("2026"), POWER_BOOKS.load("2026"), CABLING_BOOKS.load("2026")
    )
    redundant, usual = (
        make_bill(FABRICS.load(fabric), RAIL_ONLY_CLUSTER, books).capital.base
        for fabric in (REDUNDANT, joined.name)
    )
    name = "rail-only with extra rail switches costs less than any-to-any: ratio"
    yield claim(name, f"{redundant / usual:.2f}", met=redundant < usual)


def _circuits(fabric: Fabric) -> Iterator[Check]:
    """Idle GPUs behind circuit switches: who finds one, and how many switches that takes."""
    sizing = fabric.sizing
    plan = CircuitPlan(
        SWITCHES.load("palomar").cages, sizing.domains, sizing.hb_size, fabric.ports_per_gpu
    )
    working = np.flatnonzero(~plan.idle_blocks(plan.sets))
    replaced = sum(
        plan.replaced(np.arange(sizing.hb_size) == gpu, plan.sets) for gpu in working.tolist()
    )
    yield claim(
        "a failed GPU of a domain of 256 finds an idle one on its circuit switches",
        "each" if replaced == len(working) else f"{replaced:,} of {len(working):,}",
    )
    yield claim(
        "circuit switches between GPUs and rail switches",
        f"{plan.switches:,} of {plan.cages:,} ports, where {fabric.switches:,} are rail switches",
    )


PRINTED_TIMES, LOST_SHARE = 5.0, 0.2
"""Throughput that one throttled GPU of 16 takes, and the rate that it must have lost for that [1].

In step no run is slower than its slowest GPU.
"""


def slow_gpu_checks() -> Iterator[Check]:
    """One throttled GPU of 16 that train in step.

    Yields
    ------
    Check
        How many times slower the run is.
    """
    asked = {"gpus": 16, "model": "llama-3-8b", "zero_stage": 3}
    fixed = {"tensor": 1, "pipeline": 1}
    slow = (
        Simulate.make("hgx-h100", **asked, fixed=fixed, slow=(f"gpu-5={LOST_SHARE}",)).ask().found
    )
    times = slow.iteration_time_s / (slow.intact_time_s or slow.iteration_time_s)
    got = f"{times:.2g} at a fifth of its rate"
    yield claim("one throttled GPU of 16: times slower", got, met=1 < times <= PRINTED_TIMES)
