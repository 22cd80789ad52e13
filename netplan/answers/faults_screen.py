"""Words of failures: the first screen, spares, and policies after a failed GPU.

Interruptions of a year, goodput, spares to keep, the worst single part, what would help most.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from netplan.answers.faults_rows import FabricFaults, together_of
from netplan.costing.fabric_bill import RefusedFabric
from netplan.costing.ranges import Range
from netplan.faults.damage.impact import FaultHandling, Impact, Single
from netplan.faults.years.forecast import Flaps, ReliabilityForecast, Spares
from netplan.faults.years.policies import Policy
from netplan.faults.years.rates import PLACES, Unit
from netplan.faults.years.recovery_presets import RecoveryPreset
from netplan.records import replace
from netplan.reports.quantities import listed, quantity
from netplan.reports.screen import columns_of, shares_of
from netplan.reports.sections import Column, Table, column, columns
from netplan.units import (
    DAYS_PER_WEEK,
    HOURS_PER_DAY,
    HOURS_PER_YEAR,
    MINUTES_PER_HOUR,
    PERCENT,
    SECONDS_PER_HOUR,
    counted,
    rounded,
)

PARTS = {
    "gpu": "a GPU",
    "nic": "a network card",
    "host": "a link to a GPU",
    "hb-link": "a link inside an HB domain",
    "hb-switch": "a switch inside an HB domain",
    "domain": "an HB domain",
    "leaf": "a leaf switch",
    "spine": "a spine switch",
    "core": "a core switch",
    "group": "a group",
    "fibre": "a fibre pair between sites",
    "route": "all fibre between two sites",
}
"""Kinds of parts that fail, in words."""

KEPT = {
    "gpu": "GPU",
    "nic": "network card",
    "transceiver": "module",
    "link": "cable",
    "switch": "switch",
}
"""Kinds of spares, in words of one."""

WAYS: Mapping[FaultHandling, str] = {
    "spare": "a spare HB domain takes over",
    "stopped": "the job stops",
}
"""How a job goes on where it does not on what is left, in words."""

ROLLED_BACK = "work rolled back"
NOT_RANKED = ", which presets without a remainder leave out: do not rank them by this"
"""What to say of a recovery with a remainder beside one without."""
NO_SUCH_PART, QUOTES = "unknown kind of part ", "'"
"""How the reason starts where a fabric has no such parts."""
MINUTE_H = 1 / MINUTES_PER_HOUR
"""Below which a time is shown in seconds [h]."""
LEAST_SLOWDOWN = 5e-5
"""From which on an iteration is slower for people [1]."""


def five_lines(inputs: Mapping[str, Any], fabrics: Sequence[FabricFaults]) -> Iterator[str]:
    """Interruptions, goodput, spares, the worst single part, what would help most.

    Parameters
    ----------
    inputs
        Inputs of the answer.
    fabrics
        The fabrics that were built, one at least.

    Yields
    ------
    str
        One line each.
    """
    yield f"{_interruptions(fabrics)}."
    yield f"{_goodput(fabrics)}."
    kept = spares_words([fabric.forecast.spares for fabric in fabrics])
    yield f"Spares to keep ({PERCENT * inputs['service_level']:g} %): {kept}."
    yield f"Worst single part: {_worst_part(fabrics)}."
    yield f"Helps most: {_most_help(fabrics, inputs['remainder_minutes'] / MINUTES_PER_HOUR)}."


def together_line(fabrics: Sequence[FabricFaults], asked: Sequence[str]) -> Iterator[str]:
    """What the failures that were asked for do together, at most, and which fabrics have none."""
    impacts = {name: scenario.impact for name, scenario in together_of(fabrics)}
    if not impacts:
        return
    stopped = [name for name, impact in impacts.items() if impact.way == "stopped"]
    done = f"nothing can train on {listed(stopped)}" if stopped else _hit(impacts)
    spared = (_spared(fabric) for fabric in fabrics if isinstance(fabric.scenario, str))
    yield f"{' '.join(asked)} together: {'; '.join((done, *spared))}."


def _hit(impacts: Mapping[str, Impact]) -> str:
    """GPUs down or cut off, and how much slower the job is, each on the fabrics with the most."""
    down = {name: impact.gpus_down + impact.gpus_cut_off for name, impact in impacts.items()}
    apart = max(impact.gpus_partitioned for impact in impacts.values())
    slower = {name: impact.slowdown for name, impact in impacts.items()}
    known = {name: share for name, share in slower.items() if share is not None}
    most, where = _most(down)
    words = [f"{most}{counted(max(down.values()), 'GPU')} down or cut off{where}"]
    if apart:
        words.append(f"{apart:,} in parts apart")
    if known:
        most, where = _most(known) if max(known.values()) >= LEAST_SLOWDOWN else ("", "")
        words.append(f"{most}{_slower(max(known.values()))}{where}")
    return ", ".join(words)


def _most(numbers: Mapping[str, float]) -> tuple[str, str]:
    """Words around the largest of some fabrics' numbers: none where all have the same."""
    most = max(numbers.values())
    names = [name for name, number in numbers.items() if number == most]
    return ("", "") if len(names) == len(numbers) else ("at most ", f" ({', '.join(names)})")


