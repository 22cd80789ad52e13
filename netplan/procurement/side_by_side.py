"""The fabrics of a procurement report side by side: price, what moves it, years, runs, speed."""

from collections.abc import Iterator

from netplan.costing.fabric_bill import FabricBill
from netplan.costing.materials import CABLE_PARTS, SWITCH_PARTS
from netplan.performance.error_bars import bar_note
from netplan.procurement.findings import Findings, range_column, told_column
from netplan.procurement.report_charts import driver_chart, price_chart, running_chart, speed_chart
from netplan.questions.answers.barred import barred_columns, behind
from netplan.questions.answers.bill_columns import no_high, ordered
from netplan.questions.answers.cost_answer import BOTH_ENDS, Priced, amount_column, years_table
from netplan.questions.answers.training_runs import TrainingRun
from netplan.questions.setup.inputs import told
from netplan.records import replace
from netplan.reports.quantities import Scale, listed, part_words, quantity
from netplan.reports.sections import (
    Column,
    Heading,
    Paragraph,
    Section,
    Table,
    column,
    columns,
    value_at,
)

KILO = 1e3


def comparison_chapter(answer: Findings) -> Iterator[Section]:
    """All fabrics side by side; the recommended one is set off."""
    priced, scale, each = answer.cost, answer.cost.scale, f"{answer.cost.currency}/GPU"
    said = (
        "Price of the network, without servers and accelerators. ≥ marks a sum to which parts"
        " without a price are still to be added, + a range whose parts have no high in the book."
        " Switches, modules and cables are those ordered, spares included."
    )
    yield Heading("Fabrics side by side", (said,), "comparison")
    side: list[Column[Priced]] = [
        column("fabric", "name", mark=lambda row: ("", " *" if row.name in answer.unsold else "")),
        amount_column(scale.of_money("cost_base"), "capital.base"),
        range_column("bill.capital", scale),
        amount_column("cost_per_gpu", "per_gpu.base", title=each),
        told_column("switches", "switches_ordered", ordered(*SWITCH_PARTS), form="count"),
        *columns("ports_per_gpu", "gpu_bytes_per_s", of="bill.fabric"),
        told_column("modules", get=ordered("transceiver"), form="count"),
        told_column("cables", get=ordered(*CABLE_PARTS.values()), form="count"),
        amount_column("power_w", "power_w", title="power, kW"),
    ]
    if answer.timed:
        rows = {row.name: row for row in answer.comparison.rows}
        if any(best.error for best in answer.timed.values()):
            side += barred_columns(
                lambda one: answer.timed.get(one.name), lambda one: rows[one.name].mfu
            )
        else:
            time = quantity("iteration_time_s", title="iteration, s", suffix="")
            side += [
                column(time, lambda one: value_at(rows[one.name], "best.iteration_time_s")),
                column("mfu", lambda one: rows[one.name].mfu),
            ]
    chosen, foreign = answer.recommendation.fabric, [*answer.unsold.values()][:1]
    yield Table(
        "fabrics",
        side,
        priced.rows,
        legend=tuple(f"* not sold for {sold_in}: not in the verdict." for sold_in in foreign),
        chosen=lambda row: row.name == chosen,
    )
    for best in list(answer.timed.values())[:1]:
        yield from (Paragraph(said, "quiet") for said in bar_note(best.error))
    for row in priced.refused:
        yield Paragraph(f"{row.name}: {row.reason}", "quiet")


def price_chapter(answer: Findings) -> Iterator[Section]:
    """Prices by category."""
    said = "Bars: base prices by category. Whiskers: all prices at their low and all at their high."
    yield Heading("What each fabric costs", (said,), "price")
    yield price_chart(answer.cost)


def drivers_chapter(answer: Findings) -> Iterator[Section]:
    """What moves the price of the chosen fabric, and where the order of prices turns."""
    yield Heading(f"What moves the price of {answer.chosen.name}", (), "drivers")
    chart = driver_chart(answer.cost, answer.chosen, answer.definition.drivers_shown)
    if chart is None:
        said = "The price book states no spread for the parts of this fabric; the price is one"
        yield Paragraph(f"{said} number.")
    else:
        said = "One part at a time at its lowest and highest price, all others at base: the top bar"
        said = f"{said} is the price to negotiate first."
        bare = [one for one in answer.chosen.drivers if one.stated != BOTH_ENDS]
        if bare:
            total = answer.chosen.capital.base or 1.0
            told = listed(
                [
                    f"{part_words(one.part)} ({one.stated}, {100 * one.amount / total:.0f} % of the"
                    " price)"
                    for one in bare
                ]
            )
            said += f" Not known whole, so at base where nothing is stated: {told}."
        yield Paragraph(said, "quiet")
        yield chart
    for statement in answer.cost.statements:
        yield Paragraph(statement)


