"""Failures for people: fabrics side by side, then what each single failure does."""

from collections.abc import Iterator

from netplan.faults.impact import Impact
from netplan.questions.faults_answer import FabricFaults, FaultsAnswer, ScenarioImpact
from netplan.reports.text import Cell, number, plain_table

DASH = "-"
NEGLIGIBLE = 5e-5
"""A slowdown that is not worth a number [1]."""

CAUSES_SHOWN = 8
Rows = list[dict[str, Cell]]


def faults_text(answer: FaultsAnswer, width: int) -> str:
    """The answer as text of at most ``width`` columns."""
    return "\n".join(_parts(answer, width))


def _parts(answer: FaultsAnswer, width: int) -> Iterator[str]:
    yield _heading(answer)
    for title, rows, right in _tables(answer):
        if rows:
            yield f"{title}\n{plain_table(rows, width, right=right)}"
    for name, reason in answer.refused:
        yield f"{name}: {reason}\n"
    for fabric in answer.fabrics:
        if isinstance(fabric.scenario, str):
            yield f"{fabric.name}: not failed there: {fabric.scenario}\n"
    yield _legend(answer)


def _tables(answer: FaultsAnswer) -> Iterator[tuple[str, Rows, tuple[str, ...]]]:
    years = f"mean of {answer.inputs['years']:,} simulated years"
    yield f"A year of failures ({years})", years_rows(answer), NUMBERS
    yield "Time that counts", time_rows(answer), NUMBERS
    if answer.inputs["fail"]:
        yield f"Failed together: {' '.join(answer.inputs['fail'])}", scenario_rows(answer), NUMBERS
    if answer.inputs["fail"]:
        yield "Its training traffic, rerouted", load_rows(answer), NUMBERS
    for fabric in answer.fabrics:
        yield f"{fabric.name}: one part failed", single_rows(fabric), NUMBERS
    yield "After a failed GPU or port", recovery_rows(answer), ("price", "iteration")
    yield "Interruptions of a year by cause", cause_rows(answer), ()
    level = 100 * answer.inputs["service_level"]
    yield f"Spares for a service level of {level:g} %", spare_rows(answer), ()


def _heading(answer: FaultsAnswer) -> str:
    inputs = answer.inputs
    trained = f"; training {inputs['model']}" if inputs["model"] else ""
    return (
        f"Failures on {inputs['gpus']:,} GPUs in HB domains of {inputs['hb_size']:,}: switches of"
        f" {inputs['radix']} ports\nrates {inputs['failures']} ({inputs['rates']}), prices"
        f" {inputs['prices']}, seed {inputs['seed']}{trained}\n"
    )


NUMBERS = (
    *("switches", "links", "stops/year", "of network", "cut off/year"),
    *("MTBF", "counts", "checkpoint every", "Young", "Daly", "none down"),
    *("of", "down", "cut off", "HB pair", "pods", "slower"),
    *("needs", "before", "detours"),
)
"""Columns that hold numbers with their units."""


def years_rows(answer: FaultsAnswer) -> Rows:
    """Points of failure and interruptions, a row a fabric."""
    rows: Rows = []
    for fabric in answer.fabrics:
        years = fabric.forecast
        rows.append(
            {
                "fabric": fabric.name,
                "switches": number(fabric.switches),
                "links": number(fabric.links),
                "stops/year": number(years.interruptions_per_year),
                "of network": number(years.network_interruptions_per_year),
                "cut off/year": number(fabric.gpus_cut_off_per_year),
            }
        )
    return rows


def time_rows(answer: FaultsAnswer) -> Rows:
    """Time between failures, checkpoints, time that counts and its price, a row a fabric."""
    rows: Rows = []
    for fabric in answer.fabrics:
        years = fabric.forecast
        price = years.network_cost_per_effective_gpu_hour
        rows.append(
            {
                "fabric": fabric.name,
                "MTBF": f"{years.mtbf_h:.3g} h",
                "checkpoint every": f"{60 * years.interval_h:.1f} min",
                "counts": f"{100 * years.effective_time_ratio:.2f} %",
                "none down": DASH
                if years.no_switch_down is None
                else f"{100 * years.no_switch_down:.0f} %",
                f"{answer.currency}/h": DASH if price is None else f"{price:.4f}",
            }
        )
    return rows


def scenario_rows(answer: FaultsAnswer) -> Rows:
    """What the failures that were asked for do, a row a fabric."""
    rows: Rows = []
    for fabric in answer.fabrics:
        if not isinstance(fabric.scenario, ScenarioImpact):
            continue
        row = {"fabric": fabric.name, **_impact_cells(fabric.scenario.impact)}
        if fabric.scenario.draws > 1:
            time = fabric.scenario.mean_iteration_time_s
            row["mean of draws"] = DASH if time is None else f"{time:.3f} s"
            row["stopped"] = f"{fabric.scenario.stopped} of {fabric.scenario.draws}"
        rows.append(row)
    return rows