def _spared(fabric: FabricFaults) -> str:
    """Why what was asked for does not fail on a fabric."""
    why = str(fabric.scenario).partition(": known")[0]
    kind = why.removeprefix(NO_SUCH_PART)
    if kind != why:
        return f"{fabric.name} has no {kind.strip(QUOTES)}"
    return f"{fabric.name} is not failed: {why}"


def together_table(table: Table[Any]) -> Table[Any]:
    """The table of failures together, with the columns that decide."""
    kept = columns_of(table, "fabric", "gpus_down", "gpus_cut_off", "bandwidth_share")
    more = columns_of(table, "slowdown", "way")
    legend = "cut off: no way out of a GPU's port; HB pair: bandwidth left of the worst two."
    return replace(table, columns=(*kept, *more), title="", legend=(legend,))


def fabrics_table(
    inputs: Mapping[str, Any], currency: str, fabrics: Sequence[FabricFaults]
) -> Table[FabricFaults]:
    """One row a fabric: interruptions, goodput, the worst part, the price of a useful hour."""
    hour_price = quantity("network_cost_per_effective_gpu_hour", title=f"{currency}/h")
    columns: list[Column[FabricFaults]] = [
        column("fabric", "name"),
        column("interruptions", interruptions_cell, form="code"),
        column("goodput_between", goodput_cell, title="goodput", form="code"),
        column("worst", _worst_cell, title="worst part", form="text"),
        column(hour_price, f"forecast.{hour_price.name}", mark=in_part),
    ]
    legend = (
        f"interruptions (): 95 % of {inputs['years']:,} simulated years;"
        f"{' goodput (): as clusters differ;' if any(map(has_spread, fabrics)) else ''}"
        f" {currency}/h: network of a GPU's useful hour."
    )
    return Table("years", columns, fabrics, legend=(legend,))


def _through(policy: Policy) -> str:
    """Circuit switches of a policy, and whose place a spare may take on them."""
    if not policy.circuit_switches:
        return ""
    inside = f", {policy.circuits_inside:,} of them in domains" if policy.circuits_inside else ""
    many = policy.set_domains > 1
    of = f" in each of {policy.set_domains:,} domains" if many else " of its domain"
    switches = f"; {counted(policy.circuit_switches, 'circuit switch', 'circuit switches')}{inside}"
    return f"{switches}, on which a spare takes the place of any of {policy.set_gpus:,} GPUs{of}"