def running_chapter(answer: Findings) -> Iterator[Section]:
    """Energy and yearly cost of every fabric, and of one training run."""
    inputs, scale = answer.cost.inputs, answer.cost.scale
    money = scale.of_money
    said = (
        f"Annuity of the price over {inputs['years']} years, and energy at a PUE of"
        f" {inputs['pue']:g} and {inputs['tariff_per_kwh']:.4g} {answer.cost.currency} per kWh."
    )
    yield Heading("Energy and yearly cost", (said,), "running")
    yield running_chart(answer.cost)
    used, energy = "energy_kwh_per_year", f"energy, {scale.title} a year"
    columns: list[Column[FabricBill]] = [
        column("fabric", "name"),
        amount_column("power_w", "power_w", title="power, kW"),
        amount_column(used, f"life.{used}.base", title="MWh a year", scale=KILO),
        amount_column(money("energy_per_year", energy), "life.energy_per_year.base"),
        range_column("life.energy_per_year", scale, lambda _: False),
        amount_column(money("annuity_per_year", "annuity"), "life.annuity_per_year.base"),
        amount_column(money("cost_per_year", "cost a year"), "life.per_year.base"),
        range_column("life.per_year", scale),
        amount_column(money("cost_over_life", f"both, {inputs['years']} times"), "life.total.base"),
    ]
    chosen = answer.chosen.name
    yield Table("yearly cost", columns, answer.cost.bills, chosen=lambda bill: bill.name == chosen)
    yield years_table(inputs, answer.cost.bills, scale)
    yield from () if answer.serves else _training_run(answer)


def _training_run(answer: Findings) -> Iterator[Section]:
    """What the network costs one training run, and a useful PFLOP/s; nothing without timing."""
    unit, tokens = answer.cost.currency, answer.run_tokens
    bills = {bill.name: bill for bill in answer.cost.bills}

    def lacking(run: TrainingRun) -> tuple[str, str]:
        return ("≥ " if bills[run.fabric].quote.unpriced else ""), ""

    days = behind(lambda run: run.days, lambda run: answer.timed[run.fabric].error, 1)
    whole, useful = Scale(1.0, unit, 0), f"{unit} per useful PFLOP/s"
    run_cost = told_column(f"network, {unit} a run", "run_cost", "cost.base", form="count")
    each = told_column(useful, "cost_per_effective_pflops", "price_per_pflops.base", form="count")
    of_run: list[Column[TrainingRun]] = [
        told_column("iterations", form="count"),
        replace(told_column("days", form="fixed", digits=1), mark=days),
        replace(run_cost, mark=lacking),
        range_column("cost", whole, lambda run: no_high(bills[run.fabric])),
    ]
    columns: list[Column[TrainingRun]] = [
        column("fabric"),
        *(of_run if tokens else ()),
        replace(each, mark=lacking),
        range_column("price_per_pflops", whole, lambda run: no_high(bills[run.fabric])),
    ]
    model = told(answer.inputs)["model"]
    said = f"{model} has no tokens, and so no run of known length."
    if tokens:
        billions = float(f"{tokens[0] / 1e9:.3g}")
        said = (
            f"{model} on {billions:,g} billion tokens ({tokens[1]}), without"
            " interruptions; the network's annuity and energy in that time."
        )
    chosen = answer.chosen.name
    yield Table(
        "training run",
        columns,
        answer.runs,
        title="One training run" if tokens else "Useful work",
        legend=(said,),
        chosen=lambda run: run.fabric == chosen,
    )


def speed_chapter(answer: Findings) -> Iterator[Section]:
    """Iteration time against price, where fabrics were timed."""
    inputs, chosen = told(answer.inputs), answer.chosen.name
    chart = speed_chart(answer.cost, answer.timed, chosen, str(inputs["model"]))
    if chart is None:
        return
    said = (
        f"One iteration of {inputs['model']} at a global batch of {inputs['batch']:,}, each fabric"
        " with its best parallel plan. Lower is faster, further left is cheaper."
    )
    yield Heading("Speed against price", (said,), "speed")
    yield chart