def load_rows(answer: FaultsAnswer) -> Rows:
    """The busiest network link of one iteration, before and after."""
    rows: Rows = []
    for fabric in answer.fabrics:
        found = fabric.scenario
        if not isinstance(found, ScenarioImpact) or found.loads is None:
            continue
        loads = found.loads
        rows.append(
            {
                "fabric": fabric.name,
                "busiest link": loads.busiest_link,
                "needs": f"{1e3 * loads.busiest_s:.4g} ms",
                "before": f"{1e3 * loads.intact_busiest_s:.4g} ms",
                "detours": f"{loads.detour_bytes / 1e9:,.4g} GB",
            }
        )
    return rows


def single_rows(fabric: FabricFaults) -> Rows:
    """One failure a row."""
    return [
        {"failed": one.kind, "of": number(one.parts), **_impact_cells(one.impact)}
        for one in fabric.singles
    ]


def _impact_cells(impact: Impact) -> dict[str, Cell]:
    return {
        "down": number(impact.gpus_down),
        "cut off": number(impact.gpus_cut_off),
        "HB pair": _share(impact.bandwidth_share),
        "pods": _share(impact.pod_share),
        "slower": _slower(impact.slowdown),
        "goes on": impact.way if impact.slowdown is not None else _without_time(impact),
    }


def _without_time(impact: Impact) -> str:
    return "stopped" if impact.way == "stopped" else impact.way


def _share(share: float | None) -> str:
    return DASH if share is None else f"{100 * share:.2f} %"


def _slower(slowdown: float | None) -> str:
    if slowdown is None:
        return DASH
    return "0" if abs(slowdown) < NEGLIGIBLE else f"{100 * slowdown:.2f} %"


def recovery_rows(answer: FaultsAnswer) -> Rows:
    """Ways to go on and what each needs."""
    rows: Rows = []
    for fabric in answer.fabrics:
        for way in fabric.recoveries:
            time = way.iteration_time_s
            rows.append(
                {
                    "fabric": fabric.name,
                    "way": way.way,
                    "needs": way.hardware,
                    "price": DASH if way.price is None else f"{way.price:,.0f}",
                    "iteration": DASH if time is None else f"{time:.3f} s",
                }
            )
    return rows


def cause_rows(answer: FaultsAnswer) -> Rows:
    """The causes that stop a job most often, one column a fabric."""
    totals: dict[str, dict[str, Cell]] = {}
    for fabric in answer.fabrics:
        for one in fabric.forecast.causes:
            if one.interruptions_per_year:
                text = f"{one.interruptions_per_year:,.1f} ± {one.half_width:.1f}"
                totals.setdefault(one.cause, {})[fabric.name] = text
    names = [fabric.name for fabric in answer.fabrics]
    order = _by_size(answer.fabrics)
    rows: Rows = []
    for cause in order[:CAUSES_SHOWN]:
        rows.append({"cause": cause})
        rows[-1].update((name, totals[cause].get(name, DASH)) for name in names)
    return rows


def _by_size(fabrics: tuple[FabricFaults, ...]) -> list[str]:
    sizes: dict[str, float] = {}
    for fabric in fabrics:
        for one in fabric.forecast.causes:
            most = max(sizes.get(one.cause, 0.0), one.interruptions_per_year)
            sizes[one.cause] = most
    return sorted((name for name in sizes if sizes[name]), key=lambda name: -sizes[name])


def spare_rows(answer: FaultsAnswer) -> Rows:
    """Spares by kind of part, one column a fabric."""
    kinds: dict[str, dict[str, Cell]] = {}
    for fabric in answer.fabrics:
        for row in fabric.forecast.spares:
            weeks = row.lead_h / (24 * 7)
            title = f"{row.kind}, {weeks:.2g} weeks"
            kinds.setdefault(title, {})[fabric.name] = f"{row.spares:,} for {row.units:,}"
    names = [fabric.name for fabric in answer.fabrics]
    rows: Rows = []
    for kind, found in kinds.items():
        rows.append({"part, delivery": kind})
        rows[-1].update((name, found.get(name, DASH)) for name in names)
    return rows


def _legend(answer: FaultsAnswer) -> str:
    return f"""\
stops/year: interruptions of a job on all GPUs; of network: by cards, links and
switches. cut off/year: GPUs that lose their port to a failed link or leaf switch.
counts: share of the time that is no checkpoint, rework or restart.
none down: chance that no switch is down at a moment.
{answer.currency}/h: the network's annuity and energy for an hour of useful work of a GPU.
down, cut off: GPUs that failed, and live ones whose own port leads nowhere.
HB pair, pods: bandwidth left between the worst pair of HB domains; throughput
left of an all-to-all between pods.
goes on: all GPUs at the pace of the worst-off, or without the HB domains that
are hit (plans must divide what is left: a spare domain helps), or on a spare.
"""