def no_gain(fabric: str, policies: Sequence[Policy]) -> Iterator[str]:
    """Why a policy that gets less done than the job does without it is not worth its price.

    Parameters
    ----------
    fabric
        Name of the network.
    policies
        The job as it goes on without a policy, and with it; empty where none was asked for.

    Yields
    ------
    str
        A sentence, where the policy does not get more work done.
    """
    if not policies:
        return
    without, *others = policies
    for policy in others:
        if not without.work_share or policy.work_share is None:
            continue
        if policy.work_share > without.work_share:
            continue
        before, after = (PERCENT * years.forecast.goodput for years in (without, policy))
        idle = PERCENT * (1 - policy.work_share / policy.forecast.goodput)
        goodput = f"{after:.2f} % instead of {before:.2f} %"
        if policy.idle_gpus and after > before:
            reason = (
                f"{counted(policy.idle_gpus, 'idle GPU')} cost {idle:.2f} % of the work, and save"
                f" less: goodput of the others is {goodput}"
            )
        else:
            interruptions, few = (
                years.forecast.interruptions_per_year for years in (policy, without)
            )
            reason = f"{interruptions:,.0f} interruptions a year for {few:,.0f}, goodput {goodput}"
            if policy.circuit_switches and interruptions > few:
                parts = counted(policy.circuit_switches, "circuit switch", "circuit switches")
                parts = f"{parts}, their fibres and {policy.single_mode_modules:,} modules fail"
                reason += f"; {parts}, and a spare saves no restart"
        yield f"Policy {without.policy} does more on {fabric} than {policy.policy}: {reason}."


def remarks(
    currency: str,
    fabrics: Sequence[FabricFaults],
    refused: Sequence[RefusedFabric],
    recovery: RecoveryPreset | None = None,
    gpus: int = 0,
) -> Iterator[str]:
    """Causes, idle domains, policies that were asked for, and fabrics that are not there."""
    for fabric in fabrics:
        for policy in fabric.policies:
            least = "" if policy.price_complete else "≥ "
            price = "" if policy.price is None else f", {least}{policy.price:,.0f} {currency}"
            price += " more on its bill" if price else ""
            price = ", nothing more on its bill" if policy.price == 0 else price
            share = "-" if policy.work_share is None else f"{PERCENT * policy.work_share:.2f} %"
            work = f"{fabric.name}, policy {policy.policy}: {share} of all work{price}"
            yield f"{work}{_through(policy)}."
    first = fabrics[0]
    yield from _bad_servers(first.forecast, first.name)
    if recovery is not None:
        yield from _preset(recovery, gpus)
    causes = [(cause.cause, cause.interruptions_per_year) for cause in first.forecast.causes]
    shares = shares_of(causes, first.forecast.interruptions_per_year)
    if shares:
        network = [
            PERCENT
            * fabric.forecast.network_interruptions_per_year
            / (fabric.forecast.interruptions_closed_form or 1.0)
            for fabric in fabrics
        ]
        yield f"Causes on {first.name}: {shares}; the network {between(network, '.0f')} %."
    yield from _flapping(first.forecast.flaps, first.name)
    idle = [fabric.forecast.idle_domains_needed for fabric in fabrics]
    groups = [fabric.forecast.idle_domains_needed_with_groups for fabric in fabrics]
    yield (
        f"Idle HB domains that cover what is down: {between(idle)}, with leaves, racks and feeds"
        f" {between(groups)} (--spare-domains)."
    )
    yield from (f"{row.name} is not there: {row.reason}" for row in refused)


def not_ranked(recovery: RecoveryPreset) -> Iterator[str]:
    """What the goodput of a recovery does not compare with, where it counts more than others."""
    if recovery.remainder is not None and recovery.counts_rolled_back:
        yield f"{recovery.name} counts {recovery.remainder.what}{NOT_RANKED}."


def _preset(recovery: RecoveryPreset, gpus: int) -> Iterator[str]:
    """What else a recovery takes on so many GPUs."""
    if recovery.machines is not None:
        machines = recovery.machines.value_on(gpus).base
        same = f" (the same as {listed(recovery.aliases)})" if recovery.aliases else ""
        yield (
            f"{recovery.name}{same}: {machines:.0f} {recovery.machines.what} beside these GPUs"
            " (--spare-domains, whose network is on the bill)."
        )


def _bad_servers(forecast: ReliabilityForecast, name: str) -> Iterator[str]:
    """What bad servers cost, where there are any."""
    without = forecast.goodput_without_bad_servers
    if without is not None:
        share = PERCENT * forecast.bad_servers_per_year / forecast.interruptions_closed_form
        yield (
            f"Bad servers make {share:.0f} % of the interruptions on {name}: without them goodput"
            f" {PERCENT * without:.2f} %."
        )


def _flapping(flaps: Flaps | None, name: str) -> Iterator[str]:
    """Links that go down for seconds, apart from failures."""
    if flaps is not None:
        through = "ride through" if flaps.rides_through else "hold the job up"
        yield (
            f"Apart from that (assumed): {rounded(flaps.per_year.base, 3)} flaps of links to GPUs"
            f" on {name} {through}, {range_words(flaps.held_up_h)} h a year."
        )


def spares_words(fabrics: Sequence[Sequence[Spares]]) -> str:
    """Spares of each kind, from the fewest to the most that a fabric needs.

    Parameters
    ----------
    fabrics
        Spares of each fabric.

    Returns
    -------
    str
        Such as ``29 GPUs, 3-4 switches``.

    Examples
    --------
    >>> spares_words([[Spares("gpu", ("gpu",), 8, 1.0, 1.0, 120, 1, 0.99)],
    ...     [Spares("gpu", ("gpu",), 8, 1.0, 1.0, 120, 3, 0.99)]])
    '1-3 GPUs'
    """
    counts: dict[str, list[int]] = {}
    for rows in fabrics:
        for row in rows:
            counts.setdefault(row.kind, []).append(row.spares)
    words = []
    for kind, spares in counts.items():
        if max(spares):
            word = KEPT.get(kind, kind)
            many = word + ("es" if word.endswith("ch") else "s")
            words.append(f"{between(spares)} {word if max(spares) == 1 else many}")
    return ", ".join(words) if words else "none"


def _interruptions(fabrics: Sequence[FabricFaults]) -> str:
    """Interruptions of a year, and the time between two."""
    if len(fabrics) == 1:
        forecast = fabrics[0].forecast
        return (
            f"Interruptions: {interruptions_cell(fabrics[0])} a year, one every"
            f" {rounded(forecast.mtbf_h, 3)} h"
        )
    low, high = _ends(fabrics, lambda fabric: fabric.forecast.interruptions_per_year)
    few, many = (rounded_count(fabric.forecast.interruptions_per_year) for fabric in (low, high))
    every = f"every {rounded(high.forecast.mtbf_h, 2)} h"
    if few == many:
        return f"Interruptions: {many} a year on every fabric, {every}"
    return f"Interruptions: {few} ({low.name}) to {many} ({high.name}) a year, {every}"


def _goodput(fabrics: Sequence[FabricFaults]) -> str:
    """Share of all work that is useful, and of the time, at whatever speed, as runs publish it."""
    shares = [PERCENT * fabric.forecast.effective_time_ratio for fabric in fabrics]
    time = f"time that counts, slow or not: {between(shares, '.1f')} %"
    if len(fabrics) == 1:
        differ = ", () as clusters differ" if has_spread(fabrics[0]) else ""
        return f"Goodput: {goodput_cell(fabrics[0])} of a job without failures{differ}; {time}"
    low, high = _ends(fabrics, lambda fabric: fabric.forecast.goodput)
    bound = "at most " if high.is_upper_bound else ""
    least, most = (f"{PERCENT * fabric.forecast.goodput:.2f} %" for fabric in (low, high))
    ends = (low.forecast.goodput_low, max(high.forecast.goodput_high, high.forecast.goodput))
    clusters = f"clusters: {'-'.join(f'{PERCENT * end:.0f}' for end in ends)} %; "
    differ = f"{clusters if any(map(has_spread, fabrics)) else ''}{time}"
    if least == most:
        return f"Goodput: {bound}{most} on every fabric; {differ}"
    return f"Goodput: {bound}{least} ({low.name}) to {most} ({high.name}); {differ}"


def _worst_part(fabrics: Sequence[FabricFaults]) -> str:
    """The part whose failure alone does most, and on which fabric."""
    rows = [(fabric, single) for fabric in fabrics if (single := worst_of(fabric.singles))]
    if not rows:
        return "none was tried"
    worst, single = max(rows, key=lambda row: _weight(row[1]))
    name = worst.name
    impact = single.impact
    part = PARTS.get(single.kind, f"a part of kind {single.kind}")
    on = f" of {name}" if len(fabrics) > 1 else ""
    gpus = impact.gpus_down or impact.gpus_cut_off
    lost = f" ({counted(gpus, 'GPU')} {'down' if impact.gpus_down else 'cut off'})" if gpus else ""
    without = " without it" if impact.way == "without" else ""
    if impact.way in WAYS:
        return f"{part}{on}{lost}: {WAYS[impact.way]}"
    if impact.slowdown is None:
        return f"{part}{on}{lost}: the job goes on{without}"
    more = worst.batch_slowdown or 0.0
    batch = f", {PERCENT * more:.2g} % since plans must divide" if without and more else ""
    return f"{part}{on}{lost}: {_slower(impact.slowdown)}{without}{batch}"


def _most_help(fabrics: Sequence[FabricFaults], remainder_h: float) -> str:
    """Where most of the time goes, and what would save it, on the fabric of most goodput."""
    best = max(fabrics, key=lambda fabric: fabric.forecast.goodput)
    lost = best.forecast.lost_h
    beyond = min(remainder_h * best.forecast.interruptions_per_year, lost["rework"])
    hours = {
        "restarts": lost["restart"],
        "checkpoints": lost["checkpoint"] + lost["rework"] - beyond,
        ROLLED_BACK: beyond,
        "spare HB domains": lost["waiting"],
        "repairs": best.forecast.slowed_h,
    }
    first, second, *_ = sorted(hours, key=lambda name: -hours[name])
    quicker = {"spare HB domains": "", ROLLED_BACK: "less "}.get(first, "quicker ")
    return (
        f"{quicker}{first} ({hours[first]:,.0f} h a year,"
        f" {PERCENT * hours[first] / HOURS_PER_YEAR:.1f} %), then {second}"
        f" ({hours[second]:,.0f} h)"
    )


def worst_of(singles: Sequence[Single[Impact]]) -> Single[Impact] | None:
    """The part whose failure alone does most; of equal ones the largest."""
    return max(singles, key=_weight, default=None)


def _weight(single: Single[Impact]) -> tuple[bool, float, int]:
    impact = single.impact
    return impact.way == "stopped", impact.slowdown or 0.0, impact.gpus_down + impact.gpus_cut_off


def _worst_cell(fabric: FabricFaults) -> str:
    """The worst part of a fabric, and how much slower the job is without it."""
    single = worst_of(fabric.singles)
    if single is None:
        return ""
    if single.impact.way == "stopped":
        return f"{single.kind}, stops"
    slowdown = single.impact.slowdown
    return single.kind if slowdown is None else f"{single.kind} +{PERCENT * slowdown:.2f} %"


def interruptions_cell(fabric: FabricFaults) -> str:
    """Interruptions of a year, and what 95 % of the years have."""
    forecast = fabric.forecast
    ends = f"{forecast.interruptions_low:,.0f}-{forecast.interruptions_high:,.0f}"
    return f"{rounded_count(forecast.interruptions_per_year)} ({ends})"


def goodput_cell(fabric: FabricFaults) -> str:
    """Goodput, and what it is with the most and the fewest interruptions of clusters."""
    forecast = fabric.forecast
    least = "≤ " if fabric.is_upper_bound else ""
    ends = f" ({spread_words(forecast)})" if has_spread(fabric) else ""
    return f"{least}{PERCENT * forecast.goodput:.2f} %{ends}"


def has_spread(fabric: FabricFaults) -> bool:
    """Whether the failure book says how clusters or its own rates differ, or storage does."""
    return fabric.forecast.goodput_low < fabric.forecast.goodput_high


def spread_words(forecast: ReliabilityForecast) -> str:
    """Goodput with the most and the fewest interruptions, in whole percents."""
    ends = (
        min(forecast.goodput_low, forecast.goodput),
        max(forecast.goodput_high, forecast.goodput),
    )
    return "-".join(f"{PERCENT * end:.0f}" for end in ends)


def range_words(values: Range) -> str:
    """A range for people, its base first.

    Examples
    --------
    >>> range_words(Range(10.0, 114688.0, 2e6))
    '115,000 (10-2,000,000)'
    """
    base, low, high = (rounded(value, 3) for value in (values.base, values.low, values.high))
    return f"{base} ({low}-{high})"


def duration_words(hours: float) -> str:
    """A time, in the unit that suits it.

    Examples
    --------
    >>> [duration_words(hours) for hours in (0.01 / 3600, 10 / 3600, 0.125, 2.0)]
    ['0.01 s', '10 s', '7.5 min', '2 h']
    """
    if hours < MINUTE_H:
        return f"{SECONDS_PER_HOUR * hours:.2g} s"
    return f"{MINUTES_PER_HOUR * hours:.2g} min" if hours < 1 else f"{hours:.2g} h"


def recovery_words(
    inputs: Mapping[str, Any], forecast: ReliabilityForecast, recovery: RecoveryPreset | None
) -> str:
    """How the job saves its work and comes back, in the heading of a screen."""
    write, restart = (
        duration_words(inputs[name] / MINUTES_PER_HOUR)
        for name in ("checkpoint_write_minutes", "restart_minutes")
    )
    low, high = (
        duration_words(hours) for hours in (forecast.interval_low_h, forecast.interval_high_h)
    )
    every = duration_words(forecast.interval_h)
    unit = every.partition(" ")[2]
    alike = low.endswith(f" {unit}") and high.endswith(f" {unit}")
    ends = f"{low.split()[0]}-{high.split()[0]}" if alike else f"{low} to {high}"
    apart = "" if low == high else f" ({ends})"
    beyond = inputs["remainder_minutes"]
    lost = f", {beyond:.3g} min of work rolled back{NOT_RANKED}" if beyond else ""
    assumed = recovery is not None and recovery.write.evidence == "assumed"
    name = f"recovery {inputs['recovery']}{' (assumed)' * assumed}"
    return f"{name}: checkpoints of {write} every {every}{apart}, restarts of {restart}{lost}"


def _slower(slowdown: float) -> str:
    """How much slower, in words."""
    if slowdown < LEAST_SLOWDOWN:
        return "not slower"
    return f"{PERCENT * slowdown:.2g} % slower"


def _ends(
    fabrics: Sequence[FabricFaults], key: Callable[[FabricFaults], float]
) -> tuple[FabricFaults, FabricFaults]:
    """The fabrics of the least and the most."""
    return min(fabrics, key=key), max(fabrics, key=key)


def between(numbers: Sequence[float], form: str = ",.0f") -> str:
    """The least and the most of some numbers; one where they look the same.

    Examples
    --------
    >>> between([3, 4]), between([0.2, 0.21], ".1f")
    ('3-4', '0.2')
    """
    low, high = (format(end, form) for end in (min(numbers), max(numbers)))
    return low if low == high else f"{low}-{high}"


def rounded_count(number: float) -> str:
    """A number in whole ones, or in tenths below a hundred."""
    return f"{number:,.0f}" if number >= WHOLE else f"{number:.1f}"


WHOLE = 99.95
"""Number from which no tenths are shown [1]."""


def in_part(fabric: FabricFaults) -> tuple[str, str]:
    """Mark of a price of which parts are missing."""
    known = fabric.forecast.network_cost_per_effective_gpu_hour is not None
    return ("≥ ", "") if known and not fabric.network_cost_complete else ("", "")


COUNTED: Mapping[Unit, str] = {
    "host_link": "links between hosts and leaves, which are replaced with their modules",
    "trunk_link": "links between switches",
    "fibre": "fibres",
    "copper_cable": "copper cables",
    "dac": "passive copper cables",
    "aec": "active copper cables",
    "aoc": "active optical cables",
    "host_transceiver": "modules of links between hosts and leaves",
    "trunk_transceiver": "modules of links between switches",
}
"""What a row of spares counts, where the name of its kind does not say it."""


def counted_parts(spares: Spares) -> Iterator[str]:
    """Which parts of a fabric a row of spares is about, if that is not clear from its name."""
    units = list(spares.counted)
    for whole, places in PLACES.items():
        parts = [unit for _, unit in places]
        if set(parts) <= set(units):
            units[units.index(parts[0])] = whole
            units.remove(parts[1])
    counted_words = [COUNTED[unit] for unit in units if unit in COUNTED]
    if counted_words:
        yield f"{spares.kind}: {listed(counted_words)}."


def delivery(spares: Spares) -> str:
    """Part and time until a new one is there.

    Examples
    --------
    >>> days, weeks = (Spares("gpu", ("gpu",), 8, 1.0, 1.0, hours, 1, 0.99) for hours in (120, 672))
    >>> delivery(days), delivery(weeks)
    ('gpu, 5 days', 'gpu, 4 weeks')
    """
    days = spares.lead_h / HOURS_PER_DAY
    if days < 2 * DAYS_PER_WEEK:
        return f"{spares.kind}, {days:.2g} days"
    return f"{spares.kind}, {days / DAYS_PER_WEEK:.2g} weeks"


OF_POLICIES = ("interruptions_closed_form", "goodput_closed_form", "goodput_half_width")
POLICIES_LEGEND = (
    (
        "reconfigure: in every HB domain idle GPUs stand by, which optical circuit switches between"
        " GPUs and rails bring onto the rail of a failed one on the same switches; replace: spare"
        " blocks beside the domains take the place of a failed one's, on its rails and in the"
        " core of its domain; go-on, wait: the domain is left out, or idle domains take over."
    ),
    (
        "HB pair, iteration: after one failed GPU. taken over: failures of GPUs and their cards"
        " that find a spare. work: useful work of the years over that of all GPUs without"
        " failures; goodput: the same of the GPUs that the job has. Price: what comes on top of the"
        " fabric's own bill in its hall, none where that holds the circuit switches; with cards,"
        " modules and fibres of spare GPUs, not the GPUs."
    ),
)


def policies_tables(
    fabrics: Sequence[tuple[str, Sequence[Policy]]], currency: str
) -> Iterator[Table[tuple[str, Policy]]]:
    """One row a fabric and policy, where any was asked for."""
    rows = [(name, policy) for name, policies in fabrics for policy in policies]
    if not rows:
        return
    kept = (text for name, policies in fabrics for text in no_gain(name, policies))
    shown: list[Column[tuple[str, Policy]]] = [
        column("fabric", "0"),
        *columns("policy", "idle_gpus", "circuit_switches", "extra_gpus", of="1"),
        *columns("block_gpus", "set_gpus", "set_domains", of="1", shown="wide"),
        *columns("circuits_inside", "circuit_ports", "circuit_ports_used", of="1", shown="data"),
        column("circuit_power_w", "1.circuit_power_w", shown="wide"),
        column("single_mode_modules", "1.single_mode_modules", shown="data"),
        column(quantity("price", title=currency), "1.price", mark=lacks_a_price),
        column("price_complete", "1.price_complete", shown="data"),
        *columns("bandwidth_share", "iteration_time_s", "replaced_share", of="1"),
        column("interruptions_per_year", "1.forecast.interruptions_per_year", title="stops"),
        column("goodput", "1.forecast.goodput"),
        *columns(*OF_POLICIES, "domains_down", of="1.forecast", shown="data"),
        column("work_share", "1.work_share"),
    ]
    yield Table("policies", shown, rows, "After a failed GPU, by policy", (*POLICIES_LEGEND, *kept))


def lacks_a_price(row: tuple[str, Any]) -> tuple[str, str]:
    """Mark of a price of hardware of which parts have none."""
    return ("", "") if row[1].price is None or row[1].price_complete else ("≥ ", "")
